"""Reading executions: status, list, cancel."""

import base64
import binascii
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
from sqlalchemy import Connection
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from activities.settler import Settler, is_settled_now
from api.dispatches import dispatch_documents
from api.links import workflow_url
from api.plots import drift_picture
from cards.graph import readable_by
from store.caller import Caller, Permission
from store.database import Database
from store.execution_lists import execution_page
from store.executions import Executions
from store.settings import Settings
from wyrd.errors import Code, WyrdError
from wyrd.wire.canonical import JsonRefused, canonical_json, digest, strict_loads
from wyrd.wire.ids import is_uuid7
from wyrd.wire.verification import ExecutionSource, ExecutionStatus

MOST_ITEMS = 1000
_SETTLE_EVERY_SECONDS = 2.0
_CANCEL_SECONDS = 5.0
_UNSAID = {
    ExecutionStatus.CANCELLED: (Code.SPEC_409_CONFLICT, "the execution was cancelled"),
    ExecutionStatus.TIMED_OUT: (
        Code.VERIFICATION_504_EXECUTION_TIMED_OUT,
        "the execution ran out of time",
    ),
    ExecutionStatus.ERRORED: (Code.VERIFICATION_502_DEPENDENCY_FAILED, "the execution failed"),
}
"""The error of an execution that ended without a result and without a code of its own."""


class ExecutionReads:
    """What a caller may ask about executions that were started; settles what has been open for a while."""

    def __init__(self, settings: Settings, database: Database, client: Client, settler: Settler) -> None:
        self._settings = settings
        self._database = database
        self._client = client
        self.settler = settler
        self._settled: dict[str, float] = {}

    async def status(self, caller: Caller, execution_id: str) -> dict[str, Any]:
        """The status document. Raises `WYRD_VERIFICATION_404_EXECUTION_NOT_FOUND`.

        An execution that has been open for a while is settled first, as far as Temporal answers.
        """
        row = await self._row(caller, execution_id)
        if row.ended_at is None and is_settled_now(row):
            row = await self._settle(caller, row)
        return await self._document(caller, row)

    async def drift_picture(self, caller: Caller, execution_id: str, requirement: str | None) -> str:
        """The SVG of a drift report; what `api.plots.drift_picture` raises."""
        return drift_picture(await self._row(caller, execution_id), requirement)

    async def cancel(self, caller: Caller, execution_id: str) -> dict[str, Any]:
        """Ask the workflow to cancel, and answer the status it comes to; one that has ended stays so."""
        caller.require(Permission.EXECUTIONS_CANCEL)
        row = await self._row(caller, execution_id)
        if row.ended_at is None:
            if not await self._asked_to_cancel(row.workflow_id):
                # Accepted, and not started yet: settling starts it, so that there is something to cancel.
                await self._settle(caller, row, now=True)
                await self._asked_to_cancel(row.workflow_id)
            await self._end_of(row.workflow_id)
            row = await self._settle(caller, await self._row(caller, execution_id), now=True)
        return await self._document(caller, row)

    async def _document(self, caller: Caller, row: Any) -> dict[str, Any]:
        found = status_document(row, self._settings)
        # Operators react to failures, and to any change of a group's verdict; never to a verify.
        if row.source == ExecutionSource.GROUP.value or (
            row.verdict == "failed" and row.source != ExecutionSource.VERIFY.value
        ):
            found["dispatches"] = await self._database.read(
                dispatch_documents, caller.tenant, row.execution_id
            )
        return found

    async def _asked_to_cancel(self, workflow_id: str) -> bool:
        """Whether Temporal took the request; not so where no such workflow runs."""
        try:
            await self._client.get_workflow_handle(workflow_id).cancel(
                rpc_timeout=timedelta(seconds=_CANCEL_SECONDS)
            )
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return False
            raise WyrdError(
                Code.SERVER_503_SERVICE_UNAVAILABLE, "Temporal cannot be reached", service="temporal"
            ) from error
        return True

    async def page(
        self, caller: Caller, filters: Mapping[str, Any], limit: int, cursor: str | None
    ) -> dict[str, Any]:
        """One page of executions, the newest first."""
        caller.require(Permission.EXECUTIONS_READ)
        if not 1 <= limit <= MOST_ITEMS:
            raise WyrdError(
                Code.REGISTRY_400_LIST_LIMIT_OUT_OF_RANGE, f"limit is from 1 to {MOST_ITEMS}", field="limit"
            )
        told = {
            name: value.isoformat() if isinstance(value, datetime) else value
            for name, value in filters.items()
        }
        mark = digest({"filters": told, "tenant": caller.tenant.id, "card": caller.card_uid})[:32]
        before = None if cursor is None else _read_cursor(cursor, mark)
        rows = await self._database.read(_page, caller, filters, before, limit + 1)
        items = [_item(row) for row in rows[:limit]]
        more = len(rows) > limit
        return {"items": items, "next_cursor": _cursor(rows[limit - 1], mark) if more else None}

    async def _row(self, caller: Caller, execution_id: str) -> Any:
        caller.require(Permission.EXECUTIONS_READ)
        row = await self._database.read(_find, caller, execution_id.lower())
        if row is None:
            raise WyrdError(
                Code.VERIFICATION_404_EXECUTION_NOT_FOUND, f"no execution {execution_id[:64]}", field="id"
            )
        return row

    async def _settle(self, caller: Caller, row: Any, *, now: bool = False) -> Any:
        if row.ended_at is not None or row.source == "verify":
            return row
        moment = time.monotonic()
        if not now and self._settled.get(row.execution_id, 0.0) > moment:
            return row
        if len(self._settled) > 10_000:
            self._settled.clear()
        self._settled[row.execution_id] = moment + _SETTLE_EVERY_SECONDS
        try:
            await self.settler.settle(caller.tenant, row)
        except RPCError:
            return row
        return await self._row(caller, row.execution_id)

    async def _end_of(self, workflow_id: str) -> None:
        """Wait, not for long, until the workflow has recorded its end."""
        handle = self._client.get_workflow_handle(workflow_id)
        try:
            await handle.result(rpc_timeout=timedelta(seconds=_CANCEL_SECONDS))
        except Exception:
            # However it ended, or if it has not, the row says so.
            return


