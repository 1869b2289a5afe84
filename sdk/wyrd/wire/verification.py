"""What verify, submit and the status of an execution send and answer (`/v1/verification/…`)."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from wyrd.wire.ids import is_uuid7
from wyrd.wire.refs import CardRef


def _uuid7(text: str) -> str:
    if not is_uuid7(text):
        raise ValueError("must be a UUIDv7")
    return text.lower()


Uuid7 = Annotated[str, AfterValidator(_uuid7)]


def _uuid(text: str) -> str:
    try:
        return str(UUID(text))
    except ValueError:
        raise ValueError("must be a UUID") from None


SessionId = Annotated[str, AfterValidator(_uuid)]
"""A UUID that groups the runs of one conversation."""
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
GroupId = Annotated[str, Field(min_length=1, max_length=256)]
"""1 to 256 UTF-8 bytes without white space or control characters; the server checks the bytes."""


class ExecutionStatus(StrEnum):
    """Whether the check ran; the verdict says what it found."""

    PENDING = "pending"
    RUNNING = "running"
    RETRYING = "retrying"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"
    ERRORED = "errored"

    @property
    def terminal(self) -> bool:
        return self in _TERMINAL


class ExecutionVerdict(StrEnum):
    """What the check found; only a completed execution has one."""

    PASSED = "passed"
    FAILED = "failed"
    INCONCLUSIVE = "inconclusive"


class ExecutionSource(StrEnum):
    """What started an execution."""

    VERIFY = "verify"
    SUBMIT = "submit"
    GROUP = "group"
    SCHEDULE = "schedule"


_TERMINAL = frozenset(
    {
        ExecutionStatus.COMPLETED,
        ExecutionStatus.CANCELLED,
        ExecutionStatus.TIMED_OUT,
        ExecutionStatus.ERRORED,
    }
)


class _Request(BaseModel):
    # Answers are built when first used, which keeps `import` quick. Bodies of the API are not: the web
    # framework's adapters do not carry their own names for parameters into a build that is put off.
    model_config = ConfigDict(extra="forbid", strict=True)


class JsonInput(_Request):
    """An inline value for a json slot."""

    kind: Literal["json"]
    value: Any


class FileInput(_Request):
    """A file that was uploaded before, pinned by its SHA-256. `size_bytes` in bytes."""

    kind: Literal["file"]
    sha256: Sha256
    size_bytes: int = Field(ge=0)
    format: str
    filename: str | None = Field(None, max_length=1024)


class ArtifactInput(_Request):
    """A file of a declared Artifact; `path` may be left out when it has one file."""

    kind: Literal["artifact"]
    artifact: CardRef
    path: str | None = None


class TraceInput(_Request):
    """A recorded trace by its id, 32 lower-case hexadecimal digits."""

    kind: Literal["trace"]
    trace_id: str


InputDeclaration = Annotated[JsonInput | FileInput | ArtifactInput | TraceInput, Field(discriminator="kind")]


class ExecuteRequest(_Request):
    """Body of `execute` and `enqueue`: which Verifier judges which subject, on which inputs."""

    verifier_card_uid: Uuid7
    card_uid: Uuid7
    run_id: Uuid7 | None = None
    group_id: GroupId | None = None
    session_id: SessionId | None = None
    inputs: dict[str, InputDeclaration] = Field(default_factory=dict)


class _Answer(BaseModel):
    model_config = ConfigDict(extra="allow", defer_build=True)


class Lines(_Answer):
    start: int
    end: int


class Region(_Answer):
    page: int
    x: float
    y: float
    width: float
    height: float


class Locator(_Answer):
    """Exactly one of its members: where in a slot's pinned evidence."""

    page: int | None = None
    slide: int | None = None
    lines: Lines | None = None
    json_pointer: str | None = None
    region: Region | None = None


class Citation(_Answer):
    slot: str
    locator: Locator


class AttemptError(_Answer):
    """Why an attempt failed: a reason kind and a sentence."""

    kind: str | None = None
    message: str


