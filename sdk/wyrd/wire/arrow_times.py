"""Dates and times of columns, strictly: no zone is guessed and nothing below a microsecond dropped."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from wyrd.wire.arrow_fields import UTC_MICROSECONDS
from wyrd.wire.row_faults import Misfit, not_a

PLAIN_MICROSECONDS: Final = pa.timestamp("us")

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_INSTANT = re.compile(
    r"(\d{4}-\d{2}-\d{2})[Tt ](\d{2}:\d{2}:\d{2})(?:\.(\d+))?([Zz]|[+-]\d{2}:\d{2})?", re.ASCII
)
_TIME = re.compile(r"\d{2}:\d{2}:\d{2}(?:\.\d{1,6})?", re.ASCII)

_DATE_TEXT: Final = "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_PLAIN_TEXT: Final = "^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,6})?$"
_ZONED_TEXT: Final = _PLAIN_TEXT.replace("$", "(Z|[+-][0-9]{2}:[0-9]{2})$")

_FIRST: Final = datetime(1, 1, 1, tzinfo=UTC)
_LAST: Final = datetime.max.replace(tzinfo=UTC)
_DAYS: Final = tuple(pa.scalar(one.date(), pa.date32()).cast(pa.int32()).as_py() for one in (_FIRST, _LAST))
_MICROSECONDS: Final = tuple(pa.scalar(one, UTC_MICROSECONDS).value for one in (_FIRST, _LAST))


def in_calendar(array: pa.Array) -> bool:
    """Whether every date or time is one that a calendar of years 1 to 9999 has."""
    days = pa.types.is_date32(array.type)
    least, most = _DAYS if days else _MICROSECONDS
    found = pc.min_max(array.cast(pa.int32() if days else pa.int64()))
    first = found["min"].as_py()
    return first is None or (first >= least and found["max"].as_py() <= most)


def zoned_texts(values: list[Any]) -> pa.Array | None:
    """A column of RFC 3339 text; None when some of it must be looked at one by one."""
    return _texts_as(UTC_MICROSECONDS, _ZONED_TEXT, values)


def plain_texts(values: list[Any]) -> pa.Array | None:
    return _texts_as(PLAIN_MICROSECONDS, _PLAIN_TEXT, values)


def date_texts(values: list[Any]) -> pa.Array | None:
    return _texts_as(pa.date32(), _DATE_TEXT, values)


def _texts_as(target: pa.DataType, pattern: str, values: list[Any]) -> pa.Array | None:
    texts = pa.array(values, pa.string())
    if pc.all(pc.match_substring_regex(texts, pattern)).as_py() is False:
        return None
    return texts.cast(target)


def zoned_datetimes(values: list[Any]) -> pa.Array | None:
    """A column of aware datetimes. Arrow would take one without a zone for UTC."""
    if all(value is None or value.utcoffset() is not None for value in values):
        return pa.array(values, UTC_MICROSECONDS)
    return None


def plain_datetimes(values: list[Any]) -> pa.Array | None:
    if all(value is None or value.tzinfo is None for value in values):
        return pa.array(values, PLAIN_MICROSECONDS)
    return None


def zoned_instant(value: Any) -> datetime:
    """One aware datetime or RFC 3339 text, in UTC."""
    found = _instant(value)
    if found.utcoffset() is None:
        raise Misfit("has no time zone")
    try:
        return found.astimezone(UTC)
    except OverflowError:
        raise Misfit("is out of range") from None


def plain_instant(value: Any) -> datetime:
    """One datetime without a zone."""
    found = _instant(value)
    if found.tzinfo is not None:
        raise Misfit("has a time zone, and the column has none")
    return found


def _instant(value: Any) -> datetime:
    if isinstance(value, str):
        return _instant_of(value)
    if not isinstance(value, datetime):
        raise not_a("a date and time", value)
    if getattr(value, "nanosecond", 0):
        raise Misfit("has nanoseconds, and tables hold microseconds")
    return value


def _instant_of(text: str) -> datetime:
    found = _INSTANT.fullmatch(text)
    if found is None:
        raise Misfit("is not a date and time as RFC 3339 writes it")
    day, clock, fraction, zone = found.groups()
    if fraction is not None and fraction[6:].strip("0"):
        raise Misfit("has parts of a microsecond, and tables hold microseconds")
    zone = "" if zone is None else zone.upper().replace("Z", "+00:00")
    try:
        return datetime.fromisoformat(f"{day}T{clock}.{(fraction or '0')[:6]:0<6}{zone}")
    except ValueError:
        raise Misfit("is not a date and time that there is") from None


def day(value: Any) -> date:
    """One date, or text such as 2026-01-31."""
    if isinstance(value, str) and _DATE.fullmatch(value):
        try:
            return date.fromisoformat(value)
        except ValueError:
            raise Misfit("is not a date that there is") from None
    if isinstance(value, datetime) or not isinstance(value, date):
        raise not_a("a date such as 2026-01-31", value)
    return value


def clock(value: Any) -> time:
    """One time of day without a zone, or text such as 13:45:00."""
    if isinstance(value, str) and _TIME.fullmatch(value):
        try:
            return time.fromisoformat(value)
        except ValueError:
            raise Misfit("is not a time that there is") from None
    if not isinstance(value, time) or value.tzinfo is not None:
        raise not_a("a time of day such as 13:45:00", value)
    return value
