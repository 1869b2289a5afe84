"""What an application imports: the client, states and runs, the registry, Bifrost, and errors.

Names load on first use, so that `import wyrd` costs milliseconds and pulls in no server library.
The same names with `async` methods live in `wyrd.aio`; the Card language is `wyrd.cards`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from wyrd.errors import Code, WyrdError

if TYPE_CHECKING:
    from wyrd import aio, bifrost, cards, verify
    from wyrd.bifrost import AsyncBifrost, Bifrost, TableConfig
    from wyrd.client import WyrdClient
    from wyrd.registry import Cards
    from wyrd.runs import Observe, Run
    from wyrd.state import WyrdState

__all__ = [
    "AsyncBifrost",
    "Bifrost",
    "Cards",
    "Code",
    "Observe",
    "Run",
    "TableConfig",
    "WyrdClient",
    "WyrdError",
    "WyrdState",
    "aio",
    "bifrost",
    "cards",
    "verify",
]

_WHERE = {
    "AsyncBifrost": "wyrd.bifrost",
    "Bifrost": "wyrd.bifrost",
    "Cards": "wyrd.registry",
    "Observe": "wyrd.runs",
    "Run": "wyrd.runs",
    "TableConfig": "wyrd.bifrost",
    "WyrdClient": "wyrd.client",
    "WyrdState": "wyrd.state",
}
_MODULES = ("aio", "bifrost", "cards", "verify")


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        value = getattr(import_module(_WHERE[name]), name)
    elif name in _MODULES:
        value = import_module(f"wyrd.{name}")
    else:
        raise AttributeError(f"module 'wyrd' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
