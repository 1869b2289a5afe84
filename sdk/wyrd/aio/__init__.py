"""The same surface with `async` methods: `WyrdClient`, `WyrdState`, `Cards`, `Bifrost`, `verify`.

What does no I/O (opening a run, `File`, errors) is the same object in both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wyrd.aio import verify
from wyrd.aio.client import WyrdClient
from wyrd.aio.registry import Cards
from wyrd.aio.runs import Observe, Run
from wyrd.aio.state import WyrdState
from wyrd.errors import Code, WyrdError

if TYPE_CHECKING:
    from wyrd.aio.bifrost import Bifrost

__all__ = [
    "Bifrost",
    "Cards",
    "Code",
    "Observe",
    "Run",
    "WyrdClient",
    "WyrdError",
    "WyrdState",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name != "Bifrost":
        raise AttributeError(f"module 'wyrd.aio' has no attribute {name!r}")
    from wyrd.aio.bifrost import Bifrost

    return Bifrost
