"""Which Operators react to a verdict, and the dispatches that come of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from sqlalchemy import Connection

from activities.dispatch.requests import request_of
from activities.dispatch.templates import TemplateFault
from activities.record import ExecutionNames
from cards.graph import graph_of
from engine.outcomes import Verdict
from store.bindings import Binding, Bindings, BoundOperator
from store.caller import Tenant
from store.clock import now
from store.dispatches import DispatchError, Dispatches, DispatchFault, NewDispatch, dispatch_id_of
from store.groups import Groups
from store.identity import Identity
from workflows.contracts import Unstarted
from wyrd.cards import DecodeError, OperatorSpec, decode_spec
from wyrd.wire.verification import ExecutionSource, ExecutionVerdict

DELIVERY_SECONDS = 300.0
"""How long after its creation a dispatch is given up; an Operator's budget may make it shorter."""

Reaction = Literal["failure", "verdict_change"]
"""The list of a binding whose Operators react: `on_failure` or `on_verdict_change`."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A completed execution, as Operators' templates may tell of it. `failed` are requirement ids."""

    execution_id: str
    run_id: str | None
    group_id: str | None
    verifier_ref: str
    subject_ref: str
    verdict: str
    summary: str
    failed: tuple[str, ...]
    requirement_count: int
    completed_at: datetime

    @classmethod
    def of(
        cls, execution_id: str, names: ExecutionNames, outcome: Mapping[str, Any], ended_at: datetime
    ) -> Judged:
        """From what is recorded of it. `outcome` is that of the result document."""
        requirements = outcome["requirements"]
        return cls(
            execution_id=execution_id,
            run_id=names.run_id,
            group_id=names.group_id,
            verifier_ref=names.verifier.pinned,
            subject_ref=names.subject.pinned,
            verdict=outcome["verdict"],
            summary=outcome["reason"],
            failed=tuple(one["id"] for one in requirements if one["outcome"] == "failed"),
            requirement_count=len(requirements),
            completed_at=ended_at,
        )


def react_to_verdict(
    connection: Connection, tenant: Tenant, names: ExecutionNames, judged: Judged, api_url: str
) -> int:
    """Store the dispatches that a background execution brings about by being completed; how many.

    A group reacts to a change of its verdict, everything else to a verdict that is failed.
    """
    if names.source == ExecutionSource.GROUP.value:
        return _react_to_change(connection, tenant, names, judged, api_url)
    if judged.verdict != Verdict.FAILED.value:
        return 0
    bindings = matching_bindings(connection, tenant, names)
    return react(connection, tenant, judged, bindings, "failure", api_url=api_url)


def _react_to_change(
    connection: Connection, tenant: Tenant, names: ExecutionNames, judged: Judged, api_url: str
) -> int:
    """Compare with the group's last judgement that passed or failed; before the first it counts as
    passed. An inconclusive one neither reacts nor takes the place of the one before."""
    if judged.verdict == ExecutionVerdict.INCONCLUSIVE.value:
        return 0
    assert names.binding_id is not None
    assert judged.group_id is not None
    groups = Groups(connection, tenant)
    before = groups.replace_verdict(names.binding_id, judged.group_id, judged.verdict)
    previous = before or ExecutionVerdict.PASSED.value
    if previous == judged.verdict:
        return 0
    bindings = matching_bindings(connection, tenant, names)
    return react(
        connection,
        tenant,
        judged,
        bindings,
        "verdict_change",
        api_url=api_url,
        previous_verdict=previous,
    )


def react(
    connection: Connection,
    tenant: Tenant,
    judged: Judged,
    bindings: Sequence[Binding],
    reaction: Reaction,
    *,
    api_url: str,
    previous_verdict: str | None = None,
) -> int:
    """Store one dispatch for each Operator of those bindings that so reacts, in the caller's transaction.

    Answers how many. Whether there is anything to react to is the caller's decision; what is stored
    already stays.
    """
    created_at = now(connection)
    made = [
        _dispatch(tenant, judged, binding, operator, previous_verdict, api_url, created_at)
        for binding in bindings
        for operator in binding.operators
        if operator.on == reaction
    ]
    Dispatches(connection, tenant).add(made)
    return len(made)


