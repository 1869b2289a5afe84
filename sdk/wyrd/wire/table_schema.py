"""What a table's columns may be, and how a JSON Schema says them.

Needs no Arrow library: the client and the rules of Cards check schemas with it alone. The types
that tables hold are in `checked_fields`; how they are stored is `wyrd.wire.arrow_fields`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from wyrd.errors import Code, WyrdError
from wyrd.wire.bifrost import DataType, FieldSpec, NestedType, TimestampType
from wyrd.wire.table_names import RESERVED_COLUMNS as RESERVED_COLUMNS
from wyrd.wire.table_names import is_reserved
from wyrd.wire.table_names import is_table_name as is_table_name

MAX_COLUMNS: Final = 500
MAX_FIELDS: Final = 2000
"""Columns of a table with everything nested in them."""
MAX_NESTING: Final = 16

TIMESTAMP_UTC: Final = NestedType(Timestamp=TimestampType(unit="Microsecond", tz="+00:00"))

_MEMBER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
_UNSUPPORTED = ("UInt64",)

_PLAIN: Mapping[str, DataType] = {
    "integer": "Int64",
    "number": "Float64",
    "boolean": "Bool",
    "string": "Utf8",
}
_FORMATS: Mapping[str, DataType] = {"date-time": TIMESTAMP_UTC, "date": "Date32"}


def type_name(data_type: DataType) -> str:
    """The type's own name, without its parameters: `Utf8`, `List`."""
    if isinstance(data_type, str):
        return data_type
    return next(iter(data_type.document()), "")


def bad_schema(detail: str) -> WyrdError:
    """`WYRD_VALA_400_SCHEMA_PARSE` with `details.detail`."""
    return WyrdError(Code.VALA_400_SCHEMA_PARSE, detail, detail=detail)


def canonical_fields(fields: Iterable[FieldSpec]) -> list[dict[str, Any]]:
    """What two equal tables agree on: columns by name, without metadata, spelling or order.

    Types that are stored alike (text of either width, say) are one.
    """
    return sorted((_canonical(field) for field in fields), key=lambda one: str(one["name"]))


_STORED_ALIKE = {"LargeUtf8": "Utf8", "LargeBinary": "Binary", "Date64": "Date32"}


def _canonical(field: FieldSpec, name: str | None = None) -> dict[str, Any]:
    return {
        "name": name or field.name,
        "type": _canonical_type(field.data_type),
        "nullable": field.nullable,
    }


def _canonical_type(data_type: DataType) -> Any:
    if isinstance(data_type, str):
        return _STORED_ALIKE.get(data_type, data_type)
    if data_type.List is not None:
        return {"List": _canonical(data_type.List, "item")}
    if data_type.Struct is not None:
        return {"Struct": [_canonical(member) for member in data_type.Struct]}
    if data_type.Map is not None:
        return {"Map": _canonical(data_type.Map.value, "value")}
    if data_type.Timestamp is not None:
        return {"Timestamp": "zoned" if data_type.Timestamp.tz is not None else "plain"}
    if data_type.Time32 is not None or data_type.Time64 is not None:
        return "Time"
    return data_type.document()


def checked_fields(fields: Sequence[FieldSpec]) -> None:
    """Refuse columns that a table cannot have.

    Raises `WYRD_VALA_400_SCHEMA_PARSE` (bad or repeated names, no columns, too many, too deep),
    `WYRD_VALA_400_BIFROST_RESERVED_COLUMN`, `WYRD_VALA_400_BIFROST_UNSUPPORTED_TYPE`.
    """
    if not fields:
        raise bad_schema("a table has at least one column")
    if len(fields) > MAX_COLUMNS:
        raise bad_schema(f"a table has at most {MAX_COLUMNS} columns, not {len(fields)}")
    seen: set[str] = set()
    for field in fields:
        if is_reserved(field.name):
            raise WyrdError(
                Code.VALA_400_BIFROST_RESERVED_COLUMN,
                f"the column {field.name[:80]} is reserved: Wyrd writes it",
                column=field.name[:80],
            )
        if not is_table_name(field.name):
            raise bad_schema(
                f"{field.name[:80]!r} is not a column name: 1 to 63 of a-z, 0-9 and _, a letter first"
            )
        if field.name in seen:
            raise bad_schema(f"the column {field.name} is there twice")
        seen.add(field.name)
    total = sum(_checked_type(field.data_type, field.name, 1) for field in fields)
    if total > MAX_FIELDS:
        raise bad_schema(f"a table has at most {MAX_FIELDS} fields with all that is nested, not {total}")


