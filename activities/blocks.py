"""One attempt of one block that is not pure: a step's action, an agent, a code or a drift check."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from activities.agent import AgentBlocks
from activities.code import CodeBlocks
from activities.context import ExecutionContext
from activities.drift.checks import DriftBlocks
from activities.extract import extract_file
from activities.files import FileShelf
from activities.places import PlaceFinder
from activities.sandbox import Sandbox
from engine.ends import Ran
from engine.failure import BlockFailure, ReasonKind
from engine.finding import CheckFinding
from engine.reader import Reader
from engine.retries import Role
from gateway import Gateway
from store.blobs import BlobStore
from wyrd.cards import AgentAction, AgentCheck, CodeAction, CodeCheck, DriftCheck, ExtractAction


@dataclass(frozen=True)
class Produced:
    """What an attempt gave: a step's `output`, or a check's `finding`."""

    ran: Ran
    output: Any = None
    finding: CheckFinding | None = None


class BlockRunner:
    """Runs attempts with this process's sandbox, parsers and gateway."""

    def __init__(
        self, blobs: BlobStore, sandbox: Sandbox, gateway: Gateway, drift: DriftBlocks | None = None
    ) -> None:
        self.shelf = FileShelf(blobs)
        places = PlaceFinder(self.shelf)
        self._agent = AgentBlocks(gateway, blobs, self.shelf, places)
        self._code = CodeBlocks(sandbox, blobs, self.shelf, places)
        self._drift = drift

    def close(self) -> None:
        self.shelf.close()

    def role(self, context: ExecutionContext, block: int) -> Role:
        """Which retry rule the block follows."""
        if context.bundle.plan.shape.is_step(block):
            return Role.STEP
        check = context.bundle.plan.requirement(block).spec.check
        return Role.AGENT_CHECK if isinstance(check, AgentCheck) else Role.CHECK

    async def attempt(self, context: ExecutionContext, block: int, reader: Reader, limit: float) -> Produced:
        """Run the block once within `limit` seconds. Raises `BlockFailure` and nothing else."""
        try:
            async with asyncio.timeout(limit):
                return await self._attempt(context, block, reader, limit)
        except TimeoutError:
            raise BlockFailure(
                ReasonKind.TIMEOUT, f"it took longer than {limit:g} s", retryable=True
            ) from None

    async def _attempt(self, context: ExecutionContext, block: int, reader: Reader, limit: float) -> Produced:
        plan = context.bundle.plan
        if plan.shape.is_step(block):
            action = plan.step(block).action
            match action:
                case ExtractAction():
                    return await self._extract(context, action, reader, limit)
                case AgentAction():
                    output, ran = await self._agent.step(context, block, action, reader, limit)
                case CodeAction():
                    output, ran = await self._code.step(context, block, action, reader, limit)
            return Produced(ran, output=output)
        check = plan.requirement(block).spec.check
        match check:
            case AgentCheck():
                finding, ran = await self._agent.check(context, block, check, reader, limit)
            case CodeCheck():
                finding, ran = await self._code.check(context, block, check, reader, limit)
            case DriftCheck() if self._drift is not None:
                requirement = plan.requirement(block).spec.id
                finding, ran = await self._drift.check(context, requirement, check)
            case _:
                raise BlockFailure(
                    ReasonKind.NOT_CONFIGURED, f"{check.kind} checks run on a schedule, not on sent inputs"
                )
        return Produced(ran, finding=finding)

    async def _extract(
        self, context: ExecutionContext, action: ExtractAction, reader: Reader, limit: float
    ) -> Produced:
        slot = action.from_.name
        if reader.value(action.from_, 0) is None:
            raise BlockFailure(ReasonKind.MISSING_EVIDENCE, f"the optional input {slot} was not given")
        file = context.evidence.inputs[slot]
        async with self.shelf.open(context.tenant, file["sha256"], file["size_bytes"]) as path:
            extracted = await extract_file(path, file["format"], timeout=limit)
        return Produced(Ran({"kind": "extract", "version": extracted.version}), output=extracted.output)
