"""A declaration from its request to its receipt: read, checked, stored, and answered with upload plans."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection

from cards.artifacts import upload_plans
from cards.declare import declare
from cards.receipts import Receipt, earlier_receipt
from cards.submissions import Declaration, check_declaration, checked_key, read_submissions
from store.blobs import BlobStore
from store.caller import Caller, Permission
from store.cards import Cards, StoredCard
from store.database import Database
from wyrd.cards.card_ref import CardRef
from wyrd.wire.canonical import digest
from wyrd.wire.cards import (
    CardStatus,
    CardUploads,
    DeclareOutcome,
    DeclareReceipt,
    DeclareRequest,
    Outcome,
)


async def declare_cards(
    database: Database,
    blobs: BlobStore,
    caller: Caller,
    request: DeclareRequest,
    key: str | None,
    max_file_bytes: int,
    with_them: Callable[[Connection, Receipt], None] | None = None,
) -> DeclareReceipt:
    """Declare what a request holds. `with_them` writes what goes with the Cards, in the transaction
    that stores them: what it raises leaves nothing declared.

    The same key and body answer the same receipt, with fresh upload addresses and the Cards'
    present status. Errors: `WYRD_PERMISSION_403_DENIED_RBAC`, those of
    `cards.submissions` (with every rule of the Card language), and of `cards.declare.declare`.
    """
    caller.require(Permission.CARDS_WRITE)
    key = checked_key(key)
    body_digest = digest(request.model_dump(mode="json"))
    # Reading and judging may take long, so they happen outside the write, which holds a lock.
    read = await database.read(_read, caller, request, key, body_digest, max_file_bytes)
    if isinstance(read, Receipt):
        receipt = read
    else:
        receipt = await database.write(_declared, caller, read, key, body_digest, with_them)
    outcomes = [(one.card, one.outcome) for one in receipt.outcomes]
    plans = await upload_plans(database, blobs, caller.tenant, [card for card, _ in outcomes])
    return receipt_of(receipt.root, outcomes, plans)


def _declared(
    connection: Connection,
    caller: Caller,
    declaration: Declaration,
    key: str,
    body_digest: str,
    with_them: Callable[[Connection, Receipt], None] | None,
) -> Receipt:
    receipt = declare(connection, caller, declaration, key, body_digest)
    if with_them is not None:
        with_them(connection, receipt)
    return receipt


def receipt_of(
    root: StoredCard, outcomes: Iterable[tuple[StoredCard, DeclareOutcome]], plans: Sequence[CardUploads]
) -> DeclareReceipt:
    """The answer that tells a declaration or a completion."""
    return DeclareReceipt(
        root=root.ref,
        outcomes=[
            Outcome(
                card_ref=card.ref,
                spec_hash=card.spec_hash,
                status=CardStatus(card.status),
                outcome=outcome,
                artifact_hash=card.artifact_hash,
            )
            for card, outcome in outcomes
        ],
        upload_plans=list(plans),
    )


def _read(
    connection: Connection,
    caller: Caller,
    request: DeclareRequest,
    key: str,
    body_digest: str,
    max_file_bytes: int,
) -> Receipt | Declaration:
    earlier = earlier_receipt(connection, caller, key, body_digest)
    if earlier is not None:
        return earlier
    cards = Cards(connection, caller.tenant)

    def stored_spec(ref: CardRef) -> Mapping[str, Any] | None:
        found = cards.by_identity(ref.kind, ref.space, ref.name, ref.version)
        return None if found is None or found.status == "deleted" else found.spec_document

    check_declaration(request.submissions, stored_spec)
    return read_submissions(request.submissions, max_file_bytes)
