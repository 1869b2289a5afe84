"""Runs and what is observed in them, async."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from wyrd._client.done import DONE
from wyrd._client.run import RunView
from wyrd.aio.client import WyrdClient
from wyrd.aio.verify import Execution, Recorded, VerificationResult


class Run(RunView[WyrdClient]):
    """One invocation of the service; see `WyrdState.run`."""

    @property
    def observe(self) -> Observe:
        return Observe(self)


class Observe:
    """Verifications and records about the run's Card.

    Inputs: one positional value for a Verifier with a single slot, or one keyword a slot. JSON
    values fill json slots, 32 hexadecimal digits a trace slot, `verify.File` or
    `verify.ArtifactRef` a media slot. A slot left out is missing evidence, never a refusal.

    Refused before any request: SDK_404_UNKNOWN_VERIFIER, SPEC_400_VALIDATION,
    VERIFICATION_400_INPUT_INVALID, VERIFICATION_413_INPUT_TOO_LARGE,
    VERIFICATION_422_INPUT_UNSUPPORTED.
    """

    def __init__(self, run: Run) -> None:
        self._run = run

    async def verify(
        self, verifier: str, /, *value: Any, group_id: str | None = None, **inputs: Any
    ) -> VerificationResult:
        """Judge now, within 60 s. A failed verdict is a value, never an exception."""
        judgement = self._run._judgement("verify", verifier, group_id, value, inputs)
        client = self._run._client
        return await client._run(judgement.verify(client.server_url))

    async def submit(
        self, verifier: str, /, *value: Any, group_id: str | None = None, **inputs: Any
    ) -> Execution | Recorded:
        """Hand the evidence to the server's queue, uploading what is missing, and return its execution.

        A Verifier of samples takes features with numbers or text, as in `submit("drift", {"score": 0.4})`;
        they are queued as `record` queues rows, and its schedule judges their window: `Recorded`.
        Errors then: VERIFICATION_422_INPUT_INCOMPATIBLE, SDK_400_BIFROST_NOT_STARTED,
        SDK_409_BIFROST_CLOSED, CLIENT_429_QUEUE_FULL.
        """
        if self._run._recorded(verifier, group_id, value, inputs):
            return Recorded()
        judgement = self._run._judgement("submit", verifier, group_id, value, inputs)
        client = self._run._client
        answer = await client._run(judgement.submit(client.server_url))
        return Execution(
            answer.execution_id,
            client,
            workflow_id=answer.workflow_id,
            workflow_url=answer.workflow_url,
        )

    def record(self, table: str, row: Any) -> Awaitable[None]:
        """Queue one row for a table `vala.datasets.<name>`, with this run's id and this view's Card.

        `row` is a mapping with string keys, a dataclass or Pydantic instance; it is copied now. A row
        is stored after `WyrdState.flush` or `shutdown` returned, which also tell of rows that do not
        fit their table; a process that ends without them can lose its last rows. It needs no `await`.
        Errors: SPEC_400_VALIDATION, SDK_400_INVALID_OBSERVATION, VALA_400_BIFROST_RESERVED_COLUMN,
        CLIENT_429_QUEUE_FULL, SDK_400_BIFROST_NOT_STARTED, SDK_409_BIFROST_CLOSED; nothing of the
        row is queued then.
        """
        run = self._run
        run._writer.record(table, row, run._run_id, run._scope.card_uid)
        return DONE
