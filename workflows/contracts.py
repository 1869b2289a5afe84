"""Names, queues, arguments and typed calls: everything that crosses the Temporal boundary.

One argument model a workflow or activity, every field with a default, so that fields can be
added while old histories still replay. Workflow modules call activities only through the stubs here.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

from pydantic import BaseModel, Field
from temporalio import workflow
from temporalio.common import (
    Priority,
    RetryPolicy,
    SearchAttributeKey,
    SearchAttributePair,
    TypedSearchAttributes,
    WorkflowIDReusePolicy,
)
from temporalio.exceptions import ActivityError, ApplicationError, is_cancelled_exception
from temporalio.workflow import ActivityCancellationType, ParentClosePolicy

QUEUE = "wyrd"
"""Workflows, local activities and quick activities."""
QUEUE_AGENT = "wyrd-agent"
QUEUE_SANDBOX = "wyrd-sandbox"
QUEUE_EXTRACT = "wyrd-extract"
QUEUE_NOTIFY = "wyrd-notify"
"""Deliveries of Operators."""

QUEUE_OF_KIND = {
    "agent": QUEUE_AGENT,
    "code": QUEUE_SANDBOX,
    "extract": QUEUE_EXTRACT,
    "drift": QUEUE_EXTRACT,
}
"""Stuck model calls, sandboxes and parsers each hold up only their own kind."""

VERIFICATION_WORKFLOW = "VerificationWorkflow"
RUN_BLOCK = "run_block"
JUDGE_BLOCKS = "judge_blocks"
FINISH_EXECUTION = "finish_execution"
END_EXECUTION = "end_execution"
LOAD_SHAPE_PAGE = "load_shape_page"

GROUP_WORKFLOW = "GroupWorkflow"
GROUP_DUE = "due"
CLOSE_GROUP = "close_group"
AWAIT_END = "await_end"

SCHEDULED_WINDOW_WORKFLOW = "ScheduledWindowWorkflow"
OPEN_WINDOW = "open_window"
BASELINE_WORKFLOW = "BaselineWorkflow"
FIT_BASELINES = "fit_baselines"

DISPATCH_WORKFLOW = "DispatchWorkflow"
DELIVER = "deliver"
END_DISPATCH = "end_dispatch"

TENANT = SearchAttributeKey.for_keyword("WyrdTenant")
VERIFIER = SearchAttributeKey.for_keyword("WyrdVerifier")
SUBJECT = SearchAttributeKey.for_keyword("WyrdSubject")
VERDICT = SearchAttributeKey.for_keyword("WyrdVerdict")
GROUP = SearchAttributeKey.for_keyword("WyrdGroup")
SEARCH_ATTRIBUTES = (TENANT, VERIFIER, SUBJECT, VERDICT, GROUP)

SHAPE_PAGE_CHARACTERS = 48_000
"""A plan's shape travels in the workflow's argument up to this size, in pages above it."""

HEARTBEAT_TIMEOUT = timedelta(seconds=5)
TASK_TIMEOUT = timedelta(seconds=5)
BACKSTOP_SECONDS = 120.0
"""How much later than a verification's own limit its native execution time-out comes."""
ATTEMPT_SECONDS = 30.0
"""How long one attempt to deliver may take."""
DELIVERY_GRACE_SECONDS = 15.0
"""How much later than the activity's own limits Temporal's come."""
MOST_LOSSES = 5
"""Workers that may die under one block before it ends."""


class Of(BaseModel):
    """Every argument names the tenant and the execution."""

    tenant_id: str = ""
    tenant_slug: str = ""
    execution_id: str = ""


class VerificationStart(Of):
    """Argument of the workflow. `shape` is `Shape.document()`, or None when it comes in `pages`."""

    shape: list[Any] | None = None
    pages: int = 0
    page_characters: int = SHAPE_PAGE_CHARACTERS
    timeout_seconds: float = 1800.0


class Unstarted(BaseModel):
    """A dispatch that is stored and wants its workflow. `seconds`: how long it may still be delivered."""

    dispatch_id: str = ""
    seconds: float = 0.0


class VerificationEnded(BaseModel):
    """Result of the workflow, for the Temporal UI; the result itself is in the database."""

    verdict: str = ""
    passed: int = 0
    failed: int = 0
    inconclusive: int = 0
    not_applicable: int = 0
    dispatches: list[Unstarted] = Field(default_factory=list)


