"""How much of one file is read, and what one reading may cost."""

from __future__ import annotations

MIB = 1024 * 1024

ADDRESS_SPACE_BYTES = 1024 * MIB
"""Address space of the process that parses one file."""
INPUT_BYTES = 256 * MIB
"""Largest file that is opened at all."""
OUTPUT_BYTES = 64 * MIB
"""Largest extraction output, as UTF-8 JSON."""
TEXT_BYTES = OUTPUT_BYTES
"""Largest file of text (text, markdown, html, csv, json) that is extracted."""

PDF_BYTES = 50 * MIB
PDF_PAGES = 2_000
PDF_CHARACTERS = 20_000_000

ZIP_MEMBERS = 10_000
ZIP_MEMBER_BYTES = 256 * MIB
"""Largest member of an Office file, counted while it inflates."""
ZIP_TOTAL_BYTES = 512 * MIB
ZIP_RATIO = 200
"""Inflated to compressed bytes of one member, once it has passed `ZIP_RATIO_FREE_BYTES`."""
ZIP_RATIO_FREE_BYTES = MIB

CSV_FIELD_BYTES = MIB
JSON_DEPTH = 200

START_SECONDS = 30.0
"""How long a file waits for its process to start, before its own time begins."""
