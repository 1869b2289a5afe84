"""What `pip install` of our wheel gives: `wyrd` alone, light by itself, a whole server with the extra.

Nothing here imports the product: it is used as a stranger would use it, in an environment of its own.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from tests.repository.installation import PROJECT, Installation, closure
from tests.repository.sources import ROOMS, ROOT


def run(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, capture_output=True, text=True, encoding="utf-8", timeout=90, check=False, **options
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel as it is made from the source distribution, so that both are tried."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    built = run(command, cwd=folder)
    assert built.returncode == 0, built.stdout + built.stderr
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def declared(wheel: Path) -> dict[str, list[Requirement]]:
    """Requirements by extra, as the wheel's own metadata says; `""` is the base install."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        text = archive.read(name).decode("utf-8")
    lines = [
        Requirement(line.removeprefix("Requires-Dist: "))
        for line in text.splitlines()
        if line.startswith("Requires-Dist: ")
    ]
    return {
        extra: [line for line in lines if line.marker is None or line.marker.evaluate({"extra": extra})]
        for extra in ("", "server")
    }


@pytest.fixture(scope="module")
def light(
    wheel: Path, declared: dict[str, list[Requirement]], tmp_path_factory: pytest.TempPathFactory
) -> Installation:
    """`pip install wyrd-temporal`."""
    made = Installation(tmp_path_factory.mktemp("light") / "venv")
    made.link(closure(declared[""]).values())
    made.install(wheel)
    return made


def test_the_wheel_adds_wyrd_alone(wheel: Path, tmp_path: Path) -> None:
    assert Installation(tmp_path / "venv").install(wheel) == {"wyrd"}


def test_the_wheel_holds_every_file_of_the_product(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    listed = run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT).stdout.split()
    wanted = {
        name.replace("sdk/wyrd/", "wyrd/", 1) if name.startswith("sdk/wyrd/") else f"wyrd/_server/{name}"
        for name in listed
        if name.startswith(("sdk/wyrd/", *(f"{room}/" for room in ROOMS))) or name == "worker.py"
        if (ROOT / name).is_file()
    }
    assert held == wanted
    assert "wyrd/py.typed" in held
    assert any(name.startswith("wyrd/_server/store/migrations/versions/") for name in held)


def test_the_base_install_brings_no_server_library(declared: dict[str, list[Requirement]]) -> None:
    heavy = {
        "temporalio",
        "sqlalchemy",
        "fastapi",
        "uvicorn",
        "litellm",
        "numpy",
        "scipy",
        "aioboto3",
        "lxml",
    }
    names = set(closure(declared[""]))
    assert names & heavy == set()
    assert len(names) <= 50, f"the light client brings {sorted(names)}"
    assert heavy <= set(closure(declared["server"]))


def test_the_light_client_imports_and_has_a_command_line(light: Installation, tmp_path: Path) -> None:
    program = "import wyrd, wyrd.aio, wyrd.cards, wyrd.verify; wyrd.WyrdClient, wyrd.WyrdState, wyrd.Cards"
    imported = run([str(light.python), "-I", "-c", program], cwd=tmp_path)
    assert imported.returncode == 0, imported.stderr
    told = run([str(light.bin / "wyrd"), "--help"], cwd=tmp_path)
    assert told.returncode == 0, told.stderr
    assert {"up", "serve", "worker"} <= set(told.stdout.replace("│", " ").split())


@pytest.mark.parametrize("command", ["up", "serve", "worker"])
def test_the_light_client_says_how_to_get_a_server(light: Installation, tmp_path: Path, command: str) -> None:
    told = run([str(light.bin / "wyrd"), command], cwd=tmp_path)
    assert told.returncode != 0
    said = told.stdout + told.stderr
    assert f"pip install '{PROJECT}[server]'" in " ".join(said.split())
    assert "Traceback" not in said


VERIFIER = """\
apiVersion: wyrd/v1
kind: Verifier
metadata: {name: polite, version: 1.0.0, space: shop}
spec:
  inputs:
    answer: {type: json, schema: {type: string}}
  requirements:
    - id: thanks
      statement: The answer thanks the customer
      check: {kind: assert, path: inputs.answer, operator: contains, expected: thank you}
"""

