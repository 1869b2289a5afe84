"""`/healthz`, `/readyz` and `/docs`: for those who run the server or find their way to it."""

import asyncio
from collections.abc import Awaitable

from fastapi import Request, Response
from fastapi.responses import HTMLResponse

from api.dependencies import Router, Serving
from api.problems import Document
from api.reference import page
from api.services import Services
from store.schema import current, newest
from wyrd.errors import Code, WyrdError

router = Router(tags=["operation"])

_SECONDS = 3.0
_OK = "ok"


@router.get("/healthz")
async def healthz() -> Response:
    """The process is up. Says nothing about what it depends on."""
    return Document({"status": _OK})


@router.get("/readyz")
async def readyz(serving: Serving) -> Response:
    """Whether requests can be served: each part by name, 503 `WYRD_SERVER_503_NOT_READY` if one is not."""
    names = ("database", "blobs", "temporal")
    told = await asyncio.gather(
        _told(_database(serving)), _told(serving.blobs.check()), _told(_temporal(serving))
    )
    checks = dict(zip(names, told, strict=True))
    failing = [name for name, state in checks.items() if state != _OK]
    if failing:
        raise WyrdError(Code.SERVER_503_NOT_READY, f"not ready: {', '.join(failing)}", checks=checks)
    return Document({"status": "ready", "checks": checks})


@router.get("/docs", include_in_schema=False)
async def docs(request: Request) -> HTMLResponse:
    """The API reference as one page that loads nothing else."""
    return HTMLResponse(page(request.app.openapi()))


async def _told(check: Awaitable[object]) -> str:
    """`ok`, or one sentence that gives no address or credential away."""
    try:
        await asyncio.wait_for(check, _SECONDS)
    except WyrdError as error:
        return error.detail
    except TimeoutError:
        return f"no answer within {_SECONDS:g} s"
    except Exception:
        return "cannot be reached"
    return _OK


async def _database(serving: Services) -> None:
    found = await serving.database.read(current)
    if found != newest():
        raise WyrdError(Code.SERVER_503_NOT_READY, "the schema is not the one this version needs")


async def _temporal(serving: Services) -> None:
    if serving.temporal is None or not await serving.temporal.service_client.check_health():
        raise WyrdError(Code.SERVER_503_NOT_READY, "not connected")
