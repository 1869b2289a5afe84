"""Bundles that are not what was pulled: every one is refused, by the file at fault."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.sdk.bundled import FILES, Bundled, base64_digest
from wyrd import WyrdError, WyrdState

MANIFEST = "metadata.yaml"


@pytest.fixture
def bundle(pulled: tuple[Bundled, Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(pulled[1], tmp_path / "bundle"))


def refusal(folder: Path) -> WyrdError:
    with pytest.raises(WyrdError) as error:
        WyrdState.from_path(folder)
    return error.value


Change = Callable[[Path], object]


def manifest(change: Callable[[dict[str, Any]], object]) -> Change:
    def changed(folder: Path) -> None:
        path = folder / MANIFEST
        document = yaml.safe_load(path.read_text("utf-8"))
        change(document)
        path.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")

    return changed


def rewritten(path: str, old: str, new: str, *, digest: bool = True) -> Change:
    """Change a file; with `digest` the manifest then says that it must be so."""

    def changed(folder: Path) -> None:
        file = folder / path
        text = file.read_text("utf-8")
        assert old in text
        file.write_text(text.replace(old, new), encoding="utf-8")
        if digest:
            value = base64_digest(file.read_bytes())
            manifest(
                lambda found: [
                    one.update(card_sha256=value) for one in found["cards"] if one["card_path"] == path
                ]
            )(folder)

    return changed


def _of_path(document: dict[str, Any], path: str) -> dict[str, Any]:
    return next((one for one in document["cards"] if one["card_path"] == path), {})


def entry(document: dict[str, Any], kind: str) -> dict[str, Any]:
    found: dict[str, Any] = next(one for one in document["cards"] if one["card_ref"]["kind"] == kind)
    return found


def linked(path: str) -> Change:
    def changed(folder: Path) -> None:
        outside = folder.parent / "outside"
        shutil.move(folder / path, outside)
        (folder / path).symlink_to(outside)

    return changed


def appended(pattern: str, content: bytes) -> Change:
    def changed(folder: Path) -> None:
        (file,) = folder.glob(pattern)
        file.write_bytes(file.read_bytes() + content)

    return changed


def first_card(**changes: Any) -> Change:
    return manifest(lambda found: found["cards"][0].update(**changes))


def artifact_path(path: str | None) -> Change:
    return manifest(lambda found: entry(found, "Artifact")["artifacts"][0].update(local_path=path))


ROOT = "cards/root/card.yaml"
OTHER_UID = "01890a5d-ac96-774b-bcce-b302099a8057"

BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 60))
COMPONENT = "  components:\n  - alias: policy\n"
SIBLING = f"{COMPONENT}    ref:\n", f"{COMPONENT}    ref:\n      sibling:\n"
RELATED, INVENTORY = "cards/root/relationships.yaml", "cards/root/artifacts.yaml"
ALIAS = "aliases/policy.yaml"

FAULTS: dict[str, tuple[Change, str]] = {
    "no folder": (shutil.rmtree, MANIFEST),
    "no manifest": (lambda folder: (folder / MANIFEST).unlink(), MANIFEST),
    "another apiVersion": (manifest(lambda one: one.update(apiVersion="wyrd/bundle/v2")), MANIFEST),
    "another mode": (manifest(lambda one: one.update(mode="partial")), MANIFEST),
    "no cards": (manifest(lambda one: one.update(cards=[])), MANIFEST),
    "not YAML": (lambda folder: (folder / MANIFEST).write_text("a: [", "utf-8"), MANIFEST),
    "two documents": (appended(MANIFEST, b"---\na: 1\n"), MANIFEST),
    "a YAML bomb": (lambda folder: (folder / MANIFEST).write_text(BOMB, "utf-8"), MANIFEST),
    "a root that is not pinned": (manifest(lambda one: one["root"].pop("uid")), MANIFEST),
    "a root that is not there": (manifest(lambda one: one["root"].update(uid=OTHER_UID)), MANIFEST),
    "a Card that is not pinned": (
        manifest(lambda one: entry(one, "Verifier")["card_ref"].pop("uid")),
        MANIFEST,
    ),
    "a Card twice": (manifest(lambda one: one["cards"].append(one["cards"][0])), MANIFEST),
    "an alias twice": (
        manifest(lambda one: entry(one, "Verifier")["aliases"].append("policy")),
        MANIFEST,
    ),
    "an alias that the Service lacks": (
        manifest(lambda one: entry(one, "Artifact")["aliases"].remove("policy")),
        "aliases/policy.yaml",
    ),
    "counts of something else": (manifest(lambda one: one.update(card_count=4)), MANIFEST),
    "a Card left out": (manifest(lambda one: one["cards"].remove(entry(one, "Verifier"))), MANIFEST),
    "a parent path": (first_card(card_path="cards/../../card.yaml"), MANIFEST),
    "an absolute path": (first_card(card_path="/etc/passwd"), MANIFEST),
    "a path elsewhere": (first_card(card_path=MANIFEST), MANIFEST),
    "a path twice": (
        manifest(lambda one: one["cards"][0].update(card_path=one["cards"][0]["relationships_path"])),
        MANIFEST,
    ),
    "a file's parent path": (artifact_path("../x"), MANIFEST),
    "a file's absolute path": (artifact_path("/etc/passwd"), MANIFEST),
    "a file without a place": (artifact_path(None), MANIFEST),
    "a file missing": (lambda folder: next(folder.rglob("policy.md")).unlink(), "policy.md"),
    "a file too long": (appended("cards/*/artifacts/policy.md", b"x"), "policy.md"),
    "a file changed": (
        lambda folder: next(folder.rglob("policy.md")).write_bytes(b"x" * len(FILES["policy.md"])),
        "policy.md",
    ),
    "a file too many": (lambda folder: (folder / "cards/root/more.yaml").touch(), "cards/root/more.yaml"),
    "a Card too many": (
        lambda folder: shutil.copytree(folder / "cards/root", folder / "cards/zzz"),
        "cards/zzz",
    ),
    "a Card file missing": (lambda folder: (folder / ROOT).unlink(), ROOT),
    "a linked file": (linked(ROOT), ROOT),
    "a linked folder": (linked("cards/root"), "cards/root"),
    "the Cards linked": (linked("cards"), "cards"),
    "the manifest linked": (linked(MANIFEST), MANIFEST),
    "another Card digest": (rewritten(ROOT, "service_type: agent", "service_type: api", digest=False), ROOT),
    "a Card of another apiVersion": (rewritten(ROOT, "wyrd/v1", "wyrd/v2"), ROOT),
    "a Card of another name": (rewritten(ROOT, "  name: desk\n", "  name: desk-two\n"), ROOT),
    "a spec that does not decode": (rewritten(ROOT, "service_type: agent", "service_tipe: agent"), ROOT),
    "a sibling reference": (
        rewritten(ROOT, f"{COMPONENT}    ref:\n", f"{COMPONENT}    ref: ./p.yaml\n    x:\n"),
        ROOT,
    ),
    "an alias of the spec changed": (rewritten(ROOT, COMPONENT, f"{COMPONENT[:-1]}s\n"), ROOT),
    "relationships changed": (rewritten(RELATED, "alias: policy", "alias: policys"), RELATED),
    "an inventory changed": (rewritten(INVENTORY, "[]", "[1]"), INVENTORY),
    "an alias file changed": (rewritten(ALIAS, "Artifact", "Verifier"), ALIAS),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_damaged_bundle_is_refused_by_the_file_at_fault(fault: str, bundle: Path) -> None:
    change, where = FAULTS[fault]
    change(bundle)
    error = refusal(bundle)
    assert error.code == "WYRD_SDK_400_INVALID_STATE_BUNDLE"
    assert where in error.details["path"]
    assert error.details["path"] in error.message


def test_a_card_that_nothing_refers_to_is_refused(pulled: tuple[Bundled, Path], bundle: Path) -> None:
    uid = pulled[0].verifier["uid"]
    for path in (ROOT, "cards/root/relationships.yaml"):
        file = bundle / path
        document = yaml.safe_load(file.read_text("utf-8"))
        document.get("spec", {}).pop("verified_by", None)
        document.get("relationships", document)["outbound_refs"].pop()
        file.write_text(yaml.safe_dump(document), encoding="utf-8")
    manifest(lambda one: entry(one, "Service").pop("card_sha256"))(bundle)
    error = refusal(bundle)
    assert uid in error.message
    assert "not reachable" in error.message


def test_a_bundle_without_our_digests_loads_as_the_published_clients_write_none(bundle: Path) -> None:
    manifest(lambda one: [card.pop("card_sha256") for card in one["cards"]])(bundle)
    assert WyrdState.from_path(bundle).aliases == ("policy", "Again/x")