class ShapePage(Of):
    page: int = 0
    characters: int = SHAPE_PAGE_CHARACTERS


class RunBlock(Of):
    """Run one step's action or one check that is not pure. `limit`: seconds an attempt may take."""

    block: int = 0
    kind: str = ""
    states: str = ""
    limit: float = 60.0
    retries: int = 0


class BlockEnded(BaseModel):
    letter: str = "f"


class JudgeBlocks(Of):
    blocks: list[int] = Field(default_factory=list)
    states: str = ""


class BlocksJudged(BaseModel):
    letters: str = ""


class LostBlock(BaseModel):
    """A block whose activity ended without recording anything: its workers were lost, or time ran out."""

    block: int = 0
    kind: str = "worker_lost"
    attempts: int = 0


class FinishExecution(JudgeBlocks):
    lost: list[LostBlock] = Field(default_factory=list)


class EndExecution(Of):
    """End without a verdict: `status` is cancelled, timed_out or errored."""

    status: str = "errored"
    code: str | None = None
    message: str | None = None


class Prepared(BaseModel):
    """A recorded execution that a workflow is to run: `shape` and `pages` as in `VerificationStart`;
    `verifier` and `subject` are names without a uid."""

    execution_id: str = ""
    verifier: str = ""
    subject: str = ""
    shape: list[Any] | None = None
    pages: int = 0
    page_characters: int = SHAPE_PAGE_CHARACTERS
    timeout_seconds: float = 1800.0


class OfBinding(BaseModel):
    """A scheduled binding: the argument of what its Schedule starts."""

    tenant_id: str = ""
    tenant_slug: str = ""
    binding_id: str = ""


class OpenWindow(OfBinding):
    """Open the window that ends at the last boundary up to `scheduled_at`, seconds since 1970."""

    scheduled_at: float = 0.0
    execution_id: str = ""


class WindowOpened(BaseModel):
    """`step`: judge the prepared execution; wait so many seconds and ask again, because samples of the
    window may still be arriving; or nothing, because the window was judged or recorded before."""

    step: str = "nothing"
    seconds: float = 0.0
    prepared: Prepared | None = None


class FitBaselines(BaseModel):
    """Fit what the drift checks of a Verifier version are compared with."""

    tenant_id: str = ""
    tenant_slug: str = ""
    verifier_uid: str = ""


class OfGroup(BaseModel):
    """A group of a binding. `group_id` is the caller's own text."""

    tenant_id: str = ""
    tenant_slug: str = ""
    binding_id: str = ""
    group_id: str = ""


class GroupStart(OfGroup):
    """Argument of the group's workflow, also when it continues as new. `due_at`: seconds since 1970."""

    due_at: float = 0.0


class GroupDue(BaseModel):
    due_at: float = 0.0


class CloseGroup(OfGroup):
    """Take the group up if it is due; `execution_id` is what its judgement will be recorded under."""

    execution_id: str = ""


class GroupClosed(BaseModel):
    """`step`: judge the prepared execution; wait so many seconds and ask again; or nothing, because
    nothing is due or because the group was dropped with a recorded reason."""

    step: str = "nothing"
    seconds: float = 0.0
    prepared: Prepared | None = None


class DispatchStart(BaseModel):
    """Argument of the dispatch workflow. `seconds`: from its start to the deadline of the delivery."""

    tenant_id: str = ""
    tenant_slug: str = ""
    dispatch_id: str = ""
    seconds: float = 300.0


class Deliver(BaseModel):
    """`deadline`: seconds since the epoch, by Temporal's clock."""

    tenant_id: str = ""
    tenant_slug: str = ""
    dispatch_id: str = ""
    deadline: float = 0.0


class EndDispatch(BaseModel):
    """End it without a delivery. `code` is a `store.dispatches.DispatchFault`."""

    tenant_id: str = ""
    tenant_slug: str = ""
    dispatch_id: str = ""
    code: str = "deadline_exceeded"
    message: str = ""


class DispatchEnded(BaseModel):
    """How a dispatch ended: `status` is delivered or failed, `error` the code of a failure."""

    status: str = "delivered"
    error: str | None = None


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
