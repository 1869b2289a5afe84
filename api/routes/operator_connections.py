"""`/v1/operator-connections`: where Operators deliver to, for the tenant's administrators.

Secrets are taken and never answered.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar
from urllib.parse import urlsplit

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, SecretStr, TypeAdapter, ValidationError

from activities.dispatch.screening import Destinations
from api.dependencies import Calling, Router, Serving, json_body
from api.problems import refused_request
from api.services import Services
from store.caller import Caller, Permission
from store.connections import DISABLED, Connections, NewConnection, OperatorConnection
from store.settings import Settings
from wyrd.errors import Code, WyrdError
from wyrd.wire.connections import (
    BasicSecret,
    BearerSecret,
    ConnectionView,
    CreateConnection,
    CreateHttp,
    CreatePagerDuty,
    CreateSlack,
    HeaderSecret,
    HttpAuthView,
    UpdateConnection,
    UpdateHttp,
    UpdatePagerDuty,
    UpdateSlack,
)

router = Router(prefix="/v1/operator-connections", tags=["operators"])

T = TypeVar("T")

_CREATE: Mapping[str, type[BaseModel]] = {
    "slack": CreateSlack,
    "pager_duty": CreatePagerDuty,
    "http": CreateHttp,
}
_UPDATE: Mapping[str, type[BaseModel]] = {
    "slack": UpdateSlack,
    "pager_duty": UpdatePagerDuty,
    "http": UpdateHttp,
}


def _described(union: Any) -> dict[str, Any]:
    """What the API's description says of a body that is one of several."""
    schema = TypeAdapter(union).json_schema()
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


@router.post(
    "", status_code=201, response_model_exclude_none=True, openapi_extra=_described(CreateConnection)
)
async def create(request: Request, caller: Calling, serving: Serving) -> ConnectionView:
    """A new connection, active at once."""
    caller.require(Permission.CONNECTIONS_MANAGE)
    body: Any = await _body(request, _CREATE)
    _require_encrypted(body, serving.settings)
    new = NewConnection(body.provider, body.name, _secret(body) or {}, **_shown(body))
    return await _changed(serving, caller, lambda repository: repository.create(serving.sealer, new))


@router.get("", response_model_exclude_none=True)
async def every(caller: Calling, serving: Serving) -> list[ConnectionView]:
    """All of them, disabled ones too, in order of creation."""
    return [_view(one) for one in await _read(serving, caller, Connections.every)]


@router.get("/{connection_id}", response_model_exclude_none=True)
async def get(connection_id: str, caller: Calling, serving: Serving) -> ConnectionView:
    return _view(await _read(serving, caller, lambda repository: repository.find(connection_id)))


@router.patch(
    "/{connection_id}", response_model_exclude_none=True, openapi_extra=_described(UpdateConnection)
)
async def update(connection_id: str, request: Request, caller: Calling, serving: Serving) -> ConnectionView:
    """Change what the body names; a new secret replaces the old one."""
    caller.require(Permission.CONNECTIONS_MANAGE)
    body: Any = await _body(request, _UPDATE)
    _require_encrypted(body, serving.settings)
    changes = {name: getattr(body, name) for name in ("name", "status") if name in body.model_fields_set}
    changes |= _shown(body)

    def changed(repository: Connections) -> OperatorConnection:
        found = repository.find(connection_id)
        if found.provider != body.provider:
            raise _invalid("provider", f"the connection is for {found.provider}")
        return repository.change(serving.sealer, connection_id, changes, _secret(body))

    return await _changed(serving, caller, changed)


@router.delete("/{connection_id}", response_model_exclude_none=True)
async def disable(connection_id: str, caller: Calling, serving: Serving) -> ConnectionView:
    """Disable it: what names it is not delivered any more. It keeps its name, and can be enabled again."""

    def disabled(repository: Connections) -> OperatorConnection:
        return repository.change(serving.sealer, connection_id, {"status": DISABLED})

    return await _changed(serving, caller, disabled)


