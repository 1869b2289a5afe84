"""A Card's files: plans, completion, verification, download."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cards.artifacts import complete_card, complete_upload, download_plan, inventory
from cards.lifecycle import set_card_active
from cards.submissions import is_artifact_path
from store.blobs import BlobStore
from store.blobs.local import LocalBlobs
from store.caller import Caller, Role, Tenant
from store.database import Database
from tests.cards_registry.conftest import (
    MAX_FILE_BYTES,
    Registry,
    base64_digest,
    submission,
)
from wyrd.errors import WyrdError
from wyrd.wire.cards import DownloadRequest, MultipartDone, SinglePutDone, UploadStored
from wyrd.wire.ids import uuid7

FILES = {"check.py": b"def check(): ...\n", "data/rows.csv": b"a,b\n1,2\n"}
DONE = SinglePutDone(protocol="single_put")


@pytest.fixture
def shelf(database: Database, blobs: BlobStore, tenant: Tenant) -> Registry:
    """A registry over each blob store."""
    return Registry(database, blobs, Caller(tenant, uuid7(), frozenset({Role.EDITOR})))


def artifact(files: dict[str, bytes] | None = None, **metadata: Any) -> dict[str, Any]:
    return submission(
        "Artifact",
        "check-code",
        {"artifact_kind": "code"},
        files=FILES if files is None else files,
        **metadata,
    )


async def completed(registry: Registry, upload_id: str) -> UploadStored:
    return await complete_upload(registry.database, registry.blobs, registry.caller, upload_id, DONE)


async def test_a_card_with_files_is_pending_until_they_have_all_arrived(shelf: Registry) -> None:
    receipt = await shelf.declare(artifact())
    assert receipt.outcomes[0].status == "pending"
    (plan,) = receipt.upload_plans
    assert plan.card_ref == receipt.root
    assert [entry.relative_path for entry in plan.entries] == sorted(FILES)
    assert all(entry.upload_id.startswith("wyu_") and len(entry.upload_id) == 36 for entry in plan.entries)
    uid = receipt.root.uid or ""
    with pytest.raises(WyrdError) as early:
        await complete_card(shelf.database, shelf.blobs, shelf.caller, uid)
    assert early.value.code == "WYRD_STORAGE_404_OBJECT_NOT_FOUND"
    await shelf.upload(receipt, FILES)
    assert (await shelf.envelope(receipt.root))["status"]["phase"] == "active"
    again = await shelf.declare(artifact())
    assert (again.outcomes[0].status, again.upload_plans) == ("active", [])


async def test_completing_an_upload_tells_what_was_stored_and_may_be_repeated(shelf: Registry) -> None:
    receipt = await shelf.declare(artifact({"check.py": FILES["check.py"]}))
    upload_id = receipt.upload_plans[0].entries[0].upload_id
    await shelf.blobs.put(shelf.caller.tenant, FILES["check.py"])
    first = await completed(shelf, upload_id)
    assert (first.stored.size_bytes, first.stored.sha256) == (17, base64_digest(FILES["check.py"]))
    again = await completed(shelf, upload_id)
    assert again == first


async def test_an_interrupted_upload_is_resumed_by_declaring_again(shelf: Registry) -> None:
    receipt = await shelf.declare(artifact(version=None), key="the-same-key")
    first = receipt.upload_plans[0].entries[0]
    await shelf.blobs.put(shelf.caller.tenant, FILES[first.relative_path])
    await completed(shelf, first.upload_id)
    for again in (
        await shelf.declare(artifact(version=None), key="the-same-key"),
        await shelf.declare(artifact(version=None)),
    ):
        assert again.root == receipt.root
        (left,) = again.upload_plans[0].entries
        assert left.upload_id == receipt.upload_plans[0].entries[1].upload_id


async def test_what_was_not_sent_cannot_be_completed(shelf: Registry) -> None:
    receipt = await shelf.declare(artifact())
    with pytest.raises(WyrdError) as missing:
        await completed(shelf, receipt.upload_plans[0].entries[0].upload_id)
    assert missing.value.code == "WYRD_STORAGE_404_OBJECT_NOT_FOUND"
    assert "check.py" in missing.value.detail


async def test_tampered_bytes_are_refused_and_the_card_stays_pending(
    registry: Registry, local_blobs: LocalBlobs
) -> None:
    receipt = await registry.declare(artifact({"check.py": FILES["check.py"]}))
    digest = await local_blobs.put(registry.caller.tenant, FILES["check.py"])
    _overwrite(local_blobs.path(registry.caller.tenant, digest), b"def check(): pwn\n")
    upload_id = receipt.upload_plans[0].entries[0].upload_id
    for attempt in (
        completed(registry, upload_id),
        complete_card(registry.database, registry.blobs, registry.caller, receipt.root.uid or ""),
    ):
        with pytest.raises(WyrdError) as refused:
            await attempt
        assert refused.value.code == "WYRD_REGISTRY_507_ARTIFACT_VERIFY_FAILED"
    assert (await registry.envelope(receipt.root))["status"]["phase"] == "pending"


async def test_a_size_that_was_declared_wrongly_is_refused(shelf: Registry) -> None:
    declared = artifact({"check.py": FILES["check.py"]})
    declared["artifacts"][0]["size_bytes"] = 5
    receipt = await shelf.declare(declared)
    await shelf.blobs.put(shelf.caller.tenant, FILES["check.py"])
    with pytest.raises(WyrdError) as refused:
        await completed(shelf, receipt.upload_plans[0].entries[0].upload_id)
    assert refused.value.code == "WYRD_REGISTRY_507_ARTIFACT_VERIFY_FAILED"


async def test_the_inventory_lists_files_by_path(shelf: Registry) -> None:
    receipt = await shelf.declare(artifact())
    listed = await shelf.read(inventory, receipt.root.uid)
    assert [(file.relative_path, file.sha256, file.size_bytes) for file in listed.artifacts] == [
        (path, base64_digest(data), len(data)) for path, data in sorted(FILES.items())
    ]


async def test_a_download_answers_an_address_size_and_digest(shelf: Registry) -> None:
    receipt = await shelf.declare(artifact())
    wanted = DownloadRequest(card_uid=receipt.root.uid or "", relative_path="check.py", ttl_secs=60)
    with pytest.raises(WyrdError) as early:
        await download_plan(shelf.database, shelf.blobs, shelf.caller, wanted)
    assert early.value.code == "WYRD_STORAGE_404_OBJECT_NOT_FOUND"
    await shelf.upload(receipt, FILES)
    plan = await download_plan(shelf.database, shelf.blobs, shelf.caller, wanted)
    assert (plan.size_bytes, plan.sha256, plan.plan.ttl_secs) == (17, base64_digest(FILES["check.py"]), 60)
    assert plan.plan.get_url
    for path in ("missing.py", "a\0b", "../check.py"):
        with pytest.raises(WyrdError) as missing:
            await download_plan(
                shelf.database, shelf.blobs, shelf.caller, wanted.model_copy(update={"relative_path": path})
            )
        assert missing.value.code == "WYRD_STORAGE_404_OBJECT_NOT_FOUND"


async def test_other_files_under_a_pinned_version_are_drift(registry: Registry) -> None:
    await registry.declare(artifact())
    with pytest.raises(WyrdError) as refused:
        await registry.declare(artifact({**FILES, "check.py": b"other"}))
    assert refused.value.code == "WYRD_REGISTRY_409_SPEC_DRIFT"
    assert refused.value.details["changed"] == ["artifacts"]


async def test_other_files_of_an_unpinned_card_are_a_new_version(registry: Registry) -> None:
    first = await registry.declare(artifact(version=None))
    second = await registry.declare(artifact({**FILES, "check.py": b"other"}, version=None))
    assert (first.root.version, second.root.version) == ("0.1.0", "0.1.1")
    assert first.outcomes[0].artifact_hash != second.outcomes[0].artifact_hash


async def test_the_clients_own_artifact_hash_is_kept(registry: Registry) -> None:
    receipt = await registry.declare(artifact(artifact_hash="sha256:0a1b"))
    assert receipt.outcomes[0].artifact_hash == "sha256:0a1b"
    assert (await registry.envelope(receipt.root))["metadata"]["artifact_hash"] == "sha256:0a1b"


async def test_a_pending_card_is_neither_deactivated_nor_latest(registry: Registry) -> None:
    receipt = await registry.declare(artifact())
    with pytest.raises(WyrdError) as refused:
        await registry.database.write(set_card_active, registry.caller, receipt.root.uid, False)
    assert refused.value.code == "WYRD_SPEC_409_CONFLICT"


async def test_a_multipart_completion_is_refused_since_none_is_planned(registry: Registry) -> None:
    receipt = await registry.declare(artifact())
    done = MultipartDone(protocol="multipart", data={"parts": []})
    upload_id = receipt.upload_plans[0].entries[0].upload_id
    with pytest.raises(WyrdError) as refused:
        await complete_upload(registry.database, registry.blobs, registry.caller, upload_id, done)
    assert refused.value.code == "WYRD_SPEC_400_VALIDATION"


@pytest.mark.parametrize(
    ("upload_id", "code"),
    [
        ("wyu_" + "0" * 32, "WYRD_STORAGE_404_UPLOAD_NOT_FOUND"),
        ("wyu_123", "WYRD_STORAGE_400_INVALID_UPLOAD_ID"),
        ("../etc/passwd", "WYRD_STORAGE_400_INVALID_UPLOAD_ID"),
    ],
)
async def test_an_upload_id_nobody_gave_out_is_refused(registry: Registry, upload_id: str, code: str) -> None:
    with pytest.raises(WyrdError) as refused:
        await completed(registry, upload_id)
    assert refused.value.code == code


async def test_p58_another_tenants_uploads_and_files_do_not_exist(
    registry: Registry, other_tenant: Tenant
) -> None:
    receipt = await registry.declare(artifact())
    await registry.blobs.put(registry.caller.tenant, FILES["check.py"])
    rival = registry.of(other_tenant)
    uid = receipt.root.uid or ""
    with pytest.raises(WyrdError) as upload:
        await completed(rival, receipt.upload_plans[0].entries[0].upload_id)
    assert upload.value.code == "WYRD_STORAGE_404_UPLOAD_NOT_FOUND"
    with pytest.raises(WyrdError) as card:
        await complete_card(rival.database, rival.blobs, rival.caller, uid)
    assert card.value.code == "WYRD_REGISTRY_404_CARD_NOT_FOUND"
    with pytest.raises(WyrdError) as listed:
        await rival.read(inventory, uid)
    assert listed.value.code == "WYRD_REGISTRY_404_CARD_NOT_FOUND"
    # The same digest, declared by the other tenant, is not there for it.
    theirs = await rival.declare(artifact())
    with pytest.raises(WyrdError) as absent:
        await completed(rival, theirs.upload_plans[0].entries[0].upload_id)
    assert absent.value.code == "WYRD_STORAGE_404_OBJECT_NOT_FOUND"


def _paths() -> Iterator[str]:
    yield from ("", "/a", "a/", "a//b", ".", "..", "a/../b", "./a", "a\\b", "a\0b", "a\nb", "x" * 1025)


@pytest.mark.parametrize("path", list(_paths()))
async def test_a_path_that_leaves_its_folder_or_is_not_plain_is_refused(
    sqlite_database: Database, local_blobs: LocalBlobs, tenant: Tenant, path: str
) -> None:
    registry = Registry(sqlite_database, local_blobs, Caller(tenant, uuid7(), frozenset({Role.EDITOR})))
    with pytest.raises(WyrdError) as refused:
        await registry.declare(artifact({path: b"x"}))
    assert refused.value.code == "WYRD_REGISTRY_400_INVALID_ARTIFACT_PATH"
    assert refused.value.details["field"] == "submissions[0].artifacts[0].relative_path"


def test_ordinary_paths_are_taken() -> None:
    assert all(is_artifact_path(path) for path in ("a", "a/b.py", "..a/b..", "mit leerzeichen/ü.txt"))


async def test_a_file_over_the_limit_and_a_path_twice_are_refused(registry: Registry) -> None:
    large = artifact({"a": b"x"})
    large["artifacts"][0]["size_bytes"] = MAX_FILE_BYTES + 1
    with pytest.raises(WyrdError) as refused:
        await registry.declare(large)
    assert refused.value.code == "WYRD_STORAGE_400_ARTIFACT_TOO_LARGE"
    twice = artifact({"a": b"x"})
    twice["artifacts"] *= 2
    with pytest.raises(WyrdError) as repeated:
        await registry.declare(twice)
    assert repeated.value.code == "WYRD_REGISTRY_400_INVALID_ARTIFACT_PATH"


def _overwrite(path: Path, data: bytes) -> None:
    path.chmod(0o644)
    path.write_bytes(data)
