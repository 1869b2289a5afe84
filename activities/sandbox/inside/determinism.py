"""Clock and chance that give the same answer on the same evidence.

Frozen, all at the execution's start (nothing advances during a call): `time.time`, `time_ns`,
`clock_gettime`, the defaults of `localtime`, `gmtime`, `ctime`, `asctime` and `strftime`, and through them
`datetime.now`, `utcnow`, `today` and `date.today`. Counters without an epoch (`monotonic`, `perf_counter`,
`process_time`, `thread_time`) read 0. Seeded by the call: `random`, unseeded `random.Random()`, and what
usually asks the kernel: `os.urandom`, `os.getrandom`, `secrets`, `random.SystemRandom`, `uuid.uuid1`,
`uuid.uuid4`. `os.getpid` and `os.getppid` are constant.

The process starts with PYTHONHASHSEED=0. `id()` and the default `repr` of objects are not covered.
This is for honest code: code that digs the real clock out deceives its own verdict only.
"""

from __future__ import annotations

import _random
import os
import sys
import time
from typing import Any

_BILLION = 1_000_000_000


class _Start:
    """The moment the clock shows, in nanoseconds since 1970, and the source of bits; set once a call."""

    nanoseconds = 0
    bits = _random.Random(0)


def _freeze_clock() -> None:
    localtime, gmtime, strftime, asctime = time.localtime, time.gmtime, time.strftime, time.asctime

    def moment(seconds: float | None) -> float:
        return _Start.nanoseconds / _BILLION if seconds is None else seconds

    def clock_gettime_ns(clock: int) -> int:
        return _Start.nanoseconds if clock == getattr(time, "CLOCK_REALTIME", 0) else 0

    replaced: dict[str, Any] = {
        "time": lambda: _Start.nanoseconds / _BILLION,
        "time_ns": lambda: _Start.nanoseconds,
        "clock_gettime": lambda clock: clock_gettime_ns(clock) / _BILLION,
        "clock_gettime_ns": clock_gettime_ns,
        "localtime": lambda seconds=None: localtime(moment(seconds)),
        "gmtime": lambda seconds=None: gmtime(moment(seconds)),
        "ctime": lambda seconds=None: asctime(localtime(moment(seconds))),
        "asctime": lambda moment_=None: asctime(localtime(moment(None)) if moment_ is None else moment_),
        "strftime": lambda form, moment_=None: strftime(
            form, localtime(moment(None)) if moment_ is None else moment_
        ),
    }
    for counter in ("monotonic", "perf_counter", "process_time", "thread_time"):
        replaced[counter] = lambda: 0.0
        replaced[f"{counter}_ns"] = lambda: 0
    for name, function in replaced.items():
        setattr(time, name, function)


def _tame_chance() -> None:
    def urandom(size: int) -> bytes:
        return _Start.bits.getrandbits(size * 8).to_bytes(size, "little") if size else b""

    os.urandom = urandom
    os.getrandom = lambda size, flags=0: urandom(size)
    os.getpid = lambda: 2
    os.getppid = lambda: 1

    # Only now: `random` and `secrets` take their own reference to os.urandom when imported.
    import random

    seed_with = random.Random.seed

    def seed(self: random.Random, a: Any = None, version: int = 2) -> None:
        seed_with(self, _Start.bits.getrandbits(256) if a is None else a, version)

    random.Random.seed = seed  # type: ignore[method-assign]
    random.seed = random._inst.seed


def install() -> None:
    """Replace clock and chance. Call once, before any other module of the standard library is imported."""
    # The Python versions of these ask `time` and `os`, which are replaced; the C versions ask the kernel.
    for name in ("_datetime", "_zoneinfo", "_uuid"):
        sys.modules[name] = None  # type: ignore[assignment]
    _freeze_clock()
    _tame_chance()


def begin(nanoseconds: int, seed: str) -> None:
    """Set the clock and the seed of one call."""
    import random

    _Start.nanoseconds = nanoseconds
    _Start.bits.seed(int(seed, 16) ^ (1 << 512))
    random.seed(seed)
