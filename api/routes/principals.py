"""`/v1/principals`: who may ask in this tenant, for its administrators."""

from collections.abc import Callable
from typing import Annotated, Concatenate, ParamSpec, TypeVar

from fastapi import Query, Response
from sqlalchemy import Connection

from api.dependencies import Calling, Router, Serving
from api.services import Services
from store.caller import Caller, Permission, Role
from store.identity import Identity, Principal
from wyrd.errors import Code, WyrdError
from wyrd.wire.auth import (
    CreatedCredential,
    CreatedPrincipal,
    CreatePrincipalRequest,
    CredentialList,
    CredentialView,
    GrantedRole,
    PrincipalList,
    PrincipalView,
    RevokeRequest,
    RoleChange,
    RolesAnswer,
)
from wyrd.wire.refs import CardRef

router = Router(prefix="/v1/principals", tags=["principals"])

P = ParamSpec("P")
T = TypeVar("T")

_PAGE = 100
_LONGEST_PAGE = 1000


@router.post("")
async def create(body: CreatePrincipalRequest, caller: Calling, serving: Serving) -> CreatedPrincipal:
    """A new principal and its first API key."""
    roles = [Role(role) for role in body.roles]

    def made(identity: Identity) -> CreatedPrincipal:
        principal_id = identity.create(body.name, roles, description=body.description)
        return CreatedPrincipal(principal_id=principal_id, credential=identity.issue_key(principal_id).key)

    return await _changed(serving, caller, made)


@router.get("", response_model_exclude_none=True)
async def page(
    caller: Calling,
    serving: Serving,
    kind: str | None = None,
    email: str | None = None,
    name: str | None = None,
    limit: Annotated[int, Query()] = _PAGE,
    after: str | None = None,
) -> PrincipalList:
    """The tenant's principals in order of creation."""
    if not 1 <= limit <= _LONGEST_PAGE:
        raise WyrdError(
            Code.REGISTRY_400_LIST_LIMIT_OUT_OF_RANGE,
            f"limit must be from 1 to {_LONGEST_PAGE}",
            field="limit",
        )

    def found(identity: Identity) -> list[Principal]:
        return identity.page(kind=kind, email=email, name=name, after=after, limit=limit + 1)

    rows = await _read(serving, caller, found)
    more = rows[limit - 1].id if len(rows) > limit else None
    return PrincipalList(principals=[_view(row) for row in rows[:limit]], next=more)


@router.post("/{principal_id}/credentials")
async def add_credential(principal_id: str, caller: Calling, serving: Serving) -> CreatedCredential:
    """Another API key of the principal."""
    issued = await _changed(serving, caller, Identity.issue_key, principal_id)
    return CreatedCredential(id=issued.id, credential=issued.key)


@router.get("/{principal_id}/credentials", response_model_exclude_none=True)
async def credentials(principal_id: str, caller: Calling, serving: Serving) -> CredentialList:
    """Every API key the principal ever had, by its beginning."""
    keys = await _read(serving, caller, Identity.keys, principal_id)
    return CredentialList(
        credentials=[
            CredentialView(
                id=key.id,
                prefix=key.prefix,
                created_at=key.created_at,
                expires_at=key.expires_at,
                revoked_at=key.revoked_at,
                last_used_at=key.last_used_at,
            )
            for key in keys
        ]
    )


@router.delete("/{principal_id}/credentials/{credential_id}", response_class=Response)
async def revoke_credential(
    principal_id: str, credential_id: str, caller: Calling, serving: Serving
) -> Response:
    """Revoke one API key; every process refuses it within a second."""
    await _changed(serving, caller, Identity.revoke_key, principal_id, credential_id)
    return Response()


@router.post("/{principal_id}/revoke", response_class=Response)
async def revoke(principal_id: str, body: RevokeRequest, caller: Calling, serving: Serving) -> Response:
    """Suspend the principal for good, with all its keys."""

    def suspended(identity: Identity) -> None:
        kind = identity.get(principal_id).kind
        if body.principal_kind != kind:
            raise WyrdError(
                Code.SPEC_400_VALIDATION, f"the principal is a {kind.value}", field="principal_kind"
            )
        identity.suspend(principal_id, body.reason)

    await _changed(serving, caller, suspended)
    return Response()


@router.get("/{principal_id}/roles")
async def roles(principal_id: str, caller: Calling, serving: Serving) -> RolesAnswer:
    def found(identity: Identity) -> RolesAnswer:
        principal = identity.get(principal_id)
        return RolesAnswer(
            principal_id=principal_id, kind=principal.kind, roles=_granted(identity, principal_id)
        )

    return await _read(serving, caller, found)


@router.put("/{principal_id}/roles/{role}")
async def grant(principal_id: str, role: Role, caller: Calling, serving: Serving) -> RoleChange:
    return await _changed(serving, caller, _role_changed, principal_id, role, Identity.grant)


@router.delete("/{principal_id}/roles/{role}")
async def withdraw(principal_id: str, role: Role, caller: Calling, serving: Serving) -> RoleChange:
    return await _changed(serving, caller, _role_changed, principal_id, role, Identity.withdraw)


def _role_changed(
    identity: Identity, principal_id: str, role: Role, change: Callable[[Identity, str, Role], bool]
) -> RoleChange:
    changed = change(identity, principal_id, role)
    return RoleChange(
        principal_id=principal_id,
        kind=identity.get(principal_id).kind,
        role=role.value,
        changed=changed,
        roles=_granted(identity, principal_id),
    )


def _granted(identity: Identity, principal_id: str) -> list[GrantedRole]:
    return [GrantedRole(role=role.value) for role in identity.roles(principal_id)]


def _view(principal: Principal) -> PrincipalView:
    ref = principal.card_ref
    return PrincipalView(
        principal_id=principal.id,
        kind=principal.kind.value,
        status=principal.status.value,
        email=principal.email,
        name=principal.name,
        card_ref=None if ref is None else CardRef.model_validate(ref),
    )


async def _read(
    serving: Services,
    caller: Caller,
    work: Callable[Concatenate[Identity, P], T],
    *arguments: P.args,
    **named: P.kwargs,
) -> T:
    caller.require(Permission.PRINCIPALS_MANAGE)

    def on(connection: Connection) -> T:
        return work(Identity(connection, caller.tenant), *arguments, **named)

    return await serving.database.read(on)


async def _changed(
    serving: Services,
    caller: Caller,
    work: Callable[Concatenate[Identity, P], T],
    *arguments: P.args,
    **named: P.kwargs,
) -> T:
    caller.require(Permission.PRINCIPALS_MANAGE)

    def on(connection: Connection) -> T:
        return work(Identity(connection, caller.tenant), *arguments, **named)

    return await serving.database.write(on)
