"""A registry over a real database and a real blob store, and short ways to say what is declared."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ParamSpec, TypeVar

import pytest

from cards.artifacts import complete_card, complete_upload
from cards.intake import declare_cards
from cards.lifecycle import delete_card, set_card_active
from cards.listing import CardQuery, card_page
from cards.reading import card_by_ref
from store.blobs import BlobStore
from store.blobs.local import LocalBlobs
from store.caller import Caller, Role, Tenant
from store.database import Database
from wyrd.errors import WyrdError
from wyrd.wire.cards import CardPage, DeclareReceipt, DeclareRequest, SinglePutDone
from wyrd.wire.ids import uuid7
from wyrd.wire.refs import CardRef

P = ParamSpec("P")
T = TypeVar("T")

MAX_FILE_BYTES = 1024 * 1024


@dataclass
class Registry:
    """One caller's view of a registry."""

    database: Database
    blobs: BlobStore
    caller: Caller

    async def declare(self, *submissions: Mapping[str, Any], key: str | None = None) -> DeclareReceipt:
        request = DeclareRequest.model_validate({"submissions": list(submissions)})
        return await declare_cards(
            self.database, self.blobs, self.caller, request, key or f"key-{uuid7()}", MAX_FILE_BYTES
        )

    async def read(self, work: Callable[..., T], *arguments: Any, **named: Any) -> T:
        """`work(connection, caller, …)` in a read."""
        return await self.database.read(lambda connection: work(connection, self.caller, *arguments, **named))

    async def of_tenant(self, work: Callable[..., T], *arguments: Any) -> T:
        """`work(connection, tenant, …)` in a read."""
        return await self.database.read(work, self.caller.tenant, *arguments)

    async def envelope(self, ref: CardRef) -> dict[str, Any]:
        view = await self.read(card_by_ref, ref.kind, ref.space, ref.name, ref.version)
        return view.card

    async def delete(self, uid: str | None) -> bool:
        return await self.database.write(delete_card, self.caller, uid)

    async def set_active(self, uid: str | None, active: bool) -> None:
        await self.database.write(set_card_active, self.caller, uid, active)

    async def upload(self, receipt: DeclareReceipt, contents: Mapping[str, bytes]) -> None:
        """Send and complete what the receipt's plans ask for."""
        for plan in receipt.upload_plans:
            for entry in plan.entries:
                await self.blobs.put(self.caller.tenant, contents[entry.relative_path])
                done = SinglePutDone(protocol="single_put")
                await complete_upload(self.database, self.blobs, self.caller, entry.upload_id, done)
            await complete_card(self.database, self.blobs, self.caller, plan.card_ref.uid or "")

    def bound_to(self, card_uid: str | None) -> Registry:
        """As a service whose credential is bound to that Card."""
        return replace(self, caller=replace(self.caller, roles=frozenset({Role.SERVICE}), card_uid=card_uid))

    def as_role(self, role: Role) -> Registry:
        return replace(self, caller=replace(self.caller, roles=frozenset({role})))

    def of(self, tenant: Tenant) -> Registry:
        return replace(self, caller=replace(self.caller, tenant=tenant))


@pytest.fixture
def registry(database: Database, local_blobs: LocalBlobs, tenant: Tenant) -> Registry:
    """An editor's registry, on SQLite once and on PostgreSQL once."""
    return Registry(database, local_blobs, Caller(tenant, uuid7(), frozenset({Role.EDITOR})))


def submission(
    kind: str,
    name: str,
    spec: Mapping[str, Any],
    version: str | None = "1.0.0",
    *,
    space: str = "support",
    files: Mapping[str, bytes] | None = None,
    **metadata: Any,
) -> dict[str, Any]:
    made: dict[str, Any] = {
        "apiVersion": "wyrd/v1",
        "kind": kind,
        "metadata": {"name": name, "space": space, **metadata},
        "spec": dict(spec),
    }
    if version is not None:
        made["metadata"]["version"] = version
    if files is not None:
        made["artifacts"] = [
            {"relative_path": path, "sha256": base64_digest(data), "size_bytes": len(data)}
            for path, data in files.items()
        ]
    return made


