"""P51 and the loader's own traps: each refused with its field, or accepted on purpose."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cards_language.tree import assertion, checked, verifier, write
from wyrd.cards import check, load
from wyrd.errors import WyrdError
from wyrd.wire.canonical import digest

STEP = "id: {id}, action: {{kind: code, entrypoint: f, source: {{inline: x}}, inputs: {{v: {read}}}}}"


def codes(folder: Path, text: str) -> list[tuple[str, str | None]]:
    return [(str(one.code), one.field) for one in checked(folder, text).errors]


def test_p51_an_unknown_operator_names_its_check(tmp_path: Path) -> None:
    found = codes(tmp_path, assertion("operator: not_llm_rubric"))
    assert found == [("WYRD_LOADER_400_INVALID_ENVELOPE", "requirements[0].check")]


def test_p51_a_misspelt_member_is_named(tmp_path: Path) -> None:
    report = checked(tmp_path, verifier("requirments: []\n"))
    assert [one.field for one in report.errors] == ["requirments"]
    assert report.errors[0].line == 5


def test_p51_a_samples_verifier_bound_without_a_schedule_is_a_warning(tmp_path: Path) -> None:
    window = verifier("inputs: {d: {type: samples, features: [wait_s]}}\n", name="window-check")
    agent = """\
        kind: Agent
        metadata: {name: some-agent, version: 1.0.0}
        spec:
          execution_route: {kind: native}
          prompt: {provider: openai, model: m, system: s}
          verified_by: [{verifier: ./window.yaml}]
        """
    report = check(write(tmp_path, card_yaml=agent, window_yaml=window) / "card.yaml")
    assert report.ok
    found = [one for one in report.warnings if one.rule == "activation"]
    assert [one.field for one in found] == ["verified_by[0]"]


def test_p51_an_id_shared_by_a_step_and_a_requirement_is_refused(tmp_path: Path) -> None:
    spec = (
        "inputs: {v: {type: json}}\n"
        f"steps: [{{{STEP.format(id='same', read='inputs.v')}}}]\n"
        "requirements: [{id: same, statement: s, check: {kind: assert, path: inputs.v, operator: is_null}}]\n"
    )
    report = checked(tmp_path, verifier(spec))
    assert [(one.rule, one.field) for one in report.errors] == [("duplicate_id", "same")]


def test_p51_a_cycle_of_steps_names_the_cycle(tmp_path: Path) -> None:
    one = STEP.format(id="a", read="steps.b.output")
    two = STEP.format(id="b", read="steps.a.output")
    report = checked(tmp_path, verifier(f"steps:\n  - {{{one}}}\n  - {{{two}}}\n"))
    fault = report.errors[0]
    assert fault.context is not None
    assert (fault.rule, fault.field, fault.context["error"]["kind"]) == ("graph", "steps", "cycle")
    assert sorted(fault.context["error"]["cycle"]) == ["a", "b"]


def test_p51_a_when_that_reads_its_own_step_is_refused(tmp_path: Path) -> None:
    one = STEP.format(id="a", read="inputs.v")
    when = "when: {path: steps.a.status, operator: equals, expected: completed}"
    report = checked(tmp_path, verifier(f"inputs: {{v: {{type: json}}}}\nsteps:\n  - {{{one}, {when}}}\n"))
    fault = report.errors[0]
    assert fault.context is not None
    assert (fault.rule, fault.context["error"]) == ("graph", {"kind": "self_loop", "task": "a"})


def test_p51_a_group_quiet_for_more_than_a_year_is_refused(tmp_path: Path) -> None:
    text = "kind: Trigger\nmetadata: {name: some-trigger}\nspec: {kind: group_end, after: 366d}\n"
    assert codes(tmp_path, text) == [("WYRD_LOADER_400_INVALID_ENVELOPE", "after")]


@pytest.mark.parametrize("change", ["crlf", "bom", "both"])
def test_p51_crlf_and_a_byte_order_mark_are_accepted_with_the_same_digest(
    tmp_path: Path, change: str
) -> None:
    text = assertion("operator: equals, expected: {a: [1, x]}")
    plain = tmp_path / "plain.yaml"
    plain.write_text(text, encoding="utf-8", newline="\n")
    data = text.replace("\n", "\r\n").encode() if change != "bom" else text.encode()
    other = tmp_path / "other.yaml"
    other.write_bytes((b"\xef\xbb\xbf" if change != "crlf" else b"") + data)
    first, second = load(plain).submissions(), load(other).submissions()
    assert digest(first[0]["spec"]) == digest(second[0]["spec"])


def test_p51_a_utf_16_file_is_a_yaml_error(tmp_path: Path) -> None:
    (tmp_path / "card.yaml").write_bytes(assertion("operator: is_null").encode("utf-16"))
    found = check(tmp_path / "card.yaml").errors
    assert [(str(one.code), one.line, one.column) for one in found] == [("WYRD_LOADER_400_YAML_SYNTAX", 1, 1)]


def test_p51_a_tab_as_indent_is_a_yaml_error_with_its_line(tmp_path: Path) -> None:
    found = checked(tmp_path, "kind: Verifier\nmetadata:\n\tname: abc\nspec: {}\n").errors
    assert [(str(one.code), one.line) for one in found] == [("WYRD_LOADER_400_YAML_SYNTAX", 3)]


def test_p51_two_documents_that_nothing_joins_are_two_roots(tmp_path: Path) -> None:
    text = verifier("{}\n", name="one-check") + "---\n" + verifier("{}\n", name="two-check")
    fault = checked(tmp_path, text).errors[0]
    assert fault.path == "<loader>"
    assert fault.context is not None
    assert fault.context["graph_error"] == "several_roots"


def agent_with(prompt: str) -> str:
    return (
        "kind: Agent\nmetadata: {name: some-agent, version: 1.0.0}\n"
        f"spec: {{execution_route: {{kind: native}}, prompt: {prompt}}}\n"
    )


PROMPT = (
    "kind: Prompt\nmetadata: {name: some-prompt, version: 1.0.0}\n"
    "spec: {provider: openai, model: m, system: s}\n"
)


def test_p51_a_symlink_out_of_the_workspace_is_an_escape(tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    inside.mkdir()
    outside.mkdir()
    (outside / "p.yaml").write_text(PROMPT, encoding="utf-8")
    os.symlink(outside / "p.yaml", inside / "p.yaml")
    found = codes(inside, agent_with("./p.yaml"))
    assert found == [
        ("WYRD_LOADER_400_PATH_ESCAPE", None),
        ("WYRD_REGISTRY_400_UNRESOLVED_PATH_REF", "spec.prompt"),
    ]


def test_a_symlink_that_stays_inside_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real.yaml").write_text(PROMPT, encoding="utf-8")
    os.symlink("real.yaml", tmp_path / "p.yaml")
    assert checked(tmp_path, agent_with("./p.yaml")).ok


def test_an_absolute_path_inside_is_accepted_with_advice(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(PROMPT, encoding="utf-8")
    report = checked(tmp_path, agent_with(str(tmp_path / "p.yaml")))
    assert report.ok
    assert "WYRD_LOADER_400_PATH_ABSOLUTE_ADVISORY" in [str(one.code) for one in report.warnings]


@pytest.mark.parametrize("path", ["''", ".", "./sub"])
def test_a_directory_is_not_a_card(tmp_path: Path, path: str) -> None:
    (tmp_path / "sub").mkdir()
    found = [code for code, _ in codes(tmp_path, agent_with(path))]
    assert found == ["WYRD_LOADER_400_INVALID_ENVELOPE"] * 2 + ["WYRD_REGISTRY_400_UNRESOLVED_PATH_REF"]


@pytest.mark.parametrize("path", ['"a\\0b"', "x" * 5000])
def test_a_path_that_no_file_system_takes_is_an_io_fault(tmp_path: Path, path: str) -> None:
    found = [code for code, _ in codes(tmp_path, agent_with(path))]
    assert found == ["WYRD_LOADER_400_IO", "WYRD_REGISTRY_400_UNRESOLVED_PATH_REF"]


def test_a_fifo_is_refused_without_waiting_for_a_writer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "p.yaml")
    found = [code for code, _ in codes(tmp_path, agent_with("./p.yaml"))]
    assert found[0] == "WYRD_LOADER_400_IO"
    assert [str(one.code) for one in check(tmp_path / "p.yaml").errors] == ["WYRD_LOADER_400_IO"]


def chain(folder: Path, length: int) -> Path:
    for level in range(length):
        ref = f"components: [{{alias: n, ref: ./l{level + 1}.yaml}}]" if level + 1 < length else ""
        text = f"kind: Service\nmetadata: {{name: level-{level}, version: 1.0.0}}\nspec: {{{ref}}}\n"
        (folder / f"l{level}.yaml").write_text(text, encoding="utf-8")
    return folder / "l0.yaml"


def test_nine_cards_in_a_chain_are_accepted_and_ten_are_not(tmp_path: Path) -> None:
    assert check(chain(tmp_path, 9)).ok
    found = [str(one.code) for one in check(chain(tmp_path, 10)).errors]
    assert found == ["WYRD_LOADER_400_INVALID_ENVELOPE", "WYRD_REGISTRY_400_UNRESOLVED_PATH_REF"]


def test_every_independent_fault_of_a_card_is_told(tmp_path: Path) -> None:
    spec = (
        "inputs: {group_id: {type: json}, f: {type: media, formats: []}}\n"
        "requirements:\n"
        "  - {id: a, statement: s, check: {kind: assert, path: inputs.none, operator: is_null}}\n"
        "  - {id: b, statement: s, check: {kind: assert, operator: is_null}}\n"
    )
    found = [(one.rule, one.field, one.line) for one in checked(tmp_path, verifier(spec)).errors]
    assert found == [
        ("slot", "inputs.f", 5),
        ("slot", "inputs.group_id", 5),
        ("unknown_reference", "requirements[0].check", 7),
        ("assert_selector", "requirements[1].check", 8),
    ]


def test_a_bad_label_key_is_told_where_it_is_too(tmp_path: Path) -> None:
    text = "kind: Policy\nmetadata:\n  name: some-policy\n  labels:\n    -x: a\nspec: {}\n"
    found = [(one.field, one.line) for one in checked(tmp_path, text).errors]
    assert found == [("metadata", 5), ("metadata.labels.-x", 5)]


def test_load_raises_with_every_diagnostic(tmp_path: Path) -> None:
    (tmp_path / "card.yaml").write_text("kind: Verifier\n", encoding="utf-8")
    with pytest.raises(WyrdError) as refused:
        load(tmp_path / "card.yaml")
    assert refused.value.code == "WYRD_CLI_400_CARD_LOAD"
    fields = [one["field"] for one in refused.value.details["diagnostics"]]
    assert fields == ["metadata", "spec"]


def test_the_failure_document_has_the_published_members(tmp_path: Path) -> None:
    report = checked(tmp_path, "kind: Verifier\n")
    found = report.error_document()
    assert list(found) == ["kind", "code", "status", "title", "message", "remediation", "details"]
    assert (found["kind"], found["code"], found["status"]) == (
        "wyrd_cli_error",
        "WYRD_CLI_400_CARD_LOAD",
        400,
    )
    first = found["details"]["diagnostics"][0]
    assert {"code", "status", "severity", "path", "message", "remediation", "context"} <= set(first)
    assert first["message"].startswith(f"[{first['code']}] ")


def test_a_parent_without_a_version_is_told_for_a_child_only(tmp_path: Path) -> None:
    write(tmp_path, p_yaml=PROMPT.replace(", version: 1.0.0", ""))
    assert check(tmp_path / "p.yaml").cards[0].version is None
    assert not checked(tmp_path, agent_with("./p.yaml")).ok


@pytest.mark.parametrize(
    "text",
    ["a = " + "9" * 5000, "[defaults]\nspace = 1", "x = 1", "[defaults", "[kind]\nAgent = 1"],
    ids=["long integer", "number as space", "unknown entry", "syntax", "kind without table"],
)
def test_any_fault_of_wyrd_toml_is_told_with_its_code(tmp_path: Path, text: str) -> None:
    (tmp_path / "wyrd.toml").write_text(text, encoding="utf-8")
    report = checked(tmp_path, assertion("operator: is_null"))
    assert [str(one.code) for one in report.errors] == ["WYRD_LOADER_400_CONFIG_LOAD_FAILED"]


def test_file_texts_of_one_card_are_bounded(tmp_path: Path) -> None:
    (tmp_path / "f.py").write_text("x" * (3 * 1024 * 1024), encoding="utf-8")
    code = "check: {kind: code, entrypoint: f, source: {inline: !file ./f.py}}"
    spec = f"requirements:\n  - {{id: a, statement: s, {code}}}\n  - {{id: b, statement: s, {code}}}\n"
    assert codes(tmp_path, verifier(spec)) == [("WYRD_LOADER_400_IO", "requirements[1].check.source.inline")]
