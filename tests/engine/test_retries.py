"""Which failures are followed by another attempt, and after how long."""

from __future__ import annotations

import math

import pytest

from engine.failure import BlockFailure, ReasonKind
from engine.retries import Role, next_wait


def busy(retry_after: float | None = None) -> BlockFailure:
    return BlockFailure(ReasonKind.PROVIDER_ERROR, "503", retryable=True, retry_after=retry_after)


def waits(role: Role, failure: BlockFailure, retries: int = 0) -> list[float]:
    found: list[float] = []
    while (wait := next_wait(role, failure, len(found) + 1, retries)) is not None:
        found.append(wait)
    return found


def test_a_step_retries_as_often_as_it_says_waiting_twice_as_long_each_time() -> None:
    assert waits(Role.STEP, busy()) == []
    assert waits(Role.STEP, busy(), 2) == [1, 2]
    assert waits(Role.STEP, busy(), 5) == [1, 2, 4, 8, 16]
    assert waits(Role.STEP, busy(), 8)[-3:] == [30, 30, 30]


def test_an_agent_check_retries_transient_provider_faults_twice() -> None:
    assert waits(Role.AGENT_CHECK, busy()) == [1, 2]
    timeout = BlockFailure(ReasonKind.TIMEOUT, "out of time", retryable=True)
    assert waits(Role.AGENT_CHECK, timeout) == []


def test_other_checks_are_never_retried() -> None:
    for kind in ReasonKind:
        assert waits(Role.CHECK, BlockFailure(kind, "x", retryable=True), 5) == []


@pytest.mark.parametrize("role", [Role.STEP, Role.AGENT_CHECK])
def test_a_providers_longer_wait_is_kept_and_a_shorter_one_is_not(role: Role) -> None:
    assert waits(role, busy(45), 2) == [45, 45]
    assert waits(role, busy(1.5), 2) == [1.5, 2]
    for nonsense in (-5, math.nan, math.inf):
        assert waits(role, busy(nonsense), 2) == [1, 2]


@pytest.mark.parametrize("kind", [ReasonKind.INTERNAL, ReasonKind.CANCELLED, ReasonKind.WORKER_LOST])
def test_faults_of_ours_and_cancels_are_final(kind: ReasonKind) -> None:
    assert waits(Role.STEP, BlockFailure(kind, "x", retryable=True), 5) == []


def test_what_another_attempt_cannot_help_is_final() -> None:
    assert waits(Role.STEP, BlockFailure(ReasonKind.EVIDENCE_UNREADABLE, "encrypted"), 5) == []
