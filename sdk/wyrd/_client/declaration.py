"""Declaring a Card file with everything it refers to: one request, then the missing files."""

from __future__ import annotations

import os
from typing import Any

from wyrd._client.calls import Call
from wyrd._client.flow import Flow, Offload
from wyrd.errors import Code, WyrdError
from wyrd.wire.cards import CardStatus, DeclareReceipt
from wyrd.wire.ids import uuid7


def read_submissions(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """The Cards at a path as a declaration sends them: dependencies first, the root last.

    CLI_400_CARD_LOAD with every diagnostic when they are not acceptable. Reads the disk.
    """
    from wyrd.cards import load, to_submissions

    return to_submissions(load(path))


def declare(
    server_url: str, path: str | os.PathLike[str], root_kind: str | None = None
) -> Flow[DeclareReceipt]:
    """Declare the Cards at a path. An unchanged repeat changes nothing on the server.

    Errors: CLI_400_CARD_LOAD; SDK_400_CARD_KIND_MISMATCH when the root is not of `root_kind`;
    REGISTRY_507_ARTIFACT_VERIFY_FAILED when a Card still waits for files; the server's own.
    """
    submissions: list[dict[str, Any]] = yield Offload(lambda: read_submissions(path))
    kind = submissions[-1]["kind"]
    if root_kind is not None and kind != root_kind:
        raise WyrdError(
            Code.SDK_400_CARD_KIND_MISMATCH,
            f"the root at {os.fspath(path)} is of kind {kind}, not {root_kind}",
            expected_kind=root_kind,
            kind=kind,
        )
    receipt = yield from Call(
        "POST",
        "/v1/cards",
        json={"submissions": submissions},
        idempotency_key=f"card-declaration-{uuid7()}",
    ).model(server_url, DeclareReceipt)
    for outcome in receipt.outcomes:
        if outcome.status is CardStatus.PENDING:
            raise WyrdError(
                Code.REGISTRY_507_ARTIFACT_VERIFY_FAILED,
                f"{outcome.card_ref.pinned} waits for files that this declaration does not have",
                card_ref=str(outcome.card_ref),
            )
    return receipt
