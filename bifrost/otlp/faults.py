"""What may be wrong with an export: one record of it, or all of it."""

from __future__ import annotations

from dataclasses import dataclass, field

MOST_TOLD = 5
"""Rejections whose reasons an answer repeats; the rest are counted."""


class RecordRejected(Exception):
    """One record cannot be stored; the others of its request can. The text says why."""


class NotOtlp(Exception):
    """The body is no export request. The text says why."""


@dataclass
class Rejections:
    """The records of one request that are not stored."""

    count: int = 0
    reasons: list[str] = field(default_factory=list)

    def add(self, place: str, why: RecordRejected, records: int = 1) -> None:
        """Note what was found at `place`, which stands for that many records."""
        self.count += records
        if len(self.reasons) < MOST_TOLD:
            self.reasons.append(f"{place}: {why}")

    def message(self) -> str:
        """The sentence of the partial success; empty when everything was stored."""
        if not self.count:
            return ""
        more = self.count - len(self.reasons)
        told = "; ".join(self.reasons)
        return f"{self.count} rejected: {told}" + (f"; and {more} more" if more > 0 else "")