def unstarted(connection: Connection, tenant: Tenant, execution_id: str) -> list[Unstarted]:
    """The dispatches of an execution that have not ended, for its workflow to start."""
    moment = now(connection)
    return [
        Unstarted(dispatch_id=row.dispatch_id, seconds=(row.deadline_at - moment).total_seconds())
        for row in Dispatches(connection, tenant).unfinished(execution_id)
    ]


def matching_bindings(connection: Connection, tenant: Tenant, names: ExecutionNames) -> list[Binding]:
    """The active bindings that an execution belongs to.

    A submit belongs to every binding of its Verifier to its subject, and where its caller was bound to
    a Card, to those whose owner lies in that Card's graph; other executions to the one that ran them.
    """
    repository = Bindings(connection, tenant)
    if names.source != ExecutionSource.SUBMIT.value:
        found = None if names.binding_id is None else repository.by_id(names.binding_id)
        return [found] if found is not None and found.active else []
    assert names.verifier.uid is not None
    assert names.subject.uid is not None
    bindings = repository.between(names.verifier.uid, names.subject.uid)
    card_uid = (
        None if names.principal_id is None else Identity(connection, tenant).get(names.principal_id).card_uid
    )
    if card_uid is None:
        return bindings
    graph = graph_of(connection, tenant, card_uid)
    return [binding for binding in bindings if binding.owner_uid in graph]


def _dispatch(
    tenant: Tenant,
    judged: Judged,
    binding: Binding,
    operator: BoundOperator,
    previous_verdict: str | None,
    api_url: str,
    created_at: datetime,
) -> NewDispatch:
    who = operator.uid or operator.digest
    assert who is not None
    dispatch_id = dispatch_id_of(tenant, judged.execution_id, binding.binding_id, who)
    request, error, seconds = None, None, DELIVERY_SECONDS
    try:
        spec = decode_spec("Operator", operator.spec)
        assert isinstance(spec, OperatorSpec)
        if spec.budget is not None and spec.budget.max_wall_seconds is not None:
            seconds = min(seconds, spec.budget.max_wall_seconds)
        fields = dict(_fields(judged, binding, dispatch_id, previous_verdict, api_url))
        request = request_of(spec, fields).model_dump_json()
    except DecodeError:
        error = DispatchError(DispatchFault.OPERATOR_UNAVAILABLE, "the Operator's spec cannot be read")
    except TemplateFault as fault:
        error = DispatchError(DispatchFault.INVALID_REQUEST, str(fault))
    return NewDispatch(
        dispatch_id=dispatch_id,
        execution_id=judged.execution_id,
        binding_id=binding.binding_id,
        reaction=operator.on,
        operator_uid=operator.uid,
        operator_digest=operator.digest,
        request=request,
        created_at=created_at,
        deadline_at=created_at + timedelta(seconds=seconds),
        error=error,
    )


def _fields(
    judged: Judged, binding: Binding, dispatch_id: str, previous_verdict: str | None, api_url: str
) -> Iterator[tuple[str, str]]:
    """Every field of a template with its value; what an execution does not have is empty."""
    yield "execution_id", judged.execution_id
    yield "run_id", judged.run_id or ""
    yield "binding_id", binding.binding_id
    yield "dispatch_id", dispatch_id
    yield "verifier_ref", judged.verifier_ref
    yield "subject_ref", judged.subject_ref
    yield "verdict", judged.verdict
    yield "previous_verdict", previous_verdict or ""
    yield "group_id", judged.group_id or ""
    yield "completed_at", judged.completed_at.astimezone(UTC).isoformat(timespec="seconds")
    yield "summary", judged.summary
    yield "failed_requirements", ", ".join(judged.failed)
    yield "requirement_count", str(judged.requirement_count)
    yield "result_url", f"{api_url}/v1/verification/executions/{judged.execution_id}"
