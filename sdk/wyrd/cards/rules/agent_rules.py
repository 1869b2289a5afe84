"""Agent steps and Agent checks: placeholders, files, tools, and the shape of the answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from wyrd.cards.actions import AgentBlock
from wyrd.cards.agent import BUILT_IN_TOOLS, WORKSPACE_TOOLS, AgentSpec
from wyrd.cards.media import PROVIDER_NATIVE
from wyrd.cards.prompt import PromptSpec
from wyrd.cards.references import Reference
from wyrd.cards.rules.verdict_schema import verdict_schema_fault
from wyrd.cards.slots import MediaSlot
from wyrd.cards.verifier import VerifierSpec

CHECK_TOOL: Final = "bifrost.query"
_FILE_TOOLS: Final = frozenset(("fs.list", "fs.read", "fs.search"))

Found = tuple[str, str, dict[str, list[str]]]
"""The broken rule, a sentence, and what the context adds."""

PromptOf = Callable[[AgentSpec], PromptSpec | None]


def workspace_path_fault(path: str) -> str | None:
    """Why a workspace key is not a path below /inputs, or None."""
    parts = path.split("/")
    if path.startswith("/inputs/") and all(part not in ("", ".", "..") for part in parts[1:]):
        return None
    return f"{path[:120]!r} is not a path such as /inputs/letter.md"


def agent_faults(
    block: AgentBlock, agent: AgentSpec, prompt: PromptSpec | None, spec: VerifierSpec, *, check: bool
) -> Iterator[Found]:
    """Every rule that the Agent breaks where it stands, in the order they are judged.

    `prompt` is the Agent's Prompt, or None when it is not known here.
    """
    if prompt is not None:
        yield from _inputs(block, prompt, spec)
    yield from _check_tools(agent) if check else _step_tools(block, agent)
    if check and prompt is not None:
        why = verdict_schema_fault(prompt.response_schema)
        if why is not None:
            yield "check_agent_schema", f"the judge could answer something that is no Verdict: {why}", {}


def _inputs(block: AgentBlock, prompt: PromptSpec, spec: VerifierSpec) -> Iterator[Found]:
    wanted = sorted({one.name for one in prompt.placeholders})
    given = sorted(block.inputs)
    if wanted != given:
        said = f"inputs must be exactly the Prompt's placeholders: {wanted}, not {given}"
        yield "agent_inputs", said, {"expected": wanted, "actual": given}
        return
    for one in prompt.placeholders:
        read = block.inputs[one.name]
        slot = spec.inputs.get(read.name) if read.is_whole_slot else None
        if one.kind == "text" and isinstance(slot, MediaSlot):
            said = f"{{{{{one.name}}}}} is text and cannot take the file {read}: extract it first"
            yield "media_as_text", said, {}
        if one.kind == "media":
            why = _native(read, slot if isinstance(slot, MediaSlot) else None)
            if why is not None:
                yield "native_media", f"${{media:{one.name}}}: {why}", {}


def _native(read: Reference, slot: MediaSlot | None) -> str | None:
    if slot is None:
        return f"a media placeholder takes one whole media slot, not {read}"
    other = [name for name in slot.formats if name not in PROVIDER_NATIVE]
    if other:
        taken = ", ".join(sorted(PROVIDER_NATIVE))
        return f"providers do not take {', '.join(other)} as files; they take {taken}"
    return None


def _step_tools(block: AgentBlock, agent: AgentSpec) -> Iterator[Found]:
    unknown = [name for name in agent.tool_names if name not in BUILT_IN_TOOLS]
    if unknown:
        yield "agent_tools", f"{unknown[0][:80]!r} is not a built-in tool", {}
    elif block.workspace and not WORKSPACE_TOOLS & set(agent.tool_names):
        yield "agent_tools", "a workspace needs one of fs.list, fs.read, fs.search, code.run", {}
    elif not block.workspace and _FILE_TOOLS & set(agent.tool_names):
        yield "agent_tools", "fs tools need a workspace to read", {}


def _check_tools(agent: AgentSpec) -> Iterator[Found]:
    other = [name for name in agent.tool_names if name != CHECK_TOOL]
    if other:
        yield "check_agent_tools", f"a check's Agent may use only {CHECK_TOOL}, not {other[0][:80]!r}", {}
