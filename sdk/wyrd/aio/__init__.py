"""The same surface with `async` methods: `WyrdClient`, `WyrdState`, `Cards`, `verify`.

What does no I/O (opening a run, `File`, errors) is the same object in both.
"""

from __future__ import annotations

from wyrd.aio import verify
from wyrd.aio.client import WyrdClient
from wyrd.aio.registry import Cards
from wyrd.aio.runs import Observe, Run
from wyrd.aio.state import WyrdState
from wyrd.errors import Code, WyrdError

__all__ = [
    "Cards",
    "Code",
    "Observe",
    "Run",
    "WyrdClient",
    "WyrdError",
    "WyrdState",
    "verify",
]
