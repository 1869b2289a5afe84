"""A Card's files: where to send them, whether they arrived whole, where to fetch them."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from sqlalchemy import Connection

from cards.graph import readable_by, require_readable
from cards.reading import existing_by_uid
from store.bindings import Bindings
from store.blobs import URL_SECONDS, BlobStore
from store.caller import Caller, Permission, Tenant
from store.card_artifacts import CardArtifacts, StoredArtifact
from store.cards import Cards, StoredCard
from store.database import Database, database_now
from wyrd.errors import Code, WyrdError
from wyrd.wire.cards import (
    ArtifactFile,
    ArtifactInventory,
    CardUploads,
    DownloadPlan,
    DownloadRequest,
    DownloadTarget,
    PlannedFile,
    StoredObject,
    UploadDone,
    UploadStored,
    digest_base64,
)

_UPLOAD_ID = re.compile(r"wyu_[0-9a-f]{32}\Z")


async def upload_plans(
    database: Database, blobs: BlobStore, tenant: Tenant, cards: Sequence[StoredCard]
) -> list[CardUploads]:
    """Where to send the files that those of the Cards which are pending still wait for."""
    pending = [card for card in cards if card.status == "pending"]
    if not pending:
        return []
    files = await database.read(_files_of, tenant, [card.uid for card in pending])
    plans: list[CardUploads] = []
    for card in pending:
        entries = [
            PlannedFile(
                relative_path=file.relative_path,
                upload_id=file.upload_id,
                plan=await blobs.upload_plan(tenant, file.sha256, file.size_bytes),
            )
            for file in files.get(card.uid, ())
            if file.stored_at is None
        ]
        if entries:
            plans.append(CardUploads(card_ref=card.ref, entries=entries))
    return plans


async def complete_upload(
    database: Database, blobs: BlobStore, caller: Caller, upload_id: str, done: UploadDone
) -> UploadStored:
    """Read what was sent and record that it is the declared file. Repeating the call changes nothing.

    Errors: `WYRD_STORAGE_400_INVALID_UPLOAD_ID`, `WYRD_STORAGE_404_UPLOAD_NOT_FOUND`,
    `WYRD_STORAGE_404_OBJECT_NOT_FOUND` (nothing was sent), `WYRD_SPEC_400_VALIDATION` (a protocol
    that was not planned), `WYRD_REGISTRY_507_ARTIFACT_VERIFY_FAILED`.
    """
    caller.require(Permission.CARDS_WRITE)
    checked_upload_id(upload_id)
    if done.protocol != "single_put":
        raise WyrdError(
            Code.SPEC_400_VALIDATION,
            f"this upload was planned as a single PUT, not as {done.protocol}",
            field="protocol",
        )
    file = await database.read(_upload, caller.tenant, upload_id)
    stored_at = file.stored_at
    if stored_at is None:
        await _verify(blobs, caller.tenant, file)
        stored_at = await database.write(_mark_stored, caller.tenant, [upload_id])
    return UploadStored(
        stored=StoredObject(
            storage_path=f"{caller.tenant.slug}/{file.sha256}",
            size_bytes=file.size_bytes,
            sha256=digest_base64(file.sha256),
            created_at=stored_at,
            content_type=file.content_type,
        )
    )


def checked_upload_id(upload_id: str) -> str:
    """The id itself. Raises `WYRD_STORAGE_400_INVALID_UPLOAD_ID`."""
    if not _UPLOAD_ID.match(upload_id):
        reason = "an upload id is wyu_ and 32 hexadecimal digits"
        raise WyrdError(Code.STORAGE_400_INVALID_UPLOAD_ID, reason, reason=reason)
    return upload_id


async def complete_card(database: Database, blobs: BlobStore, caller: Caller, uid: str) -> StoredCard:
    """Make a pending Card active once every file of it has arrived; files not completed yet are read now.

    Errors as `complete_upload`, and `WYRD_REGISTRY_404_CARD_NOT_FOUND`.
    """
    caller.require(Permission.CARDS_WRITE)
    card, files = await database.read(_card_and_files, caller, uid)
    if card.status != "pending":
        return card
    fresh = [file for file in files if file.stored_at is None]
    for file in fresh:
        await _verify(blobs, caller.tenant, file)
    return await database.write(_activate, caller, card.uid, [file.upload_id for file in fresh])


def inventory(connection: Connection, caller: Caller, uid: str) -> ArtifactInventory:
    """The files of a Card by path. Errors as for reading the Card."""
    caller.require(Permission.CARDS_READ)
    card = existing_by_uid(connection, caller, uid)
    require_readable(readable_by(connection, caller), card.uid)
    return ArtifactInventory(
        artifacts=[
            ArtifactFile(
                relative_path=file.relative_path,
                sha256=digest_base64(file.sha256),
                size_bytes=file.size_bytes,
                content_type=file.content_type,
            )
            for file in CardArtifacts(connection, caller.tenant).of_card(card.uid)
        ]
    )


async def download_plan(
    database: Database, blobs: BlobStore, caller: Caller, wanted: DownloadRequest
) -> DownloadPlan:
    """An address of one file. Errors as for reading the Card, and `WYRD_STORAGE_404_OBJECT_NOT_FOUND`."""
    file = await database.read(_downloadable, caller, wanted)
    seconds = wanted.ttl_secs or URL_SECONDS
    address = await blobs.get_url(caller.tenant, file.sha256, file.size_bytes, seconds=seconds)
    return DownloadPlan(
        plan=DownloadTarget(get_url=address, ttl_secs=seconds),
        size_bytes=file.size_bytes,
        sha256=digest_base64(file.sha256),
    )


async def _verify(blobs: BlobStore, tenant: Tenant, file: StoredArtifact) -> None:
    """Read the stored bytes in constant memory; their digest is checked by the store's `fetch`."""
    with tempfile.TemporaryDirectory(prefix="wyrd-verify-") as folder:
        try:
            size = await blobs.fetch(tenant, file.sha256, Path(folder) / "file")
        except WyrdError as error:
            if error.member is Code.STORAGE_404_OBJECT_NOT_FOUND:
                raise WyrdError(error.member, f"{file.relative_path} has not been sent") from None
            raise
    if size != file.size_bytes:
        raise WyrdError(
            Code.REGISTRY_507_ARTIFACT_VERIFY_FAILED,
            f"{file.relative_path} has {size} bytes, not the declared {file.size_bytes}",
            relative_path=file.relative_path,
            expected=file.size_bytes,
            actual=size,
        )