async def _body(request: Request, models: Mapping[str, type[BaseModel]]) -> BaseModel:
    """The body as the model of its provider. Raises `WYRD_OPERATOR_400_INVALID_CONNECTION`."""
    document = await json_body(request)
    provider = document.get("provider") if isinstance(document, dict) else None
    model = models.get(provider) if isinstance(provider, str) else None
    if model is None:
        raise _invalid("provider", f"provider must be one of {', '.join(models)}")
    try:
        return model.model_validate(document)
    except ValidationError as error:
        # The scheme that chose the kind of `auth` is no member on the way to the fault.
        found = [
            {**fault, "loc": ("body", *fault["loc"][:1], *fault["loc"][2:])}
            if fault["loc"][:1] == ("auth",) and len(fault["loc"]) > 1
            else {**fault, "loc": ("body", *fault["loc"])}
            for fault in error.errors(include_url=False)
        ]
        raise refused_request(RequestValidationError(found), Code.OPERATOR_400_INVALID_CONNECTION) from None


def _require_encrypted(body: Any, settings: Settings) -> None:
    """Refuse an origin that a secret would travel to unencrypted, unless the settings allow its host."""
    origin = getattr(body, "origin", None)
    if origin is None or origin.startswith("https://"):
        return
    host = urlsplit(origin).hostname or ""
    if not Destinations.allowing(settings.operator_destinations).names(host):
        raise _invalid(
            "origin", "a secret is sent by https only, unless the server's settings allow the host"
        )


def _invalid(field: str, reason: str) -> WyrdError:
    return WyrdError(Code.OPERATOR_400_INVALID_CONNECTION, reason, field=field, reason=reason)


def _shown(body: Any) -> dict[str, Any]:
    """The columns beside the name that a body sets."""
    found: dict[str, Any] = {}
    for name in ("workspace_id", "origin"):
        value = getattr(body, name, None)
        if value is not None:
            found[name] = value
    auth = getattr(body, "auth", None)
    if auth is not None:
        found["auth_scheme"] = auth.scheme
        found["auth_header"] = auth.name if isinstance(auth, HeaderSecret) else None
    return found


def _secret(body: Any) -> dict[str, str] | None:
    """What a body gives to authenticate by; None where it gives nothing."""
    match getattr(body, "auth", None):
        case BearerSecret(token=token):
            return {"token": token.get_secret_value()}
        case BasicSecret(username=username, password=password):
            return {"username": username, "password": password.get_secret_value()}
        case HeaderSecret(value=value):
            return {"value": value.get_secret_value()}
    for name in ("bot_token", "integration_key"):
        given = getattr(body, name, None)
        if isinstance(given, SecretStr):
            return {name: given.get_secret_value()}
    return None


def _view(found: OperatorConnection) -> ConnectionView:
    auth = None
    if found.auth_scheme is not None:
        auth = HttpAuthView.model_validate({"scheme": found.auth_scheme, "name": found.auth_header})
    return ConnectionView.model_validate(
        {
            "connection_id": found.connection_id,
            "provider": found.provider,
            "name": found.name,
            "status": found.status,
            "workspace_id": found.workspace_id,
            "origin": found.origin,
            "auth": auth,
            "created_at": found.created_at,
            "updated_at": found.updated_at,
        }
    )


async def _read(serving: Services, caller: Caller, work: Callable[[Connections], T]) -> T:
    caller.require(Permission.CONNECTIONS_MANAGE)
    return await serving.database.read(lambda connection: work(Connections(connection, caller.tenant)))


async def _changed(
    serving: Services, caller: Caller, work: Callable[[Connections], OperatorConnection]
) -> ConnectionView:
    caller.require(Permission.CONNECTIONS_MANAGE)
    return _view(
        await serving.database.write(lambda connection: work(Connections(connection, caller.tenant)))
    )
