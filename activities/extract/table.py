"""csv: every row as text, exactly as the file writes it."""

from __future__ import annotations

import csv
import io

from activities.extract import limits, text
from activities.extract.reading import OutputBudget, Reading, over_limit, unreadable
from engine.lines import count_lines


def check(data: bytes) -> None:
    """Raises EVIDENCE_UNREADABLE when the file does not decode or its quoting is broken."""
    _rows(text.decode(data)[0])


def extract(data: bytes) -> Reading:
    """`{format, rows}`; an empty line is an empty row; fields are never converted."""
    content, assumed = text.decode(data)
    output: dict[str, object] = {"format": "csv", "rows": _rows(content)}
    if assumed:
        output["encoding"] = text.ASSUMED
    return Reading(output=output, lines=count_lines(content))


def _rows(content: str) -> list[list[str]]:
    csv.field_size_limit(limits.CSV_FIELD_BYTES)
    reader = csv.reader(io.StringIO(content, newline=""), strict=True)
    budget = OutputBudget()
    rows: list[list[str]] = []
    try:
        for row in reader:
            # Brackets, quotes and commas of the JSON document.
            budget.spend(3 * len(row) + 3)
            rows.append(row)
    except csv.Error as error:
        where = f"near line {reader.line_num}"
        if "field limit" in str(error):
            raise over_limit(f"a csv field {where} is over the limit of 1 MiB") from None
        raise unreadable(f"broken csv {where}: {error}") from None
    return rows
