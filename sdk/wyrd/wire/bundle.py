"""`metadata.yaml` of a bundle: which Cards it holds, where, and what their files must be.

The layout is that of the published clients; `card_sha256` is ours, and absent from their bundles.
Paths are relative to the bundle and use `/`. Digests are base64 SHA-256, sizes bytes.
"""

from __future__ import annotations

import os
import re
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from wyrd.wire.cards import Base64Digest
from wyrd.wire.refs import CardRef

API_VERSION: Final = "wyrd/bundle/v1"
MANIFEST = "metadata.yaml"
MAX_PATH_BYTES = 1024

_DRIVES = os.name == "nt"
_SEGMENT = re.compile(r"[^/\\\x00-\x1f\x7f]{1,255}")


def is_inner_path(path: str) -> bool:
    """Whether the text is `a/b/c`: at most 1,024 bytes, no backslash or control character, no empty, `.`
    or `..` segment, and no colon where that names a drive."""
    return len(path.encode("utf-8", "surrogatepass")) <= MAX_PATH_BYTES and all(
        _SEGMENT.fullmatch(part) and part not in (".", "..") and not (_DRIVES and ":" in part)
        for part in path.split("/")
    )


def _inner(path: str) -> str:
    if not is_inner_path(path):
        raise ValueError("is no path inside the bundle")
    return path


InnerPath = Annotated[str, AfterValidator(_inner)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True, defer_build=True)


class BundledFile(_Part):
    """One file of a Card. `local_path` is None when only metadata was pulled."""

    relative_path: InnerPath
    sha256: Base64Digest
    size_bytes: int = Field(ge=0, le=2**63 - 1)
    content_type: str | None = None
    local_path: InnerPath | None = None


class BundledCard(_Part):
    """One Card: what it is called in this bundle, its exact reference, and its files."""

    aliases: list[str] = Field(min_length=1)
    card_ref: CardRef
    card_path: InnerPath
    relationships_path: InnerPath
    artifact_inventory_path: InnerPath
    card_sha256: Base64Digest | None = None
    artifacts: list[BundledFile]


class BundleManifest(_Part):
    """The whole of a bundle. `complete` ones hold every file of every Card, `metadata` ones none."""

    apiVersion: Literal["wyrd/bundle/v1"]
    mode: Literal["complete", "metadata"]
    root: CardRef
    cards: list[BundledCard] = Field(min_length=1)
    card_count: int
    artifact_count: int
    downloaded_artifact_count: int
