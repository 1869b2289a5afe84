"""What answers about executions say beside the row: the link to the Temporal UI, and the error of an end."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from pydantic import ValidationError

from api.executions import status_document
from api.links import workflow_url
from store.settings import Settings
from tests.api.conftest import Person
from tests.api.test_problems import assert_problem
from wyrd.errors import Code
from wyrd.wire.ids import uuid7


def settings(**more: Any) -> Settings:
    return Settings(home=Path("home"), **more)


def row(**more: Any) -> Any:
    columns = {
        "execution_id": uuid7(),
        "status": "running",
        "source": "submit",
        "created_at": datetime.now(UTC),
        "workflow_id": "local/verification/1",
        **dict.fromkeys(("result", "group_id", "owner_uid", "started_at", "ended_at")),
        **dict.fromkeys(("error_code", "error_message", "group_sources", "window_start", "window_end")),
        **more,
    }
    return SimpleNamespace(**columns)


def test_a_workflow_is_linked_to_where_the_address_of_the_ui_is_known() -> None:
    known = settings(temporal_ui_url="https://ui.example/temporal/", temporal_namespace="wyrd")
    link = "https://ui.example/temporal/namespaces/wyrd/workflows/local%2Fverification%2F1"
    assert workflow_url(known, "local/verification/1") == link
    assert status_document(row(), known)["workflow_url"] == link
    assert "workflow_url" not in status_document(row(), settings())
    assert "workflow_url" not in status_document(row(source="verify"), known)


def test_the_address_of_the_ui_is_an_http_address() -> None:
    with pytest.raises(ValidationError):
        settings(temporal_ui_url="javascript:alert(1)")


@pytest.mark.parametrize(
    ("status", "code"),
    [
        ("cancelled", Code.SPEC_409_CONFLICT),
        ("timed_out", Code.VERIFICATION_504_EXECUTION_TIMED_OUT),
        ("errored", Code.VERIFICATION_502_DEPENDENCY_FAILED),
    ],
)
def test_an_end_without_a_result_has_the_code_of_its_status_unless_it_has_its_own(
    status: str, code: Code
) -> None:
    assert status_document(row(status=status), settings())["error"]["code"] == str(code)
    told = {"error_code": str(Code.REGISTRY_409_IDEMPOTENCY_CONFLICT), "error_message": "told"}
    assert status_document(row(status=status, **told), settings())["error"] == {
        "code": told["error_code"],
        "message": "told",
    }


def test_a_cancelled_execution_says_so() -> None:
    error = status_document(row(status="cancelled"), settings())["error"]
    assert error["message"] == "the execution was cancelled"


@pytest.mark.parametrize("wrong", ["verdict=maybe", "source=elsewhere", "status=whatever"])
async def test_a_filter_with_a_word_that_nothing_has_is_refused_with_the_words(
    client: httpx.AsyncClient, admin: Person, wrong: str
) -> None:
    answer = await client.get(f"/v1/verification/executions?{wrong}", headers=admin.headers)
    problem = assert_problem(answer, Code.SPEC_400_VALIDATION)
    assert problem["details"]["field"] == wrong.partition("=")[0]
    words = {"verdict": "'inconclusive'", "source": "'submit'", "status": "'retrying'"}
    assert words[problem["details"]["field"]] in problem["detail"]
