"""Declaring: versions, outcomes, drift, all or nothing, idempotency."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from cards.reading import card_by_uid
from store.caller import Role, Tenant
from tests.cards_registry.conftest import (
    Registry,
    agent,
    everything,
    named,
    plain_component,
    prompt_spec,
    refused,
    service,
    submission,
    support_desk,
    verifier,
    verifier_spec,
)
from wyrd.errors import WyrdError
from wyrd.wire.cards import DeclareOutcome
from wyrd.wire.ids import is_uuid7, uuid7


async def test_a_declaration_answers_the_root_and_one_outcome_a_card(registry: Registry) -> None:
    receipt = await registry.declare(*support_desk())
    assert str(receipt.root).startswith("support/Service/support-desk@1.0.0#")
    assert [one.card_ref.name for one in receipt.outcomes][-1] == "support-desk"
    assert {one.outcome for one in receipt.outcomes} == {DeclareOutcome.DECLARED}
    assert {one.status for one in receipt.outcomes} == {"active"}
    assert all(is_uuid7(one.card_ref.uid or "") for one in receipt.outcomes)
    assert all(re.fullmatch("[0-9a-f]{64}", one.spec_hash) for one in receipt.outcomes)
    assert receipt.upload_plans == []


async def test_the_order_of_a_response_schemas_members_survives(registry: Registry) -> None:
    properties = {"zeta": {"type": "string"}, "alpha": {"type": "string"}}
    response = {"type": "object", "properties": properties, "required": ["zeta", "alpha"]}
    receipt = await registry.declare(
        submission("Prompt", "asks", {**prompt_spec(), "response_format": response})
    )
    card = await registry.envelope(receipt.root)
    assert list(card["spec"]["response_format"]["properties"]) == ["zeta", "alpha"]


async def test_text_with_nul_and_emoji_comes_back_as_it_was(registry: Registry) -> None:
    text = "a\0b \U0001f600 {{question}}"
    receipt = await registry.declare(submission("Prompt", "asks", prompt_spec(text)))
    card = await registry.envelope(receipt.root)
    assert card["spec"]["messages"][0]["content"] == text


async def test_declaring_a_pinned_version_again_changes_nothing(registry: Registry) -> None:
    first = await registry.declare(*support_desk())
    again = await registry.declare(*support_desk())
    assert {one.outcome for one in again.outcomes} == {DeclareOutcome.IDEMPOTENT_NOOP}
    assert [one.card_ref for one in again.outcomes] == [one.card_ref for one in first.outcomes]
    assert len((await everything(registry)).items) == 5


async def test_p51_key_order_and_spelling_of_numbers_do_not_change_a_spec(registry: Registry) -> None:
    await registry.declare(verifier())
    spec = verifier_spec()
    turned = dict(reversed(list(spec.items())))
    receipt = await registry.declare(submission("Verifier", "no-promise", turned))
    assert receipt.outcomes[0].outcome is DeclareOutcome.IDEMPOTENT_NOOP


async def test_members_that_say_what_their_absence_says_do_not_change_a_spec(registry: Registry) -> None:
    first = await registry.declare(verifier(), agent(), service(components=[plain_component()]))
    spec = verifier_spec()
    spec |= {"description": None, "steps": [], "decide": "all", "order_by": None}
    spec["inputs"]["answer"] |= {"required": True, "schema": None}
    spec["requirements"][0]["check"]["each"] = None
    written_out = agent(tool_names=[], run_config={"max_iterations": None}, verified_by=[])
    desk = service(components=[{**plain_component(), "source": None}])
    desk["spec"] |= {"service_type": None, "tables": []}
    desk["spec"]["verified_by"][0] |= {"runs_on": None, "on_failure": []}
    again = await registry.declare(submission("Verifier", "no-promise", spec), written_out, desk)
    assert [one.spec_hash for one in again.outcomes] == [one.spec_hash for one in first.outcomes]
    assert all(one.outcome is not DeclareOutcome.DECLARED for one in again.outcomes)


async def test_other_content_under_a_pinned_version_is_drift(registry: Registry) -> None:
    first = await registry.declare(verifier())
    error = await refused(
        registry,
        "WYRD_REGISTRY_409_SPEC_DRIFT",
        submission("Verifier", "no-promise", verifier_spec("something else")),
    )
    assert error.details["card_uid"] == first.root.uid
    assert error.details["changed"] == ["spec.requirements"]


async def test_changing_a_binding_under_the_same_version_is_drift(registry: Registry) -> None:
    await registry.declare(verifier(), service())
    await refused(
        registry,
        "WYRD_REGISTRY_409_SPEC_DRIFT",
        verifier(),
        verifier("other-check"),
        service(verifiers=["no-promise", "other-check"]),
    )


async def test_an_unpinned_card_gets_its_first_version_then_the_next(registry: Registry) -> None:
    said = []
    for text in ("one", "two", "three"):
        receipt = await registry.declare(submission("Verifier", "no-promise", verifier_spec(text), None))
        said.append(receipt.root.version)
    assert said == ["0.1.0", "0.1.1", "0.1.2"]


@pytest.mark.parametrize(
    ("metadata", "version"),
    [
        ({"bump": "major"}, "2.0.0"),
        ({"bump": "minor"}, "1.3.0"),
        ({"bump": "patch"}, "1.2.4"),
        ({"bump": {"pre": {"identifier": "rc"}}}, "1.2.4-rc.1"),
        ({"bump": {"build": {"metadata": "sha"}}}, "1.2.3+sha"),
        ({"bump": {"pre_build": {"pre": "rc", "build": "sha"}}}, "1.2.4-rc.1+sha"),
        ({"version": "1.1"}, "1.1.6"),
        ({"version": "2"}, "2.0.0"),
        ({"version": "1", "bump": "minor"}, "1.3.0"),
    ],
)
async def test_a_bump_starts_from_the_highest_version_of_its_scope(
    registry: Registry, metadata: dict[str, Any], version: str
) -> None:
    for existing in ("1.1.5", "1.2.3", "0.9.0"):
        await registry.declare(verifier(version=existing))
    receipt = await registry.declare(
        submission("Verifier", "no-promise", verifier_spec("new"), **{"version": None, **metadata})
    )
    assert receipt.root.version == version


async def test_unpinned_content_of_the_latest_version_is_deduplicated(registry: Registry) -> None:
    first = await registry.declare(verifier(version=None))
    again = await registry.declare(verifier(version=None))
    assert again.outcomes[0].outcome is DeclareOutcome.DEDUPLICATED
    assert again.root == first.root


async def test_unpinned_content_of_an_older_version_is_a_new_version(registry: Registry) -> None:
    await registry.declare(verifier(version="1.0.0"))
    await registry.declare(submission("Verifier", "no-promise", verifier_spec("other"), "1.1.0"))
    receipt = await registry.declare(verifier(version=None))
    assert receipt.root.version == "1.1.1"


async def test_content_of_a_pre_release_is_promoted_not_repeated(registry: Registry) -> None:
    await registry.declare(verifier(version="1.0.0-rc.1"))
    receipt = await registry.declare(verifier(version=None))
    assert receipt.root.version == "1.0.0"
    repeated = await registry.declare(verifier(version=None, bump={"pre": {"identifier": "rc"}}))
    assert repeated.root.version == "1.0.0"


@pytest.mark.parametrize(
    "metadata",
    [
        {"version": "1.0.0", "bump": "patch"},
        {"bump": "hotfix"},
        {"bump": {"pre": {"identifier": "bad identifier"}}},
        {"bump": {"pre": {}}},
        {"bump": {"build": {"metadata": "a", "more": 1}}},
        {"version": "1", "bump": "major"},
    ],
)
async def test_a_version_block_that_says_nothing_clear_is_refused(
    registry: Registry, metadata: dict[str, Any]
) -> None:
    await registry.declare(verifier(version="1.2.3"))
    changed = submission("Verifier", "no-promise", verifier_spec("new"), **{"version": None, **metadata})
    await refused(registry, "WYRD_REGISTRY_400_INVALID_VERSION_BLOCK", changed)


async def test_a_fault_of_the_language_comes_with_its_code_place_and_the_whole_report(
    registry: Registry,
) -> None:
    spec = verifier_spec()
    spec["requirements"].append(spec["requirements"][0])
    error = await refused(registry, "WYRD_SPEC_400_VALIDATION", submission("Verifier", "twice-same", spec))
    assert error.details["rule"] == "duplicate_id"
    assert error.details["field"].startswith("submissions[0]")
    assert error.details["diagnostics"][0]["code"] == "WYRD_SPEC_400_VALIDATION"


async def test_a_submission_cannot_choose_its_uid(registry: Registry) -> None:
    await refused(registry, "WYRD_REGISTRY_400_CARD_REF_UID_NOT_RESOLVABLE_HERE", verifier(uid=uuid7()))
    first = await registry.declare(verifier())
    again = await registry.declare(verifier(uid=first.root.uid))
    assert again.root == first.root


async def test_the_same_card_twice_in_one_call_is_refused(registry: Registry) -> None:
    await refused(registry, "WYRD_SPEC_400_DUPLICATE_SUBMISSION", verifier(), verifier())


async def test_a_fault_in_the_last_submission_leaves_nothing_behind(registry: Registry) -> None:
    await registry.declare(verifier("taken-name"))
    *cards, _ = support_desk()
    drifting = submission("Verifier", "taken-name", verifier_spec("other"))
    await refused(registry, "WYRD_REGISTRY_409_SPEC_DRIFT", *cards, drifting, key="key-of-the-fault")
    assert [item.name for item in (await everything(registry)).items] == ["taken-name"]
    # The key was not used up either.
    await registry.declare(*support_desk(), key="key-of-the-fault")


async def test_the_same_key_and_body_answer_the_same_receipt(registry: Registry) -> None:
    first = await registry.declare(verifier(version=None), key="a-key-of-mine")
    await registry.declare(submission("Verifier", "no-promise", verifier_spec("next"), None))
    again = await registry.declare(verifier(version=None), key="a-key-of-mine")
    assert again == first
    assert len((await everything(registry)).items) == 2


async def test_the_same_key_with_another_body_is_a_conflict(registry: Registry) -> None:
    await registry.declare(verifier(), key="a-key-of-mine")
    await refused(
        registry, "WYRD_REGISTRY_409_IDEMPOTENCY_CONFLICT", verifier("other-check"), key="a-key-of-mine"
    )


@pytest.mark.parametrize("key", ["short", "x" * 257, "a key with blanks", "umlaut-ü-key"])
async def test_a_malformed_idempotency_key_is_refused(registry: Registry, key: str) -> None:
    await refused(registry, "WYRD_REGISTRY_400_IDEMPOTENCY_KEY_INVALID", verifier(), key=key)


@pytest.mark.parametrize("role", [Role.VIEWER, Role.SERVICE])
async def test_only_those_who_may_write_cards_declare(registry: Registry, role: Role) -> None:
    await refused(registry.as_role(role), "WYRD_PERMISSION_403_DENIED_RBAC", verifier())


async def test_two_declarers_of_one_unpinned_card_get_distinct_versions(registry: Registry) -> None:
    cards = [submission("Verifier", "no-promise", verifier_spec(f"text {index}"), None) for index in range(8)]
    receipts = await asyncio.gather(*(registry.declare(card) for card in cards))
    assert sorted(receipt.root.version for receipt in receipts) == [f"0.1.{index}" for index in range(8)]


async def test_racing_declarations_with_one_key_store_one_card(registry: Registry) -> None:
    receipts = await asyncio.gather(
        *(
            registry.declare(verifier(version=None, labels={"a": "b"}), key="one-key-for-all")
            for _ in range(6)
        )
    )
    assert all(receipt == receipts[0] for receipt in receipts)
    assert len((await everything(registry)).items) == 1


async def test_p58_tenants_do_not_see_each_others_cards_keys_or_versions(
    registry: Registry, other_tenant: Tenant
) -> None:
    mine = await registry.declare(verifier(), key="the-same-key")
    rival = registry.of(other_tenant)
    theirs = await rival.declare(verifier("other-check"), verifier(), key="the-same-key")
    assert mine.root.uid not in [one.card_ref.uid for one in theirs.outcomes]
    assert (mine.root.name, mine.root.version) == (theirs.root.name, theirs.root.version)
    with pytest.raises(WyrdError) as missing:
        await rival.read(card_by_uid, "Verifier", mine.root.uid)
    assert missing.value.code == "WYRD_REGISTRY_404_CARD_NOT_FOUND"
    owner = service()
    owner["spec"]["verified_by"] = [{"verifier": {**named("Verifier", "no-promise"), "uid": mine.root.uid}}]
    await refused(rival, "WYRD_REGISTRY_400_CARD_REF_UID_NOT_RESOLVABLE_HERE", owner)
    assert len((await everything(registry)).items) == 1
    assert len((await everything(rival)).items) == 2


async def test_labels_annotations_and_origin_are_kept(registry: Registry) -> None:
    origin = {"repo": "https://example.com/desk.git", "commit": "0123abc", "dirty": False}
    receipt = await registry.declare(
        verifier(labels={"team": "support"}, annotations={"note": "näher\n"}, origin=origin)
    )
    metadata = (await registry.envelope(receipt.root))["metadata"]
    assert metadata["labels"] == {"team": "support"}
    assert metadata["annotations"] == {"note": "näher\n"}
    assert metadata["origin"] == origin
    assert metadata["uid"] == receipt.root.uid
    assert metadata["spec_hash"] == receipt.outcomes[0].spec_hash
