from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from examples.scripted_provider import ScriptedProvider
from gateway.deployments import GatewayConfig
from gateway.gateway import Gateway


@pytest.fixture
def provider() -> Iterator[ScriptedProvider]:
    with ScriptedProvider() as server:
        yield server


@pytest.fixture
async def gateway(provider: ScriptedProvider) -> AsyncIterator[Gateway]:
    root = provider.url.removesuffix("/v1")
    deployments = {
        "openai": {"adapter": "openai", "base_url": provider.url, "api_key_env": "KEY"},
        "local": {"adapter": "openai_compatible", "base_url": provider.url},
        "claude": {"adapter": "anthropic", "base_url": root, "api_key_env": "KEY"},
        "gemini": {"adapter": "gemini", "base_url": f"{root}/v1beta", "api_key_env": "KEY"},
        "vertex": {"adapter": "vertex", "base_url": f"{root}/v1/publishers/google", "api_key_env": "KEY"},
        "narrow": {
            "adapter": "openai",
            "base_url": provider.url,
            "api_key_env": "KEY",
            "models": ["gpt-6-luna"],
        },
        "keyless": {"adapter": "openai", "base_url": provider.url, "api_key_env": "NOT_SET"},
    }
    environ = {
        "KEY": "sk-test-4f1c9a",
        "OPENAI_API_KEY": "sk-native-77aa01",
        "OPENAI_BASE_URL": provider.url,
        "MISTRAL_API_KEY": "mk-1",
        "MISTRAL_BASE_URL": provider.url,
    }
    async with Gateway(GatewayConfig.parse({"deployments": deployments}), environ) as opened:
        await opened.warm()
        yield opened
