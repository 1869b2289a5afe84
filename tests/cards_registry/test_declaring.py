"""Declaring: versions, outcomes, references, hoisting, all or nothing, idempotency."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from cards.listing import CardQuery, card_page
from cards.reading import card_by_uid
from store.caller import Role, Tenant
from tests.cards_registry.conftest import (
    Registry,
    agent,
    agent_spec,
    component,
    named,
    prompt_spec,
    service,
    sibling,
    submission,
    verifier,
    verifier_spec,
)
from wyrd.errors import WyrdError
from wyrd.wire.cards import CardPage, DeclareOutcome
from wyrd.wire.ids import is_uuid7, uuid7


def support_desk() -> list[dict[str, Any]]:
    """The Service of the documentation: one Verifier on it, two on its agent."""
    return [
        verifier("no-promise"),
        verifier("ticket-complete"),
        submission("Prompt", "support-prompt", prompt_spec()),
        submission("Agent", "support-agent", agent_spec(sibling("Prompt", "support-prompt"))),
        service(
            components=[
                component("agent", sibling("Agent", "support-agent"), sibling("Verifier", "ticket-complete")),
                component("prompt", sibling("Prompt", "support-prompt")),
            ]
        ),
    ]


async def everything(registry: Registry) -> CardPage:
    return await registry.read(card_page, CardQuery(include_prerelease=True), None, None)


async def refused(registry: Registry, code: str, *submissions: Any, key: str | None = None) -> WyrdError:
    """Declare, expect that code, and return the error."""
    with pytest.raises(WyrdError) as caught:
        await registry.declare(*submissions, key=key)
    assert caught.value.code == code, caught.value
    return caught.value


async def test_a_declaration_answers_the_root_and_one_outcome_a_card(registry: Registry) -> None:
    receipt = await registry.declare(*support_desk())
    assert str(receipt.root).startswith("support/Service/support-desk@1.0.0#")
    assert [one.card_ref.name for one in receipt.outcomes][-1] == "support-desk"
    assert {one.outcome for one in receipt.outcomes} == {DeclareOutcome.DECLARED}
    assert {one.status for one in receipt.outcomes} == {"active"}
    assert all(is_uuid7(one.card_ref.uid or "") for one in receipt.outcomes)
    assert all(re.fullmatch("[0-9a-f]{64}", one.spec_hash) for one in receipt.outcomes)
    assert receipt.upload_plans == []


async def test_siblings_become_exact_references_everywhere(registry: Registry) -> None:
    receipt = await registry.declare(*support_desk())
    uids = {one.card_ref.name: one.card_ref.uid for one in receipt.outcomes}
    card = await registry.envelope(receipt.root)
    assert "sibling" not in str(card)
    spec = card["spec"]
    assert spec["components"][0]["ref"] == {**named("Agent", "support-agent"), "uid": uids["support-agent"]}
    bound = spec["components"][0]["verified_by"][0]["verifier"]
    assert bound == {**named("Verifier", "ticket-complete"), "uid": uids["ticket-complete"]}
    stored_agent = await registry.envelope(receipt.outcomes[3].card_ref)
    assert stored_agent["spec"]["prompt"]["uid"] == uids["support-prompt"]


async def test_relationships_list_every_reference_sorted_by_text_with_component_aliases(
    registry: Registry,
) -> None:
    cards = support_desk()
    cards[-1]["spec"]["components"].append(component("again", sibling("Agent", "support-agent")))
    receipt = await registry.declare(*cards)
    relationships = (await registry.envelope(receipt.root))["relationships"]
    outbound = relationships["outbound"]
    assert outbound == sorted(outbound)
    assert len(outbound) == len(set(outbound)) == 4
    assert all("#" in text for text in outbound)
    pairs = [(one["ref"]["name"], one.get("alias")) for one in relationships["outbound_refs"]]
    assert pairs == [
        ("support-agent", "again"),
        ("support-agent", "agent"),
        ("support-prompt", "prompt"),
        ("no-promise", None),
        ("ticket-complete", None),
    ]


async def test_inbound_is_computed_when_it_is_read(registry: Registry) -> None:
    first = await registry.declare(verifier())
    assert "inbound" not in (await registry.envelope(first.root))["relationships"]
    owner = await registry.declare(verifier(), service())
    inbound = (await registry.envelope(first.root))["relationships"]["inbound"]
    assert inbound == [str(owner.root)]
    await registry.delete(owner.root.uid)
    assert "inbound" not in (await registry.envelope(first.root))["relationships"]


async def test_data_that_looks_like_a_reference_stays_data(registry: Registry) -> None:
    spec = verifier_spec()
    spec["requirements"][0]["check"] |= {"operator": "equals", "expected": sibling("Agent", "nobody")}
    receipt = await registry.declare(submission("Verifier", "no-promise", spec))
    card = await registry.envelope(receipt.root)
    assert card["spec"]["requirements"][0]["check"]["expected"] == sibling("Agent", "nobody")
    assert card["relationships"] == {}


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


async def test_submissions_may_come_in_any_order(registry: Registry) -> None:
    *dependencies, root = support_desk()
    receipt = await registry.declare(*reversed(dependencies), root)
    assert receipt.root.name == "support-desk"
    names = [one.card_ref.name for one in receipt.outcomes]
    assert names.index("support-prompt") < names.index("support-agent") < names.index("support-desk")


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


async def test_an_inline_prompt_of_an_agent_card_becomes_a_prompt_card(registry: Registry) -> None:
    receipt = await registry.declare(agent())
    prompt = receipt.outcomes[0].card_ref
    assert (prompt.kind, prompt.space, prompt.name, prompt.version) == (
        "Prompt",
        "support",
        "support-agent-prompt",
        "1.0.0",
    )
    card = await registry.envelope(receipt.root)
    assert card["spec"]["prompt"] == prompt.document()
    assert card["relationships"]["outbound"] == [str(prompt)]
    assert (await registry.envelope(prompt))["spec"] == prompt_spec()


async def test_declaring_an_agent_with_an_inline_prompt_again_changes_nothing(registry: Registry) -> None:
    first = await registry.declare(agent())
    await registry.declare(agent(version="1.1.0", prompt=prompt_spec("Say no: {{question}}")))
    again = await registry.declare(agent())
    assert again.root == first.root
    assert again.outcomes[-1].outcome is DeclareOutcome.IDEMPOTENT_NOOP
    assert len((await everything(registry)).items) == 4


async def test_a_hoisted_prompt_steps_aside_for_a_prompt_that_was_declared_by_hand(
    registry: Registry,
) -> None:
    by_hand = submission("Prompt", "support-agent-prompt", prompt_spec("Mine: {{question}}"))
    receipt = await registry.declare(agent(), by_hand)
    prompts = [one.card_ref.version for one in receipt.outcomes if one.card_ref.kind == "Prompt"]
    assert sorted(prompts) == ["1.0.0", "1.0.1"]
    assert receipt.root.version == "1.0.0"


async def test_an_agent_name_of_64_characters_still_gets_its_prompt_card(registry: Registry) -> None:
    receipt = await registry.declare(agent("a" * 64))
    assert receipt.outcomes[0].card_ref.name == "a" * 57 + "-prompt"


async def test_an_inline_agent_of_a_check_stays_inline(registry: Registry) -> None:
    spec = verifier_spec()
    prompt = {**prompt_spec("Is it so? {{answer}}"), "response_format": verdict_schema()}
    spec["requirements"][0]["check"] = {
        "kind": "agent",
        "agent": agent_spec(prompt),
        "inputs": {"answer": "inputs.answer"},
    }
    receipt = await registry.declare(submission("Verifier", "judged", spec))
    assert len(receipt.outcomes) == 1
    stored = await registry.envelope(receipt.root)
    assert stored["spec"]["requirements"][0]["check"]["agent"]["prompt"] == prompt


async def test_an_unresolved_reference_is_refused_with_its_place(registry: Registry) -> None:
    owner = service(verifiers=())
    owner["spec"]["verified_by"] = [{"verifier": named("Verifier", "no-promise")}]
    error = await refused(registry, "WYRD_REGISTRY_422_UNRESOLVED_DEPENDENCY", owner)
    assert error.details["field"] == "spec.verified_by[0].verifier"
    assert error.details["target"] == "support/Verifier/no-promise@1.0.0"


async def test_a_sibling_that_was_not_sent_is_refused(registry: Registry) -> None:
    await registry.declare(verifier())
    await refused(registry, "WYRD_REGISTRY_400_UNRESOLVED_INLINE_REFERENCE", service())


async def test_a_fault_of_the_language_comes_with_its_code_place_and_the_whole_report(
    registry: Registry,
) -> None:
    spec = verifier_spec()
    spec["requirements"].append(spec["requirements"][0])
    error = await refused(registry, "WYRD_SPEC_400_VALIDATION", submission("Verifier", "twice-same", spec))
    assert error.details["rule"] == "duplicate_id"
    assert error.details["field"].startswith("submissions[0]")
    assert error.details["diagnostics"][0]["code"] == "WYRD_SPEC_400_VALIDATION"


async def test_a_reference_may_name_a_card_that_was_declared_before(registry: Registry) -> None:
    first = await registry.declare(verifier())
    owner = service()
    owner["spec"]["verified_by"] = [{"verifier": named("Verifier", "no-promise")}]
    receipt = await registry.declare(owner)
    card = await registry.envelope(receipt.root)
    assert card["spec"]["verified_by"][0]["verifier"] == first.root.document()


async def test_a_reference_to_a_deleted_card_is_unresolved(registry: Registry) -> None:
    first = await registry.declare(verifier())
    await registry.delete(first.root.uid)
    owner = service()
    owner["spec"]["verified_by"] = [{"verifier": named("Verifier", "no-promise")}]
    await refused(registry, "WYRD_REGISTRY_422_UNRESOLVED_DEPENDENCY", owner)


async def test_a_reference_with_another_cards_uid_is_refused(registry: Registry) -> None:
    await registry.declare(verifier())
    other = await registry.declare(verifier("other-check"))
    owner = service()
    owner["spec"]["verified_by"] = [{"verifier": {**named("Verifier", "no-promise"), "uid": other.root.uid}}]
    await refused(registry, "WYRD_REGISTRY_400_CARD_REF_UID_NOT_RESOLVABLE_HERE", owner)


async def test_a_submission_cannot_choose_its_uid(registry: Registry) -> None:
    await refused(registry, "WYRD_REGISTRY_400_CARD_REF_UID_NOT_RESOLVABLE_HERE", verifier(uid=uuid7()))
    first = await registry.declare(verifier())
    again = await registry.declare(verifier(uid=first.root.uid))
    assert again.root == first.root


async def test_the_same_card_twice_in_one_call_is_refused(registry: Registry) -> None:
    await refused(registry, "WYRD_SPEC_400_DUPLICATE_SUBMISSION", verifier(), verifier())


async def test_a_path_reference_never_reaches_the_registry(registry: Registry) -> None:
    owner = service()
    owner["spec"]["verified_by"] = [{"verifier": "./no-promise.yaml"}]
    await refused(registry, "WYRD_REGISTRY_400_UNRESOLVED_PATH_REF", owner)


async def test_cards_that_refer_to_each_other_in_a_ring_are_refused(registry: Registry) -> None:
    one = service(
        "first-desk", components=[component("other", sibling("Service", "second-desk"))], verifiers=()
    )
    two = service(
        "second-desk", components=[component("other", sibling("Service", "first-desk"))], verifiers=()
    )
    error = await refused(registry, "WYRD_REGISTRY_400_DEPENDENCY_CYCLE", one, two)
    assert len(error.details["participants"]) == 2


async def test_a_chain_of_400_services_is_put_in_order(registry: Registry) -> None:
    chain = [service("desk-0", verifiers=())]
    for index in range(1, 400):
        below = component("below", sibling("Service", f"desk-{index - 1}"))
        chain.append(service(f"desk-{index}", verifiers=(), components=[below]))
    receipt = await registry.declare(*reversed(chain[:-1]), chain[-1])
    assert receipt.root.name == "desk-399"


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


def verdict_schema() -> dict[str, Any]:
    def closed(properties: dict[str, Any]) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": properties,
            "required": list(properties),
            "additionalProperties": False,
        }

    pointer = closed({"json_pointer": {"type": "string"}})
    citation = closed({"slot": {"type": "string"}, "locator": pointer})
    return closed(
        {
            "outcome": {"type": "string", "enum": ["passed", "failed", "inconclusive"]},
            "reason": {"type": "string"},
            "citations": {"type": "array", "items": citation},
        }
    )
