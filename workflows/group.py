"""One group of one binding: wait until it is quiet, judge it, wait again while more is due.

A signal only moves the due time. The sleeping timer wakes at the old one, sees the later one and
sleeps on, so that steady evidence costs no timers. Whether the group really is due, and what it
holds, is for the database to say.
"""

from __future__ import annotations

import asyncio
import contextlib
from datetime import timedelta

from temporalio import workflow
from temporalio.exceptions import ActivityError, ChildWorkflowError, WorkflowAlreadyStartedError

with workflow.unsafe.imports_passed_through():
    from workflows import calls, contracts
    from workflows.contracts import CloseGroup, GroupDue, GroupStart, Of, Prepared

LONGEST_SLEEP = timedelta(days=30).total_seconds()
"""Seconds of one timer: a long quiet time is slept in parts, each a chance to continue as new."""
MOST_EVENTS = 2000
"""Events of one run's history; the state is small, so a new run costs next to nothing."""


@workflow.defn(name=contracts.GROUP_WORKFLOW)
class GroupWorkflow:
    """Lives for as long as something is due; the next evidence after that starts a new run."""

    @workflow.init
    def __init__(self, start: GroupStart) -> None:
        self._due_at = start.due_at
        self._news = True

    @workflow.signal(name=contracts.GROUP_DUE)
    def due(self, told: GroupDue) -> None:
        """Evidence was acknowledged: the group is due then, which is nearly always later than was thought."""
        self._due_at = max(self._due_at, told.due_at)
        self._news = True

    @workflow.run
    async def run(self, start: GroupStart) -> None:
        while self._news:
            await self._sleep_until_due(start)
            # Whatever is told from here on is asked about once more, even if it is due no later: two
            # acknowledgements need not be committed in the order of their clocks.
            self._news = False
            closed = await calls.close_group(self._question(start))
            if closed.prepared is not None:
                await self._judge(start, closed.prepared)
            elif closed.step == "wait":
                # By the database's clock, which this one need not agree with.
                await self._sleep(closed.seconds)
                self._news = True
            if self._news:
                self._continue_when_long(start)

    async def _sleep_until_due(self, start: GroupStart) -> None:
        while (left := self._due_at - workflow.time()) > 0:
            await self._sleep(min(left, LONGEST_SLEEP))
            self._continue_when_long(start)

    async def _sleep(self, seconds: float) -> None:
        """One timer, cut short only where signals have made the history long: they must not fill it up."""
        with contextlib.suppress(asyncio.TimeoutError):
            await workflow.wait_condition(self._is_long, timeout=seconds)

    def _question(self, start: GroupStart) -> CloseGroup:
        return CloseGroup(
            tenant_id=start.tenant_id,
            tenant_slug=start.tenant_slug,
            binding_id=start.binding_id,
            group_id=start.group_id,
            # Chosen here, so that an answer which was lost is given again and not a second time.
            execution_id=calls.new_execution_id(),
        )

    async def _judge(self, start: GroupStart, prepared: Prepared) -> None:
        """Run the judgement to its end: the next one is compared with this one's verdict."""
        try:
            await calls.run_verification(start.tenant_id, start.tenant_slug, prepared)
        except WorkflowAlreadyStartedError:
            # The settler was quicker. Its run records the same execution.
            await calls.await_end(
                Of(
                    tenant_id=start.tenant_id,
                    tenant_slug=start.tenant_slug,
                    execution_id=prepared.execution_id,
                )
            )
        except (ChildWorkflowError, ActivityError):
            # The execution has its own recorded end; the group lives on.
            workflow.logger.warning("the judgement %s ended without a verdict", prepared.execution_id)

    def _is_long(self) -> bool:
        info = workflow.info()
        return info.is_continue_as_new_suggested() or info.get_current_history_length() > MOST_EVENTS

    def _continue_when_long(self, start: GroupStart) -> None:
        if self._is_long():
            workflow.continue_as_new(start.model_copy(update={"due_at": self._due_at}))
