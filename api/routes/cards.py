"""`/v1/cards`: declare, read, list, delete, and the files of Cards."""

from typing import Annotated, Any

from fastapi import Body, Header, Query, Request, Response
from fastapi.responses import FileResponse
from pydantic import BaseModel, ConfigDict

from api.dependencies import Calling, Router, Serving, refused_with
from api.problems import Document
from api.routes.blobs import get_blob
from bifrost.declared import register_declared
from cards.artifacts import (
    checked_upload_id,
    complete_card,
    complete_upload,
    download_plan,
    inventory,
)
from cards.intake import declare_cards, receipt_of
from cards.lifecycle import delete_card, set_card_active
from cards.listing import CardQuery, card_page
from cards.reading import card_by_ref, card_by_uid, existing_by_ref, existing_by_uid, latest_card
from cards.receipts import Receipt
from store.blobs.addresses import PATH as LOCAL_BLOBS
from store.caller import Permission
from wyrd.cards import KINDS, json_schema
from wyrd.errors import Code, WyrdError
from wyrd.wire.cards import (
    ArtifactInventory,
    CardDeleted,
    CardPage,
    CardView,
    DeclareOutcome,
    DeclareReceipt,
    DeclareRequest,
    DownloadPlan,
    DownloadRequest,
    UploadDone,
    UploadStored,
)

router = Router(prefix="/v1/cards", tags=["cards"])


class ReferenceQuery(BaseModel):
    """Which version of which Card."""

    model_config = ConfigDict(extra="forbid")

    kind: str
    space: str
    name: str
    version: str


class ListQuery(BaseModel):
    """What a list holds; see `cards.listing` and `cards.filter`."""

    model_config = ConfigDict(extra="forbid")

    kind: str | None = None
    space: str | None = None
    name: str | None = None
    version_range: str | None = None
    status: str | None = None
    filter: str | None = None
    include_prerelease: bool = False
    limit: int | None = None
    cursor: str | None = None


def _document(answer: BaseModel) -> Document:
    """An answer without its absent members, which the published clients take for unknown nulls."""
    return Document(answer.model_dump(mode="json", by_alias=True, exclude_none=True))


def _view(view: CardView) -> Document:
    return Document(
        {
            "card": view.card,
            "created_at": view.created_at.isoformat(),
            "updated_at": view.updated_at.isoformat(),
        }
    )


@router.post("", response_model=DeclareReceipt)
@refused_with(Code.LOADER_400_INVALID_ENVELOPE)
async def declare(
    body: DeclareRequest,
    services: Serving,
    caller: Calling,
    idempotency_key: Annotated[str | None, Header()] = None,
) -> Document:
    """Declare Cards, dependencies first and the root last: all of them or none.

    The tables of a Service are registered with it.
    """

    def tables(connection: Any, receipt: Receipt) -> None:
        for one in receipt.outcomes:
            if one.card.kind == "Service":
                new = one.outcome is DeclareOutcome.DECLARED
                register_declared(connection, caller.tenant, one.card, new=new)

    receipt = await declare_cards(
        services.database,
        services.blobs,
        caller,
        body,
        idempotency_key,
        services.settings.max_file_bytes,
        tables,
    )
    return _document(receipt)


@router.get("", response_model=CardPage)
async def list_cards(query: Annotated[ListQuery, Query()], services: Serving, caller: Calling) -> Document:
    """One page of Cards, by kind, space, name and version."""
    wanted = CardQuery(**query.model_dump(exclude={"limit", "cursor"}))
    return _document(await services.database.read(card_page, caller, wanted, query.limit, query.cursor))


@router.get("/schemas/{kind}")
async def schema(kind: str, caller: Calling) -> Document:
    """The JSON Schema of one kind of Card."""
    caller.require(Permission.CARDS_READ)
    if kind not in KINDS:
        raise WyrdError(Code.SPEC_404_NOT_FOUND, f"{kind[:80]!r} is not a kind of Card", field="kind")
    return Document(json_schema(kind))


@router.get("/by-ref", response_model=CardView)
async def read_by_ref(
    query: Annotated[ReferenceQuery, Query()], services: Serving, caller: Calling
) -> Document:
    """One Card by kind, space, name and exact version."""
    return _view(
        await services.database.read(card_by_ref, caller, query.kind, query.space, query.name, query.version)
    )


