"""One call inside WebAssembly: the interpreter starts anew for it, reads the call and writes the answer."""

from __future__ import annotations

import os
import sys

from . import answer, determinism


def main() -> None:
    """The call is on standard input, the answer goes to standard output."""
    determinism.install()
    os.environ.clear()
    sys.path[:] = [place for place in sys.path if place != "/wyrd"]
    sys.argv[:] = [""]
    answer.serve(0, 1)
    os._exit(0)
