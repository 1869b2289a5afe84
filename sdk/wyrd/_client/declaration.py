"""Declaring a Card file with everything it refers to: one request, then the files that are missing."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from wyrd._client.calls import Call
from wyrd._client.card_files import CardFiles, attach, measured
from wyrd._client.flow import FileBody, Flow, Offload
from wyrd._client.uploads import put
from wyrd.errors import Code, WyrdError
from wyrd.wire.cards import CardStatus, CardUploads, DeclareReceipt
from wyrd.wire.ids import uuid7


def read_submissions(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """The Cards at a path as a declaration sends them: dependencies first, the root last.

    CLI_400_CARD_LOAD with every diagnostic when they are not acceptable. Reads the disk.
    """
    from wyrd.cards import load, to_submissions

    return to_submissions(load(path))


def declare(
    server_url: str,
    path: str | os.PathLike[str],
    root_kind: str | None = None,
    files: CardFiles | None = None,
) -> Flow[DeclareReceipt]:
    """Declare the Cards at a path, and upload what the server lacks of their files. An unchanged repeat
    changes nothing on the server.

    Errors: CLI_400_CARD_LOAD; SDK_400_CARD_KIND_MISMATCH when the root is not of `root_kind`;
    SPEC_400_VALIDATION for files of a Card that is not declared here; LOADER_400_IO for one that cannot
    be read; REGISTRY_507_ARTIFACT_VERIFY_FAILED when a Card still waits for files; the server's own.
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
    bodies: dict[str, dict[str, FileBody]] = yield Offload(lambda: measured(files or {}))
    attach(submissions, bodies)
    key = f"card-declaration-{uuid7()}"
    receipt = yield from Call(
        "POST", "/v1/cards", json={"submissions": submissions}, idempotency_key=key
    ).model(server_url, DeclareReceipt)
    completed = {}
    for uploads in receipt.upload_plans:
        outcome = yield from _upload(server_url, uploads, bodies, key)
        completed[uploads.card_ref.uid] = outcome.outcomes[0]
    outcomes = [completed.get(one.card_ref.uid, one) for one in receipt.outcomes]
    for one in outcomes:
        if one.status is CardStatus.PENDING:
            raise WyrdError(
                Code.REGISTRY_507_ARTIFACT_VERIFY_FAILED,
                f"{one.card_ref.pinned} waits for files that this declaration does not have",
                card_ref=str(one.card_ref),
            )
    return receipt.model_copy(update={"outcomes": outcomes, "upload_plans": []})


def _upload(
    server_url: str, uploads: CardUploads, bodies: Mapping[str, Mapping[str, FileBody]], key: str
) -> Flow[DeclareReceipt]:
    """Send the files of one Card, and complete it."""
    ref = uploads.card_ref
    offered = bodies.get(f"{ref.space}/{ref.kind}/{ref.name}", {})
    for entry in uploads.entries:
        body = offered.get(entry.relative_path)
        if body is None:
            raise WyrdError(
                Code.REGISTRY_507_ARTIFACT_VERIFY_FAILED,
                f"{ref.pinned} waits for {entry.relative_path}, which this declaration does not have",
                card_ref=str(ref),
            )
        yield from put(server_url, entry.plan, body, key)
        yield from Call(
            "POST",
            f"/v1/cards/upload/{entry.upload_id}/complete",
            json={"protocol": "single_put", "data": {}},
            idempotency_key=key,
        ).run(server_url)
    return (
        yield from Call("POST", f"/v1/cards/{ref.uid}/complete", json=None, idempotency_key=key).model(
            server_url, DeclareReceipt
        )
    )
