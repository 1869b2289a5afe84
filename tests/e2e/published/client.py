# mypy: ignore-errors
# ruff: noqa: T201
"""Run by path in an environment that holds the published client: `client.py CARDS FOLDER`.

Does what an application does with the client, and prints what came of it as one JSON object, one
member for each operation. `{"error": {...}}` stands in the place of one that failed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import pyarrow as pa
from opentelemetry import trace

from wyrd import Cards, WyrdClient, WyrdError, WyrdState
from wyrd.bifrost import Bifrost, TableConfig
from wyrd.verify import Execution

WYRD = str(Path(sys.executable).parent / "wyrd")
CARDS, FOLDER = Path(sys.argv[1]), Path(sys.argv[2])
DATASET = "vala.datasets.notes"
told: dict[str, object] = {}


class Note:
    """A row of the dataset, as a model that validates it."""

    def __init__(self, note_id: str, length: int) -> None:
        self.note_id, self.length = note_id, length

    @classmethod
    def model_validate(cls, row):
        return cls(row["note_id"], row["length"])


def operation(work):
    """Keep what an operation came to, and go on with the next one when it failed."""
    try:
        told[work.__name__] = work()
    except WyrdError as error:
        told[work.__name__] = {
            "error": {"code": error.code, "message": str(error), "details": repr(error.details)}
        }
    except Exception as error:
        told[work.__name__] = {"error": {"type": type(error).__name__, "message": str(error)[:2000]}}
    return work


def until(look, seconds=60):
    """Poll what becomes queryable a while after it was stored."""
    end = time.monotonic() + seconds
    while not (found := look()) and time.monotonic() < end:
        time.sleep(0.2)
    return found


def cli(*arguments, text=None):
    done = subprocess.run(
        [WYRD, *arguments], input=text, capture_output=True, encoding="utf-8", timeout=90, check=False
    )
    assert done.returncode == 0, f"wyrd {' '.join(arguments)} ended with {done.returncode}: {done.stderr}"
    return done.stdout


client = WyrdClient()
state = WyrdState.declare(CARDS / "support-desk.yaml")
bifrost = Bifrost()
runs: dict[str, str] = {}


@operation
def declared():
    return {
        "root": str(state.root_ref),
        "aliases": list(state.aliases),
        "listed": sorted(one.name for one in Cards().list(space="support").items),
        "again": str(WyrdState.declare(CARDS / "support-desk.yaml").root_ref),
    }


@operation
def verified():
    run = state.run()
    runs["verified"] = run.run_id
    good = run.observe.verify("no-sure-refund", "We will look into it.")
    bad = run.observe.verify("no-sure-refund", answer="You have a guaranteed refund.")
    return [str(good.verdict), str(bad.verdict), good.requirements[0]["outcome"]]


@operation
def submitted():
    run = state.run()
    execution = run.observe.submit("no-sure-refund", "We will look into it.")
    result = execution.wait(60)
    again = Execution(execution.id)
    return [str(result.verdict), again.status()["status"], result.execution_id == execution.id]


@operation
def started():
    state.start_bifrost()
    state.start_telemetry()


@operation
def recorded():
    with state.run("agent") as run:
        runs["recorded"] = run.run_id
        with trace.get_tracer("desk").start_as_current_span("answer") as span:
            span.set_attribute("question", "Where is my order?")
            runs["trace"] = format(span.get_span_context().trace_id, "032x")
            with trace.get_tracer("desk").start_as_current_span("look up"):
                pass
        for number in range(3):
            run.observe.record(
                "vala.datasets.tickets",
                {"ticket_id": f"t{number}", "question": "Where?", "answer": "There.", "refund": number == 0},
            )
    state.flush()


@operation
def sampled():
    taken = state.run("agent").observe.submit("answer-tone", {"politeness": 0.75})
    state.flush()
    rows = until(
        lambda: (
            bifrost.sql("SELECT series, num_value, str_value FROM vala.drift.observations")
            .to_arrow()
            .to_pylist()
        )
    )
    return [type(taken).__name__, rows]


@operation
def registered():
    schema = {
        "type": "object",
        "properties": {
            "note_id": {"type": "string"},
            "length": {"type": "integer"},
            "written": {"type": ["string", "null"], "format": "date-time"},
            "extra": {"type": "object"},
        },
        "required": ["note_id", "length"],
    }
    table = TableConfig.from_json_schema(DATASET, schema)
    bifrost.use_table(table)
    outcomes = [bifrost.register(), bifrost.register()]
    described = TableConfig.describe(DATASET)
    return [*outcomes, described.arrow_schema.names, described.resolved is not None]


@operation
def inserted():
    for number in range(5):
        bifrost.insert(
            {
                "note_id": f"n{number}",
                "length": number,
                "written": "2026-01-01T12:00:00Z",
                "extra": {"tags": [number, {"free": None}]},
            }
        )
    bifrost.flush()
    schema = TableConfig.describe(DATASET).arrow_schema
    rows = {"note_id": ["b0", "b1"], "length": [10, 11]}
    bifrost.write_batch(
        DATASET,
        pa.record_batch(
            [pa.array(rows.get(one.name, [None, None]), one.type) for one in schema], schema=schema
        ),
    )


@operation
def queried():
    def stored():
        found = bifrost.sql(f"SELECT note_id, length FROM {DATASET} ORDER BY length")
        return found if found.num_rows == 7 else None

    result = until(stored)
    typed = bifrost.sql(
        f"SELECT note_id, length FROM {DATASET} WHERE length >= $1 ORDER BY length", [10], model=Note
    )
    streamed = bifrost.stream(f"SELECT length FROM {DATASET}", deadline_ms=30_000)
    return {
        "rows": result.to_arrow().to_pylist(),
        "extra": bifrost.sql(f"SELECT extra FROM {DATASET} WHERE note_id = $1", ["n3"])
        .to_arrow()
        .to_pylist(),
        "typed": [[one.note_id, one.length] for one in typed],
        "outcome": result.terminal.outcome,
        "streamed": sum(batch.num_rows for batch in streamed),
    }


@operation
def joined():
    sql = (
        "SELECT t.run_id, t.ticket_id, t.refund, r.verdict, r.verifier_version"
        " FROM vala.datasets.tickets AS t"
        " LEFT JOIN vala.verification.results AS r ON r.run_id = t.run_id WHERE t.ticket_id = $1"
    )
    rows = until(lambda: bifrost.sql(sql, ["t0"]).to_arrow().to_pylist())
    verdicts = "SELECT verdict FROM vala.verification.results WHERE run_id = $1 ORDER BY verdict"
    own = until(lambda: bifrost.sql(verdicts, [runs["verified"]]).to_arrow().to_pylist())
    return [rows[0]["run_id"] == runs["recorded"], rows, own]


@operation
def refused():
    try:
        bifrost.sql("SELECT * FROM no_such_table")
    except WyrdError as error:
        return error.code
    return None


@operation
def tables():
    tickets = bifrost.describe_table("vala.datasets", "tickets")
    return {
        "listed": sorted(f"{one['namespace']}.{one['name']}" for one in bifrost.list_tables()),
        "user_fields": [one["name"] for one in tickets["user_fields"]],
        "correlation_fields": [one["name"] for one in tickets["correlation_fields"]],
    }


@operation
def timeline():
    spans = until(lambda: bifrost.trace_timeline(runs["trace"]))
    return {"names": [one["name"] for one in spans], "attributes": spans[0]["attributes"]}


@operation
def running():
    slow = "SELECT count(*) AS n FROM range(100000000) a, range(1000000) b"
    ended = []

    def read():
        try:
            list(bifrost.stream(slow, deadline_ms=60_000))
        except WyrdError as error:
            ended.append(error.code)

    reading = threading.Thread(target=read)
    reading.start()
    [found] = until(bifrost.running)
    status = bifrost.status(found["request_id"])
    cancelled = bifrost.cancel(found["request_id"])
    reading.join(60)
    return [
        status["request_id"] == found["request_id"],
        status["state"],
        cancelled["cancellation_started"],
        ended,
    ]


@operation
def pulled():
    bundle = FOLDER / "bundle"
    ref = state.root_ref
    cli(
        *("pull", "--kind", "Service", "--space", "support", "--name", "support-desk"),
        *("--version", "1.0.0", "--output-dir", str(bundle)),
    )
    loaded = WyrdState.from_path(bundle)
    return [str(loaded.root_ref) == str(ref), list(loaded.aliases), str(loaded.prompt("prompt").name)]


@operation
def queried_by_command():
    out = cli("query", "--sql", f"SELECT note_id FROM {DATASET} ORDER BY note_id LIMIT 2")
    return [json.loads(line) for line in out.splitlines()]


def agent(*messages):
    """What the client's MCP proxy answers to a host, which speaks the protocol with a handshake."""
    hello = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "host", "version": "1"},
    }
    process = subprocess.Popen(
        [WYRD, "mcp", "proxy"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
    )
    answers = []

    def say(message):
        process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        process.stdin.flush()

    try:
        say({"id": 0, "method": "initialize", "params": hello})
        answers.append(json.loads(process.stdout.readline()))
        say({"method": "notifications/initialized"})
        for number, (method, params) in enumerate(messages, 1):
            say({"id": number, "method": method, "params": params})
            answers.append(json.loads(process.stdout.readline()))
    finally:
        process.stdin.close()
        process.wait(30)
    return answers


@operation
def tools():
    card = {"kind": "Service", "space": "support", "name": "support-desk", "version": "1.0.0"}
    sql = f"SELECT count(*) AS n FROM {DATASET}"
    _hello, listed, got, counted, wrong = agent(
        ("tools/list", {}),
        ("tools/call", {"name": "cards.get", "arguments": {"card_ref": card}}),
        ("tools/call", {"name": "bifrost.query", "arguments": {"sql": sql}}),
        ("tools/call", {"name": "bifrost.query", "arguments": {"sql": "DROP TABLE x"}}),
    )
    refusal = json.loads(wrong["result"]["content"][0]["text"])
    return {
        "names": [tool["name"] for tool in listed["result"]["tools"]],
        "uid": json.loads(got["result"]["content"][0]["text"])["card"]["metadata"]["uid"]
        == state.root_ref.uid,
        "counted": json.loads(counted["result"]["content"][0]["text"]),
        "refused": [wrong["result"]["isError"], refusal.get("code")],
    }


@operation
def closed():
    state.shutdown()
    bifrost.shutdown()


print(json.dumps(told, default=str))
