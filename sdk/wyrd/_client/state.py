"""What a state is, whichever way it is driven: a loaded graph and its accessors."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from wyrd._client import declaration
from wyrd._client.bundle_reading import load_bundle
from wyrd._client.card_files import CardFiles
from wyrd._client.envelope import CardEnvelope
from wyrd._client.flow import Flow, Offload
from wyrd._client.graph import Graph, load
from wyrd._client.held import Held
from wyrd._client.pulling import pull
from wyrd._client.samples import NAME, NAMESPACE, check_table
from wyrd._client.tables import describe
from wyrd._client.writer import Writer
from wyrd.errors import WyrdError
from wyrd.wire.refs import CardRef

if TYPE_CHECKING:
    from wyrd._client.telemetry import Telemetry

NEEDS_EXTRA = "telemetry needs OpenTelemetry's SDK and OTLP exporter: pip install 'wyrd-temporal[otel]'"

C = TypeVar("C", bound=Any)


def declared(
    server_url: str,
    path: str | os.PathLike[str],
    bundle_dir: str | os.PathLike[str] | None,
    files: CardFiles | None,
) -> Flow[Graph]:
    """Declare a root Service and load the exact graph that the server stored, by way of a bundle if asked."""
    receipt = yield from declaration.declare(server_url, path, root_kind="Service", files=files)
    if bundle_dir is None:
        return (yield from load(server_url, receipt.root))
    pulled = yield from pull(server_url, receipt.root, bundle_dir)
    graph: Graph = yield Offload(lambda: load_bundle(pulled.destination))
    return graph


def ready_for_records(server_url: str) -> Flow[None]:
    """See that the server has the table of samples as this client writes it."""
    check_table((yield from describe(server_url, NAMESPACE, NAME)))


class StateView(Generic[C]):
    """The exact Service version an application runs, with every Card it refers to. Read-only."""

    _ambient: Callable[[], C]
    """Makes the client of a state that was given none."""

    def __init__(self, client: C | None, graph: Graph) -> None:
        self._held = Held(client, self._ambient)
        self._graph = graph
        self._writer = Writer()
        self._telemetry: Telemetry | None = None

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

    def _start_telemetry(self) -> None:
        from wyrd._client.accounts import account_of

        try:
            from wyrd._client.telemetry import start
        except ImportError as missing:
            raise ImportError(NEEDS_EXTRA) from missing
        self._telemetry = start(account_of(self._client), self.root_ref)

    def _drain(self, rows: Callable[[float], None], timeout: float) -> None:
        """Spans first, then the rows, whatever becomes of the spans; the first failure of both."""
        failed: WyrdError | None = None
        if self._telemetry is not None:
            try:
                self._telemetry.flush(timeout)
            except WyrdError as error:
                failed = error
        try:
            rows(timeout)
        except WyrdError as error:
            if failed is None:
                raise
            failed.details["native_code"] = error.code
        if failed is not None:
            raise failed

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.root_ref)!r})"
