"""Pulling a Service into a folder, and loading it from there without a network."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.sdk.bundled import FILES, Bundled, base64_digest, stored_bundle
from tests.sdk.desk import CARD, receipt
from tests.sdk.peer import KEY, Answer, Peer, problem
from wyrd import Cards, WyrdClient, WyrdError, WyrdState, aio
from wyrd._client.yaml_text import as_yaml
from wyrd.cards.yaml_reader import read_documents


@pytest.fixture
def stored(peer: Peer) -> Bundled:
    return stored_bundle(peer)


@pytest.fixture
def bundle(stored: Bundled, client: WyrdClient, tmp_path: Path) -> Path:
    Cards(client).pull(stored.ref, tmp_path / "bundle")
    return tmp_path / "bundle"


def refusal(folder: Path) -> WyrdError:
    with pytest.raises(WyrdError) as error:
        WyrdState.from_path(folder)
    return error.value


def test_a_pull_writes_the_graph_and_its_files_once_and_says_so(
    peer: Peer, stored: Bundled, client: WyrdClient, tmp_path: Path
) -> None:
    found = Cards(client).pull(stored.ref, tmp_path / "new" / "bundle")
    assert found.root.document() == stored.service
    assert (found.mode, found.card_count, found.artifact_count, found.downloaded_artifact_count) == (
        "complete",
        3,
        2,
        2,
    )
    assert found.destination == tmp_path / "new" / "bundle"
    assert [one.name for one in (tmp_path / "new").iterdir()] == ["bundle"]
    manifest = yaml.safe_load((found.destination / "metadata.yaml").read_text("utf-8"))
    assert (manifest["apiVersion"], manifest["mode"]) == ("wyrd/bundle/v1", "complete")
    (entry,) = (one for one in manifest["cards"] if one["card_ref"]["kind"] == "Artifact")
    assert entry["aliases"] == ["Again/x", "policy"]
    for one in entry["artifacts"]:
        content = (found.destination / one["local_path"]).read_bytes()
        assert content == FILES[one["relative_path"]]
        assert (one["sha256"], one["size_bytes"]) == (base64_digest(content), len(content))
    for seen in peer.requests("GET", "/v1/cards/download/local"):
        assert "x-wyrd-access-token" not in seen.headers


def test_a_bundle_loads_without_network_credential_or_server(
    bundle: Path, stored: Bundled, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = len(peer.seen)

    def refused(*_: object, **__: object) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", refused)
    monkeypatch.setattr(socket, "create_connection", refused)
    monkeypatch.setattr(socket, "getaddrinfo", refused)
    state = WyrdState.from_path(bundle)
    assert state.root_ref.document() == stored.service
    assert state.aliases == ("policy", "Again/x")
    assert state.card("policy") is state.card("Again/x")
    assert state.card("policy").uid == stored.artifact["uid"]
    for card in (state.service, state.card("policy"), state.verifier("polite")):
        assert card.model_dump() == peer.cards[card.uid]
    with state.run("policy") as run:
        assert run.for_card("Again/x").run_id == run.run_id
    assert len(peer.seen) == before


def test_a_state_from_disk_makes_its_client_when_it_first_needs_one(
    bundle: Path, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = WyrdState.from_path(bundle)
    run = state.run()
    with pytest.raises(WyrdError) as error:
        run.observe.verify("polite", {"tone": "kind"})
    assert error.value.code == "WYRD_CLIENT_401_NO_CREDENTIALS"
    monkeypatch.setenv("WYRD_SERVER_URL", peer.url)
    monkeypatch.setenv("WYRD_API_KEY", KEY)
    assert run.observe.verify("polite", {"tone": "kind"}).verdict == "passed"
    assert peer.seen[-1].json["run_id"] == run.run_id


def test_from_path_opens_no_file_outside_the_bundle_and_loads_no_http_library(bundle: Path) -> None:
    code = (
        "import sys, wyrd\n"
        f"folder, opened = {str(bundle)!r}, []\n"
        "wyrd.WyrdState.from_path(folder)  # so that what it imports is loaded\n"
        "sys.addaudithook(lambda event, args: opened.append(args[0]) if event == 'open' else None)\n"
        "wyrd.WyrdState.from_path(folder)\n"
        "assert opened, 'nothing was read'\n"
        "outside = [str(path) for path in opened if not str(path).startswith(folder)]\n"
        "assert not outside, outside\n"
        "assert 'httpx' not in sys.modules and 'opentelemetry' not in sys.modules\n"
    )
    paths = os.pathsep.join(path for path in sys.path if path)
    subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": paths, "PATH": ""}, check=True)


class TestTarget:
    def test_an_earlier_bundle_is_replaced_whole(
        self, bundle: Path, stored: Bundled, client: WyrdClient
    ) -> None:
        (bundle / "cards" / "left-over").mkdir()
        (bundle / "cards" / "left-over" / "x").touch()
        Cards(client).pull(stored.ref, bundle)
        assert WyrdState.from_path(bundle).root_ref.document() == stored.service
        assert [one.name for one in bundle.parent.iterdir() if "bundle" in one.name] == ["bundle"]

    def test_an_earlier_bundle_stays_when_a_pull_fails(
        self, bundle: Path, stored: Bundled, client: WyrdClient
    ) -> None:
        before = {path: path.read_bytes() for path in bundle.rglob("*") if path.is_file()}
        stored.served["policy.md"] = b"x" * len(FILES["policy.md"])
        with pytest.raises(WyrdError) as error:
            Cards(client).pull(stored.ref, bundle)
        assert error.value.code == "WYRD_REGISTRY_507_ARTIFACT_VERIFY_FAILED"
        assert {path: path.read_bytes() for path in bundle.rglob("*") if path.is_file()} == before
        assert [one.name for one in bundle.parent.iterdir() if "bundle" in one.name] == ["bundle"]

    @pytest.mark.parametrize("foreign", ["a folder", "a file"])
    def test_anything_but_a_bundle_is_left_alone(
        self, foreign: str, peer: Peer, stored: Bundled, client: WyrdClient, tmp_path: Path
    ) -> None:
        target = tmp_path / "mine"
        if foreign == "a folder":
            target.mkdir()
            (target / "metadata.yaml").write_text("apiVersion: other/v1\n", encoding="utf-8")
        else:
            target.write_text("mine", encoding="utf-8")
        with pytest.raises(WyrdError) as error:
            Cards(client).pull(stored.ref, target)
        assert error.value.code == "WYRD_CLIENT_400_CONFIG_INVALID"
        assert error.value.details["field"] == "output_dir"
        assert target.exists()
        assert peer.seen == []

    def test_an_empty_folder_is_filled(self, stored: Bundled, client: WyrdClient, tmp_path: Path) -> None:
        (tmp_path / "empty").mkdir()
        Cards(client).pull(stored.ref, tmp_path / "empty")
        assert WyrdState.from_path(tmp_path / "empty").aliases == ("policy", "Again/x")


class TestDownloads:
    @pytest.mark.parametrize("sent", [b"", b"short", FILES["policy.md"] + b"more"])
    def test_a_file_that_is_not_the_declared_one_is_refused(
        self, sent: bytes, stored: Bundled, client: WyrdClient, tmp_path: Path
    ) -> None:
        stored.served["policy.md"] = sent
        with pytest.raises(WyrdError) as error:
            Cards(client).pull(stored.ref, tmp_path / "bundle")
        assert error.value.code == "WYRD_REGISTRY_507_ARTIFACT_VERIFY_FAILED"
        assert not list(tmp_path.glob("*bundle*"))

    def test_a_download_that_breaks_off_is_begun_again(
        self, peer: Peer, stored: Bundled, client: WyrdClient, tmp_path: Path
    ) -> None:
        whole = FILES["deep/er/data.bin"]
        cut = Answer(raw=whole[:100], headers={"content-encoding": "gzip"})
        peer.queue(
            "GET", "/v1/cards/download/local", cut, problem(503, "WYRD_REGISTRY_503_REGISTRY_UNAVAILABLE")
        )
        Cards(client).pull(stored.ref, tmp_path / "bundle")
        assert WyrdState.from_path(tmp_path / "bundle").aliases

    @pytest.mark.parametrize(
        "url", ["http://files.example.com/x", "ftp://files.example.com/x", "file:///etc/passwd"]
    )
    def test_an_address_that_is_not_protected_is_not_followed(
        self, url: str, peer: Peer, stored: Bundled, client: WyrdClient, tmp_path: Path
    ) -> None:
        first = min(FILES)
        peer.queue(
            "POST",
            "/v1/cards/download/init",
            Answer(
                body={
                    "plan": {"get_url": url, "ttl_secs": 1},
                    "size_bytes": len(FILES[first]),
                    "sha256": base64_digest(FILES[first]),
                }
            ),
        )
        with pytest.raises(WyrdError) as error:
            Cards(client).pull(stored.ref, tmp_path / "bundle")
        assert error.value.code == "WYRD_SPEC_502_UPSTREAM_FAILURE"

    @pytest.mark.parametrize("path", ["../x", "/x", "a//b", "a/../../x", ".", "a\\b"])
    def test_a_file_that_would_leave_the_folder_is_refused(
        self, path: str, peer: Peer, stored: Bundled, client: WyrdClient, tmp_path: Path
    ) -> None:
        listed = {"relative_path": path, "sha256": base64_digest(b""), "size_bytes": 0}
        peer.routes["GET", f"/v1/cards/{stored.artifact['uid']}/artifacts"] = lambda _: Answer(
            body={"artifacts": [listed]}
        )
        with pytest.raises(WyrdError) as error:
            Cards(client).pull(stored.ref, tmp_path / "bundle")
        assert error.value.code == "WYRD_REGISTRY_400_INVALID_ARTIFACT_PATH"
        assert not list(tmp_path.glob("*bundle*"))

    def test_metadata_alone_is_no_state(self, stored: Bundled, client: WyrdClient, tmp_path: Path) -> None:
        found = Cards(client).pull(stored.ref, tmp_path / "bundle", metadata_only=True)
        assert (found.mode, found.artifact_count, found.downloaded_artifact_count) == ("metadata", 2, 0)
        assert not list((tmp_path / "bundle").rglob("policy.md"))
        assert refusal(tmp_path / "bundle").details["field"] == "mode"

    def test_a_graph_that_would_not_load_is_not_published(
        self, peer: Peer, stored: Bundled, client: WyrdClient, tmp_path: Path
    ) -> None:
        peer.cards[stored.service["uid"]]["relationships"]["outbound_refs"].pop()
        with pytest.raises(WyrdError) as error:
            Cards(client).pull(stored.ref, tmp_path / "bundle")
        assert error.value.code == "WYRD_SDK_400_INVALID_STATE_BUNDLE"
        assert not list(tmp_path.glob("*bundle*"))


def test_a_bundle_of_another_kind_is_no_state(stored: Bundled, client: WyrdClient, tmp_path: Path) -> None:
    Cards(client).pull("default/Artifact/policy@1.0.0", tmp_path / "bundle")
    assert refusal(tmp_path / "bundle").code == "WYRD_SDK_400_CARD_KIND_MISMATCH"


def test_declare_with_a_bundle_folder_loads_what_it_published(
    peer: Peer, stored: Bundled, client: WyrdClient, tmp_path: Path
) -> None:
    peer.routes["POST", "/v1/cards"] = lambda _: Answer(body=receipt(stored))  # type: ignore[arg-type]
    file = tmp_path / "desk.yaml"
    file.write_text(CARD, encoding="utf-8")
    state = WyrdState.declare(file, client, bundle_dir=tmp_path / "bundle")
    assert state.aliases == WyrdState.from_path(tmp_path / "bundle").aliases == ("policy", "Again/x")
    assert state.service == WyrdState.from_path(tmp_path / "bundle").service


def _contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


async def test_the_async_faces_pull_and_load_the_same(
    peer: Peer, stored: Bundled, bundle: Path, tmp_path: Path
) -> None:
    async with aio.WyrdClient(peer.url, KEY) as client:
        await aio.Cards(client).pull(stored.ref, tmp_path / "twin")
        state = await aio.WyrdState.from_path(tmp_path / "twin", client)
    assert state.aliases == ("policy", "Again/x")
    assert _contents(tmp_path / "twin") == _contents(bundle)


_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.sampled_from(["no", "~", "1e5", "0o7", "0x1F", ".inf", "12:30:45", "2026-01-01", "- a"])
    | st.sampled_from(["#", "!!str", "y", "", "=", "<<", "@x", "%x", "*x", "&x", "1.0", "1_000", "? a"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["a", "no", "1"]), _JSON))
def test_what_is_written_as_yaml_is_read_as_the_same_data(value: dict[str, Any]) -> None:
    (found,) = read_documents(as_yaml(value))
    assert found.value == value
    assert not found.not_finite