def _files_of(connection: Connection, tenant: Tenant, uids: list[str]) -> dict[str, list[StoredArtifact]]:
    return CardArtifacts(connection, tenant).of_cards(uids)


def _upload(connection: Connection, tenant: Tenant, upload_id: str) -> StoredArtifact:
    found = CardArtifacts(connection, tenant).by_upload(upload_id)
    card = Cards(connection, tenant).by_uid(found.card_uid) if found is not None else None
    if found is None or card is None or card.status == "deleted":
        raise WyrdError(Code.STORAGE_404_UPLOAD_NOT_FOUND, "no upload has this id")
    return found


def _mark_stored(connection: Connection, tenant: Tenant, upload_ids: list[str]) -> datetime:
    now = database_now(connection)
    artifacts = CardArtifacts(connection, tenant)
    for upload_id in upload_ids:
        artifacts.mark_stored(upload_id, now)
    return now


def _card_and_files(
    connection: Connection, caller: Caller, uid: str
) -> tuple[StoredCard, list[StoredArtifact]]:
    card = existing_by_uid(connection, caller, uid)
    return card, CardArtifacts(connection, caller.tenant).of_card(card.uid)


def _activate(connection: Connection, caller: Caller, uid: str, upload_ids: list[str]) -> StoredCard:
    cards = Cards(connection, caller.tenant)
    cards.lock()
    now = _mark_stored(connection, caller.tenant, upload_ids)
    if existing_by_uid(connection, caller, uid).status == "pending":
        cards.set_status(uid, "active", now)
        Bindings(connection, caller.tenant).set_active(uid, True)
    return existing_by_uid(connection, caller, uid)


def _downloadable(connection: Connection, caller: Caller, wanted: DownloadRequest) -> StoredArtifact:
    caller.require(Permission.CARDS_READ)
    card = existing_by_uid(connection, caller, wanted.card_uid)
    require_readable(readable_by(connection, caller), card.uid)
    path = wanted.relative_path
    file = CardArtifacts(connection, caller.tenant).by_path(card.uid, path) if "\0" not in path else None
    if file is None or file.stored_at is None:
        state = "is not a file of that Card" if file is None else "has not arrived"
        raise WyrdError(Code.STORAGE_404_OBJECT_NOT_FOUND, f"{path[:200]!r} {state}")
    return file
