"""The supervisor behind `wyrd up`: order, restarts, signals, and that nothing is left behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

import wyrd
from wyrd.errors import WyrdError
from wyrd.up.home import Home, chosen_home
from wyrd.up.ports import Ports, is_free
from wyrd.up.rooms import Rooms, temporal_binary, temporal_server
from wyrd.up.stack import plan

SDK = Path(wyrd.__file__).resolve().parents[1]
SUPERVISOR = Path(__file__).with_name("supervisor.py")

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="wyrd up runs on Linux and macOS")


class Supervised:
    """A supervisor process, and what it and its children have said."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.folder = folder
        self.said: list[str] = []
        self.process = subprocess.Popen(
            [sys.executable, str(SUPERVISOR), str(folder), *arguments],
            env={**os.environ, "PYTHONPATH": str(SDK)},
            stdout=subprocess.PIPE,
            text=True,
        )

    def until(self, word: str, times: int = 1) -> str:
        """Read on until that many lines in all started with the word; the last of them."""
        assert self.process.stdout is not None
        while len(found := [line for line in self.said if line.startswith(word)]) < times:
            line = self.process.stdout.readline()
            assert line, f"the supervisor ended without saying {word!r} {times} times: {self.said}"
            self.said.append(line.strip())
        return found[times - 1]

    def events(self) -> list[str]:
        path = self.folder / "events"
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []

    def children(self) -> list[psutil.Process]:
        started = [one.split() for one in self.events() if " started " in one]
        return [psutil.Process(int(parts[2])) for parts in started if psutil.pid_exists(int(parts[2]))]

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture
def supervised(tmp_path: Path) -> Iterator[list[Supervised]]:
    made: list[Supervised] = []
    yield made
    for one in made:
        one.close()


def start(made: list[Supervised], tmp_path: Path, *arguments: str) -> Supervised:
    folder = tmp_path / "stack"
    folder.mkdir()
    one = Supervised(folder, *arguments)
    made.append(one)
    return one


def names(events: list[str]) -> list[str]:
    return [" ".join(one.split()[:2]) for one in events]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_children_start_in_order_and_stop_in_the_other(
    supervised: list[Supervised], tmp_path: Path, number: signal.Signals
) -> None:
    up = start(supervised, tmp_path, "first=calm", "second=calm", "third=calm")
    up.until("ready")
    up.process.send_signal(number)
    assert up.process.wait(60) == 0
    assert names(up.events()) == [
        "first started",
        "second started",
        "third started",
        "third stopped",
        "second stopped",
        "first stopped",
    ]


def test_nothing_outlives_a_supervisor_that_was_killed(supervised: list[Supervised], tmp_path: Path) -> None:
    up = start(supervised, tmp_path, "first=calm", "second=stubborn")
    up.until("ready")
    children = up.children()
    assert len(children) == 2
    up.process.kill()
    _gone, alive = psutil.wait_procs(children, timeout=30)
    assert alive == []


def test_a_stubborn_child_is_killed_after_its_grace(supervised: list[Supervised], tmp_path: Path) -> None:
    up = start(supervised, tmp_path, "first=calm", "second=stubborn")
    up.until("ready")
    children = up.children()
    up.process.terminate()
    assert "second did not stop within 1 s" in up.until("note")
    assert up.process.wait(60) == 0
    assert not any(child.is_running() for child in children)


def test_a_second_signal_does_not_wait_for_a_stubborn_child(
    supervised: list[Supervised], tmp_path: Path
) -> None:
    up = start(supervised, tmp_path, "--patient", "first=stubborn", "--follow")
    up.until("ready")
    (child,) = up.children()
    up.process.terminate()
    up.until("log first: asked to stop")
    up.process.terminate()
    assert up.process.wait(20) == 0
    assert not child.is_running()


def test_what_a_child_left_running_ends_with_it(supervised: list[Supervised], tmp_path: Path) -> None:
    up = start(supervised, tmp_path, "first=parent")
    up.until("ready")
    grandchild = psutil.Process(int((up.folder / "grandchild").read_text(encoding="utf-8")))
    up.process.terminate()
    assert up.process.wait(60) == 0
    psutil.wait_procs([grandchild], timeout=30)
    assert not grandchild.is_running() or grandchild.status() == psutil.STATUS_ZOMBIE


def test_a_child_that_dies_is_reported_and_started_again(
    supervised: list[Supervised], tmp_path: Path
) -> None:
    up = start(supervised, tmp_path, "first=calm", "second=calm", "--follow")
    up.until("ready")
    _first, second = up.children()
    second.kill()
    note = up.until("note")
    assert note.startswith("note second ended with SIGKILL; starting it again in 0.5 s")
    up.until("log second: a line", times=2)
    up.process.terminate()
    assert up.process.wait(60) == 0
    assert names(up.events())[-2:] == ["second stopped", "first stopped"]


@pytest.mark.parametrize(
    ("behaviour", "told"),
    [("broken", "ended with exit code 3 while starting"), ("silent", "was not ready within 1 s")],
)
def test_a_child_that_does_not_start_ends_everything_with_its_last_words(
    supervised: list[Supervised], tmp_path: Path, behaviour: str, told: str
) -> None:
    up = start(supervised, tmp_path, "first=calm", f"second={behaviour}", "third=calm")
    error = up.until("error")
    assert "WYRD_SERVER_503_NOT_READY" in error
    assert told in error
    assert "a line of second" in error
    assert up.process.wait(60) == 1
    assert "third started" not in names(up.events())
    assert "first stopped" in names(up.events())


