"""A row as it is queued: a snapshot in JSON's own types, with its size. This is the hot path of `record`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import date, datetime, time
from enum import Enum
from typing import Any
from uuid import UUID

from wyrd.errors import Code, WyrdError
from wyrd.wire.canonical import MAX_DEPTH, JsonRefused, strict_loads

_FIXED = frozenset({bool, int, type(None)})
_ROW_BYTES = 16
_CELL_BYTES = 10


def snapshot(row: Any) -> tuple[dict[str, Any], int]:
    """A copy that later changes of the row cannot reach, and its size in bytes, roughly as JSON.

    Takes a mapping with string keys, a dataclass instance or a Pydantic model. Times and UUIDs become
    text. SPEC_400_VALIDATION, naming the field, for anything else and for numbers that are not finite.
    """
    taken = row.copy() if type(row) is dict else _mapping_of(row)
    try:
        names = "".join(taken)
        if not names.isascii():
            names.encode()
        size = _ROW_BYTES + _CELL_BYTES * len(taken)
        for name, value in taken.items():
            kind = type(value)
            if kind is str:
                size += len(value) if value.isascii() else len(value.encode())
            elif kind is float:
                if value - value != 0.0:
                    raise _refused(name, "not a finite number")
            elif kind not in _FIXED:
                # Same keys: a mapping may change its values while it is walked.
                taken[name], more = _deep(value, name, 1)
                size += more
    except TypeError:
        wrong = next((key for key in taken if not isinstance(key, str)), None)
        raise _refused(str(wrong), f"the key {str(wrong)[:40]!r} is not a string") from None
    except UnicodeEncodeError:
        raise _refused(None, "a text holds half of a surrogate pair") from None
    return taken, size


def stamped(
    row: Any, run_id: str | None, card_uid: str | None, *, text: bool = False
) -> tuple[dict[str, Any], int]:
    """The snapshot of a row with the columns that say whose it is. `text` takes a JSON object too.

    VALA_400_BIFROST_RESERVED_COLUMN for a row that holds one of them itself.
    """
    taken, size = snapshot(_object_of(row) if text and type(row) is str else row)
    if "run_id" in taken or "card_uid" in taken:
        name = "run_id" if "run_id" in taken else "card_uid"
        raise WyrdError(
            Code.VALA_400_BIFROST_RESERVED_COLUMN, f"Wyrd fills {name}; a row does not hold it", column=name
        )
    taken["run_id"] = run_id
    taken["card_uid"] = card_uid
    return taken, size


def _object_of(text: str) -> Any:
    try:
        return strict_loads(text)
    except JsonRefused as refused:
        raise _refused(None, f"the row is no JSON object: {refused.reason}") from None


def _mapping_of(row: Any) -> dict[str, Any]:
    if isinstance(row, Mapping):
        return dict(row)
    if dataclasses.is_dataclass(row) and not isinstance(row, type):
        return {field.name: getattr(row, field.name) for field in dataclasses.fields(row)}
    dump = getattr(row, "model_dump", None)
    if callable(dump) and not isinstance(row, type):
        found = dump(mode="json")
        if isinstance(found, dict):
            return found
    raise _refused(
        None, f"a row is a mapping, a dataclass instance or a Pydantic model, not {type(row).__name__}"
    )


def _deep(value: Any, name: str, depth: int) -> tuple[Any, int]:
    """A copy of any JSON value with its size."""
    if depth > MAX_DEPTH:
        raise _refused(name, f"nested deeper than {MAX_DEPTH}")
    if isinstance(value, Enum):
        return _deep(value.value, name, depth)
    if isinstance(value, Mapping):
        found, size = {}, _CELL_BYTES
        for key, item in value.items():
            if not isinstance(key, str):
                raise _refused(name, f"the key {str(key)[:40]!r} is not a string")
            found[key], more = _deep(item, name, depth + 1)
            size += len(key.encode()) + more
        return found, size
    if isinstance(value, list | tuple):
        items, size = [], _CELL_BYTES
        for item in value:
            copy, more = _deep(item, name, depth + 1)
            items.append(copy)
            size += more
        return items, size
    if (dataclasses.is_dataclass(value) and not isinstance(value, type)) or hasattr(value, "model_dump"):
        return _deep(_mapping_of(value), name, depth)
    return _leaf(value, name)


def _leaf(value: Any, name: str) -> tuple[Any, int]:
    if value is None or isinstance(value, bool):
        return value, _CELL_BYTES
    if isinstance(value, str):
        return str(value), _CELL_BYTES + len(value.encode())
    if isinstance(value, int):
        return int(value), _CELL_BYTES
    if isinstance(value, float):
        if value - value != 0.0:
            raise _refused(name, "not a finite number")
        return float(value), _CELL_BYTES
    if isinstance(value, datetime | date | time):
        return value.isoformat(), 40
    if isinstance(value, UUID):
        return str(value), 46
    raise _refused(name, f"{type(value).__name__} is not a JSON value")


def _refused(field: str | None, reason: str) -> WyrdError:
    told = reason if field is None else f"{field[:80]}: {reason}"
    return WyrdError(Code.SPEC_400_VALIDATION, told, field="row" if field is None else field)
