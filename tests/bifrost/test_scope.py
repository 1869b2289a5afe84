"""Which Cards a caller records about: its own graph's observation targets, or its tenant's."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from bifrost import scope as scopes
from bifrost.scope import OBSERVED, card_scope
from store.caller import Caller
from store.database import Database
from tests.bifrost.recording import Recording
from wyrd.errors import WyrdError
from wyrd.wire.ids import uuid7
from wyrd.wire.names import KINDS


@pytest.fixture
def acme(database: Database, tmp_path: Path) -> Recording:
    return Recording(database, tmp_path)


@pytest.fixture
def embedded(sqlite_database: Database, tmp_path: Path) -> Recording:
    return Recording(sqlite_database, tmp_path)


async def may(recording: Recording, caller: Caller, uids: Iterable[str | None]) -> bool:
    """Whether the caller may record about those, told by the one refusal there is."""
    scope = await card_scope(recording.database, caller)
    try:
        await scope.check(uids)
    except WyrdError as error:
        if (error.code, error.details) != ("WYRD_VALA_403_BIFROST_CARD_SCOPE", {}):
            raise
        return False
    return True


async def test_a_bound_caller_records_about_its_card_and_what_its_graph_leads_to(acme: Recording) -> None:
    prompt = acme.card("Prompt")
    agent = acme.card("Agent", prompt)
    verifier = acme.card("Verifier", acme.card("Artifact"))
    service = acme.card("Service", agent, verifier)
    stranger = acme.card("Agent")
    caller = acme.caller(service)
    for uid in (service, agent, prompt):
        assert await may(acme, caller, [uid, None])
    assert await may(acme, caller, [])
    for uid in (verifier, stranger, uuid7()):
        assert not await may(acme, caller, [uid])
        assert not await may(acme, caller, [service, agent, uid]), "one of them refuses all"


async def test_the_graph_does_not_lead_back_to_who_refers_to_it(embedded: Recording) -> None:
    agent = embedded.card("Agent")
    service = embedded.card("Service", agent)
    assert not await may(embedded, embedded.caller(agent), [service])


@pytest.mark.parametrize("kind", KINDS)
async def test_what_judges_or_governs_is_never_observed(embedded: Recording, kind: str) -> None:
    uid = embedded.card(kind)  # type: ignore[arg-type]
    observed = kind not in ("Verifier", "Operator", "Trigger", "Policy", "Audit")
    assert (kind in OBSERVED) is observed
    assert await may(embedded, embedded.caller(), [uid]) is observed
    assert await may(embedded, embedded.caller(embedded.card("Service", uid)), [uid]) is observed
    assert await may(embedded, embedded.caller(uid), [uid]), "its own Card"


async def test_an_unbound_caller_records_about_any_target_of_its_tenant(acme: Recording) -> None:
    uids = [acme.card("Agent"), acme.card("Data")]
    assert await may(acme, acme.caller(), [*uids, None])
    assert await may(acme, acme.caller(), uids), "again, from what is known"
    assert not await may(acme, acme.caller(), [*uids, uuid7()])
    assert not await may(acme, acme.caller(), ["no uuid at all"])


async def test_p58_another_tenants_card_is_an_unknown_one(acme: Recording, tmp_path: Path) -> None:
    rival = Recording(acme.database, tmp_path, "rival")
    theirs = rival.card("Agent")
    assert await may(rival, rival.caller(), [theirs])
    assert not await may(acme, acme.caller(), [theirs])
    assert not await may(acme, acme.caller(theirs), [theirs])


async def test_a_deleted_card_is_an_unknown_one(acme: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scopes, "_TRUSTED_SECONDS", 0.0)
    agent = acme.card("Agent")
    service = acme.card("Service", agent)
    assert await may(acme, acme.caller(), [agent])
    assert await may(acme, acme.caller(service), [service])
    acme.delete(agent)
    acme.delete(service)
    assert not await may(acme, acme.caller(), [agent])
    assert not await may(acme, acme.caller(service), [service])


async def test_many_cards_are_checked_at_once(acme: Recording) -> None:
    uids = [acme.card("Agent") for _ in range(3)]
    assert await may(acme, acme.caller(), uids)
    assert not await may(acme, acme.caller(), [*uids, *(uuid7() for _ in range(1500))])


async def test_a_bound_reader_reads_its_graph_and_an_unbound_one_everything(acme: Recording) -> None:
    verifier = acme.card("Verifier")
    service = acme.card("Service", verifier)
    assert (await card_scope(acme.database, acme.caller())).readable is None
    assert (await card_scope(acme.database, acme.caller(service))).readable == frozenset({service, verifier})
    assert (await card_scope(acme.database, acme.caller(uuid7()))).readable == frozenset()


async def test_a_caller_who_was_checked_just_now_costs_no_query(
    embedded: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scopes, "_TRUSTED_SECONDS", 3600.0)
    agent = embedded.card("Agent")
    service = embedded.card("Service", agent)
    assert await may(embedded, embedded.caller(), [agent])
    assert await may(embedded, embedded.caller(service), [agent])

    async def read(*_arguments: object) -> None:
        raise AssertionError("the database was asked")

    monkeypatch.setattr(embedded.database, "read", read)
    assert await may(embedded, embedded.caller(), [agent])
    assert await may(embedded, embedded.caller(service), [service])
