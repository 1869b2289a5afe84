"""Which open executions the settler looks after, and which it leaves to whoever is about to start them."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace

import pytest

from activities.settler import SETTLED_AGE, WORKFLOW_STARTED_AGE, is_settled_now
from store.database import utc_now

MOMENT = timedelta(seconds=1)


def row(source: str, age: timedelta, acknowledged: bool) -> SimpleNamespace:
    return SimpleNamespace(source=source, created_at=utc_now() - age, acknowledged=acknowledged)


@pytest.mark.parametrize("source", ["group", "schedule"])
def test_a_judgement_is_left_to_the_workflow_that_starts_it(source: str) -> None:
    assert not is_settled_now(row(source, SETTLED_AGE + MOMENT, acknowledged=False))
    assert not is_settled_now(row(source, WORKFLOW_STARTED_AGE - 10 * MOMENT, acknowledged=False))


@pytest.mark.parametrize("source", ["group", "schedule"])
def test_a_judgement_that_nobody_has_started_for_long_is_started(source: str) -> None:
    assert is_settled_now(row(source, WORKFLOW_STARTED_AGE + MOMENT, acknowledged=False))


@pytest.mark.parametrize("source", ["group", "schedule"])
def test_a_judgement_that_was_started_is_settled_as_soon_as_any_other(source: str) -> None:
    assert is_settled_now(row(source, SETTLED_AGE + MOMENT, acknowledged=True))


def test_a_submit_is_left_alone_only_while_its_start_may_be_under_way() -> None:
    assert not is_settled_now(row("submit", SETTLED_AGE / 2, acknowledged=False))
    assert is_settled_now(row("submit", SETTLED_AGE + MOMENT, acknowledged=False))
