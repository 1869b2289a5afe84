"""What may be asked: one SELECT, its parameters and its limits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from wyrd.errors import Code, WyrdError

MAX_SQL_BYTES: Final = 64 * 1024
MAX_ROWS: Final = 10_000
DEFAULT_ROWS: Final = 1_000
MAX_BYTES: Final = 16 * 1024 * 1024
DEFAULT_BYTES: Final = 4 * 1024 * 1024
MAX_PARAMS: Final = 1_000
_WIDEST: Final = 2**127

Value = bool | int | float | str | None


@dataclass(frozen=True, slots=True)
class Question:
    """One SELECT. `deadline` is in seconds; None, and anything longer, is the service's own.

    `max_rows` (at most 10,000) and `max_bytes` (at most 16 MiB, of Arrow or of JSON) fail a longer
    answer; None sets no ceiling. `scope`: a Card-bound asker sees rows whose card_uid is null or in
    it; it is looked up when it is not given.
    """

    sql: str
    request_id: str
    params: Sequence[Value] = ()
    deadline: float | None = None
    max_rows: int | None = None
    max_bytes: int | None = None
    scope: frozenset[str] | None = None


def checked(question: Question) -> None:
    """Raises `WYRD_SPEC_400_VALIDATION` naming the field, `WYRD_VALA_400_QUERY_INVALID_SQL`."""
    size = len(_encoded(question.sql, "sql"))
    if size > MAX_SQL_BYTES:
        raise invalid_sql(f"the query has {size} bytes; {MAX_SQL_BYTES} are the limit")
    if not question.sql.strip():
        raise invalid_sql("a query is one SELECT statement")
    if len(question.params) > MAX_PARAMS:
        raise _refused("params", f"params holds more than {MAX_PARAMS} values")
    for index, value in enumerate(question.params):
        where = f"params[{index}]"
        if isinstance(value, str):
            _encoded(value, where)
        elif isinstance(value, float) and not math.isfinite(value):
            raise _refused(where, f"${index + 1} is not a finite number")
        elif isinstance(value, int) and not -_WIDEST <= value < _WIDEST:
            raise _refused(where, f"${index + 1} has more than 128 bits")
    if question.max_rows is not None and not 1 <= question.max_rows <= MAX_ROWS:
        raise _refused("max_rows", f"max_rows is from 1 to {MAX_ROWS}")
    if question.max_bytes is not None and not 1 <= question.max_bytes <= MAX_BYTES:
        raise _refused("max_bytes", f"max_bytes is from 1 to {MAX_BYTES}")
    if question.deadline is not None and not question.deadline > 0:
        raise _refused("deadline_ms", "a deadline is more than nothing")


def too_large(detail: str) -> WyrdError:
    return WyrdError(Code.VALA_413_QUERY_RESULT_TOO_LARGE, detail)


def invalid_sql(detail: str) -> WyrdError:
    return WyrdError(Code.VALA_400_QUERY_INVALID_SQL, detail, detail=detail)


def _refused(where: str, told: str) -> WyrdError:
    return WyrdError(Code.SPEC_400_VALIDATION, told, field=where)


def _encoded(text: str, where: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        raise _refused(where, f"{where} is not Unicode text") from None
