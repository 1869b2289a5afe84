"""Agent steps and agent checks: evidence into a Prompt, one model call, an output or a Verdict."""

from __future__ import annotations

from typing import Any

from activities.bundle import ResolvedAgent
from activities.context import ExecutionContext
from activities.extract import check_format
from activities.files import FileShelf
from activities.places import PlaceFinder
from engine.agent_output import output_of
from engine.ends import Ran
from engine.failure import BlockFailure, ReasonKind
from engine.finding import CheckFinding
from engine.prompts import Value, render, render_body
from engine.reader import Reader
from engine.verdict import Malformed, judge_reply, parse_reply
from gateway import Gateway, ModelCall, ModelReply, NativeBody
from store.blobs import BlobStore, DigestMismatch
from wyrd.cards import AgentAction, AgentCheck, ExtractAction, MediaSlot, Reference
from wyrd.cards.agent import GatewayRoute
from wyrd.errors import WyrdError


class AgentBlocks:
    """Runs agent steps and agent checks. Raises `BlockFailure` with the reason kind a block ends with."""

    def __init__(
        self,
        gateway: Gateway,
        blobs: BlobStore,
        shelf: FileShelf,
        places: PlaceFinder,
    ) -> None:
        self._gateway = gateway
        self._blobs = blobs
        self._shelf = shelf
        self._places = places

    async def step(
        self, context: ExecutionContext, block: int, action: AgentAction, reader: Reader, limit: float
    ) -> tuple[Any, Ran]:
        agent = _toolless(context, action)
        reply = await self._ask(context, block, action, agent, reader, limit)
        output = output_of(reply.text, reply.finish_reason, reply.refusal, agent.prompt.response_schema)
        return output, _ran(agent, reply)

    async def check(
        self, context: ExecutionContext, block: int, check: AgentCheck, reader: Reader, limit: float
    ) -> tuple[CheckFinding, Ran]:
        agent = _toolless(context, check)
        reply = await self._ask(context, block, check, agent, reader, limit)
        try:
            cited = {citation.slot for citation in parse_reply(reply.text).citations}
        except Malformed:
            cited = set()
        finding = judge_reply(
            reply.text,
            finish_reason=reply.finish_reason,
            refused=reply.refusal is not None,
            places=await self._places.of(context, cited),
            mode=context.capture,
        )
        return finding, _ran(agent, reply)

    async def _ask(
        self,
        context: ExecutionContext,
        block: int,
        asked: AgentAction | AgentCheck,
        agent: ResolvedAgent,
        reader: Reader,
        limit: float,
    ) -> ModelReply:
        values = {
            name: await self._value(context, block, reference, reader, limit)
            for name, reference in asked.inputs.items()
        }
        prompt = agent.prompt
        native = None
        if prompt.body is not None and prompt.format is not None:
            native = NativeBody(prompt.format, render_body(prompt.body, values))
        route = agent.spec.execution_route
        configured = agent.spec.run_config.timeout_ms
        return await self._gateway.complete(
            ModelCall(
                provider=prompt.provider,
                model=prompt.model,
                deployment=route.deployment if isinstance(route, GatewayRoute) else None,
                timeout_seconds=min(limit, configured / 1000) if configured else limit,
                messages=() if native else render(prompt, values),
                settings={} if prompt.settings is None else prompt.settings.model_dump(exclude_none=True),
                response_schema=None if native else prompt.response_format,
                native=native,
                media=lambda sha256: self._media(context, sha256),
                user=context.execution_id,
            )
        )

    async def _value(
        self, context: ExecutionContext, block: int, reference: Reference, reader: Reader, limit: float
    ) -> Value:
        data = reader.value(reference, block)
        plan = context.bundle.plan
        if reference.is_whole_slot and isinstance(plan.spec.inputs.get(reference.name), MediaSlot):
            if data is not None:
                file = context.evidence.inputs[reference.name]
                async with self._shelf.open(context.tenant, file["sha256"], file["size_bytes"]) as path:
                    await check_format(path, file["format"], timeout=limit)
            return Value(data, is_media=data is not None)
        if reference.root == "steps" and reference.facet == "output" and not reference.selectors:
            step = plan.spec.steps[plan.step_index[reference.name]]
            if isinstance(step.action, ExtractAction):
                return Value(data, extraction_format=data["format"])
        return Value(data)

    async def _media(self, context: ExecutionContext, sha256: str) -> bytes:
        try:
            return await self._blobs.get(context.tenant, sha256)
        except DigestMismatch as error:
            raise BlockFailure(ReasonKind.DIGEST_MISMATCH, error.detail) from None
        except WyrdError as error:
            raise BlockFailure(
                ReasonKind.EVIDENCE_UNREADABLE, error.detail, retryable=error.status >= 500
            ) from None


def _toolless(context: ExecutionContext, asked: AgentAction | AgentCheck) -> ResolvedAgent:
    agent = context.bundle.agent(asked.agent)
    if agent.spec.tool_names or asked.workspace:
        what = "tools" if agent.spec.tool_names else "a workspace"
        raise BlockFailure(
            ReasonKind.NOT_CONFIGURED,
            f"this server does not run Agents with {what} yet, and never without them",
        )
    return agent


def _ran(agent: ResolvedAgent, reply: ModelReply) -> Ran:
    route = agent.spec.execution_route
    provenance: dict[str, Any] = {
        "kind": "agent",
        "route": route.model_dump(mode="json"),
        "effective_route": {
            "kind": reply.route.kind,
            "provider": reply.route.provider,
            "host": reply.route.host,
            "deployment": reply.route.deployment,
        },
        "model": reply.model,
        "response_id": reply.response_id,
        "finish_reason": reply.finish_reason,
        "usage": {
            "input_tokens": reply.usage.input_tokens,
            "output_tokens": reply.usage.output_tokens,
            "total_tokens": reply.usage.total_tokens,
        },
        "cost_usd": reply.cost_usd,
        "model_ms": reply.duration_ms,
    }
    if agent.agent_ref is not None:
        provenance["agent"] = agent.agent_ref.model_dump(mode="json", exclude_none=True)
    if agent.prompt_ref is not None:
        provenance["prompt"] = agent.prompt_ref.model_dump(mode="json", exclude_none=True)
    return Ran(provenance)
