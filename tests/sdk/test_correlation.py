"""Which spans carry a run and its Card: every one that starts inside the block, and no other."""

from __future__ import annotations

import asyncio
import contextvars
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Span, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Tracer

import wyrd
from tests.sdk.bundled import Bundled
from wyrd import WyrdState, otel
from wyrd.runs import Run

SDK = Path(wyrd.__file__).resolve().parents[1]


@pytest.fixture
def state(pulled: tuple[Bundled, Path]) -> WyrdState:
    return WyrdState.from_path(pulled[1])


class Spans:
    """A provider with run correlation, and what its spans said."""

    def __init__(self) -> None:
        self.provider = TracerProvider()
        self._exporter = InMemorySpanExporter()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        assert otel.install_run_correlation(self.provider)
        self.tracer: Tracer = self.provider.get_tracer("tests")

    def span(self, name: str, context: Context | None = None) -> None:
        self.tracer.start_span(name, context).end()

    def of(self, name: str) -> tuple[object, object] | None:
        """Run and Card of the one span of that name."""
        (found,) = (one for one in self._exporter.get_finished_spans() if one.name == name)
        return marks(found)


def marks(span: ReadableSpan) -> tuple[object, object] | None:
    attributes = span.attributes or {}
    if "wyrd.run_id" not in attributes and "wyrd.card_uid" not in attributes:
        return None
    return attributes["wyrd.run_id"], attributes["wyrd.card_uid"]


def of(run: Run) -> tuple[object, object]:
    return run.run_id, run.card_uid


@pytest.fixture
def spans() -> Iterator[Spans]:
    # Nothing that a test leaves in this thread's context reaches the next one.
    found = Spans()
    yield found
    found.provider.shutdown()


@pytest.fixture(autouse=True)
def no_scope_is_left_behind() -> Iterator[None]:
    yield
    found = Spans()
    found.span("after")
    assert found.of("after") is None


def test_spans_inside_the_block_carry_run_and_card_and_no_others_do(spans: Spans, state: WyrdState) -> None:
    spans.span("before")
    with state.run("policy") as run, spans.tracer.start_as_current_span("outer"):
        spans.span("inner")
    spans.span("after")
    assert (spans.of("before"), spans.of("after")) == (None, None)
    assert spans.of("outer") == spans.of("inner") == of(run)
    assert run.card_uid == state.card("policy").uid


def test_opening_a_run_without_entering_it_marks_nothing(spans: Spans, state: WyrdState) -> None:
    state.run("policy")
    spans.span("span")
    assert spans.of("span") is None


def test_nested_runs_and_siblings_give_way_and_come_back(spans: Spans, state: WyrdState) -> None:
    with state.run() as outer:
        with outer.for_card("policy") as sibling:
            spans.span("sibling")
            with state.run() as other, other:
                spans.span("other")
            spans.span("sibling again")
        spans.span("outer again")
    assert spans.of("sibling") == spans.of("sibling again") == of(sibling)
    assert spans.of("other") == of(other)
    assert spans.of("outer again") == of(outer)
    assert sibling.run_id == outer.run_id != other.run_id
    assert sibling.card_uid != outer.card_uid


def test_the_active_span_is_marked_unless_it_belongs_to_a_run(spans: Spans, state: WyrdState) -> None:
    with spans.tracer.start_as_current_span("request"), state.run("policy") as run, state.run():
        pass
    assert spans.of("request") == of(run)


def test_an_error_in_the_block_leaves_it_as_it_is(spans: Spans, state: WyrdState) -> None:
    with pytest.raises(KeyError, match="mine"), state.run():
        raise KeyError("mine")
    spans.span("after")
    assert spans.of("after") is None


async def test_tasks_inherit_the_run_they_are_started_in_and_keep_to_themselves(
    spans: Spans, state: WyrdState
) -> None:
    both = asyncio.Barrier(2)

    async def request(name: str) -> Run:
        with state.run() as run:
            await both.wait()
            spans.span(name)
            await asyncio.create_task(child(f"{name} task"))
            await asyncio.to_thread(spans.span, f"{name} thread")
            await both.wait()
        return run

    async def child(name: str) -> None:
        spans.span(name)

    first, second = await asyncio.gather(request("first"), request("second"))
    for run, name in ((first, "first"), (second, "second")):
        assert {spans.of(f"{name}{kind}") for kind in ("", " task", " thread")} == {of(run)}
    assert first.run_id != second.run_id


def test_a_thread_that_inherits_pythons_context_inherits_the_run(spans: Spans, state: WyrdState) -> None:
    with ThreadPoolExecutor(1) as pool, state.run() as run:
        pool.submit(contextvars.copy_context().run, spans.span, "inherits").result()
        pool.submit(spans.span, "inherits nothing").result()
    assert spans.of("inherits") == of(run)
    assert spans.of("inherits nothing") is None


def test_a_thread_that_is_handed_opentelemetrys_context_has_the_run(spans: Spans, state: WyrdState) -> None:
    def work(context: Context) -> None:
        otel_context.attach(context)
        spans.span("attached")

    with state.run() as run:
        context = otel_context.get_current()
        thread = threading.Thread(target=work, args=(context,))
        thread.start()
        thread.join()
        other = threading.Thread(target=spans.span, args=("given", context))
        other.start()
        other.join()
    assert spans.of("attached") == spans.of("given") == of(run)


