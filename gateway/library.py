"""The model library: loaded late, once, quiet, and without a connection of its own.

Loading takes seconds of processor time, so nothing imports it at the top of a module.
"""

from __future__ import annotations

import logging
import os
import threading
from importlib import import_module
from types import ModuleType
from typing import Any

_SETTINGS = {
    # Without these two it fetches a price list at import and a header list at the first call.
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",
    "LITELLM_TELEMETRY": "False",
    # Any other mode reads a .env file from the current folder.
    "LITELLM_MODE": "PRODUCTION",
    "LITELLM_LOG": "ERROR",
}

_lock = threading.Lock()
_loaded: list[ModuleType] = []
_introduced: set[str] = set()


def loaded() -> Any:
    """litellm if it is ready, else None."""
    return _loaded[0] if _loaded else None


def load() -> Any:
    """litellm, set up. Blocks for seconds the first time: call it in a thread."""
    with _lock:
        if not _loaded:
            os.environ.update(_SETTINGS)
            import litellm

            # Its log lines quote requests and credentials; failures are told by the gateway.
            for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
                logging.getLogger(name).setLevel(logging.CRITICAL)
            litellm.telemetry = False
            litellm.suppress_debug_info = True
            litellm.turn_off_message_logging = True
            litellm.drop_params = False
            litellm.modify_params = False
            _rehearse(litellm)
            _loaded.append(litellm)
        return _loaded[0]


def _rehearse(litellm: Any) -> None:
    """Make it import now, in this thread, the hundreds of modules that its first call needs."""
    import_module("openai.resources.chat.completions")
    import_module("litellm.llms.custom_httpx.http_handler")
    messages = [{"role": "user", "content": "rehearsal"}]
    litellm.completion(model="openai/rehearsal", messages=messages, api_key="none", mock_response="none")


def introduce(library: Any, name: str, provider: str) -> None:
    """Tell the library about a model newer than itself, so that it still uses the provider's features.

    Of a Google model it does not know it believes that it takes no system message, and would
    move the judge's instructions in among the evidence.
    """
    with _lock:
        if name in _introduced or name in library.model_cost or name.partition("/")[2] in library.model_cost:
            return
        if len(_introduced) >= 1000:
            return
        features = ("system_messages", "response_schema", "reasoning")
        entry: dict[str, Any] = {"litellm_provider": provider, "mode": "chat"}
        library.register_model({name: entry | {f"supports_{feature}": True for feature in features}})
        _introduced.add(name)


def cost_usd(library: Any, provider: str, model: str, input_tokens: int, output_tokens: int) -> float | None:
    """The list price of a call in US dollars. None when the answering model has no known price."""
    entry = library.model_cost.get(model) or library.model_cost.get(f"{provider}/{model}")
    if not entry or not entry.get("input_cost_per_token") or not entry.get("output_cost_per_token"):
        return None
    prompt, completion = library.cost_per_token(
        model=model, custom_llm_provider=provider, prompt_tokens=input_tokens, completion_tokens=output_tokens
    )
    return float(prompt + completion)