def _checked_type(data_type: DataType, at: str, depth: int) -> int:
    """Raises for a type that tables cannot hold; how many fields it is."""
    if depth > MAX_NESTING:
        raise bad_schema(f"{at[:200]} is nested deeper than {MAX_NESTING}")
    if isinstance(data_type, str):
        if data_type in _UNSUPPORTED:
            raise _unsupported(at, data_type)
        return 1
    kinds = list(data_type.document())
    if len(kinds) != 1:
        raise bad_schema(f"the type of {at[:200]} is an object of exactly one key")
    if data_type.List is not None:
        return 1 + _checked_type(data_type.List.data_type, f"{at}[]", depth + 1)
    if data_type.Struct is not None:
        return 1 + _checked_members(data_type.Struct, at, depth)
    if data_type.Map is not None:
        if data_type.Map.key.data_type not in ("Utf8", "LargeUtf8") or data_type.Map.key.nullable:
            raise _unsupported(at, "Map with keys that are not text")
        return 2 + _checked_type(data_type.Map.value.data_type, f"{at}{{}}", depth + 1)
    _checked_parameters(data_type, at)
    return 1


def _checked_members(members: Sequence[FieldSpec], at: str, depth: int) -> int:
    if not members:
        raise bad_schema(f"{at[:200]} is a struct without members")
    seen: set[str] = set()
    for member in members:
        if _MEMBER.fullmatch(member.name) is None:
            raise bad_schema(
                f"{member.name[:80]!r} in {at[:200]} is not a member name: "
                "1 to 63 of letters, digits and _, no digit first"
            )
        # SQL does not tell letter cases apart, so two members must differ in more than that.
        if member.name.lower() in seen:
            raise bad_schema(f"{at[:200]} has the member {member.name} twice")
        seen.add(member.name.lower())
    return sum(_checked_type(member.data_type, f"{at}.{member.name}", depth + 1) for member in members)


def _checked_parameters(data_type: NestedType, at: str) -> None:
    time_unit = next(
        (one.unit for one in (data_type.Timestamp, data_type.Time32, data_type.Time64) if one), None
    )
    if time_unit == "Nanosecond":
        raise _unsupported(at, f"{type_name(data_type)}(Nanosecond)")
    if data_type.Time32 is not None and time_unit == "Microsecond":
        raise _unsupported(at, "Time32(Microsecond)")
    if data_type.Time64 is not None and time_unit != "Microsecond":
        raise _unsupported(at, f"Time64({time_unit})")
    if data_type.FixedSizeBinary is not None and not 1 <= data_type.FixedSizeBinary.len <= 65536:
        raise bad_schema(f"{at[:200]}: a fixed binary has 1 to 65536 bytes")
    decimal = data_type.Decimal128
    if decimal is not None and not (1 <= decimal.precision <= 38 and 0 <= decimal.scale <= decimal.precision):
        raise bad_schema(f"{at[:200]}: a decimal has 1 to 38 digits, and no more of them after the point")


def _unsupported(at: str, found: str) -> WyrdError:
    return WyrdError(
        Code.VALA_400_BIFROST_UNSUPPORTED_TYPE,
        f"{at[:200]} has the type {found}, which tables cannot hold",
        field=at[:200],
        data_type=found,
    )


