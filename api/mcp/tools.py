"""The tools: what each takes, and which question of the API it asks."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Final

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field, StrictInt, ValidationError
from pydantic.json_schema import GenerateJsonSchema

from api.problems import refused_request
from api.routes.bifrost import described
from api.routes.verification import Instant
from api.services import Services
from bifrost.names import TableName
from bifrost.oracle.question import DEFAULT_BYTES, DEFAULT_ROWS, MAX_BYTES, MAX_ROWS, Question
from bifrost.oracle.rows import collected
from bifrost.tables import Tables
from cards.listing import CardQuery, card_page
from cards.reading import card_by_ref, card_by_uid, latest_card
from store.caller import Caller, Permission
from wyrd.errors import Code, WyrdError
from wyrd.wire.bifrost import QueryParameter
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

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the arguments, which takes no others."""
        found = self.arguments.model_json_schema(schema_generator=_Untitled)
        return {name: part for name, part in found.items() if name not in ("title", "description")}

    async def call(self, asking: Asking, arguments: dict[str, Any] | None) -> dict[str, Any]:
        """Raises `WYRD_SPEC_400_VALIDATION` naming the argument, and whatever the question raises."""
        try:
            asked = self.arguments.model_validate(arguments or {})
        except ValidationError as error:
            found = error.errors(include_url=False)
            raise refused_request(RequestValidationError(found), Code.SPEC_400_VALIDATION) from None
        return await self.answer(asking, asked)


class _Untitled(GenerateJsonSchema):
    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


class CardsOf(_Arguments):
    kind: str | None = Field(None, description="Service, Agent, Verifier, Prompt, Data, Model, …")
    space: str | None = None
    name: str | None = None
    version_range: str | None = Field(None, description="A SemVer range, such as ^1.2")
    status: str | None = Field(
        None, description="active, pending, deprecated, …; left out for all but deleted"
    )
    filter: str | None = Field(
        None, description='Conditions, such as labels.team = "care" and not version < "2.0.0"'
    )
    include_prerelease: bool = False
    limit: Annotated[StrictInt, Field(description="1 to 1000")] = 100
    cursor: str | None = Field(None, max_length=4096, description="next_cursor of the page before")


class CardName(_Arguments):
    """One Card: by uid, by exact version, or without either the latest release of that name."""

    kind: str = Field(description="Service, Agent, Verifier, Prompt, Data, Model, …")
    name: str
    space: str = DEFAULT_SPACE
    version: str | None = Field(None, description="Exact version, such as 1.0.0; left out for the latest.")
    uid: str | None = None


class CardsGet(_Arguments):
    card_ref: CardName


async def _cards_list(asking: Asking, asked: CardsOf) -> dict[str, Any]:
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


class NoArguments(_Arguments):
    pass


class TableOf(_Arguments):
    namespace: str = Field(description="vala.datasets, vala.verification, …")
    name: str


async def _list_tables(asking: Asking, _asked: NoArguments) -> dict[str, Any]:
    caller = asking.caller
    caller.require(Permission.BIFROST_READ)
    tables = await asking.services.database.read(lambda connection: Tables(connection, caller.tenant).all())
    return {"tables": [table.entry.model_dump(mode="json") for table in tables]}


async def _describe_table(asking: Asking, asked: TableOf) -> dict[str, Any]:
    caller, name = asking.caller, TableName.of(asked.namespace, asked.name)
    caller.require(Permission.BIFROST_READ)
    table = await asking.services.database.read(
        lambda connection: Tables(connection, caller.tenant).find(name)
    )
    return described(table).model_dump(mode="json", exclude_none=True)


class Query(_Arguments):
    sql: str = Field(description="One SELECT over tables by their full names, with $1 to $n; at most 64 KiB")
    params: list[QueryParameter] = []
    max_rows: Annotated[StrictInt, Field(ge=1, le=MAX_ROWS)] = DEFAULT_ROWS
    max_bytes: Annotated[StrictInt, Field(ge=1, le=MAX_BYTES)] = DEFAULT_BYTES
    deadline_ms: Annotated[StrictInt, Field(ge=1)] | None = None


async def _query(asking: Asking, asked: Query) -> dict[str, Any]:
    question = Question(
        sql=asked.sql,
        request_id=asking.request_id,
        params=asked.params,
        deadline=None if asked.deadline_ms is None else asked.deadline_ms / 1000,
        max_rows=asked.max_rows,
        max_bytes=asked.max_bytes,
    )
    async with asking.services.bifrost.oracle.ask(asking.caller, question) as answer:
        return (await collected(answer, asked.max_bytes)).model_dump(mode="python")


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
            CardsOf,
            _cards_list,
        ),
        Tool(
            "cards.get",
            "One Card with its uid, spec and relationships: an exact version, or the latest.",
            CardsGet,
            _cards_get,
        ),
        Tool(
            "bifrost.list_tables",
            "Every table there is, by namespace and name.",
            NoArguments,
            _list_tables,
        ),
        Tool(
            "bifrost.describe_table",
            "The columns of one table and their types. Every row also has run_id, card_uid and"
            " wyrd_ingested_at, whatever the table.",
            TableOf,
            _describe_table,
        ),
        Tool(
            "bifrost.query",
            "Rows of one SQL SELECT, published ones and those of the last moments. An answer over"
            " max_rows or max_bytes fails; it is never cut. Join vala.verification.results to your own"
            " tables by run_id.",
            Query,
            _query,
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
