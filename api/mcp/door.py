"""The MCP server behind `/mcp`: streamable HTTP without sessions, one JSON answer to one request.

The `mcp` library speaks the protocol, the one that starts with `initialize` and the stateless one
of 2026-07-28. It is imported at the first call: that takes longer than all the rest of a start.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
from contextlib import suppress
from importlib import metadata
from typing import TYPE_CHECKING, Any

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from api.dependencies import caller, services
from api.edge import request_id_of
from api.mcp.tools import TOOLS, Asking
from api.problems import json_bytes, problem_document
from wyrd.errors import Code, WyrdError

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp.server.lowlevel import Server
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
    from mcp.types import CallToolRequestParams, CallToolResult, ListToolsResult

MOST_BYTES = 512 * 1024
"""Of a request: a query of 64 KiB, whatever its escapes make of it."""

_INSTRUCTIONS = (
    "Wyrd keeps what an AI service declares (Cards), what it did (tables, queried with SQL) and what was"
    " verified of it (executions). bifrost.list_tables says which tables there are."
)

_log = logging.getLogger("wyrd.api.mcp")


class McpDoor:
    """Serves MCP requests of callers that were let in; started by the first one."""

    def __init__(self) -> None:
        self._starting = asyncio.Lock()
        self._stop = asyncio.Event()
        self._manager: StreamableHTTPSessionManager | None = None
        self._serving: asyncio.Task[None] | None = None

    async def close(self) -> None:
        """Cancels what is under way."""
        self._stop.set()
        if self._serving is not None:
            with suppress(asyncio.CancelledError):
                await self._serving

    async def answer(self, request: Request, body: bytes) -> Response:
        """What is to be sent to a request whose body was read already."""
        return _Relayed(await self._open(), body)

    async def _open(self) -> StreamableHTTPSessionManager:
        async with self._starting:
            if self._manager is None:
                await asyncio.to_thread(importlib.import_module, "mcp.server.streamable_http_manager")
                self._manager = await self._started()
            return self._manager

    async def _started(self) -> StreamableHTTPSessionManager:
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

        manager = StreamableHTTPSessionManager(_server(), json_response=True, stateless=True)
        ready = asyncio.Event()

        async def serve() -> None:
            # In a task of its own, because its task group must be left by the task that entered it.
            async with manager.run():
                ready.set()
                await self._stop.wait()

        self._serving = asyncio.create_task(serve())
        await ready.wait()
        return manager


class _Relayed(Response):
    """An answer that the MCP library sends itself."""

    def __init__(self, manager: StreamableHTTPSessionManager, body: bytes) -> None:
        super().__init__()
        self._manager = manager
        self._request = body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        unread: Message | None = {"type": "http.request", "body": self._request, "more_body": False}
        left = asyncio.Event()

        async def again() -> Message:
            nonlocal unread
            message, unread = unread, None
            if message is None:
                await left.wait()
                return {"type": "http.disconnect"}
            return message

        async def leaving() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            left.set()

        answering = asyncio.ensure_future(self._manager.handle_request(scope, again, send))
        watching = asyncio.ensure_future(leaving())
        try:
            # Whoever hangs up is not worked for any longer: a query goes on for a minute.
            await asyncio.wait([answering, watching], return_when=asyncio.FIRST_COMPLETED)
            if answering.done():
                answering.result()
        finally:
            for task in (answering, watching):
                task.cancel()
            await asyncio.gather(answering, watching, return_exceptions=True)


def _server() -> Server[Any]:
    from mcp.server.caching import CacheHint
    from mcp.server.lowlevel import Server
    from mcp.types import ListToolsResult, Tool, ToolAnnotations

    listed = ListToolsResult(
        tools=[
            Tool(
                name=tool.name,
                description=tool.description,
                input_schema=tool.schema,
                annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False),
            )
            for tool in TOOLS.values()
        ]
    )

    async def list_tools(_context: ServerRequestContext[Any, Any], _params: Any) -> ListToolsResult:
        return listed

    return Server(
        "wyrd",
        title="Wyrd",
        version=_version(),
        instructions=_INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=_call,
        cache_hints={"tools/list": CacheHint(ttl_ms=60_000)},
    )


def _version() -> str:
    try:
        return metadata.version("wyrd-temporal")
    except metadata.PackageNotFoundError:
        return "unknown"


async def _call(context: ServerRequestContext[Any, Any], params: CallToolRequestParams) -> CallToolResult:
    from mcp.shared.exceptions import MCPError
    from mcp.types import INVALID_PARAMS

    tool = TOOLS.get(params.name)
    if tool is None:
        raise MCPError(INVALID_PARAMS, f"there is no tool {params.name[:80]!r}; there are {', '.join(TOOLS)}")
    request = context.request
    assert isinstance(request, Request)
    request_id = request_id_of(request.scope)
    try:
        asking = Asking(services(request), await caller(request), request_id)
        return _result(await tool.call(asking, params.arguments))
    except WyrdError as error:
        refused = error
    except Exception:
        _log.exception("request %s failed: tool %s", request_id, tool.name)
        refused = WyrdError(Code.SPEC_500_INTERNAL, "the server failed on this request")
    return _result(problem_document(refused, request_id), failed=True)


def _result(document: dict[str, Any], *, failed: bool = False) -> CallToolResult:
    from mcp.types import CallToolResult, TextContent

    try:
        text, structured = orjson.dumps(document).decode("utf-8"), document
    except TypeError:
        # Integers over 64 bits and lone surrogates: as text they survive, the library cannot send them.
        text, structured = json_bytes(document).decode("utf-8"), None
    return CallToolResult(
        content=[TextContent(type="text", text=text)], structured_content=structured, is_error=failed
    )
