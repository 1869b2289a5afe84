"""How credentials become callers, and how fast they stop being good."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from datetime import timedelta
from typing import Any

import httpx
import pytest

from api.services import Services
from store.caller import Role
from store.first_start import ensure_dev_key, ensure_tenant
from store.identity import Identity
from store.settings import Settings
from store.signing import purpose_key, server_secret
from store.tokens import Tokens
from tests.api.conftest import Person, person
from tests.api.test_problems import assert_problem
from wyrd.errors import Code, WyrdError

EXCHANGE = {
    "client_id": "wyrd-cli",
    "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
    "subject_token_type": "urn:wyrd:oauth:token-type:api_key",
}


async def exchanged(client: httpx.AsyncClient, key: str) -> httpx.Response:
    return await client.post("/auth/token", data={**EXCHANGE, "subject_token": key})


def signed(settings: Settings, claims: dict[str, Any]) -> str:
    """A token with these claims, as this server would sign it."""

    def encoded(data: bytes) -> str:
        return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

    key = purpose_key(server_secret(settings), "access tokens")
    body = f"wyrd1.{encoded(json.dumps(claims).encode())}"
    return f"{body}.{encoded(hmac.digest(key, body.encode(), hashlib.sha256))}"


def claims_of(token: str) -> dict[str, Any]:
    body = token.split(".")[1]
    found: dict[str, Any] = json.loads(base64.urlsafe_b64decode(body + "=="))
    return found


async def test_an_api_key_is_exchanged_for_a_token_that_names_tenant_and_principal(
    client: httpx.AsyncClient, admin: Person
) -> None:
    answer = await exchanged(client, admin.key)
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-store"
    document = answer.json()
    assert set(document) == {"access_token", "token_type", "expires_in", "issued_token_type"}
    assert document["token_type"] == "Bearer"
    assert document["expires_in"] == 900
    claims = claims_of(document["access_token"])
    assert claims["tenant"] == admin.tenant.id
    assert claims["slug"] == "acme"
    assert claims["principal"] == admin.principal_id
    assert claims["roles"] == ["admin"]


@pytest.mark.parametrize("header", ["x-wyrd-access-token", "authorization"])
async def test_a_token_and_a_key_are_taken_from_either_header(
    client: httpx.AsyncClient, admin: Person, header: str
) -> None:
    token = (await exchanged(client, admin.key)).json()["access_token"]
    for credential in (token, admin.key):
        for scheme in ("Bearer", "bearer"):
            answer = await client.get("/v1/principals", headers={header: f"{scheme} {credential}"})
            assert answer.status_code == 200


@pytest.mark.parametrize(
    ("form", "code", "oauth"),
    [
        ({"subject_token": "wyrd_sk_" + "A" * 43}, Code.AUTH_401_API_KEY_INVALID, "invalid_client"),
        ({"subject_token": "nonsense"}, Code.AUTH_401_API_KEY_INVALID, "invalid_client"),
        ({"subject_token": ""}, Code.AUTH_400_BAD_TOKEN_FORMAT, "invalid_request"),
        (
            {"subject_token": "x", "subject_token_type": "urn:ietf:params:oauth:token-type:access_token"},
            Code.AUTH_400_BAD_TOKEN_FORMAT,
            "invalid_request",
        ),
        ({"grant_type": "password"}, Code.AUTH_400_UNSUPPORTED_GRANT_TYPE, "unsupported_grant_type"),
        ({"grant_type": "refresh_token"}, Code.AUTH_400_UNSUPPORTED_GRANT_TYPE, "unsupported_grant_type"),
        (
            {"subject_token": "x", "actor_token": "y"},
            Code.AUTH_400_UNSUPPORTED_GRANT_TYPE,
            "unsupported_grant_type",
        ),
    ],
)
async def test_a_refused_exchange_is_a_problem_with_oauths_error_beside_it(
    client: httpx.AsyncClient, form: dict[str, str], code: Code, oauth: str
) -> None:
    answer = await client.post("/auth/token", data={**EXCHANGE, **form})
    document = assert_problem(answer, code)
    assert document["error"] == oauth
    assert document["error_description"]
    assert "AAAA" not in answer.text


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b'{"grant_type": "x"}', "application/json"),
        (b"\xff", "application/x-www-form-urlencoded"),
        (b"grant_type=a&grant_type=b", "application/x-www-form-urlencoded"),
        (b"grant_type", "application/x-www-form-urlencoded"),
        (b"&".join(b"a%d=1" % n for n in range(50)), "application/x-www-form-urlencoded"),
    ],
)
async def test_a_token_request_that_is_no_form_is_refused(
    client: httpx.AsyncClient, body: bytes, kind: str
) -> None:
    answer = await client.post("/auth/token", content=body, headers={"content-type": kind})
    assert_problem(answer, Code.SPEC_400_VALIDATION)


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({}, Code.AUTH_401_UNAUTHENTICATED),
        ({"authorization": ""}, Code.AUTH_401_UNAUTHENTICATED),
        ({"authorization": "Bearer"}, Code.AUTH_401_UNAUTHENTICATED),
        ({"authorization": "Basic YTpi"}, Code.AUTH_401_UNAUTHENTICATED),
        ({"authorization": "Bearer x"}, Code.AUTH_401_INVALID_TOKEN),
        ({"authorization": "Bearer wyrd1.e30.AAAA"}, Code.AUTH_401_INVALID_TOKEN),
        ({"authorization": "Bearer " + "x" * 10_000}, Code.AUTH_401_INVALID_TOKEN),
        ({"authorization": "Bearer wyrd_sk_short"}, Code.AUTH_401_API_KEY_INVALID),
        ({"x-wyrd-access-token": "Bearer \xe9\xff"}, Code.AUTH_401_INVALID_TOKEN),
    ],
)
async def test_a_request_without_a_good_credential_is_a_401(
    client: httpx.AsyncClient, headers: dict[str, str], code: Code
) -> None:
    raw = {name.encode(): value.encode("latin-1") for name, value in headers.items()}
    answer = await client.get("/v1/principals", headers=raw)
    assert_problem(answer, code)
    assert answer.headers["www-authenticate"] == "Bearer"


async def test_a_token_is_refused_when_any_byte_of_it_changed(
    client: httpx.AsyncClient, admin: Person
) -> None:
    token = (await exchanged(client, admin.key)).json()["access_token"]
    for index in range(0, len(token), 7):
        other = "A" if token[index] != "A" else "B"
        changed = token[:index] + other + token[index + 1 :]
        answer = await client.get("/v1/principals", headers={"authorization": f"Bearer {changed}"})
        assert answer.status_code == 401, index


@pytest.mark.parametrize("claim", ["tenant", "slug", "principal", "key", "exp"])
@pytest.mark.parametrize("value", ["absent", None, "", 7.5, ["x"]])
async def test_p58_a_signed_token_that_lacks_a_claim_is_a_401(
    client: httpx.AsyncClient, admin: Person, settings: Settings, claim: str, value: Any
) -> None:
    claims = claims_of((await exchanged(client, admin.key)).json()["access_token"])
    if value == "absent":
        del claims[claim]
    else:
        claims[claim] = value
    answer = await client.get(
        "/v1/principals", headers={"authorization": f"Bearer {signed(settings, claims)}"}
    )
    assert_problem(answer, Code.AUTH_401_INVALID_TOKEN)


async def test_p58_a_signed_token_cannot_take_its_principal_to_another_tenant(
    client: httpx.AsyncClient, admin: Person, rival: Person, settings: Settings
) -> None:
    claims = claims_of((await exchanged(client, admin.key)).json()["access_token"])
    claims |= {"tenant": rival.tenant.id, "slug": rival.tenant.slug}
    answer = await client.get(
        "/v1/principals", headers={"authorization": f"Bearer {signed(settings, claims)}"}
    )
    assert_problem(answer, Code.AUTH_401_INVALID_TOKEN)


async def test_an_expired_token_is_a_401_of_its_own(
    client: httpx.AsyncClient, admin: Person, settings: Settings
) -> None:
    claims = claims_of((await exchanged(client, admin.key)).json()["access_token"])
    claims["exp"] = int(time.time()) - 1
    answer = await client.get(
        "/v1/principals", headers={"authorization": f"Bearer {signed(settings, claims)}"}
    )
    assert_problem(answer, Code.AUTH_401_TOKEN_EXPIRED)


async def test_a_token_signed_with_another_secret_is_refused(
    client: httpx.AsyncClient, services: Services, admin: Person
) -> None:
    foreign = await Tokens(services.database, b"quite another secret").exchange(admin.key)
    answer = await client.get("/v1/principals", headers={"authorization": f"Bearer {foreign.token}"})
    assert_problem(answer, Code.AUTH_401_INVALID_TOKEN)


async def test_a_token_ends_no_later_than_its_key(services: Services, admin: Person) -> None:
    issued = await services.database.write(
        lambda connection: Identity(connection, admin.tenant).issue_key(
            admin.principal_id, lifetime=timedelta(seconds=60)
        )
    )
    assert 55 <= (await services.tokens.exchange(issued.key)).expires_in <= 60
    spent = await services.database.write(
        lambda connection: Identity(connection, admin.tenant).issue_key(
            admin.principal_id, lifetime=timedelta(seconds=-1)
        )
    )
    with pytest.raises(WyrdError) as refused:
        await services.tokens.exchange(spent.key)
    assert refused.value.member is Code.AUTH_401_API_KEY_INVALID


class Clock:
    """Moves `time.monotonic` of the credential check, and of nothing else."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        import store.tokens

        self.ahead = 0.0
        real = time.monotonic

        class Shifted:
            time = staticmethod(time.time)
            monotonic = staticmethod(lambda: real() + self.ahead)

        monkeypatch.setattr(store.tokens, "time", Shifted)


