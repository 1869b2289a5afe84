"""The model library is loaded late, quietly, and opens no connection by itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

WATCH = """
import socket, sys
opened = []
def watch(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo"):
        opened.append((event, arguments[1:]))
sys.addaudithook(watch)
"""


def run(code: str, **environ: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", WATCH + code],
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'sdk'}{os.pathsep}{ROOT}", **environ},
        capture_output=True,
        encoding="utf-8",
        timeout=100,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def test_importing_the_gateway_does_not_import_the_library() -> None:
    out = run("import gateway; print(sorted({'litellm', 'openai', 'jsonschema'} & set(sys.modules)))")
    assert out == "[]\n"


def test_loading_it_and_asking_every_adapter_connects_only_to_the_endpoint() -> None:
    code = """
import asyncio
from engine.prompts import RenderedMessage, TextPart
from examples.scripted_provider import Reply, ScriptedProvider
from gateway import Gateway, GatewayConfig, ModelCall

async def main():
    with ScriptedProvider([Reply(text="yes")]) as provider:
        root = provider.url.removesuffix("/v1")
        deployments = {
            "openai": {"adapter": "openai", "base_url": provider.url, "api_key_env": "KEY"},
            "claude": {"adapter": "anthropic", "base_url": root, "api_key_env": "KEY"},
            "gemini": {"adapter": "gemini", "base_url": root, "api_key_env": "KEY"},
        }
        config = GatewayConfig.parse({"deployments": deployments})
        async with Gateway(config, {"KEY": "k"}) as gateway:
            await gateway.warm()
            assert opened == [], opened
            for name in deployments:
                reply = await gateway.complete(ModelCall(
                    provider="openai", model="claude-gemini-9", deployment=name, timeout_seconds=60,
                    messages=[RenderedMessage("user", (TextPart("hi"),))],
                    settings={"max_output_tokens": 9},
                ))
                assert reply.text == "yes"
    strange = [item for item in opened if "127.0.0.1" not in repr(item)]
    assert strange == [], strange
    import litellm
    # "cache" only says that a cache would be asked if one were set up.
    callbacks = {*litellm.callbacks, *litellm.success_callback, *litellm.failure_callback}
    assert callbacks <= {"cache"} and litellm.cache is None, callbacks
    print(litellm.telemetry, len(opened) > 0)

asyncio.run(main())
"""
    assert run(code) == "False True\n"


def test_the_environment_cannot_make_the_library_drop_settings_or_talk() -> None:
    code = """
from gateway import library
litellm = library.load()
assert library.load() is litellm
assert opened == [], opened
print(litellm.drop_params, litellm.modify_params, litellm.suppress_debug_info)
"""
    noisy = {"LITELLM_DROP_PARAMS": "True", "LITELLM_MODIFY_PARAMS": "True", "LITELLM_LOG": "DEBUG"}
    assert run(code, **noisy, LITELLM_MODE="DEV", LITELLM_LOCAL_MODEL_COST_MAP="") == "False False True\n"
