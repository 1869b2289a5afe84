"""What a requirement and an execution can end as: two types, so that neither is taken for the other."""

from __future__ import annotations

from enum import StrEnum


class Outcome(StrEnum):
    """How one requirement ended."""

    PASSED = "passed"
    FAILED = "failed"
    INCONCLUSIVE = "inconclusive"
    NOT_APPLICABLE = "not_applicable"


class Verdict(StrEnum):
    """What an execution found. Only `engine.decide` makes one out of outcomes."""

    PASSED = "passed"
    FAILED = "failed"
    INCONCLUSIVE = "inconclusive"
