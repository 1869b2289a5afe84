"""The columns that every table has and that no row of a caller's own names, in their order."""

from __future__ import annotations

from typing import Final

from wyrd.wire.bifrost import FieldSpec
from wyrd.wire.table_schema import TIMESTAMP_UTC

RUN_ID: Final = FieldSpec(name="run_id", data_type="Utf8", nullable=True)
CARD_UID: Final = FieldSpec(name="card_uid", data_type="Utf8", nullable=True)

CORRELATION: Final[tuple[FieldSpec, ...]] = (CARD_UID, RUN_ID)
"""What a row may say beside its own columns: the Card it is about, and the run it belongs to."""

SYSTEM: Final[tuple[FieldSpec, ...]] = (
    RUN_ID,
    CARD_UID,
    FieldSpec(name="sub_principal_id", data_type="Utf8"),
    FieldSpec(name="act_principal_id", data_type="Utf8", nullable=True),
    FieldSpec(name="wyrd_request_id", data_type="Utf8"),
    FieldSpec(name="wyrd_ingested_at", data_type=TIMESTAMP_UTC),
    FieldSpec(name="wyrd_batch_id", data_type="Utf8"),
    FieldSpec(name="wyrd_row_ordinal", data_type="Int64"),
    FieldSpec(name="data_tenant_id", data_type="Utf8"),
)
"""All of them, as they stand after a table's own columns. The ordinal counts a batch's rows from 0."""
