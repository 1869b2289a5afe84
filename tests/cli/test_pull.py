"""wyrd pull: a Service on the disk, told to people and to programs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.sdk.bundled import Bundled, stored_bundle
from tests.sdk.peer import NOW, Answer, Peer
from wyrd import WyrdState


@pytest.fixture
def stored(peer: Peer) -> Bundled:
    return stored_bundle(peer)


def test_pull_writes_what_from_path_loads_and_says_what_it_was(wyrd: Command, stored: Bundled) -> None:
    said = wyrd("pull", stored.ref, "--output-dir", "bundle", "--format", "json")
    assert said.code == 0
    assert said.json == {
        "root": stored.service,
        "destination": str(Path("bundle").resolve()),
        "mode": "complete",
        "card_count": 3,
        "artifact_count": 2,
        "downloaded_artifact_count": 2,
    }
    assert WyrdState.from_path("bundle").root_ref.document() == stored.service
    again = wyrd("pull", stored.ref, "--output-dir", "bundle")
    assert again.code == 0
    assert "3 Cards, 2 of 2 files" in again.out
    assert stored.service["uid"] in again.out


def test_pull_takes_the_latest_without_a_version_and_metadata_alone(
    wyrd: Command, peer: Peer, stored: Bundled
) -> None:
    card = peer.cards[stored.service["uid"]]
    peer.routes["GET", "/v1/cards/Service/default/desk/latest"] = lambda _: Answer(
        body={"card": card, "created_at": NOW, "updated_at": NOW}
    )
    arguments = ("default/Service/desk", "--output-dir", "bundle", "--metadata-only", "--format", "json")
    said = wyrd("pull", *arguments)
    assert (said.json["mode"], said.json["downloaded_artifact_count"]) == ("metadata", 0)
    assert peer.requests("POST", "/v1/cards/download/init") == []


def test_pull_needs_a_folder_of_its_own(wyrd: Command, peer: Peer, stored: Bundled) -> None:
    assert wyrd("pull", stored.ref).code == 64
    Path("mine").mkdir()
    Path("mine", "letter.txt").touch()
    said = wyrd("pull", stored.ref, "--output-dir", "mine", "--format", "json")
    assert said.code == 64
    assert said.error["code"] == "WYRD_CLIENT_400_CONFIG_INVALID"
    assert said.error["details"]["field"] == "output_dir"
    assert Path("mine", "letter.txt").exists()
    assert wyrd("pull", "default/Service/nobody@1.0.0", "--output-dir", "other").code == 66
    assert not Path("other").exists()


def test_pull_says_which_file_the_server_sent_wrong(wyrd: Command, stored: Bundled) -> None:
    stored.served["policy.md"] = b"something else"
    said = wyrd("pull", stored.ref, "--output-dir", "bundle", "--format", "json")
    assert said.code == 74
    assert said.error["code"] == "WYRD_REGISTRY_507_ARTIFACT_VERIFY_FAILED"
    assert said.error["details"]["relative_path"] == "policy.md"
    assert not Path("bundle").exists()
