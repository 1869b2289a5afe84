"""Cron expressions and time zones of schedules."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

_FIELDS: Final = ("minute", "hour", "day of month", "month", "day of week")
_FIELD: Final = re.compile(r"[0-9A-Za-z*,/-]{1,200}")
_MONTHS: Final = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_WEEKDAYS: Final = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_WORDS: Final = frozenset((*_MONTHS, *_WEEKDAYS))
_ANY_TIME: Final = datetime(2024, 1, 1, tzinfo=UTC)


@lru_cache(maxsize=512)
def cron_fault(expression: str) -> str | None:
    """Why the expression is not a five-field cron expression that fires, or None."""
    from cronsim import CronSim, CronSimError

    if expression.strip().startswith("@"):
        return f"{expression[:40]!r}: nicknames are not read; write the five fields"
    fields = expression.split()
    if len(fields) != len(_FIELDS):
        return f"{expression[:80]!r} has {len(fields)} fields; five are read: {', '.join(_FIELDS)}"
    for name, text in zip(_FIELDS, fields, strict=True):
        words = re.findall(r"[A-Za-z]+", text)
        if _FIELD.fullmatch(text) is None or any(word.upper() not in _WORDS for word in words):
            return f"{text[:40]!r} is not a {name}"
    try:
        CronSim(" ".join(fields), _ANY_TIME)
        # Both day fields must match for us, and any date falls on every weekday in time: a schedule
        # never fires exactly when its days and months name no date.
        next(CronSim(f"0 0 {fields[2]} {fields[3]} *", _ANY_TIME))
    except CronSimError as error:
        return f"{expression[:80]!r}: {str(error)[:80]}"
    except StopIteration:
        return f"{expression[:80]!r} never fires: no such date exists"
    return None


@lru_cache(maxsize=512)
def time_zone_fault(name: str) -> str | None:
    """Why the text is not an IANA time zone, or None."""
    from zoneinfo import ZoneInfo

    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return f"{name[:80]!r} is not an IANA time zone such as Europe/Berlin"
    return None
