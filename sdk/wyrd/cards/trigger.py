"""The Trigger Card: when a bound Verifier runs by itself."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Tag

from wyrd.cards.identifiers import Duration, duration_seconds
from wyrd.cards.shapes import TAG, Strict, tagged


class TriggerSpec(Strict):
    """What both kinds of Trigger share; a value is a `ScheduleTrigger` or a `GroupEndTrigger`."""

    description: str | None = None


class ScheduleTrigger(TriggerSpec):
    """At the times of a five-field cron expression, in an IANA time zone (UTC when absent)."""

    kind: Literal["schedule"]
    cron: str
    tz: str | None = None


class GroupEndTrigger(TriggerSpec):
    """Once a group's evidence has been quiet for `after`."""

    kind: Literal["group_end"]
    after: Duration

    @property
    def after_seconds(self) -> int:
        """The quiet time in seconds."""
        seconds = duration_seconds(self.after)
        assert seconds is not None
        return seconds


AnyTrigger: TypeAlias = Annotated[
    Annotated[ScheduleTrigger, Tag(TAG + "schedule")] | Annotated[GroupEndTrigger, Tag(TAG + "group_end")],
    tagged("kind"),
]
