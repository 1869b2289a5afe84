"""The Card check a file, and the start of the SDK."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from wyrd.cards import check

EXAMPLE = Path(__file__).parents[1] / "examples" / "support_desk" / "support-desk.yaml"


def _seconds(code: str) -> float:
    """Wall time of a fresh interpreter that runs `code`, less that of one that runs nothing."""
    found = []
    for text in (code, "pass"):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", f"import sys; sys.path[:0] = {sys.path!r}\n{text}"], check=True)
        found.append(time.perf_counter() - began)
    return found[0] - found[1]


def measure(rounds: int = 7) -> dict[str, Any]:
    """Milliseconds a Card file of the example (warm), and of the imports an application pays."""
    files = len(check(EXAMPLE).cards)
    found = []
    for _ in range(rounds):
        began = time.perf_counter()
        for _ in range(5):
            check(EXAMPLE)
        found.append((time.perf_counter() - began) / 5 / files * 1000)
    client = "from wyrd import WyrdClient, WyrdState; import wyrd.verify; wyrd.verify.File"
    return {
        "check_ms_per_file": statistics.median(found),
        "import_wyrd_ms": statistics.median(_seconds("import wyrd") for _ in range(rounds)) * 1000,
        "import_client_ms": statistics.median(_seconds(client) for _ in range(rounds)) * 1000,
    }
