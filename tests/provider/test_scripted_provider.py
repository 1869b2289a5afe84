"""The scripted provider: it says that it is scripted, and it never invents an answer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from examples.scripted_provider import Reply, Rule, ScriptedProvider, main, read_script

ROOT = Path(__file__).parents[2]
ASKED = {"model": "gpt-6-luna", "messages": [{"role": "user", "content": "Is the letter fair?"}]}


def post(url: str, path: str = "/chat/completions", body: Any = None) -> httpx.Response:
    return httpx.post(url + path, json=ASKED if body is None else body, timeout=10)


@pytest.mark.parametrize(
    ("path", "member"),
    [
        ("/chat/completions", "model"),
        ("/responses", "model"),
        ("/messages", "model"),
        ("/models/gpt-6-luna:generateContent", "modelVersion"),
    ],
)
def test_every_answer_names_its_model_as_scripted(path: str, member: str) -> None:
    with ScriptedProvider([Reply(text="yes")]) as provider:
        assert post(provider.url, path).json()[member] == "scripted/gpt-6-luna"


def test_the_first_rule_whose_words_all_occur_answers_its_replies_in_order() -> None:
    rules = [
        Rule([Reply(text="1"), Reply(text="2")], ["letter", "fair"]),
        Rule([Reply(text="other")], ["letter"]),
    ]
    with ScriptedProvider(rules) as provider:
        answers = [post(provider.url).json()["choices"][0]["message"]["content"] for _ in range(3)]
        other = post(provider.url, body={"messages": [{"content": "letter"}]}).json()
        assert answers == ["1", "2", "2"]
        assert other["choices"][0]["message"]["content"] == "other"


def test_what_no_rule_matches_is_refused() -> None:
    with ScriptedProvider([Rule([Reply(text="yes")], ["contract"])]) as provider:
        answer = post(provider.url)
    assert answer.status_code == 400
    assert "no scripted reply" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "script",
    [
        [],
        {"rules": []},
        {"rules": [{"replies": []}]},
        {"replies": ["x"]},
        {"replies": [{"txt": "x"}]},
        {"replies": [{"behaviour": "lie"}]},
        {"rules": [{"when_contains": "x", "replies": [{}]}]},
    ],
)
def test_a_script_with_a_fault_is_refused(
    script: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ValueError):
        read_script(script)
    path = tmp_path / "script.json"
    path.write_text(json.dumps(script), encoding="utf-8")
    assert main(["--script", str(path)]) == 64
    assert "script.json" in capsys.readouterr().err


def test_it_runs_alone_and_prints_its_address(tmp_path: Path) -> None:
    path = tmp_path / "script.json"
    path.write_text(json.dumps({"replies": [{"json": {"outcome": "failed"}}]}), encoding="utf-8")
    command = [
        sys.executable,
        "-S",
        "-I",
        str(ROOT / "examples" / "scripted_provider.py"),
        "--script",
        str(path),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, encoding="utf-8", env=dict(os.environ)) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            answer = post(url).json()
        finally:
            process.terminate()
    assert json.loads(answer["choices"][0]["message"]["content"]) == {"outcome": "failed"}
