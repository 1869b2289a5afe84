"""The support desk, from declaration to verdicts, on the embedded stack of one machine.

Starts `wyrd up` in a folder of its own, declares the Service with its Verifiers, answers some
questions, verifies each answer in the request, submits refund letters to the queue, and prints
every verdict with what it rests on. Letters are judged by a scripted provider, which says so,
and by the real one as well when OPENAI_API_KEY is set.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from opentelemetry import trace

import wyrd
from wyrd.errors import WyrdError
from wyrd.verify import Execution, File, VerificationResult

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))

from examples.scripted_provider import Reply, Rule, ScriptedProvider  # noqa: E402
from examples.support_desk.background import Receiver, watch  # noqa: E402

QUESTIONS = [
    ("T-1", "O-1001", "Where is my parcel?", "It left our warehouse this morning and arrives tomorrow."),
    ("T-2", "O-1002", "Can I send the lamp back?", "Yes, within 30 days; you have a guaranteed refund."),
    ("T-3", "", "Do you ship to Iceland?", "We do, in about six days."),
]


def cites(outcome: str, reason: str, start: int, end: int) -> Reply:
    """A scripted Verdict that cites lines of the letter."""
    locator = {"lines": {"start": start, "end": end}}
    return Reply(
        json={"outcome": outcome, "reason": reason, "citations": [{"slot": "letter", "locator": locator}]}
    )


SCRIPT = [
    Rule(
        [cites("passed", "64 dollars, nine days after the purchase: rule 1 allows it.", 5, 6)], ["Ms Aster"]
    ),
    Rule([cites("failed", "240 dollars without a manager's approval breaks rule 2.", 5, 6)], ["Mr Bell"]),
]


def say(text: str = "") -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def show(result: VerificationResult, evidence: dict[str, str] | None = None) -> None:
    """A verdict, its requirements, and the places it cites, quoted."""
    say(f"  verdict: {result.verdict.upper()}   ({result.verifier.name}@{result.verifier.version})")
    for requirement in result.requirements:
        say(f"    {requirement.outcome:<12} {requirement.statement}")
        say(f"                 because {requirement.reason}")
        for citation in requirement.citations:
            say(f"                 citing {quoted(citation, result, evidence or {})}")
        judged = requirement.provenance or {}
        if judged.get("kind") == "agent":
            say(f"                 judged by the model {judged['model']} of policy-judge")


def quoted(citation: Any, result: VerificationResult, texts: dict[str, str]) -> str:
    """The cited place with what stands there."""
    locator = citation.locator
    if locator.lines is not None and citation.slot in texts:
        lines = texts[citation.slot].splitlines()[locator.lines.start - 1 : locator.lines.end]
        return f"{citation.slot}, lines {locator.lines.start}-{locator.lines.end}: " + " / ".join(lines)
    if locator.json_pointer is not None:
        value: Any = result.evidence[citation.slot].get("value")
        for part in locator.json_pointer.split("/")[1:]:
            value = value[part]
        return f"{citation.slot}{locator.json_pointer or ' as a whole'}: {json.dumps(value)}"
    return f"{citation.slot}"


def start_stack(home: Path) -> tuple[subprocess.Popen[str], dict[str, str]]:
    """`wyrd up`, ready; what it says about itself."""
    process = subprocess.Popen(
        [sys.executable, "-m", "wyrd.cli", "up", "--home", str(home), "--port", "0", "--format", "json"],
        stdout=subprocess.PIPE,
        # The receiver of this demo is a private address, which Operators reach only when it is allowed.
        env={**os.environ, "WYRD_OPERATOR_DESTINATIONS": "127.0.0.1", "WYRD_WINDOW_MARGIN_SECONDS": "2"},
        text=True,
        encoding="utf-8",
    )
    assert process.stdout is not None
    text = ""
    for line in process.stdout:
        text += line
        try:
            return process, json.loads(text)  # noqa: TID251 - what a user's program would write
        except ValueError:
            continue
    raise SystemExit(f"wyrd up ended with {process.wait()}; its logs are in {home}/logs")


def judge_letters(state: wyrd.WyrdState) -> None:
    """Submit both letters, then wait for both."""
    executions: list[tuple[str, Execution]] = []
    with state.run("agent") as run:
        for name in ("letter.md", "letter-over-limit.md"):
            execution = run.observe.submit("letter-follows-policy", letter=File(HERE / name))
            assert isinstance(execution, Execution)
            executions.append((name, execution))
            say(f"  {name}: execution {execution.id}")
            say(f"     workflow: {execution.workflow_url}")
    for name, execution in executions:
        result = execution.wait(120)
        say(f"  {name}:")
        show(result, {"letter": (HERE / name).read_text(encoding="utf-8")})


def answered(question: str, answer: str) -> str:
    """The desk's own work on one question, as its spans tell of it. The answers are written above: what a
    model would say is not what this demo is about."""
    tracer = trace.get_tracer("support-desk")
    with tracer.start_as_current_span("answer"):
        with tracer.start_as_current_span("look up order"):
            pass
        with tracer.start_as_current_span("chat", kind=trace.SpanKind.CLIENT) as call:
            call.set_attribute("gen_ai.request.model", "desk-1")
            call.set_attribute("gen_ai.usage.output_tokens", len(answer.split()))
    return answer


def answer_questions(state: wyrd.WyrdState) -> str:
    """Answer each question; verify the answer and its ticket before they go out, and record the ticket.
    The last trace's id."""
    trace_id = ""
    for ticket_id, order_id, question, words in QUESTIONS:
        with state.run() as run, trace.get_tracer("support-desk").start_as_current_span("request") as span:
            trace_id = trace.format_trace_id(span.get_span_context().trace_id)
            answer = answered(question, words)
            say(f"  {ticket_id} {question!r} -> {answer!r}")
            show(run.observe.verify("no-sure-refund", answer=answer))
            ticket = {"ticket_id": ticket_id, "answer": answer, "order_id": order_id, "customer": "c-7"}
            show(run.for_card("agent").observe.verify("ticket-complete", ticket=ticket))
            run.for_card("agent").observe.record(
                "vala.datasets.tickets",
                {
                    "ticket_id": ticket_id,
                    "question": question,
                    "answer": answer,
                    "refund": "refund" in answer,
                },
            )
    return trace_id


