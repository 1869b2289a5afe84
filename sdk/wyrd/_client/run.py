"""What a run is, whichever way it is driven: ids, a view of the graph, and its bound Verifiers."""

from __future__ import annotations

import uuid
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from wyrd._client.graph import Graph
from wyrd._client.held import Held
from wyrd._client.inputs import Intent, checked_group
from wyrd._client.samples import sample_rows, takes_samples
from wyrd._client.scope import RunScope, enter, leave
from wyrd._client.verification import Judgement
from wyrd._client.writer import Writer
from wyrd.errors import Code, WyrdError
from wyrd.wire.ids import uuid7

C = TypeVar("C")


def checked_session(session_id: object) -> str | None:
    """A session id is a UUID of any version (SPEC_400_VALIDATION otherwise)."""
    if session_id is None:
        return None
    try:
        return str(uuid.UUID(str(session_id)))
    except ValueError:
        raise WyrdError(Code.SPEC_400_VALIDATION, "a session id is a UUID", field="session_id") from None


class RunView(Generic[C]):
    """One invocation of the service, looking at one of its Cards. Opening it is local.

    `run_id` is a UUIDv7 shared by every sibling that `for_card` gives; `alias` is None on the
    view of the Service itself.
    """

    def __init__(
        self,
        client: Held[C],
        graph: Graph,
        alias: str | None,
        run_id: str | None = None,
        session_id: object = None,
        *,
        writer: Writer,
    ) -> None:
        self._held = client
        self._writer = writer
        self._graph = graph
        self._view = graph.view(alias)
        self._run_id = run_id or uuid7()
        self._session_id = checked_session(session_id)
        self._scope = RunScope(self._run_id, self._view.card.uid)

    @property
    def _client(self) -> C:
        return self._held.get()

    @property
    def run_id(self) -> str:
        return self._run_id

    @property
    def session_id(self) -> str | None:
        """The UUID of the conversation this run belongs to: its results, groups and samples say it too."""
        return self._session_id

    @property
    def alias(self) -> str | None:
        return self._view.alias

    @property
    def card_uid(self) -> str:
        """The UID of the Card this view is about: the subject of its verifications."""
        return self._view.card.uid

    def for_card(self, alias: str) -> Self:
        """The same run, looking at another component. SDK_404_UNKNOWN_ALIAS."""
        if not isinstance(alias, str):
            raise WyrdError(Code.SPEC_400_VALIDATION, "an alias is text", field="alias")
        return type(self)(self._held, self._graph, alias, self._run_id, self._session_id, writer=self._writer)

    def __enter__(self) -> Self:
        """Put `wyrd.run_id` and `wyrd.card_uid` on every OpenTelemetry span started inside the block,
        in threads and tasks that inherit its context too, and on the span that is active now unless
        it belongs to a run. Sends nothing, and raises nothing where there is no OpenTelemetry."""
        enter(self._scope)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Back to the run and Card outside the block. Flushes nothing, swallows nothing."""
        leave(self._scope)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(run_id={self._run_id!r}, alias={self.alias!r})"

    def _judgement(
        self,
        intent: Intent,
        verifier: str,
        group_id: str | None,
        positional: tuple[Any, ...],
        named: dict[str, Any],
    ) -> Judgement:
        return Judgement.of(
            intent,
            self._view.verifier(verifier),
            self.card_uid,
            self._run_id,
            group_id,
            positional,
            named,
            session_id=self._session_id,
        )

    def _recorded(
        self,
        verifier: str,
        group_id: str | None,
        positional: tuple[Any, ...],
        named: dict[str, Any],
    ) -> bool:
        """Queue samples, when they are what this Verifier takes."""
        found = self._view.verifier(verifier)
        if not takes_samples(found):
            return False
        if checked_group(group_id) is not None:
            raise WyrdError(
                Code.SPEC_400_VALIDATION, "samples belong to windows of time, not to groups", field="group_id"
            )
        rows = sample_rows(found, self._session_id, positional, named)
        self._writer.record_samples(rows, self._run_id, self.card_uid)
        return True