@router.delete("/by-ref", response_model=CardDeleted)
async def delete_by_ref(
    query: Annotated[ReferenceQuery, Query()], services: Serving, caller: Calling
) -> CardDeleted:
    """Delete one Card version for ever."""

    def delete(connection: Any) -> CardDeleted:
        card = existing_by_ref(
            connection, caller, query.kind, query.space, query.name, query.version, deleted=True
        )
        return CardDeleted(card_uid=card.uid, deleted=delete_card(connection, caller, card.uid))

    return await services.database.write(delete)


@router.get("/by-uid/{kind}/{uid}", response_model=CardView)
async def read_by_uid(kind: str, uid: str, services: Serving, caller: Calling) -> Document:
    """One Card by its uid."""
    return _view(await services.database.read(card_by_uid, caller, kind, uid))


@router.delete("/by-uid/{kind}/{uid}", response_model=CardDeleted)
async def delete_by_uid(kind: str, uid: str, services: Serving, caller: Calling) -> CardDeleted:
    """Delete one Card version for ever."""

    def delete(connection: Any) -> CardDeleted:
        card = existing_by_uid(connection, caller, uid, kind, deleted=True)
        return CardDeleted(card_uid=card.uid, deleted=delete_card(connection, caller, card.uid))

    return await services.database.write(delete)


@router.post("/by-uid/{kind}/{uid}/deactivate", response_model=CardView)
async def deactivate(kind: str, uid: str, services: Serving, caller: Calling) -> Document:
    """Make a Card deprecated: its bindings match nothing until it is reactivated."""
    return await _set_active(kind, uid, services, caller, False)


@router.post("/by-uid/{kind}/{uid}/reactivate", response_model=CardView)
async def reactivate(kind: str, uid: str, services: Serving, caller: Calling) -> Document:
    """Make a deprecated Card active again."""
    return await _set_active(kind, uid, services, caller, True)


async def _set_active(kind: str, uid: str, services: Serving, caller: Calling, active: bool) -> Document:
    def change(connection: Any) -> CardView:
        card = existing_by_uid(connection, caller, uid, kind)
        set_card_active(connection, caller, card.uid, active)
        return card_by_uid(connection, caller, kind, uid)

    return _view(await services.database.write(change))


@router.post("/download/init", response_model=DownloadPlan)
async def download(body: DownloadRequest, services: Serving, caller: Calling) -> Document:
    """An address from which one file of a Card can be fetched for a while."""
    answer = await download_plan(services.database, services.blobs, caller, body)
    local = answer.plan.get_url.removeprefix(LOCAL_BLOBS)
    if local != answer.plan.get_url:
        # The published clients fetch a server-relative address under this path and no other.
        sha256, _, signed = local.partition("?")
        answer.plan.get_url = f"{router.prefix}/download/local?sha256={sha256}&{signed}"
    return _document(answer)


@router.get("/download/local", response_class=FileResponse)
async def download_local(request: Request, services: Serving) -> Response:
    """One file, permitted by the address's signature alone, when blobs are local files."""
    return await get_blob(request.query_params.get("sha256", ""), request, services)


@router.post("/upload/{upload_id}/complete", response_model=UploadStored)
async def upload_complete(
    upload_id: str, body: Annotated[UploadDone, Body()], services: Serving, caller: Calling
) -> Document:
    """Check what was sent for one planned file, and record it."""
    return _document(await complete_upload(services.database, services.blobs, caller, upload_id, body))


@router.post("/upload/{upload_id}/part-url")
async def upload_part(upload_id: str, caller: Calling) -> Document:
    """Refused: this server plans every upload as a single PUT."""
    caller.require(Permission.CARDS_WRITE)
    checked_upload_id(upload_id)
    raise WyrdError(
        Code.SPEC_400_VALIDATION, "this server plans no multipart uploads; PUT the whole file to its put_url"
    )


@router.post("/{uid}/complete", response_model=DeclareReceipt)
async def complete(uid: str, services: Serving, caller: Calling) -> Document:
    """Make a Card active once all its files have arrived."""
    card = await complete_card(services.database, services.blobs, caller, uid)
    return _document(receipt_of(card, [(card, DeclareOutcome.DECLARED)], []))


@router.get("/{uid}/artifacts", response_model=ArtifactInventory)
async def artifacts(uid: str, services: Serving, caller: Calling) -> Document:
    """The files of a Card."""
    return _document(await services.database.read(inventory, caller, uid))


@router.get("/{kind}/{space}/{name}/latest", response_model=CardView)
async def read_latest(kind: str, space: str, name: str, services: Serving, caller: Calling) -> Document:
    """The highest active version of a name that is not a pre-release."""
    return _view(await services.database.read(latest_card, caller, kind, space, name))
