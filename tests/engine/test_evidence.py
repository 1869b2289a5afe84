"""What trace slots read as, and the digests of evidence."""

from __future__ import annotations

from typing import Any

import pytest

from engine.evidence import Evidence, no_span
from engine.failure import BlockFailure, ReasonKind
from wyrd.cards import VerifierSpec
from wyrd.wire.canonical import digest

TRACE = "5b8efff798038103d269b633813fc60c"


def evidence(**inputs: Any) -> Evidence:
    spec = {
        "inputs": {
            "spans": {"type": "trace"},
            "others": {"type": "trace", "required": False},
            "ticket": {"type": "json", "required": False},
        },
        "requirements": [
            {
                "id": "rule",
                "statement": "spans are there",
                "check": {
                    "kind": "trace",
                    "on": "inputs.spans",
                    "span_selector": "$.spans[*]",
                    "operator": "is_truthy",
                },
            }
        ],
    }
    return Evidence(VerifierSpec.model_validate(spec), inputs)


GIVEN = {"kind": "trace", "trace_id": TRACE}


def test_a_trace_slot_reads_as_the_document_it_is_pinned_to() -> None:
    found = evidence(spans=GIVEN)
    document = {"trace_id": TRACE, "spans": []}
    found.traces["spans"] = document
    assert found.value("spans") is document
    assert found.digests() == {"spans": digest(document)}


def test_a_trace_slot_that_is_pinned_to_nothing_says_why_and_names_its_trace() -> None:
    found = evidence(spans=GIVEN)
    found.traces["spans"] = no_span("spans", TRACE)
    with pytest.raises(BlockFailure, match=TRACE) as failed:
        found.value("spans")
    assert failed.value.kind is ReasonKind.MISSING_EVIDENCE
    assert found.digests() == {"spans": digest(TRACE)}


def test_only_traces_that_were_given_and_have_no_pin_are_looked_for() -> None:
    found = evidence(spans=GIVEN, ticket={"kind": "json", "value": 1})
    assert found.unpinned() == {"spans": TRACE}
    found.traces["spans"] = no_span("spans", TRACE)
    assert found.unpinned() == {}
