"""The samples of a window, read from Bifrost."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bifrost.names import DRIFT_OBSERVATIONS
from bifrost.reading import Cuts
from engine.drift.samples import Samples, Series, label_array
from store.caller import Tenant
from store.database import Database
from store.ingestion import samples_settled

_COLUMNS = ["record_id", "series", "num_value", "str_value", "created_at"]


async def window_samples(
    database: Database,
    cuts: Cuts,
    tenant: Tenant,
    subject_uid: str,
    features: Sequence[str],
    start: datetime,
    end: datetime,
) -> Samples:
    """The samples about a subject that were ingested in [start, end), in observation order.

    A sample is one `record_id`; it is selected when any of the features was recorded for it. The
    window must have ended by the database's clock; nothing that came in in it is missing then.
    """
    await database.write(samples_settled, tenant)
    ingested = pc.field("wyrd_ingested_at")
    chosen = (
        (pc.field("card_uid") == subject_uid)
        & pc.field("series").isin(list(features))
        & (ingested >= pa.scalar(start, pa.timestamp("us", "UTC")))
        & (ingested < pa.scalar(end, pa.timestamp("us", "UTC")))
    )
    return samples_of_table(
        await cuts.rows(tenant, DRIFT_OBSERVATIONS, filter=chosen, columns=_COLUMNS, whole=True), features
    )


def samples_of_table(rows: pa.Table, features: Sequence[str]) -> Samples:
    """Samples of rows of `vala.drift.observations`, one row a value."""
    if not rows.num_rows:
        return Samples([], {})
    first = rows.group_by("record_id").aggregate([("created_at", "min")])
    first = first.sort_by([("created_at_min", "ascending"), ("record_id", "ascending")])
    places = pc.index_in(rows["record_id"], value_set=first["record_id"].combine_chunks())
    places = places.to_numpy().astype(np.intp)
    series = rows["series"].to_numpy(zero_copy_only=False)
    numbers = pc.fill_null(rows["num_value"], float("nan")).to_numpy()
    labels = label_array(rows["str_value"].to_pylist())
    found = {}
    for feature in features:
        here = np.flatnonzero(series == feature)
        if len(here):
            found[feature] = Series(places[here], numbers[here], labels[here])
    return Samples(first["record_id"].to_pylist(), found)
