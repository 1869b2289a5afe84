"""Runs and what is observed in them, async."""

from __future__ import annotations

from typing import Any

from wyrd._client.run import RunView
from wyrd.aio.client import WyrdClient
from wyrd.aio.verify import Execution, VerificationResult


class Run(RunView[WyrdClient]):
    """One invocation of the service; see `WyrdState.run`."""

    @property
    def observe(self) -> Observe:
        return Observe(self)


class Observe:
    """Verifications about the run's Card.

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
    ) -> Execution:
        """Upload what is missing, hand the evidence to the queue, and return its execution."""
        judgement = self._run._judgement("submit", verifier, group_id, value, inputs)
        client = self._run._client
        answer = await client._run(judgement.submit(client.server_url))
        return Execution(
            answer.execution_id,
            client,
            workflow_id=answer.workflow_id,
            workflow_url=answer.workflow_url,
        )