SERVICE = """\
apiVersion: wyrd/v1
kind: Service
metadata: {name: shop, version: 1.0.0, space: shop}
spec:
  service_type: api
  verified_by:
    - verifier: ./polite.yaml
"""

APPLICATION = """\
import sys

import api
import store
import worker
import wyrd

assert api.WHOSE == store.WHOSE == worker.WHOSE == "the application's"
client = wyrd.WyrdClient(sys.argv[1], open(sys.argv[2], encoding="utf-8").read().strip())
state = wyrd.WyrdState.declare("shop.yaml", client)
with state.run() as run:
    good = run.observe.verify("polite", answer="It ships today, thank you.")
    bad = run.observe.submit("polite", answer="It ships.").wait(60)
sys.stdout.write(f"{good.verdict} {bad.verdict}")
"""

STRANGER = """\
import os
WHOSE = "the application's"
if os.environ.get("PYTHONSAFEPATH"):
    # A server process came here.
    open(os.path.join(os.path.dirname(__file__), "taken-for-ours"), "w", encoding="utf-8").close()
    raise SystemExit("the application's own module was taken for the server's")
"""


@pytest.fixture
def application(tmp_path: Path) -> Path:
    """A project folder with packages and modules named like the server's rooms, and like libraries."""
    folder = tmp_path / "application"
    for room in ROOMS:
        (folder / room).mkdir(parents=True)
        (folder / room / "__init__.py").write_text(STRANGER, encoding="utf-8")
        (folder / room / "main.py").write_text(STRANGER, encoding="utf-8")
    for module in ("worker", "uvicorn", "sitecustomize", "temporalio", "alembic"):
        (folder / f"{module}.py").write_text(STRANGER, encoding="utf-8")
    (folder / "polite.yaml").write_text(VERIFIER, encoding="utf-8")
    (folder / "shop.yaml").write_text(SERVICE, encoding="utf-8")
    (folder / "application.py").write_text(APPLICATION, encoding="utf-8")
    (folder / ".env").write_text("WYRD_TENANT=from-the-applications-env-file\n", encoding="utf-8")
    return folder


@contextmanager
def up(installation: Installation, folder: Path, home: Path) -> Iterator[dict[str, str]]:
    """`wyrd up` of that installation, run in `folder`; what it says once it is ready."""
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "WYRD_"))},
        # How many people make their own modules importable, and run their own servers.
        "PYTHONPATH": str(folder),
        "UVICORN_RELOAD": "true",
        "UVICORN_APP_DIR": str(folder),
        "WEB_CONCURRENCY": "3",
    }
    with (home.parent / "up.log").open("wb") as log:
        process = subprocess.Popen(
            [
                *(str(installation.bin / "wyrd"), "up", "--home", str(home)),
                *("--port", "0", "--format", "json"),
            ],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=log,
        )
    assert process.stdout is not None
    try:
        said = b""
        while line := process.stdout.readline():
            said += line
            if line.rstrip() == b"}":
                break
        logs = [path.read_text("utf-8", "replace")[-2000:] for path in sorted(home.glob("logs/*.log"))]
        assert said, [(home.parent / "up.log").read_text("utf-8", "replace"), *logs]
        yield json.loads(said)
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(60)
        finally:
            process.kill()
            process.wait()
            process.stdout.close()


def test_up_from_the_wheel_verifies_in_a_folder_that_has_its_own_api_and_worker(
    wheel: Path, declared: dict[str, list[Requirement]], tmp_path: Path, application: Path
) -> None:
    installation = Installation(tmp_path / "venv")
    installation.link(closure(declared["server"]).values())
    assert installation.install(wheel) == {"wyrd"}
    with up(installation, application, tmp_path / "home") as addresses:
        ran = run(
            [str(installation.python), "application.py", addresses["api"], addresses["dev_key_file"]],
            cwd=application,
            env={key: value for key, value in os.environ.items() if not key.startswith("PYTHON")},
        )
        assert ran.returncode == 0, ran.stderr
        assert ran.stdout == "passed failed"
    assert list(application.rglob("taken-for-ours")) == []
