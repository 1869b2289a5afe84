"""The published client, as the package index has it, against a real `wyrd up`.

`published/client.py` runs where nothing of ours is importable, does what an application does, and
says what came of it; each test here looks at one operation. Skipped only where the index is away.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from tests.e2e.test_crashes import started
from tests.repository.installation import Installation, closure

CLIENT = "wyrd-ai==0.3.0"
HERE = Path(__file__).parent / "published"
ITS_LIBRARIES = ("pyarrow>=18", "opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http")
"""What its extra `otel` brings; linked from this environment instead of downloaded again."""

AWAY = (
    *("NewConnectionError", "ConnectTimeoutError", "ReadTimeoutError", "ProxyError"),
    *("NameResolutionError", "Connection refused", "Connection reset", "Network is unreachable"),
)
"""How pip says that it reached no index."""

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """An environment with the published client, and nothing of this project."""
    made = Installation(tmp_path_factory.mktemp("published") / "venv")
    made.link(closure(Requirement(one) for one in ITS_LIBRARIES).values())
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pip", "--python", str(made.python), "install", "--quiet"),
            *("--no-deps", "--retries", "2", "--timeout", "20", CLIENT),
        ],
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    if done.returncode != 0 and any(sign in done.stdout + done.stderr for sign in AWAY):
        pytest.skip(f"no package index can be reached: {done.stderr[-300:]}")
    assert done.returncode == 0, done.stdout + done.stderr
    return made


@pytest.fixture(scope="module")
def told(installation: Installation, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """What the client said of each operation."""
    folder = tmp_path_factory.mktemp("application")
    with started(tmp_path_factory.mktemp("home")) as up:
        done = subprocess.run(
            [str(installation.python), str(HERE / "client.py"), str(HERE / "cards"), str(folder)],
            cwd=folder,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(folder),
                "WYRD_SERVER_URL": up.addresses["api"],
                "WYRD_GRPC_URL": up.addresses["grpc"],
                "WYRD_API_KEY": up.key,
            },
            capture_output=True,
            encoding="utf-8",
            timeout=240,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-4000:]
        yield json.loads(done.stdout)


def test_it_declares_a_service_and_declaring_it_again_changes_nothing(told: dict[str, Any]) -> None:
    declared = told["declared"]
    assert declared["root"].startswith("support/Service/support-desk@1.0.0#")
    assert declared["again"] == declared["root"]
    assert {"agent", "prompt"} <= set(declared["aliases"])
    assert declared["listed"] == [
        *("answer-tone", "desk-agent", "desk-prompt", "no-sure-refund", "support-desk"),
    ]


def test_it_verifies(told: dict[str, Any]) -> None:
    assert told["verified"] == ["passed", "failed", "passed"]


def test_it_submits_and_waits(told: dict[str, Any]) -> None:
    assert told["submitted"] == ["passed", "completed", True]


def test_it_starts_bifrost_and_telemetry(told: dict[str, Any]) -> None:
    assert told["started"] is None


def test_it_records_into_the_table_its_service_declares_and_joins_the_rows(told: dict[str, Any]) -> None:
    assert told["recorded"] is None
    same_run, rows, own = told["joined"]
    assert same_run is True
    [row] = rows
    assert (row["ticket_id"], row["refund"]) == ("t0", True)
    assert own == [{"verdict": "failed"}, {"verdict": "passed"}]


def test_it_records_drift_samples(told: dict[str, Any]) -> None:
    kind, rows = told["sampled"]
    assert kind == "Recorded"
    assert rows == [{"series": "politeness", "num_value": 0.75, "str_value": "0.75"}]


def test_it_registers_a_dataset_and_inserts_into_it(told: dict[str, Any]) -> None:
    assert told["registered"] == [
        *("created", "already_exists"),
        *(["note_id", "length", "written", "extra"], True),
    ]
    assert told["inserted"] is None


def test_it_queries_to_arrow_to_models_and_as_a_stream(told: dict[str, Any]) -> None:
    queried = told["queried"]
    assert [row["note_id"] for row in queried["rows"]] == ["n0", "n1", "n2", "n3", "n4", "b0", "b1"]
    assert queried["typed"] == [["b0", 10], ["b1", 11]]
    assert [json.loads(row["extra"]) for row in queried["extra"]] == [{"tags": [3, {"free": None}]}]
    assert queried["outcome"] == "success"
    assert queried["streamed"] == 7
    assert told["queried_by_command"] == [{"note_id": "b0"}, {"note_id": "b1"}]


def test_it_is_told_what_is_wrong_with_a_query(told: dict[str, Any]) -> None:
    assert told["refused"] == "WYRD_VALA_400_QUERY_INVALID_SQL"


def test_it_lists_and_describes_tables(told: dict[str, Any]) -> None:
    tables = told["tables"]
    assert {
        *("vala.datasets.notes", "vala.datasets.tickets", "vala.drift.observations"),
        *("vala.traces.spans", "vala.verification.results"),
    } <= set(tables["listed"])
    assert tables["user_fields"] == ["ticket_id", "question", "answer", "refund"]
    assert tables["correlation_fields"] == ["card_uid", "run_id"]


def test_it_reads_a_trace_timeline(told: dict[str, Any]) -> None:
    timeline = told["timeline"]
    assert timeline["names"] == ["answer", "look up"]
    assert timeline["attributes"]["question"] == "Where is my order?"
    assert {"wyrd.card_uid", "wyrd.run_id"} <= set(timeline["attributes"])


def test_it_sees_a_running_query_and_cancels_it(told: dict[str, Any]) -> None:
    same, state, cancelled, ended = told["running"]
    assert same is True
    assert state in ("admitted", "running")
    assert cancelled is True
    assert ended == ["WYRD_VALA_504_QUERY_TIMEOUT"]


def test_it_pulls_a_bundle_and_loads_it_from_disk(told: dict[str, Any]) -> None:
    same, aliases, prompt = told["pulled"]
    assert (same, prompt) == (True, "desk-prompt")
    assert {"agent", "prompt"} <= set(aliases)


def test_its_proxy_serves_our_tools_to_agents(told: dict[str, Any]) -> None:
    tools = told["tools"]
    assert {
        *("cards.list", "cards.get", "bifrost.list_tables", "bifrost.describe_table", "bifrost.query"),
        *("verification.executions", "verification.result"),
    } == set(tools["names"])
    assert tools["uid"] is True
    assert tools["counted"]["rows"] == [[7]]
    assert tools["refused"] == [True, "WYRD_VALA_400_QUERY_INVALID_SQL"]


def test_it_closes_with_everything_stored(told: dict[str, Any]) -> None:
    assert told["closed"] is None
