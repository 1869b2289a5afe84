"""Steps and the actions they run: extract, agent, code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field, Tag

from wyrd.cards.agent import AgentOrLink
from wyrd.cards.card_ref import PureLink
from wyrd.cards.comparison import Operator
from wyrd.cards.references import Reference
from wyrd.cards.shapes import TAG, Strict, chosen_by, tagged


class Condition(Strict):
    """`{path, operator, expected?}`; whether `expected` was authored is in `model_fields_set`."""

    path: Reference
    operator: Operator
    expected: Any = None


class InlineSource(Strict):
    """Python source text on the Card itself."""

    inline: str


class ArtifactFile(Strict):
    """A file of an Artifact Card; `path` may be omitted for a one-file Artifact."""

    card: PureLink
    path: str | None = None


class ArtifactSource(Strict):
    """Python source text in an Artifact."""

    artifact: ArtifactFile


def _source_form(value: Any) -> str | None:
    if isinstance(value, Mapping):
        forms = [form for form in ("inline", "artifact") if form in value]
        return forms[0] if forms else None
    if isinstance(value, InlineSource):
        return "inline"
    return "artifact" if isinstance(value, ArtifactSource) else None


CodeSource: TypeAlias = Annotated[
    Annotated[InlineSource, Tag(TAG + "inline")] | Annotated[ArtifactSource, Tag(TAG + "artifact")],
    chosen_by("source", _source_form),
]


class ExtractAction(Strict):
    """Read a file of one media slot into structured text."""

    kind: Literal["extract"]
    from_: Reference = Field(alias="from")


class AgentBlock(Strict):
    """What an agent action and an agent check share."""

    agent: AgentOrLink
    inputs: dict[str, Reference] = {}
    workspace: dict[str, Reference] = {}


class AgentAction(AgentBlock):
    kind: Literal["agent"]


class CodeBlock(Strict):
    """What a code action and a code check share."""

    entrypoint: str
    source: CodeSource
    inputs: dict[str, Reference] = {}
    runtime: Literal["python"] = "python"


class CodeAction(CodeBlock):
    kind: Literal["code"]


Action: TypeAlias = Annotated[
    Annotated[ExtractAction, Tag(TAG + "extract")]
    | Annotated[AgentAction, Tag(TAG + "agent")]
    | Annotated[CodeAction, Tag(TAG + "code")],
    tagged("kind"),
]
