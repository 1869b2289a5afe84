"""Code steps and code checks: evidence into the sandbox, a JSON value or a Verdict out of it."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from activities.context import ExecutionContext
from activities.files import FileShelf
from activities.places import PlaceFinder
from activities.sandbox import CodeCall, CodeReply, Sandbox
from engine.capture import Capture
from engine.ends import Ran
from engine.failure import BlockFailure, ReasonKind
from engine.finding import CheckFinding
from engine.reader import Reader
from engine.verdict import Malformed, closed_verdict, judge_returned
from store.blobs import BlobStore
from wyrd.cards import CodeAction, CodeCheck, InlineSource, MediaSlot, Reference
from wyrd.errors import WyrdError
from wyrd.wire.canonical import digest

LARGEST_SOURCE = 1024 * 1024


class CodeBlocks:
    """Runs code steps and code checks. Raises `BlockFailure` with the reason kind a block ends with."""

    def __init__(self, sandbox: Sandbox, blobs: BlobStore, shelf: FileShelf, places: PlaceFinder) -> None:
        self._sandbox = sandbox
        self._blobs = blobs
        self._shelf = shelf
        self._places = places

    async def step(
        self, context: ExecutionContext, block: int, action: CodeAction, reader: Reader, limit: float
    ) -> tuple[Any, Ran]:
        reply = await self._call(context, block, action, reader, limit)
        return reply.value, _ran(reply, context)

    async def check(
        self, context: ExecutionContext, block: int, check: CodeCheck, reader: Reader, limit: float
    ) -> tuple[CheckFinding, Ran]:
        reply = await self._call(context, block, check, reader, limit)
        try:
            cited = {citation.slot for citation in closed_verdict(reply.value).citations}
        except Malformed:
            cited = set()
        places = await self._places.of(context, cited)
        return judge_returned(reply.value, places=places, mode=context.capture), _ran(reply, context)

    async def _call(
        self,
        context: ExecutionContext,
        block: int,
        code: CodeAction | CodeCheck,
        reader: Reader,
        limit: float,
    ) -> CodeReply:
        source = await self._source(context, code)
        inputs: dict[str, Any] = {}
        async with AsyncExitStack() as stack:
            files: dict[str, Path] = {}
            for name, reference in code.inputs.items():
                inputs[name] = reader.value(reference, block)
                if _is_file(context, reference) and inputs[name] is not None:
                    file = context.evidence.inputs[reference.name]
                    opened = self._shelf.open(context.tenant, file["sha256"], file["size_bytes"])
                    files[reference.name] = await stack.enter_async_context(opened)
                    inputs[name] = {**inputs[name], "path": self._sandbox.path_of(reference.name)}
            call = CodeCall(
                source=source,
                entrypoint=code.entrypoint,
                inputs=inputs,
                files=files,
                timeout=limit,
                seed=digest(inputs),
                now=context.started_at,
            )
            try:
                return await self._sandbox.call(call)
            except BlockFailure as failure:
                if context.forgets and failure.kind is ReasonKind.CODE_FAILED:
                    # The code's own words, behind the colon, may quote what it was given.
                    raise BlockFailure(failure.kind, failure.reason.partition(": ")[0]) from None
                raise

    async def _source(self, context: ExecutionContext, code: CodeAction | CodeCheck) -> str:
        if isinstance(code.source, InlineSource):
            return code.source.inline
        artifact = code.source.artifact
        file = context.bundle.code_file(artifact.card, artifact.path)
        try:
            data = await self._blobs.get(context.tenant, file.sha256, limit=LARGEST_SOURCE)
            return data.decode("utf-8")
        except UnicodeDecodeError:
            raise BlockFailure(ReasonKind.CODE_FAILED, f"{file.path} is not UTF-8 text") from None
        except WyrdError as error:
            raise BlockFailure(
                ReasonKind.EVIDENCE_UNREADABLE, f"{file.path}: {error.detail}", retryable=error.status >= 500
            ) from None


def _is_file(context: ExecutionContext, reference: Reference) -> bool:
    slots = context.bundle.plan.spec.inputs
    return reference.is_whole_slot and isinstance(slots.get(reference.name), MediaSlot)


def _ran(reply: CodeReply, context: ExecutionContext) -> Ran:
    provenance = {
        "kind": "code",
        "sha256": reply.source_sha256,
        "runtime": "python",
        "engine": reply.engine,
        "python": reply.python,
    }
    printed = reply.stdout if context.capture is Capture.FULL else ""
    return Ran(provenance, {"stdout": printed} if printed else {})
