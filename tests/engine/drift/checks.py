"""Drift checks of every method, for tests."""

from __future__ import annotations

from typing import Any

from wyrd.cards.drift import DriftCheck

BASELINE_REF = {"kind": "Data", "space": "tests", "name": "baseline", "version": "1.0.0"}


def psi_check(
    *features: str, threshold: dict[str, Any] | None = None, categorical: list[str] | None = None
) -> DriftCheck:
    return DriftCheck.model_validate(
        {
            "kind": "drift",
            "on": "inputs.samples",
            "method": "Psi",
            "signal": {
                "kind": "Distribution",
                "features": list(features),
                "baseline_ref": {"sibling": BASELINE_REF},
            },
            "condition": {"kind": "Statistical"},
            "profile": {
                "kind": "Psi",
                "binning_strategy": {"kind": "EqualWidth", "n_bins": 10},
                "threshold": threshold or {"kind": "Fixed", "value": 0.2},
                "categorical_features": categorical or [],
            },
        }
    )


def spc_check(*features: str, size: int = 5) -> DriftCheck:
    found = psi_check(*features).model_dump(mode="json", by_alias=True)
    return DriftCheck.model_validate(
        {**found, "method": "Spc", "profile": {"kind": "Spc", "sample_size": size}}
    )


def custom_check(baseline: float = 10.0, alert: float = 2.0) -> DriftCheck:
    return DriftCheck.model_validate(
        {
            "kind": "drift",
            "on": "inputs.samples",
            "method": "Custom",
            "signal": {"kind": "Metric", "name": "score"},
            "condition": {"kind": "Statistical"},
            "profile": {
                "kind": "Custom",
                "metric_name": "score",
                "baseline_value": baseline,
                "alert_threshold": alert,
            },
        }
    )


EVERY_METHOD = [
    psi_check("score", "kind", categorical=["kind"]),
    spc_check("score"),
    custom_check(0.5, 0.1),
]
