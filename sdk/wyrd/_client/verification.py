"""verify and submit, from a bound Verifier and values to a result or an execution."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wyrd._client.calls import EXECUTE_TIMEOUT, Call
from wyrd._client.envelope import CardEnvelope
from wyrd._client.flow import Flow
from wyrd._client.inputs import Intent, checked_group, named_values, prepare, refuse_unsupported
from wyrd._client.result import VerificationResult
from wyrd._client.uploads import upload_missing
from wyrd.wire.ids import uuid7
from wyrd.wire.verification import EnqueueAnswer, ResultDocument


@dataclass(frozen=True, slots=True)
class Judgement:
    """What is to be judged: this Verifier, that subject (a Card UID), in this run, on these values."""

    verifier: CardEnvelope
    subject_uid: str
    run_id: str | None
    group_id: str | None
    values: Mapping[str, Any]
    session_id: str | None = None

    @classmethod
    def of(
        cls,
        intent: Intent,
        verifier: CardEnvelope,
        subject_uid: str,
        run_id: str | None,
        group_id: str | None,
        positional: tuple[Any, ...],
        named: Mapping[str, Any],
        *,
        session_id: str | None = None,
    ) -> Judgement:
        """Check the call itself, before any value is looked at."""
        refuse_unsupported(verifier, intent)
        values = named_values(verifier, positional, named)
        return cls(verifier, subject_uid, run_id, checked_group(group_id), values, session_id)

    def _body(self, server_url: str) -> Flow[dict[str, Any]]:
        prepared = yield from prepare(self.verifier, self.values)
        yield from upload_missing(server_url, prepared.files)
        body: dict[str, Any] = {
            "verifier_card_uid": self.verifier.uid,
            "card_uid": self.subject_uid,
            "inputs": prepared.declarations,
        }
        if self.run_id is not None:
            body["run_id"] = self.run_id
        if self.group_id is not None:
            body["group_id"] = self.group_id
        if self.session_id is not None:
            body["session_id"] = self.session_id
        return body

    def verify(self, server_url: str) -> Flow[VerificationResult]:
        """Judge now. One attempt; a failed verdict is a value."""
        body = yield from self._body(server_url)
        document = yield from Call(
            "POST", "/v1/verification/execute", json=body, timeout=EXECUTE_TIMEOUT
        ).model(server_url, ResultDocument)
        return VerificationResult.of(document)

    def submit(self, server_url: str) -> Flow[EnqueueAnswer]:
        """Hand it to the queue, under one idempotency key that every retry repeats."""
        body = yield from self._body(server_url)
        key = f"verification-submit-{uuid7()}"
        return (
            yield from Call("POST", "/v1/verification/enqueue", json=body, idempotency_key=key).model(
                server_url, EnqueueAnswer
            )
        )
