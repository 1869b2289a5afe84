"""Evidence travels by digest: ask what is missing, put it, and nothing else becomes visible."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import pytest

from api.services import Services
from store.caller import Role
from tests.api.conftest import Person, person
from tests.api.test_problems import assert_problem
from wyrd.errors import Code


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


async def asked(client: httpx.AsyncClient, who: Person, *files: bytes) -> list[dict[str, Any]]:
    body = {"files": [{"sha256": sha256(data), "size_bytes": len(data)} for data in files]}
    answer = await client.post("/v1/verification/evidence", json=body, headers=who.headers)
    assert answer.status_code == 200, answer.text
    assert set(answer.json()) == {"uploads"}
    uploads: list[dict[str, Any]] = answer.json()["uploads"]
    return uploads


async def chunked(data: bytes, size: int = 1000) -> AsyncIterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


async def test_only_missing_digests_get_a_plan_and_the_put_takes_a_chunked_body(
    client: httpx.AsyncClient, services: Services, admin: Person
) -> None:
    one, two = secrets.token_bytes(100_000), b"two"
    await services.blobs.put(admin.tenant, two)
    (upload,) = await asked(client, admin, one, two, one)
    assert upload["sha256"] == sha256(one)
    assert upload["plan"]["protocol"] == "local_fs"
    data = upload["plan"]["data"]
    assert set(data) == {"put_url", "ttl_secs", "required_headers"}
    # Larger than max_body_bytes of this application: files have a limit of their own.
    answer = await client.put(data["put_url"], content=chunked(one), headers=admin.headers)
    assert (answer.status_code, answer.content) == (200, b"")
    assert await services.blobs.get(admin.tenant, sha256(one)) == one
    assert await asked(client, admin, one, two) == []


async def test_the_signature_alone_permits_the_put_and_the_get(
    client: httpx.AsyncClient, services: Services, admin: Person
) -> None:
    data = secrets.token_bytes(5000)
    (upload,) = await asked(client, admin, data)
    assert (await client.put(upload["plan"]["data"]["put_url"], content=data)).status_code == 200
    address = await services.blobs.get_url(admin.tenant, sha256(data), len(data))
    answer = await client.get(address)
    assert answer.content == data
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-disposition"] == "attachment"


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"other", Code.STORAGE_400_SHA256_MISMATCH),
        (b"byte", Code.STORAGE_400_SIZE_MISMATCH),
        (b"bytes and more", Code.STORAGE_400_SIZE_MISMATCH),
        (b"", Code.STORAGE_400_SIZE_MISMATCH),
    ],
)
@pytest.mark.parametrize("length", ["announced", "chunked"])
async def test_other_bytes_than_promised_are_refused_and_never_visible(
    client: httpx.AsyncClient, services: Services, admin: Person, sent: bytes, code: Code, length: str
) -> None:
    (upload,) = await asked(client, admin, b"bytes")
    content = sent if length == "announced" else chunked(sent, 3)
    answer = await client.put(upload["plan"]["data"]["put_url"], content=content, headers=admin.headers)
    document = assert_problem(answer, code)
    assert set(document["details"]) == {"variant", "data"}
    assert await services.blobs.size(admin.tenant, sha256(b"bytes")) is None
    assert await services.blobs.size(admin.tenant, sha256(sent)) is None


async def test_a_put_with_a_credential_and_no_signature_is_held_to_the_file_limit(
    client: httpx.AsyncClient, services: Services, admin: Person
) -> None:
    data = secrets.token_bytes(2000)
    answer = await client.put(f"/v1/blobs/{sha256(data)}", content=data, headers=admin.headers)
    assert answer.status_code == 200
    assert await services.blobs.size(admin.tenant, sha256(data)) == 2000
    limit = services.settings.max_file_bytes
    large = bytes(limit + 1)
    answer = await client.put(
        f"/v1/blobs/{sha256(large)}", content=chunked(large, 65_536), headers=admin.headers
    )
    assert_problem(answer, Code.STORAGE_400_ARTIFACT_TOO_LARGE)
    viewer = await person(services, "acme", "vic", Role.VIEWER)
    answer = await client.put(f"/v1/blobs/{sha256(data)}", content=data, headers=viewer.headers)
    assert_problem(answer, Code.PERMISSION_403_DENIED_RBAC)


async def test_a_file_over_the_limit_is_refused_before_it_is_sent(
    client: httpx.AsyncClient, services: Services, admin: Person
) -> None:
    files = [{"sha256": "0" * 64, "size_bytes": 1}, {"sha256": "1" * 64, "size_bytes": 1024 * 1024 + 1}]
    answer = await client.post("/v1/verification/evidence", json={"files": files}, headers=admin.headers)
    document = assert_problem(answer, Code.VERIFICATION_413_INPUT_TOO_LARGE)
    assert document["details"]["path"] == "files[1].size_bytes"


@pytest.mark.parametrize("changed", ["tenant", "slug", "size", "expires", "signature", "digest", "method"])
async def test_an_address_permits_nothing_but_what_was_signed(
    client: httpx.AsyncClient, services: Services, admin: Person, rival: Person, changed: str
) -> None:
    digest = await services.blobs.put(admin.tenant, b"held")
    other = await services.blobs.put(admin.tenant, b"also held")
    address = urlsplit(await services.blobs.get_url(admin.tenant, digest, 4))
    query = {name: values[0] for name, values in parse_qs(address.query).items()}
    change = {
        "tenant": rival.tenant.id,
        "slug": "rival",
        "size": "9",
        "expires": str(int(query["expires"]) + 1),
        "signature": query["signature"][:-1] + ("A" if query["signature"][-1] != "A" else "B"),
    }
    if changed in change:
        query[changed] = change[changed]
    path = f"/v1/blobs/{other}" if changed == "digest" else address.path
    method = "PUT" if changed == "method" else "GET"
    answer = await client.request(method, f"{path}?{urlencode(query)}", headers=admin.headers)
    assert_problem(answer, Code.AUTH_401_INVALID_TOKEN)


async def test_an_expired_address_is_told_as_expired(
    client: httpx.AsyncClient, services: Services, admin: Person
) -> None:
    digest = await services.blobs.put(admin.tenant, b"held")
    address = await services.blobs.get_url(admin.tenant, digest, 4, seconds=-2)
    assert_problem(await client.get(address), Code.STORAGE_503_PRESIGN_EXPIRED)


async def test_an_address_of_a_blob_that_is_not_there_is_a_404(
    client: httpx.AsyncClient, services: Services, admin: Person
) -> None:
    address = await services.blobs.get_url(admin.tenant, sha256(b"absent"), 6)
    assert_problem(await client.get(address), Code.STORAGE_404_OBJECT_NOT_FOUND)


async def test_p58_evidence_answers_only_about_the_callers_tenant(
    client: httpx.AsyncClient, services: Services, admin: Person, rival: Person
) -> None:
    await services.blobs.put(admin.tenant, b"secret evidence")
    (upload,) = await asked(client, rival, b"secret evidence")
    absent = (await asked(client, rival, b"nobody has this"))[0]
    assert set(upload["plan"]["data"]) == set(absent["plan"]["data"])
    digest = sha256(b"secret evidence")
    assert_problem(
        await client.get(await services.blobs.get_url(rival.tenant, digest, 15)),
        Code.STORAGE_404_OBJECT_NOT_FOUND,
    )


async def test_the_same_file_put_by_many_at_once_is_stored_once(
    client: httpx.AsyncClient, services: Services, admin: Person
) -> None:
    data = secrets.token_bytes(50_000)
    (upload,) = await asked(client, admin, data)
    put_url = upload["plan"]["data"]["put_url"]
    answers = await asyncio.gather(*(client.put(put_url, content=chunked(data)) for _ in range(8)))
    assert [answer.status_code for answer in answers] == [200] * 8
    assert await services.blobs.get(admin.tenant, sha256(data)) == data
    root = services.settings.home / "blobs"
    assert len([path for path in root.rglob("*") if path.is_file()]) == 1