def base64_digest(data: bytes) -> str:
    return base64.b64encode(hashlib.sha256(data).digest()).decode("ascii")


def named(kind: str, name: str, version: str = "1.0.0", space: str = "support") -> dict[str, str]:
    return {"kind": kind, "name": name, "version": version, "space": space}


def sibling(kind: str, name: str, version: str = "1.0.0", space: str = "support") -> dict[str, Any]:
    return {"sibling": named(kind, name, version, space)}


def verifier_spec(forbidden: str = "guaranteed refund") -> dict[str, Any]:
    check = {"kind": "assert", "path": "inputs.answer", "operator": "not_contains", "expected": forbidden}
    return {
        "inputs": {"answer": {"type": "json"}},
        "requirements": [{"id": "no-promise", "statement": "No promise is made", "check": check}],
    }


def verifier(name: str = "no-promise", version: str | None = "1.0.0", **metadata: Any) -> dict[str, Any]:
    return submission("Verifier", name, verifier_spec(), version, **metadata)


def prompt_spec(text: str = "Answer the customer: {{question}}") -> dict[str, Any]:
    return {"provider": "openai", "model": "gpt-4o", "messages": [{"role": "user", "content": text}]}


def agent_spec(prompt: Mapping[str, Any] | None = None, **members: Any) -> dict[str, Any]:
    route = {"kind": "wyrd_gateway", "deployment": "openai"}
    return {"prompt": dict(prompt or prompt_spec()), "execution_route": route, **members}


def agent(name: str = "support-agent", version: str | None = "1.0.0", **members: Any) -> dict[str, Any]:
    return submission("Agent", name, agent_spec(**members), version)


def service(
    name: str = "support-desk",
    version: str = "1.0.0",
    *,
    verifiers: Sequence[str] = ("no-promise",),
    components: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    bound = [{"verifier": sibling("Verifier", one)} for one in verifiers]
    return submission("Service", name, {"verified_by": bound, "components": list(components)}, version)


def component(alias: str, ref: Mapping[str, Any], *verifiers: Mapping[str, Any]) -> dict[str, Any]:
    return {"alias": alias, "ref": dict(ref), "verified_by": [{"verifier": dict(one)} for one in verifiers]}


def support_desk() -> list[dict[str, Any]]:
    """The Service of the documentation: one Verifier on it, two on its agent."""
    return [
        verifier("no-promise"),
        verifier("ticket-complete"),
        submission("Prompt", "support-prompt", prompt_spec()),
        submission("Agent", "support-agent", agent_spec(sibling("Prompt", "support-prompt"))),
        service(
            components=[
                component("agent", sibling("Agent", "support-agent"), sibling("Verifier", "ticket-complete")),
                component("prompt", sibling("Prompt", "support-prompt")),
            ]
        ),
    ]


async def everything(registry: Registry) -> CardPage:
    return await registry.read(card_page, CardQuery(include_prerelease=True), None, None)


async def refused(registry: Registry, code: str, *submissions: Any, key: str | None = None) -> WyrdError:
    """Declare, expect that code, and return the error."""
    with pytest.raises(WyrdError) as caught:
        await registry.declare(*submissions, key=key)
    assert caught.value.code == code, caught.value
    return caught.value


def plain_component() -> dict[str, Any]:
    return component("agent", sibling("Agent", "support-agent"))


def verdict_schema() -> dict[str, Any]:
    def closed(properties: dict[str, Any]) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": properties,
            "required": list(properties),
            "additionalProperties": False,
        }

    pointer = closed({"json_pointer": {"type": "string"}})
    citation = closed({"slot": {"type": "string"}, "locator": pointer})
    return closed(
        {
            "outcome": {"type": "string", "enum": ["passed", "failed", "inconclusive"]},
            "reason": {"type": "string"},
            "citations": {"type": "array", "items": citation},
        }
    )
