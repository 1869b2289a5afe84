"""A Card version's later life: deactivated, reactivated, deleted for ever."""

from __future__ import annotations

import asyncio

import pytest

from cards.reading import card_by_uid, latest_card
from store.bindings import Bindings
from store.caller import Role, Tenant
from tests.cards_registry.conftest import Registry, named, service, submission, verifier, verifier_spec
from wyrd.errors import WyrdError
from wyrd.wire.ids import uuid7


async def binding_states(registry: Registry, owner_uid: str | None) -> list[bool]:
    rows = await registry.of_tenant(
        lambda connection, tenant: Bindings(connection, tenant).of_owner(owner_uid or "")
    )
    return [row.active for row in rows]


async def test_deactivating_and_reactivating_moves_the_status_and_the_bindings(registry: Registry) -> None:
    desk = await registry.declare(verifier(), service())
    for active, phase in ((False, "deprecated"), (False, "deprecated"), (True, "active")):
        await registry.set_active(desk.root.uid, active)
        assert (await registry.envelope(desk.root))["status"]["phase"] == phase
        assert await binding_states(registry, desk.root.uid) == [active]


async def test_a_card_that_is_referred_to_cannot_be_deleted(registry: Registry) -> None:
    desk = await registry.declare(verifier(), service())
    checked = desk.outcomes[0].card_ref.uid
    with pytest.raises(WyrdError) as refused:
        await registry.delete(checked)
    assert refused.value.code == "WYRD_SPEC_409_CONFLICT"
    assert refused.value.details["referrers"] == [str(desk.root)]
    await registry.set_active(desk.root.uid, False)
    with pytest.raises(WyrdError):
        await registry.delete(checked)
    assert await registry.delete(desk.root.uid) is True
    assert await registry.delete(checked) is True


async def test_deletion_is_for_ever(registry: Registry) -> None:
    desk = await registry.declare(verifier(), service())
    assert await registry.delete(desk.root.uid) is True
    assert await registry.delete(desk.root.uid) is False
    assert await binding_states(registry, desk.root.uid) == [False]
    for active in (True, False):
        with pytest.raises(WyrdError) as missing:
            await registry.set_active(desk.root.uid, active)
        assert missing.value.code == "WYRD_REGISTRY_404_CARD_NOT_FOUND"
    with pytest.raises(WyrdError) as unread:
        await registry.read(card_by_uid, "Service", desk.root.uid)
    assert unread.value.code == "WYRD_REGISTRY_404_CARD_NOT_FOUND"


async def test_a_deleted_version_is_never_declared_again(registry: Registry) -> None:
    first = await registry.declare(verifier())
    await registry.delete(first.root.uid)
    with pytest.raises(WyrdError) as same:
        await registry.declare(verifier())
    assert same.value.code == "WYRD_SPEC_409_CONFLICT"
    with pytest.raises(WyrdError) as other:
        await registry.declare(submission("Verifier", "no-promise", verifier_spec("other")))
    assert other.value.code == "WYRD_REGISTRY_409_SPEC_DRIFT"


async def test_an_unpinned_card_never_gets_a_deleted_version_again(registry: Registry) -> None:
    first = await registry.declare(verifier(version=None))
    await registry.delete(first.root.uid)
    again = await registry.declare(verifier(version=None))
    assert (first.root.version, again.root.version) == ("0.1.0", "0.1.1")


async def test_latest_is_the_highest_active_release(registry: Registry) -> None:
    receipts = {
        version: await registry.declare(verifier(version=version))
        for version in ("1.9.0", "1.10.0", "2.0.0-rc.1", "0.5.0")
    }

    async def latest() -> str:
        view = await registry.read(latest_card, "Verifier", "support", "no-promise")
        return str(view.card["metadata"]["version"])

    assert await latest() == "1.10.0"
    await registry.set_active(receipts["1.10.0"].root.uid, False)
    assert await latest() == "1.9.0"
    await registry.delete(receipts["1.9.0"].root.uid)
    assert await latest() == "0.5.0"
    await registry.delete(receipts["0.5.0"].root.uid)
    with pytest.raises(WyrdError) as missing:
        await latest()
    assert missing.value.code == "WYRD_REGISTRY_404_CARD_NOT_FOUND"


@pytest.mark.parametrize("role", [Role.VIEWER, Role.SERVICE])
async def test_only_those_who_may_write_cards_change_them(registry: Registry, role: Role) -> None:
    first = await registry.declare(verifier())
    reader = registry.as_role(role)
    for change in (reader.delete(first.root.uid), reader.set_active(first.root.uid, False)):
        with pytest.raises(WyrdError) as refused:
            await change
        assert refused.value.code == "WYRD_PERMISSION_403_DENIED_RBAC"


async def test_p58_another_tenants_card_cannot_be_changed(registry: Registry, other_tenant: Tenant) -> None:
    first = await registry.declare(verifier())
    rival = registry.of(other_tenant)
    for uid in (first.root.uid, uuid7()):
        for change in (rival.delete(uid), rival.set_active(uid, False)):
            with pytest.raises(WyrdError) as refused:
                await change
            assert refused.value.code == "WYRD_REGISTRY_404_CARD_NOT_FOUND"
    assert (await registry.envelope(first.root))["status"]["phase"] == "active"


async def test_a_card_bound_caller_reads_its_graph_and_nothing_else(registry: Registry) -> None:
    desk = await registry.declare(verifier(), service())
    other = await registry.declare(
        verifier(), verifier("other-check"), service("other-desk", verifiers=["other-check", "no-promise"])
    )
    bound = registry.bound_to(desk.root.uid)
    seen = await bound.envelope(desk.outcomes[0].card_ref)
    assert seen["relationships"]["inbound"] == [str(desk.root)]
    with pytest.raises(WyrdError) as denied:
        await bound.envelope(other.root)
    assert denied.value.code == "WYRD_PERMISSION_403_DENIED_RBAC"


async def test_deleting_and_referring_at_once_leave_no_dangling_reference(registry: Registry) -> None:
    for index in range(5):
        name = f"check-{index}"
        first = await registry.declare(verifier(name))
        desk = service(f"desk-{index}", verifiers=())
        desk["spec"]["verified_by"] = [{"verifier": named("Verifier", name)}]
        declared, deleted = await asyncio.gather(
            registry.declare(desk), registry.delete(first.root.uid), return_exceptions=True
        )
        # One of the two came first, and the other was refused for it.
        assert isinstance(declared, WyrdError) != isinstance(deleted, WyrdError)
