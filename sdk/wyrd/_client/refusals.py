"""What the server or the table refused for good, kept until `flush` or `shutdown` tells of it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from wyrd.errors import WyrdError

KEPT_ROWS = 100
"""Refused rows that an error shows; all of them are counted."""

_log = logging.getLogger("wyrd.bifrost")


@dataclass(frozen=True, slots=True)
class _Refused:
    table: str
    error: WyrdError
    row: dict[str, Any]


class Refusals:
    """Refused rows in the order of their refusal. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._first: tuple[str, WyrdError] | None = None
        self._kept: list[_Refused] = []
        self._rows = 0

    def add(self, table: str, refused: Sequence[tuple[dict[str, Any], WyrdError]]) -> None:
        """Rows of one batch, each with its error."""
        if not refused:
            return
        with self._lock:
            if self._first is None:
                self._first = (table, refused[0][1])
            self._rows += len(refused)
            room = max(0, KEPT_ROWS - len(self._kept))
            self._kept.extend(_Refused(table, error, row) for row, error in refused[:room])
        codes = ", ".join(sorted({error.code for _, error in refused}))
        _log.warning("%s refused %d rows: %s", table, len(refused), codes)

    def take(self) -> WyrdError | None:
        """The first refusal, telling of all since the last call: `details.table`, `details.rows_refused`
        and `details.refused`, one entry a row with its own code and sentence."""
        with self._lock:
            first, kept, rows = self._first, self._kept, self._rows
            self._first, self._kept, self._rows = None, [], 0
        if first is None:
            return None
        table, error = first
        found = WyrdError(
            error.code, f"{table}: {error.detail} ({rows} rows were refused and are not stored)"
        )
        found.details = {
            **error.details,
            "table": table,
            "rows_refused": rows,
            "refused": [
                {"table": one.table, "code": one.error.code, "detail": one.error.detail, "row": one.row}
                for one in kept
            ],
        }
        return found
