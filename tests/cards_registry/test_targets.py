"""Bindings, and what `verify` and `submit` find by them."""

from __future__ import annotations

from typing import Any

import pytest

from cards.blocks import referenced_cards
from cards.graph import graph_of
from cards.targets import Target, resolve_target
from store.bindings import Bindings
from store.caller import Tenant
from tests.cards_registry.conftest import (
    Registry,
    agent,
    agent_spec,
    component,
    prompt_spec,
    service,
    sibling,
    submission,
    support_desk,
    verdict_schema,
    verifier,
    verifier_spec,
)
from wyrd.errors import WyrdError
from wyrd.wire.cards import DeclareReceipt
from wyrd.wire.ids import is_uuid7, uuid7

HTTP_OPERATOR = {"kind": "http", "method": "post", "url": "https://pager.example.com/hook"}


def uids(receipt: DeclareReceipt) -> dict[str, str]:
    return {one.card_ref.name: one.card_ref.uid or "" for one in receipt.outcomes}


async def target(registry: Registry, verifier_uid: str, subject_uid: str) -> Target:
    return await registry.of_tenant(resolve_target, verifier_uid, subject_uid, registry.caller.card_uid)


async def refused(registry: Registry, verifier_uid: str, subject_uid: str) -> str:
    with pytest.raises(WyrdError) as caught:
        await target(registry, verifier_uid, subject_uid)
    return caught.value.code


async def test_a_component_binding_joins_the_verifier_to_the_component(registry: Registry) -> None:
    receipt = await registry.declare(*support_desk())
    named = uids(receipt)
    found = await target(registry, named["ticket-complete"], named["support-agent"])
    assert found.spec == verifier_spec()
    assert (found.verifier.name, found.subject.name) == ("ticket-complete", "support-agent")
    assert found.owner == receipt.root
    (binding,) = found.bindings
    assert (binding.alias, binding.occurrence) == ("agent", "spec.components[0].verified_by[0]")
    assert is_uuid7(binding.binding_id)


async def test_a_services_own_binding_checks_the_service(registry: Registry) -> None:
    receipt = await registry.declare(*support_desk())
    named = uids(receipt)
    found = await target(registry, named["no-promise"], named["support-desk"])
    assert found.owner == found.subject == receipt.root
    assert found.bindings[0].alias is None


async def test_binding_ids_stay_with_their_owner_version_and_are_told_in_its_status(
    registry: Registry,
) -> None:
    first = await registry.declare(*support_desk())
    again = await registry.declare(*support_desk())
    told = [
        (await registry.envelope(one.root))["status"]["verification"]["binding_ids"] for one in (first, again)
    ]
    assert told[0] == told[1]
    stored = await registry.of_tenant(
        lambda connection, tenant: Bindings(connection, tenant).of_owner(first.root.uid or "")
    )
    assert [binding.binding_id for binding in stored] == told[0]
    assert [binding.occurrence for binding in stored] == [
        "spec.verified_by[0]",
        "spec.components[0].verified_by[0]",
    ]
    plain = await registry.envelope(first.outcomes[0].card_ref)
    assert "verification" not in plain["status"]


async def test_a_new_owner_version_has_bindings_of_its_own(registry: Registry) -> None:
    await registry.declare(verifier(), service())
    await registry.declare(verifier(), service(version="1.1.0"))
    rows = await registry.of_tenant(lambda connection, tenant: Bindings(connection, tenant).page(None, 10))
    assert len({binding.binding_id for binding in rows}) == 2
    assert all(binding.active for binding in rows)


async def test_the_component_binding_comes_before_the_agent_cards_own(registry: Registry) -> None:
    checked = agent_spec(verified_by=[{"verifier": sibling("Verifier", "no-promise")}])
    desk = service(
        verifiers=(),
        components=[component("agent", sibling("Agent", "support-agent"), sibling("Verifier", "no-promise"))],
    )
    receipt = await registry.declare(verifier(), submission("Agent", "support-agent", checked), desk)
    named = uids(receipt)
    found = await target(registry, named["no-promise"], named["support-agent"])
    assert [found.owners[one.owner_uid].kind for one in found.bindings] == ["Service", "Agent"]
    assert found.owner == receipt.root


