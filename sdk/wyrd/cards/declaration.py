"""A loaded tree as the declaration that a server takes."""

from __future__ import annotations

import base64
import hashlib
import mimetypes
import os
from collections.abc import Mapping, Sequence
from pathlib import Path as FilePath
from typing import Any, Final

from wyrd.cards.card_ref import CardRef, Sibling
from wyrd.cards.decode import spec_document
from wyrd.cards.envelope import API_VERSION
from wyrd.cards.identifiers import is_exact_version
from wyrd.cards.links import LinkAt, rewrite_links
from wyrd.cards.loaded import LoadedCard, LoadedTree

DEFAULT_BUMP: Final = "patch"


def to_submissions(
    tree: LoadedTree,
    *,
    artifacts: Mapping[CardRef, Sequence[dict[str, Any]]] | None = None,
    bump: str | dict[str, Any] = DEFAULT_BUMP,
) -> list[dict[str, Any]]:
    """The bodies of `POST /v1/cards` submissions: dependencies first, the root last.

    Path references become siblings, `!file` texts stand inline. An unpinned Card sends `bump`.
    `artifacts` gives the artifact entries of Cards by their reference.
    """
    ordered = [card for card in tree.cards if card is not tree.root] + [tree.root]
    return [_submission(card, artifacts or {}, bump) for card in ordered]


def _submission(
    card: LoadedCard, artifacts: Mapping[CardRef, Sequence[dict[str, Any]]], bump: str | dict[str, Any]
) -> dict[str, Any]:
    found = card.metadata
    metadata: dict[str, Any] = {"name": found.name, "space": found.space}
    if found.version is not None:
        metadata["version"] = found.version
    pinned = found.version is not None and is_exact_version(found.version)
    if not pinned:
        metadata["bump"] = bump if found.bump is None else found.bump
    for member in ("labels", "annotations"):
        if getattr(found, member):
            metadata[member] = getattr(found, member)
    if found.origin is not None:
        metadata["origin"] = found.origin.model_dump(mode="json", exclude_unset=True)

    def sibling(link: LinkAt) -> Any:
        if isinstance(link.value, str):
            kind, space, name, version = card.children[link.path].identity
            return {"sibling": {"kind": kind, "name": name, "version": version, "space": space}}
        if isinstance(link.value, Sibling):
            return {"sibling": _reference(link.value.sibling)}
        return _reference(link.value)

    entries = artifacts.get(_ref(card), ()) if pinned else ()
    return {
        "apiVersion": API_VERSION,
        "kind": card.kind,
        "metadata": metadata,
        "spec": rewrite_links(card.spec, spec_document(card.spec), sibling),
        "artifacts": list(entries),
    }


def _ref(card: LoadedCard) -> CardRef:
    kind, space, name, version = card.identity
    return CardRef.model_validate({"kind": kind, "space": space, "name": name, "version": version})


def _reference(ref: CardRef) -> dict[str, Any]:
    found = {"kind": ref.kind, "name": ref.name, "version": ref.version, "space": ref.space}
    return found if ref.uid is None else {**found, "uid": ref.uid}


def artifact_entry(path: str | os.PathLike[str], relative_path: str | None = None) -> dict[str, Any]:
    """One entry of a submission's artifacts: the file's relative path, base64 SHA-256, size, type."""
    file = FilePath(path)
    hasher = hashlib.sha256()
    size = 0
    with file.open("rb") as stream:
        while chunk := stream.read(1 << 20):
            hasher.update(chunk)
            size += len(chunk)
    return {
        "relative_path": relative_path or file.name,
        "sha256": base64.b64encode(hasher.digest()).decode("ascii"),
        "size_bytes": size,
        "content_type": mimetypes.guess_type(file.name)[0],
    }
