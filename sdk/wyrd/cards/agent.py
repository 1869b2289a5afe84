"""The Agent Card: a Prompt, the route its calls take, and the tools it may use."""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Tag

from wyrd.cards.binding import Binding
from wyrd.cards.card_ref import (
    CardRef,
    InlineTag,
    PathTag,
    RefTag,
    Sibling,
    SiblingTag,
    link_or_inline,
)
from wyrd.cards.identifiers import Count32, Count64, Name
from wyrd.cards.prompt import PromptSpec
from wyrd.cards.shapes import TAG, Lenient, Strict, chosen_by, tagged

BUILT_IN_TOOLS: Final = (
    "cards.list",
    "cards.get",
    "bifrost.list_tables",
    "bifrost.describe_table",
    "bifrost.query",
    "fs.list",
    "fs.read",
    "fs.search",
    "code.run",
)
WORKSPACE_TOOLS: Final = frozenset(("fs.list", "fs.read", "fs.search", "code.run"))


class NativeRoute(Strict):
    kind: Literal["native"]


class GatewayRoute(Strict):
    """Through the gateway's named deployment."""

    kind: Literal["wyrd_gateway"]
    deployment: Name


class RunConfig(Lenient):
    """Limits of one run; `timeout_ms` is in milliseconds."""

    max_iterations: Count32 | None = None
    tool_concurrency_cap: Count64 | None = None
    session_recent_limit: Count64 | None = None
    timeout_ms: Count64 | None = None


PromptOrLink: TypeAlias = Annotated[
    Annotated[str, PathTag]
    | Annotated[CardRef, RefTag]
    | Annotated[Sibling, SiblingTag]
    | Annotated[PromptSpec, InlineTag],
    chosen_by("prompt", link_or_inline),
]


class AgentSpec(Strict):
    """An Agent, as a Card of its own or inline in a step or check."""

    prompt: PromptOrLink
    execution_route: Annotated[
        Annotated[NativeRoute, Tag(TAG + "native")] | Annotated[GatewayRoute, Tag(TAG + "wyrd_gateway")],
        tagged("kind"),
    ]
    tool_names: list[str] = []
    run_config: RunConfig = RunConfig()
    verified_by: list[Binding] = []


AgentOrLink: TypeAlias = Annotated[
    Annotated[str, PathTag]
    | Annotated[CardRef, RefTag]
    | Annotated[Sibling, SiblingTag]
    | Annotated[AgentSpec, InlineTag],
    chosen_by("agent", link_or_inline),
]
