"""PSI over a million rows, one feature and twenty, against plain NumPy and against Evidently.

Evidently has its own environment: `EVIDENTLY_PYTHON` is the Python of one that has it
(`python -m venv evidently && evidently/bin/pip install evidently`). Without it, its figures are left out,
and a line says so.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.drift.baseline import Baseline, fit, judge
from engine.drift.psi import NumericBins, PsiFeature
from engine.drift.samples import Samples, Series
from wyrd.cards.drift import DriftCheck

ROWS, FEATURES = 1_000_000, 20
_ROUNDS = 5
_THEIRS = Path(__file__).with_name("drift_evidently.py")

Matrix = NDArray[np.float64]


def check(features: Sequence[str]) -> DriftCheck:
    ref = {"kind": "Data", "space": "benchmarks", "name": "old", "version": "1.0.0"}
    return DriftCheck.model_validate(
        {
            "kind": "drift",
            "on": "inputs.samples",
            "method": "Psi",
            "signal": {
                "kind": "Distribution",
                "features": list(features),
                "baseline_ref": {"sibling": ref},
            },
            "condition": {"kind": "Statistical"},
            "profile": {
                "kind": "Psi",
                "binning_strategy": {"kind": "Quantile", "n_bins": 10},
                "threshold": {"kind": "Fixed", "value": 0.2},
            },
        }
    )


class _Ids(Sequence[str]):
    def __len__(self) -> int:
        return ROWS

    def __getitem__(self, index: Any) -> Any:
        return f"record {index}"


def samples(matrix: Matrix) -> Samples:
    """Whole records in any order, as a window's are."""
    shuffled = np.random.default_rng(1).permutation(ROWS).astype(np.intp)
    return Samples(_Ids(), {f"f{n}": Series(shuffled, column) for n, column in enumerate(matrix)})


def plain(baseline: Baseline, windows: Matrix) -> list[float]:
    """The same scores by a histogram and the formula, without checks of the samples or evidence."""
    found = []
    for feature, window in zip(baseline.features.values(), windows, strict=True):
        assert isinstance(feature, PsiFeature)
        assert isinstance(feature.bins, NumericBins)
        counts = np.histogram(window, np.concatenate([[-np.inf], feature.bins.edges, [np.inf]]))[0]
        p, q = feature.proportions + 1e-10, counts / len(window) + 1e-10
        found.append(float(((p - q) * np.log(p / q)).sum()))
    return found


def milliseconds(work: Callable[[], Any]) -> float:
    found = []
    for _ in range(_ROUNDS):
        began = time.perf_counter()
        work()
        found.append((time.perf_counter() - began) * 1000)
    return statistics.median(found)


def measure() -> dict[str, Any]:
    """Milliseconds of a report over one feature, and a feature of a report over twenty."""
    drawn = np.random.default_rng(0)
    old: Matrix = drawn.normal(0, 1, (FEATURES, ROWS))
    new: Matrix = drawn.normal(0.1, 1, (FEATURES, ROWS))
    found: dict[str, Any] = {}
    for count, name in ((1, "one"), (FEATURES, "twenty")):
        drift = check([f"f{n}" for n in range(count)])
        baseline = fit(drift, samples(old[:count]))
        window = samples(new[:count])
        ours = partial(judge, drift, baseline, window)
        found[f"{name}_ms"] = milliseconds(ours) / count
        found[f"plain_{name}_ms"] = milliseconds(partial(plain, baseline, new[:count])) / count
    return found | _evidently(old, new)


def _evidently(old: Matrix, new: Matrix) -> dict[str, Any]:
    python = os.environ.get("EVIDENTLY_PYTHON")
    if python is None:
        sys.stderr.write(
            "drift: EVIDENTLY_PYTHON names no Python that has Evidently; its figures are left out\n"
        )
        return {}
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder) / "old.npy", old)
        np.save(Path(folder) / "new.npy", new)
        done = subprocess.run(
            [python, str(_THEIRS), folder], capture_output=True, encoding="utf-8", check=False, timeout=1800
        )
    if done.returncode:
        raise RuntimeError(f"Evidently did not run: {done.stderr[-2000:]}")
    theirs: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return theirs
