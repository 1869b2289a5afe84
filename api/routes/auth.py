"""`/auth`: API keys become tokens here, and Cards get keys of their own."""

from datetime import timedelta
from urllib.parse import parse_qsl

from fastapi import Request, Response
from sqlalchemy import Connection

from api.dependencies import Calling, Router, Serving
from api.edge import request_id_of
from api.problems import Document, problem_document
from store.caller import Permission, Tenant
from store.cards import Cards, StoredCard
from store.identity import Identity, IssuedKey
from wyrd.errors import Code, WyrdError
from wyrd.wire.auth import API_KEY_TYPE, TOKEN_EXCHANGE, IssuedKeyAnswer, IssueKeyRequest, TokenAnswer
from wyrd.wire.refs import CardRef

router = Router(tags=["auth"])

_FORM = "application/x-www-form-urlencoded"
_MOST_FORM_BYTES = 64 * 1024
_YEAR = 365 * 86_400
_BEARERS = ("Service", "Agent")

# What OAuth clients branch on, beside our own codes.
_OAUTH = {
    Code.AUTH_401_API_KEY_INVALID: "invalid_client",
    Code.AUTH_401_CREDENTIAL_REVOKED: "invalid_client",
    Code.AUTH_400_UNSUPPORTED_GRANT_TYPE: "unsupported_grant_type",
    Code.AUTH_400_BAD_TOKEN_FORMAT: "invalid_request",
    Code.SPEC_400_VALIDATION: "invalid_request",
    Code.SPEC_413_PAYLOAD_TOO_LARGE: "invalid_request",
}


@router.post("/auth/token", response_model=TokenAnswer)
async def token(request: Request, serving: Serving) -> Response:
    """Exchange an API key for an access token (RFC 8693, a form). The only grant there is.

    A refusal is a problem document that also carries OAuth's `error` and `error_description`.
    """
    try:
        form = await _form(request)
        grant = form.get("grant_type", "")
        if grant != TOKEN_EXCHANGE or "actor_token" in form:
            raise WyrdError(
                Code.AUTH_400_UNSUPPORTED_GRANT_TYPE,
                "only the exchange of an API key is supported",
                field="grant_type",
            )
        if form.get("subject_token_type") != API_KEY_TYPE or not form.get("subject_token"):
            raise WyrdError(
                Code.AUTH_400_BAD_TOKEN_FORMAT,
                f"send an API key as subject_token, with subject_token_type={API_KEY_TYPE}",
                field="subject_token_type",
            )
        minted = await serving.tokens.exchange(form["subject_token"])
    except WyrdError as error:
        told = problem_document(error, request_id_of(request.scope))
        told["error"] = _OAUTH.get(error.member, "server_error")
        told["error_description"] = error.detail
        return Document(told, error.status, media_type="application/problem+json")
    answer = TokenAnswer(access_token=minted.token, expires_in=minted.expires_in)
    return Document(answer.model_dump(), headers={"cache-control": "no-store"})


async def _form(request: Request) -> dict[str, str]:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != _FORM:
        raise WyrdError(Code.SPEC_400_VALIDATION, f"the content type must be {_FORM}", field="content-type")
    body = await request.body()
    if len(body) > _MOST_FORM_BYTES:
        raise WyrdError(Code.SPEC_413_PAYLOAD_TOO_LARGE, "the form is too large", limit=_MOST_FORM_BYTES)
    try:
        pairs = parse_qsl(
            body.decode("ascii"), keep_blank_values=True, strict_parsing=bool(body), max_num_fields=32
        )
    except ValueError:
        raise WyrdError(Code.SPEC_400_VALIDATION, "the body is not a form", field="") from None
    form = dict(pairs)
    if len(form) != len(pairs):
        raise WyrdError(Code.SPEC_400_VALIDATION, "a field of the form is repeated", field="")
    return form


@router.post("/auth/issue-key")
async def issue_key(body: IssueKeyRequest, caller: Calling, serving: Serving) -> IssuedKeyAnswer:
    """A key bound to a declared Service or Agent, for the process that runs it."""
    caller.require(Permission.PRINCIPALS_MANAGE)
    if body.card_ref.kind not in _BEARERS:
        raise WyrdError(
            Code.AUTH_400_PRINCIPAL_KIND_CARD_KIND_MISMATCH,
            f"a key can stand for a {' or '.join(_BEARERS)}, not for a {body.card_ref.kind}",
            field="card_ref.kind",
        )
    lifetime = timedelta(seconds=body.expires_in_seconds or _YEAR)
    ref, principal_id, issued = await serving.database.write(
        _issue_for_card, caller.tenant, body.card_ref, body.label, lifetime
    )
    assert issued.expires_at is not None
    return IssuedKeyAnswer(
        key_id=issued.id,
        principal_id=principal_id,
        key=issued.key,
        prefix=issued.prefix,
        card_ref=ref,
        created_at=issued.created_at,
        expires_at=issued.expires_at,
    )


def _issue_for_card(
    connection: Connection, tenant: Tenant, ref: CardRef, label: str | None, lifetime: timedelta
) -> tuple[CardRef, str, IssuedKey]:
    card = _declared(connection, tenant, ref)
    identity = Identity(connection, tenant)
    exact = card.ref
    principal_id = identity.for_card(card.uid, exact.document(), exact.pinned)
    return exact, principal_id, identity.issue_key(principal_id, label=label, lifetime=lifetime)


def _declared(connection: Connection, tenant: Tenant, ref: CardRef) -> StoredCard:
    cards = Cards(connection, tenant)
    card = cards.by_identity(ref.kind, ref.space, ref.name, ref.version)
    if card is None or card.status == "deleted":
        raise WyrdError(Code.REGISTRY_404_CARD_NOT_FOUND, f"no Card {ref.pinned}", field="card_ref")
    if ref.uid is not None and ref.uid.lower() != card.uid:
        raise WyrdError(
            Code.REGISTRY_400_CARD_REF_UID_NOT_RESOLVABLE_HERE,
            f"{ref.pinned} has another uid",
            field="card_ref.uid",
        )
    return card
