"""The embedded stack and plain HTTP clients for the benchmarks that go over the network."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from wyrd.wire.ids import uuid7

ASSERTION = {
    "inputs": {"answer": {"type": "json"}},
    "requirements": [
        {
            "id": "no-sure-refund",
            "statement": "The answer never promises a guaranteed refund",
            "check": {
                "kind": "assert",
                "path": "inputs.answer",
                "operator": "not_contains",
                "expected": "guaranteed refund",
            },
        }
    ],
}
ANSWER = "Your parcel left our warehouse this morning and should be with you tomorrow before noon."


@dataclass(frozen=True)
class Target:
    """A running stack and a Verifier of one assertion on it."""

    api: str
    temporal: str
    key: str
    verifier_uid: str
    subject_uid: str
    home: str = ""

    @property
    def body(self) -> dict[str, Any]:
        return {
            "verifier_card_uid": self.verifier_uid,
            "card_uid": self.subject_uid,
            "run_id": uuid7(),
            "inputs": {"answer": {"kind": "json", "value": ANSWER}},
        }

    @property
    def headers(self) -> dict[str, str]:
        return {"x-wyrd-access-token": f"Bearer {self.key}", "content-type": "application/json"}


@contextlib.contextmanager
def stack() -> Iterator[Target]:
    """`wyrd up` in a folder of its own, with one bound Verifier."""
    with tempfile.TemporaryDirectory(prefix="wyrd-bench-", ignore_cleanup_errors=True) as home:
        command = [sys.executable, "-m", "wyrd.cli", "up", "--home", home, "--port", "0", "--format", "json"]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        process = subprocess.Popen(command, stdout=subprocess.PIPE, encoding="utf-8", env=environment)
        try:
            assert process.stdout is not None
            text = ""
            for line in process.stdout:
                text += line
                with contextlib.suppress(ValueError):
                    addresses = json.loads(text)
                    break
            else:
                raise RuntimeError(f"wyrd up ended with {process.wait()}")
            key = Path(addresses["dev_key_file"]).read_text(encoding="utf-8").strip()
            yield _declared(addresses, key)
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)


def _declared(addresses: dict[str, str], key: str) -> Target:
    def card(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
        metadata = {"name": name, "version": "1.0.0", "space": "bench"}
        return {"apiVersion": "wyrd/v1", "kind": kind, "metadata": metadata, "spec": spec, "artifacts": []}

    sibling = {"sibling": {"kind": "Verifier", "name": "answer-check", "version": "1.0.0", "space": "bench"}}
    submissions = [
        card("Verifier", "answer-check", ASSERTION),
        card("Service", "desk", {"verified_by": [{"verifier": sibling}]}),
    ]
    with httpx.Client(base_url=addresses["api"], trust_env=False, timeout=30) as http:
        form = {
            "client_id": "wyrd-cli",
            "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
            "subject_token": key,
            "subject_token_type": "urn:wyrd:oauth:token-type:api_key",
        }
        token = http.post("/auth/token", data=form).raise_for_status().json()["access_token"]
        answer = http.post(
            "/v1/cards",
            json={"submissions": submissions},
            headers={"x-wyrd-access-token": f"Bearer {token}", "idempotency-key": f"bench-{uuid7()}"},
        ).raise_for_status()
    uids = {one["card_ref"]["name"]: one["card_ref"]["uid"] for one in answer.json()["outcomes"]}
    return Target(
        addresses["api"], addresses["temporal"], token, uids["answer-check"], uids["desk"], addresses["home"]
    )
