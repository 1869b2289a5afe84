"""The Operator Card: what reacts to a failed background verdict."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Tag

from wyrd.cards.identifiers import Count16, Count32, Name
from wyrd.cards.shapes import TAG, Strict, tagged


class OperatorBudget(Strict):
    """Limits of one delivery."""

    max_wall_seconds: Count32 | None = None
    max_tool_calls: Count32 | None = None


class SlackChannel(Strict):
    kind: Literal["slack"]
    connection: Name
    channel_id: str
    text: str


class PagerDutyChannel(Strict):
    kind: Literal["pager_duty"]
    connection: Name
    route: str
    severity: Literal["critical", "error", "warning", "info"]
    summary: str
    dedup_key: str | None = None


class BearerAuth(Strict):
    scheme: Literal["bearer"]
    connection: Name


class BasicAuth(Strict):
    scheme: Literal["basic"]
    connection: Name


class HeaderAuth(Strict):
    scheme: Literal["header"]
    name: str
    connection: Name


HttpAuth: TypeAlias = Annotated[
    Annotated[BearerAuth, Tag(TAG + "bearer")]
    | Annotated[BasicAuth, Tag(TAG + "basic")]
    | Annotated[HeaderAuth, Tag(TAG + "header")],
    tagged("scheme"),
]


class OperatorSpec(Strict):
    """What both kinds share; a value is a `NotifyOperator` or an `HttpOperator`."""

    description: str | None = None
    budget: OperatorBudget | None = None

    @property
    def connections(self) -> list[str]:
        """The names of the operator connections it needs."""
        return []


class NotifyOperator(OperatorSpec):
    """A message to Slack or an event to PagerDuty."""

    kind: Literal["notify"]
    channel: Annotated[
        Annotated[SlackChannel, Tag(TAG + "slack")] | Annotated[PagerDutyChannel, Tag(TAG + "pager_duty")],
        tagged("kind"),
    ]

    @property
    def connections(self) -> list[str]:
        return [self.channel.connection]


class HttpOperator(OperatorSpec):
    """An HTTP request; `timeout_seconds` bounds one attempt, `expect_status` is exact."""

    kind: Literal["http"]
    method: Literal["get", "post", "put", "patch", "delete"]
    url: str
    headers: dict[str, str] = {}
    body: Any = None
    auth: HttpAuth | None = None
    timeout_seconds: Count32 | None = None
    expect_status: Count16 | None = None

    @property
    def connections(self) -> list[str]:
        return [] if self.auth is None else [self.auth.connection]


AnyOperator: TypeAlias = Annotated[
    Annotated[NotifyOperator, Tag(TAG + "notify")] | Annotated[HttpOperator, Tag(TAG + "http")],
    tagged("kind"),
]
