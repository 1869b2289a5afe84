"""Everything that the blocks of one exact Verifier need: its plan, Agents, Prompts and code files."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from sqlalchemy import Connection

from cards.blocks import referenced_cards
from engine.capture import Capture
from engine.failure import BlockFailure, ReasonKind
from engine.plan import Plan, compile_plan
from store.caller import Tenant
from store.cards import Cards
from store.database import Database
from wyrd.cards import AgentSpec, CardRef, PromptSpec, VerifierSpec, decode_spec
from wyrd.errors import Code, WyrdError

_KEPT = 256


@dataclass(frozen=True)
class ResolvedAgent:
    """An Agent and its Prompt with the exact names they are recorded under; None where inline."""

    spec: AgentSpec
    prompt: PromptSpec
    agent_ref: CardRef | None
    prompt_ref: CardRef | None


@dataclass(frozen=True)
class CodeFile:
    """A file of an Artifact that holds code. `sha256` in hexadecimal."""

    path: str
    sha256: str
    size_bytes: int


class Bundle:
    """One Verifier version, ready to run. Immutable: a Card version never changes."""

    def __init__(self, spec: VerifierSpec, referenced: Mapping[str, Mapping[str, Any]]) -> None:
        self.plan: Plan = compile_plan(spec)
        self.pure = not spec.steps and all(one.pure for one in self.plan.shape.requirements)
        """Whether judging needs nothing but the evidence: no steps, assertions and trace checks only."""
        self.capture = Capture(spec.context_capture or "full")
        self._referenced = referenced
        self._agents: dict[str, AgentSpec] = {}
        self._prompts: dict[str, PromptSpec] = {}

    def agent(self, link: Any) -> ResolvedAgent:
        """The Agent of a block, which names it or holds it inline."""
        agent_ref = link if isinstance(link, CardRef) else None
        spec = link if isinstance(link, AgentSpec) else self._agent(agent_ref)
        prompt_ref = spec.prompt if isinstance(spec.prompt, CardRef) else None
        prompt = spec.prompt if isinstance(spec.prompt, PromptSpec) else self._prompt(prompt_ref)
        return ResolvedAgent(spec, prompt, agent_ref, prompt_ref)

    def files(self, card: CardRef) -> list[CodeFile]:
        """Every file of a Card this Verifier refers to, in the order of their paths."""
        return [
            CodeFile(one["path"], one["sha256"], one["size_bytes"])
            for one in self._spec_of(card).get("files", [])
        ]

    def code_file(self, card: Any, path: str | None) -> CodeFile:
        """The file of an Artifact that a code block names. Raises `BlockFailure` where there is none."""
        files = self._spec_of(card).get("files", [])
        chosen = [file for file in files if path is None or file["path"] == path]
        if len(chosen) != 1:
            what = f"has no file {path}" if path else f"has {len(files)} files, and the Card names none"
            raise BlockFailure(ReasonKind.NOT_CONFIGURED, f"{card} {what}")
        return CodeFile(chosen[0]["path"], chosen[0]["sha256"], chosen[0]["size_bytes"])

    def _agent(self, ref: CardRef | None) -> AgentSpec:
        spec = self._spec_of(ref)
        uid = cast(str, cast(CardRef, ref).uid)
        if uid not in self._agents:
            self._agents[uid] = cast(AgentSpec, decode_spec("Agent", dict(spec)))
        return self._agents[uid]

    def _prompt(self, ref: CardRef | None) -> PromptSpec:
        spec = self._spec_of(ref)
        uid = cast(str, cast(CardRef, ref).uid)
        if uid not in self._prompts:
            self._prompts[uid] = cast(PromptSpec, decode_spec("Prompt", dict(spec)))
        return self._prompts[uid]

    def _spec_of(self, ref: Any) -> Mapping[str, Any]:
        uid = ref.uid if isinstance(ref, CardRef) else None
        if uid is None or uid not in self._referenced:
            raise BlockFailure(ReasonKind.INTERNAL, f"the Card {ref} is not stored with this Verifier")
        return self._referenced[uid]


class Bundles:
    """Bundles of recent Verifiers of every tenant, by tenant and uid; read from SQL when missing."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._kept: OrderedDict[tuple[str, str], Bundle] = OrderedDict()

    async def of(self, tenant: Tenant, verifier_uid: str) -> Bundle:
        """Raises `WYRD_VERIFICATION_404_TARGET_NOT_FOUND`, `WYRD_VERIFICATION_409_VERIFIER_NOT_READY`."""
        key = (tenant.id, verifier_uid)
        found = self._kept.get(key)
        if found is None:
            spec, referenced = await self._database.read(_load, tenant, verifier_uid)
            found = Bundle(cast(VerifierSpec, decode_spec("Verifier", spec)), referenced)
            self._kept[key] = found
            if len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        else:
            self._kept.move_to_end(key)
        return found


def _load(
    connection: Connection, tenant: Tenant, verifier_uid: str
) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    card = Cards(connection, tenant).by_uids([verifier_uid]).get(verifier_uid)
    if card is None:
        raise WyrdError(Code.VERIFICATION_404_TARGET_NOT_FOUND, "the Verifier is gone")
    spec = card.spec_document
    return spec, referenced_cards(connection, tenant, spec)
