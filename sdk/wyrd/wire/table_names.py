"""The names that tables and their columns may have."""

from __future__ import annotations

import re
from typing import Final

RESERVED_COLUMNS: Final[frozenset[str]] = frozenset(
    [
        "run_id",
        "card_uid",
        "sub_principal_id",
        "act_principal_id",
        "wyrd_request_id",
        "wyrd_ingested_at",
        "wyrd_batch_id",
        "wyrd_row_ordinal",
        "data_tenant_id",
    ]
)
"""Columns that every table has and that no schema may declare."""
RESERVED_PREFIX: Final = "wyrd_"

_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")


def is_table_name(text: str) -> bool:
    """Whether the text can name a table or a column: 1 to 63 of a-z, 0-9 and _, a letter first."""
    return _NAME.fullmatch(text) is not None


def is_reserved(column: str) -> bool:
    """Whether Wyrd keeps the name of that column for itself."""
    return column in RESERVED_COLUMNS or column.startswith(RESERVED_PREFIX)
