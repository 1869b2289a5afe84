"""Records the workflow histories that must replay: `python -m tests.histories.record`.

Run it when a new kind of history is wanted. What is recorded stays: a change of workflow code must
keep replaying it, or be staged behind a patch marker.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from temporalio.client import WorkflowHistory

from examples.scripted_provider import Reply, ScriptedProvider
from tests.e2e.stack import (
    Bound,
    Stack,
    agent_spec,
    asserting,
    card,
    coded,
    in_process,
    judged,
    sibling,
)
from tests.histories.gathering import continuing, gathering
from tests.histories.watching import watching
from tests.receivers import Answer, plain, receiving
from tests.servers import temporal_server
from workflows import contracts

HERE = Path(__file__).parent
BUSY = Reply(status=503, error={"message": "busy", "type": "server_error"})
VERDICT = Reply(json={"outcome": "failed", "reason": "no", "citations": []})


async def assertions(stack: Stack, provider: ScriptedProvider) -> str:
    spec = {"inputs": {"a": {"type": "json"}}, "requirements": [asserting("inputs.a", "is_truthy")]}
    execution_id = await stack.submit(await stack.bind(spec), a=1)
    await stack.ended(execution_id)
    return execution_id


def _slow(number: int) -> dict[str, Any]:
    """A step that takes its own time, and fails for every third number."""
    source = (
        "def step(n):\n"
        f"    total = sum(range({(number * 7919) % 13} * 200_000))\n"
        f"    if {number} % 3 == 2: raise ValueError('made to fail')\n"
        "    return {'n': n, 'total': total}"
    )
    action = {"kind": "code", "entrypoint": "step", "source": {"inline": source}, "inputs": {"n": "inputs.n"}}
    return {"id": f"s{number}", "action": action}


async def many_blocks(stack: Stack, provider: ScriptedProvider) -> str:
    """P60: eight independent steps, some failing, and twenty requirements."""
    provider.script([VERDICT])
    code = "def check(n):\n    return {'outcome': 'passed', 'reason': str(n), 'citations': []}"
    steps = [_slow(number) for number in range(8)]
    steps[4]["requirements"] = [asserting("steps.s4.output.n", "equals", 7, id="own")]
    requirements = [
        *[asserting(f"steps.s{n % 8}.output.n", "equals", 7, id=f"a{n}") for n in range(10)],
        *[coded(code, {"n": f"steps.s{n % 8}.output.n"}, id=f"c{n}") for n in range(6)],
        *[judged({"n": f"steps.s{n}.output.n"}, "{{n}}", id=f"j{n}") for n in range(3)],
    ]
    spec = {"inputs": {"n": {"type": "json"}}, "steps": steps, "requirements": requirements}
    execution_id = await stack.submit(await stack.bind(spec), n=7)
    await stack.ended(execution_id)
    return execution_id


async def conditions(stack: Stack, provider: ScriptedProvider) -> str:
    gated = _slow(0) | {"when": {"path": "inputs.n", "operator": "equals", "expected": 1}}
    after = _slow(1) | {
        "depends_on": ["s0"],
        "when": {"path": "inputs.n", "operator": "equals", "expected": 7},
    }
    reader = {
        "id": "reader",
        "action": {
            "kind": "code",
            "entrypoint": "f",
            "source": {"inline": "def f(x):\n    return x"},
            "inputs": {"x": "steps.s0.output"},
        },
    }
    requirements = [
        asserting("steps.s0.output.n", "equals", 7, id="of-skipped"),
        asserting("steps.reader.status", "equals", "skipped", id="status"),
        asserting("steps.s1.output.n", "equals", 7, id="ran"),
    ]
    spec = {"inputs": {"n": {"type": "json"}}, "steps": [gated, after, reader], "requirements": requirements}
    execution_id = await stack.submit(await stack.bind(spec), n=7)
    await stack.ended(execution_id)
    return execution_id


def _asking(**more: Any) -> dict[str, Any]:
    action = {"kind": "agent", "agent": agent_spec("Say {{a}}"), "inputs": {"a": "inputs.a"}}
    return {
        "inputs": {"a": {"type": "json"}},
        "steps": [{"id": "ask", "action": action, **more}],
        "requirements": [asserting("steps.ask.output", "equals", "fine")],
    }


async def retried(stack: Stack, provider: ScriptedProvider) -> str:
    provider.script([BUSY, BUSY, Reply(text="fine")])
    execution_id = await stack.submit(await stack.bind(_asking(retries=2)), a="x")
    await stack.ended(execution_id)
    return execution_id


async def gave_up(stack: Stack, provider: ScriptedProvider) -> str:
    provider.script([BUSY])
    execution_id = await stack.submit(await stack.bind(_asking(retries=1)), a="x")
    await stack.ended(execution_id)
    return execution_id


async def cancelled(stack: Stack, provider: ScriptedProvider) -> str:
    provider.script([Reply(behaviour="hang")])
    asked = len(provider.requests)
    execution_id = await stack.submit(await stack.bind(_asking()), a="x")
    await asyncio.to_thread(provider.wait_requests, asked + 1)
    await stack.http.post(f"/v1/verification/executions/{execution_id}/cancel")
    return execution_id


async def shape_in_pages(stack: Stack, provider: ScriptedProvider) -> str:
    requirements = [asserting("inputs.a", "is_truthy", id=f"{'r' * 100}{n}") for n in range(1000)]
    spec = {"inputs": {"a": {"type": "json"}}, "requirements": requirements}
    execution_id = await stack.submit(await stack.bind(spec), a=1)
    await stack.ended(execution_id)
    return execution_id


async def timed_out(stack: Stack, provider: ScriptedProvider) -> str:
    provider.script([Reply(behaviour="hang")])
    execution_id = await stack.submit(await stack.bind(_asking()), a="x")
    await stack.ended(execution_id)
    return execution_id


async def reacting(folder: Path, home: Path, temporal: str) -> None:
    """A failed submit that starts the delivery of an Operator, that delivery, one that its receiver
    refuses, and one that is found after its deadline."""
    async with (
        receiving(plain) as hook,
        in_process(home, temporal, operator_destinations=("127.0.0.1",)) as stack,
    ):
        name = "told"
        operator = {"kind": "http", "method": "post", "url": f"{hook.url}/hook"}
        entry = {"verifier": sibling("Verifier", name), "on_failure": [operator]}
        spec = {"inputs": {"a": {"type": "json"}}, "requirements": [asserting("inputs.a", "is_truthy")]}
        service = card("Service", "told-desk", {"verified_by": [entry]})
        uids = await stack.declare(card("Verifier", name, spec), service)
        for title, answer in (("delivered", Answer()), ("refused", Answer(400))):
            hook.next(answer)
            execution_id = await stack.submit(Bound(uids[name], uids["told-desk"]), a=0)
            (dispatch,) = (await stack.ended(execution_id))["dispatches"]
            handle = stack.client.get_workflow_handle(dispatch["workflow_id"])
            await asyncio.gather(handle.result(), return_exceptions=True)
            write(folder / f"{title}.json", await handle.fetch_history())
        write(folder / "reacted.json", await stack.history(execution_id))
        late = await stack.client.start_workflow(
            contracts.DISPATCH_WORKFLOW,
            contracts.DispatchStart(
                tenant_id=stack.tenant.id, tenant_slug=stack.tenant.slug, dispatch_id="late", seconds=-1
            ),
            id="late",
            task_queue=contracts.QUEUE,
        )
        await asyncio.gather(late.result(), return_exceptions=True)
        write(folder / "late.json", await late.fetch_history())


def write(path: Path, history: WorkflowHistory) -> None:
    # Failures carry stack traces; where this checkout lies is nobody's business.
    text = history.to_json().replace(f"{HERE.parents[1]}/", "")
    path.write_text(text + "\n", encoding="utf-8")


Scenario = Callable[[Stack, ScriptedProvider], Awaitable[str]]
ORDINARY: list[Scenario] = [
    assertions,
    many_blocks,
    conditions,
    retried,
    gave_up,
    cancelled,
    shape_in_pages,
]


async def record(folder: Path) -> None:
    """Run every scenario and write its history to `folder`."""
    with temporal_server() as temporal, ScriptedProvider() as provider, tempfile.TemporaryDirectory() as home:
        deployments = {"scripted": {"adapter": "openai_compatible", "base_url": provider.url}}
        runs: list[tuple[str, dict[str, Any], list[Scenario]]] = [
            ("ordinary", {}, ORDINARY),
            ("short", {"execution_timeout_seconds": 1.0}, [timed_out]),
        ]
        for name, options, scenarios in runs:
            place = Path(home) / name
            place.mkdir()
            async with in_process(place, temporal, deployments=deployments, **options) as stack:
                for scenario in scenarios:
                    execution_id = await scenario(stack, provider)
                    write(folder / f"{scenario.__name__}.json", await stack.history(execution_id))
        for name in ("reacting", "watching", "gathering", "continuing"):
            (Path(home) / name).mkdir()
        await reacting(folder, Path(home) / "reacting", temporal)
        await watching(folder, Path(home) / "watching", temporal, write)
        await gathering(folder, Path(home) / "gathering", temporal, write)
        await continuing(folder, Path(home) / "continuing", write)


if __name__ == "__main__":
    asyncio.run(record(HERE))
