"""Declaring a Service, loading its graph, and the views that runs have of it."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from tests.sdk.desk import CARD, Desk, receipt, stored_desk
from tests.sdk.peer import KEY, Answer, Peer, problem
from wyrd import Cards, WyrdClient, WyrdError, WyrdState, aio
from wyrd.wire.ids import is_uuid7


@pytest.fixture
def desk(peer: Peer) -> Desk:
    return stored_desk(peer)


@pytest.fixture
def card_file(peer: Peer, desk: Desk, tmp_path: Path) -> Path:
    peer.routes["POST", "/v1/cards"] = lambda _: Answer(body=receipt(desk))
    path = tmp_path / "desk.yaml"
    path.write_text(CARD, encoding="utf-8")
    return path


@pytest.fixture
def state(card_file: Path, client: WyrdClient) -> WyrdState:
    return WyrdState.declare(card_file, client)


def test_declare_sends_the_cards_once_and_loads_each_card_once(
    peer: Peer, desk: Desk, state: WyrdState
) -> None:
    (declared,) = peer.requests("POST", "/v1/cards")
    assert declared.headers["idempotency-key"].startswith("card-declaration-")
    assert is_uuid7(declared.headers["idempotency-key"].removeprefix("card-declaration-"))
    (submission,) = declared.json["submissions"]
    assert submission["metadata"] == {"name": "desk", "version": "1.0.0", "space": "default"}
    read = [one.path for one in peer.seen if one.method == "GET"]
    assert len(read) == len(set(read)) == len(peer.cards)
    assert state.root_ref.uid == desk.service["uid"]


def test_accessors_give_the_exact_cards(state: WyrdState, desk: Desk) -> None:
    assert state.aliases == ("agent", "prompt")
    assert state.service.kind == "Service"
    assert state.card_ref("agent").uid == desk.agent["uid"]
    assert state["prompt"] is state.card("prompt")
    assert state.agent("agent").metadata["name"] == "desk-agent"
    assert state.prompt("prompt").spec["model"] == "m"
    assert state.verifier("letter").card_ref.uid == desk.verifiers["letter"]["uid"]
    assert state.verifier("polite@2.0.0").card_ref.version == "2.0.0"


@pytest.mark.parametrize(
    ("ask", "code"),
    [
        (lambda state: state["nobody"], "WYRD_SDK_404_UNKNOWN_ALIAS"),
        (lambda state: state.run("nobody"), "WYRD_SDK_404_UNKNOWN_ALIAS"),
        (lambda state: state.verifier("nobody"), "WYRD_SDK_404_UNKNOWN_ALIAS"),
        (lambda state: state.prompt("agent"), "WYRD_SDK_400_CARD_KIND_MISMATCH"),
        (lambda state: state.agent("prompt"), "WYRD_SDK_400_CARD_KIND_MISMATCH"),
        (lambda state: state.verifier("polite"), "WYRD_SPEC_400_VALIDATION"),
        (lambda state: state.run(session_id="tuesday"), "WYRD_SPEC_400_VALIDATION"),
    ],
)
def test_what_is_not_there_is_named(state: WyrdState, ask: object, code: str) -> None:
    assert callable(ask)
    with pytest.raises(WyrdError) as error:
        ask(state)
    assert error.value.code == code


def test_envelopes_cannot_be_changed(state: WyrdState) -> None:
    card = state.service
    with pytest.raises(TypeError):
        card.spec["components"] = ()  # type: ignore[index]
    with pytest.raises(TypeError):
        card.spec["components"][0]["alias"] = "other"
    dumped = card.model_dump()
    dumped["spec"]["components"].clear()
    assert len(card.model_dump()["spec"]["components"]) == 2


def test_a_run_is_local_and_its_siblings_share_its_ids(peer: Peer, state: WyrdState) -> None:
    before = len(peer.seen)
    session = uuid.uuid4()
    with state.run("agent", session_id=session) as run:
        sibling = run.for_card("prompt")
    assert is_uuid7(run.run_id)
    assert (sibling.run_id, sibling.session_id) == (run.run_id, str(session))
    assert (run.alias, sibling.alias, state.run().alias) == ("agent", "prompt", None)
    assert state.run().run_id != run.run_id
    assert len(peer.seen) == before
    with pytest.raises(AttributeError):
        run.run_id = "other"  # type: ignore[misc]


def test_leaving_a_run_swallows_nothing(state: WyrdState) -> None:
    with pytest.raises(KeyError), state.run():
        raise KeyError("mine")


def test_a_root_that_is_no_service_is_refused_before_any_request(
    peer: Peer, client: WyrdClient, tmp_path: Path
) -> None:
    path = tmp_path / "trigger.yaml"
    path.write_text(
        "apiVersion: wyrd/v1\nkind: Trigger\nmetadata: {name: nightly, version: 1.0.0}\n"
        "spec: {kind: schedule, cron: 0 3 * * *}\n",
        encoding="utf-8",
    )
    with pytest.raises(WyrdError) as error:
        WyrdState.declare(path, client)
    assert error.value.code == "WYRD_SDK_400_CARD_KIND_MISMATCH"
    assert peer.seen == []


def test_cards_that_do_not_load_are_refused_with_diagnostics_before_any_request(
    peer: Peer, client: WyrdClient, tmp_path: Path
) -> None:
    with pytest.raises(WyrdError) as error:
        Cards(client).declare(tmp_path / "missing.yaml")
    assert error.value.code == "WYRD_CLI_400_CARD_LOAD"
    assert error.value.details["diagnostics"][0]["code"] == "WYRD_LOADER_400_IO"
    assert peer.seen == []


def test_a_card_that_still_waits_for_files_is_no_success(
    peer: Peer, desk: Desk, card_file: Path, client: WyrdClient
) -> None:
    waiting = receipt(desk)
    waiting["outcomes"][0]["status"] = "pending"
    peer.queue("POST", "/v1/cards", Answer(body=waiting))
    with pytest.raises(WyrdError) as error:
        Cards(client).declare(card_file)
    assert error.value.code == "WYRD_REGISTRY_507_ARTIFACT_VERIFY_FAILED"


def test_a_graph_with_a_hole_is_refused(peer: Peer, desk: Desk, card_file: Path, client: WyrdClient) -> None:
    service = peer.cards[desk.service["uid"]]
    service["relationships"]["outbound_refs"].clear()
    with pytest.raises(WyrdError) as error:
        WyrdState.declare(card_file, client)
    assert error.value.code == "WYRD_SDK_400_INVALID_STATE_BUNDLE"


def test_a_reference_without_its_uid_is_refused(
    peer: Peer, desk: Desk, card_file: Path, client: WyrdClient
) -> None:
    component = peer.cards[desk.service["uid"]]["spec"]["components"][0]
    component["ref"] = {**desk.agent, "uid": None}
    with pytest.raises(WyrdError) as error:
        WyrdState.declare(card_file, client)
    assert error.value.code == "WYRD_SDK_400_INVALID_STATE_BUNDLE"
    assert error.value.details["field"] == "spec.components[0].ref"


def test_a_conflicting_declaration_raises_the_servers_error(
    peer: Peer, card_file: Path, client: WyrdClient
) -> None:
    peer.queue("POST", "/v1/cards", problem(409, "WYRD_REGISTRY_409_SPEC_DRIFT"))
    with pytest.raises(WyrdError) as error:
        Cards(client).declare(card_file)
    assert error.value.code == "WYRD_REGISTRY_409_SPEC_DRIFT"


async def test_the_async_state_loads_the_same_graph(peer: Peer, card_file: Path, desk: Desk) -> None:
    async with aio.WyrdClient(peer.url, KEY) as client:
        state = await aio.WyrdState.declare(card_file, client)
        result = await state.run("agent").observe.verify("polite@1.0.0", {"text": "please"})
        execution = await state.run().observe.submit("polite", answer="hello")
    assert result.verdict == "passed"
    assert state.aliases == ("agent", "prompt")
    assert isinstance(execution, aio.verify.Execution)
    assert is_uuid7(execution.id)
    assert execution.workflow_id == "local/verification/x"
