"""Tables of Bifrost: what one is declared as, and the calls that register, list and describe them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from pydantic import TypeAdapter, ValidationError

from wyrd._client.calls import Call
from wyrd._client.flow import Flow
from wyrd.errors import Code, WyrdError
from wyrd.wire.bifrost import (
    FieldSpec,
    PhysicalLayout,
    RegisterTable,
    TableDescription,
    TableEntry,
    TableRegistered,
)

if TYPE_CHECKING:
    import pyarrow

DATASETS = "vala.datasets"

_ENTRIES = TypeAdapter(list[TableEntry])


def split_name(table: object) -> tuple[str, str]:
    """Namespace and name of `<namespace>.<name>` (VALA_400_SCHEMA_PARSE otherwise)."""
    namespace, dot, name = table.rpartition(".") if isinstance(table, str) else ("", "", "")
    if not dot or not namespace or not name:
        detail = f"{str(table)[:120]!r} is not of the form namespace.name"
        raise WyrdError(Code.VALA_400_SCHEMA_PARSE, detail, detail=detail)
    return namespace, name


def table_path(namespace: str, name: str, tail: str = "") -> str:
    return f"/v1/bifrost/tables/{quote(namespace, safe='')}/{quote(name, safe='')}{tail}"


def listing(server_url: str) -> Flow[list[dict[str, Any]]]:
    """The entries of every table the caller may read, as the server sent them."""
    value = yield from Call("GET", "/v1/bifrost/tables").value(server_url)
    try:
        _ENTRIES.validate_python(value)
    except ValidationError:
        raise WyrdError(Code.SPEC_502_UPSTREAM_FAILURE, "the server's answer is no list of tables") from None
    found: list[dict[str, Any]] = value
    return found


def describe(server_url: str, namespace: str, name: str) -> Flow[TableDescription]:
    """One table's columns and layout. VALA_404_BIFROST_TABLE_NOT_FOUND."""
    return (yield from Call("GET", table_path(namespace, name)).model(server_url, TableDescription))


def description(server_url: str, namespace: str, name: str) -> Flow[dict[str, Any]]:
    """The same as plain data."""
    found = yield from describe(server_url, namespace, name)
    return found.model_dump(mode="json", exclude_none=True)


def register(server_url: str, config: TableConfig) -> Flow[str]:
    """Create a table; `created` or `already_exists`. The configuration is resolved then."""
    answer = yield from Call(
        "POST", "/v1/bifrost/tables", json=config._request().model_dump(mode="json", exclude_none=True)
    ).model(server_url, TableRegistered)
    config._resolve(answer.table_uid, answer.fingerprint)
    return "created" if answer.outcome == "Created" else "already_exists"


def configuration(server_url: str, table: str) -> Flow[TableConfig]:
    """The configuration of a registered table, resolved."""
    found = yield from describe(server_url, *split_name(table))
    config = TableConfig._of(table, found.user_fields, found.physical_layout)
    config._resolve(found.entry.table_uid, found.entry.fingerprint)
    return config


