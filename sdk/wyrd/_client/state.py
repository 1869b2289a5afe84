"""What a state is, whichever way it is driven: a loaded graph and its accessors."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Generic, TypeVar

from wyrd._client import declaration
from wyrd._client.envelope import CardEnvelope
from wyrd._client.flow import Flow
from wyrd._client.graph import Graph, load
from wyrd._client.held import Held
from wyrd.wire.refs import CardRef

C = TypeVar("C")


def declared(server_url: str, path: str | os.PathLike[str]) -> Flow[Graph]:
    """Declare a root Service and load the exact graph that the server stored."""
    receipt = yield from declaration.declare(server_url, path, root_kind="Service")
    return (yield from load(server_url, receipt.root))


class StateView(Generic[C]):
    """The exact Service version an application runs, with every Card it refers to. Read-only."""

    _ambient: Callable[[], C]
    """Makes the client of a state that was given none."""

    def __init__(self, client: C | None, graph: Graph) -> None:
        self._held = Held(client, self._ambient)
        self._graph = graph

    @property
    def _client(self) -> C:
        return self._held.get()

    @property
    def root_ref(self) -> CardRef:
        """The exact reference of the root Service."""
        return self._graph.root.card_ref

    @property
    def service(self) -> CardEnvelope:
        """The root Service."""
        return self._graph.root

    @property
    def aliases(self) -> tuple[str, ...]:
        """The aliases of the Service's components, in declared order."""
        return tuple(self._graph.components)

    def card(self, alias: str) -> CardEnvelope:
        """The Card behind an alias. SDK_404_UNKNOWN_ALIAS."""
        return self._graph.card(alias)

    def card_ref(self, alias: str) -> CardRef:
        """The exact reference behind an alias. SDK_404_UNKNOWN_ALIAS."""
        return self._graph.card(alias).card_ref

    def agent(self, alias: str) -> CardEnvelope:
        """The Agent behind an alias. SDK_404_UNKNOWN_ALIAS, SDK_400_CARD_KIND_MISMATCH."""
        return self._graph.card_of_kind(alias, "Agent")

    def prompt(self, alias: str) -> CardEnvelope:
        """The Prompt behind an alias. SDK_404_UNKNOWN_ALIAS, SDK_400_CARD_KIND_MISMATCH."""
        return self._graph.card_of_kind(alias, "Prompt")

    def verifier(self, alias: str) -> CardEnvelope:
        """A Verifier that the Service or a component binds, by its name or `name@version`.

        Errors: SDK_404_UNKNOWN_ALIAS, SDK_400_CARD_KIND_MISMATCH, SPEC_400_VALIDATION.
        """
        return self._graph.verifier(alias)

    def __getitem__(self, alias: str) -> CardEnvelope:
        return self.card(alias)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.root_ref)!r})"
