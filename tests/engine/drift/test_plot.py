"""Pictures of reports: well-formed whatever labels hold, and true to the figures."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from typing import Any

import pytest

from engine.drift.baseline import fit, judge
from engine.drift.plot import drift_svg
from engine.drift.samples import samples_of_rows
from tests.engine.drift.checks import custom_check, psi_check, spc_check
from tests.engine.drift.test_reports import window

SVG = "{http://www.w3.org/2000/svg}"


def drawn(report: Any) -> ElementTree.Element:
    return ElementTree.fromstring(drift_svg(report.document(), "a <title> & \x07 more", "window"))


def texts(root: ElementTree.Element) -> str:
    return " ".join("".join(found.itertext()) for found in root.iter())


@pytest.mark.parametrize("label", ["<b>&\"'", "\x00\x1b]", "\ud800", "]]>", "é" * 300])
def test_any_label_leaves_the_picture_well_formed(label: str) -> None:
    check = psi_check("label", categorical=["label"])
    baseline = fit(check, window("label", ["a", label] * 60))
    assert drawn(judge(check, baseline, window("label", ["a", label] * 60))).tag == f"{SVG}svg"


def test_bars_stand_for_the_proportions_of_every_bin() -> None:
    check = psi_check("label", categorical=["label"])
    baseline = fit(check, window("label", ["a"] * 75 + ["b"] * 25))
    root = drawn(judge(check, baseline, window("label", ["a"] * 50 + ["b"] * 50)))
    titles = [found.text for found in root.iter(f"{SVG}title")]
    assert titles == [
        "a: 0.7500",
        "a: 0.5000",
        "b: 0.2500",
        "b: 0.5000",
        "any other label: 0.0000",
        "any other label: 0.0000",
    ]


def test_points_outside_their_limits_are_marked() -> None:
    chart = fit(spc_check("score"), window("score", [float(i % 7) for i in range(100)]))
    root = drawn(judge(spc_check("score"), chart, window("score", [50.0, 51.0, 52.0, 50.5, 51.5])))
    assert {found.get("r") for found in root.iter(f"{SVG}circle")} == {"4", "2.5"}
    assert "1 point outside" in texts(root)


def test_what_could_not_be_judged_is_said() -> None:
    fitted = fit(psi_check("score"), window("score", [float(i) for i in range(200)]))
    unusable = judge(psi_check("score"), fitted, window("score", [None] * 200))
    assert "No feature could be judged" in texts(drawn(unusable))
    small = judge(psi_check("score"), fitted, samples_of_rows([], ["score"]))
    assert "no score" in texts(drawn(small))


def test_a_custom_metric_is_drawn_against_its_threshold() -> None:
    root = drawn(judge(custom_check(), None, window("score", [20.0])))
    assert "threshold" in texts(root)


def test_a_long_statement_does_not_run_into_the_verdict() -> None:
    report = judge(custom_check(), None, window("score", [20.0])).document()
    root = ElementTree.fromstring(drift_svg(report, "as it was " * 30, "in the window " * 30))
    shown = [found.text or "" for found in root.iter(f"{SVG}text")]
    assert max(len(text) for text in shown) <= 112
    assert "as it was " * 30 in str(root.get("aria-label"))
