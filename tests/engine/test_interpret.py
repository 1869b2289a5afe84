"""The order of blocks, skips and failures, whatever the blocks themselves find."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.interpret import interpret
from engine.plan import compile_plan
from engine.shape import Shape
from engine.states import States, explain_rule
from wyrd.cards import VerifierSpec


class ScriptedRunner:
    """Ends blocks as told (`s`/`p` otherwise), in the order they started unless held."""

    def __init__(
        self, shape: Shape, ends: dict[str, str] | None = None, held: set[str] | None = None
    ) -> None:
        self.shape = shape
        self.ends = ends or {}
        self.log: list[str] = []
        self.gates = {name: asyncio.Event() for name in held or ()}
        self.finished = ""
        self.last_batch: list[str] = []
        self.in_flight = 0
        self.most_in_flight = 0
        self.judging = 0

    def name(self, block: int) -> str:
        return self.shape.label(block).replace(" (when)", "?").partition(" ")[0]

    async def run(self, block: int, states: str) -> str:
        name = self.name(block)
        self.log.append(f"start {name}")
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        if name in self.gates:
            await self.gates[name].wait()
        else:
            await asyncio.sleep(0)
        self.in_flight -= 1
        self.log.append(f"end {name}")
        return self.ends.get(name, "s" if self.shape.is_step(block) else "p")

    async def judge(self, blocks: Sequence[int], states: str) -> str:
        self.judging += 1
        assert self.judging == 1, "two pure batches at once"
        names = [self.name(block) for block in blocks]
        self.log.append(f"judge {','.join(names)}")
        await asyncio.sleep(0)
        self.judging -= 1
        return "".join(self.ends.get(name, "t" if name.endswith("?") else "p") for name in names)

    async def finish(self, blocks: Sequence[int], states: str) -> None:
        self.last_batch = [self.name(block) for block in blocks]
        self.finished = states

    @property
    def outcomes(self) -> dict[str, str]:
        states = States.of_text(self.finished)
        return {r.id: letter for r, letter in zip(self.shape.requirements, states.requirements, strict=True)}

    @property
    def statuses(self) -> dict[str, str]:
        states = States.of_text(self.finished)
        return {s.id: letter for s, letter in zip(self.shape.steps, states.steps, strict=True)}


def assertion(id: str, path: str) -> dict[str, Any]:
    check = {"kind": "assert", "path": path, "operator": "is_not_null"}
    return {"id": id, "statement": id, "check": check}


def code_check(id: str, *reads: str) -> dict[str, Any]:
    check = {
        "kind": "code",
        "entrypoint": "f",
        "source": {"inline": "def f(**k): ..."},
        "inputs": {f"v{number}": path for number, path in enumerate(reads)},
    }
    return {"id": id, "statement": id, "check": check}


def code_step(id: str, *reads: str, **more: Any) -> dict[str, Any]:
    return {"id": id, "action": code_check(id, *reads)["check"], **more}


def shape_of(steps: list[dict[str, Any]], requirements: list[dict[str, Any]] | None = None) -> Shape:
    spec = {"inputs": {"a": {"type": "json"}}, "steps": steps, "requirements": requirements or []}
    return compile_plan(VerifierSpec.model_validate(spec)).shape


async def run(shape: Shape, **options: Any) -> ScriptedRunner:
    runner = ScriptedRunner(shape, **options)
    await asyncio.wait_for(interpret(shape, runner), 5)
    return runner


async def test_only_assertions_are_one_final_batch() -> None:
    runner = await run(shape_of([], [assertion("r1", "inputs.a"), assertion("r2", "inputs.a")]))
    assert runner.log == []
    assert runner.last_batch == ["r1", "r2"]


async def test_nothing_to_run_still_finishes() -> None:
    runner = await run(shape_of([]))
    assert runner.finished == "|"


async def test_independent_steps_run_at_the_same_time_and_start_in_declared_order() -> None:
    runner = await run(shape_of([code_step("one"), code_step("two"), code_step("three")]))
    assert runner.log[:3] == ["start one", "start two", "start three"]
    assert runner.most_in_flight == 3


async def test_a_step_starts_as_soon_as_what_it_reads_has_ended_without_waiting_for_others() -> None:
    shape = shape_of([code_step("slow"), code_step("quick"), code_step("after", "steps.quick.output")])

    class Releasing(ScriptedRunner):
        async def run(self, block: int, states: str) -> str:
            letter = await super().run(block, states)
            if self.name(block) == "after":
                # Were `after` held up by `slow`, nobody would ever open this gate.
                self.gates["slow"].set()
            return letter

    runner = Releasing(shape, held={"slow"})
    await asyncio.wait_for(interpret(shape, runner), 5)
    assert runner.log.index("end after") < runner.log.index("end slow")


async def test_a_steps_own_requirements_end_before_what_depends_on_it_starts() -> None:
    first = code_step("first", requirements=[code_check("own", "steps.first.output")])
    runner = await run(shape_of([first, code_step("second", depends_on=["first"])]))
    assert runner.log == [
        "start first", "end first", "start own", "end own", "start second", "end second",
    ]  # fmt: skip


async def test_whole_requirements_run_after_every_step() -> None:
    shape = shape_of([code_step("one"), code_step("two")], [code_check("whole", "inputs.a")])
    runner = await run(shape)
    assert runner.log.index("start whole") > max(runner.log.index("end one"), runner.log.index("end two"))


async def test_when_false_skips_the_step_its_requirements_and_what_reads_it() -> None:
    when = {"path": "inputs.a", "operator": "is_null"}
    gated = code_step("gated", when=when, requirements=[assertion("own", "inputs.a")])
    shape = shape_of(
        [gated, code_step("reader", "steps.gated.output"), code_step("ordered", depends_on=["gated"])],
        [assertion("reads", "steps.gated.output"), assertion("status", "steps.gated.status")],
    )
    runner = await run(shape, ends={"gated?": "k"})
    assert runner.statuses == {"gated": "k", "reader": "K", "ordered": "s"}
    # `status` is judged in the last batch: its letter is still open when finish is called.
    assert runner.outcomes == {"own": "N", "reads": "N", "status": "-"}
    assert runner.last_batch == ["status"]


async def test_failure_wins_over_a_skip() -> None:
    when = {"path": "inputs.a", "operator": "is_null"}
    both = ("steps.failed.output", "steps.skipped.output")
    shape = shape_of(
        [code_step("failed"), code_step("skipped", when=when), code_step("reader", *both)],
        [code_check("check", *both), code_check("skip-only", "steps.skipped.output")],
    )
    runner = await run(shape, ends={"skipped?": "k", "failed": "f"})
    assert runner.statuses == {"failed": "f", "skipped": "k", "reader": "F"}
    assert runner.outcomes == {"check": "I", "skip-only": "N"}


async def test_a_failed_steps_own_requirements_run_unless_they_read_its_output() -> None:
    own = [code_check("reads", "steps.step.output"), code_check("status", "steps.step.status")]
    runner = await run(shape_of([code_step("step", requirements=own)]), ends={"step": "f"})
    assert runner.outcomes == {"reads": "I", "status": "p"}


async def test_a_when_that_cannot_be_evaluated_fails_the_step() -> None:
    when = {"path": "inputs.a.missing", "operator": "is_null"}
    runner = await run(shape_of([code_step("step", when=when)]), ends={"step?": "f"})
    assert runner.statuses == {"step": "f"}


async def test_a_when_over_a_skipped_output_skips_in_turn_and_over_a_failed_one_fails() -> None:
    null = {"path": "inputs.a", "operator": "is_null"}
    shape = shape_of(
        [
            code_step("skipped", when=null),
            code_step("failed"),
            code_step("a", when={"path": "steps.skipped.output", "operator": "is_null"}),
            code_step("b", when={"path": "steps.failed.output", "operator": "is_null"}),
            code_step("c", when={"path": "steps.failed.status", "operator": "equals", "expected": "failed"}),
        ]
    )
    runner = await run(shape, ends={"skipped?": "k", "failed": "f"})
    assert runner.statuses == {"skipped": "k", "failed": "f", "a": "K", "b": "F", "c": "s"}


async def test_depends_on_orders_and_passes_nothing_on() -> None:
    runner = await run(shape_of([code_step("one"), code_step("two", depends_on=["one"])]), ends={"one": "f"})
    assert runner.statuses == {"one": "f", "two": "s"}


async def test_ends_by_rule_are_explained_by_the_step_that_caused_them() -> None:
    shape = shape_of([code_step("one"), code_step("two", "steps.one.output")])
    runner = await run(shape, ends={"one": "f"})
    kind, reason = explain_rule(shape, States.of_text(runner.finished), 1)
    assert (kind.value, reason) == ("step_failed", "step one failed, so it has no output to read")


async def test_cancelling_the_interpretation_cancels_what_runs() -> None:
    shape = shape_of([code_step("held")])
    cancelled = asyncio.Event()

    class Held(ScriptedRunner):
        async def run(self, block: int, states: str) -> str:
            try:
                return await super().run(block, states)
            except asyncio.CancelledError:
                cancelled.set()
                raise

    task = asyncio.create_task(interpret(shape, Held(shape, held={"held"})))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(cancelled.wait(), 5)


async def test_a_cancel_reaches_running_blocks_in_the_order_they_started() -> None:
    """A workflow that replays must cancel its activities in the order of its first run."""
    cancelled: list[int] = []

    class Hanging(ScriptedRunner):
        async def run(self, block: int, states: str) -> str:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.append(block)
                raise
            return "s"

    shape = shape_of([code_step(f"s{number}") for number in range(40)])
    running = asyncio.create_task(interpret(shape, Hanging(shape)))
    for _ in range(3):
        await asyncio.sleep(0)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    for _ in range(3):
        await asyncio.sleep(0)
    assert cancelled == list(range(40))


async def test_what_a_runner_raises_ends_the_interpretation() -> None:
    shape = shape_of([code_step("one")])

    class Broken(ScriptedRunner):
        async def run(self, block: int, states: str) -> str:
            raise RuntimeError("the database is gone")

    with pytest.raises(RuntimeError, match="the database is gone"):
        await interpret(shape, Broken(shape))


def test_a_shape_survives_its_document() -> None:
    shape = shape_of(
        [code_step("one"), code_step("two", "steps.one.output", retries=2, timeout_seconds=7)],
        [assertion("r", "steps.two.output"), code_check("c", "steps.one.output")],
    )
    assert Shape.of_document(shape.document()) == shape


checks: st.SearchStrategy[Callable[[str, str], dict[str, Any]]] = st.sampled_from([assertion, code_check])


@st.composite
def plans(draw: st.DrawFn) -> tuple[Shape, dict[str, str]]:
    """A random plan whose steps read earlier steps, and random ends for its blocks."""
    steps = []
    ends: dict[str, str] = {}
    for number in range(draw(st.integers(0, 6))):
        earlier = draw(st.lists(st.integers(0, number - 1), unique=True)) if number else []
        reads = [f"steps.s{index}.output" for index in earlier if draw(st.booleans())]
        more: dict[str, Any] = {"depends_on": [f"s{index}" for index in earlier]}
        if draw(st.booleans()):
            more["when"] = {"path": draw(st.sampled_from(["inputs.a", *reads])), "operator": "is_null"}
            ends[f"s{number}?"] = draw(st.sampled_from("tkf"))
        own = f"steps.s{number}.output"
        more["requirements"] = [
            draw(checks)(f"q{number}_{index}", own) for index in range(draw(st.integers(0, 2)))
        ]
        steps.append(code_step(f"s{number}", *reads, **more))
        ends[f"s{number}"] = draw(st.sampled_from("ssf"))
    paths = ["inputs.a", *[f"steps.{step['id']}.output" for step in steps]]
    whole = [
        draw(checks)(f"w{index}", draw(st.sampled_from(paths))) for index in range(draw(st.integers(0, 4)))
    ]
    return shape_of(steps, whole), ends


@settings(max_examples=150, deadline=None)
@given(plans())
def test_every_block_of_any_plan_ends_once_and_after_what_it_needs(
    case: tuple[Shape, dict[str, str]],
) -> None:
    shape, ends = case
    runner = asyncio.run(run(shape, ends=ends))
    assert "-" not in "".join(runner.statuses.values())
    open_ones = {name for name, letter in runner.outcomes.items() if letter == "-"}
    assert open_ones == set(runner.last_batch)
    started = [entry for entry in runner.log if entry.startswith("start ")]
    assert len(started) == len(set(started))
    for step in shape.steps:
        if f"start {step.id}" not in runner.log:
            continue
        for other in step.after:
            name = shape.steps[other].id
            if f"end {name}" in runner.log:
                assert runner.log.index(f"end {name}") < runner.log.index(f"start {step.id}")
        for other in step.reads:
            assert runner.statuses[shape.steps[other].id] == "s"
