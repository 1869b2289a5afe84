"""The system calls that a call's process may make: those that compute and read, and no other.

Unknown system calls kill the process. The familiar ways out answer EPERM instead, so that code which merely
tries (a library that looks for a terminal, a check that tries to write a file) meets an ordinary exception.
"""

from __future__ import annotations

import errno
import os
from typing import Final

import seccompy

_ALLOWED: Final = """
read readv pread64 preadv preadv2 write writev close close_range lseek fstat newfstatat stat lstat statx
statfs fstatfs access faccessat faccessat2 readlink readlinkat getdents getdents64 getcwd chdir fchdir
fadvise64 umask munmap mremap brk madvise mincore rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending
rt_sigtimedwait sigaltstack futex getpid getppid gettid getuid geteuid getgid getegid getresuid getresgid
getgroups getpgid getpgrp getsid clock_gettime clock_getres clock_nanosleep nanosleep gettimeofday time times
getrusage getrlimit uname sysinfo sched_yield sched_getaffinity getrandom poll ppoll select pselect6 pipe
pipe2 dup dup2 dup3 membarrier getpriority exit exit_group restart_syscall
"""

_REFUSED: Final = """
fork vfork clone clone3 execve execveat kill tkill tgkill rt_sigqueueinfo rt_tgsigqueueinfo pidfd_open
pidfd_send_signal pidfd_getfd ptrace process_vm_readv process_vm_writev wait4 waitid
socket socketpair connect bind listen accept accept4 sendto sendmsg sendmmsg recvfrom recvmsg recvmmsg
shutdown getsockname getpeername setsockopt getsockopt creat mkdir mkdirat rmdir unlink unlinkat rename
renameat renameat2 link linkat symlink symlinkat mknod mknodat chmod fchmod fchmodat fchmodat2 chown fchown
lchown fchownat truncate ftruncate fallocate utime utimes utimensat futimesat setxattr lsetxattr fsetxattr
removexattr getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr pwrite64 pwritev pwritev2 sendfile
splice tee vmsplice copy_file_range flock fsync fdatasync sync syncfs memfd_create memfd_secret openat2 mount
umount2 pivot_root chroot unshare setns setuid setgid setreuid setregid setresuid setresgid setgroups setfsuid
setfsgid capset capget setsid setpgid setpriority setrlimit prctl seccomp personality sched_setaffinity
sched_setscheduler sched_setparam sched_setattr setitimer getitimer alarm pause timer_create epoll_create
epoll_create1 eventfd eventfd2 signalfd signalfd4 timerfd_create inotify_init inotify_init1 shmget shmat
shmctl msgget msgsnd msgrcv semget semop semctl mq_open mlock mlock2 mlockall io_setup io_uring_setup bpf
perf_event_open userfaultfd keyctl add_key request_key pkey_mprotect msync
"""

_EXECUTABLE: Final = 0x4
_WORD: Final = 0xFFFFFFFF
_FCNTL: Final = (0, 1, 2, 3, 1030)
"""Duplicate, read and set the close-on-exec flag, read the status flags."""
_IOCTL: Final = (0x5401, 0x5413, 0x5450, 0x5451)
"""Is it a terminal, how wide is it, and the close-on-exec flag."""


def _known(name: str) -> bool:
    try:
        seccompy.syscall_nr(name)
    except ValueError:  # not a call of this architecture
        return False
    return True


def _masked(argument: int, mask: int, value: int) -> seccompy.ArgCmp:
    return seccompy.ArgCmp(argument, seccompy.CmpOp.MASKED_EQ, value, mask)


def program() -> bytes:
    """The filter for this machine's architecture, as the instructions the kernel takes.

    Raises `seccompy.SeccompError` on an architecture it does not know.
    """
    rules = seccompy.Filter(default=seccompy.Action.KILL_PROCESS)
    for name in _ALLOWED.split():
        if _known(name):
            rules.allow(name)
    writing = os.O_ACCMODE | os.O_CREAT | os.O_TRUNC | os.O_APPEND
    conditional: dict[str, list[list[seccompy.ArgCmp]]] = {
        "mmap": [[_masked(2, _EXECUTABLE, 0)]],
        "mprotect": [[_masked(2, _EXECUTABLE, 0)]],
        "open": [[_masked(1, writing, 0)]],
        "openat": [[_masked(2, writing, 0)]],
        "fcntl": [[_masked(1, _WORD, command)] for command in _FCNTL],
        "ioctl": [[_masked(1, _WORD, request)] for request in _IOCTL],
        # Reading the own limits: no other process, nothing set.
        "prlimit64": [[_masked(0, _WORD, 0), seccompy.ArgCmp(2, seccompy.CmpOp.EQ, 0)]],
    }
    for name, alternatives in conditional.items():
        if _known(name):
            for conditions in alternatives:
                rules.allow(name, args=conditions)
            rules.errno(name, errno.EPERM)
    for name in _REFUSED.split():
        if _known(name):
            rules.errno(name, errno.EPERM)
    return rules.program