def test_a_child_belongs_to_its_parents_run_wherever_it_starts(spans: Spans, state: WyrdState) -> None:
    with state.run() as run:
        parent = spans.tracer.start_span("parent")
        context = trace.set_span_in_context(parent, Context())
    with ThreadPoolExecutor(1) as pool:
        pool.submit(spans.span, "child", context).result()
    with state.run():
        captured = otel_context.get_current()
    with state.run() as later:
        spans.span("of the earlier run", captured)
        spans.span("of the later run")
    parent.end()
    assert spans.of("child") == of(run)
    assert spans.of("of the earlier run") not in (None, of(later))
    assert spans.of("of the later run") == of(later)


def test_a_framework_that_replaces_opentelemetrys_context_does_not_lose_the_run(
    spans: Spans, state: WyrdState
) -> None:
    with state.run() as run:
        token = otel_context.attach(Context())  # as read from a request without baggage
        spans.span("request")
        otel_context.detach(token)
        spans.span("after it")
    assert spans.of("request") == spans.of("after it") == of(run)


def test_a_generator_that_holds_its_block_open_ends_only_its_own(spans: Spans, state: WyrdState) -> None:
    seen: dict[str, Run] = {}

    def streamed() -> Iterator[str]:
        with state.run() as run:
            seen["generator"] = run
            spans.span("in generator")
            yield "first"
            spans.span("in generator again")

    stream = streamed()
    next(stream)
    with state.run() as run:
        assert list(stream) == []
        spans.span("in block")
    spans.span("after both")
    assert spans.of("in generator") == of(seen["generator"])
    assert spans.of("in block") == of(run)
    assert spans.of("after both") is None


async def test_an_async_generator_closed_by_another_task_disturbs_nobody(
    spans: Spans, state: WyrdState, caplog: pytest.LogCaptureFixture
) -> None:
    async def streamed() -> AsyncIterator[str]:
        with state.run():
            yield "first"
            spans.span("in generator")

    async def begin() -> AsyncIterator[str]:
        stream = streamed()
        await anext(stream)
        return stream

    stream = await asyncio.create_task(begin())
    with state.run() as run:
        assert [one async for one in stream] == []
        spans.span("in block")
    assert spans.of("in block") == of(run)
    spans.span("after")
    assert spans.of("after") is None
    assert not caplog.records


def test_values_that_the_application_attached_in_the_block_outlive_it(spans: Spans, state: WyrdState) -> None:
    def application() -> None:
        with state.run():
            otel_context.attach(otel_context.set_value("mine", 1))
        assert otel_context.get_value("mine") == 1
        spans.span("after")

    contextvars.copy_context().run(application)
    assert spans.of("after") is None


def test_correlation_is_installed_once_a_provider_and_never_raises(state: WyrdState) -> None:
    calls: list[object] = []

    class Counting(TracerProvider):
        def add_span_processor(self, span_processor: object) -> None:
            calls.append(span_processor)

    provider = Counting()
    assert otel.install_run_correlation(provider)
    assert otel.install_run_correlation(provider)
    assert [type(one) for one in calls] == [otel.RunSpanProcessor]
    assert not otel.install_run_correlation(object())

    class Broken(TracerProvider):
        def add_span_processor(self, span_processor: object) -> None:
            raise RuntimeError("no")

    assert not otel.install_run_correlation(Broken())


def test_a_span_that_takes_no_attributes_breaks_nothing(
    state: WyrdState, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise RuntimeError("no attributes today")

    spans = Spans()
    with spans.tracer.start_as_current_span("active"):
        with monkeypatch.context() as patched:
            patched.setattr(Span, "set_attribute", refused)
            with state.run() as run:
                pass
        assert run.run_id


@pytest.mark.parametrize("installed", [True, False])
def test_a_run_needs_no_opentelemetry_and_loads_none(installed: bool, pulled: tuple[Bundled, Path]) -> None:
    hidden = "" if installed else "sys.modules['opentelemetry'] = None\n"
    code = (
        f"import sys\n{hidden}"
        "import wyrd\n"
        f"state = wyrd.WyrdState.from_path({str(pulled[1])!r})\n"
        "with state.run('policy') as run, run.for_card('policy'):\n    pass\n"
        "assert not any(name.startswith('opentelemetry.') for name in sys.modules)\n"
        "import wyrd.otel\n"
        "assert not any(name.startswith('opentelemetry.') for name in sys.modules)\n"
    )
    if not installed:
        code += (
            "assert wyrd.otel.install_run_correlation() is False\n"
            "client = wyrd.WyrdClient(credential='t')\n"
            f"state = wyrd.WyrdState.from_path({str(pulled[1])!r}, client)\n"
            "for call in (lambda: wyrd.otel.span_exporter(client), state.start_telemetry):\n"
            "    try: call()\n"
            "    except ImportError as error: assert 'wyrd-temporal[otel]' in str(error), error\n"
            "    else: raise AssertionError('no ImportError')\n"
        )
    environment = {"PYTHONPATH": str(SDK), "PATH": "", "PYTHONSAFEPATH": "1"}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)
