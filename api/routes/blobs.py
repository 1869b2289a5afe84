"""`/v1/blobs`: what upload plans and download addresses lead to when blobs are local files.

With an object store clients go there directly, and these answer 404.
"""

from fastapi import Request, Response
from fastapi.responses import FileResponse

from api.dependencies import Router, Serving, caller
from api.services import Services
from store.blobs import not_found, size_mismatch
from store.blobs.local import LocalBlobs
from store.caller import Permission, Tenant
from wyrd.errors import Code, WyrdError

router = Router(tags=["blobs"])


@router.put("/v1/blobs/{sha256}", response_class=Response)
async def put_blob(sha256: str, request: Request, serving: Serving) -> Response:
    """Store the body under its digest, length and digest checked while it streams to disk.

    Permitted by the address's signature, or without one by the caller's credential.
    """
    tenant, size = await _uploading(sha256, request, serving)
    blobs = _local(serving)
    limit = serving.settings.max_file_bytes
    announced = request.headers.get("content-length", "")
    if size is not None and announced.isdigit() and int(announced) != size:
        raise size_mismatch(size, int(announced))
    await blobs.receive(tenant, sha256, size, request.stream(), limit=limit)
    return Response()


@router.get("/v1/blobs/{sha256}", response_class=FileResponse)
async def get_blob(sha256: str, request: Request, serving: Serving) -> Response:
    """The blob's bytes, permitted by the address's signature alone.

    A credential does not suffice: it says nothing about which Card the bytes belong to.
    """
    if "signature" not in request.query_params:
        raise WyrdError(Code.AUTH_401_UNAUTHENTICATED, "ask the server for a download address")
    blobs = _local(serving)
    grant = blobs.addresses.check("GET", sha256, dict(request.query_params))
    if await blobs.size(grant.tenant, sha256) != grant.size:
        raise not_found(sha256)
    return FileResponse(
        blobs.path(grant.tenant, sha256),
        media_type="application/octet-stream",
        headers={"content-disposition": "attachment", "x-content-type-options": "nosniff"},
    )


async def _uploading(sha256: str, request: Request, serving: Services) -> tuple[Tenant, int | None]:
    """For which tenant, and how many bytes when the address says so."""
    if "signature" in request.query_params:
        grant = _local(serving).addresses.check("PUT", sha256, dict(request.query_params))
        return grant.tenant, grant.size
    asking = await caller(request)
    asking.require(Permission.SUBMIT)
    return asking.tenant, None


def _local(serving: Services) -> LocalBlobs:
    if not isinstance(serving.blobs, LocalBlobs):
        raise WyrdError(Code.SPEC_404_NOT_FOUND, "blobs are kept in an object store")
    return serving.blobs
