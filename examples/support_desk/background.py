"""What nobody waits for: a conversation judged once it is quiet, and answers watched for drift.

Used by `demo.py`. A receiver on loopback plays the service that Operators page.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import wyrd

WATCH = Path(__file__).parent / "watch"
PLACEHOLDER = "http://receiver.example"
TURNS = [
    "Where is my lamp?",
    "It left our warehouse on Monday.",
    "It has not come.",
    "We send another one today.",
    "Thank you, that settles it.",
]
LATE = "It came broken, and nobody answers."
SAMPLES = 150


class Receiver:
    """Takes what Operators send, and keeps it in order."""

    def __init__(self) -> None:
        self.pages: list[tuple[str, dict[str, Any]]] = []
        receiver = self

        class Page(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                page: dict[str, Any] = json.loads(body)  # noqa: TID251 - what a user's receiver would write
                receiver.pages.append((self.path, page))
                self.send_response(204)
                self.end_headers()

            def log_message(self, format: str, *values: Any) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def to(self, path: str) -> list[dict[str, Any]]:
        return [page for where, page in self.pages if where == path]

    @contextmanager
    def serving(self) -> Iterator[Receiver]:
        thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            thread.join()


def watch(client: wyrd.WyrdClient, folder: Path, receiver: Receiver, say: Callable[[str], None]) -> None:
    """Declare the watch, let a conversation and three minutes of answers pass, and show what came of it."""
    state = _declared(client, folder, receiver)
    state.start_bifrost()
    bifrost = wyrd.Bifrost(client)
    usual, longer = random.Random(1), random.Random(2)
    # A minute that is nearly over would cut the samples in two.
    if time.time() % 60 > 45:
        _until_next_minute()
    say("  this minute's answers are as long as those the desk was approved with")
    _send(state, lambda: usual.gauss(11, 2))
    _converse(state, bifrost, receiver, say)
    _until_next_minute()
    say("  the next minute's are twice as long")
    _send(state, lambda: longer.gauss(22, 4))
    _until_next_minute()
    windows = _when(lambda: _windows(bifrost), 2)
    for row in windows[-2:]:
        say(f"    window {row['window_start']:%H:%M} to {row['window_end']:%H:%M}: {row['verdict']}")
    for page in _when(lambda: receiver.to("/drift"), 1):
        say(f"    the one page about it: {json.dumps(page)}")
    state.shutdown()


def _declared(client: wyrd.WyrdClient, folder: Path, receiver: Receiver) -> wyrd.WyrdState:
    for card in WATCH.glob("*.yaml"):
        text = card.read_text(encoding="utf-8").replace(PLACEHOLDER, receiver.url)
        (folder / card.name).write_text(text, encoding="utf-8")
    approved = random.Random(0)
    rows = "".join(f"{approved.gauss(11, 2):.3f}\n" for _ in range(2000))
    (folder / "answers.csv").write_text(f"words\n{rows}", encoding="utf-8")
    return wyrd.WyrdState.declare(
        folder / "desk-watch.yaml",
        client,
        files={"support/Data/approved-answers": folder / "answers.csv"},
    )


def _send(state: wyrd.WyrdState, words: Callable[[], float]) -> None:
    with state.run() as run:
        for _ in range(SAMPLES):
            run.observe.submit("answer-length", {"words": words()})
    state.flush()


def _converse(
    state: wyrd.WyrdState, bifrost: wyrd.Bifrost, receiver: Receiver, say: Callable[[str], None]
) -> None:
    say("  a conversation of five turns, judged once it has been quiet for two seconds")
    for number, text in enumerate(TURNS, start=1):
        _turn(state, number, text, settled=number == len(TURNS))
    first = _when(lambda: _conversations(bifrost), 1)
    say(f"    judged: {first[0]['verdict']}; nobody is paged, since that is no change")
    say(f"  a late turn re-opens it: {LATE!r}")
    _turn(state, len(TURNS) + 1, LATE, settled=False)
    second = _when(lambda: _conversations(bifrost), 2)
    say(f"    judged again: {second[1]['verdict']}")
    for page in _when(lambda: receiver.to("/conversations"), 1):
        say(f"    the one page about it: {json.dumps(page)}")


def _turn(state: wyrd.WyrdState, number: int, text: str, *, settled: bool) -> None:
    turn = {"number": number, "text": text, "settled": settled}
    with state.run() as run:
        run.observe.verify("turn-polite", turn=turn, group_id="conversation-1")


def _conversations(bifrost: wyrd.Bifrost) -> list[dict[str, Any]]:
    found = bifrost.sql(
        "SELECT verdict FROM vala.verification.results WHERE source = 'group' ORDER BY ended_at"
    )
    rows: list[dict[str, Any]] = found.to_arrow().to_pylist()
    return rows


def _windows(bifrost: wyrd.Bifrost) -> list[dict[str, Any]]:
    """The windows that samples fell into: before, there was too little to judge."""
    found = bifrost.sql(
        "SELECT window_start, window_end, verdict FROM vala.verification.results"
        " WHERE source = 'schedule' AND verdict <> 'inconclusive' ORDER BY window_end"
    )
    rows: list[dict[str, Any]] = found.to_arrow().to_pylist()
    return rows


def _until_next_minute() -> None:
    time.sleep(60 - time.time() % 60 + 0.5)


def _when(read: Callable[[], list[Any]], count: int, seconds: float = 60) -> list[Any]:
    deadline = time.monotonic() + seconds
    while len(found := read()) < count:
        if time.monotonic() > deadline:
            raise SystemExit(f"waited {seconds:g} s in vain; got {found}")
        time.sleep(0.2)
    return found
