"""What the blocks of a Verifier need to run: Agents with their Prompts, and files of Artifacts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection

from cards.references import card_refs
from store.caller import Tenant
from store.card_artifacts import CardArtifacts
from store.cards import Cards
from wyrd.errors import Code, WyrdError
from wyrd.wire.refs import CardRef


def not_ready(pending: Sequence[CardRef]) -> WyrdError:
    """`WYRD_VERIFICATION_409_VERIFIER_NOT_READY`, naming the Cards that wait for files."""
    return WyrdError(
        Code.VERIFICATION_409_VERIFIER_NOT_READY,
        f"{pending[0].pinned} still waits for its files",
        pending=[str(ref) for ref in pending],
    )


def referenced_cards(
    connection: Connection, tenant: Tenant, verifier_spec: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """The spec of every Card that the blocks of a stored Verifier need, by uid.

    That is: its Agents and their Prompts, the Artifacts of its code, its drift baselines. The spec
    of a Card with files carries them under `files`: `[{path, sha256, size_bytes}]`, in the order of
    their paths; the bytes are in the blob store under this tenant and that digest (hexadecimal).

    Raises `WYRD_VERIFICATION_409_VERIFIER_NOT_READY` while one of the Cards waits for its files.
    """
    cards = Cards(connection, tenant)
    direct = {ref.uid for ref in card_refs("Verifier", verifier_spec) if ref.uid is not None}
    if not direct:
        return {}
    found = cards.by_uids(direct)
    agents = [card.uid for card in found.values() if card.kind == "Agent"]
    prompts = [ref.uid for ref, _ in cards.targets_of(agents) if ref.kind == "Prompt" and ref.uid]
    found |= cards.by_uids(prompts)
    pending = sorted((card.ref for card in found.values() if card.status == "pending"), key=str)
    if pending:
        raise not_ready(pending)
    specs = {uid: card.spec_document for uid, card in found.items()}
    for uid, files in CardArtifacts(connection, tenant).of_cards(found).items():
        specs[uid]["files"] = [
            {"path": file.relative_path, "sha256": file.sha256, "size_bytes": file.size_bytes}
            for file in files
        ]
    return specs
