"""Reading bindings: what they join, when they run next, how they have run, and running them by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection
from temporalio.client import (
    Client,
    ScheduleBackfill,
    ScheduleDescription,
    ScheduleHandle,
    ScheduleOverlapPolicy,
)
from temporalio.service import RPCError, RPCStatusCode

from activities.drift.windows import page_of_times, schedule_id
from activities.schedules import PAUSED_BY_WYRD
from cards.graph import readable_by
from store.baselines import Baselines, StoredBaseline, baseline_status
from store.bindings import Binding, Bindings
from store.caller import Caller, Permission, Tenant
from store.cards import Cards, StoredCard
from store.clock import now
from store.database import Database
from store.execution_lists import last_of_binding, scheduled_windows
from store.groups import Groups, GroupsSeen
from store.settings import Settings
from wyrd.errors import Code, WyrdError
from wyrd.wire.refs import CardRef

MOST_ITEMS = 1000
SLOTS = 100
"""Judged slots that the status of a binding shows."""
_MANY = 1000
"""Boundaries that the server lists at once."""
MOST_SLOTS = 500
"""Slots that one backfill may start."""
_RPC = timedelta(seconds=5)


@dataclass(frozen=True)
class _Seen:
    """A binding as SQL shows it at one moment."""

    binding: Binding
    owner: StoredCard
    subject: CardRef
    slots: list[Any]
    last_execution_id: str | None
    baselines: Mapping[str, StoredBaseline]
    groups: GroupsSeen
    at: datetime


class BindingReads:
    """What a caller may ask about bindings."""

    def __init__(self, settings: Settings, database: Database, client: Client) -> None:
        self._settings = settings
        self._database = database
        self._client = client

    async def page(
        self, caller: Caller, filters: Mapping[str, Any], limit: int, cursor: str | None
    ) -> dict[str, Any]:
        """One page of bindings, the oldest first. `cursor` is the id of the last one before it."""
        caller.require(Permission.EXECUTIONS_READ)
        if not 1 <= limit <= MOST_ITEMS:
            raise WyrdError(
                Code.REGISTRY_400_LIST_LIMIT_OUT_OF_RANGE, f"limit is from 1 to {MOST_ITEMS}", field="limit"
            )
        items = await self._database.read(_page, caller, dict(filters), limit + 1, cursor)
        found: dict[str, Any] = {"items": items[:limit]}
        if len(items) > limit:
            found["next_cursor"] = items[limit - 1]["binding_id"]
        return found

    async def status(self, caller: Caller, binding_id: str) -> dict[str, Any]:
        """One binding with its health. Raises `WYRD_VERIFICATION_404_BINDING_NOT_FOUND`."""
        caller.require(Permission.EXECUTIONS_READ)
        seen = await self._database.read(_look, caller, binding_id)
        found = _document(seen.binding, seen.owner.ref, seen.subject)
        found["last_execution_id"] = seen.groups.last_execution_id or seen.last_execution_id
        kind = (seen.binding.runs_on or {}).get("kind")
        if kind == "schedule":
            return found | await self._scheduled(caller.tenant, seen)
        if kind == "group_end":
            found["groups"] = {
                "waiting": seen.groups.waiting,
                "next_due_at": _time(seen.groups.next_due_at),
            }
        found["health"] = _health("ok") if seen.binding.active else _inactive(seen)
        return found

    async def run_now(self, caller: Caller, binding_id: str) -> dict[str, Any]:
        """Judge the last complete window now, by the Schedule's own trigger."""
        await self._act(caller, binding_id, lambda handle: handle.trigger(rpc_timeout=_RPC))
        return await self.status(caller, binding_id)

    async def backfill(
        self, caller: Caller, binding_id: str, start: datetime, end: datetime
    ) -> dict[str, Any]:
        """Judge every slot in [start, end] that was not judged, by the Schedule's own backfill.

        Raises `WYRD_VERIFICATION_400_INVALID_WINDOW` for a span that is empty, not over, or holds
        no slot or more of them than `MOST_SLOTS`.
        """
        if end <= start:
            raise _bad_window("from", "the span ends before it has begun")

        async def fill(handle: ScheduleHandle) -> None:
            if end > await self._database.read(now):
                raise _bad_window("to", "slots are judged once they have passed, and this time has not come")
            # The server's list leaves out the moment it begins at; a backfill does not.
            before = start - timedelta(microseconds=1)
            found = await page_of_times(self._client, caller.tenant, binding_id, before, end)
            if not found:
                raise _bad_window("from", "the schedule has no slot in that span")
            if len(found) > MOST_SLOTS:
                raise _bad_window(
                    "from",
                    f"the span has more than {MOST_SLOTS} slots; ask for it in parts",
                    next_slot=found[MOST_SLOTS],
                )
            slots = ScheduleBackfill(start_at=start, end_at=end, overlap=ScheduleOverlapPolicy.ALLOW_ALL)
            await handle.backfill(slots, rpc_timeout=_RPC)

        await self._act(caller, binding_id, fill)
        return await self.status(caller, binding_id)

    async def _act(self, caller: Caller, binding_id: str, act: Any) -> None:
        caller.require(Permission.EXECUTIONS_CANCEL)
        seen = await self._database.read(_look, caller, binding_id)
        if (seen.binding.runs_on or {}).get("kind") != "schedule":
            raise WyrdError(
                Code.VERIFICATION_422_INPUT_UNSUPPORTED,
                "only a binding with a schedule is run by hand; others run when evidence comes",
                binding_id=binding_id,
            )
        try:
            await act(self._client.get_schedule_handle(schedule_id(caller.tenant, binding_id)))
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                raise WyrdError(
                    Code.SERVER_503_NOT_READY, "the schedule is still being made", binding_id=binding_id
                ) from error
            raise _away() from error

    async def _scheduled(self, tenant: Tenant, seen: _Seen) -> dict[str, Any]:
        found: dict[str, Any] = {"next_run_at": None, "slots": [_slot(row) for row in seen.slots]}
        if seen.baselines:
            found["baseline"] = baseline_status(seen.baselines)
        try:
            handle = self._client.get_schedule_handle(schedule_id(tenant, seen.binding.binding_id))
            described = await handle.describe(rpc_timeout=_RPC)
            unrun = [] if described.schedule.state.paused else await self._unrun(tenant, seen)
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                return {**found, "health": _health("unknown", "Temporal cannot be reached")}
            gone = _health("pending", "it has no schedule yet") if seen.binding.active else _inactive(seen)
            return {**found, "health": gone}
        ahead = described.info.next_action_times
        if ahead and not described.schedule.state.paused:
            found["next_run_at"] = _time(ahead[0])
        return {**found, "health": _scheduled_health(described, len(unrun))}

    async def _unrun(self, tenant: Tenant, seen: _Seen) -> list[datetime]:
        """Boundaries that have passed since the last slot that left a record, and since the owner was
        last made active; a page of them at most."""
        recorded = [row.window_end for row in seen.slots]
        start = max([seen.binding.created_at, seen.owner.updated_at, *recorded])
        # A slot that has just passed is given the time it takes to be judged.
        end = seen.at - timedelta(seconds=self._settings.window_margin_seconds + 5)
        if end <= start:
            return []
        return await page_of_times(self._client, tenant, seen.binding.binding_id, start, end)


