"""`{{ field }}`: known fields only, escaped for where they stand, filled in once."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activities.dispatch.requests import (
    PAGER_DUTY_DEDUP_KEY,
    PAGER_DUTY_SUMMARY,
    SLACK_TEXT,
    DispatchRequest,
    request_of,
)
from activities.dispatch.templates import (
    TemplateFault,
    filled,
    filled_header,
    filled_leaves,
    filled_url,
    for_slack,
    plain,
)
from wyrd.cards import OperatorSpec, decode_spec
from wyrd.cards.rules.operator_rules import TEMPLATE_FIELDS

NASTY = 'a/b?c=d&e#f %2e "quoted" <!channel>\r\nX-Evil: 1\n\N{SNOWMAN}'


def fields(**told: str) -> dict[str, str]:
    return dict.fromkeys(TEMPLATE_FIELDS, "") | {"dispatch_id": "the-dispatch"} | told


def made(spec: dict[str, Any], **told: str) -> DispatchRequest:
    operator = decode_spec("Operator", spec)
    assert isinstance(operator, OperatorSpec)
    return request_of(operator, fields(**told))


def slack(text: str) -> dict[str, Any]:
    channel = {"kind": "slack", "connection": "desk", "channel_id": "C0SUPPORT", "text": text}
    return {"kind": "notify", "channel": channel}


def pager(**more: str) -> dict[str, Any]:
    channel = {"kind": "pager_duty", "connection": "on-call", "route": "support", "severity": "error"}
    return {"kind": "notify", "channel": {**channel, "summary": "{{summary}}", **more}}


def http(**more: Any) -> dict[str, Any]:
    return {"kind": "http", "method": "post", "url": "https://desk.example/hook", **more}


@pytest.mark.parametrize("text", ["{{verdict}}", "{{ verdict }}", "{{\tverdict}}"])
def test_white_space_around_a_field_does_not_matter(text: str) -> None:
    assert filled(text, fields(verdict="failed"), plain) == "failed"


@pytest.mark.parametrize("text", ["{{secret}}", "{{}}", "{{ verdict", "{{ verdict.upper }}", "{{__class__}}"])
def test_what_is_no_known_field_is_refused(text: str) -> None:
    with pytest.raises(TemplateFault):
        filled(text, fields(), plain)


def test_values_are_not_templates_themselves() -> None:
    assert filled("{{summary}}", fields(summary="{{verdict}}", verdict="failed"), plain) == "{{verdict}}"


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_url_keeps_a_value_in_its_own_segment_and_its_own_query_value(value: str) -> None:
    url = filled_url("https://desk.example/a/x{{group_id}}/b?g={{group_id}}&v=1", fields(group_id=value))
    parts = urlsplit(url)
    assert [unquote(one) for one in parts.path.split("/")] == ["", "a", f"x{value}", "b"]
    assert parse_qs(parts.query, keep_blank_values=True) == {"g": [value], "v": ["1"]}
    assert (parts.netloc, parts.fragment) == ("desk.example", "")


@pytest.mark.parametrize("value", [".", ".."])
def test_a_value_that_would_walk_up_the_path_is_refused(value: str) -> None:
    with pytest.raises(TemplateFault):
        filled_url("https://desk.example/a/{{group_id}}/b", fields(group_id=value))


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_header_is_one_line_of_visible_ascii_that_tells_the_value(value: str) -> None:
    header = filled_header(
        "group {{group_id}} of r\N{LATIN SMALL LETTER E WITH ACUTE}", fields(group_id=value)
    )
    assert all(32 <= ord(char) < 127 for char in header)
    assert unquote(header) == f"group {value} of r\N{LATIN SMALL LETTER E WITH ACUTE}"


def test_slack_reads_no_mention_and_no_link_out_of_a_value() -> None:
    request = made(slack("{{summary}} <!here>"), summary="<!channel> & <https://x|y>")
    assert json.loads(request.body or "")["text"] == "&lt;!channel&gt; &amp; &lt;https://x|y&gt; <!here>"
    assert for_slack("a&b") == "a&amp;b"


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_every_string_of_a_body_is_filled_in_and_its_shape_stays(value: str) -> None:
    body = {"a": ["{{summary}}", 1, None, True, {"b": "is {{summary}}"}], "{{summary}}": 1.5}
    request = made(http(body=body), summary=value)
    assert json.loads(request.body or "") == {
        "a": [value, 1, None, True, {"b": f"is {value}"}],
        "{{summary}}": 1.5,
    }
    assert filled_leaves(3, fields()) == 3


def test_a_nasty_value_is_harmless_wherever_it_stands() -> None:
    request = made(
        http(
            url="https://desk.example/hook/{{group_id}}?q={{group_id}}",
            headers={"X-Group": "{{group_id}}"},
            body={"group": "{{group_id}}"},
        ),
        group_id=NASTY,
    )
    assert request.url is not None
    assert urlsplit(request.url).path.count("/") == 2
    assert "\n" not in request.headers["X-Group"]
    assert json.loads(request.body or "") == {"group": NASTY}


def test_a_body_is_json_unless_its_author_says_another_content_type() -> None:
    assert made(http(body={"a": 1})).headers == {"Content-Type": "application/json"}
    own = made(http(body={"a": 1}, headers={"Content-Type": "application/vnd.desk+json"}))
    assert own.headers == {"Content-Type": "application/vnd.desk+json"}
    assert (made(http()).body, made(http()).headers) == (None, {})


def test_a_dedup_key_is_the_template_or_the_dispatch_id() -> None:
    def key(**more: str) -> str:
        found: str = json.loads(made(pager(**more), verifier_ref="a/Verifier/b@1.0.0").body or "")[
            "dedup_key"
        ]
        return found

    assert key() == "the-dispatch"
    assert key(dedup_key="{{group_id}}") == "the-dispatch"
    assert key(dedup_key="{{verifier_ref}}") == "a/Verifier/b@1.0.0"


def test_what_a_provider_would_refuse_for_its_length_is_cut() -> None:
    event = json.loads(made(pager(dedup_key="{{summary}}"), summary="x" * 50_000).body or "")
    other = json.loads(made(pager(dedup_key="{{summary}}"), summary="x" * 49_999 + "y").body or "")
    assert len(event["payload"]["summary"]) == PAGER_DUTY_SUMMARY
    assert len(event["dedup_key"]) == PAGER_DUTY_DEDUP_KEY
    assert event["dedup_key"] != other["dedup_key"]
    assert len(json.loads(made(slack("{{summary}}"), summary="x" * 50_000).body or "")["text"]) == SLACK_TEXT


def test_a_url_or_header_that_grew_beyond_its_bound_is_refused() -> None:
    for more in ({"url": "https://desk.example/{{summary}}"}, {"headers": {"X-A": "{{summary}}"}}):
        with pytest.raises(TemplateFault, match="longer than"):
            made(http(**more), summary="x" * 10_000)


def test_a_request_holds_the_name_of_its_connection_and_survives_its_store() -> None:
    request = made(
        http(
            auth={"scheme": "header", "name": "X-Key", "connection": "desk"},
            expect_status=202,
            timeout_seconds=5,
        )
    )
    assert (request.connection, request.auth_scheme, request.auth_header) == ("desk", "header", "X-Key")
    assert DispatchRequest.model_validate_json(request.model_dump_json()) == request
