"""What routes ask for: the services, the caller, and bodies that were read strictly.

Every route of the application is made by a `Router`, so that no body goes round the strict
parser and every refusal is a problem document.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.params import Form
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError

from api.problems import Document, refused_request
from api.services import Services
from store.caller import Caller
from wyrd.errors import Code, WyrdError
from wyrd.wire.canonical import MAX_DEPTH, JsonRefused, strict_loads

_PARSED_AT_ONCE = 128 * 1024
"""Bytes of a body that are parsed where they are; more is parsed in a thread, for seconds at worst."""

TOKEN_HEADER = "x-wyrd-access-token"

_CALLER = "wyrd.caller"

Asked = TypeVar("Asked", bound=BaseModel)
Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])


def services(request: Request) -> Services:
    """The process's services, outside the dependency system (inside it: `Serving`)."""
    found: Services = request.app.state.services
    return found


async def _services(request: Request) -> Services:
    return services(request)


async def caller(request: Request) -> Caller:
    """Who asks. Raises `WYRD_AUTH_401_*` for a missing, wrong, expired or revoked credential.

    Taken from `x-wyrd-access-token: Bearer <token>` or `Authorization: Bearer <token or API
    key>`; the first wins when both are there.
    """
    found: Caller | None = request.scope.get(_CALLER)
    if found is None:
        found = request.scope[_CALLER] = await services(request).tokens.caller(bearer(request))
    return found


Serving = Annotated[Services, Depends(_services)]
Calling = Annotated[Caller, Depends(caller)]


def bearer(request: Request) -> str:
    """The credential a request carries. Raises `WYRD_AUTH_401_UNAUTHENTICATED` without one."""
    return credential_in(request.headers.get(TOKEN_HEADER) or request.headers.get("authorization"))


def credential_in(given: str | None) -> str:
    """The credential of a header's value. Raises `WYRD_AUTH_401_UNAUTHENTICATED` without one."""
    if not given:
        raise WyrdError(Code.AUTH_401_UNAUTHENTICATED, "the request carries no credential")
    scheme, _, credential = given.partition(" ")
    credential = credential.strip()
    if scheme.lower() != "bearer" or not credential:
        raise WyrdError(Code.AUTH_401_UNAUTHENTICATED, "the credential must read 'Bearer <token>'")
    return credential


def refused_with(code: Code) -> Callable[[Endpoint], Endpoint]:
    """Name the code that a body, query or path which the route's models refuse is told with."""

    def mark(endpoint: Endpoint) -> Endpoint:
        endpoint.__dict__["refusal_code"] = code
        return endpoint

    return mark


async def json_body(request: Request, max_depth: int = MAX_DEPTH) -> Any:
    """The request's JSON document, read strictly; None for an empty body.

    Raises `WYRD_SPEC_400_VALIDATION` for another content type and for what `strict_loads`
    refuses, with details.reason and, where known, details.pointer.
    """
    body = await request.body()
    if not body:
        return None
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
        raise WyrdError(
            Code.SPEC_400_VALIDATION,
            f"the content type must be application/json, not {kind[:100] or 'absent'}",
            field="content-type",
        )
    try:
        if len(body) > _PARSED_AT_ONCE:
            return await asyncio.to_thread(strict_loads, body, max_depth=max_depth)
        return strict_loads(body, max_depth=max_depth)
    except JsonRefused as refused:
        details = {"pointer": refused.pointer} if refused.pointer else {}
        raise WyrdError(
            Code.SPEC_400_VALIDATION, f"the body: {refused.reason}", reason=refused.reason, **details
        ) from None


async def asked_by(
    request: Request, model: type[Asked], code: Code, max_depth: int = MAX_DEPTH
) -> tuple[Caller, Asked]:
    """The caller and the body of a request, for the routes that must be fast.

    The same checks in the same order as a `StrictRoute` with `Calling` and a body, without the
    framework's resolution of parameters, which costs such a route more than all of its own work.
    The route says what it takes with `body_of`.
    """
    who = await caller(request)
    document = await json_body(request, max_depth)
    try:
        return who, model.model_validate(document)
    except ValidationError as error:
        found = [{**fault, "loc": ("body", *fault["loc"])} for fault in error.errors(include_url=False)]
        raise refused_request(RequestValidationError(found), code) from None


def body_of(model: type[BaseModel]) -> dict[str, Any]:
    """What the API's description says of a body that `asked_by` reads."""
    schema = model.model_json_schema()
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


class _StrictRequest(Request):
    document: Any = None

    async def json(self) -> Any:
        return self.document


class StrictRoute(APIRoute):
    """A route whose JSON body went through the strict parser, and whose refusals are WyrdErrors.

    Where a route asks for the caller, the credential is checked before the body is read: nobody
    unknown makes this process hold or parse megabytes.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        inner = super().get_route_handler()
        code: Code = getattr(self.endpoint, "refusal_code", Code.SPEC_400_VALIDATION)
        field = self.body_field
        takes_json = field is not None and not isinstance(field.field_info, Form)
        authenticated = any(needed.call is caller for needed in self.dependant.dependencies)

        async def strict(request: Request) -> Response:
            if authenticated:
                await caller(request)
            if takes_json:
                read = _StrictRequest(request.scope, request.receive)
                read.document = await json_body(read)
                request = read
            try:
                return await inner(request)
            except RequestValidationError as error:
                raise refused_request(error, code) from None

        return strict


class Router(APIRouter):
    """An APIRouter of strict routes that answer `Document`s."""

    def __init__(self, **options: Any) -> None:
        options.setdefault("default_response_class", Document)
        super().__init__(route_class=StrictRoute, redirect_slashes=False, **options)