def _scheduled_health(described: ScheduleDescription, unrun: int) -> dict[str, Any]:
    missed = described.info.num_actions_missed_catchup_window
    details = {"slots_not_run": unrun, "slots_missed": missed}
    if described.schedule.state.paused:
        note = (described.schedule.state.note or "paused by hand").removeprefix(PAUSED_BY_WYRD)
        return _health("paused", note, **details)
    if unrun:
        many = f"{unrun} or more" if unrun >= _MANY else str(unrun)
        return _health("late", f"has not run for {many} {'slot' if unrun == 1 else 'slots'}", **details)
    if missed:
        were = "slot was" if missed == 1 else "slots were"
        return _health("ok", f"{missed} {were} older than a day when it could run again", **details)
    return _health("ok", None, **details)


def _health(status: str, message: str | None = None, **details: Any) -> dict[str, Any]:
    return {"status": status, "message": message, **details}


def _inactive(seen: _Seen) -> dict[str, Any]:
    return _health("inactive", f"the owner is {seen.owner.status}")


def _bad_window(field: str, why: str, next_slot: datetime | None = None) -> WyrdError:
    details = {} if next_slot is None else {"next": next_slot.isoformat()}
    return WyrdError(Code.VERIFICATION_400_INVALID_WINDOW, why, field=field, **details)


