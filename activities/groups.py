"""Taking up a group that is due: the snapshot of its evidence, or the reason why there is none."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row
from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from activities.beating import beating
from activities.bundle import Bundles
from activities.starting import prepared_of
from engine.capture import Capture
from engine.groups import Gathered, Piece, gather
from engine.result import kept_inputs
from store.authority import require_authority
from store.bindings import Binding, Bindings
from store.caller import Tenant
from store.cards import Cards
from store.clock import now
from store.database import Database
from store.executions import Executions, NewExecution, find_execution
from store.groups import Group, Groups
from store.settings import Settings
from workflows import contracts
from workflows.contracts import CloseGroup, GroupClosed, Of
from wyrd.cards import VerifierSpec
from wyrd.errors import Code, WyrdError
from wyrd.wire.canonical import strict_loads
from wyrd.wire.verification import ExecutionSource

INCOMPLETE_GRACE = timedelta(minutes=5)
"""How long past its due time a group waits for inputs that are not visible."""
MOST_EVIDENCE_BYTES = 64 * 1024 * 1024
"""Inputs of one group together; more is not judged, since one judgement holds them all."""
_LOOK_AGAIN_SECONDS = 15.0
_NAMED = 100
_DEPTH = 1100


@dataclass(frozen=True)
class _Seen:
    """A due group and its evidence, read at one moment."""

    group: Group
    binding: Binding
    evidence: Sequence[Row[Any]]
    sources: dict[str, set[str]]
    """By the name of a source Verifier, the uids it has among the owner's bindings."""
    bytes: int
    at: datetime


class GroupActivities:
    """Bound to one process's database."""

    def __init__(self, database: Database, bundles: Bundles, settings: Settings) -> None:
        self._database = database
        self._bundles = bundles
        self._settings = settings

    @property
    def quick(self) -> list[Any]:
        """What the `wyrd` queue runs of it."""
        return [self.close_group, self.await_end]

    @activity.defn(name=contracts.CLOSE_GROUP)
    async def close_group(self, argument: CloseGroup) -> GroupClosed:
        async with beating():
            return await self._closed(argument)

    async def _closed(self, argument: CloseGroup) -> GroupClosed:
        tenant = Tenant(argument.tenant_id, argument.tenant_slug)
        earlier = await self._database.read(find_execution, tenant, argument.execution_id)
        if earlier is not None:
            # The answer to an earlier attempt was lost after its record was committed.
            return await self._answer(tenant, earlier)
        seen = await self._database.read(_look, tenant, argument)
        if isinstance(seen, GroupClosed):
            return seen
        if not seen.evidence and seen.bytes == 0:
            await self._database.write(_empty, tenant, argument, seen.group)
            return GroupClosed()
        new = _new(tenant, seen, argument, self._settings)
        try:
            await self._database.read(require_authority, tenant, seen.binding.owner_uid)
            spec = (await self._bundles.of(tenant, seen.binding.verifier_uid)).plan.spec
            if seen.bytes > MOST_EVIDENCE_BYTES:
                raise _too_large(seen.bytes)
            missing = [row.execution_id for row in seen.evidence if not row.inputs]
            if missing:
                assert seen.group.due_at is not None
                if seen.at <= seen.group.due_at + INCOMPLETE_GRACE:
                    return GroupClosed(step="wait", seconds=_LOOK_AGAIN_SECONDS)
                raise _incomplete(missing)
        except WyrdError as error:
            if error.status >= 500:
                raise
            workflow_id = activity.info().workflow_id
            await self._database.write(_drop, tenant, argument, seen.group, new, error, workflow_id)
            return GroupClosed()
        judged = {row.verifier_uid for row in seen.evidence}
        captures = {uid: await self._capture(tenant, uid) for uid in judged}
        complete = await asyncio.to_thread(_with_evidence, new, spec, seen, captures)
        await self._database.write(_take, tenant, argument, seen.group, complete)
        recorded = await self._database.read(find_execution, tenant, argument.execution_id)
        if recorded is None:
            return GroupClosed(step="wait", seconds=0.0)
        return await self._answer(tenant, recorded)

    @activity.defn(name=contracts.AWAIT_END)
    async def await_end(self, argument: Of) -> None:
        tenant = Tenant(argument.tenant_id, argument.tenant_slug)
        row = await self._database.read(find_execution, tenant, argument.execution_id)
        if row is not None and row.ended_at is None:
            raise ApplicationError("the judgement is still running", category=ApplicationErrorCategory.BENIGN)

    async def _capture(self, tenant: Tenant, verifier_uid: str) -> Capture:
        """How much a source Verifier lets be kept; nothing of one that cannot be read any more."""
        try:
            return (await self._bundles.of(tenant, verifier_uid)).capture
        except WyrdError as error:
            if error.status >= 500:
                raise
            return Capture.REDACT

    async def _answer(self, tenant: Tenant, row: Any) -> GroupClosed:
        if row.ended_at is not None:
            return GroupClosed()
        bundle = await self._bundles.of(tenant, row.verifier_uid)
        return GroupClosed(step="judge", prepared=prepared_of(row, bundle.plan.shape))


