"""An agent step's output: the reply itself, or exactly one JSON document that fits its format."""

from __future__ import annotations

from typing import Any

import pytest

from engine.agent_output import output_of
from engine.failure import BlockFailure, ReasonKind

SCHEMA = {
    "type": "object",
    "properties": {"total": {"type": "integer"}},
    "required": ["total"],
    "additionalProperties": False,
}


def failure(
    text: str | None, finish: str | None = "stop", refusal: str | None = None, schema: Any = SCHEMA
) -> Any:
    with pytest.raises(BlockFailure) as raised:
        output_of(text, finish, refusal, schema)
    return raised.value


def test_without_a_response_format_the_reply_is_the_output() -> None:
    assert output_of(' {"a": 1}\n', "stop", None, None) == ' {"a": 1}\n'


def test_with_a_response_format_the_output_is_the_parsed_value() -> None:
    assert output_of('\n{"total": 12345678901234567890}', "stop", None, SCHEMA) == {
        "total": 12345678901234567890
    }


@pytest.mark.parametrize("schema", [None, SCHEMA])
@pytest.mark.parametrize(
    ("text", "finish", "refusal", "kind", "retryable"),
    [
        ('{"total":1', "length", None, ReasonKind.JUDGE_TRUNCATED, True),
        ('{"total":1}', "length", None, ReasonKind.JUDGE_TRUNCATED, True),
        (None, "stop", "I cannot", ReasonKind.JUDGE_REFUSED, False),
        ('{"total":1}', "stop", "I cannot", ReasonKind.JUDGE_REFUSED, False),
        ('{"total":1}', "refusal", None, ReasonKind.JUDGE_REFUSED, False),
        (None, "content_filter", None, ReasonKind.JUDGE_FILTERED, False),
        ('{"total":1}', "content_filter", None, ReasonKind.JUDGE_FILTERED, False),
        ('{"total":1}', "tool_calls", None, ReasonKind.JUDGE_MALFORMED, True),
        ('{"total":1}', "ran_dry", None, ReasonKind.JUDGE_MALFORMED, True),
        ('{"total":1}', None, None, ReasonKind.JUDGE_MALFORMED, True),
        (None, "stop", None, ReasonKind.JUDGE_MALFORMED, True),
        ("", "stop", None, ReasonKind.JUDGE_MALFORMED, True),
    ],
)
def test_p07_a_reply_that_is_not_whole_is_no_output_even_if_it_parses(
    schema: Any, text: str | None, finish: str | None, refusal: str | None, kind: ReasonKind, retryable: bool
) -> None:
    found = failure(text, finish, refusal, schema)
    assert (found.kind, found.retryable) == (kind, retryable)
    assert "I cannot" not in found.reason


@pytest.mark.parametrize(
    "text",
    [
        'Sure! {"total": 1}',
        '```json\n{"total": 1}\n```',
        '{"total": 1} {"total": 1}',
        '{"total": 1, "total": 2}',
        '{"total": NaN}',
        '{"total": 1,}',
        '"{\\"total\\": 1}"',
        '{"total": "1"}',
        '{"total": true}',
        '{"total": 1.5}',
        '{"total": 1, "secret-sk-1": 2}',
        "{}",
        "[]",
        "null",
        "[" * 100_000,
    ],
)
def test_a_reply_of_another_shape_is_no_output(text: str) -> None:
    assert failure(text).kind is ReasonKind.JUDGE_MALFORMED


def test_a_fault_names_its_place() -> None:
    nested = {"type": "array", "items": SCHEMA}
    assert "/1/total" in failure('[{"total": 1}, {"total": "sk-2"}]', schema=nested).reason
    assert "sk-2" not in failure('[{"total": 1}, {"total": "sk-2"}]', schema=nested).reason
