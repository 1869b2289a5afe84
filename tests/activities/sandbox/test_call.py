"""What a call may be made of, and how an untrusted reply is read."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activities.sandbox import CodeCall, Sandbox
from activities.sandbox.call import Ending, judged
from engine.failure import BlockFailure, ReasonKind
from tests.activities.sandbox.host import NOW, SEED, code


@pytest.mark.parametrize(
    "members",
    [
        {"timeout": 0},
        {"timeout": float("nan")},
        {"timeout": float("inf")},
        {"seed": "not hex"},
        {"seed": ""},
        {"now": datetime(2026, 1, 1)},  # noqa: DTZ001 - the fault
        {"files": {"../up": Path("/etc/passwd")}},
        {"files": {"a/b": Path("/etc/passwd")}},
        {"files": {".hidden": Path("/etc/passwd")}},
        {"files": {"": Path("/etc/passwd")}},
    ],
)
def test_call_of_a_wrong_shape_cannot_be_made(members: dict[str, Any]) -> None:
    given: dict[str, Any] = {"source": "", "entrypoint": "check", "timeout": 1, "seed": SEED, "now": NOW}
    with pytest.raises(ValueError):
        CodeCall(**{**given, **members})


def test_file_of_a_call_is_read_under_inputs() -> None:
    assert Sandbox.path_of("letter.md") == "/inputs/letter.md"
    with pytest.raises(ValueError):
        Sandbox.path_of("../etc")


@given(
    st.binary(max_size=200), st.sampled_from([b"", b'{"kind":"value","stdout":""}\n', b'{"kind":"raised"'])
)
def test_reply_of_any_bytes_is_a_value_or_a_failure_the_code_could_cause(rest: bytes, head: bytes) -> None:
    ending = Ending(head + rest, exit_code=0)
    kinds = {ReasonKind.CODE_FAILED, ReasonKind.SANDBOX_FAILED, ReasonKind.LIMIT_EXCEEDED}
    try:
        judged(ending, code(""))
    except BlockFailure as failure:
        kinds.remove(failure.kind)


@pytest.mark.parametrize(
    "head",
    [
        b'{"kind":"raised","type":7,"message":[],"line":true,"stdout":""}',
        b'{"kind":["raised"],"stdout":""}',
        b'{"kind":"timeout","stdout":""}',
        b'{"kind":"value"}',
        b'{"kind":"value","stdout":7}',
        b"[]",
        b"",
    ],
)
def test_reply_with_a_false_head_is_a_code_failure(head: bytes) -> None:
    with pytest.raises(BlockFailure) as caught:
        judged(Ending(head + b'\n{"outcome":"passed"}', exit_code=0), code(""))
    assert caught.value.kind is ReasonKind.CODE_FAILED


@pytest.mark.parametrize(
    ("ending", "kind"),
    [
        ({"timed_out": True, "signal": 9}, ReasonKind.TIMEOUT),
        ({"signal": 24}, ReasonKind.TIMEOUT),
        ({"signal": 31}, ReasonKind.SANDBOX_FAILED),
        ({"signal": 9}, ReasonKind.SANDBOX_FAILED),
        ({"signal": 64}, ReasonKind.SANDBOX_FAILED),
        ({"exit_code": 1}, ReasonKind.SANDBOX_FAILED),
        ({"exit_code": None}, ReasonKind.SANDBOX_FAILED),
        ({"overflowed": True}, ReasonKind.LIMIT_EXCEEDED),
    ],
)
def test_answer_counts_only_when_its_process_ended_well(ending: dict[str, Any], kind: ReasonKind) -> None:
    reply = b'{"kind":"value","stdout":""}\n{"outcome":"passed"}'
    with pytest.raises(BlockFailure) as caught:
        judged(Ending(reply, **ending), code(""))
    assert caught.value.kind is kind
