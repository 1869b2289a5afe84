"""The application in process, over SQLite and local blobs, with an administrator and a rival."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from sqlalchemy import Connection

from api.app import create_app
from api.services import Services
from store.caller import Role, Tenant
from store.first_start import ensure_tenant
from store.identity import Identity
from store.settings import Settings
from store.signing import server_secret
from store.tokens import Tokens
from tests.conftest import opened


@dataclass(frozen=True, slots=True)
class Person:
    """A principal with an API key, and the headers it asks with."""

    tenant: Tenant
    principal_id: str
    key: str

    @property
    def headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.key}"}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home", max_body_bytes=64 * 1024, max_file_bytes=1024 * 1024)


@pytest.fixture
async def services(settings: Settings) -> AsyncIterator[Services]:
    settings.home.mkdir(parents=True)
    opened(settings.sql_url).close()
    services = Services.of(settings)
    yield services
    services.database.close()


@pytest.fixture
async def app(services: Services) -> AsyncIterator[FastAPI]:
    app = create_app(services)
    async with app.router.lifespan_context(app):
        yield app


@pytest.fixture
async def client(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://wyrd.test") as client:
        yield client


async def person(services: Services, slug: str, name: str, *roles: Role) -> Person:
    tenant = await ensure_tenant(services.database, slug)

    def made(connection: Connection) -> Person:
        identity = Identity(connection, tenant)
        principal_id = identity.create(name, roles)
        return Person(tenant, principal_id, identity.issue_key(principal_id).key)

    return await services.database.write(made)


@pytest.fixture
async def admin(services: Services) -> Person:
    return await person(services, "acme", "ann", Role.ADMIN)


@pytest.fixture
async def rival(services: Services) -> Person:
    """An administrator of another tenant."""
    return await person(services, "rival", "rob", Role.ADMIN)


@pytest.fixture
def other_process(services: Services, settings: Settings) -> Tokens:
    """The credential check of a second process over the same database and secret."""
    return Tokens(services.database, server_secret(settings))