def fields_of_json_schema(schema: Mapping[str, Any]) -> list[FieldSpec]:
    """The columns that the JSON Schema of an object describes, checked by `checked_fields`.

    text → Utf8 (format date-time → Timestamp in UTC, date → Date32), integer → Int64, number →
    Float64, boolean → Bool, an object with properties → Struct, a typed array → List, anything
    open or mixed → Variant. A column is nullable unless it is required and its schema takes no
    null. References within the document are followed, unless they come back to themselves.

    Raises what `checked_fields` raises; `WYRD_VALA_400_SCHEMA_PARSE` for what is not such a schema.
    """
    if not isinstance(schema, Mapping):
        raise bad_schema("a table's schema is a JSON object")
    fields = _Reader(schema).columns()
    checked_fields(fields)
    return fields


_KEYWORDS_OF_ALTERNATIVES = ("anyOf", "oneOf")
_JSON_TYPES = frozenset(["string", "integer", "number", "boolean", "object", "array", "null"])

_Read = tuple[DataType, bool]
"""A type, and whether null is one of its values."""
_ANYTHING: _Read = ("Variant", True)


class _Reader:
    """Reads one schema document."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.document = document
        self.left = MAX_FIELDS
        self.depth = 0

    def columns(self) -> list[FieldSpec]:
        root, open_ = self._followed(self.document, "schema", ())
        properties = root.get("properties")
        if root.get("type") != "object":
            raise bad_schema("a table's schema has type: object")
        if not isinstance(properties, Mapping) or not properties:
            raise bad_schema("a table's schema names its columns under properties")
        return self._members(root, properties, "schema", open_)

    def _members(
        self, schema: Mapping[str, Any], properties: Mapping[Any, Any], at: str, open_: tuple[str, ...]
    ) -> list[FieldSpec]:
        required = schema.get("required", [])
        if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
            raise bad_schema(f"{at}.required is a list of names")
        found = []
        for name, member in properties.items():
            if not isinstance(name, str):
                raise bad_schema(f"{at}.properties has a name that is not text")
            data_type, takes_null = self._read(member, f"{at}.properties.{name[:80]}", open_)
            found.append(
                FieldSpec(name=name, data_type=data_type, nullable=takes_null or name not in required)
            )
        return found

    def _read(self, schema: Any, at: str, open_: tuple[str, ...]) -> _Read:
        self.left -= 1
        if self.left < 0:
            raise bad_schema(f"a table has at most {MAX_FIELDS} fields with all that is nested")
        if schema is True:
            return _ANYTHING
        if not isinstance(schema, Mapping):
            raise bad_schema(f"{at} is not a schema of a value")
        if self.depth >= 2 * MAX_NESTING:
            raise bad_schema(f"{at[:200]} is nested too deeply")
        schema, open_ = self._followed(schema, at, open_)
        self.depth += 1
        read = self._read_followed(schema, at, open_)
        self.depth -= 1
        return read

    def _read_followed(self, schema: Mapping[str, Any], at: str, open_: tuple[str, ...]) -> _Read:
        for keyword in _KEYWORDS_OF_ALTERNATIVES:
            if keyword in schema:
                return self._alternatives(schema[keyword], f"{at}.{keyword}", open_)
        if "allOf" in schema:
            parts = schema["allOf"]
            if not isinstance(parts, list) or not parts:
                raise bad_schema(f"{at}.allOf is a list of schemas")
            if len(parts) == 1 and "type" not in schema:
                return self._read(parts[0], f"{at}.allOf[0]", open_)
            return _ANYTHING
        types, takes_null = self._types(schema, at)
        if not types:
            return _ANYTHING if "type" not in schema and not takes_null else ("Variant", takes_null)
        if len(types) > 1:
            return "Variant", takes_null
        return self._typed(next(iter(types)), schema, at, open_), takes_null

    def _alternatives(self, options: Any, at: str, open_: tuple[str, ...]) -> _Read:
        if not isinstance(options, list) or not options:
            raise bad_schema(f"{at} is a list of schemas")
        takes_null = False
        others: list[_Read] = []
        for index, option in enumerate(options):
            if isinstance(option, Mapping) and option.get("type") == "null":
                takes_null = True
            else:
                others.append(self._read(option, f"{at}[{index}]", open_))
        takes_null = takes_null or any(null for _, null in others)
        if not others:
            return "Variant", True
        first = others[0][0]
        return (first if all(other == first for other, _ in others) else "Variant"), takes_null

    def _types(self, schema: Mapping[str, Any], at: str) -> tuple[set[str], bool]:
        """The types a schema takes but null, and whether it takes null; none says anything goes."""
        given = schema.get("type")
        found: set[str] = set()
        if given is None:
            if "const" in schema:
                found = {_type_of(schema["const"])}
            elif isinstance(schema.get("enum"), list) and schema["enum"]:
                found = {_type_of(value) for value in schema["enum"]}
            elif isinstance(schema.get("properties"), Mapping):
                found = {"object"}
            else:
                return set(), False
        elif isinstance(given, str):
            found = {given}
        elif isinstance(given, list) and all(isinstance(one, str) for one in given):
            found = set(given)
        unknown = [one for one in found if one not in _JSON_TYPES]
        if unknown or not found:
            raise bad_schema(f"{at}.type is one of {', '.join(sorted(_JSON_TYPES))}, or a list of them")
        return found - {"null"}, "null" in found

    def _typed(self, json_type: str, schema: Mapping[str, Any], at: str, open_: tuple[str, ...]) -> DataType:
        if json_type == "string":
            format_ = schema.get("format")
            return _FORMATS.get(format_, "Utf8") if isinstance(format_, str) else "Utf8"
        if json_type == "array":
            return self._list(schema, at, open_)
        if json_type == "object":
            return self._struct(schema, at, open_)
        return _PLAIN[json_type]

    def _list(self, schema: Mapping[str, Any], at: str, open_: tuple[str, ...]) -> DataType:
        items = schema.get("items")
        if "prefixItems" in schema or items in (None, True, {}):
            return "Variant"
        if isinstance(items, list):
            return "Variant"
        data_type, takes_null = self._read(items, f"{at}.items", open_)
        if data_type == "Variant":
            return "Variant"
        return NestedType(List=FieldSpec(name="item", data_type=data_type, nullable=takes_null))

    def _struct(self, schema: Mapping[str, Any], at: str, open_: tuple[str, ...]) -> DataType:
        properties = schema.get("properties")
        if properties is not None and not isinstance(properties, Mapping):
            raise bad_schema(f"{at}.properties is an object of schemas")
        more = schema.get("additionalProperties", False)
        if not properties or more is not False or "patternProperties" in schema:
            return "Variant"
        return NestedType(Struct=self._members(schema, properties, at, open_))

    def _followed(
        self, schema: Mapping[str, Any], at: str, open_: tuple[str, ...]
    ) -> tuple[Mapping[str, Any], tuple[str, ...]]:
        """The schema that a chain of references ends at; `open_` are those that led here."""
        while "$ref" in schema:
            reference = schema["$ref"]
            if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
                raise bad_schema(f"{at}.$ref must point into the same schema, such as #/$defs/Name")
            if reference in open_ or reference == "#":
                raise bad_schema(f"{at} refers to itself through {reference[:200]}; tables do not recurse")
            open_ = (*open_, reference)
            schema = self._at(reference, at)
        return schema, open_

    def _at(self, reference: str, at: str) -> Mapping[str, Any]:
        found: Any = self.document
        for part in reference[2:].split("/"):
            name = part.replace("~1", "/").replace("~0", "~")
            found = found.get(name) if isinstance(found, Mapping) else None
        if not isinstance(found, Mapping):
            raise bad_schema(f"{at}.$ref: there is no schema at {reference[:200]}")
        return found


def _type_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"
