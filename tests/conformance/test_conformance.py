"""Every labelled case: our offline check against the labels, which are never edited."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from wyrd.cards import CheckReport, Diagnostic, check

HERE = Path(__file__).parent
CASES = sorted(path.parent.relative_to(HERE).as_posix() for path in HERE.glob("*/*/expected.json"))


def test_the_corpus_is_whole() -> None:
    assert len(CASES) == 1292


def place(field: str | None) -> str | None:
    return None if field is None else field.removeprefix("spec.")


@pytest.mark.parametrize("case", CASES)
def test_check_agrees_with_the_label(case: str) -> None:
    folder = HERE / case
    label = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    report = check(folder / label.get("target", "card.yaml"))

    assert report.ok is label["ok"], [one.message for one in report.errors]
    missing = Counter(label["codes"]) - Counter(str(one.code) for one in report.errors)
    assert not missing
    assert not Counter(label.get("warnings", ())) - Counter(str(one.code) for one in report.warnings)
    if label["ok"]:
        assert [[c.kind, c.space, c.name, c.version] for c in report.cards] == label["cards"]
        return
    assert report.cards == []
    fields = [one.field for one in report.errors if one.field is not None]
    if label["field"] is not None:
        assert place(fields[0]) == place(label["field"])
    if label.get("rule") is not None:
        assert next(one.rule for one in report.errors if one.rule) == label["rule"]
    for wanted in label.get("diagnostics", ()):
        assert any(agrees(one, wanted, folder, case) for one in report.errors), wanted
    has_place(report)


def agrees(one: Diagnostic, wanted: dict[str, Any], folder: Path, case: str) -> bool:
    """Whether a diagnostic says what a labelled one says, in the same file."""
    context = one.context or {}
    same = str(one.code) == wanted["code"]
    if wanted.get("field") is not None:
        same = same and place(one.field) == place(wanted["field"])
    same = same and all(
        one.context is not None and context.get(k) == wanted[k] for k in ("rule",) if k in wanted
    )
    same = same and all(
        context.get(k) == wanted[k] for k in ("member", "member_fault", "fields") if k in wanted
    )
    shown = one.path if one.path == "<loader>" else os.path.relpath(one.path, folder)
    # For wyrd.toml the label names the workspace, ours the target that led to it.
    return same and (shown == wanted["file"] or case.startswith("wyrd-toml/"))


def has_place(report: CheckReport) -> None:
    """Every fault inside a readable file has a line and a column."""
    for one in report.errors:
        graph = one.path == "<loader>" or str(one.code).endswith(("_IO", "_CONFIG_LOAD_FAILED"))
        assert graph or (one.line is not None and one.column is not None), one
