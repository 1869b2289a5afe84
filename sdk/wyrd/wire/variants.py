"""Free-form values of a column: any JSON, kept as JSON text."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from types import NoneType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from wyrd.errors import Code, WyrdError
from wyrd.wire.canonical import JsonFault, JsonRefused, strict_loads
from wyrd.wire.row_faults import Place, bad_variant

_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_SHALLOW = frozenset([str, int, bool, NoneType])


def variant_array(values: Sequence[Any], place: Place) -> pa.Array:
    """JSON values as text; None stays null.

    Raises `WYRD_VALA_400_VARIANT_INVALID_JSON` (field, row, path), `…_TOO_DEEP` (and depth,
    limit), `WYRD_VALA_413_VARIANT_TOO_LARGE` (field, row, bytes, limit).
    """
    if not set(map(type, values)) <= _SHALLOW:
        for index, value in enumerate(values):
            _check(value, place, index)
    encode = _ENCODER.encode
    try:
        texts = pa.array([None if value is None else encode(value) for value in values], pa.string())
    except (TypeError, ValueError):
        raise _culprit(values, place) from None
    _checked_sizes(texts, place)
    return texts


def checked_variant_texts(texts: pa.Array, place: Place) -> None:
    """Refuse text that is not JSON as `variant_array` takes it. `texts` is an array of strings."""
    _checked_sizes(texts, place)
    for index, text in enumerate(texts.to_pylist()):
        if text is None:
            continue
        try:
            # What is nested deeper than that is refused as such below, if the parser gets that far.
            value = strict_loads(text, max_depth=4 * place.limits.depth)
        except JsonRefused as refused:
            if refused.fault is JsonFault.LIMIT and "nested" in refused.reason:
                raise _too_deep(place, index, "", 4 * place.limits.depth) from None
            raise _not_json(place, index, refused.pointer, refused.reason) from None
        _check(value, place, index)


def _check(value: Any, place: Place, index: int) -> None:
    """Walk a value that the encoder would take too much of: keys that are not text, any depth."""
    if not isinstance(value, dict | list | tuple | float):
        return
    level: list[tuple[str, Any]] = [("", value)]
    depth = 0
    while level:
        nested: list[tuple[str, Any]] = []
        deeper = False
        for path, item in level:
            if isinstance(item, dict):
                deeper = True
                for key, member in item.items():
                    if not isinstance(key, str):
                        raise _not_json(place, index, path, "a key that is not text")
                    if isinstance(member, dict | list | tuple | float):
                        nested.append((f"{path}/{key}", member))
            elif isinstance(item, list | tuple):
                deeper = True
                nested.extend(
                    (f"{path}/{position}", member)
                    for position, member in enumerate(item)
                    if isinstance(member, dict | list | tuple | float)
                )
            elif not math.isfinite(item):
                raise _not_json(place, index, path, "a number that is not finite")
        depth += deeper
        if depth > place.limits.depth:
            raise _too_deep(place, index, next(path for path, item in level if item is not None), depth)
        level = nested


def _culprit(values: Sequence[Any], place: Place) -> WyrdError:
    for index, value in enumerate(values):
        try:
            _ENCODER.encode(value).encode("utf-8")
        except (TypeError, ValueError) as error:
            why = "half of a surrogate pair" if isinstance(error, UnicodeError) else str(error)[:200]
            return _not_json(place, index, "", why)
    return _not_json(place, 0, "", "values that cannot be written as JSON")


def _checked_sizes(texts: pa.Array, place: Place) -> None:
    sizes = pc.binary_length(texts)
    most = pc.max(sizes).as_py()
    if most is not None and most > place.limits.bytes:
        raise bad_variant(
            place,
            pc.index(sizes, most).as_py(),
            Code.VALA_413_VARIANT_TOO_LARGE,
            f"has {most} bytes of JSON, and at most {place.limits.bytes} are taken",
            bytes=most,
            limit=place.limits.bytes,
        )


def _too_deep(place: Place, index: int, path: str, depth: int) -> WyrdError:
    return bad_variant(
        place,
        index,
        Code.VALA_400_VARIANT_TOO_DEEP,
        f"is nested deeper than {place.limits.depth}",
        path=path[:200],
        depth=depth,
        limit=place.limits.depth,
    )


def _not_json(place: Place, index: int, path: str, why: str) -> WyrdError:
    return bad_variant(
        place, index, Code.VALA_400_VARIANT_INVALID_JSON, f"is not JSON: {why}", path=path[:200]
    )
