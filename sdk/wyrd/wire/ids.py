"""Identifiers: UUIDv7 (RFC 9562), which Python 3.11 does not have yet."""

from __future__ import annotations

import os
import threading
import time
import uuid

_lock = threading.Lock()
_last = 0


def uuid7() -> str:
    """A new UUIDv7: 48 bits of milliseconds, 12 bits that keep one process's ids rising, 62 random."""
    global _last
    with _lock:
        ticks = time.time_ns() * 4096 // 1_000_000
        if ticks <= _last:
            ticks = _last + 1
        _last = ticks
    number = (ticks >> 12) << 80 | 0x7 << 76 | (ticks & 0xFFF) << 64 | 0b10 << 62
    number |= int.from_bytes(os.urandom(8), "big") >> 2
    return str(uuid.UUID(int=number))


def is_uuid7(text: str) -> bool:
    """Whether the text is a UUIDv7 in its usual form, of either letter case."""
    try:
        return uuid.UUID(text).version == 7 and len(text) == 36
    except (ValueError, AttributeError, TypeError):
        return False
