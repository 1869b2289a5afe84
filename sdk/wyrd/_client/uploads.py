"""Sending missing file contents straight to where the plan says."""

from __future__ import annotations

from collections.abc import Mapping

from wyrd._client.calls import Call
from wyrd._client.flow import FileBody, Flow
from wyrd._client.servers import upload_url
from wyrd.errors import Code, WyrdError
from wyrd.wire.uploads import EvidenceAnswer, LocalPlan, UploadPlan


def put(server_url: str, plan: UploadPlan, body: FileBody, idempotency_key: str) -> Flow[None]:
    """One PUT: with the token to the server's own blob store, without it to an object store."""
    local = isinstance(plan, LocalPlan)
    yield from Call(
        "PUT",
        upload_url(server_url, plan.data.put_url, with_token=local),
        file=body,
        headers={header.name.lower(): header.value for header in plan.data.required_headers},
        idempotency_key=None if local else idempotency_key,
        bare=not local,
    ).run(server_url)


def upload_missing(server_url: str, files: Mapping[str, FileBody]) -> Flow[None]:
    """Ask which digests the tenant lacks and upload only those. Asks nothing when there is no file."""
    if not files:
        return
    listed = [{"sha256": digest, "size_bytes": body.size} for digest, body in files.items()]
    answer = yield from Call("POST", "/v1/verification/evidence", json={"files": listed}).model(
        server_url, EvidenceAnswer
    )
    for upload in answer.uploads:
        body = files.get(upload.sha256)
        if body is None:
            raise WyrdError(Code.SPEC_502_UPSTREAM_FAILURE, "the server asks for a file that was not offered")
        yield from put(server_url, upload.plan, body, f"verification-evidence-{upload.sha256}")
