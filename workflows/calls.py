"""The typed calls that workflows make: activities with their limits and retries, and children.

What they take and answer is in `workflows.contracts`; workflow modules start nothing but through here.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

from pydantic import BaseModel
from temporalio import workflow
from temporalio.common import (
    Priority,
    RetryPolicy,
    SearchAttributePair,
    TypedSearchAttributes,
    WorkflowIDReusePolicy,
)
from temporalio.exceptions import ActivityError, ApplicationError, is_cancelled_exception
from temporalio.workflow import ActivityCancellationType, ParentClosePolicy

from workflows.contracts import (
    ATTEMPT_SECONDS,
    AWAIT_END,
    BACKSTOP_SECONDS,
    CLOSE_GROUP,
    DELIVER,
    DELIVERY_GRACE_SECONDS,
    DISPATCH_WORKFLOW,
    END_DISPATCH,
    END_EXECUTION,
    FINISH_EXECUTION,
    FIT_BASELINES,
    HEARTBEAT_TIMEOUT,
    JUDGE_BLOCKS,
    LOAD_SHAPE_PAGE,
    OPEN_WINDOW,
    QUEUE,
    QUEUE_EXTRACT,
    QUEUE_NOTIFY,
    QUEUE_OF_KIND,
    RUN_BLOCK,
    SUBJECT,
    TASK_TIMEOUT,
    TENANT,
    VERIFICATION_WORKFLOW,
    VERIFIER,
    BlockEnded,
    BlocksJudged,
    CloseGroup,
    Deliver,
    DispatchEnded,
    DispatchStart,
    EndDispatch,
    EndExecution,
    FinishExecution,
    FitBaselines,
    GroupClosed,
    JudgeBlocks,
    Of,
    OpenWindow,
    Prepared,
    RunBlock,
    ShapePage,
    Unstarted,
    VerificationEnded,
    VerificationStart,
    WindowOpened,
)


async def load_shape_page(argument: ShapePage) -> str:
    """One page of the shape's JSON text."""
    text: str = await workflow.execute_local_activity(
        LOAD_SHAPE_PAGE, argument, result_type=str, start_to_close_timeout=timedelta(seconds=10)
    )
    return text


async def run_block(argument: RunBlock, *, label: str, bound: float) -> BlockEnded:
    """Schedule a block. It retries natively inside `bound` seconds; the activity counts its own failures."""
    ended: BlockEnded = await workflow.execute_activity(
        RUN_BLOCK,
        argument,
        result_type=BlockEnded,
        task_queue=QUEUE_OF_KIND[argument.kind],
        schedule_to_close_timeout=timedelta(seconds=bound),
        start_to_close_timeout=timedelta(seconds=argument.limit + 10),
        heartbeat_timeout=HEARTBEAT_TIMEOUT,
        retry_policy=RetryPolicy(
            initial_interval=timedelta(seconds=1),
            backoff_coefficient=2.0,
            maximum_interval=timedelta(seconds=30),
            maximum_attempts=0,
        ),
        cancellation_type=ActivityCancellationType.TRY_CANCEL,
        summary=label,
        priority=Priority(fairness_key=argument.tenant_slug),
    )
    return ended


async def judge_blocks(argument: JudgeBlocks, *, label: str) -> BlocksJudged:
    """Judge a batch of pure blocks, locally."""
    judged: BlocksJudged = await _local_then_normal(JUDGE_BLOCKS, argument, BlocksJudged, label)
    return judged


async def finish_execution(argument: FinishExecution, *, label: str) -> VerificationEnded:
    """Judge the last pure blocks, decide, record the result."""
    ended: VerificationEnded = await _local_then_normal(FINISH_EXECUTION, argument, VerificationEnded, label)
    return ended


async def end_execution(argument: EndExecution) -> None:
    """Record an end without a verdict."""
    await _local_then_normal(END_EXECUTION, argument, None, f"record {argument.status}")


async def close_group(argument: CloseGroup) -> GroupClosed:
    """Ask until the database answers: a fault of it keeps the group due."""
    closed: GroupClosed = await workflow.execute_activity(
        CLOSE_GROUP,
        argument,
        result_type=GroupClosed,
        start_to_close_timeout=timedelta(seconds=120),
        heartbeat_timeout=HEARTBEAT_TIMEOUT,
        retry_policy=RetryPolicy(maximum_interval=timedelta(seconds=30), maximum_attempts=0),
        summary="take the group up",
        priority=Priority(fairness_key=argument.tenant_slug),
    )
    return closed


async def open_window(argument: OpenWindow) -> WindowOpened:
    """Ask until the database and the server of Schedules answer."""
    opened: WindowOpened = await workflow.execute_activity(
        OPEN_WINDOW,
        argument,
        result_type=WindowOpened,
        start_to_close_timeout=timedelta(seconds=60),
        heartbeat_timeout=HEARTBEAT_TIMEOUT,
        retry_policy=RetryPolicy(maximum_interval=timedelta(seconds=30), maximum_attempts=0),
        summary="open the window",
        priority=Priority(fairness_key=argument.tenant_slug),
    )
    return opened


async def fit_baselines(argument: FitBaselines) -> None:
    """Fit them; a fault of the server is tried again, a fault of the data is recorded."""
    await workflow.execute_activity(
        FIT_BASELINES,
        argument,
        task_queue=QUEUE_EXTRACT,
        start_to_close_timeout=timedelta(minutes=15),
        heartbeat_timeout=timedelta(seconds=30),
        retry_policy=RetryPolicy(maximum_interval=timedelta(minutes=1), maximum_attempts=0),
        summary="fit the baselines",
        priority=Priority(fairness_key=argument.tenant_slug),
    )


