"""The executions that one process has at hand: loaded once, with the evidence that was pinned for them."""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import Any

from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from activities.bundle import Bundle, Bundles
from activities.context import ExecutionContext, ScheduledWindow
from activities.judging import is_small
from activities.ledger import SqlLedger
from activities.record import ExecutionNames
from activities.traces import TraceEvidence
from bifrost.traces import WAIT_SECONDS
from engine.capture import Capture
from engine.evidence import Evidence
from store.blobs import BlobStore
from store.caller import Tenant
from store.database import Database
from store.executions import find_execution
from workflows import contracts
from wyrd.wire.canonical import strict_loads

_KEPT = 512
_KEPT_LARGE = 8
_KEPT_VALUES = 1_000
"""Executions with more evidence than this are large: one may take a hundred megabytes of memory."""


@dataclass(frozen=True)
class Known:
    """One execution as its activities need it."""

    context: ExecutionContext
    names: ExecutionNames


class KnownExecutions:
    """The last executions of one process. Losing one costs reading it again, nothing else."""

    def __init__(self, database: Database, blobs: BlobStore, bundles: Bundles, traces: TraceEvidence) -> None:
        self._database = database
        self._blobs = blobs
        self._bundles = bundles
        self._traces = traces
        self._kept: OrderedDict[str, Known] = OrderedDict()
        self._large: deque[str] = deque()

    async def load(self, argument: contracts.Of) -> Known:
        known = self._kept.get(argument.execution_id)
        if known is not None:
            self._kept.move_to_end(argument.execution_id)
            return known
        tenant = Tenant(argument.tenant_id, argument.tenant_slug)
        row = await self._database.read(find_execution, tenant, argument.execution_id)
        if row is None:
            raise ApplicationError("the execution is not recorded", type="NotRecorded", non_retryable=True)
        bundle = await self._bundles.of(tenant, row.verifier_uid)
        context = ExecutionContext(
            tenant=tenant,
            execution_id=row.execution_id,
            started_at=row.created_at,
            bundle=bundle,
            evidence=Evidence(bundle.plan.spec, strict_loads(row.inputs, max_depth=128)),
            ledger=self.ledger(tenant, row.execution_id, bundle),
            scheduled=ScheduledWindow.of_row(row),
        )
        return self.keep(ExecutionNames.of_row(row), context)

    def ledger(self, tenant: Tenant, execution_id: str, bundle: Bundle) -> SqlLedger:
        plan = bundle.plan
        full = bundle.capture is Capture.FULL
        return SqlLedger(self._database, self._blobs, tenant, execution_id, len(plan.spec.steps), full)

    def keep(self, names: ExecutionNames, context: ExecutionContext) -> Known:
        """Keep an execution, also one that was just accepted: its workflow most likely starts here too."""
        known = self._kept[context.execution_id] = Known(context, names)
        if len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        self._weigh(context.execution_id, context.evidence.inputs)
        return known

    def forget(self, execution_id: str) -> None:
        self._kept.pop(execution_id, None)

    async def pin(self, known: Known, *, wait: float = WAIT_SECONDS) -> None:
        """Pin the traces that were given. A local activity does not wait for spans: it holds up a
        workflow task, and a normal activity takes its place."""
        context = known.context
        if not context.evidence.unpinned():
            return
        principal = known.names.principal_id
        if not activity.info().is_local:
            await self._traces.pin(context, principal, wait=wait)
        elif not await self._traces.pin_recorded(context, principal):
            raise ApplicationError(
                "nothing of a trace is recorded yet",
                type="AwaitsTrace",
                non_retryable=True,
                category=ApplicationErrorCategory.BENIGN,
            )
        self._weigh(context.execution_id, context.evidence.traces)

    def _weigh(self, execution_id: str, evidence: Any) -> None:
        if not is_small(evidence, _KEPT_VALUES):
            self._large.append(execution_id)
            if len(self._large) > _KEPT_LARGE:
                self.forget(self._large.popleft())
