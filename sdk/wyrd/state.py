"""The state an application starts from: an exact Service and everything it refers to."""

from __future__ import annotations

import os
from typing import Self

from wyrd._client.bifrost_view import limits_of, recorder_of
from wyrd._client.bundle_reading import load_bundle
from wyrd._client.card_files import CardFiles
from wyrd._client.recording import BATCH_BYTES, BATCH_ROWS, DRAIN_SECONDS
from wyrd._client.state import StateView, declared, ready_for_records
from wyrd.client import WyrdClient
from wyrd.runs import Run


class WyrdState(StateView[WyrdClient]):
    """A loaded Service. `declare` makes one; `run` opens runs on it."""

    _ambient = WyrdClient

    @classmethod
    def declare(
        cls,
        path: str | os.PathLike[str],
        client: WyrdClient | None = None,
        *,
        bundle_dir: str | os.PathLike[str] | None = None,
        files: CardFiles | None = None,
    ) -> Self:
        """Declare a root Service Card file and all it refers to, then load what the server stored.

        An unchanged rerun declares nothing new. With `bundle_dir` it is also pulled there, files
        included, as `Cards.pull` does; `from_path` then loads it without a server.
        `files`: as of `Cards.declare`.
        Errors: CLI_400_CARD_LOAD, SDK_400_CARD_KIND_MISMATCH, SDK_400_INVALID_STATE_BUNDLE, and
        those of `Cards.declare` and `Cards.pull`.
        """
        chosen = client or WyrdClient()
        graph = chosen._run(declared(chosen.server_url, path, bundle_dir, files))
        return cls(chosen, graph)

    @classmethod
    def from_path(cls, path: str | os.PathLike[str], client: WyrdClient | None = None) -> Self:
        """Load a bundle that `wyrd pull` or `Cards.pull` wrote. No network, and no credential yet.

        Without `client`, the ambient one is made when the state first needs one. Every file is
        checked against the bundle's manifest. Errors: SDK_400_INVALID_STATE_BUNDLE, whose
        `details.path` is the file at fault; SDK_400_CARD_KIND_MISMATCH; LOADER_400_IO.
        """
        return cls(client, load_bundle(path))

    def run(self, alias: str | None = None, *, session_id: object = None) -> Run:
        """Open a run on a component, or on the Service itself. Local; nothing is sent.

        `session_id` is a UUID that groups the runs of one conversation: it stands in the results of
        their `verify` and `submit`, and in their samples.
        Errors: SDK_404_UNKNOWN_ALIAS, SPEC_400_VALIDATION.
        """
        return Run(self._held, self._graph, alias, session_id=session_id, writer=self._writer)

    def start_bifrost(
        self,
        client_byte_limit_bytes: int | None = None,
        *,
        batch_rows: int = BATCH_ROWS,
        batch_bytes: int = BATCH_BYTES,
    ) -> None:
        """Open the queue that `observe.record` and samples go through, and start sending from it.

        At most `client_byte_limit_bytes` wait (256 MiB); a batch of one table is sent at `batch_rows`
        rows, `batch_bytes` bytes or after a second. Asks the server for `vala.drift.observations`
        first, so that a server that cannot take records is known at the start.
        Errors: SDK_409_BIFROST_ALREADY_STARTED, SDK_409_BIFROST_CLOSED, CLIENT_400_CONFIG_INVALID,
        VALA_409_BIFROST_FINGERPRINT_MISMATCH, and the server's own.
        """
        limits = limits_of(client_byte_limit_bytes, batch_rows, batch_bytes)
        self._writer.refuse_start()
        client = self._client
        client._run(ready_for_records(client.server_url))
        self._writer.start(lambda: recorder_of(client, limits))

    def start_telemetry(self) -> None:
        """Install a tracer provider for this process that sends spans to this state's server.

        Spans go to `/v1/traces` by OTLP as the state's client, in batches, and those started inside
        `with state.run(...)` carry its run and Card. Repeating it changes nothing. Sends nothing yet.
        Errors: SDK_409_TELEMETRY_PROVIDER_EXISTS when the process has a provider already: give it
        `wyrd.otel.span_exporter(client)` instead. ImportError names the extra `otel` when it is missing.
        """
        self._start_telemetry()

    def flush(self, timeout: float = DRAIN_SECONDS) -> None:
        """Wait until all that is queued is stored: spans, if telemetry was started here, then rows.

        Raises the first refusal since the last call: `details.table` says of which table,
        `details.rows_refused` how many rows, `details.refused` which and why; all others are stored.
        CLIENT_504_FLUSH_TIMEOUT when the server has not taken everything in `timeout` seconds: it
        stays queued. Also SDK_400_BIFROST_NOT_STARTED, SDK_409_BIFROST_CLOSED. Spans have the same time for
        themselves: SDK_504_TELEMETRY_FLUSH_TIMEOUT, SDK_503_TELEMETRY_FLUSH_FAILED, with the code of a
        failure of the rows in `details.native_code`.
        """
        self._drain(self._writer.flush, timeout)

    def shutdown(self, timeout: float = DRAIN_SECONDS) -> None:
        """Take no more rows, and return when the server has everything; for the end of an application.

        A process that ends without it can lose the rows of its last second: nothing holds up its end.
        Errors as of `flush`; after a time-out it may be called again. A closed state stays closed.
        The tracer provider goes on for the rest of the process.
        """
        self._drain(self._writer.shutdown, timeout)
