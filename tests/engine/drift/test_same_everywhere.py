"""P30: a report is the same in every run, process and time zone, to the last bit."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys

import numpy as np

from engine.drift.baseline import false_alarms, fit, judge
from engine.drift.samples import samples_of_rows
from tests.engine.drift.checks import EVERY_METHOD


def reports() -> str:
    """A digest of the reports and rates of every method over fixed data."""
    drawn = np.random.Generator(np.random.PCG64(11))

    def rows(count: int, shift: float) -> list[dict[str, object]]:
        numbers, kinds = drawn.normal(shift, 1.0, count), drawn.integers(0, 4, count)
        return [{"score": float(a), "kind": f"k{b}"} for a, b in zip(numbers, kinds, strict=True)]

    old, new = rows(1000, 0.0), rows(500, 0.3)
    features = ["score", "kind"]
    found = []
    for check in EVERY_METHOD:
        baseline = None if check.method == "Custom" else fit(check, samples_of_rows(old, features))
        rates = {} if baseline is None else false_alarms(check, baseline)
        found.append([judge(check, baseline, samples_of_rows(new, features)).document(), rates])
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()


def test_p30_twenty_runs_are_identical() -> None:
    assert len({reports() for _ in range(20)}) == 1


def test_reports_do_not_depend_on_the_process_its_zone_or_its_hashes() -> None:
    found = {reports()}
    for zone, seed in (("UTC", "0"), ("America/New_York", "1"), ("Australia/Lord_Howe", "random")):
        environment = {
            **os.environ,
            "TZ": zone,
            "PYTHONHASHSEED": seed,
            "PYTHONPATH": os.pathsep.join(sys.path),
        }
        done = subprocess.run(
            [sys.executable, __file__], env=environment, capture_output=True, encoding="utf-8", timeout=100
        )
        assert done.returncode == 0, done.stderr[-2000:]
        found.add(done.stdout.strip())
    assert len(found) == 1


if __name__ == "__main__":
    sys.stdout.write(reports())
