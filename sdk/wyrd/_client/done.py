"""What async calls that are done at once return: it may be awaited and need not be."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any


class _Done:
    __slots__ = ()

    def __await__(self) -> Generator[Any, None, None]:
        yield from ()


DONE = _Done()