JOIN = """
SELECT t.run_id, t.question, t.answer, r.verdict, r.verifier_version
FROM vala.datasets.tickets AS t
JOIN vala.verification.results AS r ON r.run_id = t.run_id
WHERE t.ticket_id = $1
ORDER BY r.verifier
"""


def ask_bifrost(client: wyrd.WyrdClient, trace_id: str) -> None:
    """The tickets beside their verdicts, and the spans of one request."""
    bifrost = wyrd.Bifrost(client)
    say("  " + " ".join(JOIN.split()).replace("$1", "'T-2'"))
    for row in eventually(lambda: bifrost.sql(JOIN, ["T-2"]).to_arrow().to_pylist(), 2):
        say(f"    run {row['run_id'][:13]}…  {row['verdict']:<7}  {row['question']}  {row['answer']}")
    say(f"\n  the timeline of trace {trace_id}")
    depths: dict[str, int] = {}
    for span in eventually(lambda: bifrost.trace_timeline(trace_id), 4):
        depths[span["span_id"]] = depth = depths.get(span.get("parent_span_id", ""), -1) + 1
        model = span["attributes"].get("gen_ai.request.model", "")
        say(f"    {'  ' * depth + span['name']:<24} {span['duration_ms']:>4} ms  {span['kind']:<8} {model}")


def eventually(read: Callable[[], list[Any]], count: int) -> list[Any]:
    """What is stored becomes visible a moment later; ask again until it has."""
    deadline = time.monotonic() + 20
    while True:
        try:
            found = read()
        except WyrdError as error:
            if error.status != 404 or time.monotonic() > deadline:
                raise
            found = []
        if len(found) >= count or time.monotonic() > deadline:
            return found
        time.sleep(0.2)


def run(home: Path, provider: ScriptedProvider, *, real: bool) -> None:
    # The Cards name the deployment `openai`; who answers for it is this server's configuration.
    played = {"adapter": "openai_compatible", "base_url": provider.url}
    openai = {"adapter": "openai", "api_key_env": "OPENAI_API_KEY"} if real else played
    config = yaml.safe_dump({"deployments": {"openai": openai}})
    (home / "gateway.yaml").write_text(config, encoding="utf-8")
    process, stack = start_stack(home)
    try:
        key = Path(stack["dev_key_file"]).read_text(encoding="utf-8").strip()
        client = wyrd.WyrdClient(stack["api"], key)
        say(f"API {stack['api']}   Temporal UI {stack['temporal_ui']}   home {stack['home']}")
        say("\n== Declare the Service and everything it refers to")
        state = wyrd.WyrdState.declare(HERE / "support-desk.yaml", client)
        say(f"  {state.root_ref}")
        if not real:
            say("\n== Answer questions; verify each answer, record its ticket and its trace")
            state.start_bifrost()
            state.start_telemetry()
            trace_id = answer_questions(state)
            state.flush()
            say("\n== Ask Bifrost what was recorded")
            ask_bifrost(client, trace_id)
        judge = "OpenAI" if real else "a SCRIPTED provider on loopback (no model was called)"
        say(f"\n== Submit refund letters; judged by {judge}")
        judge_letters(state)
        if not real:
            say("\n== In the background: a conversation, a drift, and who is told (two to three minutes)")
            with Receiver().serving() as receiver, tempfile.TemporaryDirectory() as folder:
                watch(client, Path(folder), receiver, say)
    finally:
        process.send_signal(signal.SIGINT)
        code = process.wait(60)
    say(f"\nEverything is stopped (wyrd up ended with {code}).")


def main() -> None:
    with ScriptedProvider(SCRIPT) as provider, tempfile.TemporaryDirectory(prefix="wyrd-demo-") as folder:
        run(Path(folder), provider, real=False)
        if os.environ.get("OPENAI_API_KEY"):
            with tempfile.TemporaryDirectory(prefix="wyrd-demo-") as second:
                run(Path(second), provider, real=True)


if __name__ == "__main__":
    main()
