"""A stored Card as the API tells it: the envelope with its relationships and status."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection

from store.baselines import Baselines, baseline_status
from store.bindings import Bindings
from store.caller import Tenant
from store.cards import Cards, StoredCard, read_json
from wyrd.wire.cards import CardView
from wyrd.wire.refs import CardRef

API_VERSION = "wyrd/v1"


def view_of(
    connection: Connection, tenant: Tenant, card: StoredCard, graph: frozenset[str] | None
) -> CardView:
    """The Card's envelope with its times.

    `relationships` lists what the spec names (with a Service's aliases) and, computed now, which
    Cards name this one; a Card-bound caller sees only those of its `graph`. The bindings a Card
    owns are in `status.verification.binding_ids`, in the order of its spec; how far the baselines
    of a Verifier are is in `status.verification.baseline`.
    """
    cards = Cards(connection, tenant)
    inbound = [pair for pair in cards.inbound(card.uid) if graph is None or pair[0].uid in graph]
    metadata: dict[str, Any] = {
        "name": card.name,
        "version": card.version,
        "space": card.space,
        "uid": card.uid,
        **{key: value for key, value in read_json(card.descriptive).items() if value},
        "spec_hash": card.spec_hash,
    }
    if card.artifact_hash is not None:
        metadata["artifact_hash"] = card.artifact_hash
    status: dict[str, Any] = {"phase": card.status, "updated_at": card.updated_at.isoformat()}
    verification: dict[str, Any] = {}
    if bound := Bindings(connection, tenant).of_owner(card.uid):
        verification["binding_ids"] = [binding.binding_id for binding in bound]
    if card.kind == "Verifier" and (fits := Baselines(connection, tenant).of(card.uid)):
        verification["baseline"] = baseline_status(fits)
    if verification:
        status["verification"] = verification
    envelope = {
        "apiVersion": API_VERSION,
        "kind": card.kind,
        "metadata": metadata,
        "spec": card.spec_document,
        "relationships": {
            **_related("outbound", cards.outbound(card.uid)),
            **_related("inbound", inbound),
        },
        "status": status,
    }
    return CardView(card=envelope, created_at=card.created_at, updated_at=card.updated_at)


def _related(side: str, found: Sequence[tuple[CardRef, str | None]]) -> dict[str, Any]:
    """Both forms of one side, sorted by text form; nothing where there are none."""
    if not found:
        return {}
    return {
        side: list(dict.fromkeys(str(ref) for ref, _ in found)),
        f"{side}_refs": [
            {"ref": ref.document()} if alias is None else {"ref": ref.document(), "alias": alias}
            for ref, alias in found
        ],
    }
