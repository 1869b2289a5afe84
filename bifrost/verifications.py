"""What verifications leave in Bifrost: one row a result, one row an input.

The batches are made beside the end of an execution and stored in its transaction; their ids are
the execution's, so that an end which is recorded twice is one row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

from bifrost.names import EXECUTION_INPUTS, VERIFICATION_RESULTS
from store.outbox import Batch
from wyrd.wire.canonical import canonical_json
from wyrd.wire.refs import CardRef

WYRD = "wyrd"
"""The principal of what no caller asked for: judgements of groups and of scheduled windows."""


@dataclass(frozen=True)
class EndedVerification:
    """An execution at its end. `inputs` are the declarations that may be kept, by slot; `outcome` is
    the outcome of the result, and None where there is no result."""

    execution_id: str
    verifier: CardRef
    subject: CardRef
    owner: CardRef | None
    source: str
    principal_id: str | None
    binding_id: str | None
    run_id: str | None
    group_id: str | None
    session_id: str | None
    workflow_id: str | None
    started_at: datetime
    ended_at: datetime
    inputs: Mapping[str, Mapping[str, Any]]
    outcome: Mapping[str, Any] | None = None
    window: tuple[datetime, datetime] | None = None

    def batches(self) -> list[Batch]:
        """The rows to store with the end: of the result where there is one, and of every input."""
        found = []
        if self.outcome is not None:
            found.append(self._batch(VERIFICATION_RESULTS.full, [self._result(self.outcome)]))
        if self.inputs:
            found.append(self._batch(EXECUTION_INPUTS.full, self._inputs()))
        return found

    def _batch(self, table: str, rows: list[dict[str, Any]]) -> Batch:
        return Batch(
            table=table,
            batch_id=self.execution_id,
            encoding="json",
            payload=_json(rows),
            row_count=len(rows),
            principal_id=self.principal_id or WYRD,
            request_id=self.execution_id,
            ingested_at=self.ended_at,
        )

    def _result(self, outcome: Mapping[str, Any]) -> dict[str, Any]:
        start, end = self.window or (None, None)
        return {
            "result_id": self.execution_id,
            "execution_id": self.execution_id,
            "verifier_uid": self.verifier.uid,
            "verifier": self.verifier.pinned,
            "verifier_version": self.verifier.version,
            "subject": self.subject.pinned,
            "subject_version": self.subject.version,
            "owner": None if self.owner is None else self.owner.pinned,
            "owner_card_uid": None if self.owner is None else self.owner.uid,
            "binding_id": self.binding_id,
            "group_id": self.group_id,
            "session_id": self.session_id,
            "verdict": outcome["verdict"],
            "source": self.source,
            "started_at": self.started_at.isoformat(),
            "ended_at": self.ended_at.isoformat(),
            "window_start": None if start is None else start.isoformat(),
            "window_end": None if end is None else end.isoformat(),
            "requirements": outcome["requirements"],
            "steps": outcome["steps"],
            "evidence_digests": outcome["evidence_digests"],
            "workflow_id": self.workflow_id,
            "run_id": self.run_id,
            "card_uid": self.subject.uid,
        }

    def _inputs(self) -> list[dict[str, Any]]:
        digests = {} if self.outcome is None else self.outcome["evidence_digests"]
        return [
            {
                "execution_id": self.execution_id,
                "slot": slot,
                "kind": declaration["kind"],
                "declaration": dict(declaration),
                "sha256": digests.get(slot, declaration.get("sha256")),
                "size_bytes": declaration.get("size_bytes"),
                "format": declaration.get("format"),
                "group_id": self.group_id,
                "run_id": self.run_id,
                "card_uid": self.subject.uid,
            }
            for slot, declaration in self.inputs.items()
        ]


def _json(rows: list[dict[str, Any]]) -> bytes:
    try:
        return orjson.dumps(rows)
    except TypeError:
        # Integers beyond 64 bits and lone surrogates, which evidence may hold.
        return canonical_json(rows)
