"""The gateway's configuration: what is accepted, which field a refusal names, where calls go."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.failure import BlockFailure, ReasonKind
from gateway.deployments import Adapter, GatewayConfig, resolve
from wyrd.errors import WyrdError

YAML = """
deployments:
  openai:
    adapter: openai
    api_key_env: OPENAI_API_KEY
    models: [gpt-6-luna, no]
  local-vllm:
    adapter: openai_compatible
    base_url: http://127.0.0.1:8000/v1/
"""
TOML = """
[deployments.openai]
adapter = "openai"
api_key_env = "OPENAI_API_KEY"
models = ["gpt-6-luna", "no"]

[deployments.local-vllm]
adapter = "openai_compatible"
base_url = "http://127.0.0.1:8000/v1/"
"""
JSON = """{"deployments": {
 "openai": {"adapter": "openai", "api_key_env": "OPENAI_API_KEY", "models": ["gpt-6-luna", "no"]},
 "local-vllm": {"adapter": "openai_compatible", "base_url": "http://127.0.0.1:8000/v1/"}}}"""


@pytest.mark.parametrize(("suffix", "text"), [("yaml", YAML), ("toml", TOML), ("json", JSON)])
def test_a_file_names_deployments_in_any_of_three_forms(tmp_path: Path, suffix: str, text: str) -> None:
    path = tmp_path / f"gateway.{suffix}"
    path.write_text(text, encoding="utf-8")
    config = GatewayConfig.load(path)
    assert config.deployments["openai"].models == ("gpt-6-luna", "no")
    assert config.deployments["openai"].adapter is Adapter.OPENAI
    assert config.deployments["local-vllm"].base_url == "http://127.0.0.1:8000/v1"


def test_no_file_is_a_server_without_deployments() -> None:
    assert GatewayConfig.load(None).deployments == {}


OPENAI = {"adapter": "openai", "api_key_env": "KEY"}


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ({"deployment": {}}, "deployment"),
        ([], ""),
        ({"deployments": {"No": OPENAI}}, "deployments.No"),
        ({"deployments": {"ab": OPENAI}}, "deployments.ab"),
        ({"deployments": {"one": {}}}, "deployments.one.adapter"),
        ({"deployments": {"one": {**OPENAI, "adapter": "azure"}}}, "deployments.one.adapter"),
        ({"deployments": {"one": {"adapter": "openai"}}}, "deployments.one"),
        ({"deployments": {"one": {"adapter": "openai_compatible"}}}, "deployments.one"),
        ({"deployments": {"one": {**OPENAI, "api_key": "sk-x"}}}, "deployments.one.api_key"),
        ({"deployments": {"one": {**OPENAI, "api_key_env": "sk-live-1"}}}, "deployments.one.api_key_env"),
        ({"deployments": {"one": {**OPENAI, "models": "gpt"}}}, "deployments.one.models"),
        ({"deployments": {"one": {**OPENAI, "models": [True]}}}, "deployments.one.models.0"),
        ({"deployments": {"one": {**OPENAI, "base_url": "ftp://x"}}}, "deployments.one.base_url"),
        ({"deployments": {"one": {**OPENAI, "base_url": "https://"}}}, "deployments.one.base_url"),
        ({"deployments": {"one": {**OPENAI, "base_url": "https://a:99999"}}}, "deployments.one.base_url"),
        ({"deployments": {"one": {**OPENAI, "base_url": "https://u:sk-1@h"}}}, "deployments.one.base_url"),
        ({"deployments": {"one": {**OPENAI, "base_url": "https://h?key=sk-1"}}}, "deployments.one.base_url"),
    ],
)
def test_a_fault_names_its_field_and_repeats_no_value(document: Any, field: str) -> None:
    with pytest.raises(WyrdError) as raised:
        GatewayConfig.parse(document)
    assert raised.value.code == "WYRD_GATEWAY_400_INVALID_CONFIGURATION"
    assert raised.value.details["field"] == field
    assert "sk-" not in raised.value.detail


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("gateway.yaml", b"deployments: [", "line"),
        ("gateway.yaml", b"\xff\xfe\x00", "YAML"),
        ("gateway.yaml", b"deployments: {}\n---\ndeployments: {}\n", "2 documents"),
        (
            "gateway.yaml",
            b"deployments:\n  one: {adapter: openai, api_key_env: A}\n  one: {adapter: gemini}\n",
            "one",
        ),
        ("gateway.toml", b"a = ", "TOML"),
        ("gateway.toml", b"\xff", "TOML"),
        ("gateway.yaml", b" " * (1024 * 1024 + 1), "larger"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, name: str, content: bytes, words: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(WyrdError) as raised:
        GatewayConfig.load(path)
    assert raised.value.code == "WYRD_GATEWAY_400_INVALID_CONFIGURATION"
    assert words in raised.value.detail


def test_a_file_that_is_missing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WyrdError) as raised:
        GatewayConfig.load(tmp_path / "absent.yaml")
    assert raised.value.details == {"field": "file"}


@pytest.mark.parametrize(
    ("provider", "environ", "adapter", "base_url"),
    [
        ("openai", {"OPENAI_API_KEY": "k"}, Adapter.OPENAI, "https://api.openai.com/v1"),
        ("anthropic", {"ANTHROPIC_API_KEY": "k"}, Adapter.ANTHROPIC, "https://api.anthropic.com"),
        (
            "google",
            {"GOOGLE_API_KEY": "k"},
            Adapter.GEMINI,
            "https://generativelanguage.googleapis.com/v1beta",
        ),
        ("google", {"GEMINI_API_KEY": "k", "GEMINI_BASE_URL": "http://h/v1"}, Adapter.GEMINI, "http://h/v1"),
        (
            "my-lab",
            {"MY_LAB_API_KEY": "k", "MY_LAB_BASE_URL": "http://h"},
            Adapter.OPENAI_COMPATIBLE,
            "http://h",
        ),
    ],
)
def test_the_native_route_reads_the_providers_own_variables(
    provider: str, environ: dict[str, str], adapter: Adapter, base_url: str
) -> None:
    found = resolve(GatewayConfig(), environ, deployment=None, provider=provider, model="m")
    assert (found.adapter, found.base_url, found.api_key) == (adapter, base_url, "k")
    assert found.route.kind == "native"


def test_an_endpoint_does_not_show_its_key() -> None:
    found = resolve(
        GatewayConfig(), {"OPENAI_API_KEY": "sk-live"}, deployment=None, provider="openai", model="m"
    )
    assert "sk-live" not in repr(found)


@pytest.mark.parametrize("key", ["sk\r\nx-evil: 1", "sk-é", "sk\x00"])
def test_a_credential_that_no_header_carries_is_refused_without_being_quoted(key: str) -> None:
    with pytest.raises(BlockFailure) as raised:
        resolve(GatewayConfig(), {"OPENAI_API_KEY": key}, deployment=None, provider="openai", model="m")
    assert raised.value.kind is ReasonKind.NOT_CONFIGURED
    assert "OPENAI_API_KEY" in raised.value.reason
    assert "sk" not in raised.value.reason


def test_a_base_url_in_the_environment_is_checked() -> None:
    environ = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "https://u:p@h"}
    with pytest.raises(BlockFailure) as raised:
        resolve(GatewayConfig(), environ, deployment=None, provider="openai", model="m")
    assert raised.value.kind is ReasonKind.NOT_CONFIGURED
    assert "OPENAI_BASE_URL" in raised.value.reason
