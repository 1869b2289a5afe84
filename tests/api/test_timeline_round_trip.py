"""Samples and trace timelines through our own client, against the real application on a real socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import uvicorn
from fastapi import FastAPI

from tests.api.conftest import Person
from tests.servers import free_ports
from wyrd import Bifrost, WyrdClient, aio

TRACE, OTHER = "0af7651916cd43dd8448eb211c80319c", "1af7651916cd43dd8448eb211c80319c"
START = 1_767_323_045_000_000_006


@pytest.fixture
async def url(app: FastAPI) -> AsyncIterator[str]:
    """Where the application listens."""
    port = free_ports(1)[0]
    config = uvicorn.Config(app, host="127.0.0.1", port=port, lifespan="off", log_level="warning", ws="none")
    server = uvicorn.Server(config)
    running = asyncio.create_task(server.serve())
    while not server.started:
        assert not running.done()
        await asyncio.sleep(0.005)
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    await running


def _span(trace: str, name: str, at: int, **more: Any) -> dict[str, Any]:
    return {
        "traceId": trace,
        "spanId": f"{at + 1:016x}",
        "name": name,
        "kind": 3,
        "startTimeUnixNano": str(START + at),
        "endTimeUnixNano": str(START + at + 2_500_000),
        **more,
    }


async def test_a_timeline_has_the_spans_of_a_trace_and_of_those_that_link_to_it(
    url: str, client: httpx.AsyncClient, admin: Person
) -> None:
    text = {"key": "question", "value": {"stringValue": "where?"}}
    failed = {
        "status": {"code": 2, "message": "it broke"},
        "attributes": [text],
        "events": [{"timeUnixNano": str(START + 7), "name": "retry", "attributes": [text]}],
    }
    spans = [
        _span(TRACE, "child", 1, parentSpanId=f"{1:016x}", **failed),
        _span(TRACE, "root", 0),
        _span(OTHER, "linking", 2, links=[{"traceId": TRACE, "spanId": f"{1:016x}"}]),
        _span("2" * 32, "unrelated", 3),
    ]
    body = {
        "resourceSpans": [
            {
                "resource": {
                    "attributes": [
                        {"key": "service.name", "value": {"stringValue": "desk"}},
                        {"key": "service.version", "value": {"stringValue": "7"}},
                    ]
                },
                "scopeSpans": [{"scope": {"name": "framework", "version": "1.2"}, "spans": spans}],
            }
        ]
    }
    answer = await client.post("/v1/traces", json=body, headers=admin.headers)
    assert answer.status_code == 200, answer.text
    async with aio.WyrdClient(url, admin.key) as sdk:
        found = await aio.Bifrost(sdk).trace_timeline(TRACE)
        assert await aio.Bifrost(sdk).trace_timeline("f" * 32) == []
    with WyrdClient(url, admin.key) as blocking:
        assert await asyncio.to_thread(Bifrost(blocking).trace_timeline, TRACE) == found
    assert [span["name"] for span in found] == ["root", "child", "linking"]
    root, child, linking = found
    assert "parent_span_id" not in root
    assert root["status"] == {"code": "unset"}
    assert child["parent_span_id"] == root["span_id"]
    assert child["status"] == {"code": "error", "description": "it broke"}
    assert (child["kind"], child["attributes"]) == ("client", {"question": "where?"})
    assert child["start_time"] == "2026-01-02T03:04:05.000000007Z"
    assert child["duration_ms"] == 2
    assert child["events"] == [
        {
            "timestamp": "2026-01-02T03:04:05.000000013Z",
            "name": "retry",
            "attributes": {"question": "where?"},
            "dropped_attributes_count": 0,
        }
    ]
    assert [(link["trace_id"], link["span_id"]) for link in linking["links"]] == [(TRACE, root["span_id"])]
    assert root["scope"] == {"name": "framework", "version": "1.2", "attributes": {}}
    assert root["resource"]["service_name"] == "desk"
    assert root["resource"]["service_version"] == "7"
