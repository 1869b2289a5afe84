"""Run by path as a tiny program: tie this process's life to its parent's, then become a command.

Usage: python -I -S tether.py PARENT_PID COMMAND [ARGUMENT ...]
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> None:
    parent, command = int(arguments[0]), arguments[1:]
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        # SIGKILL, because nothing of this stack may outlive its supervisor, however it ended. The
        # setting survives exec.
        if libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() != parent:
        sys.exit(1)
    os.umask(0o077)
    os.execv(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
