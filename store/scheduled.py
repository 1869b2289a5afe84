"""Bindings that Schedules run, of every tenant, for the duty that keeps the Schedules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, and_, exists, or_, select

from store.caller import Tenant
from store.cards import read_json
from store.tables.cards import bindings, cards
from store.tables.identity import tenants


@dataclass(frozen=True, slots=True)
class ScheduledBinding:
    """A binding with a schedule. `tz` is a zone's name; `verifier` and `owner` are names without a uid.

    `superseded`: a higher version of the owner is active, and the schedule runs for that one.
    """

    tenant: Tenant
    binding_id: str
    verifier: str
    owner: str
    owner_status: str
    cron: str
    tz: str
    superseded: bool

    @property
    def runs(self) -> bool:
        return self.owner_status == "active" and not self.superseded


def scheduled_bindings(connection: Connection) -> list[ScheduledBinding]:
    """Every one of them, whether it runs or not, by id. One statement, however many there are."""
    other = cards.alias("other")
    higher = exists().where(
        other.c.tenant_id == cards.c.tenant_id,
        other.c.space == cards.c.space,
        other.c.kind == cards.c.kind,
        other.c.name == cards.c.name,
        other.c.status == "active",
        # A release stands above every pre-release, as for the latest version of a name.
        or_(
            and_(other.c.prerelease.is_(False), cards.c.prerelease.is_(True)),
            and_(
                other.c.prerelease == cards.c.prerelease,
                or_(
                    other.c.precedence > cards.c.precedence,
                    and_(other.c.precedence == cards.c.precedence, other.c.uid > cards.c.uid),
                ),
            ),
        ),
    )
    statement = (
        select(
            bindings.c.binding_id,
            bindings.c.verifier_space,
            bindings.c.verifier_name,
            bindings.c.verifier_version,
            bindings.c.runs_on,
            cards.c.kind,
            cards.c.space,
            cards.c.name,
            cards.c.version,
            cards.c.status,
            tenants.c.id,
            tenants.c.slug,
            higher.label("superseded"),
        )
        .join(cards, cards.c.uid == bindings.c.owner_uid)
        .join(tenants, tenants.c.id == bindings.c.tenant_id)
        # The text finds few rows to read; what they say decides.
        .where(bindings.c.runs_on.contains('"schedule"'))
        .order_by(bindings.c.binding_id)
    )
    found = []
    for row in connection.execute(statement):
        trigger: dict[str, Any] = read_json(row.runs_on)
        if trigger["kind"] != "schedule":
            continue
        found.append(
            ScheduledBinding(
                tenant=Tenant(row.id, row.slug),
                binding_id=row.binding_id,
                verifier=f"{row.verifier_space}/{row.verifier_name}@{row.verifier_version}",
                owner=f"{row.space}/{row.kind}/{row.name}@{row.version}",
                owner_status=row.status,
                cron=trigger["cron"],
                tz=trigger.get("tz") or "UTC",
                superseded=row.superseded,
            )
        )
    return found
