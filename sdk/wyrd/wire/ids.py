"""Identifiers: UUIDv7 (RFC 9562), which Python 3.11 does not have yet."""

from __future__ import annotations

import os
import threading
import time
import uuid

_POOL_BYTES = 4096


class _Source:
    """Rising ticks and random bits of one process. The system is asked for many bits at once: asking
    for each id costs more than all the rest of making it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0
        self._pool = b""
        self._used = 0

    def next(self) -> tuple[int, int]:
        with self._lock:
            ticks = time.time_ns() * 4096 // 1_000_000
            if ticks <= self._last:
                ticks = self._last + 1
            self._last = ticks
            if self._used + 8 > len(self._pool):
                self._pool, self._used = os.urandom(_POOL_BYTES), 0
            bits = int.from_bytes(self._pool[self._used : self._used + 8], "big")
            self._used += 8
            return ticks, bits

    def after_fork(self) -> None:
        """A child must not hand out its parent's bits, nor wait for a lock its parent held."""
        self.__init__()  # type: ignore[misc]


_source = _Source()
os.register_at_fork(after_in_child=_source.after_fork)


def uuid7() -> str:
    """A new UUIDv7: 48 bits of milliseconds, 12 bits that keep one process's ids rising, 62 random."""
    ticks, bits = _source.next()
    number = (ticks >> 12) << 80 | 0x7 << 76 | (ticks & 0xFFF) << 64 | 0b10 << 62 | bits >> 2
    return str(uuid.UUID(int=number))


def is_uuid7(text: str) -> bool:
    """Whether the text is a UUIDv7 in its usual form, of either letter case."""
    try:
        return uuid.UUID(text).version == 7 and len(text) == 36
    except (ValueError, AttributeError, TypeError):
        return False
