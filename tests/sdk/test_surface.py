"""What is exported, what it costs, and that both surfaces are the same."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import wyrd
from wyrd import aio

SDK = Path(wyrd.__file__).resolve().parents[1]

SERVER_LIBRARIES = {
    "aioboto3",
    "alembic",
    "cryptography",
    "fastapi",
    "grpc",
    "litellm",
    "lxml",
    "numpy",
    "opentelemetry",
    "orjson",
    "psycopg",
    "pyarrow",
    "pydantic_settings",
    "pypdfium2",
    "scipy",
    "sqlalchemy",
    "starlette",
    "temporalio",
    "uvicorn",
}
ROOMS = {"activities", "api", "bifrost", "cards", "engine", "gateway", "store", "worker", "workflows"}


def _loaded_by(code: str) -> set[str]:
    """Top-level modules that a fresh interpreter holds after running the code."""
    told = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; sys.stdout.write(' '.join(sys.modules))"],
        env={"PYTHONPATH": str(SDK), "PATH": "/usr/bin:/bin", "PYTHONSAFEPATH": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    return set(told.stdout.split())


def test_the_exported_names_are_these() -> None:
    assert wyrd.__all__ == [
        "AsyncBifrost",
        "Bifrost",
        "Cards",
        "Code",
        "Observe",
        "Run",
        "TableConfig",
        "WyrdClient",
        "WyrdError",
        "WyrdState",
        "aio",
        "bifrost",
        "cards",
        "verify",
    ]
    assert wyrd.verify.__all__ == ["ArtifactRef", "Execution", "File", "Recorded", "VerificationResult"]
    assert aio.verify.__all__ == wyrd.verify.__all__
    for name in wyrd.__all__:
        assert getattr(wyrd, name) is not None
    with pytest.raises(AttributeError):
        wyrd.Manager  # noqa: B018


def test_importing_wyrd_loads_nothing_heavy() -> None:
    loaded = _loaded_by("import wyrd")
    assert not loaded & {"httpx", "pydantic", "typer", "rich", "yaml", "asyncio", "wyrd.cards"}


def test_a_client_that_has_sent_nothing_has_loaded_no_http_library_event_loop_or_card_language() -> None:
    loaded = _loaded_by(
        "import wyrd, wyrd.verify; wyrd.WyrdState; wyrd.verify.File(b'x'); wyrd.WyrdClient(credential='t')"
    )
    assert not loaded & {"httpx", "asyncio", "rich", "yaml", "jsonschema", "wyrd.cards"}


@pytest.mark.parametrize(
    "code",
    [
        "import wyrd; [getattr(wyrd, name) for name in wyrd.__all__]",
        "import wyrd.aio, wyrd.cards; wyrd.cards.load, wyrd.cards.check",
        "import wyrd.cli.app, wyrd.up.stack",
    ],
)
def test_no_part_of_the_client_loads_a_server_library(code: str) -> None:
    assert not {name.partition(".")[0] for name in _loaded_by(code)} & (SERVER_LIBRARIES | ROOMS)


def test_the_client_does_not_load_the_command_lines_libraries() -> None:
    loaded = _loaded_by("import wyrd; wyrd.WyrdClient, wyrd.WyrdState, wyrd.verify, wyrd.aio")
    # httpx itself brings in rich where that is installed.
    assert not {name.partition(".")[0] for name in loaded} & {"typer", "wyrd.cli"}


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("bifrost", "Bifrost"),
        ("client", "WyrdClient"),
        ("registry", "Cards"),
        ("runs", "Observe"),
        ("runs", "Run"),
        ("state", "WyrdState"),
        ("verify", "Execution"),
    ],
)
def test_the_async_surface_is_the_sync_one_with_await(module: str, name: str) -> None:
    sync = getattr(importlib.import_module(f"wyrd.{module}"), name)
    twin = getattr(importlib.import_module(f"wyrd.aio.{module}"), name)

    def methods(cls: type) -> dict[str, list[tuple[str, object, object]]]:
        found: dict[str, list[tuple[str, object, object]]] = {}
        for key, member in inspect.getmembers(cls):
            if key.startswith("_") and key != "__init__":
                continue
            if callable(member):
                parameters = inspect.signature(member).parameters.values()
                found[key] = [(one.name, one.kind, one.default) for one in parameters]
            else:
                found[key] = []
        return found

    assert methods(sync) == methods(twin)


def test_there_is_one_reference_type_and_pinned_is_its_text_without_the_uid() -> None:
    from wyrd.wire.refs import CardRef

    assert wyrd.cards.CardRef is CardRef
    uid = "01890a5d-ac96-774b-bcce-b302099a8057"
    found = CardRef.parse(f"support/Verifier/polite@1.0.0#{uid.upper()}")
    assert (found.pinned, found.uid) == ("support/Verifier/polite@1.0.0", uid)
    assert CardRef.model_validate({**found.document(), "alias": "ignored"}) == found
    for wrong in ("kind", "name", "version", "space", "uid"):
        with pytest.raises(ValueError, match=wrong):
            CardRef.model_validate({**found.document(), wrong: "no {braces} are read"})
