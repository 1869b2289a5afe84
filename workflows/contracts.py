"""Names, queues and arguments: everything that crosses the Temporal boundary.

One argument model a workflow or activity, every field with a default, so that fields can be
added while old histories still replay. The typed calls over them are in `workflows.calls`.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from pydantic import BaseModel, Field
from temporalio.common import SearchAttributeKey

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
