"""Whose bindings run: those of a Card that is active and whose principal still has a way in."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

import pytest

from store.authority import require_authority
from store.caller import Role, Tenant
from store.first_start import ensure_tenant
from store.identity import Identity
from tests.cards_registry.conftest import Registry, service, verifier
from wyrd.errors import WyrdError
from wyrd.wire.ids import uuid7

T = TypeVar("T")

BINDING_NOT_FOUND = "WYRD_VERIFICATION_404_BINDING_NOT_FOUND"
REFUSED = "WYRD_PERMISSION_403_DENIED_RBAC"


@pytest.fixture
def owners(registry: Registry, stored_tenant: Tenant) -> Registry:
    """An editor's registry of a tenant that can have principals, since it has a row."""
    return registry.of(stored_tenant)


async def owner(owners: Registry) -> str:
    receipt = await owners.declare(verifier(), service())
    assert receipt.root.uid is not None
    return receipt.root.uid


async def reason(owners: Registry, uid: str) -> WyrdError | None:
    """Why the owner's bindings do not run; None when they do."""
    try:
        await owners.of_tenant(require_authority, uid)
    except WyrdError as error:
        return error
    return None


async def identity(owners: Registry, work: Callable[[Identity], T]) -> T:
    return await owners.database.write(lambda connection: work(Identity(connection, owners.caller.tenant)))


async def bound(owners: Registry, uid: str, name: str = "desk", **key: Any) -> tuple[str, str]:
    """A principal bound to the Card, and the id of a key of it."""

    def made(repository: Identity) -> tuple[str, str]:
        principal_id = repository.create(name, [Role.SERVICE], card_uid=uid)
        return principal_id, repository.issue_key(principal_id, **key).id

    return await identity(owners, made)


async def test_an_active_owner_that_no_principal_is_bound_to_acts(owners: Registry) -> None:
    assert await reason(owners, await owner(owners)) is None


async def test_an_owner_that_is_deactivated_does_not_act_until_it_is_active_again(owners: Registry) -> None:
    uid = await owner(owners)
    await owners.set_active(uid, False)
    refused = await reason(owners, uid)
    assert refused is not None
    assert refused.code == BINDING_NOT_FOUND
    assert "deprecated" in refused.detail
    await owners.set_active(uid, True)
    assert await reason(owners, uid) is None


async def test_an_owner_that_is_deleted_never_acts_again(owners: Registry) -> None:
    uid = await owner(owners)
    await owners.delete(uid)
    refused = await reason(owners, uid)
    assert refused is not None
    assert refused.code == BINDING_NOT_FOUND
    assert "deleted" in refused.detail


async def test_a_card_that_nobody_knows_does_not_act(owners: Registry) -> None:
    refused = await reason(owners, uuid7())
    assert refused is not None
    assert refused.code == BINDING_NOT_FOUND


async def test_an_owner_of_another_tenant_is_not_there(owners: Registry) -> None:
    uid = await owner(owners)
    rival = owners.of(await ensure_tenant(owners.database, "rival"))
    refused = await reason(rival, uid)
    assert refused is not None
    assert refused.code == BINDING_NOT_FOUND


async def test_an_owner_whose_principal_is_suspended_is_refused(owners: Registry) -> None:
    uid = await owner(owners)
    principal_id, _ = await bound(owners, uid)
    assert await reason(owners, uid) is None
    await identity(owners, lambda repository: repository.suspend(principal_id, "left"))
    refused = await reason(owners, uid)
    assert refused is not None
    assert refused.code == REFUSED
    assert "suspended" in refused.detail


async def test_an_owner_is_refused_with_its_last_key_and_not_before(owners: Registry) -> None:
    uid = await owner(owners)
    principal_id, first = await bound(owners, uid)
    second = await identity(owners, lambda repository: repository.issue_key(principal_id).id)
    await identity(owners, lambda repository: repository.revoke_key(principal_id, first))
    assert await reason(owners, uid) is None
    await identity(owners, lambda repository: repository.revoke_key(principal_id, second))
    refused = await reason(owners, uid)
    assert refused is not None
    assert refused.code == REFUSED
    assert "last key" in refused.detail


async def test_a_key_that_has_expired_is_no_key(owners: Registry) -> None:
    uid = await owner(owners)
    await bound(owners, uid, lifetime=timedelta(seconds=-1))
    refused = await reason(owners, uid)
    assert refused is not None
    assert refused.code == REFUSED


async def test_one_principal_in_good_standing_is_enough(owners: Registry) -> None:
    uid = await owner(owners)
    first, _ = await bound(owners, uid)
    await bound(owners, uid, "desk again")
    await identity(owners, lambda repository: repository.suspend(first, "left"))
    assert await reason(owners, uid) is None


async def test_the_standing_of_principals_that_are_bound_to_other_cards_does_not_matter(
    owners: Registry,
) -> None:
    uid = await owner(owners)
    other, _ = await bound(owners, uuid7())
    await identity(owners, lambda repository: repository.suspend(other, "left"))
    assert await reason(owners, uid) is None
