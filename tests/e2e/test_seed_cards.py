"""The Card files of the product's own pages, declared and run as they are printed there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from examples.scripted_provider import Reply, ScriptedProvider
from tests.e2e.stack import Bound, Stack, in_process, outcomes, requirement
from wyrd.cards import load

pytestmark = pytest.mark.asyncio(loop_scope="module")

SEED = Path(__file__).parents[1] / "cards_language" / "seed"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(temporal: str, provider: ScriptedProvider, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A server whose deployment `openai` is the scripted provider, with the support desk declared."""
    deployments = {"openai": {"adapter": "openai_compatible", "base_url": provider.url}}
    async with in_process(tmp_path_factory.mktemp("desk"), temporal, deployments=deployments) as stack:
        uids = await stack.declare(*load(SEED / "support-desk.yaml").submissions())
        yield stack, uids


async def test_the_answer_check_judges_the_whole_service(desk: tuple[Stack, dict[str, str]]) -> None:
    stack, uids = desk
    bound = Bound(uids["no-refund-promise"], uids["support-desk"])
    good = (await stack.verify(bound, answer="We will look into it.")).json()
    bad = (await stack.verify(bound, answer="You have a guaranteed refund.")).json()
    assert outcomes(good) == {"no-refund-promise": "passed"}
    assert outcomes(bad) == {"no-refund-promise": "failed"}


async def test_the_ticket_check_names_what_is_missing(desk: tuple[Stack, dict[str, str]]) -> None:
    stack, uids = desk
    bound = Bound(uids["ticket-complete"], uids["support-agent"])
    result = (await stack.verify(bound, ticket={"answer": "yes"})).json()
    assert outcomes(result) == {"ticket-complete": "failed"}
    assert requirement(result, "ticket-complete")["reason"] == "missing order_id"
    assert requirement(result, "ticket-complete")["citations"] == [
        {"slot": "ticket", "locator": {"json_pointer": ""}}
    ]


async def test_the_letter_is_extracted_judged_and_cited_by_line(
    desk: tuple[Stack, dict[str, str]], provider: ScriptedProvider
) -> None:
    stack, uids = desk
    bound = Bound(uids["follows-policy"], uids["support-agent"])
    citation = {"slot": "letter", "locator": {"lines": {"start": 1, "end": 2}}}
    provider.script([Reply(json={"outcome": "passed", "reason": "within 30 days", "citations": [citation]})])
    letter = await stack.upload(b"Dear customer,\nwe refund 90 dollars.\n", "markdown", "letter.md")
    found = await stack.ended(await stack.submit(bound, letter=letter))
    judged = requirement(found, "follows-policy")
    assert (judged["outcome"], judged["citations"]) == ("passed", [citation])
    assert judged["provenance"]["route"] == {"kind": "wyrd_gateway", "deployment": "openai"}
    assert judged["provenance"]["agent"]["name"] == "policy-judge"
    sent = provider.requests[-1].text
    assert "Claim: The letter's refund decision follows the refund policy." in sent
    assert "1\tDear customer,\n2\twe refund 90 dollars." in sent


async def test_the_ticket_check_is_not_bound_to_the_service_itself(
    desk: tuple[Stack, dict[str, str]],
) -> None:
    stack, uids = desk
    answer = await stack.verify(Bound(uids["ticket-complete"], uids["support-desk"]), ticket={})
    assert answer.json()["code"] == "WYRD_VERIFICATION_404_BINDING_NOT_FOUND"
