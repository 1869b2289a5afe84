"""Why something could not be judged: the closed set of reason kinds, and the failure of a block."""

from __future__ import annotations

from enum import StrEnum


class ReasonKind(StrEnum):
    """Stands beside the sentence of every inconclusive requirement and every failed step."""

    MISSING_EVIDENCE = "missing_evidence"
    """A slot, a path inside evidence, or a span that the block reads is not there."""
    TYPE_MISMATCH = "type_mismatch"
    """The operator does not take values of that type."""
    OPERAND_INVALID = "operand_invalid"
    """The declared operand or parameter cannot be judged with (min over max, null operand)."""
    NOTHING_TO_JUDGE = "nothing_to_judge"
    """Zero items, or no applicable requirement."""
    STEP_FAILED = "step_failed"
    """A step whose output the block reads failed."""
    STEP_SKIPPED = "step_skipped"
    """A step whose output the block reads was skipped."""
    JUDGED_INCONCLUSIVE = "judged_inconclusive"
    """The judge or the code itself answered inconclusive."""
    JUDGE_MALFORMED = "judge_malformed"
    """The reply is not exactly one closed Verdict, or not what the response schema asks."""
    JUDGE_TRUNCATED = "judge_truncated"
    JUDGE_REFUSED = "judge_refused"
    JUDGE_FILTERED = "judge_filtered"
    CITATION_MISSING = "citation_missing"
    """An agent check passed without citing anything."""
    CITATION_INVALID = "citation_invalid"
    """An agent check passed, and no place it cites exists in the pinned evidence."""
    CODE_FAILED = "code_failed"
    """The user's code raised, or returned something that is not JSON or not a Verdict."""
    SANDBOX_FAILED = "sandbox_failed"
    """The sandbox killed the code, or lost it."""
    SANDBOX_UNAVAILABLE = "sandbox_unavailable"
    """No sandbox passed its self-test here; code is never run without one."""
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    PROVIDER_ERROR = "provider_error"
    """The model provider failed, or cannot be reached, or refuses the credential."""
    NOT_CONFIGURED = "not_configured"
    """The deployment, credential or tool that the block needs does not exist on this server."""
    EVIDENCE_UNREADABLE = "evidence_unreadable"
    """The file is encrypted, broken, over a limit, or not of its declared format."""
    DIGEST_MISMATCH = "digest_mismatch"
    """The stored bytes are not the pinned ones."""
    LIMIT_EXCEEDED = "limit_exceeded"
    """A value is larger than the system carries."""
    WORKER_LOST = "worker_lost"
    """The workers running the block died too often."""
    WINDOW_TOO_SMALL = "window_too_small"
    INTERNAL = "internal"
    """An unclassified exception: a fault of ours, never retried."""


class BlockFailure(Exception):
    """One attempt of a step or check failed, in a way the system understands.

    `retryable` says whether another attempt may help; `retry_after` is the provider's own wait
    in seconds, if it named one. The reason is one sentence for people and never holds secrets.
    """

    def __init__(
        self, kind: ReasonKind, reason: str, *, retryable: bool = False, retry_after: float | None = None
    ) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason
        self.retryable = retryable
        self.retry_after = retry_after

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (self.kind.value, self.reason, self.retryable, self.retry_after)


def _rebuild(kind: str, reason: str, retryable: bool, retry_after: float | None) -> BlockFailure:
    return BlockFailure(ReasonKind(kind), reason, retryable=retryable, retry_after=retry_after)