def _look(connection: Connection, tenant: Tenant, argument: CloseGroup) -> _Seen | GroupClosed:
    groups = Groups(connection, tenant)
    group = groups.find(argument.binding_id, argument.group_id)
    binding = Bindings(connection, tenant).by_id(argument.binding_id)
    if group is None or group.due_at is None or binding is None:
        return GroupClosed()
    at = now(connection)
    if at < group.due_at:
        return GroupClosed(step="wait", seconds=(group.due_at - at).total_seconds())
    sources: dict[str, set[str]] = {}
    for peer in Bindings(connection, tenant).of_owner(binding.owner_uid):
        sources.setdefault(peer.verifier_name, set()).add(peer.verifier_uid)
    size = groups.evidence_bytes(argument.binding_id, argument.group_id)
    evidence = groups.evidence(argument.binding_id, argument.group_id) if size <= MOST_EVIDENCE_BYTES else []
    return _Seen(group, binding, evidence, sources, size, at)


def _new(tenant: Tenant, seen: _Seen, argument: CloseGroup, settings: Settings) -> NewExecution:
    binding = seen.binding
    return NewExecution(
        execution_id=argument.execution_id,
        source=ExecutionSource.GROUP.value,
        verifier_uid=binding.verifier_uid,
        verifier=f"{binding.verifier_space}/Verifier/{binding.verifier_name}@{binding.verifier_version}",
        subject_uid=binding.subject_uid,
        subject="",
        owner_uid=binding.owner_uid,
        owner="",
        binding_id=binding.binding_id,
        principal_id=None,
        run_id=None,
        group_id=argument.group_id,
        inputs="{}",
        timeout_seconds=settings.execution_timeout_seconds,
        created_at=seen.at,
    )


def _with_evidence(
    new: NewExecution, spec: VerifierSpec, seen: _Seen, captures: Mapping[str, Capture]
) -> NewExecution:
    pieces: dict[str, list[Piece]] = {}
    of_uid = {uid: name for name, uids in seen.sources.items() for uid in uids}
    for row in seen.evidence:
        name = of_uid.get(row.verifier_uid)
        if name is not None:
            pieces.setdefault(name, []).append(_piece(row, captures[row.verifier_uid]))
    gathered = gather(spec, pieces)
    inputs = {slot: {"kind": "json", "value": found.value} for slot, found in gathered.items()}
    sources = {slot: _source(found) for slot, found in gathered.items()}
    return replace(new, inputs=json.dumps(inputs), group_sources=json.dumps(sources))


def _piece(row: Row[Any], capture: Capture) -> Piece:
    outcomes = {}
    if row.result is not None:
        result = strict_loads(row.result, max_depth=_DEPTH)
        outcomes = {one["id"]: one["outcome"] for one in result["outcome"]["requirements"]}
    # One that still runs has its values in the row, which go when it ends: the group must not keep them.
    inputs = kept_inputs(strict_loads(row.inputs, max_depth=_DEPTH), capture)
    return Piece(row.execution_id, inputs, outcomes)


def _source(found: Gathered) -> dict[str, Any]:
    return {"reference": found.reference, "execution_ids": list(found.execution_ids)}


def _incomplete(missing: Sequence[str]) -> WyrdError:
    named = ", ".join(missing[:_NAMED])
    more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
    return WyrdError(
        Code.VERIFICATION_409_SNAPSHOT_INCOMPLETE,
        f"the input is not visible of {len(missing)} execution(s): {named}{more}",
        execution_ids=list(missing[:_NAMED]),
    )


def _too_large(size: int) -> WyrdError:
    return WyrdError(
        Code.VERIFICATION_413_INPUT_TOO_LARGE,
        f"the inputs of the group are {size} bytes together, and a judgement takes {MOST_EVIDENCE_BYTES}",
    )


def _take(
    connection: Connection, tenant: Tenant, argument: CloseGroup, seen: Group, new: NewExecution
) -> None:
    """Record the judgement to be run, unless the group has moved on since it was looked at."""
    groups = Groups(connection, tenant)
    if _still(groups, argument, seen):
        Executions(connection, tenant).add(_named(connection, tenant, new))
        groups.judged(argument.binding_id, argument.group_id, new.execution_id)


def _empty(connection: Connection, tenant: Tenant, argument: CloseGroup, seen: Group) -> None:
    groups = Groups(connection, tenant)
    if _still(groups, argument, seen):
        groups.emptied(argument.binding_id, argument.group_id)


def _drop(
    connection: Connection,
    tenant: Tenant,
    argument: CloseGroup,
    seen: Group,
    new: NewExecution,
    error: WyrdError,
    workflow_id: str,
) -> None:
    """Record why the group is not judged, and drop it: its next evidence schedules it again."""
    groups = Groups(connection, tenant)
    if _still(groups, argument, seen):
        Executions(connection, tenant).add_errored(
            _named(connection, tenant, new), error, workflow_id=workflow_id
        )
        groups.judged(argument.binding_id, argument.group_id, new.execution_id)


def _still(groups: Groups, argument: CloseGroup, seen: Group) -> bool:
    """The same revision means the same evidence."""
    group = groups.find(argument.binding_id, argument.group_id, lock=True)
    return group is not None and group.revision == seen.revision and group.due_at is not None


def _named(connection: Connection, tenant: Tenant, new: NewExecution) -> NewExecution:
    cards = Cards(connection, tenant).by_uids([new.subject_uid, new.owner_uid or ""])
    owner = cards.get(new.owner_uid or "")
    return replace(
        new,
        subject=cards[new.subject_uid].ref.pinned,
        owner=None if owner is None else owner.ref.pinned,
    )
