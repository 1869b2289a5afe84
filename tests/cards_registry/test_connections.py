"""Operators at registration: their connections exist, are active, and fit."""

from __future__ import annotations

from typing import Any

import pytest

from store.caller import Tenant
from store.connections import ACTIVE, DISABLED, Connections, NewConnection
from store.sealing import Sealer
from tests.cards_registry.conftest import Registry, refused, service, sibling, submission, verifier

SEALER = Sealer(b"a key of exactly thirty-two byte")
UNAVAILABLE = "WYRD_SPEC_400_OPERATOR_CONNECTION_UNAVAILABLE"


def slack(connection: str = "desk-slack") -> dict[str, Any]:
    channel = {"kind": "slack", "connection": connection, "channel_id": "C1", "text": "{{summary}}"}
    return {"kind": "notify", "channel": channel}


def http(url: str = "https://desk.example/hook/{{group_id}}", **auth: str) -> dict[str, Any]:
    auth = auth or {"scheme": "bearer", "connection": "desk-http"}
    return {"kind": "http", "method": "post", "url": url, "auth": auth}


def desk(*operators: Any, **more: Any) -> dict[str, Any]:
    made = service()
    made["spec"]["verified_by"][0]["on_failure"] = list(operators)
    return {**made, **more}


@pytest.fixture
async def connected(registry: Registry) -> Registry:
    await add(registry, registry.caller.tenant)
    return registry


async def add(registry: Registry, tenant: Tenant) -> None:
    def work(connection: Any) -> None:
        repository = Connections(connection, tenant)
        repository.create(SEALER, NewConnection("slack", "desk-slack", {"bot_token": "x"}, "T1"))
        repository.create(SEALER, NewConnection("pager_duty", "desk-pager", {"integration_key": "x"}))
        repository.create(
            SEALER,
            NewConnection(
                "http", "desk-http", {"token": "x"}, origin="https://desk.example", auth_scheme="bearer"
            ),
        )

    await registry.database.write(work)


async def set_status(registry: Registry, name: str, status: str) -> None:
    def work(connection: Any) -> None:
        repository = Connections(connection, registry.caller.tenant)
        found = repository.named([name])[name]
        repository.change(SEALER, found.connection_id, {"status": status})

    await registry.database.write(work)


async def test_operators_whose_connections_fit_are_declared(connected: Registry) -> None:
    receipt = await connected.declare(
        verifier(), submission("Operator", "page", slack()), desk(sibling("Operator", "page"), http())
    )
    assert receipt.root.kind == "Service"


@pytest.mark.parametrize(
    ("spec", "field", "said"),
    [
        (slack("nowhere"), "spec.channel.connection", "there is no"),
        (slack("desk-pager"), "spec.channel.connection", "is for pager_duty"),
        (http(scheme="bearer", connection="nowhere"), "spec.auth.connection", "there is no"),
        (http(scheme="bearer", connection="desk-slack"), "spec.auth.connection", "is for slack"),
        (http(scheme="basic", connection="desk-http"), "spec.auth.connection", "another way"),
        (http("https://elsewhere.example/hook"), "spec.auth.connection", "does not call"),
    ],
)
async def test_an_operator_card_without_a_fitting_connection_is_refused(
    connected: Registry, spec: dict[str, Any], field: str, said: str
) -> None:
    error = await refused(connected, UNAVAILABLE, submission("Operator", "page", spec))
    assert error.details["field"] == field
    assert said in error.detail


async def test_an_operator_without_a_credential_needs_no_connection(registry: Registry) -> None:
    spec = {"kind": "http", "method": "post", "url": "https://anywhere.example/"}
    await registry.declare(verifier(), desk(spec))


async def test_an_inline_operator_is_named_by_its_place_in_the_binding(connected: Registry) -> None:
    error = await refused(connected, UNAVAILABLE, verifier(), desk(slack(), slack("nowhere")))
    assert error.details["field"] == "spec.verified_by[0].on_failure[1].channel.connection"
    assert error.details["connection"] == "nowhere"


async def test_a_disabled_connection_refuses_new_cards_that_name_it_even_through_an_old_one(
    connected: Registry,
) -> None:
    stored = (verifier(), submission("Operator", "page", slack()))
    first = await connected.declare(*stored)
    await set_status(connected, "desk-slack", DISABLED)
    error = await refused(connected, UNAVAILABLE, *stored, desk(sibling("Operator", "page")))
    assert error.details["field"] == "spec.verified_by[0].on_failure[0]"
    # What is stored already is no new Card: repeating its declaration changes nothing.
    again = await connected.declare(*stored)
    assert again.root == first.root
    await set_status(connected, "desk-slack", ACTIVE)
    await connected.declare(*stored, desk(sibling("Operator", "page")))


async def test_a_refused_operator_leaves_nothing_of_the_declaration(connected: Registry) -> None:
    await refused(connected, UNAVAILABLE, verifier(), desk(slack("nowhere")))
    receipt = await connected.declare(verifier())
    assert receipt.outcomes[0].outcome == "declared"


async def test_a_connection_of_another_tenant_is_none(registry: Registry, other_tenant: Tenant) -> None:
    await add(registry, other_tenant)
    await refused(registry, UNAVAILABLE, submission("Operator", "page", slack()))
