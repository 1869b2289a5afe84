"""The tools: what each takes, and which question of the API it asks."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Final

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field, StrictInt, ValidationError

from api.problems import refused_request
from api.routes.cards import ListQuery
from api.routes.verification import Instant
from api.services import Services
from cards.listing import CardQuery, card_page
from cards.reading import card_by_ref, card_by_uid, latest_card
from store.caller import Caller
from wyrd.errors import Code, WyrdError
from wyrd.wire.cards import CardView
from wyrd.wire.names import DEFAULT_SPACE
from wyrd.wire.verification import ExecutionSource, ExecutionStatus, ExecutionVerdict


@dataclass(frozen=True, slots=True)
class Asking:
    """One call of a tool: who asks, and in which request."""

    services: Services
    caller: Caller
    request_id: str


class _Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid")


@dataclass(frozen=True, slots=True)
class Tool:
    """`answer` gets the arguments as `arguments` reads them, and returns a JSON document."""

    name: str
    description: str
    arguments: type[BaseModel]
    answer: Callable[[Asking, Any], Awaitable[dict[str, Any]]]

    async def call(self, asking: Asking, arguments: dict[str, Any] | None) -> dict[str, Any]:
        """Raises `WYRD_SPEC_400_VALIDATION` naming the argument, and whatever the question raises."""
        try:
            asked = self.arguments.model_validate(arguments or {})
        except ValidationError as error:
            found = error.errors(include_url=False)
            raise refused_request(RequestValidationError(found), Code.SPEC_400_VALIDATION) from None
        return await self.answer(asking, asked)


class CardName(_Arguments):
    """One Card: by uid, by exact version, or without either the latest release of that name."""

    kind: str = Field(description="Service, Agent, Verifier, Prompt, Data, Model, …")
    name: str
    space: str = DEFAULT_SPACE
    version: str | None = Field(None, description="Exact version, such as 1.0.0; left out for the latest.")
    uid: str | None = None


class CardsGet(_Arguments):
    card_ref: CardName


async def _cards_list(asking: Asking, asked: ListQuery) -> dict[str, Any]:
    wanted = CardQuery(**asked.model_dump(exclude={"limit", "cursor"}))
    page = await asking.services.database.read(card_page, asking.caller, wanted, asked.limit, asked.cursor)
    return page.model_dump(mode="json", by_alias=True, exclude_none=True)


async def _cards_get(asking: Asking, asked: CardsGet) -> dict[str, Any]:
    ref, read = asked.card_ref, asking.services.database.read
    if ref.uid is not None:
        view = await read(card_by_uid, asking.caller, ref.kind, ref.uid)
        _require_same(ref, view)
    elif ref.version is not None:
        view = await read(card_by_ref, asking.caller, ref.kind, ref.space, ref.name, ref.version)
    else:
        view = await read(latest_card, asking.caller, ref.kind, ref.space, ref.name)
    return {
        "card": view.card,
        "created_at": view.created_at.isoformat(),
        "updated_at": view.updated_at.isoformat(),
    }


def _require_same(ref: CardName, view: CardView) -> None:
    """A uid beside another Card's name is a mistake that no answer should cover up."""
    found = view.card["metadata"]
    for field in ref.model_fields_set & {"name", "space", "version"}:
        if getattr(ref, field) not in (None, found[field]):
            raise WyrdError(
                Code.REGISTRY_404_CARD_NOT_FOUND,
                f"the Card of this uid has another {field}: {found[field]}",
                field=f"card_ref.{field}",
            )


class Executions(_Arguments):
    """Which executions; every filter that is left out lets all pass."""

    verifier: str | None = Field(None, description="uid, or space/Kind/name[@version]")
    subject: str | None = Field(None, description="uid, or space/Kind/name[@version]")
    verdict: ExecutionVerdict | None = None
    status: ExecutionStatus | None = None
    run_id: str | None = None
    group_id: str | None = None
    binding_id: str | None = None
    source: ExecutionSource | None = None
    since: Instant | None = None
    until: Instant | None = None
    limit: Annotated[StrictInt, Field(description="1 to 1000")] = 100
    cursor: str | None = Field(None, max_length=512, description="next_cursor of the page before")


class ExecutionOf(_Arguments):
    execution_id: str


async def _executions(asking: Asking, asked: Executions) -> dict[str, Any]:
    given = {
        name: getattr(asked, name) for name in Executions.model_fields if name not in ("limit", "cursor")
    }
    filters: dict[str, str | datetime] = {
        name: value.value if isinstance(value, StrEnum) else value
        for name, value in given.items()
        if value is not None
    }
    reads = asking.services.verification.executions
    return await reads.page(asking.caller, filters, asked.limit, asked.cursor)


async def _result(asking: Asking, asked: ExecutionOf) -> dict[str, Any]:
    return await asking.services.verification.executions.status(asking.caller, asked.execution_id)


TOOLS: Final = {
    tool.name: tool
    for tool in (
        Tool(
            "cards.list",
            "One page of Cards, by kind, space, name and version; next_cursor leads to the next one.",
            ListQuery,
            _cards_list,
        ),
        Tool(
            "cards.get",
            "One Card with its uid, spec and relationships: an exact version, or the latest.",
            CardsGet,
            _cards_get,
        ),
        Tool(
            "verification.executions",
            "One page of verifications, the newest first, with their verdicts.",
            Executions,
            _executions,
        ),
        Tool(
            "verification.result",
            "One verification: its status and, once it has ended, its verdict with every requirement,"
            " reason, citation and step.",
            ExecutionOf,
            _result,
        ),
    )
}
"""Every tool by name. None of them writes."""