async def run_verification(tenant_id: str, tenant_slug: str, prepared: Prepared) -> VerificationEnded:
    """Run a recorded execution as a child, to its end.

    Raises `WorkflowAlreadyStartedError` when the settler has started it, and `ChildWorkflowError`
    when it ended without a verdict.
    """
    ended: VerificationEnded = await workflow.execute_child_workflow(
        VERIFICATION_WORKFLOW,
        VerificationStart(
            tenant_id=tenant_id,
            tenant_slug=tenant_slug,
            execution_id=prepared.execution_id,
            shape=prepared.shape,
            pages=prepared.pages,
            page_characters=prepared.page_characters,
            timeout_seconds=prepared.timeout_seconds,
        ),
        id=f"{tenant_slug}/verification/{prepared.execution_id}",
        result_type=VerificationEnded,
        task_queue=QUEUE,
        execution_timeout=timedelta(seconds=prepared.timeout_seconds + BACKSTOP_SECONDS),
        task_timeout=TASK_TIMEOUT,
        id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
        parent_close_policy=ParentClosePolicy.ABANDON,
        search_attributes=TypedSearchAttributes(
            [
                SearchAttributePair(TENANT, tenant_slug),
                SearchAttributePair(VERIFIER, prepared.verifier),
                SearchAttributePair(SUBJECT, prepared.subject),
            ]
        ),
        static_summary=f"{prepared.verifier} on {prepared.subject}",
        priority=Priority(fairness_key=tenant_slug),
    )
    return ended


async def await_end(argument: Of) -> None:
    """Wait until an execution that runs elsewhere has ended."""
    await workflow.execute_activity(
        AWAIT_END,
        argument,
        start_to_close_timeout=timedelta(seconds=10),
        retry_policy=RetryPolicy(maximum_interval=timedelta(seconds=15), maximum_attempts=0),
        summary="wait for the judgement",
    )


def new_execution_id() -> str:
    """A UUIDv7 that a replay makes again."""
    milliseconds = int(workflow.time() * 1000) & ((1 << 48) - 1)
    bits = workflow.uuid4().int & ((1 << 80) - 1)
    number = milliseconds << 80 | bits & ~(0xF << 76) | 0x7 << 76
    return str(UUID(int=number & ~(0b11 << 62) | 0b10 << 62))


async def start_dispatch(of: Of, unstarted: Unstarted) -> None:
    """Start the delivery of a stored dispatch, which goes on by itself."""
    await workflow.start_child_workflow(
        DISPATCH_WORKFLOW,
        DispatchStart(
            tenant_id=of.tenant_id,
            tenant_slug=of.tenant_slug,
            dispatch_id=unstarted.dispatch_id,
            seconds=unstarted.seconds,
        ),
        id=f"{of.tenant_slug}/dispatch/{unstarted.dispatch_id}",
        task_queue=QUEUE,
        parent_close_policy=ParentClosePolicy.ABANDON,
        id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
        task_timeout=TASK_TIMEOUT,
        search_attributes=TypedSearchAttributes([SearchAttributePair(TENANT, of.tenant_slug)]),
        static_summary=f"an Operator reacts to {of.execution_id}",
        priority=Priority(fairness_key=of.tenant_slug),
    )


async def deliver(argument: Deliver, *, seconds: float) -> DispatchEnded:
    """Deliver within `seconds`. The activity counts its attempts and says when the next one comes; the
    policy's own pauses are for workers that were lost and a database that is away."""
    ended: DispatchEnded = await workflow.execute_activity(
        DELIVER,
        argument,
        result_type=DispatchEnded,
        task_queue=QUEUE_NOTIFY,
        schedule_to_close_timeout=timedelta(seconds=seconds + DELIVERY_GRACE_SECONDS),
        start_to_close_timeout=timedelta(seconds=ATTEMPT_SECONDS + DELIVERY_GRACE_SECONDS),
        heartbeat_timeout=HEARTBEAT_TIMEOUT,
        retry_policy=RetryPolicy(
            initial_interval=timedelta(seconds=1),
            backoff_coefficient=2.0,
            maximum_interval=timedelta(seconds=30),
            maximum_attempts=0,
        ),
        summary="deliver",
        priority=Priority(fairness_key=argument.tenant_slug),
    )
    return ended


async def end_dispatch(argument: EndDispatch) -> None:
    """Record that a dispatch was given up."""
    await _local_then_normal(END_DISPATCH, argument, None, f"record {argument.code}")


async def _local_then_normal(name: str, argument: BaseModel, result_type: type | None, label: str) -> Any:
    """A local activity, in milliseconds; one that keeps failing becomes a normal activity, which
    does not hold its workflow task while the database is away."""
    try:
        return await workflow.execute_local_activity(
            name,
            argument,
            result_type=result_type,
            schedule_to_close_timeout=timedelta(seconds=20),
            start_to_close_timeout=timedelta(seconds=10),
            retry_policy=RetryPolicy(initial_interval=timedelta(milliseconds=100), maximum_attempts=3),
            summary=label,
        )
    except (ActivityError, ApplicationError) as error:
        # What a local activity raised itself comes unwrapped.
        if is_cancelled_exception(error):
            raise
        return await workflow.execute_activity(
            name,
            argument,
            result_type=result_type,
            start_to_close_timeout=timedelta(seconds=60),
            retry_policy=RetryPolicy(maximum_interval=timedelta(seconds=30), maximum_attempts=0),
            summary=label,
        )
