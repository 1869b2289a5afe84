"""How a bundle is laid out: `cards/<name>/` with a Card and its files, `aliases/`, the manifest.

Names and files are those of the published clients, so that either reads what the other wrote.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from wyrd._client.envelope import CardEnvelope
from wyrd._client.graph import outbound
from wyrd.errors import Code, WyrdError
from wyrd.wire.bundle import API_VERSION, MANIFEST, BundledCard, BundledFile, BundleManifest
from wyrd.wire.canonical import digest, sha256_hex
from wyrd.wire.cards import ArtifactFile, ArtifactInventory, digest_base64
from wyrd.wire.refs import CardRef

ROOT_ALIAS = "root"

_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,199}")


def file_name(alias: str) -> str:
    """The alias itself where that is a file name everywhere, else a digest of it."""
    return alias if _FILE_NAME.fullmatch(alias) else digest(alias)[:32]


def aliases_of(root: CardRef, cards: Mapping[str, CardEnvelope]) -> dict[str, list[str]]:
    """What each Card, by UID, is called: as the Service says, else `space-Kind-name-version`.

    No name stands for two Cards: what the root Service calls its components comes first, then
    "root" for itself, then what inner Services call theirs.
    """
    names: dict[str, str] = {}
    root_uid = root.uid or ""
    unnamed: list[CardRef] = []
    for ref, alias in outbound(cards[root_uid]):
        if alias is None:
            unnamed.append(ref)
        else:
            names[alias] = ref.uid or ""
    if names.setdefault(ROOT_ALIAS, root_uid) != root_uid:
        unnamed.append(root)
    for uid, card in cards.items():
        if uid != root_uid:
            for ref, alias in outbound(card):
                if alias is None or names.setdefault(alias, ref.uid or "") != ref.uid:
                    unnamed.append(ref)
    for ref in unnamed:
        name = f"{ref.space}-{ref.kind}-{ref.name}-{ref.version}"
        if names.setdefault(name, ref.uid or "") != ref.uid:
            names[f"{name}-{ref.uid}"] = ref.uid or ""
    found: dict[str, list[str]] = {uid: [] for uid in cards}
    for alias in sorted(names):
        found[names[alias]].append(alias)
    return found


def laid_out(
    root: CardRef,
    cards: Mapping[str, CardEnvelope],
    inventories: Mapping[str, ArtifactInventory],
    *,
    complete: bool,
) -> tuple[BundleManifest, dict[str, bytes]]:
    """The manifest, and the contents of every file but the Cards' own ones, by path."""
    from wyrd._client.yaml_text import as_yaml

    aliases = aliases_of(root, cards)
    taken: set[str] = set()
    entries: list[BundledCard] = []
    written: dict[str, bytes] = {}
    for uid in sorted(cards, key=lambda one: str(cards[one].card_ref)):
        card = cards[uid]
        folder = file_name(aliases[uid][0])
        if folder.casefold() in taken:
            folder = uid
        taken.add(folder.casefold())
        here = f"cards/{folder}"
        files = [
            _file(card.card_ref, one, f"{here}/artifacts/{one.relative_path}" if complete else None)
            for one in sorted(inventories[uid].artifacts, key=lambda one: one.relative_path)
        ]
        envelope = card.model_dump()
        text = as_yaml(envelope)
        entry = BundledCard(
            aliases=aliases[uid],
            card_ref=card.card_ref,
            card_path=f"{here}/card.yaml",
            relationships_path=f"{here}/relationships.yaml",
            artifact_inventory_path=f"{here}/artifacts.yaml",
            card_sha256=digest_base64(sha256_hex(text)),
            artifacts=files,
        )
        entries.append(entry)
        written[entry.card_path] = text
        written[entry.relationships_path] = as_yaml(envelope.get("relationships") or {})
        written[entry.artifact_inventory_path] = as_yaml([one.model_dump() for one in files])
        for alias in entry.aliases:
            written[alias_path(alias)] = as_yaml(alias_document(alias, entry))
    count = sum(len(entry.artifacts) for entry in entries)
    manifest = BundleManifest(
        apiVersion=API_VERSION,
        mode="complete" if complete else "metadata",
        root=root,
        cards=entries,
        card_count=len(entries),
        artifact_count=count,
        downloaded_artifact_count=count if complete else 0,
    )
    written[MANIFEST] = as_yaml(manifest.model_dump(mode="json"))
    return manifest, written


def _file(card: CardRef, listed: ArtifactFile, place: str | None) -> BundledFile:
    try:
        return BundledFile(**listed.model_dump(), local_path=place)
    except ValidationError:
        raise WyrdError(
            Code.REGISTRY_400_INVALID_ARTIFACT_PATH,
            f"{card.pinned} lists the file {listed.relative_path[:200]!r}, which has no place in a folder",
            card_ref=str(card),
            field="relative_path",
        ) from None


def alias_path(alias: str) -> str:
    return f"aliases/{file_name(alias)}.yaml"


def alias_document(alias: str, entry: BundledCard) -> dict[str, Any]:
    return {"alias": alias, "card_ref": entry.card_ref.document(), "card_path": entry.card_path}
