"""The state an application starts from: an exact Service and everything it refers to."""

from __future__ import annotations

import os
from typing import Self

from wyrd._client.state import StateView, declared
from wyrd.client import WyrdClient
from wyrd.runs import Run


class WyrdState(StateView[WyrdClient]):
    """A loaded Service. `declare` makes one; `run` opens runs on it."""

    _ambient = WyrdClient

    @classmethod
    def declare(cls, path: str | os.PathLike[str], client: WyrdClient | None = None) -> Self:
        """Declare a root Service Card file and all it refers to, then load what the server stored.

        An unchanged rerun declares nothing new. Errors: CLI_400_CARD_LOAD,
        SDK_400_CARD_KIND_MISMATCH, SDK_400_INVALID_STATE_BUNDLE, and those of `Cards.declare`.
        """
        chosen = client or WyrdClient()
        graph = chosen._run(declared(chosen.server_url, path))
        return cls(chosen, graph)

    def run(self, alias: str | None = None, *, session_id: object = None) -> Run:
        """Open a run on a component, or on the Service itself. Local; nothing is sent.

        `session_id` is a UUID that groups the runs of one conversation.
        Errors: SDK_404_UNKNOWN_ALIAS, SPEC_400_VALIDATION.
        """
        return Run(self._held, self._graph, alias, session_id=session_id)
