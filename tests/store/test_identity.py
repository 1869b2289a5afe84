"""Tenants, principals and keys, on both databases."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

import pytest
from sqlalchemy import Connection, select

from store.caller import Role, Tenant
from store.database import Database
from store.first_start import ensure_tenant
from store.identity import Identity
from store.standing import PrincipalStatus, key_digest, standing_of_key
from store.tables.identity import api_keys
from wyrd.errors import Code, WyrdError
from wyrd.wire.ids import is_uuid7, uuid7

T = TypeVar("T")


async def within(database: Database, tenant: Tenant, work: Callable[[Identity], T]) -> T:
    return await database.write(lambda connection: work(Identity(connection, tenant)))


async def administrator(database: Database, tenant: Tenant, name: str) -> str:
    def made(identity: Identity) -> str:
        principal_id = identity.create(name, [Role.ADMIN])
        identity.issue_key(principal_id)
        return principal_id

    return await within(database, tenant, made)


async def test_a_tenant_is_made_once_by_whoever_comes_first(database: Database) -> None:
    made = await asyncio.gather(*(ensure_tenant(database, "acme") for _ in range(8)))
    assert len(set(made)) == 1
    assert is_uuid7(made[0].id)


async def test_a_key_is_kept_only_as_its_digest_and_prefix(database: Database, stored_tenant: Tenant) -> None:
    principal_id = await administrator(database, stored_tenant, "ann")
    issued = await within(database, stored_tenant, lambda identity: identity.issue_key(principal_id))
    assert issued.key.startswith("wyrd_sk_")
    assert len(issued.key) == len("wyrd_sk_") + 43
    rows = await database.read(lambda connection: connection.execute(select(api_keys)).all())
    stored = next(row for row in rows if row.id == issued.id)
    assert stored.key_sha256 == key_digest(issued.key)
    assert issued.key not in repr(rows)


async def test_a_key_is_found_among_keys_of_the_same_prefix(
    database: Database, stored_tenant: Tenant
) -> None:
    principal_id = await administrator(database, stored_tenant, "ann")
    one, two = [
        await within(database, stored_tenant, lambda identity: identity.issue_key(principal_id))
        for _ in range(2)
    ]
    await database.write(lambda connection: connection.execute(api_keys.update().values(prefix=one.prefix)))
    found = await database.read(standing_of_key, one.key)
    assert found is not None
    assert found.key_id == one.id
    assert await database.read(standing_of_key, one.prefix + two.key[len(one.prefix) :]) is None


@pytest.mark.parametrize("key", ["", "wyrd_sk_", "wyrd_sk_x", "sk_" + "A" * 40, "wyrd_sk_\x00" + "A" * 40])
async def test_what_was_never_issued_is_nobodys_key(
    database: Database, stored_tenant: Tenant, key: str
) -> None:
    await administrator(database, stored_tenant, "ann")
    assert await database.read(standing_of_key, key) is None


async def test_two_administrators_cannot_remove_each_other_at_once(
    database: Database, stored_tenant: Tenant
) -> None:
    one = await administrator(database, stored_tenant, "one")
    two = await administrator(database, stored_tenant, "two")

    def removed(who: str) -> Callable[[Identity], None]:
        return lambda identity: identity.suspend(who, "at once")

    removals = [within(database, stored_tenant, removed(who)) for who in (one, two)]
    told = await asyncio.gather(*removals, return_exceptions=True)
    assert sorted(type(one).__name__ for one in told) == ["NoneType", "WyrdError"]
    statuses = await within(
        database, stored_tenant, lambda identity: [identity.get(who).status for who in (one, two)]
    )
    assert sorted(statuses) == [PrincipalStatus.ACTIVE, PrincipalStatus.SUSPENDED]


async def test_an_administrator_without_a_usable_key_does_not_count(
    database: Database, stored_tenant: Tenant
) -> None:
    one = await administrator(database, stored_tenant, "one")

    def keyless(identity: Identity) -> str:
        principal_id = identity.create("keyless", [Role.ADMIN])
        identity.issue_key(principal_id, lifetime=timedelta(seconds=-1))
        return principal_id

    await within(database, stored_tenant, keyless)
    with pytest.raises(WyrdError) as refused:
        await within(database, stored_tenant, lambda identity: identity.withdraw(one, Role.ADMIN))
    assert refused.value.member is Code.AUTH_409_ADMIN_CONFLICT


async def test_a_refused_removal_changes_nothing(database: Database, stored_tenant: Tenant) -> None:
    one = await administrator(database, stored_tenant, "one")
    with pytest.raises(WyrdError):
        await within(database, stored_tenant, lambda identity: identity.suspend(one, "gone"))

    def state(identity: Identity) -> tuple[PrincipalStatus, list[Role], Any]:
        return identity.get(one).status, identity.roles(one), identity.keys(one)[0].revoked_at

    assert await within(database, stored_tenant, state) == (PrincipalStatus.ACTIVE, [Role.ADMIN], None)


async def test_a_cards_principal_is_refused_once_suspended_or_keyless(
    database: Database, stored_tenant: Tenant
) -> None:
    uid, ref = uuid7(), {"kind": "Service", "space": "acme", "name": "support", "version": "1.0.0"}

    def bound(identity: Identity) -> tuple[str, str]:
        principal_id = identity.for_card(uid, ref, "acme/Service/support@1.0.0")
        return principal_id, identity.issue_key(principal_id).id

    def refused() -> Any:
        return within(database, stored_tenant, lambda identity: identity.refused(uid))

    assert await refused() is None
    principal_id, key_id = await within(database, stored_tenant, bound)
    assert await refused() is None
    await within(database, stored_tenant, lambda identity: identity.revoke_key(principal_id, key_id))
    assert "last key" in await refused()
    await within(database, stored_tenant, bound)
    assert await refused() is None
    await within(database, stored_tenant, lambda identity: identity.suspend(principal_id, "left"))
    assert "suspended" in await refused()
    again, _ = await within(database, stored_tenant, bound)
    assert again != principal_id
    assert await refused() is None


async def test_p58_an_identity_of_another_tenant_sees_and_changes_nothing(
    database: Database, stored_tenant: Tenant
) -> None:
    one = await administrator(database, stored_tenant, "one")
    await administrator(database, stored_tenant, "two")
    rival = await ensure_tenant(database, "rival")
    key_id = (await within(database, stored_tenant, lambda identity: identity.keys(one)))[0].id
    for attempt in (
        lambda identity: identity.get(one),
        lambda identity: identity.keys(one),
        lambda identity: identity.issue_key(one),
        lambda identity: identity.revoke_key(one, key_id),
        lambda identity: identity.suspend(one, "x"),
        lambda identity: identity.roles(one),
        lambda identity: identity.grant(one, Role.VIEWER),
        lambda identity: identity.withdraw(one, Role.ADMIN),
    ):
        with pytest.raises(WyrdError) as refused:
            await within(database, rival, attempt)
        assert refused.value.member is Code.AUTH_404_PRINCIPAL_NOT_FOUND
    assert await within(database, rival, lambda identity: identity.page(limit=10)) == []


async def test_pages_follow_each_other_without_gaps(database: Database, stored_tenant: Tenant) -> None:
    def many(identity: Identity) -> list[str]:
        return [identity.create(f"p{n}", [Role.VIEWER]) for n in range(7)]

    made = await within(database, stored_tenant, many)
    seen: list[str] = []

    def following(identity: Identity) -> list[str]:
        return [found.id for found in identity.page(limit=3, after=seen[-1] if seen else None)]

    while page := await within(database, stored_tenant, following):
        seen += page
    assert seen == made


async def test_a_connection_sees_only_committed_principals(database: Database, stored_tenant: Tenant) -> None:
    def fails(connection: Connection) -> None:
        Identity(connection, stored_tenant).create("half", [Role.VIEWER])
        raise RuntimeError("after the insert")

    with pytest.raises(RuntimeError):
        await database.write(fails)
    assert await within(database, stored_tenant, lambda identity: identity.page(limit=10)) == []
