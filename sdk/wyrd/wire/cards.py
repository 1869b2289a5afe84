"""What the registry is asked and answers (`/v1/cards/…`).

Digests of artifacts travel as standard base64 of their 32 bytes, spec hashes as 64 hexadecimal
characters; sizes are bytes, times to live seconds, instants RFC 3339 in UTC.
"""

from __future__ import annotations

import base64
import binascii
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from wyrd.wire.refs import CardRef
from wyrd.wire.uploads import UploadPlan
from wyrd.wire.verification import Uuid7

MOST_SUBMISSIONS = 500
"""Cards that one declaration may hold."""

MOST_ARTIFACTS = 1000
"""Files that one Card may have."""


class CardStatus(StrEnum):
    """Where a Card version stands. `failed` and `expired` are read from other servers only."""

    PENDING = "pending"
    ACTIVE = "active"
    DEPRECATED = "deprecated"
    FAILED = "failed"
    EXPIRED = "expired"
    DELETED = "deleted"


class DeclareOutcome(StrEnum):
    """What a declaration did for one Card."""

    DECLARED = "declared"
    IDEMPOTENT_NOOP = "idempotent_noop"
    DEDUPLICATED = "deduplicated"


def digest_hex(text: str) -> str:
    """The hexadecimal form of a base64 SHA-256. Raises ValueError."""
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("is not base64") from None
    if len(raw) != 32:
        raise ValueError("is not the base64 of a SHA-256")
    return raw.hex()


def digest_base64(sha256: str) -> str:
    """The base64 form of a hexadecimal SHA-256."""
    return base64.b64encode(bytes.fromhex(sha256)).decode("ascii")


def _digest(text: str) -> str:
    digest_hex(text)
    return text


Base64Digest = Annotated[str, AfterValidator(_digest)]


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Answer(BaseModel):
    model_config = ConfigDict(defer_build=True)


class ArtifactFile(BaseModel):
    """One file of a Card: what is declared, and what the inventory lists."""

    model_config = ConfigDict(extra="forbid", strict=True, defer_build=True)

    relative_path: str
    sha256: Base64Digest
    size_bytes: int = Field(ge=0, le=2**63 - 1)
    content_type: str | None = Field(None, max_length=255)


class Submission(BaseModel):
    """One Card to declare. Metadata and spec are read by the Card language, not here."""

    model_config = ConfigDict(extra="forbid", strict=True, validate_by_name=True, serialize_by_alias=True)

    api_version: str = Field(alias="apiVersion")
    kind: str
    metadata: dict[str, Any]
    spec: dict[str, Any]
    artifacts: list[ArtifactFile] = Field(default_factory=list, max_length=MOST_ARTIFACTS)


class DeclareRequest(_Request):
    """Body of `POST /v1/cards`: dependencies first, the root last."""

    submissions: list[Submission] = Field(min_length=1, max_length=MOST_SUBMISSIONS)


class Outcome(_Answer):
    """What became of one submission."""

    card_ref: CardRef
    spec_hash: str
    status: CardStatus
    outcome: DeclareOutcome
    artifact_hash: str | None = None


class PlannedFile(_Answer):
    """One file the client has to send, and where."""

    relative_path: str
    upload_id: str
    plan: UploadPlan


class CardUploads(_Answer):
    """The files that one pending Card waits for."""

    card_ref: CardRef
    entries: list[PlannedFile]


class DeclareReceipt(_Answer):
    """Answer of `POST /v1/cards` and of a Card's completion."""

    root: CardRef
    outcomes: list[Outcome]
    upload_plans: list[CardUploads] = Field(default_factory=list)


class CardView(_Answer):
    """Answer of every read of one Card. `card` is its envelope."""

    card: dict[str, Any]
    created_at: datetime
    updated_at: datetime


class CardItem(_Answer):
    """One line of the list."""

    card_uid: str
    kind: str
    space: str
    name: str
    version: str
    spec_hash: str
    artifact_hash: str | None = None
    status: CardStatus
    created_at: datetime
    updated_at: datetime

    @property
    def ref(self) -> CardRef:
        return CardRef.model_validate(
            {
                "kind": self.kind,
                "name": self.name,
                "version": self.version,
                "space": self.space,
                "uid": self.card_uid,
            }
        )


class CardPage(_Answer):
    items: list[CardItem]
    next_cursor: str | None = None


class CardDeleted(_Answer):
    """`deleted` is false when an earlier call had deleted the Card already."""

    card_uid: str
    deleted: bool


class ArtifactInventory(_Answer):
    artifacts: list[ArtifactFile]


class SinglePutDone(_Request):
    """One PUT has been made, to the server or to the object store."""

    protocol: Literal["single_put"]
    data: dict[str, Any] = Field(default_factory=dict)


class MultipartDone(_Request):
    protocol: Literal["multipart"]
    data: dict[str, Any]


class BlocksDone(_Request):
    protocol: Literal["azure_block_blob"]
    data: dict[str, Any]


UploadDone = Annotated[SinglePutDone | MultipartDone | BlocksDone, Field(discriminator="protocol")]
"""Body of an upload's completion. This server plans single PUTs only and refuses the others."""


class StoredObject(_Answer):
    storage_path: str
    size_bytes: int
    sha256: str
    created_at: datetime
    content_type: str | None = None


class UploadStored(_Answer):
    stored: StoredObject


class DownloadRequest(_Request):
    """Body of `POST /v1/cards/download/init`; without `ttl_secs` the address works 15 minutes."""

    card_uid: Uuid7
    relative_path: str
    ttl_secs: int | None = Field(None, ge=1, le=3600)


class DownloadTarget(_Answer):
    get_url: str
    ttl_secs: int


class DownloadPlan(_Answer):
    plan: DownloadTarget
    size_bytes: int
    sha256: str
