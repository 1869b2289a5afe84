"""Operator connections on both databases: sealed secrets, names taken once, tenants apart."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection, select, update

from store.caller import Tenant
from store.connections import DISABLED, Connections, NewConnection, OperatorConnection
from store.database import Database
from store.sealing import Sealed, Sealer
from store.settings import Settings
from store.tables.operators import operator_connections
from wyrd.errors import Code, WyrdError
from wyrd.wire.connections import origin_of

SEALER = Sealer(b"a key of exactly thirty-two byte")
PAGER = NewConnection("pager_duty", "on-call", {"integration_key": "a secret"})
HTTP = NewConnection(
    "http", "desk", {"token": "a secret"}, origin="https://desk.example", auth_scheme="bearer"
)


async def with_connections(database: Database, tenant: Tenant, work: Callable[[Connections], Any]) -> Any:
    return await database.write(lambda connection: work(Connections(connection, tenant)))


async def made(database: Database, tenant: Tenant, new: NewConnection = PAGER) -> OperatorConnection:
    found: OperatorConnection = await with_connections(database, tenant, lambda all: all.create(SEALER, new))
    return found


def opened(all: Connections, of: OperatorConnection) -> dict[str, str]:
    return all.secret(SEALER, of)


async def refused(database: Database, tenant: Tenant, work: Callable[[Connections], Any]) -> Code | None:
    with pytest.raises(WyrdError) as caught:
        await with_connections(database, tenant, work)
    return caught.value.member


async def test_a_connection_is_found_by_id_and_by_name_with_its_secret(
    database: Database, tenant: Tenant
) -> None:
    one = await made(database, tenant)
    assert await with_connections(database, tenant, lambda all: all.find(one.connection_id)) == one
    assert await with_connections(database, tenant, lambda all: all.named(["on-call", "none"])) == {
        "on-call": one
    }
    secret = await with_connections(database, tenant, lambda all: all.secret(SEALER, one))
    assert secret == {"integration_key": "a secret"}


async def test_a_name_is_taken_once_a_tenant_by_a_disabled_connection_too(
    database: Database, tenant: Tenant, other_tenant: Tenant
) -> None:
    one = await made(database, tenant)
    await with_connections(
        database, tenant, lambda all: all.change(SEALER, one.connection_id, {"status": DISABLED})
    )
    taken = replace(HTTP, name="on-call")
    code = Code.OPERATOR_409_CONNECTION_CONFLICT
    assert await refused(database, tenant, lambda all: all.create(SEALER, taken)) is code
    two = await made(database, tenant, HTTP)
    rename = {"name": "on-call"}
    assert await refused(database, tenant, lambda all: all.change(SEALER, two.connection_id, rename)) is code
    assert (await made(database, other_tenant)).name == "on-call"


async def test_another_tenant_neither_sees_nor_changes_nor_opens_a_connection(
    database: Database, tenant: Tenant, other_tenant: Tenant
) -> None:
    one = await made(database, tenant)
    code = Code.OPERATOR_404_CONNECTION_NOT_FOUND
    assert await refused(database, other_tenant, lambda all: all.find(one.connection_id)) is code
    assert (
        await refused(
            database, other_tenant, lambda all: all.change(SEALER, one.connection_id, {"status": DISABLED})
        )
        is code
    )
    seen = await with_connections(database, other_tenant, lambda all: (all.every(), all.named(["on-call"])))
    assert seen == ([], {})


async def test_a_new_name_is_sealed_into_the_secret(database: Database, tenant: Tenant) -> None:
    one = await made(database, tenant)
    two = await with_connections(
        database, tenant, lambda all: all.change(SEALER, one.connection_id, {"name": "renamed"})
    )
    secret = await with_connections(database, tenant, lambda all: all.secret(SEALER, two))
    assert secret == {"integration_key": "a secret"}
    unavailable = Code.OPERATOR_503_KEY_UNAVAILABLE
    assert await refused(database, tenant, lambda all: all.secret(SEALER, one)) is unavailable


async def test_a_sealed_secret_opens_in_its_own_row_only(
    database: Database, tenant: Tenant, other_tenant: Tenant
) -> None:
    """Copied to another tenant, id, provider or name, or changed by a bit, it stays shut."""
    one = await made(database, tenant)
    other = await made(database, tenant, HTTP)

    def moved(connection: Connection) -> None:
        row = connection.execute(
            select(operator_connections).where(operator_connections.c.connection_id == one.connection_id)
        ).one()
        connection.execute(
            update(operator_connections)
            .where(operator_connections.c.connection_id == other.connection_id)
            .values(sealed_secret=row.sealed_secret, sealed_key=row.sealed_key)
        )

    await database.write(moved)
    code = Code.OPERATOR_503_KEY_UNAVAILABLE
    assert await refused(database, tenant, lambda all: all.secret(SEALER, other)) is code
    for changed in (replace(one, provider="slack"), replace(one, name="other")):
        assert await refused(database, tenant, partial(opened, of=changed)) is code
    another = Sealer(b"another key of thirty-two bytes.")
    assert await refused(database, tenant, lambda all: all.secret(another, one)) is code


@given(st.binary(max_size=300), st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=4))
def test_what_is_sealed_opens_again_for_the_same_words_and_no_others(secret: bytes, bound: list[str]) -> None:
    sealed = SEALER.seal(secret, *bound)
    assert SEALER.open(sealed, *bound) == secret
    assert len(secret) < 8 or secret not in sealed.secret + sealed.key
    for other in ([*bound, ""], bound[:-1] if bound else ["x"], [f"{''.join(bound)}."]):
        if other != bound:
            with pytest.raises(WyrdError):
                SEALER.open(sealed, *other)


def _cut(data: bytes) -> bytes:
    return data[:-1]


def _emptied(_: bytes) -> bytes:
    return b""


def _flipped(data: bytes) -> bytes:
    return bytes([data[0] ^ 1]) + data[1:]


@pytest.mark.parametrize("place", ["secret", "key"])
@pytest.mark.parametrize("damage", [_cut, _emptied, _flipped])
def test_a_damaged_row_stays_shut(place: str, damage: Callable[[bytes], bytes]) -> None:
    sealed = SEALER.seal(b"a secret", "row")
    parts = {"secret": sealed.secret, "key": sealed.key}
    parts[place] = damage(parts[place])
    with pytest.raises(WyrdError) as caught:
        SEALER.open(Sealed(**parts), "row")
    assert caught.value.member is Code.OPERATOR_503_KEY_UNAVAILABLE


def test_two_seals_of_one_secret_have_nothing_in_common() -> None:
    one, two = SEALER.seal(b"a secret", "row"), SEALER.seal(b"a secret", "row")
    assert one.key != two.key
    assert one.secret != two.secret


def test_the_key_comes_from_its_setting_or_from_the_server_secret(tmp_path: Path) -> None:
    key = os.urandom(32)
    configured = Settings(home=tmp_path, connection_key=base64.b64encode(key).decode())
    derived = Settings(home=tmp_path, connection_key=None)
    sealed = Sealer.of(configured).seal(b"a secret", "row")
    assert Sealer(key).open(sealed, "row") == b"a secret"
    with pytest.raises(WyrdError):
        Sealer.of(derived).open(sealed, "row")
    assert Sealer.of(derived).open(Sealer.of(derived).seal(b"x", "row"), "row") == b"x"


@pytest.mark.parametrize("key", ["short", "AAAA", "not base64 at all, no"])
def test_a_key_of_the_wrong_size_stops_the_start(tmp_path: Path, key: str) -> None:
    with pytest.raises(WyrdError) as caught:
        Sealer.of(Settings(home=tmp_path, connection_key=key))
    assert caught.value.member is Code.CFG_400_SCHEMA_MISMATCH
    assert key not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("HTTPS://Desk.Example:443/a?b", "https://desk.example"),
        ("http://desk.example:80", "http://desk.example"),
        ("http://desk.example:443", "http://desk.example:443"),
        ("https://[::1]:8443/x", "https://[::1]:8443"),
    ],
)
def test_an_origin_has_one_form(url: str, origin: str) -> None:
    assert origin_of(url) == origin


@pytest.mark.parametrize(
    ("provider", "scheme", "header", "url", "said"),
    [
        ("http", "bearer", None, "https://desk.example/any/path", None),
        ("slack", None, None, None, "is for http"),
        ("http", "basic", None, "https://desk.example/", "another way"),
        ("http", "header", "X-Key", "https://desk.example/", "another way"),
        ("http", "bearer", None, "http://desk.example/", "is for https://desk.example"),
        ("http", "bearer", None, "https://desk.example.evil/", "is for https://desk.example"),
        ("http", "bearer", None, "https://desk.example:8443/", "is for https://desk.example"),
    ],
)
async def test_a_connection_says_why_it_does_not_fit(
    sqlite_database: Database,
    tenant: Tenant,
    provider: str,
    scheme: str | None,
    header: str | None,
    url: str | None,
    said: str | None,
) -> None:
    found = (await made(sqlite_database, tenant, HTTP)).refusal(provider, scheme, header, url)
    assert (found is None) if said is None else (found is not None and said in found)
