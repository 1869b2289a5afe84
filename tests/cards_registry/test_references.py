"""References of a declaration: made exact, related, hoisted, refused."""

from __future__ import annotations

from tests.cards_registry.conftest import (
    Registry,
    agent,
    agent_spec,
    component,
    everything,
    named,
    prompt_spec,
    refused,
    service,
    sibling,
    submission,
    support_desk,
    verdict_schema,
    verifier,
    verifier_spec,
)
from wyrd.wire.cards import DeclareOutcome


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
        # Aliases of one Card stand as its Service names them: published clients insist on that.
        ("support-agent", "agent"),
        ("support-agent", "again"),
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


async def test_submissions_may_come_in_any_order(registry: Registry) -> None:
    *dependencies, root = support_desk()
    receipt = await registry.declare(*reversed(dependencies), root)
    assert receipt.root.name == "support-desk"
    names = [one.card_ref.name for one in receipt.outcomes]
    assert names.index("support-prompt") < names.index("support-agent") < names.index("support-desk")


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
