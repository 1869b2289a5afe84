"""What became of the Operators that reacted to an execution, as its status document tells it."""

from typing import Any

from sqlalchemy import Connection, Row

from store.caller import Tenant
from store.dispatches import Dispatches


def dispatch_documents(connection: Connection, tenant: Tenant, execution_id: str) -> list[dict[str, Any]]:
    """The dispatches of an execution, in the order they were made, each with its attempts."""
    found = Dispatches(connection, tenant).of_execution(execution_id)
    return [_document(row, attempts) for row, attempts in found]


def _document(row: Row[Any], attempts: list[Row[Any]]) -> dict[str, Any]:
    who = {"uid": row.operator_uid} if row.operator_uid is not None else {"digest": row.operator_digest}
    return {
        "dispatch_id": row.dispatch_id,
        "operator": who,
        "status": row.status,
        "error": _error(row),
        "binding_id": row.binding_id,
        "workflow_id": row.workflow_id,
        "attempts": [_attempt(one) for one in attempts],
    }


def _attempt(row: Row[Any]) -> dict[str, Any]:
    return {
        "number": row.number,
        "started_at": row.started_at.isoformat(),
        "duration_ms": row.duration_ms,
        "status_code": row.status_code,
        "error": _error(row),
    }


def _error(row: Row[Any]) -> dict[str, str] | None:
    return None if row.error_code is None else {"code": row.error_code, "message": row.error_message or ""}
