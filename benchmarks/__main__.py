"""`python -m benchmarks [NAME ...]`: run the benchmarks, print a table, write `benchmarks/results/`."""

from __future__ import annotations

import importlib
import json
import os
import platform
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

RESULTS = Path(__file__).parent / "results"

# Benchmark, figure, what it is, the floor's figure and its name, and the bound with its sense.
ROWS: list[tuple[str, str, str, str | None, str, float | None]] = [
    ("engine", "assert_us", "engine, one assertion (µs)", "plain_in_us", "≤", 50.0),
    ("verify", "verify_ms", "HTTP verify (ms)", "bare_route_ms", "≤ ×", 2.0),
    ("submit", "submit_result_p50_ms", "submit to result over HTTP, p50 (ms)", "bare_p50_ms", "≤", 40.0),
    ("submit", "executions_per_second", "executions a second over HTTP", "bare_per_second", "≥ ×", 0.85),
    ("sandbox", "warm_ms_per_call", "code check, warm (ms)", None, "≤", 10.0),
    ("sandbox", "cold_ms_per_call", "code check, cold (ms)", None, "", None),
    ("extraction", "pages_per_second", "PDF pages a second", "plain_pages_per_second", "≥ ×", 0.8),
    ("bifrost", "recorded_at_1", "rows recorded a second, one a batch", None, "", None),
    ("bifrost", "recorded_at_100", "rows recorded a second, 100 a batch", "inserted_at_100", "≥", 30_000.0),
    (
        "bifrost",
        "recorded_at_10000",
        "rows recorded a second, 10,000 a batch",
        "inserted_at_10000",
        "≥",
        200_000.0,
    ),
    ("bifrost", "queryable_ms", "acknowledged row to query, p50 (ms)", None, "", None),
    ("bifrost", "spans_per_second", "OTLP spans stored a second", None, "≥", 10_000.0),
    ("bifrost", "join_ms", "join of 1e6 and 1e6 rows (ms)", "join_floor_ms", "≤ ×", 1.2),
    ("bifrost", "point_ms", "point query in 1e6 rows (ms)", "point_floor_ms", "", None),
    ("bifrost", "publish_ms_last", "one publication after 1,000 (ms)", "publish_ms_first", "", None),
    ("bifrost", "read_ms_last", "one read after 1,000 publications (ms)", "read_ms_first", "", None),
    ("drift", "one_ms", "PSI of 1e6 rows, one feature (ms), against NumPy", "plain_one_ms", "≤", 40.0),
    ("drift", "twenty_ms", "PSI of 1e6 rows, each of 20 features (ms)", "plain_twenty_ms", "≤", 40.0),
    ("drift", "evidently_one_ms", "Evidently, one feature (ms), against ours", "one_ms", "≥ ×", 10.0),
    ("drift", "evidently_twenty_ms", "Evidently, each of 20 (ms), against ours", "twenty_ms", "≥ ×", 10.0),
    (
        "groups",
        "started_per_second",
        "first signals a second into groups",
        "bare_started_per_second",
        "",
        None,
    ),
    ("groups", "signals_per_second", "further signals a second", "bare_signals_per_second", "", None),
    ("groups", "judged_per_second", "1,000 groups due at once, a second", "submits_per_second", "", None),
    ("groups", "temporal_mb_after", "Temporal, 10,000 quiet groups (MB)", "temporal_mb_before", "", None),
    ("groups", "worker_mb_after", "worker, 10,000 quiet groups (MB)", "worker_mb_before", "", None),
    ("groups", "api_mb_after", "API, 10,000 quiet groups (MB)", "api_mb_before", "", None),
    ("groups", "rows_a_group", "database rows a quiet group", None, "", None),
    ("groups", "database_kb_a_group", "database kB a quiet group", None, "", None),
    ("groups", "temporal_file_kb_a_group", "Temporal's file, kB a quiet group", None, "", None),
    ("groups", "idle_cpu_percent", "idle CPU, three processes (%)", "idle_cpu_percent_before", "", None),
    ("language", "check_ms_per_file", "Card check (ms a file)", None, "", None),
    ("language", "import_wyrd_ms", "import wyrd (ms)", None, "≤", 300.0),
    ("language", "import_client_ms", "import of client, state, files (ms)", None, "≤", 300.0),
]


def holds(value: float, floor: float | None, sense: str, bound: float | None) -> bool | None:
    """Whether a figure keeps its bound; None where it has none."""
    if bound is None:
        return None
    compared = value / floor if "×" in sense and floor else value
    return compared <= bound if sense.startswith("≤") else compared >= bound


def main(names: Sequence[str]) -> None:
    wanted = list(dict.fromkeys(row[0] for row in ROWS)) if not names else list(names)
    found: dict[str, dict[str, Any]] = {}
    for name in wanted:
        found[name] = importlib.import_module(f"benchmarks.{name}").measure()
    table = Table("figure", "measured", "floor", "ratio", "bound", "holds")
    for name, key, what, floor_key, sense, bound in ROWS:
        if name not in found or key not in found[name]:
            continue
        value = float(found[name][key])
        floor = float(found[name][floor_key]) if floor_key else None
        kept = holds(value, floor, sense, bound)
        table.add_row(
            what,
            f"{value:.2f}",
            "" if floor is None else f"{floor:.2f}",
            "" if floor is None else f"{value / floor:.2f}",
            "" if bound is None else f"{sense} {bound:g}",
            "" if kept is None else "yes" if kept else "NO",
        )
    Console().print(table)
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}.json"
    document = {
        "machine": {"python": platform.python_version(), "cores": os.cpu_count(), "load": os.getloadavg()},
        "figures": found,
    }
    path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    Console().print(f"written to {path}")


if __name__ == "__main__":
    main(sys.argv[1:])
