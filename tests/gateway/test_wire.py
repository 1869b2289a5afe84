"""Reading completions: the words as they stand, stop reasons never guessed, tokens only as counted."""

from __future__ import annotations

from typing import Any

import pytest

from engine.failure import BlockFailure, ReasonKind
from gateway.wire import anthropic_message, chat_completion, generated_content, responses


def chat(**choice: Any) -> dict[str, Any]:
    return {"choices": [{"message": {"content": "x"}, "finish_reason": "stop", **choice}]}


@pytest.mark.parametrize("finish", ["stop", "length", "content_filter", "tool_calls", "weird", None])
def test_a_chat_stop_reason_is_the_providers_word(finish: str | None) -> None:
    assert chat_completion(chat(finish_reason=finish)).finish_reason == finish


@pytest.mark.parametrize(
    ("stop", "expected"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "refusal"),
        ("pause_turn", "pause_turn"),
        ("tool_use", "tool_use"),
        (None, None),
    ],
)
def test_an_anthropic_stop_reason(stop: str | None, expected: str | None) -> None:
    found = anthropic_message({"content": [{"type": "text", "text": "x"}], "stop_reason": stop})
    assert found.finish_reason == expected


@pytest.mark.parametrize(
    ("stop", "expected"),
    [
        ("STOP", "stop"),
        ("MAX_TOKENS", "length"),
        ("SAFETY", "content_filter"),
        ("RECITATION", "content_filter"),
        ("MALFORMED_FUNCTION_CALL", "MALFORMED_FUNCTION_CALL"),
        (None, None),
    ],
)
def test_a_google_stop_reason(stop: str | None, expected: str | None) -> None:
    candidate = {"content": {"parts": [{"text": "x"}]}, "finishReason": stop}
    assert generated_content({"candidates": [candidate]}).finish_reason == expected


def test_a_blocked_google_prompt_is_filtered() -> None:
    found = generated_content({"promptFeedback": {"blockReason": "SAFETY"}})
    assert (found.text, found.finish_reason) == (None, "content_filter")


@pytest.mark.parametrize(
    ("status", "details", "expected"),
    [
        ("completed", None, "stop"),
        ("incomplete", {"reason": "max_output_tokens"}, "length"),
        ("incomplete", {"reason": "content_filter"}, "content_filter"),
        ("incomplete", {"reason": "other"}, "incomplete"),
        ("failed", None, "failed"),
        (None, None, None),
    ],
)
def test_a_responses_stop_reason(status: str | None, details: Any, expected: str | None) -> None:
    document = {"output": [], "status": status, "incomplete_details": details}
    assert responses(document).finish_reason == expected


def test_thoughts_are_not_part_of_the_reply() -> None:
    google = {"candidates": [{"content": {"parts": [{"text": "hm", "thought": True}, {"text": "yes"}]}}]}
    assert generated_content(google).text == "yes"
    anthropic = {"content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "yes"}]}
    assert anthropic_message(anthropic).text == "yes"
    openai = {
        "output": [
            {"type": "reasoning"},
            {"type": "message", "content": [{"type": "output_text", "text": "yes"}]},
        ]
    }
    assert responses(openai).text == "yes"


def test_prose_beside_a_schema_tool_stays_beside_it() -> None:
    blocks = [
        {"type": "text", "text": "Sure: "},
        {"type": "tool_use", "name": "json_tool_call", "input": {"a": 1}},
    ]
    assert anthropic_message({"content": blocks, "stop_reason": "tool_use"}).text == 'Sure: {"a":1}'


def test_a_refusal_in_responses_is_told() -> None:
    message = {"type": "message", "content": [{"type": "refusal", "refusal": "no"}]}
    found = responses({"output": [message], "status": "completed"})
    assert (found.text, found.refusal) == (None, "no")


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}, (3, 4, 7)),
        ({"prompt_tokens": 3, "completion_tokens": 4}, (3, 4, 7)),
        ({"prompt_tokens": True, "completion_tokens": -1, "total_tokens": "7"}, (None, None, None)),
        (None, (None, None, None)),
        ([], (None, None, None)),
    ],
)
def test_tokens_are_only_what_the_provider_counted(usage: Any, expected: Any) -> None:
    found = chat_completion({**chat(), "usage": usage}).usage
    assert (found.input_tokens, found.output_tokens, found.total_tokens) == expected


def test_cached_input_and_thoughts_are_counted() -> None:
    usage = {
        "input_tokens": 1,
        "cache_creation_input_tokens": 10,
        "cache_read_input_tokens": 100,
        "output_tokens": 5,
    }
    found = anthropic_message({"content": [], "usage": usage}).usage
    assert (found.input_tokens, found.output_tokens, found.total_tokens) == (111, 5, 116)
    counted = {
        "promptTokenCount": 1,
        "candidatesTokenCount": 2,
        "thoughtsTokenCount": 30,
        "totalTokenCount": 33,
    }
    google = generated_content({"candidates": [{}], "usageMetadata": counted}).usage
    assert (google.input_tokens, google.output_tokens, google.total_tokens) == (1, 32, 33)


@pytest.mark.parametrize("content", [5, ["a"], {"text": "a"}, True])
def test_content_of_another_type_is_no_answer(content: Any) -> None:
    with pytest.raises(BlockFailure) as raised:
        chat_completion(chat(message={"content": content}))
    assert raised.value.kind is ReasonKind.PROVIDER_ERROR
