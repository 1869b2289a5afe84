"""Binary Variants: read exactly, and bounded whatever the bytes say."""

from __future__ import annotations

import json
import struct
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wyrd.errors import Code, WyrdError
from wyrd.wire.arrow_batches import fitted_batch
from wyrd.wire.bifrost import FieldSpec, NestedType
from wyrd.wire.parquet_variants import ENCODED, decoded_variants, encoded_variant, is_encoded
from wyrd.wire.row_faults import Place


def names_of(value: Any) -> list[str]:
    if isinstance(value, dict):
        return sorted({*value, *(name for item in value.values() for name in names_of(item))})
    if isinstance(value, list):
        return sorted({name for item in value for name in names_of(item)})
    return []


def encoded(value: Any) -> dict[str, bytes]:
    """A value as an encoder writes it, with offsets of four bytes throughout."""
    names = names_of(value)
    texts = [name.encode() for name in names]
    starts = [sum(map(len, texts[:number])) for number in range(len(texts) + 1)]
    metadata = bytes([1 | 3 << 6]) + b"".join(struct.pack("<I", one) for one in [len(names), *starts])
    return {"metadata": metadata + b"".join(texts), "value": part(value, names)}


def part(value: Any, names: list[str]) -> bytes:
    if value is None or isinstance(value, bool):
        return bytes([{None: 0, True: 1, False: 2}[value] << 2])
    if isinstance(value, int):
        return bytes([6 << 2]) + struct.pack("<q", value)
    if isinstance(value, float):
        return bytes([7 << 2]) + struct.pack("<d", value)
    if isinstance(value, str):
        data = value.encode()
        if len(data) < 64:
            return bytes([1 | len(data) << 2]) + data
        return bytes([16 << 2]) + struct.pack("<I", len(data)) + data
    parts = [part(item, names) for item in (value.values() if isinstance(value, dict) else value)]
    offsets = [sum(map(len, parts[:number])) for number in range(len(parts) + 1)]
    tail = b"".join(struct.pack("<I", one) for one in offsets) + b"".join(parts)
    if isinstance(value, list):
        return bytes([3 | (3 | 1 << 2) << 2]) + struct.pack("<I", len(parts)) + tail
    idents = b"".join(struct.pack("<I", names.index(name)) for name in value)
    return bytes([2 | (3 | 3 << 2 | 1 << 4) << 2]) + struct.pack("<I", len(parts)) + idents + tail


def decoded(*values: dict[str, bytes] | None) -> list[Any]:
    texts = decoded_variants(pa.array(values, ENCODED), Place("extra")).to_pylist()
    return [None if text is None else json.loads(text) for text in texts]


def refused(value: dict[str, bytes]) -> WyrdError:
    with pytest.raises(WyrdError) as caught:
        decoded(value)
    return caught.value


def read_or_refused(value: dict[str, bytes]) -> bool:
    try:
        decoded(value)
    except WyrdError as error:
        return error.code.startswith("WYRD_VALA_4")
    return True


TEXT = st.text(st.characters(codec="utf-8"), max_size=80)
NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXT, inner, max_size=5),
    max_leaves=20,
)


@given(JSON)
def test_what_is_encoded_is_read_as_it_was(value: Any) -> None:
    assert decoded(encoded(value)) == [value]


@given(JSON)
def test_what_we_write_is_read_as_it_was(value: Any) -> None:
    assert decoded(encoded_variant(value)) == [value]


@given(st.binary(max_size=64), st.binary(max_size=64))
def test_any_bytes_are_read_or_refused(metadata: bytes, value: bytes) -> None:
    assert read_or_refused({"metadata": metadata, "value": value})


@given(JSON, st.integers(0, 10_000), st.integers(0, 255))
def test_one_wrong_byte_is_read_or_refused(value: Any, at: int, byte: int) -> None:
    whole = encoded(value)
    data = bytearray(whole["value"])
    data[at % len(data)] = byte
    assert read_or_refused({**whole, "value": bytes(data)})


