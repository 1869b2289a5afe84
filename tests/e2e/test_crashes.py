"""kill −9 in the middle: the embedded stack as users run it, in real processes."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import httpx
import psutil
import pytest
import yaml

from examples.scripted_provider import Reply, ScriptedProvider
from tests.e2e.stack import agent_spec, asserting, card, coded, outcomes, sibling, step
from wyrd.wire.ids import uuid7

pytestmark = pytest.mark.timeout(300)

BUSY = Reply(status=503, error={"message": "busy", "type": "server_error"})
FINAL = ("completed", "cancelled", "timed_out", "errored")


@dataclass
class Up:
    """A running `wyrd up`."""

    process: subprocess.Popen[str]
    addresses: dict[str, str]
    key: str
    killed: bool = False

    @property
    def http(self) -> httpx.Client:
        headers = {"authorization": f"Bearer {self.key}"}
        return httpx.Client(base_url=self.addresses["api"], headers=headers, timeout=30, trust_env=False)

    def child(self, mark: str) -> psutil.Process:
        """The child process whose command line holds `mark`, once there is one."""
        return eventually(lambda: self._child(mark), f"a {mark} process")

    def _child(self, mark: str) -> psutil.Process | None:
        for process in psutil.Process(self.process.pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                command = process.cmdline()
                if any(mark in part for part in command) and not any("tether" in part for part in command):
                    return process
        return None

    def kill(self, mark: str) -> None:
        """SIGKILL; the supervisor starts another."""
        killed = self.child(mark)
        killed.kill()
        eventually(lambda: not alive(killed), "its death")

    def call(self, method: str, path: str, **options: Any) -> httpx.Response:
        """A request that is repeated, with the same headers, while the API is away."""

        def once() -> httpx.Response | None:
            try:
                with self.http as http:
                    answer = http.request(method, path, **options)
            except httpx.TransportError:
                return None
            return None if answer.status_code == 503 else answer

        return eventually(once, f"an answer to {method} {path}")

    def declare(self, *submissions: dict[str, Any]) -> dict[str, str]:
        headers = {"idempotency-key": f"declare-{uuid7()}"}
        answer = self.call("POST", "/v1/cards", json={"submissions": list(submissions)}, headers=headers)
        assert answer.status_code < 300, answer.text
        return {one["card_ref"]["name"]: one["card_ref"]["uid"] for one in answer.json()["outcomes"]}

    def bind(self, name: str, spec: dict[str, Any]) -> dict[str, str]:
        service = card("Service", f"{name}-desk", {"verified_by": [{"verifier": sibling("Verifier", name)}]})
        uids = self.declare(card("Verifier", name, spec), service)
        return {"verifier_card_uid": uids[name], "card_uid": uids[f"{name}-desk"]}

    def submit(self, target: dict[str, str], key: str | None = None, **inputs: Any) -> str:
        told = {slot: {"kind": "json", "value": value} for slot, value in inputs.items()}
        headers = {"idempotency-key": key or f"verification-submit-{uuid7()}"}
        body = {**target, "inputs": told}
        answer = self.call("POST", "/v1/verification/enqueue", json=body, headers=headers)
        assert answer.status_code == 202, answer.text
        execution_id: str = answer.json()["execution_id"]
        return execution_id

    def ended(self, execution_id: str, seconds: float = 120) -> dict[str, Any]:
        def once() -> dict[str, Any] | None:
            answer = self.call("GET", f"/v1/verification/executions/{execution_id}")
            found: dict[str, Any] = answer.json()
            return found if found["status"] in FINAL else None

        return eventually(once, f"the end of {execution_id}", seconds)


T = TypeVar("T")


def eventually(look: Callable[[], T | None], what: str, seconds: float = 60) -> T:
    """Poll a foreign process until it shows something; fails when it does not."""
    pause = threading.Event()
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := look():
            return found
        pause.wait(0.05)
    raise AssertionError(f"waited {seconds:g} s for {what}")


def alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


@contextlib.contextmanager
def started(home: Path) -> Iterator[Up]:
    process = subprocess.Popen(
        [sys.executable, "-m", "wyrd.cli", "up", "--home", str(home), "--port", "0", "--format", "json"],
        stdout=subprocess.PIPE,
        encoding="utf-8",
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    try:
        assert process.stdout is not None
        text = ""
        for line in process.stdout:
            text += line
            with contextlib.suppress(ValueError):
                addresses = json.loads(text)
                break
        else:
            raise AssertionError(f"wyrd up ended with {process.wait()}")
        key = Path(addresses["dev_key_file"]).read_text(encoding="utf-8").strip()
        running = Up(process, addresses, key)
        yield running
        if not running.killed:
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 0
    finally:
        try:
            process.kill()
            process.wait()
        finally:
            assert process.stdout is not None
            process.stdout.close()


@pytest.fixture(scope="module")
def provider() -> Iterator[ScriptedProvider]:
    with ScriptedProvider() as server:
        yield server


@pytest.fixture(scope="module")
def up(provider: ScriptedProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    home = tmp_path_factory.mktemp("up")
    deployments = {"scripted": {"adapter": "openai_compatible", "base_url": provider.url}}
    (home / "gateway.yaml").write_text(yaml.safe_dump({"deployments": deployments}), encoding="utf-8")
    with started(home) as running:
        yield running


def asking(retries: int) -> dict[str, Any]:
    action = {"kind": "agent", "agent": agent_spec("Say {{a}}"), "inputs": {"a": "inputs.a"}}
    return {
        "inputs": {"a": {"type": "json"}},
        "steps": [{"id": "ask", "action": action, "retries": retries, "timeout_seconds": 60}],
        "requirements": [asserting("steps.ask.output", "equals", "fine")],
    }


def mixed() -> dict[str, Any]:
    """A Verifier whose blocks need the worker: a code step, a code check, an assertion."""
    source = "def double(n):\n    return {'n': 2 * n}"
    action = {
        "kind": "code",
        "entrypoint": "double",
        "source": {"inline": source},
        "inputs": {"n": "inputs.n"},
    }
    check = "def check(n):\n    return {'outcome': 'passed', 'reason': str(n), 'citations': []}"
    return {
        "inputs": {"n": {"type": "json"}},
        "steps": [{"id": "double", "action": action}],
        "requirements": [
            asserting("steps.double.output.n", "is_number", id="number"),
            coded(check, {"n": "steps.double.output.n"}, id="code"),
        ],
    }


@pytest.mark.parametrize(
    ("retries", "status", "verdict"), [(2, "succeeded", "passed"), (1, "failed", "inconclusive")]
)
def test_a_worker_killed_in_an_attempt_uses_up_no_retry(
    up: Up, provider: ScriptedProvider, retries: int, status: str, verdict: str
) -> None:
    target = up.bind(f"asking-{retries}", asking(retries))
    provider.script([BUSY, Reply(behaviour="hang"), BUSY, Reply(text="fine")])
    before = len(provider.requests)
    execution_id = up.submit(target, a="x")
    assert provider.wait_requests(before + 2, 60), "the second attempt has not begun"
    up.kill("worker.py")
    found = up.ended(execution_id)
    asked = step(found, "ask")
    assert (asked["status"], found["result"]["outcome"]["verdict"]) == (status, verdict)
    log = asked["attempt_log"]
    kinds = [attempt.get("error", {}).get("kind") for attempt in log]
    assert kinds[:3] == ["provider_error", "worker_lost", "provider_error"]
    assert [attempt["number"] for attempt in log] == list(range(1, len(log) + 1))
    if retries == 2:
        assert kinds[3:] == [None]
    else:
        assert "503" in asked["reason"]


def submit_many(up: Up, target: dict[str, str], count: int, killer: Callable[[], None]) -> dict[str, str]:
    """Submit `count` executions from several threads; `killer` runs when a third of them are in."""
    accepted: dict[str, str] = {}
    third = threading.Event()
    lock = threading.Lock()

    def one(number: int) -> None:
        key = f"verification-submit-{uuid7()}"
        execution_id = up.submit(target, key, n=number)
        with lock:
            accepted[key] = execution_id
            if len(accepted) >= count // 3:
                third.set()

    def kill() -> None:
        assert third.wait(120)
        killer()

    with ThreadPoolExecutor(9) as threads:
        killing = threads.submit(kill)
        list(threads.map(one, range(count)))
        killing.result()
    return accepted


@pytest.mark.parametrize("victim", ["worker.py", "uvicorn"])
def test_every_accepted_execution_ends_once_though_a_process_was_killed(up: Up, victim: str) -> None:
    target = up.bind(f"mixed-{victim.partition('.')[0]}", mixed())
    count = 100
    accepted = submit_many(up, target, count, lambda: up.kill(victim))
    assert len(set(accepted.values())) == count
    for execution_id in accepted.values():
        found = up.ended(execution_id)
        assert found["status"] == "completed", found
        assert outcomes(found) == {"number": "passed", "code": "passed"}
    listed: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        params = {"verifier": target["verifier_card_uid"], "limit": "1000", **cursor}
        page = up.call("GET", "/v1/verification/executions", params=params).json()
        listed += [item["execution_id"] for item in page["items"]]
        if page["next_cursor"] is None:
            break
        cursor = {"cursor": page["next_cursor"]}
    # One row for each, whatever the retries and the crash: the row is the only result.
    assert sorted(listed) == sorted(accepted.values())


def test_everything_killed_at_once_comes_back_with_its_data(tmp_path: Path) -> None:
    with started(tmp_path) as first:
        target = first.bind("before", mixed())
        execution_id = first.submit(target, n=1)
        before = first.ended(execution_id)
        children = psutil.Process(first.process.pid).children(recursive=True)
        first.process.kill()
        first.killed = True
    eventually(lambda: not any(map(alive, children)), "the children to die with `up`")
    with started(tmp_path) as second:
        assert second.key == first.key
        after = second.ended(execution_id)
        # The Temporal UI listens on another port now; nothing else may differ.
        assert after.pop("workflow_url") != before.pop("workflow_url")
        assert after == before
        assert second.ended(second.submit(target, n=2))["status"] == "completed"


def test_two_stacks_on_one_home_are_refused_and_on_two_homes_are_fine(up: Up, tmp_path: Path) -> None:
    home = up.addresses["home"]
    again = subprocess.run(
        [sys.executable, "-m", "wyrd.cli", "up", "--home", home, "--port", "0", "--format", "json"],
        capture_output=True,
        encoding="utf-8",
        timeout=60,
    )
    assert again.returncode != 0
    assert "wyrd_cli_error" in again.stderr
    with started(tmp_path) as other:
        assert other.addresses["api"] != up.addresses["api"]
        assert other.call("GET", "/readyz").status_code == up.call("GET", "/readyz").status_code == 200