def _away() -> WyrdError:
    return WyrdError(Code.SERVER_503_SERVICE_UNAVAILABLE, "Temporal cannot be reached", service="temporal")


def _page(
    connection: Connection, caller: Caller, filters: dict[str, Any], limit: int, cursor: str | None
) -> list[dict[str, Any]]:
    graph = readable_by(connection, caller)
    bindings, cards = Bindings(connection, caller.tenant), Cards(connection, caller.tenant)
    active = filters.pop("active", None)
    found: list[Binding] = []
    while len(found) < limit:
        page = bindings.page(cursor, limit, active=active, **filters)
        found += [one for one in page if _within(graph, one)]
        if len(page) < limit:
            break
        cursor = page[-1].binding_id
    known = cards.by_uids({uid for one in found for uid in (one.owner_uid, one.subject_uid)})
    return [_document(one, known[one.owner_uid].ref, known[one.subject_uid].ref) for one in found[:limit]]


def _look(connection: Connection, caller: Caller, binding_id: str) -> _Seen:
    binding = Bindings(connection, caller.tenant).by_id(binding_id)
    if binding is None or not _within(readable_by(connection, caller), binding):
        raise WyrdError(
            Code.VERIFICATION_404_BINDING_NOT_FOUND, "no binding has this id", binding_id=binding_id[:64]
        )
    cards = Cards(connection, caller.tenant).by_uids([binding.owner_uid, binding.subject_uid])
    return _Seen(
        binding,
        cards[binding.owner_uid],
        cards[binding.subject_uid].ref,
        scheduled_windows(connection, caller.tenant, binding_id, SLOTS),
        last_of_binding(connection, caller.tenant, binding_id),
        Baselines(connection, caller.tenant).of(binding.verifier_uid),
        Groups(connection, caller.tenant).seen(binding_id),
        now(connection),
    )


def _within(graph: frozenset[str] | None, binding: Binding) -> bool:
    """What lies outside a bound caller's graph does not exist for it."""
    return graph is None or (binding.owner_uid in graph and binding.subject_uid in graph)


def _document(binding: Binding, owner: CardRef, subject: CardRef) -> dict[str, Any]:
    verifier = CardRef(
        kind="Verifier",
        space=binding.verifier_space,
        name=binding.verifier_name,
        version=binding.verifier_version,
        uid=binding.verifier_uid,
    )
    return {
        "binding_id": binding.binding_id,
        "owner": owner.document(),
        "subject": subject.document(),
        "verifier": verifier.document(),
        "alias": binding.alias,
        "occurrence": binding.occurrence,
        "active": binding.active,
        "runs_on": binding.runs_on,
        "operators": [
            {"on": one.on, "operator": {"uid": one.uid} if one.uid else {"digest": one.digest}}
            for one in binding.operators
        ],
        "created_at": binding.created_at.isoformat(),
    }


def _slot(row: Any) -> dict[str, Any]:
    return {
        "window_start": _time(row.window_start),
        "window_end": _time(row.window_end),
        "execution_id": row.execution_id,
        "status": row.status,
        "verdict": row.verdict,
        "error": None if row.error_code is None else {"code": row.error_code, "message": row.error_message},
    }


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else moment.astimezone(UTC).isoformat()
