"""From files to a declaration, and a declaration under the registration's rules."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.cards_language.tree import assertion, verifier, write
from wyrd.cards import KINDS, CardRef, check, check_submissions, decode_spec, json_schema, load, spec_document
from wyrd.cards.declaration import artifact_entry

SEED = Path(__file__).parent / "seed"


@pytest.mark.parametrize("file", sorted(path.name for path in SEED.glob("*.yaml")))
def test_the_seed_pages_own_cards_are_accepted(file: str) -> None:
    report = check(SEED / file)
    assert report.ok, [one.message for one in report.errors]
    assert {one.rule for one in report.warnings} <= {"untreated_text"}


def test_the_seed_desk_is_declared_dependencies_first_and_root_last() -> None:
    found = load(SEED / "support-desk.yaml").submissions()
    assert [one["kind"] for one in found][-1] == "Service"
    names = [one["metadata"]["name"] for one in found]
    assert names.index("policy-judge") < names.index("follows-policy") < names.index("support-desk")
    assert all("bump" not in one["metadata"] for one in found)
    assert "./" not in json.dumps([one["spec"] for one in found])
    desk = found[-1]["spec"]
    assert desk["verified_by"][0]["verifier"] == {
        "sibling": {"kind": "Verifier", "name": "no-refund-promise", "version": "1.0.0", "space": "support"}
    }
    assert check_submissions(found).ok


def test_an_unpinned_root_sends_its_scope_and_a_bump(tmp_path: Path) -> None:
    write(tmp_path, card_yaml=assertion("operator: is_null").replace("version: 1.0.0", "version: '1'"))
    metadata = load(tmp_path / "card.yaml").submissions(bump="minor")[0]["metadata"]
    assert (metadata["version"], metadata["bump"]) == ("1", "minor")
    write(tmp_path, card_yaml=assertion("operator: is_null").replace(", version: 1.0.0", ""))
    metadata = load(tmp_path / "card.yaml").submissions()[0]["metadata"]
    assert "version" not in metadata
    assert metadata["bump"] == "patch"


def test_file_texts_stand_inline_byte_for_byte(tmp_path: Path) -> None:
    body = "def f(v):\n    return {'{{not}}': 'a template'}  # é\n"
    card = verifier(
        "inputs: {v: {type: json}}\nrequirements:\n  - id: r\n    statement: s\n    check:\n"
        "      kind: code\n      entrypoint: f\n      inputs: {v: inputs.v}\n"
        "      source: {inline: !file ./f.py}\n"
    )
    write(tmp_path, card_yaml=card)
    (tmp_path / "f.py").write_text(body, encoding="utf-8", newline="\n")
    spec = load(tmp_path / "card.yaml").submissions()[0]["spec"]
    assert spec["requirements"][0]["check"]["source"]["inline"] == body


def test_an_artifact_entry_holds_base64_of_the_digest(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"x")
    assert artifact_entry(tmp_path / "a.csv") == {
        "relative_path": "a.csv",
        "sha256": "LXEWQrcmsEQBYnyp+6wy9chTD7GQPMTbAiWHF5IaSIE=",
        "size_bytes": 1,
        "content_type": "text/csv",
    }


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_a_valid_json_schema(kind: Any) -> None:
    schema = json_schema(kind)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["properties"]["kind"] == {"const": kind}


def test_the_json_schemas_accept_the_seed_pages_own_cards() -> None:
    for card in load(SEED / "support-desk.yaml").cards:
        jsonschema.Draft202012Validator(json_schema(card.kind)).validate(card.document.value)
        assert spec_document(card.spec) == spec_document(decode_spec(card.kind, spec_document(card.spec)))


AGENT: dict[str, Any] = {
    "execution_route": {"kind": "native"},
    "prompt": {"provider": "openai", "model": "m", "system": "s"},
}
CHECK: dict[str, Any] = {"kind": "assert", "path": "inputs.v", "operator": "is_null"}
RUN: dict[str, Any] = {
    "inputs": {"v": {"type": "json"}},
    "requirements": [{"id": "r", "statement": "s", "check": CHECK}],
}
WINDOW: dict[str, Any] = {"inputs": {"d": {"type": "samples", "features": ["wait_s"]}}}
GROUP: dict[str, Any] = {"inputs": {"turns": "verifiers.turn-check.inputs.v"}, "requirements": []}


def submitted(kind: str, spec: Mapping[str, Any], name: str = "some-card", **metadata: Any) -> dict[str, Any]:
    found = {"name": name, "space": "default", "version": "1.0.0", **metadata}
    return {"apiVersion": "wyrd/v1", "kind": kind, "metadata": found, "spec": dict(spec), "artifacts": []}


def sibling(kind: str, name: str) -> dict[str, Any]:
    return {"sibling": {"kind": kind, "name": name, "version": "1.0.0", "space": "default"}}


def faults(*cards: dict[str, Any], resolve: Any = None) -> list[tuple[str, str | None]]:
    report = check_submissions(list(cards), resolve=resolve)
    return [(str(one.code).removeprefix("WYRD_"), one.field) for one in report.errors]


def bound(verifier_name: str, **binding: Any) -> dict[str, Any]:
    return submitted(
        "Agent", {**AGENT, "verified_by": [{"verifier": sibling("Verifier", verifier_name), **binding}]}
    )


@pytest.mark.parametrize(
    ("cron", "good"),
    [
        ("0 6 * * MON-FRI", True),
        ("*/15 0-6,22 1 JAN,feb *", True),
        ("0 0 29 2 *", True),
        ("0 0 31 2 *", False),
        ("0 0 30 2 1", False),
        ("0 0 0 * * *", False),
        ("@daily", False),
        ("0 0 L * *", False),
        ("60 * * * *", False),
        ("0 0 * * 5#2", False),
        ("", False),
    ],
)
def test_p31_a_schedule_is_five_fields_that_fire(cron: str, good: bool) -> None:
    found = faults(submitted("Trigger", {"kind": "schedule", "cron": cron}))
    assert found == ([] if good else [("SPEC_400_VALIDATION", "cron")])


@pytest.mark.parametrize(
    ("zone", "good"),
    [
        ("Europe/Berlin", True),
        ("UTC", True),
        ("EST5EDT", True),
        ("Mars/Base", False),
        ("../etc", False),
        ("", False),
    ],
)
def test_p31_a_time_zone_is_an_iana_name(zone: str, good: bool) -> None:
    found = faults(submitted("Trigger", {"kind": "schedule", "cron": "0 0 * * *", "tz": zone}))
    assert found == ([] if good else [("SPEC_400_VALIDATION", "tz")])


SCHEDULE = {"kind": "schedule", "cron": "0 0 * * *"}
QUIET = {"kind": "group_end", "after": "30m"}


@pytest.mark.parametrize(
    ("spec", "trigger", "good"),
    [
        (WINDOW, SCHEDULE, True),
        (WINDOW, QUIET, False),
        (RUN, SCHEDULE, False),
        (RUN, QUIET, False),
        (RUN, None, True),
    ],
)
def test_a_trigger_fits_the_evidence_of_its_verifier(spec: dict[str, Any], trigger: Any, good: bool) -> None:
    found = faults(submitted("Verifier", spec, "some-check"), bound("some-check", runs_on=trigger))
    assert found == (
        [] if good else [("SPEC_400_TRIGGER_ACTIVATION_MISMATCH", "spec.verified_by[0].runs_on")]
    )


def test_a_group_verifier_needs_its_peer_bound_beside_it() -> None:
    group = submitted("Verifier", GROUP, "group-check")
    turn = submitted("Verifier", RUN, "turn-check")
    alone = bound("group-check", runs_on=QUIET)
    assert faults(group, alone) == [("SPEC_400_UNBOUND_VERIFIER_PEER", "spec.verified_by[0].verifier")]
    beside = bound("group-check", runs_on=QUIET)
    beside["spec"]["verified_by"].append({"verifier": sibling("Verifier", "turn-check")})
    assert faults(group, turn, beside) == []
    other = submitted("Verifier", {"inputs": {"w": {"type": "json"}}}, "turn-check")
    assert faults(group, other, beside) == [
        ("SPEC_400_UNBOUND_VERIFIER_PEER", "spec.verified_by[0].verifier")
    ]


def test_a_group_reacts_through_on_verdict_change() -> None:
    operator = {"kind": "http", "method": "post", "url": "https://hooks.example.org/x"}
    turn = {"verifier": sibling("Verifier", "turn-check")}
    card = bound("group-check", runs_on=QUIET, on_failure=[operator])
    card["spec"]["verified_by"].append(turn)
    cards = [submitted("Verifier", GROUP, "group-check"), submitted("Verifier", RUN, "turn-check"), card]
    assert faults(*cards) == [("SPEC_400_TRIGGER_ACTIVATION_MISMATCH", "spec.verified_by[0].on_failure")]


def test_rules_of_a_referenced_agent_hold_for_siblings_and_registered_cards() -> None:
    judge = submitted("Agent", {**AGENT, "tool_names": ["fs.read"]}, "some-judge")
    check_body = {"kind": "agent", "agent": sibling("Agent", "some-judge"), "inputs": {"x": "inputs.v"}}
    spec = {**RUN, "requirements": [{"id": "r", "statement": "s", "check": check_body}]}
    report = check_submissions([judge, submitted("Verifier", spec, "some-check")])
    assert [one.rule for one in report.errors] == ["agent_inputs"]
    check_body["inputs"] = {}
    check_body["agent"] = {"kind": "Agent", "name": "some-judge", "version": "1.0.0"}
    asked: list[str] = []

    def resolve(ref: CardRef) -> Mapping[str, Any] | None:
        asked.append(str(ref))
        return judge["spec"] if ref.name == "some-judge" else None

    report = check_submissions([submitted("Verifier", spec, "some-check")], resolve=resolve)
    assert [one.rule for one in report.errors] == ["check_agent_tools"]
    assert asked == ["default/Agent/some-judge@1.0.0"]


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"url": "ftp://x.example.org"}, "url"),
        ({"url": "https://u:p@x.example.org/"}, "url"),
        ({"url": "https://{{verdict}}.example.org/"}, "url"),
        ({"url": "https://x.example.org/a b"}, "url"),
        ({"url": "https://x.example.org:99999/"}, "url"),
        ({"url": "https://x.example.org/{{ secret }}"}, "url"),
        ({"headers": {"Authorization": "x"}}, "headers.Authorization"),
        ({"headers": {"Host": "x"}}, "headers.Host"),
        ({"headers": {"X Y": "x"}}, "headers.X Y"),
        ({"headers": {"X-A": "a\r\nB: c"}}, "headers.X-A"),
        ({"headers": {"X-A": "1", "x-a": "2"}}, "headers.x-a"),
        ({"body": {"a": ["{{ unknown }}"]}}, "body.a[0]"),
        ({"body": "{{ verdict"}, "body"),
        ({"auth": {"scheme": "header", "name": "Host", "connection": "some-conn"}}, "auth.name"),
        ({"timeout_seconds": 0}, "timeout_seconds"),
        ({"expect_status": 99}, "expect_status"),
    ],
)
def test_an_http_operator_is_refused_at_its_place(change: dict[str, Any], place: str) -> None:
    base = {"kind": "http", "method": "post", "url": "https://x.example.org/{{ run_id }}?v={{verdict}}"}
    assert faults(submitted("Operator", base)) == []
    assert faults(submitted("Operator", {**base, **change})) == [("SPEC_400_INVALID_OPERATOR", place)]


@pytest.mark.parametrize(
    ("table", "place"),
    [
        ({"name": "My Table", "schema": {"type": "object", "properties": {"a": {}}}}, "tables[0].name"),
        ({"name": "t", "schema": {}}, None),
        (
            {"name": "t", "schema": {"type": "object", "properties": {"run_id": {}}}},
            "tables[0].schema.properties.run_id",
        ),
        (
            {"name": "t", "schema": {"type": "object", "properties": {"wyrd_x": {}}}},
            "tables[0].schema.properties.wyrd_x",
        ),
        (
            {"name": "t", "schema": {"type": "object", "properties": {"a": {"type": "x"}}}},
            "tables[0].schema.properties.a.type",
        ),
    ],
)
def test_a_table_is_refused_at_its_place(table: dict[str, Any], place: str | None) -> None:
    found = faults(submitted("Service", {"tables": [table]}))
    assert {code for code, _ in found} == {"REGISTRY_400_INVALID_CARD_SPEC"}
    if place is not None:
        assert [field for _, field in found] == [place]


@pytest.mark.parametrize(
    ("metadata", "place"),
    [
        ({"labels": {"wyrd.dev/x": "a"}}, "metadata.labels.wyrd.dev/x"),
        ({"labels": {"api-key": "a"}}, "metadata.labels.api-key"),
        ({"annotations": {"note": "wyrd_sk_abc"}}, "metadata.annotations.note"),
        ({"annotations": {"db.password": "x"}}, "metadata.annotations.db.password"),
    ],
)
def test_secret_looking_and_reserved_metadata_are_refused(metadata: dict[str, Any], place: str) -> None:
    assert faults(submitted("Policy", {}, **metadata)) == [("SPEC_400_VALIDATION", place)]
    assert faults(submitted("Policy", {}, labels={"token-budget": "7", "team": "night"})) == []


@pytest.mark.parametrize(
    ("card", "wanted"),
    [
        (
            {**submitted("Policy", {}), "apiVersion": "wyrd/v2"},
            [("LOADER_400_INVALID_ENVELOPE", "apiVersion")],
        ),
        ({**submitted("Policy", {}), "kind": "External"}, [("LOADER_400_INVALID_ENVELOPE", "kind")]),
        (
            submitted("Agent", AGENT, version="1"),
            [("REGISTRY_400_INVALID_VERSION_BLOCK", "metadata.version")],
        ),
        (
            submitted("Agent", {**AGENT, "prompt": "./p.yaml"}),
            [("REGISTRY_400_UNRESOLVED_PATH_REF", "spec.prompt")],
        ),
        (
            submitted("Agent", {**AGENT, "prompt": sibling("Prompt", "none-here")}),
            [("REGISTRY_400_UNRESOLVED_INLINE_REFERENCE", "spec.prompt")],
        ),
        (
            submitted(
                "Agent", {**AGENT, "prompt": {"kind": "Model", "name": "some-model", "version": "1.0.0"}}
            ),
            [("SPEC_400_VALIDATION", "prompt")],
        ),
        (submitted("Policy", {"note": "x" * 300_000}), [("REGISTRY_400_SPEC_TOO_LARGE", None)]),
        (
            submitted(
                "Verifier",
                {**RUN, "requirements": [{**RUN["requirements"][0], "id": f"r{n}"} for n in range(1001)]},
            ),
            [("SPEC_400_VALIDATION", "requirements")],
        ),
        (submitted("Policy", {}, name="X"), [("LOADER_400_YAML_SYNTAX", "metadata.name")]),
    ],
)
def test_registration_refuses_with_code_and_place(
    card: dict[str, Any], wanted: list[tuple[str, str | None]]
) -> None:
    assert faults(card) == wanted


@pytest.mark.parametrize(("kind", "limit"), [("extract", 600), ("code", 300)])
def test_a_block_has_a_longest_time(kind: str, limit: int) -> None:
    actions = {
        "extract": {"kind": "extract", "from": "inputs.f"},
        "code": {"kind": "code", "entrypoint": "f", "source": {"inline": "x"}},
    }
    for seconds, wanted in ((limit, []), (limit + 1, [("SPEC_400_VALIDATION", "steps[0].timeout_seconds")])):
        step = {"id": "s", "action": actions[kind], "timeout_seconds": seconds}
        spec = {"inputs": {"f": {"type": "media", "formats": ["pdf"]}}, "steps": [step]}
        assert faults(submitted("Verifier", spec)) == wanted


def test_one_card_twice_and_a_cycle_are_refused() -> None:
    one = submitted("Policy", {})
    assert faults(one, one) == [("SPEC_400_DUPLICATE_SUBMISSION", None)]
    first = submitted(
        "Service", {"components": [{"alias": "b", "ref": sibling("Service", "svc-b")}]}, "svc-a"
    )
    second = submitted(
        "Service", {"components": [{"alias": "a", "ref": sibling("Service", "svc-a")}]}, "svc-b"
    )
    assert ("REGISTRY_400_DEPENDENCY_CYCLE", None) in faults(first, second)


@pytest.mark.parametrize(
    "junk", [{}, {"apiVersion": 1, "kind": [], "metadata": 3, "spec": "x"}, {"kind": "Agent", "spec": None}]
)
def test_any_submission_is_answered(junk: dict[str, Any]) -> None:
    assert faults(junk)


def doubling(leaf: dict[str, Any], levels: int = 40) -> dict[str, Any]:
    """Definitions in which every level refers twice to the next: 2 ** levels ways through."""
    twice = {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(levels)}
    return {**twice, f"d{levels}": leaf}


def test_a_schema_of_doubling_branches_is_judged_within_its_budget() -> None:
    schema = {"$ref": "#/$defs/d0", "$defs": doubling({"type": "string"})}
    body = {**CHECK, "path": "inputs.v.deep"}
    spec = {
        "inputs": {"v": {"type": "json", "schema": schema}},
        "requirements": [{"id": "r", "statement": "s", "check": body}],
    }
    assert faults(submitted("Verifier", spec)) == []


def test_a_verdict_schema_of_doubling_branches_is_refused_within_its_budget() -> None:
    schema = {
        "type": "object",
        "properties": {
            "outcome": {"$ref": "#/$defs/d0"},
            "reason": {"type": "string"},
            "citations": {"type": "array"},
        },
        "required": ["outcome", "reason", "citations"],
        "additionalProperties": False,
        "$defs": doubling({"enum": ["passed"]}),
    }
    agent = {**AGENT, "prompt": {**AGENT["prompt"], "response_format": schema}}
    spec = {"requirements": [{"id": "r", "statement": "s", "check": {"kind": "agent", "agent": agent}}]}
    report = check_submissions([submitted("Verifier", spec)])
    assert [one.rule for one in report.errors] == ["check_agent_schema"]
    assert "tangled" in report.errors[0].message


def test_a_long_chain_of_references_is_followed_only_so_far() -> None:
    chain = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(3000)}
    schema = {"$ref": "#/$defs/d0", "$defs": chain}
    body = {**CHECK, "path": "inputs.v.deep"}
    spec = {
        "inputs": {"v": {"type": "json", "schema": schema}},
        "requirements": [{"id": "r", "statement": "s", "check": body}],
    }
    assert faults(submitted("Verifier", spec)) == []


def test_a_spec_of_nothing_but_faults_is_told_in_part() -> None:
    assert len(faults(submitted("Verifier", {"requirements": [1] * 5000}))) == 100
