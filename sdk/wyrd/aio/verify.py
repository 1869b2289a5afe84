"""As `wyrd.verify`, with an `Execution` whose methods are async."""

from __future__ import annotations

from typing import Any

from wyrd._client import executions
from wyrd._client.evidence_values import ArtifactRef, File
from wyrd._client.result import VerificationResult
from wyrd._client.samples import Recorded
from wyrd.aio.client import WyrdClient

__all__ = ["ArtifactRef", "Execution", "File", "Recorded", "VerificationResult"]


class Execution:
    """One Verifier execution, by the id the server gave it; from any process.

    Constructing it makes no request. `workflow_id` is the Temporal workflow's id and `workflow_url`
    its page in the Temporal UI, as far as they are known: from submit, or from the last `status()`.
    """

    def __init__(
        self,
        id: str,
        client: WyrdClient | None = None,
        *,
        workflow_id: str | None = None,
        workflow_url: str | None = None,
    ) -> None:
        self.id: str = executions.checked_id(id)
        self.workflow_id: str | None = workflow_id
        self.workflow_url: str | None = workflow_url
        self._client = client or WyrdClient()

    async def status(self) -> dict[str, Any]:
        """The status document: `execution_id`, `status`, and what there is of `error`, `result`,
        `dispatches`, `group_id`. Errors: VERIFICATION_404_EXECUTION_NOT_FOUND."""
        return self._seen(await self._client._run(executions.status(self._client.server_url, self.id)))

    async def wait(self, timeout: float) -> VerificationResult:
        """Poll for the result, for at most `timeout` seconds.

        Errors: the execution's own when it ended without a result (errored, cancelled, timed
        out); SDK_504_VERIFICATION_WAIT_TIMEOUT.
        """
        return await self._client._run(executions.wait(self._client.server_url, self.id, timeout))

    async def cancel(self) -> dict[str, Any]:
        """Ask for its end; the status document after that."""
        return self._seen(await self._client._run(executions.cancel(self._client.server_url, self.id)))

    def _seen(self, document: dict[str, Any]) -> dict[str, Any]:
        self.workflow_id = document.get("workflow_id") or self.workflow_id
        self.workflow_url = document.get("workflow_url") or self.workflow_url
        return document

    def __repr__(self) -> str:
        return f"Execution({self.id!r})"