@pytest.mark.parametrize(
    ("metadata", "value", "expected"),
    [
        ("11020001027879", "020100001003030002040a0c010c02020101000100", {"x": [1, 2, {"y": None}]}),
        (
            "1105000304070809626967666e65677374",
            "02050001020304000912176c6d18ffffffffffffff7f1c000000000000f83f1490eefeff4050000000"
            + "c3a9" * 40
            + "04",
            {"big": 2**63 - 1, "f": 1.5, "neg": -70000, "s": "é" * 40, "t": True},
        ),
        (
            "010000",
            "030400091b24261c9c7500883ce4377e2800d20a1feb8ca954ab00000000000000001c9a9999999999b93f0561",
            [1e300, 12345678901234567890, 0.1, "a"],
        ),
    ],
    ids=["nested", "numbers", "beyond 64 bits"],
)
def test_the_bytes_of_the_published_client_are_read(metadata: str, value: str, expected: Any) -> None:
    """As version 0.3.0 sent them."""
    assert decoded({"metadata": bytes.fromhex(metadata), "value": bytes.fromhex(value)}) == [expected]


@pytest.mark.parametrize(
    ("kind", "width", "unscaled", "scale", "expected"),
    [(8, 4, 125, 2, 1.25), (9, 8, -(10**15), 0, -(10**15)), (10, 16, 10**30, 10, 10**20)],
)
def test_decimals_are_numbers_where_they_are_exact(
    kind: int, width: int, unscaled: int, scale: int, expected: float
) -> None:
    value = bytes([kind << 2, scale]) + unscaled.to_bytes(width, "little", signed=True)
    assert decoded({"metadata": b"\x01\x00\x00", "value": value}) == [expected]


def test_a_decimal_that_no_number_of_json_holds_is_refused() -> None:
    digits = int(Decimal("0.1234567890123456789012").scaleb(22))
    value = bytes([10 << 2, 22]) + digits.to_bytes(16, "little", signed=True)
    assert "would lose digits" in refused({"metadata": b"\x01\x00\x00", "value": value}).detail


@pytest.mark.parametrize("kind", [11, 12, 15, 20, 63])
def test_what_json_has_not_is_refused_by_name(kind: int) -> None:
    error = refused({"metadata": b"\x01\x00\x00", "value": bytes([kind << 2]) + b"\0" * 20})
    assert error.code == Code.VALA_400_VARIANT_INVALID_JSON.value
    assert error.details["row"] == 0
    assert "JSON has not" in error.detail


def test_parts_that_show_the_same_bytes_again_are_refused() -> None:
    """Sixty lists, each of two that are the same one: 2^60 values in 500 bytes."""
    value = b"\x00"
    for _ in range(60):
        value = bytes([3, 2, 0, 0, len(value) & 255]) + value
    error = refused({"metadata": b"\x01\x00\x00", "value": value})
    assert "lie over each other" in error.detail


def test_long_names_used_again_and_again_are_bounded() -> None:
    name = "n" * 60_000
    error = refused(encoded([{name: 1}] * 200))
    assert error.code in (Code.VALA_400_VARIANT_INVALID_JSON.value, Code.VALA_413_VARIANT_TOO_LARGE.value)


@pytest.mark.parametrize("depth", [64, 65, 5_000])
def test_the_depth_is_that_of_every_variant(depth: int) -> None:
    # From the inside out: an encoder that recurses would not get so deep.
    value = b"\x00"
    for _ in range(depth):
        value = bytes([3 | 3 << 2, 1]) + struct.pack("<II", 0, len(value)) + value
    whole = {"metadata": b"\x01\x00\x00", "value": value}
    if depth == 64:
        assert len(decoded(whole)) == 1
    else:
        assert refused(whole).code == Code.VALA_400_VARIANT_TOO_DEEP.value


def test_a_batch_may_bring_them_anywhere_a_variant_may_stand() -> None:
    inner = FieldSpec(name="item", data_type="Variant", nullable=True)
    fields = [
        FieldSpec(name="extra", data_type="Variant", nullable=True),
        FieldSpec(name="more", data_type=NestedType(List=inner), nullable=True),
    ]
    values = [encoded({"a": 1}), None]
    batch = pa.record_batch(
        {
            "extra": pa.array(values, ENCODED),
            "more": pa.array([[encoded([True])], []], pa.list_(ENCODED)),
        }
    )
    fitted = fitted_batch(fields, batch)
    assert fitted.column("extra").to_pylist() == ['{"a":1}', None]
    assert fitted.column("more").to_pylist() == [["[true]"], []]


def test_only_structs_of_these_two_columns_are_taken_for_variants() -> None:
    assert is_encoded(ENCODED)
    for other in (
        pa.string(),
        pa.struct([pa.field("metadata", pa.binary())]),
        pa.struct([pa.field("metadata", pa.string()), pa.field("value", pa.binary())]),
        pa.struct([pa.field("meta", pa.binary()), pa.field("value", pa.binary())]),
    ):
        assert not is_encoded(other)
