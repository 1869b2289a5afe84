"""What a Bifrost client is, whichever way it is driven: whom it acts as, its table, its queue."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from wyrd._client.delivery import Delivery
from wyrd._client.held import Held
from wyrd._client.recording import QUEUE_BYTES, Limits, Recorder, closed
from wyrd._client.tables import TableConfig
from wyrd.errors import Code, WyrdError
from wyrd.wire.ids import is_uuid7

C = TypeVar("C", bound=Any)


def limits_of(client_byte_limit_bytes: int | None, batch_rows: int, batch_bytes: int) -> Limits:
    """CLIENT_400_CONFIG_INVALID for what is no limit."""
    queue = QUEUE_BYTES if client_byte_limit_bytes is None else client_byte_limit_bytes
    return Limits(queue_bytes=queue, batch_rows=batch_rows, batch_bytes=batch_bytes)


def recorder_of(client: Any, limits: Limits) -> Recorder:
    """A queue that sends as that client, from threads of its own."""
    return Recorder(Delivery(client.server_url, client._blocking()), limits)


class BifrostView(Generic[C]):
    """The state of `Bifrost` and `AsyncBifrost`. Construction resolves nothing and does no I/O."""

    def __init__(self, held: Held[C], table: TableConfig | None, limits: Limits) -> None:
        if table is not None and not isinstance(table, TableConfig):
            raise _no_config()
        self._held = held
        self._table = table
        self._limits = limits
        self._opening = threading.Lock()
        self._recorder: Recorder | None = None
        self._closed = False

    @property
    def table(self) -> TableConfig | None:
        """The table that rows are inserted into."""
        return self._table

    def use_table(self, table: TableConfig) -> TableConfig | None:
        """Insert into this table from now on; the one before. What is queued for it is still sent."""
        if not isinstance(table, TableConfig):
            raise _no_config()
        before, self._table = self._table, table
        return before

    def _active(self) -> TableConfig:
        if self._table is None:
            raise WyrdError(
                Code.SPEC_400_VALIDATION, "no table is chosen: give one, or call use_table", field="table"
            )
        return self._table

    def _queue(self) -> Recorder:
        with self._opening:
            if self._closed:
                raise closed()
            if self._recorder is None:
                self._recorder = recorder_of(self._held.get(), self._limits)
            return self._recorder

    def _insert(self, row: Any, correlation: Mapping[str, Any] | None) -> None:
        recorder, config = self._recorder or self._queue(), self._active()
        run_id = card_uid = None
        if correlation:
            run_id, card_uid = _correlated(correlation)
        recorder.add(recorder.stream(config.fqn), row, run_id, card_uid, text=True)

    def _drain(self, timeout: float, *, close: bool) -> None:
        with self._opening:
            self._closed = self._closed or close
        if self._recorder is not None:
            self._recorder.drain(timeout, close=close)


def _correlated(correlation: Mapping[str, Any]) -> tuple[str | None, str | None]:
    unknown = set(correlation) - {"run_id", "card_uid"}
    if unknown:
        raise WyrdError(
            Code.SPEC_400_VALIDATION,
            f"correlation holds run_id and card_uid, not {', '.join(sorted(map(str, unknown)))}",
            field="correlation",
        )
    found: list[str | None] = []
    for name in ("run_id", "card_uid"):
        value = correlation.get(name)
        if value is not None and not (isinstance(value, str) and is_uuid7(value)):
            raise WyrdError(Code.SPEC_400_VALIDATION, f"{name} is a UUIDv7", field=name)
        found.append(value.lower() if value is not None else None)
    return found[0], found[1]


def _no_config() -> WyrdError:
    return WyrdError(Code.SPEC_400_VALIDATION, "a table is given as a TableConfig", field="table")