class TableConfig:
    """One table: its name, its columns and how it is laid out. Inert until it is registered.

    `TableConfig(Model, "datasets.tickets")` takes the columns of a Pydantic model class,
    `from_json_schema` those of a JSON Schema, `from_arrow` those of an Arrow schema; `describe` asks
    the server. The layout: `partition_granularity` (hour or day) of `time_column`, a timestamp that is
    never null (else the time of arrival); `sort_keys` (`{column, direction, null_order}`);
    `bloom_columns`. Without any of them the server chooses.

    Errors: VALA_400_SCHEMA_PARSE, VALA_400_BIFROST_RESERVED_COLUMN,
    VALA_400_BIFROST_UNSUPPORTED_TYPE, SPEC_400_VALIDATION.
    """

    def __init__(
        self,
        model: type[Any],
        table: str,
        partition_granularity: str | None = None,
        sort_keys: Sequence[Mapping[str, Any]] | None = None,
        bloom_columns: Sequence[str] | None = None,
        time_column: str | None = None,
        compaction_target_file_size_bytes: int | None = None,
        compaction_type: str | None = None,
    ) -> None:
        schema = getattr(model, "model_json_schema", None)
        if not callable(schema):
            detail = f"columns come from a Pydantic model class, not from {model!r:.80}"
            raise WyrdError(Code.VALA_400_SCHEMA_PARSE, detail, detail=detail)
        layout = _layout(partition_granularity, sort_keys, bloom_columns, time_column)
        self._set(table, _fields_of(schema()), layout, compaction_target_file_size_bytes, compaction_type)

    @staticmethod
    def from_json_schema(
        table: str,
        schema: Mapping[str, Any],
        partition_granularity: str | None = None,
        sort_keys: Sequence[Mapping[str, Any]] | None = None,
        bloom_columns: Sequence[str] | None = None,
        time_column: str | None = None,
        compaction_target_file_size_bytes: int | None = None,
        compaction_type: str | None = None,
    ) -> TableConfig:
        """A table with one column a property; those that are `required` are never null."""
        layout = _layout(partition_granularity, sort_keys, bloom_columns, time_column)
        return TableConfig._of(
            table, _fields_of(schema), layout, compaction_target_file_size_bytes, compaction_type
        )

    @staticmethod
    def from_arrow(
        table: str,
        schema: pyarrow.Schema,
        partition_granularity: str | None = None,
        sort_keys: Sequence[Mapping[str, Any]] | None = None,
        bloom_columns: Sequence[str] | None = None,
        time_column: str | None = None,
        compaction_target_file_size_bytes: int | None = None,
        compaction_type: str | None = None,
    ) -> TableConfig:
        """A table with the columns of an Arrow schema, for types that JSON Schema has no word for."""
        from wyrd.wire.arrow_fields import field_specs
        from wyrd.wire.table_schema import checked_fields

        fields = field_specs(schema)
        checked_fields(fields)
        layout = _layout(partition_granularity, sort_keys, bloom_columns, time_column)
        return TableConfig._of(table, fields, layout, compaction_target_file_size_bytes, compaction_type)

    @staticmethod
    def describe(table: str, client: Any = None) -> TableConfig:
        """A registered table, as the server describes it. Blocks; `client` is a `wyrd.WyrdClient`.

        Errors: VALA_404_BIFROST_TABLE_NOT_FOUND and the server's own.
        """
        from wyrd.client import WyrdClient

        using = client or WyrdClient()
        found: TableConfig = using._run(configuration(using.server_url, table))
        return found

    @classmethod
    def _of(
        cls,
        table: str,
        fields: Sequence[FieldSpec],
        layout: PhysicalLayout | None,
        compaction_target_file_size_bytes: int | None = None,
        compaction_type: str | None = None,
    ) -> TableConfig:
        found = cls.__new__(cls)
        found._set(table, fields, layout, compaction_target_file_size_bytes, compaction_type)
        return found

    def _set(
        self,
        table: str,
        fields: Sequence[FieldSpec],
        layout: PhysicalLayout | None,
        target: int | None,
        compaction_type: str | None,
    ) -> None:
        self._fields = tuple(fields)
        self._resolved: dict[str, str] | None = None
        namespace, name = split_name(table)
        try:
            self._body = RegisterTable(
                namespace=namespace,
                name=name,
                fields=list(fields),
                physical_layout=layout,
                compaction_target_file_size_bytes=target,
                compaction_type=compaction_type,
            )
        except ValidationError as error:
            raise _invalid(error) from None

    def _request(self) -> RegisterTable:
        return self._body

    def _resolve(self, table_uid: str, fingerprint: str) -> None:
        self._resolved = {"table_uid": table_uid, "fingerprint": fingerprint}

    @property
    def fqn(self) -> str:
        """The `namespace.name` this is about."""
        return f"{self._body.namespace}.{self._body.name}"

    @property
    def arrow_schema(self) -> pyarrow.Schema:
        """The table's own columns, in the types in which they are stored."""
        from wyrd.wire.arrow_fields import arrow_schema

        return arrow_schema(self._fields)

    @property
    def compaction_target_file_size_bytes(self) -> int | None:
        return self._body.compaction_target_file_size_bytes

    @property
    def compaction_type(self) -> str | None:
        return self._body.compaction_type

    @property
    def resolved(self) -> dict[str, str] | None:
        """`table_uid` and `fingerprint` as the server gave them; None before that."""
        return None if self._resolved is None else dict(self._resolved)

    def __repr__(self) -> str:
        return f"TableConfig({self.fqn!r})"


def _fields_of(schema: Mapping[str, Any]) -> list[FieldSpec]:
    from wyrd.wire.table_schema import fields_of_json_schema

    return fields_of_json_schema(schema)


def _layout(
    granularity: str | None,
    sort_keys: Sequence[Mapping[str, Any]] | None,
    bloom_columns: Sequence[str] | None,
    time_column: str | None,
) -> PhysicalLayout | None:
    if granularity is None and sort_keys is None and bloom_columns is None and time_column is None:
        return None
    try:
        return PhysicalLayout.model_validate(
            {
                # A layout always says its granularity; this is what the published client says.
                "partition_granularity": granularity or "hour",
                "time_column": time_column,
                "sort_keys": [dict(key) for key in sort_keys or ()],
                "bloom_columns": list(bloom_columns or ()),
            }
        )
    except ValidationError as error:
        raise _invalid(error) from None


def _invalid(error: ValidationError) -> WyrdError:
    first = error.errors(include_url=False, include_context=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    return WyrdError(Code.SPEC_400_VALIDATION, f"{place}: {first['msg']}", field=place)
