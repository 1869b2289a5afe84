"""The samples of a window, read from Bifrost."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bifrost.names import DRIFT_OBSERVATIONS
from bifrost.reading import Cuts
from engine.drift.samples import Samples, Series, label_array
from store.caller import Tenant
from store.database import Database
from store.ingestion import samples_settled

MOST_VALUES = 20_000_000
"""Values of a window, rows of the table, that this process holds in memory at once."""


async def window_samples(
    database: Database,
    cuts: Cuts,
    tenant: Tenant,
    subject_uid: str,
    features: Sequence[str],
    start: datetime,
    end: datetime,
    categorical: Collection[str] = (),
) -> Samples:
    """The samples about a subject that were ingested in [start, end), in observation order.

    A sample is one `record_id`; it is selected when any of the features was recorded for it. The
    window must have ended by the database's clock; nothing that came in in it is missing then.
    `categorical` are the features whose labels are read.

    Raises `WYRD_VALA_413_QUERY_RESULT_TOO_LARGE` over `MOST_VALUES`, and what `Cuts.rows` raises.
    """
    await database.write(samples_settled, tenant)
    ingested = pc.field("wyrd_ingested_at")
    chosen = (
        (pc.field("card_uid") == subject_uid)
        & pc.field("series").isin(list(features))
        & (ingested >= pa.scalar(start, pa.timestamp("us", "UTC")))
        & (ingested < pa.scalar(end, pa.timestamp("us", "UTC")))
    )
    columns = ["record_id", "series", "num_value", "created_at", *(["str_value"] if categorical else [])]
    rows = await cuts.rows(
        tenant, DRIFT_OBSERVATIONS, filter=chosen, columns=columns, whole=True, most=MOST_VALUES
    )
    return await asyncio.to_thread(samples_of_table, rows, features, categorical)


def samples_of_table(rows: pa.Table, features: Sequence[str], categorical: Collection[str] = ()) -> Samples:
    """Samples of rows of `vala.drift.observations`, one row a value."""
    if not rows.num_rows:
        return Samples([], {})
    first = rows.group_by("record_id").aggregate([("created_at", "min")])
    first = first.sort_by([("created_at_min", "ascending"), ("record_id", "ascending")])
    places = pc.index_in(rows["record_id"], value_set=first["record_id"].combine_chunks())
    places = places.to_numpy().astype(np.intp)
    numbers = pc.fill_null(rows["num_value"], float("nan")).to_numpy()
    found = {}
    for feature in features:
        here = np.flatnonzero(pc.equal(rows["series"], feature).to_numpy())
        if not len(here):
            continue
        labels = None
        if feature in categorical:
            labels = label_array(rows["str_value"].take(pa.array(here)).to_pylist())
        found[feature] = Series(places[here], numbers[here], labels)
    return Samples(_Names(first["record_id"]), found)


class _Names(Sequence[str]):
    """Ids of records, made when one is asked for."""

    def __init__(self, ids: pa.ChunkedArray) -> None:
        self._ids = ids

    def __len__(self) -> int:
        return len(self._ids)

    def __getitem__(self, index: Any) -> Any:
        return self._ids[index].as_py()
