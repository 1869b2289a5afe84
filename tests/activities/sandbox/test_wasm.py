"""The second engine: the same checks run, the same attacks fail, the same answers come twice."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from activities.sandbox import Sandbox
from engine.failure import ReasonKind
from tests.activities.sandbox.attacks import ATTACKS, Attack
from tests.activities.sandbox.host import Host, code, outcome, processes, until
from tests.activities.sandbox.test_determinism import CHANCE_ORDER_AND_CLOCK
from tests.activities.sandbox.test_ordinary import CHECKS, source_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

_WASM = """
p16_p53_endless_loop endless_loop_at_import sleeps_for_ever catastrophic_regex p53_two_gigabyte_list
result_of_10_mb p53_prints_100_mb recursion reads_the_host p53_writes_the_host changes_the_host
p53_opens_a_socket starts_threads p53_environment object_graph_to_os p53_ctypes p53_object_whose_eq_lies
exits_quietly walks_for_foreign_files
"""


@pytest.mark.parametrize("attack", [a for a in ATTACKS if a.name in _WASM.split()], ids=lambda a: a.name)
async def test_attack_is_contained_by_webassembly_too(
    attack: Attack, wasm_sandbox: Sandbox, host: Host
) -> None:
    before = host.state()
    timeout = min(attack.timeout + 0.3, 5)
    end = await outcome(wasm_sandbox, code(attack.source, timeout=timeout, inputs=host.inputs()))
    if attack.ends:
        assert end.kind in attack.ends, end
    else:
        # WebAssembly lacks some calls (an exception), and claims success for chmod (which does nothing).
        assert end.kind in (None, ReasonKind.CODE_FAILED), end
    assert host.state() == before


# Not in CPython's WebAssembly build.
_NOT_IN_WASM = {"sqlite_in_memory"}


# All of them in one call: every call starts an interpreter.
_ALL = """
def check(sources, values):
    answers = {}
    for name, source in sources.items():
        space = {"__name__": "code_block"}
        exec(source, space)
        answers[name] = space["check"](values[name])
    return answers
"""


async def test_realistic_checks_run_in_webassembly_too(wasm_sandbox: Sandbox) -> None:
    wanted = {name: answer for name, (_, _, answer) in CHECKS.items() if name not in _NOT_IN_WASM}
    inputs = {
        "sources": {name: source_of(CHECKS[name][0]) for name in wanted},
        "values": {name: CHECKS[name][1] for name in wanted},
    }
    reply = await wasm_sandbox.call(code(_ALL, timeout=60, inputs=inputs))
    assert reply.value == wanted


async def test_webassembly_gives_the_same_answer_twice(wasm_sandbox: Sandbox) -> None:
    call = code(CHANCE_ORDER_AND_CLOCK.replace("tempfile, ", "").replace("len, ", ""))
    assert (await wasm_sandbox.call(call)).value == (await wasm_sandbox.call(call)).value


async def test_files_are_read_only_and_gone_after_their_call(wasm_sandbox: Sandbox, tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_text("evidence", encoding="utf-8")
    source = """
import os
def check(path):
    text = open(path, encoding="utf-8").read() if os.path.exists(path) else None
    try:
        open(path, "a").write("x")
    except OSError:
        return [text, "not written"]
"""
    path = Sandbox.path_of("f")
    first = await wasm_sandbox.call(code(source, inputs={"path": path}, files={"f": file}))
    second = await wasm_sandbox.call(code(source, inputs={"path": path}))
    assert (first.value, second.value) == (["evidence", "not written"], [None, "not written"])
    assert file.read_text(encoding="utf-8") == "evidence"


async def test_cancelled_call_leaves_no_process(wasm_sandbox: Sandbox) -> None:
    sleeping = code("import time\ndef check(): time.sleep(3600)", timeout=600)
    before = len(processes())
    call = asyncio.create_task(wasm_sandbox.call(sleeping))
    await until(lambda: len(processes()) == before + 1)
    below = processes()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await until(lambda: not any(process.is_running() for process in below))
    assert (await wasm_sandbox.call(code("def check(): return 1"))).value == 1
