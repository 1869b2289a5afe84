"""The client that a state acts as: the one it was given, or the ambient one once it is needed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

C = TypeVar("C")


class Held(Generic[C]):
    """A client, made at its first use when none is given: a state loaded from disk needs none.

    `get` raises what `WyrdClient()` raises, and tries again at the next call.
    """

    def __init__(self, client: C | None, make: Callable[[], C]) -> None:
        self._client = client
        self._given = client is not None
        self._make = make
        self._making = threading.Lock()

    def get(self) -> C:
        if self._client is None:
            with self._making:
                if self._client is None:
                    self._client = self._make()
        return self._client

    @property
    def own(self) -> C | None:
        """The client that was made here, which nobody else closes; None before that."""
        return None if self._given else self._client
