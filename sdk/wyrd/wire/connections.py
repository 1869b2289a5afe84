"""Operator connections as they travel (`/v1/operator-connections`). Secrets go one way only."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    RootModel,
    SecretStr,
    model_validator,
)
from pydantic_core import PydanticCustomError

from wyrd.wire.names import Name

Provider = Literal["slack", "pager_duty", "http"]
ConnectionStatus = Literal["active", "disabled"]

_VISIBLE = re.compile(r"[\x21-\x7e]+")
_HEADER_VALUE = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_LONGEST_SECRET = 4096
_PORTS = {"http": 80, "https": 443}
_SET_BY_DELIVERY = frozenset(
    {
        *("connection", "content-length", "expect", "host", "idempotency-key", "keep-alive"),
        *("proxy-connection", "te", "trailer", "transfer-encoding", "upgrade", "wyrd-attempt"),
    }
)


def origin_of(url: str) -> str:
    """Scheme, host and port of a URL, in lower case, the port left out where it is the scheme's own.

    Raises ValueError for what names no host.
    """
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname:
        raise ValueError("an origin starts with https:// or http:// and names a host")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    port = parts.port
    return f"{parts.scheme}://{host}" + ("" if port in (None, _PORTS[parts.scheme]) else f":{port}")


def _secret(pattern: re.Pattern[str] | None, told: str) -> Any:
    def checked(value: SecretStr) -> SecretStr:
        text = value.get_secret_value()
        fine = pattern.fullmatch(text) if pattern is not None else text and not _CONTROL.search(text)
        if not fine or len(text) > _LONGEST_SECRET:
            raise PydanticCustomError("secret", told)
        return value

    return AfterValidator(checked)


def _origin(value: str) -> str:
    try:
        found = origin_of(value)
        parts = urlsplit(value)
    except ValueError as error:
        raise PydanticCustomError("origin", "not an origin: {why}", {"why": str(error)}) from None
    bare = parts.path in ("", "/") and not parts.query and not parts.fragment and "@" not in parts.netloc
    if not bare or not value.isascii() or re.search(r"\s", value):
        raise PydanticCustomError("origin", "an origin is a scheme, a host and a port, and nothing else")
    return found


def _header_name(value: str) -> str:
    if _TOKEN.fullmatch(value) is None or value.lower() in _SET_BY_DELIVERY:
        raise PydanticCustomError("header", "not a header that a credential can go into")
    return value


Visible = Annotated[SecretStr, _secret(_VISIBLE, "a secret of 1 to 4,096 visible ASCII characters")]
HeaderValue = Annotated[SecretStr, _secret(_HEADER_VALUE, "1 to 4,096 visible ASCII characters and spaces")]
Password = Annotated[SecretStr, _secret(None, "1 to 4,096 characters, none of them a control character")]
UserName = Annotated[str, Field(min_length=1, max_length=255, pattern=r"^[^:\x00-\x1f\x7f]+$")]
HeaderName = Annotated[str, Field(max_length=200), AfterValidator(_header_name)]
Origin = Annotated[str, Field(max_length=512), AfterValidator(_origin)]
WorkspaceId = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_.-]+$")]


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class BearerSecret(_Request):
    scheme: Literal["bearer"]
    token: Visible


class BasicSecret(_Request):
    scheme: Literal["basic"]
    username: UserName
    password: Password


class HeaderSecret(_Request):
    scheme: Literal["header"]
    name: HeaderName
    value: HeaderValue


HttpSecret = Annotated[BearerSecret | BasicSecret | HeaderSecret, Field(discriminator="scheme")]


class CreateSlack(_Request):
    provider: Literal["slack"]
    name: Name
    workspace_id: WorkspaceId
    bot_token: Visible


class CreatePagerDuty(_Request):
    provider: Literal["pager_duty"]
    name: Name
    integration_key: Visible


class CreateHttp(_Request):
    provider: Literal["http"]
    name: Name
    origin: Origin
    auth: HttpSecret


CreateConnection = CreateSlack | CreatePagerDuty | CreateHttp


class _Update(_Request):
    """What changes, beside the provider. A member that is absent stays as it is."""

    name: Name | None = None
    status: ConnectionStatus | None = None

    @model_validator(mode="after")
    def _changes(self) -> _Update:
        given = self.model_fields_set - {"provider"}
        if not given:
            raise PydanticCustomError("nothing", "name at least one member to change")
        if any(getattr(self, name) is None for name in given):
            raise PydanticCustomError("null", "a member that changes is not null")
        return self


class UpdateSlack(_Update):
    provider: Literal["slack"]
    workspace_id: WorkspaceId | None = None
    bot_token: Visible | None = None


class UpdatePagerDuty(_Update):
    provider: Literal["pager_duty"]
    integration_key: Visible | None = None


class UpdateHttp(_Update):
    """A new origin takes a new `auth` with it: a stored secret is never sent elsewhere."""

    provider: Literal["http"]
    origin: Origin | None = None
    auth: HttpSecret | None = None

    @model_validator(mode="after")
    def _together(self) -> UpdateHttp:
        if self.origin is not None and self.auth is None:
            raise PydanticCustomError("auth", "a new origin needs its auth given again")
        return self


UpdateConnection = UpdateSlack | UpdatePagerDuty | UpdateHttp


class HttpAuthView(BaseModel):
    model_config = ConfigDict(extra="forbid", defer_build=True)

    scheme: Literal["bearer", "basic", "header"]
    name: str | None = None


class ConnectionView(BaseModel):
    """A connection without its secret. Published clients refuse members they do not know."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    connection_id: str
    provider: Provider
    name: str
    status: ConnectionStatus
    workspace_id: str | None = None
    origin: str | None = None
    auth: HttpAuthView | None = None
    created_at: datetime
    updated_at: datetime


class ConnectionList(RootModel[list[ConnectionView]]):
    """The answer of the list: a bare array."""

    model_config = ConfigDict(defer_build=True)
