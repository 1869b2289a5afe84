"""Hostile code: each attack is contained, and the host is as it was."""

from __future__ import annotations

import pytest

from activities.sandbox import Sandbox
from tests.activities.sandbox.attacks import ANY, ATTACKS, Attack
from tests.activities.sandbox.host import Host, code, outcome, processes

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.parametrize("attack", ATTACKS, ids=[attack.name for attack in ATTACKS])
async def test_attack_is_contained_and_the_host_unchanged(
    attack: Attack, sandbox: Sandbox, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CANARY", "canary-of-the-host")
    await sandbox.call(code("def check():\n return 1"))  # both workers are there
    before = host.state()

    end = await outcome(sandbox, code(attack.source, timeout=attack.timeout, inputs=host.inputs()))

    if attack.ends:
        assert end.kind in attack.ends, end
        assert len(end.reason) < 1000
    else:
        assert end.kind is None, end
        assert attack.value is ANY or end.value == attack.value
        assert len(end.stdout) < 20_000
    assert host.state() == before
    after = await sandbox.call(code("def check():\n return 'served'"))
    assert after.value == "served"
    # Two workers of three processes each (the wall's two and the zygote); a replacement may be on its way.
    assert len(processes()) <= 3 * 3


async def test_flood_of_print_is_cut_and_says_so(sandbox: Sandbox) -> None:
    reply = await sandbox.call(code("def check():\n for _ in range(100): print('x' * 999_999)\n return 1"))
    assert reply.stdout.endswith(f"\n[{100 * 1_000_000 - 16 * 1024} more bytes cut]")


async def test_check_that_survives_its_own_attempt_keeps_its_answer(sandbox: Sandbox, host: Host) -> None:
    source = """
def check(port, **others):
    import socket
    try:
        socket.create_connection(("127.0.0.1", port))
    except OSError as error:
        return {"outcome": "passed", "reason": type(error).__name__, "citations": []}
"""
    reply = await sandbox.call(code(source, inputs=host.inputs()))
    assert reply.value == {"outcome": "passed", "reason": "PermissionError", "citations": []}
    assert host.connections == []
