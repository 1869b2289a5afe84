"""Traces as evidence: found once for an execution, pinned, and the same for everything that reads them."""

from __future__ import annotations

import asyncio
import time

from sqlalchemy import Connection

from activities.context import ExecutionContext
from activities.ledger import LARGEST_OUTPUT
from bifrost.reading import Cuts
from bifrost.traces import WAIT_SECONDS, trace_document
from cards.graph import graph_of
from engine.capture import Capture
from engine.evidence import no_span
from engine.failure import BlockFailure, ReasonKind
from store.blobs import BlobStore
from store.caller import Tenant
from store.database import Database
from store.identity import Identity
from wyrd.wire.canonical import canonical_json


class TraceEvidence:
    """Finds the trace documents of executions in Bifrost and pins them.

    A pinned document is canonical JSON; where results keep what blocks read, it is in the tenant's
    blob store under the digest that the result names.
    """

    def __init__(self, database: Database, blobs: BlobStore, cuts: Cuts) -> None:
        self._database = database
        self._blobs = blobs
        self._cuts = cuts

    async def pin(
        self, context: ExecutionContext, principal_id: str | None, *, wait: float = WAIT_SECONDS
    ) -> None:
        """Pin every trace that was given, before the first block of the execution reads anything.

        Waits up to `wait` seconds for the first span of each, all at once; a trace of which nothing is
        recorded by then is missing evidence for good. The principal who asked sees of a trace what
        it may see in queries. Raises the errors of `Cuts.rows` and of the blob store.
        """
        await self._pin(context, principal_id, min(wait, WAIT_SECONDS), final=True)

    async def pin_recorded(self, context: ExecutionContext, principal_id: str | None) -> bool:
        """Pin what is recorded now, without waiting; whether that was everything that was given."""
        await self._pin(context, principal_id, 0.0, final=False)
        return not context.evidence.unpinned()

    async def _pin(
        self, context: ExecutionContext, principal_id: str | None, wait: float, *, final: bool
    ) -> None:
        unpinned = context.evidence.unpinned()
        if not unpinned:
            return
        deadline = time.monotonic() + wait
        numbers = {slot: number for number, slot in enumerate(context.evidence.spec.inputs)}
        standing = {slot: await context.ledger.pinned(numbers[slot]) for slot in unpinned}
        missing = [slot for slot, found in standing.items() if found is None]
        if missing:
            readable = await self._database.read(_readable, context.tenant, principal_id)
            found = await asyncio.gather(
                *(self._find(context, slot, unpinned[slot], readable, deadline) for slot in missing)
            )
            for slot, document in zip(missing, found, strict=True):
                if document is not None or final:
                    outcome = no_span(slot, unpinned[slot]) if document is None else document
                    standing[slot] = await context.ledger.pin(numbers[slot], outcome)
        context.evidence.traces.update(
            {slot: document for slot, document in standing.items() if document is not None}
        )

    async def _find(
        self,
        context: ExecutionContext,
        slot: str,
        trace_id: str,
        readable: frozenset[str] | None,
        deadline: float,
    ) -> bytes | BlockFailure | None:
        document = await trace_document(
            self._cuts,
            context.tenant,
            trace_id,
            wait=max(0.0, deadline - time.monotonic()),
            readable=readable,
        )
        if document is None:
            return None
        data = await asyncio.to_thread(canonical_json, document)
        if len(data) > LARGEST_OUTPUT:
            why = f"trace {trace_id} (input {slot}) has {len(data)} bytes, over {LARGEST_OUTPUT}"
            return BlockFailure(ReasonKind.LIMIT_EXCEEDED, why)
        if context.capture is Capture.FULL:
            await self._blobs.put(context.tenant, data)
        return data


def _readable(connection: Connection, tenant: Tenant, principal_id: str | None) -> frozenset[str] | None:
    """The Cards whose spans the principal may see; None for all, and for what no principal asked for."""
    if principal_id is None:
        return None
    card_uid = Identity(connection, tenant).get(principal_id).card_uid
    return None if card_uid is None else graph_of(connection, tenant, card_uid)


def has_traces(context: ExecutionContext) -> bool:
    """Whether any trace was given as evidence."""
    return any(given["kind"] == "trace" for given in context.evidence.inputs.values())