async def test_a_card_bound_caller_sees_its_own_owner_first_and_only_its_graph(registry: Registry) -> None:
    part = component("agent", sibling("Agent", "support-agent"), sibling("Verifier", "no-promise"))
    first = await registry.declare(
        verifier(), agent(), service("first-desk", verifiers=(), components=[part])
    )
    second = await registry.declare(
        verifier(), agent(), service("second-desk", verifiers=(), components=[part])
    )
    named = uids(first)
    everyone = await target(registry, named["no-promise"], named["support-agent"])
    assert [everyone.owners[one.owner_uid] for one in everyone.bindings] == [second.root, first.root]
    mine = await target(registry.bound_to(first.root.uid), named["no-promise"], named["support-agent"])
    assert [mine.owners[one.owner_uid] for one in mine.bindings] == [first.root]


async def test_outside_the_callers_graph_is_denied(registry: Registry) -> None:
    receipt = await registry.declare(*support_desk())
    other = await registry.declare(verifier("other-check"), service("other-desk", verifiers=["other-check"]))
    named = uids(receipt)
    stranger = registry.bound_to(other.root.uid)
    code = await refused(stranger, named["no-promise"], named["support-desk"])
    assert code == "WYRD_PERMISSION_403_DENIED_RBAC"


async def test_what_is_unknown_deleted_or_another_tenants_is_no_target(
    registry: Registry, other_tenant: Tenant
) -> None:
    named = uids(await registry.declare(*support_desk()))
    missing = "WYRD_VERIFICATION_404_TARGET_NOT_FOUND"
    assert await refused(registry, uuid7(), named["support-desk"]) == missing
    assert await refused(registry, named["no-promise"], "not-a-uid") == missing
    rival = registry.of(other_tenant)
    assert await refused(rival, named["no-promise"], named["support-desk"]) == missing
    await registry.delete(named["support-desk"])
    assert await refused(registry, named["no-promise"], named["support-desk"]) == missing


async def test_a_uid_of_another_kind_is_an_invalid_target(registry: Registry) -> None:
    named = uids(await registry.declare(*support_desk()))
    invalid = "WYRD_VERIFICATION_400_INVALID_TARGET"
    assert await refused(registry, named["support-agent"], named["support-desk"]) == invalid
    assert await refused(registry, named["no-promise"], named["ticket-complete"]) == invalid


async def test_without_an_active_binding_there_is_none(registry: Registry) -> None:
    named = uids(await registry.declare(*support_desk()))
    missing = "WYRD_VERIFICATION_404_BINDING_NOT_FOUND"
    assert await refused(registry, named["ticket-complete"], named["support-desk"]) == missing
    await registry.set_active(named["support-desk"], False)
    assert await refused(registry, named["no-promise"], named["support-desk"]) == missing
    await registry.set_active(named["support-desk"], True)
    found = await target(registry, named["no-promise"], named["support-desk"])
    assert found.bindings[0].active


async def test_another_version_of_the_verifier_is_not_bound(registry: Registry) -> None:
    await registry.declare(verifier(), service())
    newer = await registry.declare(submission("Verifier", "no-promise", verifier_spec("more"), "1.1.0"))
    desk = await registry.declare(verifier(), service())
    code = await refused(registry, newer.root.uid or "", desk.root.uid or "")
    assert code == "WYRD_VERIFICATION_404_BINDING_NOT_FOUND"


async def test_a_verifier_whose_artifact_is_pending_is_not_ready_until_it_arrives(registry: Registry) -> None:
    source = {"check.py": b"def check(answer):\n    return {}\n"}
    receipt = await registry.declare(
        submission("Artifact", "check-code", {"artifact_kind": "code"}, files=source),
        submission("Verifier", "coded", code_verifier()),
        service(verifiers=["coded"]),
    )
    named = uids(receipt)
    not_ready = "WYRD_VERIFICATION_409_VERIFIER_NOT_READY"
    assert await refused(registry, named["coded"], named["support-desk"]) == not_ready
    await registry.upload(receipt, source)
    found = await target(registry, named["coded"], named["support-desk"])
    needed = await registry.of_tenant(referenced_cards, found.spec)
    files = needed[named["check-code"]]["files"]
    assert [(file["path"], file["size_bytes"]) for file in files] == [("check.py", len(source["check.py"]))]
    blob = await registry.blobs.get(registry.caller.tenant, files[0]["sha256"])
    assert blob == source["check.py"]


