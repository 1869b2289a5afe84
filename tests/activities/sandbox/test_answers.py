# ruff: noqa: E501 - one fault a line reads as the table it is
"""What the code's own faults are called, and what they say."""

from __future__ import annotations

import pytest

from activities.sandbox import Sandbox
from engine.failure import ReasonKind
from tests.activities.sandbox.host import code, outcome

pytestmark = pytest.mark.asyncio(loop_scope="module")

FAULTS: dict[str, tuple[str, str]] = {
    "exception": ("def check():\n    x = 1\n    return x / 0\n", "ZeroDivisionError (line 3): division by zero"),
    "exception_in_a_nested_call": (
        "def inner(d):\n    return d['k']\ndef check():\n    return inner({})\n",
        "KeyError (line 2): 'k'",
    ),
    "exception_below_the_standard_library": (
        "import json\ndef check():\n    return json.loads('{')\n",
        "JSONDecodeError (line 3): Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
    ),
    "exception_at_import": ("import nothing_like_it\n", "ModuleNotFoundError (line 1): No module named"),
    "exception_without_a_message": ("def check():\n    assert 1 == 2\n", "AssertionError (line 2)"),
    "long_message": ("def check():\n    raise ValueError('y' * 9999)\n", "ValueError (line 2): " + "y" * 500 + " [cut]"),
    "exit": ("def check():\n    import sys\n    sys.exit(3)\n", "SystemExit (line 3): 3"),
    "syntax": ("def check(:\n    pass\n", "the source is not Python (line 1): invalid syntax"),
    "nul": ("def check(): pass\0", "the source is not Python: source code string cannot contain null bytes"),
    "surrogate": ("def check(): return '\ud800'", "the source is not Python"),
    "no_entrypoint": ("def chek(): pass\n", "the source defines no function named 'check'"),
    "entrypoint_not_callable": ("check = 1\n", "the source defines no function named 'check'"),
    "entrypoint_of_builtins": ("x = 1\n", "the source defines no function named 'check'"),
    "other_parameters": ("def check(a): pass\n", "TypeError: check() missing 1 required positional argument: 'a'"),
    "not_a_number": ("def check(): return {'a': [float('nan')]}", "the return value is not JSON: the value.a[0] is nan"),
    "infinity": ("def check(): return -1e999", "the return value is not JSON: the value is -inf"),
    "set": ("def check(): return {1}", "the return value is not JSON: the value is a set"),
    "bytes": ("def check(): return [b'']", "the return value is not JSON: the value[0] is a bytes"),
    "number_as_a_key": ("def check(): return {1: 2}", "the return value is not JSON: the value has a key of type int"),
    "too_deep": (
        "def check():\n v = 0\n for _ in range(65): v = [v]\n return v",
        "the return value is not JSON: it is nested deeper than 64",
    ),
    "too_many_digits": ("def check(): return 10 ** 4300", "the return value is not JSON: "),
    "half_a_character": ("def check(): return ['\\ud800']", "the return value is not JSON: a string holds half"),
    "coroutine": ("async def check(): return 1", "the return value is not JSON: the value is a coroutine"),
    "two_keys_alike": (
        "class Key(str):\n    __hash__ = object.__hash__\n    __eq__ = object.__eq__\n"
        "def check(): return {Key('a'): 1, Key('a'): 2}",
        "the return value is not JSON: the value has the key 'a' twice",
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
async def test_fault_of_the_code_is_code_failed_and_says_where(fault: str, sandbox: Sandbox) -> None:
    source, reason = FAULTS[fault]
    end = await outcome(sandbox, code(source))
    assert end.kind is ReasonKind.CODE_FAILED, end
    assert end.reason.startswith(reason)


async def test_nesting_and_digits_up_to_the_limit_are_fine(sandbox: Sandbox) -> None:
    source = "def check():\n v = 10 ** 4299\n for _ in range(64): v = [v]\n return v"
    assert (await outcome(sandbox, code(source))).kind is None


async def test_value_of_exactly_256_kib_fits_and_one_byte_more_does_not(sandbox: Sandbox) -> None:
    source = "def check(n): return 'x' * n"
    fits = await outcome(sandbox, code(source, inputs={"n": 256 * 1024 - 2}))
    assert len(fits.value) == 256 * 1024 - 2
    over = await outcome(sandbox, code(source, inputs={"n": 256 * 1024 - 1}))
    assert (over.kind, over.reason) == (ReasonKind.LIMIT_EXCEEDED, "the return value is over 256 KiB")


async def test_limits_are_named_as_such(sandbox: Sandbox) -> None:
    memory = await outcome(sandbox, code("def check(): return len(bytearray(1 << 30))"))
    assert (memory.kind, memory.reason) == (
        ReasonKind.LIMIT_EXCEEDED,
        "the code used more than 256 MiB of memory",
    )
    deep = await outcome(sandbox, code("def check(): return check()"))
    assert (deep.kind, deep.reason) == (
        ReasonKind.LIMIT_EXCEEDED,
        "the code recursed deeper than 500 calls (line 1)",
    )
    slow = await outcome(sandbox, code("def check():\n while True: pass", timeout=0.2))
    assert (slow.kind, slow.reason) == (
        ReasonKind.TIMEOUT,
        "the code ran longer than 0.2 s and was killed",
    )


async def test_inputs_too_large_for_the_sandbox_are_a_limit(sandbox: Sandbox) -> None:
    end = await outcome(sandbox, code("def check(value): return 1", inputs={"value": "x" * (150 << 20)}))
    assert end.kind is ReasonKind.LIMIT_EXCEEDED
