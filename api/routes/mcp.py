"""`/mcp`: the tools for agents, as MCP over streamable HTTP."""

from fastapi import Request, Response

from api.dependencies import Calling, Router, json_body
from api.mcp.door import MOST_BYTES, McpDoor
from wyrd.errors import Code, WyrdError

router = Router(tags=["mcp"])


@router.post("/mcp", response_model=None)
async def mcp(request: Request, _caller: Calling) -> Response:
    """One MCP message of the caller, answered with JSON. No sessions: every request stands alone."""
    body = await request.body()
    if len(body) > MOST_BYTES:
        raise WyrdError(
            Code.SPEC_413_PAYLOAD_TOO_LARGE, f"an MCP request is over {MOST_BYTES} bytes", limit=MOST_BYTES
        )
    # Read strictly before the library reads it leniently: no duplicate names, no endless nesting.
    await json_body(request)
    door: McpDoor = request.app.state.mcp
    return await door.answer(request, body)
