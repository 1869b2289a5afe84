"""A state's one way into Bifrost: not started, started, or closed for good."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from wyrd._client.recording import Recorder, Stream, closed
from wyrd._client.samples import TABLE
from wyrd._client.tables import DATASETS
from wyrd.errors import Code, WyrdError
from wyrd.wire.table_schema import is_table_name


class Writer:
    """What `observe` writes through. Every method may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._recorder: Recorder | None = None
        self._closed = False
        self._datasets: dict[str, Stream] = {}

    def refuse_start(self) -> None:
        """SDK_409_BIFROST_ALREADY_STARTED, SDK_409_BIFROST_CLOSED."""
        if self._closed:
            raise closed()
        if self._recorder is not None:
            raise WyrdError(Code.SDK_409_BIFROST_ALREADY_STARTED, "this state has started Bifrost already")

    def start(self, make: Callable[[], Recorder]) -> None:
        """Open the queue; errors as `refuse_start`."""
        with self._lock:
            self.refuse_start()
            self._recorder = make()

    def record(self, table: str, row: Any, run_id: str, card_uid: str) -> None:
        """Queue one row of a dataset."""
        recorder = self._recorder
        if recorder is None:
            raise self._idle()
        try:
            stream = self._datasets[table]
        except (KeyError, TypeError):
            stream = self._dataset(recorder, table)
        recorder.add(stream, row, run_id, card_uid)

    def record_samples(self, rows: list[dict[str, Any]], run_id: str, card_uid: str) -> None:
        """Queue the rows of one sample, all or none."""
        recorder = self._started()
        recorder.add_all(recorder.stream(TABLE), rows, run_id, card_uid)

    def flush(self, timeout: float) -> None:
        self._started().drain(timeout)

    def shutdown(self, timeout: float) -> None:
        """Send what is queued and take no more. Nothing to do for a state that never started."""
        with self._lock:
            self._closed = True
            recorder = self._recorder
        if recorder is not None:
            recorder.drain(timeout, close=True)

    def _started(self) -> Recorder:
        recorder = self._recorder
        if recorder is None or self._closed:
            raise self._idle()
        return recorder

    def _idle(self) -> WyrdError:
        if self._closed:
            return closed()
        return WyrdError(Code.SDK_400_BIFROST_NOT_STARTED, "call start_bifrost first")

    def _dataset(self, recorder: Recorder, table: Any) -> Stream:
        namespace, _, name = table.rpartition(".") if isinstance(table, str) else ("", "", "")
        if namespace != DATASETS or not is_table_name(name):
            raise WyrdError(
                Code.SDK_400_INVALID_OBSERVATION,
                f"rows are recorded into {DATASETS}.<name>, not {str(table)[:120]!r}",
                field="table",
                table=str(table)[:120],
            )
        stream = recorder.stream(table)
        self._datasets[table] = stream
        return stream
