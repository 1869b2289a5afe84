"""Problem documents (RFC 9457): how every failure of the API looks on the wire.

The document is `WyrdError.problem`; what is added here is the envelope of the codes whose data
the published clients rebuild by variant, and the way from framework errors to `WyrdError`.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

import orjson
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from wyrd.errors import Code, WyrdError

MEDIA_TYPE = "application/problem+json"

_MOST_FINDINGS = 20

_VARIANTS = {
    "WYRD_VALA_400_QUERY_INVALID_SQL": "query_invalid_sql",
    "WYRD_VALA_400_SCHEMA_PARSE": "schema_parse",
    "WYRD_VALA_400_FILTER_INVALID": "filter_invalid",
    "WYRD_VALA_400_BIFROST_UNDECLARED_FIELD": "undeclared_field",
    "WYRD_VALA_400_BIFROST_UNSUPPORTED_TYPE": "unsupported_type",
    "WYRD_VALA_400_BIFROST_RESERVED_COLUMN": "reserved_column",
    "WYRD_VALA_400_BIFROST_TENANT_ISOLATION_COLUMN_MISSING": "tenant_isolation_column_missing",
    "WYRD_VALA_400_BIFROST_INVALID_COMPACTION_TARGET": "invalid_compaction_target",
    "WYRD_VALA_400_INGEST_PROTO": "ingest_protocol",
    "WYRD_VALA_401_INGEST_AUTH": "ingest_authentication",
    "WYRD_VALA_400_OTLP_REQUEST_MALFORMED": "otlp_request_malformed",
    "WYRD_VALA_400_VARIANT_INVALID_JSON": "variant_invalid_json",
    "WYRD_VALA_400_VARIANT_TOO_DEEP": "variant_too_deep",
    "WYRD_VALA_413_VARIANT_TOO_LARGE": "variant_too_large",
    "WYRD_VALA_413_PAYLOAD_TOO_LARGE": "payload_too_large",
    "WYRD_VALA_403_BIFROST_RESERVED_BUILTIN_WRITE": "reserved_builtin_write_denied",
    "WYRD_VALA_403_CARD_UNRESOLVED": "card_unresolved",
    "WYRD_VALA_404_BIFROST_TABLE_NOT_FOUND": "table_not_found",
    "WYRD_VALA_404_TRACE_NOT_FOUND": "trace_not_found",
    "WYRD_VALA_409_BIFROST_FINGERPRINT_MISMATCH": "fingerprint_mismatch",
    "WYRD_VALA_409_BIFROST_COMMIT_CONFLICT": "commit_conflict",
    "WYRD_VALA_409_BIFROST_COMPACTION_TARGET_MISMATCH": "compaction_target_mismatch",
    "WYRD_VALA_409_BIFROST_COMPACTION_TYPE_MISMATCH": "compaction_type_mismatch",
    "WYRD_VALA_409_BIFROST_LAYOUT_MISMATCH": "physical_layout_mismatch",
    "WYRD_VALA_409_BIFROST_DUPLICATE_FAILED_BATCH": "duplicate_failed_batch",
    "WYRD_VALA_409_STREAM_MISMATCH": "stream_mismatch",
    "WYRD_VALA_429_INGEST_BUSY": "ingest_busy",
    "WYRD_VALA_503_BIFROST_WRITER_UNAVAILABLE": "writer_unavailable",
    "WYRD_VALA_500_BIFROST_INTERNAL": "internal",
    "WYRD_VALA_500_BIFROST_METADATA_MISMATCH": "metadata_mismatch",
    "WYRD_VALA_500_ICEBERG_MISSING": "iceberg_missing",
    "WYRD_VALA_500_PHYSICAL_DRIFT": "physical_drift",
    "WYRD_VALA_500_SCHEMA_DRIFT": "schema_drift",
    "WYRD_VALA_503_BIFROST_CATALOG_UNREACHABLE": "catalog_unreachable",
    "WYRD_VALA_503_BIFROST_STORAGE_UNREACHABLE": "storage_unreachable",
    "WYRD_STORAGE_400_SHA256_MISMATCH": "sha256_mismatch",
    "WYRD_STORAGE_400_SIZE_MISMATCH": "size_mismatch",
    "WYRD_STORAGE_400_ARTIFACT_TOO_LARGE": "artifact_too_large",
    "WYRD_STORAGE_400_INVALID_UPLOAD_ID": "invalid_upload_id",
    "WYRD_STORAGE_400_INVALID_URI": "invalid_uri",
    "WYRD_STORAGE_400_SHA256_INVALID": "sha256_invalid",
    "WYRD_STORAGE_400_TENANT_PATH_MISMATCH": "tenant_path_mismatch",
    "WYRD_STORAGE_400_TENANT_PREFIX_INVALID": "tenant_prefix_invalid",
    "WYRD_STORAGE_500_BACKEND": "backend",
    "WYRD_STORAGE_500_CONFIG_INVALID": "config_invalid",
    "WYRD_STORAGE_500_CREDENTIAL_CHAIN": "credential_chain",
    "WYRD_STORAGE_503_PRESIGN_EXPIRED": "presign_expired",
}
"""Codes whose details the published clients read as `{variant, data}`; other codes of the two
families carry no data."""

_BY_STATUS = {
    401: Code.AUTH_401_UNAUTHENTICATED,
    403: Code.PERMISSION_403_DENIED_RBAC,
    404: Code.SPEC_404_NOT_FOUND,
    405: Code.SPEC_404_NOT_FOUND,
    413: Code.SPEC_413_PAYLOAD_TOO_LARGE,
    503: Code.SERVER_503_SERVICE_UNAVAILABLE,
    504: Code.SERVER_504_REQUEST_TIMEOUT,
}


def json_bytes(value: Any) -> bytes:
    """JSON of a value. Integers of any size survive, and lone surrogates leave escaped.

    The answer never holds NaN: orjson writes it as null, and the slow path refuses it.
    """
    try:
        return orjson.dumps(value)
    except TypeError:
        # Integers over 64 bits and lone surrogates: what only the standard encoder can write.
        return json.dumps(value, allow_nan=False, separators=(",", ":")).encode("ascii")


class Document(Response):
    """A JSON answer, encoded by `json_bytes`."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return json_bytes(content)