class Attempt(_Answer):
    """One attempt of a step or check, counted from 1. `error` is absent from the one that worked."""

    number: int
    started_at: datetime
    duration_ms: int
    error: AttemptError | None = None


class RequirementResult(_Answer):
    """One requirement of the breakdown. `check` is the check as authored.

    `reason_kind` is there where nothing was judged, `attempt_log` where there was more than one attempt.
    """

    id: str
    statement: str
    outcome: Literal["passed", "failed", "inconclusive", "not_applicable"]
    reason: str
    reason_kind: str | None = None
    check: dict[str, Any]
    step: str | None = None
    actual: Any = None
    citations: list[Citation] = Field(default_factory=list)
    detail: dict[str, Any] | None = None
    provenance: dict[str, Any] | None = None
    stdout: str | None = None
    attempt_log: list[Attempt] = Field(default_factory=list)


class StepResult(_Answer):
    """One step of the breakdown. `duration_ms` in milliseconds over all attempts.

    A large output is not in the result: `output_sha256` and `output_bytes` (of its JSON) stand for it.
    """

    id: str
    status: Literal["succeeded", "failed", "skipped"]
    attempts: int
    duration_ms: int
    output: Any = None
    output_sha256: str | None = None
    output_bytes: int | None = None
    reason: str | None = None
    reason_kind: str | None = None
    provenance: dict[str, Any] | None = None
    tool_calls: list[dict[str, Any]] = Field(default_factory=list)
    stdout: str | None = None
    attempt_log: list[Attempt] = Field(default_factory=list)


class OutcomeCounts(_Answer):
    """Requirements by outcome; `applicable` are all but those that were not applicable."""

    passed: int
    failed: int
    inconclusive: int
    not_applicable: int
    applicable: int


class ResultOutcome(_Answer):
    """The verdict, one sentence that says how it was reached, and the breakdown.

    `pass_rate` is passed by applicable, None where nothing was applicable. `evidence_digests` are the
    SHA-256 of each slot's input, in hexadecimal.
    """

    verdict: Literal["passed", "failed", "inconclusive"]
    reason: str | None = None
    counts: OutcomeCounts | None = None
    pass_rate: float | None = None
    requirements: list[RequirementResult]
    steps: list[StepResult]
    evidence: dict[str, dict[str, Any]]
    evidence_digests: dict[str, str] = Field(default_factory=dict)


class ResultDocument(_Answer):
    """The result of one execution. `owner` is the Card whose binding joined Verifier and subject."""

    execution_id: str
    run_id: str | None = None
    verifier: CardRef
    subject: CardRef
    owner: CardRef | None = None
    binding_id: str | None = None
    group_id: str | None = None
    session_id: str | None = None
    workflow_id: str | None = None
    source: str | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    outcome: ResultOutcome


class ExecutionError(_Answer):
    code: str
    message: str


class StatusDocument(_Answer):
    """Status of an execution; `result` once it completed. `workflow_url` is its page in the Temporal UI."""

    execution_id: str
    status: ExecutionStatus
    source: str | None = None
    created_at: datetime | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    workflow_id: str | None = None
    workflow_url: str | None = None
    error: ExecutionError | None = None
    result: ResultDocument | None = None
    group_id: str | None = None
    window_start: datetime | None = None
    window_end: datetime | None = None
    owner_card_uid: str | None = None
    dispatches: list[dict[str, Any]] = Field(default_factory=list)


class EnqueueAnswer(_Answer):
    """What was accepted; `workflow_url` is its page in the Temporal UI, where the server knows of one."""

    execution_id: str
    workflow_id: str | None = None
    workflow_url: str | None = None


class ExecutionItem(_Answer):
    """One row of `GET /v1/verification/executions`."""

    execution_id: str
    workflow_id: str | None = None
    status: ExecutionStatus
    source: str
    verifier: str
    subject: str
    verdict: str | None = None
    run_id: str | None = None
    group_id: str | None = None
    binding_id: str | None = None
    created_at: datetime
    started_at: datetime | None = None
    ended_at: datetime | None = None
    error: ExecutionError | None = None


class ExecutionList(_Answer):
    items: list[ExecutionItem]
    next_cursor: str | None = None
