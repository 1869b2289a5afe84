"""What source slots read of a group: aligned lists in order of arrival, or by a key."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.groups import Gathered, Piece, gather
from wyrd.cards import VerifierSpec

SOURCES = {
    "turns": "verifiers.turn-check.inputs.turn",
    "polite": "verifiers.turn-check.requirements.polite.outcome",
    "notes": "verifiers.turn-check.inputs.note",
}


def gathered(
    pieces: Sequence[Piece],
    *,
    inputs: Mapping[str, Any] = SOURCES,
    order_by: str | None = None,
    answers: Sequence[Piece] | None = None,
) -> dict[str, Gathered]:
    check = {"kind": "assert", "path": "inputs.turns", "operator": "is_truthy"}
    document = {
        "inputs": dict(inputs),
        "requirements": [{"id": "some", "statement": "There are turns", "check": check}],
    }
    if order_by is not None:
        document["order_by"] = order_by
    spec = VerifierSpec.model_validate(document)
    return gather(spec, {"turn-check": pieces, **({} if answers is None else {"answer-check": answers})})


def json_piece(execution_id: str, outcome: str | None = None, **values: Any) -> Piece:
    inputs = {slot: {"kind": "json", "value": value} for slot, value in values.items()}
    return Piece(execution_id, inputs, {} if outcome is None else {"polite": outcome})


def order(pieces: Sequence[Piece], order_by: str = "inputs.turns.key") -> list[str]:
    found = gathered(pieces, order_by=order_by)
    assert len({tuple(one.execution_ids) for one in found.values()}) == 1
    return list(found["turns"].execution_ids)


def keyed(name: str, key: Any) -> Piece:
    return json_piece(name, turn={"key": key})


def test_every_slot_over_one_verifier_is_aligned_item_by_item() -> None:
    found = gathered(
        [json_piece("a", "passed", turn=1, note="one"), json_piece("b", turn=2), json_piece("c", "failed")]
    )
    assert {slot: one.value for slot, one in found.items()} == {
        "turns": [1, 2, None],
        "polite": ["passed", None, "failed"],
        "notes": ["one", None, None],
    }
    assert all(one.execution_ids == ["a", "b", "c"] for one in found.values())
    assert {slot: one.reference for slot, one in found.items()} == SOURCES


def test_an_outcome_of_another_requirement_is_not_taken_for_the_one_that_is_read() -> None:
    found = gathered([Piece("a", {}, {"brief": "failed"})])
    assert found["polite"].value == [None]


@pytest.mark.parametrize("outcome", ["passed", "failed", "inconclusive", "not_applicable"])
def test_an_outcome_is_read_as_its_word(outcome: str) -> None:
    assert gathered([json_piece("a", outcome)])["polite"].value == [outcome]


def test_slots_over_different_verifiers_have_lists_of_their_own() -> None:
    inputs = {**SOURCES, "answers": "verifiers.answer-check.inputs.answer"}
    found = gathered(
        [json_piece("a", turn=1), json_piece("b", turn=2)],
        inputs=inputs,
        answers=[json_piece("x", answer="yes")],
    )
    assert (found["turns"].value, found["answers"].value) == ([1, 2], ["yes"])
    assert found["answers"].execution_ids == ["x"]


def test_a_verifier_of_which_there_is_no_evidence_reads_as_an_empty_list() -> None:
    found = gathered([], inputs={**SOURCES, "answers": "verifiers.answer-check.inputs.answer"})
    assert found["answers"] == Gathered("verifiers.answer-check.inputs.answer", [], [])


def test_a_slot_that_is_no_source_is_not_gathered() -> None:
    inputs = {**SOURCES, "policy": {"type": "json", "required": False}}
    assert set(gathered([json_piece("a", turn=1)], inputs=inputs)) == set(SOURCES)


def test_a_trace_is_read_as_its_id_and_a_file_as_its_description_never_its_bytes() -> None:
    file = {"kind": "file", "sha256": "a" * 64, "size_bytes": 3, "format": "text/plain"}
    artifact = {**file, "kind": "artifact", "filename": "a.txt", "card": {"name": "x"}}
    pieces = [
        Piece("a", {"turn": {"kind": "trace", "trace_id": "0" * 31 + "1"}}, {}),
        Piece("b", {"turn": file}, {}),
        Piece("c", {"turn": artifact}, {}),
    ]
    trace, described, stored = gathered(pieces)["turns"].value
    assert trace == "0" * 31 + "1"
    assert described == {**file, "filename": None}
    assert stored == {**file, "filename": "a.txt"}


def test_p12_an_input_that_was_not_kept_is_null_and_an_empty_value_is_itself() -> None:
    redacted = Piece("a", {"turn": {"kind": "json", "value": None}}, {"polite": "passed"})
    found = gathered([redacted, json_piece("b", turn=""), json_piece("c", turn=[])])
    assert found["turns"].value == [None, "", []]
    assert found["polite"].value == ["passed", None, None]


def test_numbers_come_in_their_order_whatever_they_are_written_as() -> None:
    keys = {"a": 10, "b": 9.5, "c": -1, "d": 2**70, "e": 9, "f": 1e300}
    assert order([keyed(name, key) for name, key in keys.items()]) == ["c", "e", "b", "a", "d", "f"]


def test_text_comes_in_the_order_of_its_code_points() -> None:
    keys = {"a": "b", "b": "B", "c": "é", "d": "10", "e": "9", "f": ""}
    assert order([keyed(name, key) for name, key in keys.items()]) == ["f", "d", "e", "b", "a", "c"]


def test_times_as_they_are_written_in_json_come_in_their_order() -> None:
    keys = {"a": "2026-10-01T00:00:00Z", "b": "2026-09-30T23:59:59Z"}
    assert order([keyed(name, key) for name, key in keys.items()]) == ["b", "a"]


def test_a_missing_key_and_a_null_one_come_last_and_stay_in_order_of_arrival() -> None:
    pieces = [
        keyed("null", None),
        json_piece("without", turn={}),
        keyed("three", 3),
        json_piece("absent"),
        json_piece("no-mapping", turn=7),
        keyed("text", "x"),
    ]
    assert order(pieces) == ["three", "text", "null", "without", "absent", "no-mapping"]


def test_kinds_that_do_not_compare_are_kept_apart() -> None:
    pieces = [
        keyed("list", [1]),
        keyed("true", True),
        keyed("text", "a"),
        keyed("one", 1),
        keyed("false", False),
        keyed("mapping", {"b": 1, "a": 2}),
        keyed("none", None),
    ]
    assert order(pieces) == ["one", "text", "false", "true", "list", "mapping", "none"]


def test_ties_stay_in_order_of_arrival() -> None:
    pieces = [keyed("a", 1), keyed("b", 0), keyed("c", 1.0), keyed("d", 0), keyed("e", 1)]
    assert order(pieces) == ["b", "d", "a", "c", "e"]


def test_the_whole_item_or_an_outcome_can_be_the_key() -> None:
    whole = [json_piece("a", turn=2), json_piece("b", turn=1), json_piece("c")]
    assert order(whole, "inputs.turns") == ["b", "a", "c"]
    outcomes = [json_piece("a", "passed"), json_piece("b", "failed"), json_piece("c")]
    assert order(outcomes, "inputs.polite") == ["b", "a", "c"]


def test_a_key_orders_the_slots_of_its_own_verifier_alone() -> None:
    inputs = {**SOURCES, "answers": "verifiers.answer-check.inputs.answer"}
    answers = [json_piece("y", answer={"key": 2}), json_piece("x", answer={"key": 1})]
    found = gathered(
        [keyed("a", 2), keyed("b", 1)],
        inputs=inputs,
        order_by="inputs.turns.key",
        answers=answers,
    )
    assert list(found["turns"].execution_ids) == ["b", "a"]
    assert list(found["answers"].execution_ids) == ["y", "x"]


KEYS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**60), 2**60),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=4),
    st.lists(st.integers(0, 3), max_size=2),
)


@given(st.lists(KEYS, max_size=12), st.randoms(use_true_random=False))
def test_order_by_loses_nothing_and_does_not_depend_on_the_order_of_arrival_where_keys_differ(
    keys: list[Any], dice: random.Random
) -> None:
    pieces = [keyed(f"e{number}", key) for number, key in enumerate(keys)]
    shuffled = list(pieces)
    dice.shuffle(shuffled)
    by_id = {piece.execution_id: piece.inputs["turn"]["value"]["key"] for piece in pieces}
    first, second = order(pieces), order(shuffled)
    assert sorted(first) == sorted(second) == sorted(by_id)
    # Where keys are equal either order is right; the keys themselves come out the same.
    assert [by_id[one] for one in first] == [by_id[one] for one in second]