def status_document(row: Any, settings: Settings) -> dict[str, Any]:
    """A row in the shape of `wyrd.wire.verification.StatusDocument`."""
    found: dict[str, Any] = {
        "execution_id": row.execution_id,
        "status": row.status,
        "source": row.source,
        "created_at": row.created_at.isoformat(),
        "dispatches": [],
    }
    if row.source != "verify":
        found["workflow_id"] = row.workflow_id
        if (link := workflow_url(settings, row.workflow_id)) is not None:
            found["workflow_url"] = link
    error = _error(row)
    if error is not None:
        found["error"] = error
    if row.result is not None:
        # Stored as JSON text, and answered as it was stored: a result can be megabytes.
        found["result"] = orjson.Fragment(row.result)
    for name, value in (("group_id", row.group_id), ("owner_card_uid", row.owner_uid)):
        if value is not None:
            found[name] = value
    if row.group_sources is not None:
        found["group"] = {"sources": orjson.Fragment(row.group_sources)}
    for name in ("started_at", "ended_at", "window_start", "window_end"):
        value = getattr(row, name)
        if value is not None:
            found[name] = value.isoformat()
    return found


def _error(row: Any) -> dict[str, str] | None:
    status = ExecutionStatus(row.status)
    if status not in _UNSAID:
        return None
    code, message = _UNSAID[status]
    return {"code": row.error_code or str(code), "message": row.error_message or message}


def _item(row: Any) -> dict[str, Any]:
    found = {
        name: getattr(row, name)
        for name in ("execution_id", "status", "source", "verdict", "run_id", "group_id", "binding_id")
    }
    found["workflow_id"] = None if row.source == "verify" else row.workflow_id
    found["verifier"] = f"{row.verifier}#{row.verifier_uid}"
    found["subject"] = f"{row.subject}#{row.subject_uid}"
    for name in ("created_at", "started_at", "ended_at"):
        value = getattr(row, name)
        found[name] = None if value is None else value.isoformat()
    found["error"] = _error(row)
    return found


def _find(connection: Connection, caller: Caller, execution_id: str) -> Any:
    row = Executions(connection, caller.tenant).find(execution_id)
    if row is None:
        return None
    graph = readable_by(connection, caller)
    # What lies outside a bound caller's graph does not exist for it.
    seen = graph is None or (row.subject_uid in graph and (row.owner_uid is None or row.owner_uid in graph))
    return row if seen else None


def _page(
    connection: Connection,
    caller: Caller,
    filters: Mapping[str, Any],
    before: tuple[datetime, str] | None,
    limit: int,
) -> list[Any]:
    graph = readable_by(connection, caller)
    within = filters if graph is None else {**filters, "subjects": sorted(graph)}
    return execution_page(connection, caller.tenant, within, before=before, limit=limit)


def _cursor(row: Any, mark: str) -> str:
    text = canonical_json([mark, row.created_at.isoformat(), row.execution_id])
    return base64.urlsafe_b64encode(text).decode("ascii").rstrip("=")


def _read_cursor(cursor: str, mark: str) -> tuple[datetime, str]:
    try:
        text = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        found, created_at, execution_id = strict_loads(text)
        if found == mark and is_uuid7(execution_id):
            return datetime.fromisoformat(created_at).astimezone(UTC), execution_id
    except (binascii.Error, JsonRefused, ValueError, TypeError, OverflowError):
        pass
    raise WyrdError(Code.REGISTRY_400_CURSOR_MISMATCH, "the cursor belongs to another list", field="cursor")