def problem_document(error: WyrdError, request_id: str | None, status: int | None = None) -> dict[str, Any]:
    """The document of an error; `status` overrides the code's, for statuses without a code (405)."""
    document = error.problem(request_id)
    if status is not None:
        document["status"] = status
    variant = _VARIANTS.get(error.code)
    if variant is not None and "variant" not in error.details:
        document["details"] = {"variant": variant, "data": error.details}
    return document


def problem(
    error: WyrdError,
    request_id: str | None,
    *,
    status: int | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """The answer that tells an error."""
    sent = dict(headers or {})
    found = status or error.status
    if found == 401:
        sent.setdefault("www-authenticate", "Bearer")
    document = problem_document(error, request_id, status)
    return Response(json_bytes(document), found, sent, MEDIA_TYPE)


def field_path(location: Iterable[Any]) -> str:
    """`("body", "inputs", "ticket", 0)` as `inputs.ticket[0]`."""
    text = ""
    for index, part in enumerate(location):
        if index == 0 and part in ("body", "query", "path", "header"):
            continue
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else str(part)
    return text


def refused_request(error: RequestValidationError, code: Code) -> WyrdError:
    """What a request that its model refuses is told: the first fault, and all of them as data.

    Values are not repeated: they may be secrets.
    """
    findings = [
        {"field": field_path(found["loc"]), "reason": str(found["msg"])}
        for found in error.errors()[:_MOST_FINDINGS]
    ]
    first = findings[0] if findings else {"field": "", "reason": "the request is not valid"}
    where = first["field"] or "the body"
    return WyrdError(
        code,
        f"{where}: {first['reason']}",
        field=first["field"],
        path=first["field"],
        reason=first["reason"],
        errors=findings,
    )


def from_http(error: HTTPException) -> WyrdError:
    """The framework's own refusals in our words."""
    fallback = Code.SPEC_500_INTERNAL if error.status_code >= 500 else Code.SPEC_400_VALIDATION
    code = _BY_STATUS.get(error.status_code, fallback)
    if error.status_code == 404:
        return WyrdError(code, "there is nothing at this address")
    if error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "")
        detail = "this method is not allowed here" + (f"; allowed: {allowed}" if allowed else "")
        return WyrdError(code, detail)
    return WyrdError(code, str(error.detail))