async def test_a_revoked_key_its_tokens_and_a_suspended_principal_end_within_a_second_everywhere(
    services: Services, other_process: Tokens, admin: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    for end in ("key", "principal"):
        one = await person(services, "acme", f"one-{end}", Role.EDITOR)
        token = (await services.tokens.exchange(one.key)).token
        for tokens in (services.tokens, other_process):
            for credential in (one.key, token):
                assert (await tokens.caller(credential)).principal_id == one.principal_id

        def ended(connection: Any, one: Person = one, end: str = end) -> None:
            identity = Identity(connection, one.tenant)
            if end == "key":
                identity.revoke_key(one.principal_id, identity.keys(one.principal_id)[0].id)
            else:
                identity.suspend(one.principal_id, "left")

        await services.database.write(ended)
        clock.ahead += 1.0
        for tokens in (services.tokens, other_process):
            for credential in (one.key, token):
                with pytest.raises(WyrdError) as refused:
                    await tokens.caller(credential)
                assert refused.value.member is Code.AUTH_401_CREDENTIAL_REVOKED


async def test_a_withdrawn_role_ends_within_a_second_for_tokens_that_still_claim_it(
    services: Services, admin: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    one = await person(services, "acme", "one", Role.ADMIN)
    token = (await services.tokens.exchange(one.key)).token
    assert (await services.tokens.caller(token)).roles == {Role.ADMIN}
    await services.database.write(
        lambda connection: Identity(connection, one.tenant).withdraw(one.principal_id, Role.ADMIN)
    )
    clock.ahead += 1.0
    assert (await services.tokens.caller(token)).roles == frozenset()


async def test_between_looks_at_the_database_a_check_asks_it_nothing(
    services: Services, admin: Person
) -> None:
    first = await services.tokens.caller(admin.key)
    services.database.close()
    assert await services.tokens.caller(admin.key) is first


async def test_without_the_database_nobody_is_let_in_on_old_knowledge(
    services: Services, admin: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    await services.tokens.caller(admin.key)

    async def unreachable(*_: Any) -> None:
        raise WyrdError(Code.SERVER_503_SERVICE_UNAVAILABLE, "the database cannot be reached")

    monkeypatch.setattr(services.database, "read", unreachable)
    clock.ahead += 1.0
    with pytest.raises(WyrdError) as refused:
        await services.tokens.caller(admin.key)
    assert refused.value.member is Code.AUTH_503_VERIFY_UNAVAILABLE


async def test_the_dev_key_is_written_once_for_its_owner_alone(
    services: Services, settings: Settings
) -> None:
    tenant = await ensure_tenant(services.database, "local")
    key = await ensure_dev_key(services.database, tenant, settings.home)
    path = settings.home / "dev-key"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_text(encoding="utf-8") == key + "\n"
    assert await ensure_dev_key(services.database, tenant, settings.home) == key
    assert (await services.tokens.caller(key)).roles == {Role.ADMIN}


async def test_a_dev_key_that_the_database_does_not_know_is_replaced(
    services: Services, settings: Settings
) -> None:
    tenant = await ensure_tenant(services.database, "local")
    (settings.home / "dev-key").write_text("wyrd_sk_of_a_deleted_database\n", encoding="utf-8")
    key = await ensure_dev_key(services.database, tenant, settings.home)
    assert (await services.tokens.caller(key)).tenant == tenant
    assert (settings.home / "dev-key").read_text(encoding="utf-8") == key + "\n"


@pytest.mark.parametrize("slug", ["", "ab", "Upper", "../etc", "a/b", "1abc", "a" * 65, "abc\n"])
async def test_a_tenant_has_a_slug_that_can_be_a_path_and_a_workflow_id(
    services: Services, slug: str
) -> None:
    with pytest.raises(WyrdError) as refused:
        await ensure_tenant(services.database, slug)
    assert refused.value.member is Code.CFG_400_SCHEMA_MISMATCH


def test_a_short_secret_is_refused(tmp_path: Any) -> None:
    with pytest.raises(WyrdError) as refused:
        server_secret(Settings(home=tmp_path, secret_key="short"))
    assert refused.value.details == {"field": "secret_key"}


def test_the_secret_file_is_made_once_for_its_owner_alone(tmp_path: Any) -> None:
    settings = Settings(home=tmp_path)
    secret = server_secret(settings)
    assert (tmp_path / "secret-key").stat().st_mode & 0o777 == 0o600
    assert server_secret(settings) == secret
    assert [path.name for path in tmp_path.iterdir()] == ["secret-key"]
