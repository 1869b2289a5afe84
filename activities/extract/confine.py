"""What the process that parses one file gives up.

Limits hold everywhere. On Linux the process also dies with the zygote and is the first to go when
memory runs out; and once the file's bytes are read it is sealed: it opens no file, reaches no
network, starts and signals no process. A hostile file that takes over a parser has then nothing to
take from there.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import logging
import math
import os
import resource
import signal
import sys
from typing import TYPE_CHECKING

from activities.extract import limits

if TYPE_CHECKING:
    from seccompy import Filter

_log = logging.getLogger(__name__)

_PR_SET_PDEATHSIG = 1
_ALARM_AFTER = 5.0

# What is left is memory, time, and the descriptors that are open already. All else answers EPERM.
# fmt: off
_ALLOWED = (
    "read", "readv", "pread64", "write", "writev", "close", "lseek", "fstat", "fcntl", "poll", "ppoll",
    "brk", "mmap", "munmap", "mprotect", "mremap", "madvise", "futex", "sched_yield", "sched_getaffinity",
    "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "sigaltstack", "restart_syscall", "setitimer",
    "clock_gettime", "clock_getres", "clock_nanosleep", "nanosleep", "gettimeofday", "time", "times",
    "getpid", "getppid", "gettid", "getuid", "geteuid", "getgid", "getegid", "getrusage", "getrandom",
    "uname", "sysinfo", "rseq", "set_robust_list", "set_tid_address", "exit", "exit_group",
)
# fmt: on


class Confinement:
    """Prepared once in the zygote; `limit`, then `seal`, are called in each child."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
        self._filter = _system_calls()
        if self._filter is None:
            # The limits still hold; whoever runs the worker should know that this wall is missing.
            _log.warning("no system call filter here: files are parsed under limits, but not sealed off")

    def limit(self, timeout: float, zygote: int) -> None:
        """Bound the calling process for one file of `timeout` seconds, and its life by the zygote's."""
        if self._libc is not None:
            self._libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            with (
                contextlib.suppress(OSError),
                open("/proc/self/oom_score_adj", "w", encoding="ascii") as score,
            ):
                score.write("1000")
        # It may have died before we asked to die with it.
        if os.getppid() != zygote:
            os._exit(1)
        # The zygote kills at the wall limit; this alarm is for the case that it cannot.
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, timeout + _ALARM_AFTER)
        seconds = math.ceil(timeout)
        _lower(resource.RLIMIT_CPU, seconds, seconds + 1)
        _lower(resource.RLIMIT_AS, limits.ADDRESS_SPACE_BYTES, limits.ADDRESS_SPACE_BYTES)
        _lower(resource.RLIMIT_FSIZE, 0, 0)
        _lower(resource.RLIMIT_CORE, 0, 0)
        _lower(resource.RLIMIT_NOFILE, 32, 32)

    def seal(self) -> None:
        """From here on: only memory, the descriptors that are open, and the end."""
        if self._filter is not None:
            self._filter.load()


def _lower(kind: int, soft: int, hard: int) -> None:
    _, ceiling = resource.getrlimit(kind)
    if ceiling != resource.RLIM_INFINITY:
        soft, hard = min(soft, ceiling), min(hard, ceiling)
    # macOS refuses some of them; the wall limit still holds there.
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(kind, (soft, hard))


def _system_calls() -> Filter | None:
    """The filter that `seal` loads, or None where the kernel or the architecture has none."""
    try:
        import seccompy
    except ImportError:
        return None
    try:
        if not seccompy.supported():
            return None
        allowed = seccompy.Filter(default=int(seccompy.Action.ERRNO) | errno.EPERM)
        for name in _ALLOWED:
            # Architectures differ in the calls they have.
            with contextlib.suppress(KeyError, ValueError, seccompy.SeccompError):
                allowed.allow(name)
        # Assembled now, once, and not in every child.
        return allowed if allowed.program else None
    except (OSError, seccompy.SeccompError):
        return None
