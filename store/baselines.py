"""The repository of drift baselines. A baseline is fitted once and never changes after that."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from sqlalchemy import Connection, Row, select, update

from store.caller import Tenant
from store.cards import read_json, stored_json
from store.database import database_now, insert_or_nothing
from store.tables.baselines import baselines
from store.tables.identity import tenants

BaselineStatus = Literal["fitting", "ready", "failed"]


@dataclass(frozen=True, slots=True)
class StoredBaseline:
    """The baseline of one requirement. `document` is there when it is ready, `error` when it failed."""

    requirement_id: str
    status: BaselineStatus
    document: dict[str, Any] | None
    false_alarms: dict[str, dict[str, float | None]]
    warnings: Sequence[str]
    error: str | None
    created_at: datetime
    fitted_at: datetime | None


def baseline_status(stored: Mapping[str, StoredBaseline]) -> dict[str, Any]:
    """A Verifier's baselines as its Card tells them: failed if one failed, else fitting if one is.

    `error` says why, `warnings` which thresholds cry wolf; `requirements` has each by its id, with
    the rates of false alarms by feature and window size.
    """
    statuses = {one.status for one in stored.values()}
    order: tuple[BaselineStatus, ...] = ("failed", "fitting", "ready")
    found: dict[str, Any] = {
        "status": next(status for status in order if status in statuses),
        "warnings": [f"{name}: {text}" for name, one in stored.items() for text in one.warnings],
        "requirements": {name: _told(one) for name, one in stored.items()},
    }
    errors = [f"{name}: {one.error}" for name, one in stored.items() if one.error is not None]
    if errors:
        found["error"] = "; ".join(errors)
    return found


def _told(one: StoredBaseline) -> dict[str, Any]:
    return {
        "status": one.status,
        "fitted_at": None if one.fitted_at is None else one.fitted_at.astimezone(UTC).isoformat(),
        "error": one.error,
        "false_alarms": one.false_alarms,
        "warnings": list(one.warnings),
    }


class Baselines:
    """Baselines of one tenant over one connection."""

    def __init__(self, connection: Connection, tenant: Tenant) -> None:
        self.connection = connection
        self.tenant = tenant

    def of(self, verifier_uid: str) -> dict[str, StoredBaseline]:
        """The baselines of a Verifier version, by requirement."""
        statement = select(baselines).where(
            baselines.c.tenant_id == self.tenant.id, baselines.c.verifier_uid == verifier_uid
        )
        statement = statement.order_by(baselines.c.requirement_id)
        return {row.requirement_id: _stored(row) for row in self.connection.execute(statement)}

    def begin(self, verifier_uid: str, requirement_ids: Iterable[str]) -> None:
        """Note that they are to be fitted; those already noted stay as they are."""
        now = database_now(self.connection)
        for requirement_id in requirement_ids:
            self.connection.execute(
                insert_or_nothing(self.connection, baselines).values(
                    tenant_id=self.tenant.id,
                    verifier_uid=verifier_uid,
                    requirement_id=requirement_id,
                    status="fitting",
                    created_at=now,
                )
            )

    def ready(
        self,
        verifier_uid: str,
        requirement_id: str,
        document: Mapping[str, Any],
        false_alarms: Mapping[str, Mapping[str, float | None]],
        warnings: Sequence[str],
    ) -> None:
        self._end(
            verifier_uid,
            requirement_id,
            status="ready",
            document=stored_json(document),
            false_alarms=stored_json(false_alarms),
            warnings=stored_json(list(warnings)),
        )

    def failed(self, verifier_uid: str, requirement_id: str, error: str) -> None:
        self._end(verifier_uid, requirement_id, status="failed", error=error[:4000])

    def _end(self, verifier_uid: str, requirement_id: str, **values: Any) -> None:
        self.connection.execute(
            update(baselines)
            .where(
                baselines.c.tenant_id == self.tenant.id,
                baselines.c.verifier_uid == verifier_uid,
                baselines.c.requirement_id == requirement_id,
                baselines.c.status == "fitting",
            )
            .values(**values, fitted_at=database_now(self.connection))
        )


def unfitted(connection: Connection) -> list[tuple[Tenant, str]]:
    """Across tenants, for the duty that fits: Verifiers with a baseline to be fitted, the oldest first."""
    statement = (
        select(tenants.c.id, tenants.c.slug, baselines.c.verifier_uid)
        .join(tenants, tenants.c.id == baselines.c.tenant_id)
        .where(baselines.c.status == "fitting")
        .distinct()
        .order_by(baselines.c.verifier_uid)
    )
    return [(Tenant(row.id, row.slug), row.verifier_uid) for row in connection.execute(statement)]


def _stored(row: Row[Any]) -> StoredBaseline:
    return StoredBaseline(
        row.requirement_id,
        row.status,
        None if row.document is None else read_json(row.document),
        {} if row.false_alarms is None else read_json(row.false_alarms),
        [] if row.warnings is None else read_json(row.warnings),
        row.error,
        row.created_at,
        row.fitted_at,
    )
