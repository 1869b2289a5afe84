"""Mistakes this domain punishes, looked for in the syntax tree of everything the wheel holds.

Ruff knows some of them too; it can be silenced by a comment, this cannot.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

import pytest

from tests.repository.sources import PRODUCT, ROOMS, Source, bindings, meant, sources

Finding = tuple[int, str]
Rule = Callable[[ast.Module], Iterator[Finding]]

PURE = tuple(room for room in ("engine", "workflows") if room in ROOMS)

ALWAYS_CHANGING = (
    *("time", "random", "secrets", "uuid.uuid1", "uuid.uuid4", "uuid.uuid6", "uuid.uuid7"),
    *("os.urandom", "os.getpid", "os.environ", "os.getenv", "os.times"),
    *("datetime.datetime.now", "datetime.datetime.utcnow", "datetime.datetime.today", "datetime.date.today"),
    *("wyrd.wire.ids", "numpy.random", "scipy.stats.qmc", "asyncio.sleep", "threading", "concurrent"),
    *("socket", "subprocess", "http", "urllib.request", "asyncio.wait", "asyncio.as_completed"),
    *("builtins.open", "builtins.hash", "builtins.id", "builtins.input"),
)
"""Clocks, chance, the process, the world, and orders that differ from run to run."""

PARSERS = ("json.loads", "json.load", "json.JSONDecoder", "orjson.loads", "ast.literal_eval", "builtins.eval")
THE_PARSER = "sdk/wyrd/wire/canonical.py"
SELF_CONTAINED = {
    # They run where the project cannot be imported, on values that our own side wrote.
    "activities/sandbox/inside/answer.py",
    "activities/sandbox/inside/wasi_host.py",
    # What the SQL engine writes of itself, and what one half of the Oracle asks the other: the process
    # that runs queries loads nothing it can do without.
    "bifrost/oracle/database.py",
    "bifrost/oracle/gate.py",
    "bifrost/oracle/worker.py",
}

YAML_LOADERS = (
    *("yaml.load", "yaml.load_all", "yaml.safe_load", "yaml.safe_load_all"),
    *("yaml.full_load", "yaml.full_load_all", "yaml.unsafe_load", "yaml.unsafe_load_all"),
)

NAIVE = {
    "datetime.datetime.utcnow": 0,
    "datetime.datetime.utcfromtimestamp": 0,
    "datetime.datetime.today": 0,
    "datetime.date.today": 0,
    "datetime.date.fromtimestamp": 0,
    "datetime.datetime.now": 1,
    "datetime.datetime.fromtimestamp": 2,
    "datetime.datetime": 8,
}
"""Calls that make a date without a zone; the number is how many arguments bring a zone, 0 for never."""


def _said(tree: ast.Module, banned: tuple[str, ...]) -> Iterator[Finding]:
    """Uses and imports of any of those names, however they are spelt in this file."""
    names = bindings(tree)
    builtin = {name.removeprefix("builtins.") for name in banned if name.startswith("builtins.")}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom | ast.Import):
            module = f"{node.module}." if isinstance(node, ast.ImportFrom) and node.module else ""
            for alias in node.names:
                if _under(module + alias.name, banned):
                    yield node.lineno, module + alias.name
        elif isinstance(node, ast.Attribute | ast.Name):
            name = meant(node, names)
            if name is not None and "." in name and _under(name, banned):
                yield node.lineno, name
            elif (
                isinstance(node, ast.Name)
                and isinstance(node.ctx, ast.Load)
                and node.id in builtin
                and node.id not in names
            ):
                yield node.lineno, node.id


def _under(name: str, banned: tuple[str, ...]) -> bool:
    return any(name == one or name.startswith(f"{one}.") for one in banned)


SEEDED = {"numpy.random", "numpy.random.Generator", "numpy.random.PCG64"}
"""A generator that is made from a number gives the same draws for ever; `PCG64()` without one does not,
and is looked for apart."""


def clocks_and_chance(tree: ast.Module) -> Iterator[Finding]:
    seeded = {
        part
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and meant(node.func, bindings(tree)) == "numpy.random.PCG64"
        and len(node.args) == 1
        for part in [node.lineno]
    }
    for line, name in _said(tree, ALWAYS_CHANGING):
        if not (name in SEEDED and line in seeded):
            yield line, name


def lenient_parsers(tree: ast.Module) -> Iterator[Finding]:
    yield from _said(tree, PARSERS)


def yaml_loaders(tree: ast.Module) -> Iterator[Finding]:
    yield from _said(tree, YAML_LOADERS)


def naive_datetimes(tree: ast.Module) -> Iterator[Finding]:
    names = bindings(tree)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = meant(node.func, names)
        wanted = NAIVE.get(name or "")
        if wanted is None:
            continue
        given = {keyword.arg for keyword in node.keywords}
        zoned = bool(given & {"tz", "tzinfo"}) or len(node.args) >= wanted > 0
        if not zoned or wanted == 0:
            yield node.lineno, name or ""


def unstated_encodings(tree: ast.Module) -> Iterator[Finding]:
    """Text opened, read, written or decoded from a child without saying how."""
    names = bindings(tree)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        given = {keyword.arg: keyword.value for keyword in node.keywords}
        name = meant(node.func, names) or ""
        last = node.func.attr if isinstance(node.func, ast.Attribute) else name
        if "encoding" in given or None in given:
            continue
        if name == "open":
            mode = given.get("mode") or (node.args[1] if len(node.args) > 1 else None)
            if not _binary(mode):
                yield node.lineno, "open"
        elif last == "open" and isinstance(node.func, ast.Attribute) and name not in _OTHER_OPENS:
            mode = given.get("mode") or (node.args[0] if node.args else None)
            if isinstance(mode, ast.Constant) and mode.value in ("r", "w", "a", "x", "r+", "w+"):
                yield node.lineno, "Path.open"
        elif (last == "read_text" and not node.args) or (last == "write_text" and len(node.args) < 2):
            yield node.lineno, last
        elif last in ("Popen", "run", "check_output", "check_call") and _true(
            given.get("text") or given.get("universal_newlines")
        ):
            yield node.lineno, f"{last}(text=True)"


_OTHER_OPENS = {"os.open", "webbrowser.open"}


def _binary(mode: ast.AST | None) -> bool:
    # A mode that is not written out may be binary; ruff and the reviewer have to judge it.
    return mode is not None and not (isinstance(mode, ast.Constant) and "b" not in str(mode.value))


def _true(value: ast.AST | None) -> bool:
    return isinstance(value, ast.Constant) and value.value is True


def prints(tree: ast.Module) -> Iterator[Finding]:
    yield from _said(tree, ("builtins.print", "builtins.breakpoint", "pdb"))


def unsafe_decoding(tree: ast.Module) -> Iterator[Finding]:
    yield from _said(tree, ("pickle", "marshal", "shelve", "builtins.eval", "builtins.exec"))


def _found(rule: Rule, places: tuple[str, ...], apart: set[str] | None = None) -> list[str]:
    return [
        f"{source.path}:{line} {what}"
        for source in _all(places)
        if source.path not in (apart or set())
        for line, what in rule(source.tree)
    ]


def _all(places: tuple[str, ...]) -> Iterator[Source]:
    for place in places:
        yield from sources(place)


def test_judgement_and_workflows_have_no_clock_no_chance_and_no_world() -> None:
    assert _found(clocks_and_chance, PURE) == []


def test_json_is_read_by_the_strict_parser_alone() -> None:
    assert _found(lenient_parsers, PRODUCT, {THE_PARSER, *SELF_CONTAINED}) == []


def test_yaml_is_read_by_the_card_reader_alone() -> None:
    assert _found(yaml_loaders, PRODUCT) == []


def test_every_datetime_has_a_zone() -> None:
    assert _found(naive_datetimes, (*PRODUCT, "examples", "benchmarks")) == []


def test_every_text_file_has_an_encoding() -> None:
    assert _found(unstated_encodings, PRODUCT) == []


def test_nothing_prints() -> None:
    assert _found(prints, PRODUCT) == []


UNTRUSTED_PYTHON = {
    # Compiles and runs the user's function: that is what the sandbox is for.
    "activities/sandbox/inside/answer.py",
    # A compiled WebAssembly module, written and read by us beside its digest.
    "activities/sandbox/wasm.py",
}


def test_nothing_is_unpickled_or_evaluated_outside_the_sandbox() -> None:
    assert _found(unsafe_decoding, PRODUCT, UNTRUSTED_PYTHON) == []


@pytest.mark.parametrize(
    ("rule", "source"),
    [
        (clocks_and_chance, "import time"),
        (clocks_and_chance, "from time import monotonic as m"),
        (clocks_and_chance, "from datetime import datetime as dt\ndt.now(UTC)"),
        (clocks_and_chance, "import datetime\ndatetime.datetime.now()"),
        (clocks_and_chance, "from uuid import uuid4"),
        (clocks_and_chance, "import uuid as u\nu.uuid4()"),
        (clocks_and_chance, "import os as system\nsystem.urandom(8)"),
        (clocks_and_chance, "import numpy as np\nnp.random.default_rng()"),
        (clocks_and_chance, "import numpy as np\nnp.random.Generator(np.random.PCG64())"),
        (clocks_and_chance, "from wyrd.wire import ids"),
        (clocks_and_chance, "hash('differs in every process')"),
        (clocks_and_chance, "open('x')"),
        (lenient_parsers, "import json\njson.loads('1')"),
        (lenient_parsers, "from json import loads"),
        (lenient_parsers, "import json as j\nj.JSONDecoder().decode('1')"),
        (yaml_loaders, "import yaml\nyaml.safe_load('1')"),
        (naive_datetimes, "from datetime import datetime\ndatetime.now()"),
        (naive_datetimes, "import datetime\ndatetime.datetime.utcnow()"),
        (naive_datetimes, "from datetime import datetime\ndatetime(2030, 1, 1)"),
        (naive_datetimes, "from datetime import datetime\ndatetime.fromtimestamp(0)"),
        (unstated_encodings, "open('x')"),
        (unstated_encodings, "open('x', 'w')"),
        (unstated_encodings, "path.open('w')"),
        (unstated_encodings, "path.read_text()"),
        (unstated_encodings, "path.write_text('x')"),
        (unstated_encodings, "import subprocess\nsubprocess.run(['x'], text=True)"),
        (prints, "print('x')"),
        (unsafe_decoding, "import pickle"),
        (unsafe_decoding, "eval('1')"),
    ],
)
def test_every_spelling_of_a_mistake_is_seen(rule: Rule, source: str) -> None:
    assert list(rule(ast.parse(source)))


@pytest.mark.parametrize(
    ("rule", "source"),
    [
        (clocks_and_chance, "from datetime import datetime, timedelta\ndatetime.fromisoformat(text)"),
        (clocks_and_chance, "from uuid import UUID, uuid5"),
        (clocks_and_chance, "self.time, run.random, state.open()"),
        (lenient_parsers, "import json\njson.dumps(1)"),
        (naive_datetimes, "from datetime import UTC, datetime\ndatetime.now(UTC)"),
        (naive_datetimes, "from datetime import UTC, datetime\ndatetime.fromtimestamp(0, UTC)"),
        (naive_datetimes, "from datetime import UTC, datetime\ndatetime(2030, 1, 1, tzinfo=UTC)"),
        (unstated_encodings, "open('x', 'rb'); path.open('rb'); path.read_text('utf-8')"),
        (prints, "console.print('x')"),
    ],
)
def test_what_is_fine_is_not_called_a_mistake(rule: Rule, source: str) -> None:
    assert list(rule(ast.parse(source))) == []
