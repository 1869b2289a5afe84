"""The FastAPI application: routes, error answers, and the lifespan of its services."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException

from api.dependencies import StrictRoute
from api.edge import Edge, request_id_of
from api.mcp.door import McpDoor
from api.problems import Document, from_http, problem
from api.routes import (
    auth,
    bifrost,
    bindings,
    blobs,
    cards,
    evidence,
    health,
    mcp,
    operator_connections,
    otlp,
    principals,
    query,
    verification,
)
from api.services import Services
from wyrd.errors import WyrdError

STREAMED = ("/v1/blobs/",)
"""Paths whose routes count the body themselves while they stream it to disk."""


def create_app(services: Services) -> FastAPI:
    """The application over opened or unopened services; it opens them when it starts."""

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        await services.open()
        tools = app.state.mcp = McpDoor()
        try:
            yield
        finally:
            await tools.close()
            await services.close()

    app = FastAPI(
        title="Wyrd on Temporal",
        description="Declare what an AI service must do, verify its evidence, and prove it later.",
        lifespan=lifespan,
        default_response_class=Document,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.services = services
    app.router.route_class = StrictRoute
    app.add_exception_handler(WyrdError, _wyrd_error)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_middleware(Edge, max_body_bytes=services.settings.max_body_bytes, streamed=STREAMED)
    for module in (
        *(verification, evidence, bifrost, cards, auth, principals),
        *(bindings, operator_connections, blobs, mcp, otlp, health),
        query,
    ):
        # One flat table, first match wins, instead of `include_router`: that makes every request
        # walk router by router.
        app.router.routes.extend(module.router.routes)
    return app


async def _wyrd_error(request: Request, error: Exception) -> Response:
    return problem(cast(WyrdError, error), request_id_of(request.scope))


async def _http_error(request: Request, error: Exception) -> Response:
    refused = cast(HTTPException, error)
    return problem(
        from_http(refused),
        request_id_of(request.scope),
        status=refused.status_code,
        headers=refused.headers,
    )
