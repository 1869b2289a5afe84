"""Tokens, keys and principals as they travel (`/auth/…`, `/v1/principals/…`)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from wyrd.wire.refs import CardRef

TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
API_KEY_TYPE = "urn:wyrd:oauth:token-type:api_key"
ACCESS_TOKEN_TYPE = "urn:ietf:params:oauth:token-type:access_token"

MOST_KEY_SECONDS = 10 * 365 * 86_400
"""Longest life of a key made for a Card."""

# PostgreSQL keeps no NUL, and names that hide characters mislead whoever reads a list of them.
_PLAIN = r"^[^\x00-\x1f\x7f]+$"

RoleName = Literal["admin", "editor", "viewer", "service"]


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Answer(BaseModel):
    # Published clients refuse members they do not know, so nothing is ever added to these.
    model_config = ConfigDict(extra="forbid", defer_build=True)


class TokenAnswer(BaseModel):
    """A bearer token. `expires_in` in seconds."""

    model_config = ConfigDict(defer_build=True)

    access_token: str
    token_type: Literal["Bearer"] = "Bearer"
    expires_in: int
    issued_token_type: str = ACCESS_TOKEN_TYPE


class IssueKeyRequest(_Request):
    """A key for the principal that stands for a declared Card; one year when no life is given."""

    card_ref: CardRef
    label: Annotated[str, Field(max_length=255, pattern=_PLAIN)] | None = None
    expires_in_seconds: Annotated[int, Field(ge=1, le=MOST_KEY_SECONDS)] | None = None


class IssuedKeyAnswer(_Answer):
    """The only time `key` is shown."""

    key_id: str
    principal_id: str
    key: str
    prefix: str
    card_ref: CardRef
    created_at: datetime
    expires_at: datetime


class CreatePrincipalRequest(_Request):
    name: Annotated[str, Field(max_length=255, pattern=_PLAIN)]
    roles: Annotated[list[RoleName], Field(min_length=1, max_length=8)]
    description: Annotated[str, Field(max_length=2000, pattern=_PLAIN)] | None = None


class CreatedPrincipal(_Answer):
    """`credential` is an API key, shown only here."""

    principal_id: str
    credential: str


class PrincipalView(_Answer):
    principal_id: str
    kind: str
    status: Literal["active", "suspended"]
    email: str | None = None
    name: str | None = None
    card_ref: CardRef | None = None


class PrincipalList(_Answer):
    """`next` goes back as `after` for the following page; absent on the last."""

    principals: list[PrincipalView]
    next: str | None = None


class CreatedCredential(_Answer):
    """`credential` is an API key, shown only here."""

    id: str
    credential: str


class CredentialView(_Answer):
    id: str
    prefix: str
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None


class CredentialList(_Answer):
    credentials: list[CredentialView]


class RevokeRequest(_Request):
    """Suspends the principal for good; `principal_kind` must be what it is."""

    principal_kind: str
    reason: Annotated[str, Field(max_length=2000, pattern=_PLAIN)]


class GrantedRole(_Answer):
    role: RoleName
    source: Literal["idp", "direct"] = "direct"


class RolesAnswer(_Answer):
    principal_id: str
    kind: str
    roles: list[GrantedRole]


class RoleChange(_Answer):
    """`changed` is false when the role was there, or gone, already."""

    principal_id: str
    kind: str
    role: RoleName
    changed: bool
    roles: list[GrantedRole]
