"""Rows as they are queued: copied at the call, checked, with whose they are."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from tests.sdk.test_recorder import _Word
from wyrd import Code, WyrdError
from wyrd._client.rows import snapshot, stamped


@dataclasses.dataclass
class _Point:
    x: int
    y: float


class _Model(BaseModel):
    at: datetime
    inner: list[int]


class TestSnapshots:
    def test_later_changes_do_not_reach_it(self) -> None:
        row: dict[str, Any] = {"a": 1, "deep": {"list": [1, {"b": 2}]}}
        taken, _ = snapshot(row)
        row["a"] = 2
        row["deep"]["list"][1]["b"] = 3
        row["deep"]["list"].append(4)
        assert taken == {"a": 1, "deep": {"list": [1, {"b": 2}]}}

    def test_values_become_what_json_holds(self) -> None:
        moment = datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)
        name = UUID(int=7)
        taken, _ = snapshot(
            {"at": moment, "id": name, "word": _Word.YES, "pair": (1, 2), "point": _Point(1, 2.5)}
        )
        assert taken == {
            "at": "2026-01-02T03:04:05.000006+00:00",
            "id": str(name),
            "word": "yes",
            "pair": [1, 2],
            "point": {"x": 1, "y": 2.5},
        }
        assert type(taken["word"]) is str

    def test_dataclasses_and_models_are_rows(self) -> None:
        assert snapshot(_Point(1, 2.0))[0] == {"x": 1, "y": 2.0}
        found, _ = snapshot(_Model(at=datetime(2026, 1, 1, tzinfo=UTC), inner=[1]))
        assert found == {"at": "2026-01-01T00:00:00Z", "inner": [1]}

    @pytest.mark.parametrize(
        "row",
        [
            {"a": float("nan")},
            {"a": [1, float("inf")]},
            {1: "x"},
            {"a": {2: "x"}},
            {"a": object()},
            {"a": b"bytes"},
            {"a": "\ud800"},
            {"a": ["\ud800"]},
            {"\ud800": 1},
            ["no", "row"],
            "text",
            None,
            _Point,
            _Model,
        ],
    )
    def test_what_is_no_row_is_refused(self, row: Any) -> None:
        with pytest.raises(WyrdError) as refused:
            snapshot(row)
        assert refused.value.member is Code.SPEC_400_VALIDATION
        assert "field" in refused.value.details

    def test_endless_rows_are_refused(self) -> None:
        endless: list[Any] = []
        endless.append(endless)
        with pytest.raises(WyrdError, match="deeper"):
            snapshot({"a": endless})

    @pytest.mark.parametrize("name", ["run_id", "card_uid"])
    def test_whose_it_is_is_not_the_rows_to_say(self, name: str) -> None:
        with pytest.raises(WyrdError) as refused:
            stamped({"a": 1, name: "x"}, "run", "card")
        assert refused.value.member is Code.VALA_400_BIFROST_RESERVED_COLUMN
        assert refused.value.details["column"] == name

    @given(
        st.dictionaries(
            st.text(alphabet=st.characters(codec="utf-8")),
            st.recursive(
                st.none()
                | st.booleans()
                | st.integers()
                | st.floats(allow_nan=False, allow_infinity=False)
                | st.text(alphabet=st.characters(codec="utf-8")),
                lambda inner: (
                    st.lists(inner) | st.dictionaries(st.text(alphabet=st.characters(codec="utf-8")), inner)
                ),
                max_leaves=10,
            ),
        )
    )
    def test_json_is_taken_as_it_is_and_its_size_covers_its_text(self, row: dict[str, Any]) -> None:
        taken, size = snapshot(row)
        assert taken == row
        assert taken is not row
        assert size >= sum(len(value.encode()) for value in row.values() if isinstance(value, str))
