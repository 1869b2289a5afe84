"""Evidently's PSI over the same arrays, in an environment of its own: `python drift_evidently.py FOLDER`.

Imports nothing of Wyrd. Prints one JSON object on its last line.
"""

import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from evidently import Report
from evidently.metrics import ValueDrift

_ROUNDS = 3


def main(folder: Path) -> None:
    old, new = (np.load(folder / f"{name}.npy") for name in ("old", "new"))
    found: dict[str, Any] = {}
    for count, name in ((1, "one"), (len(old), "twenty")):
        columns = [f"f{number}" for number in range(count)]
        reference = pd.DataFrame(old[:count].T, columns=columns)
        current = pd.DataFrame(new[:count].T, columns=columns)
        times = []
        for _ in range(_ROUNDS if count == 1 else 1):
            report = Report([ValueDrift(column=column, method="psi", threshold=0.2) for column in columns])
            began = time.perf_counter()
            report.run(current, reference).dict()
            times.append((time.perf_counter() - began) * 1000)
        found[f"evidently_{name}_ms"] = statistics.median(times) / count
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
