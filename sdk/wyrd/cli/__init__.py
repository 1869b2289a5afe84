"""The `wyrd` command. Commands read arguments, call the SDK and print; rules live elsewhere.

`main` is the entry point: it turns every failure into one structured error and an exit code.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0, 1, 64 usage, 66 not found, 69 unavailable, 74 I/O, 77 refused,
    130 after Ctrl-C."""
    from wyrd.cli.app import run

    sys.exit(run(list(sys.argv[1:] if arguments is None else arguments)))
