"""`POST /v1/verification/evidence`: which files the server still needs, and where to put them."""

from api.dependencies import Calling, Router, Serving
from store.caller import Permission
from wyrd.errors import Code, WyrdError
from wyrd.wire.uploads import EvidenceAnswer, EvidenceRequest, EvidenceUpload

router = Router(tags=["verification"])


@router.post("/v1/verification/evidence")
async def evidence(body: EvidenceRequest, caller: Calling, serving: Serving) -> EvidenceAnswer:
    """The digests the caller's tenant does not hold, each with an upload plan.

    Says nothing about other tenants: a file that only they hold is missing here.
    """
    caller.require(Permission.SUBMIT)
    limit = serving.settings.max_file_bytes
    for index, file in enumerate(body.files):
        if file.size_bytes > limit:
            raise WyrdError(
                Code.VERIFICATION_413_INPUT_TOO_LARGE,
                f"a file of {file.size_bytes} bytes is over the limit of {limit}",
                path=f"files[{index}].size_bytes",
                limit=limit,
            )
    wanted = [(file.sha256, file.size_bytes) for file in body.files]
    uploads = [
        EvidenceUpload(sha256=sha256, plan=await serving.blobs.upload_plan(caller.tenant, sha256, size))
        for sha256, size in await serving.blobs.missing(caller.tenant, wanted)
    ]
    return EvidenceAnswer(uploads=uploads)