async def test_a_verifiers_blocks_need_its_agents_and_their_prompts_and_nothing_else(
    registry: Registry,
) -> None:
    judge = agent_spec({**prompt_spec("Is it so? {{answer}}"), "response_format": verdict_schema()})
    check = {"kind": "agent", "agent": sibling("Agent", "judge-agent"), "inputs": {"answer": "inputs.answer"}}
    spec = verifier_spec()
    spec["requirements"][0]["check"] = check
    receipt = await registry.declare(
        verifier("judges-judge"),
        submission(
            "Agent",
            "judge-agent",
            {**judge, "verified_by": [{"verifier": sibling("Verifier", "judges-judge")}]},
        ),
        submission("Verifier", "judged", spec),
    )
    named = uids(receipt)
    stored = (await registry.envelope(receipt.root))["spec"]
    needed = await registry.of_tenant(referenced_cards, stored)
    assert set(needed) == {named["judge-agent"], named["judge-agent-prompt"]}
    assert needed[named["judge-agent"]]["prompt"]["uid"] == named["judge-agent-prompt"]
    assert needed[named["judge-agent-prompt"]]["messages"][0]["content"] == "Is it so? {{answer}}"
    assert await registry.of_tenant(referenced_cards, verifier_spec()) == {}


async def test_a_binding_carries_its_trigger_and_operators_whole(registry: Registry) -> None:
    turn = {
        "inputs": {"turns": "verifiers.no-promise.inputs.answer"},
        "requirements": [
            {
                "id": "calm",
                "statement": "Every turn is calm",
                "check": {"kind": "assert", "each": "inputs.turns[*]", "operator": "is_non_empty"},
            }
        ],
    }
    inline = {"kind": "http", "method": "put", "url": "https://pager.example.com/other"}
    desk = service()
    desk["spec"]["verified_by"] += [
        {
            "verifier": sibling("Verifier", "whole-talk"),
            "runs_on": sibling("Trigger", "quiet-time"),
            "on_verdict_change": [sibling("Operator", "page-someone"), inline],
        }
    ]
    desk["spec"]["verified_by"][0]["on_failure"] = [inline]
    receipt = await registry.declare(
        verifier(),
        submission("Verifier", "whole-talk", turn),
        submission("Trigger", "quiet-time", {"kind": "group_end", "after": "30m"}),
        submission("Operator", "page-someone", HTTP_OPERATOR),
        desk,
    )
    named = uids(receipt)
    rows = await registry.of_tenant(
        lambda connection, tenant: Bindings(connection, tenant).of_owner(named["support-desk"])
    )
    first, second = rows
    assert first.runs_on is None
    assert [(one.on, one.uid, one.spec) for one in first.operators] == [("failure", None, inline)]
    assert second.runs_on == {"kind": "group_end", "after": "30m"}
    assert second.trigger_uid == named["quiet-time"]
    assert [(one.on, one.uid, one.spec) for one in second.operators] == [
        ("verdict_change", named["page-someone"], HTTP_OPERATOR),
        ("verdict_change", None, inline),
    ]
    assert first.operators[0].digest == second.operators[1].digest
    outbound = (await registry.envelope(receipt.root))["relationships"]["outbound"]
    assert [text.split("/")[1] for text in outbound] == ["Operator", "Trigger", "Verifier", "Verifier"]


async def test_a_graph_holds_everything_reachable_and_nothing_above(registry: Registry) -> None:
    receipt = await registry.declare(*support_desk())
    named = uids(receipt)
    whole = await registry.of_tenant(graph_of, named["support-desk"])
    assert whole == frozenset(named.values())
    below = await registry.of_tenant(graph_of, named["support-agent"])
    assert below == {named["support-agent"], named["support-prompt"]}


async def test_p58_a_graph_is_empty_for_another_tenant(registry: Registry, other_tenant: Tenant) -> None:
    receipt = await registry.declare(*support_desk())
    assert await registry.of(other_tenant).of_tenant(graph_of, receipt.root.uid) == frozenset()


def code_verifier() -> dict[str, Any]:
    spec = verifier_spec()
    spec["requirements"][0]["check"] = {
        "kind": "code",
        "entrypoint": "check",
        "inputs": {"answer": "inputs.answer"},
        "source": {"artifact": {"card": sibling("Artifact", "check-code"), "path": "check.py"}},
    }
    return spec
