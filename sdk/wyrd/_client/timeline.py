"""One trace as its spans tell it, with every trace that links straight to it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from wyrd._client.flow import Flow
from wyrd._client.query import QueryResult, sql
from wyrd.errors import Code, WyrdError
from wyrd.wire.canonical import JsonRefused, strict_loads

_TRACE = re.compile(r"[0-9a-f]{32}")

QUERY = """\
SELECT trace_id, span_id, parent_span_id, trace_state, flags, name, kind, start_time_unix_nano,
  end_time_unix_nano, duration_ms, status_code, status_message, attributes, dropped_attributes_count,
  events, dropped_events_count, links, dropped_links_count, scope_name, scope_version, service_name,
  resource_attributes
FROM vala.traces.spans
WHERE trace_id = $1
  OR trace_id IN (
    SELECT linking.trace_id
    FROM (SELECT trace_id, unnest(links) AS link FROM vala.traces.spans) AS linking
    WHERE linking.link['trace_id'] = $1
  )
ORDER BY start_time_unix_nano, trace_id, span_id"""


def trace_timeline(server_url: str, trace_id: object) -> Flow[list[dict[str, Any]]]:
    """The spans by start, each once; none when no span of the trace is recorded (yet)."""
    if not isinstance(trace_id, str) or not _TRACE.fullmatch(trace_id) or not trace_id.strip("0"):
        raise WyrdError(
            Code.SPEC_400_VALIDATION,
            "a trace id is 32 lower-case hexadecimal digits, not all zero",
            field="trace_id",
        )
    result = yield from sql(server_url, QUERY, [trace_id])
    return spans(result)


def spans(result: QueryResult) -> list[dict[str, Any]]:
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for row in result.to_pylist():
        found.setdefault((row["trace_id"], row["span_id"]), _span(row))
    return list(found.values())


def _span(row: Mapping[str, Any]) -> dict[str, Any]:
    resource = _json(row["resource_attributes"])
    span: dict[str, Any] = {
        "trace_id": row["trace_id"],
        "span_id": row["span_id"],
        "flags": row["flags"],
        "trace_state": row["trace_state"],
        "name": row["name"],
        "kind": row["kind"],
        "start_time": _instant(row["start_time_unix_nano"]),
        "end_time": _instant(row["end_time_unix_nano"]),
        "duration_ms": int(row["duration_ms"]),
        "status": {"code": row["status_code"]},
        "attributes": _json(row["attributes"]),
        "dropped_attributes_count": row["dropped_attributes_count"],
        "events": [
            {
                "timestamp": _instant(event["time_unix_nano"]),
                "name": event["name"],
                "attributes": _json(event["attributes"]),
                "dropped_attributes_count": event["dropped_attributes_count"],
            }
            for event in row["events"] or ()
        ],
        "dropped_events_count": row["dropped_events_count"],
        "links": [
            {
                "trace_id": link["trace_id"],
                "span_id": link["span_id"],
                "trace_state": link["trace_state"],
                "flags": link["flags"],
                "attributes": _json(link["attributes"]),
                "dropped_attributes_count": link["dropped_attributes_count"],
            }
            for link in row["links"] or ()
        ],
        "dropped_links_count": row["dropped_links_count"],
        "scope": {"name": row["scope_name"], "attributes": {}},
        "resource": {"service_name": row["service_name"], "attributes": resource},
    }
    if row["parent_span_id"]:
        span["parent_span_id"] = row["parent_span_id"]
    if row["status_code"] == "error" and row["status_message"]:
        span["status"]["description"] = row["status_message"]
    if row["scope_version"]:
        span["scope"]["version"] = row["scope_version"]
    for key in ("namespace", "version", "instance.id"):
        if isinstance(resource, dict) and isinstance(value := resource.get(f"service.{key}"), str):
            span["resource"][f"service_{key.replace('.', '_')}"] = value
    return span


def _json(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return strict_loads(value)
    except JsonRefused:
        return value


def _instant(nanoseconds: int) -> str:
    """RFC 3339 with all nine digits that are there."""
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    whole = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{whole}.{rest:09d}Z" if rest else f"{whole}Z"