def test_logs_are_appended_to_and_followed_when_asked(supervised: list[Supervised], tmp_path: Path) -> None:
    folder = tmp_path / "stack"
    folder.mkdir()
    (folder / "first.log").write_text("an old line\n", encoding="utf-8")
    up = Supervised(folder, "first=calm", "--follow")
    supervised.append(up)
    assert up.until("log") == "log first: a line of first"
    up.process.terminate()
    up.process.wait(60)
    log = (folder / "first.log").read_text(encoding="utf-8")
    assert log.startswith("an old line\na line of first\n")


class TestHome:
    def test_one_holder_at_a_time(self, tmp_path: Path) -> None:
        path = tmp_path / "home"
        with Home(path) as home:
            home.note({"api": "http://127.0.0.1:1"})
            with pytest.raises(WyrdError) as error, Home(path):
                pass
            assert error.value.code == "WYRD_SPEC_409_CONFLICT"
            assert error.value.details["pid"] == os.getpid()
            assert "http://127.0.0.1:1" in error.value.detail
            with Home(tmp_path / "other"):
                pass
        with Home(path):
            pass

    def test_it_is_private_and_out_of_version_control(self, tmp_path: Path) -> None:
        with Home(tmp_path / "home") as home:
            assert home.path.stat().st_mode & 0o077 == 0
            assert (home.path / ".gitignore").read_text(encoding="utf-8") == "*\n"

    def test_argument_then_variable_then_here(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.delenv("WYRD_HOME", raising=False)
        monkeypatch.chdir(tmp_path)
        assert chosen_home(None) == tmp_path / ".wyrd"
        monkeypatch.setenv("WYRD_HOME", "elsewhere")
        assert chosen_home(None) == tmp_path / "elsewhere"
        assert chosen_home(Path("given")) == tmp_path / "given"


class TestPorts:
    def test_a_busy_port_that_was_asked_for_is_refused(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as busy:
            port = busy.getsockname()[1]
            assert not is_free(port)
            with pytest.raises(WyrdError) as error:
                Ports().asked(port, "--port")
        assert error.value.code == "WYRD_CLIENT_400_CONFIG_INVALID"
        assert error.value.details == {"field": "--port", "port": port}

    def test_a_busy_port_that_was_only_preferred_gives_way(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as busy:
            port = busy.getsockname()[1]
            assert Ports().preferred(port) != port
        assert Ports().preferred(port) == port

    def test_the_grpc_port_gives_way_and_says_what_clients_need_then(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        with socket.create_server(("127.0.0.1", 0)) as busy:
            monkeypatch.setattr("wyrd.up.stack.DEFAULT_GRPC_PORT", busy.getsockname()[1])
            chosen = plan(Home(tmp_path / "home"))
            [notice] = [one for one in chosen.notices if "gRPC" in one]
            assert f"WYRD_GRPC_URL={chosen.addresses.grpc}" in notice
            # Asked for any free port, nobody is told that another one was busy.
            assert plan(Home(tmp_path / "home"), port=0).notices == []
        [api] = [one for one in chosen.commands if one.name == "api"]
        assert api.environment["WYRD_GRPC_PORT"] == chosen.addresses.grpc.rpartition(":")[2]

    def test_no_port_is_given_twice(self) -> None:
        ports = Ports()
        chosen = [ports.any() for _ in range(20)]
        assert len(set(chosen)) == 20
        with pytest.raises(WyrdError):
            ports.asked(chosen[0], "--ui-port")


class TestCommands:
    def test_servers_find_our_rooms_first_and_no_client_secret(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("WYRD_API_KEY", "wyrd_sk_x")
        monkeypatch.setenv("PYTHONPATH", "/somewhere")
        rooms = Rooms.find()
        environment = rooms.environment({"WYRD_PORT": "1"})
        assert environment["PYTHONSAFEPATH"] == "1"
        assert environment["PYTHONPATH"].split(os.pathsep)[0] == str(rooms.path)
        assert "/somewhere" not in environment["PYTHONPATH"]
        assert environment["WYRD_PORT"] == "1"
        assert "WYRD_API_KEY" not in environment
        serve = rooms.serve("127.0.0.1", 8080)
        assert serve[serve.index("--app-dir") + 1] == str(rooms.path)

    def test_temporal_is_the_packaged_server_with_one_fair_partition(self, tmp_path: Path) -> None:
        binary = temporal_binary()
        assert binary.parent == Path(sys.executable).parent
        command = temporal_server(binary, "127.0.0.1", 1, 2, tmp_path / "t.db")
        pairs = [
            command[index + 1]
            for index, one in enumerate(command)
            if one in ("--sqlite-pragma", "--dynamic-config-value")
        ]
        assert set(pairs) == {
            "journal_mode=wal",
            "synchronous=1",
            "matching.enableFairness=true",
            "matching.useNewMatcher=true",
            "matching.numTaskqueueReadPartitions=1",
            "matching.numTaskqueueWritePartitions=1",
        }
