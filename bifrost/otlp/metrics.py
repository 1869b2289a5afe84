"""Data points of an OTLP metrics export as rows of `vala.metrics.points`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from bifrost.otlp.batch import SHARED, Rows, Scoped, scoped
from bifrost.otlp.faults import RecordRejected, Rejections
from bifrost.otlp.values import attributes, correlation, finite, optional_identifier, text, whole

TEMPORALITIES = ("unspecified", "delta", "cumulative")

_OF_METRIC = ("metric_name", "description", "unit", "metric_type", "aggregation_temporality", "is_monotonic")
_OF_POINT = ("time_unix_nano", "start_time_unix_nano", "attributes", "exemplars")
_OF_NUMBER = ("int_value", "double_value")
_OF_COUNTS = ("count", "sum", "min", "max")
_OF_HISTOGRAM = ("bucket_counts", "explicit_bounds")
_OF_EXPONENTIAL = (
    "scale",
    "zero_count",
    "zero_threshold",
    "positive_offset",
    "positive_bucket_counts",
    "negative_offset",
    "negative_bucket_counts",
)
_OF_SUMMARY = ("quantiles",)
_VALUES = (*_OF_NUMBER, *_OF_COUNTS, *_OF_HISTOGRAM, *_OF_EXPONENTIAL, *_OF_SUMMARY)

COLUMNS = (*_OF_METRIC, *_OF_POINT, *_VALUES, *SHARED, "run_id", "card_uid")


def point_rows(request: ExportMetricsServiceRequest, rejections: Rejections) -> Rows:
    """One row a data point; a point is known by all it says: metric, attributes, times, value."""
    rows = Rows(COLUMNS, rejections)
    for shared, one in scoped(request.resource_metrics, "scope_metrics"):
        for metric in one.metrics:
            kind = metric.WhichOneof("data")
            if kind is None:
                rejections.add(f"metric {metric.name[:80]}", RecordRejected("it has no data"))
                continue
            data = getattr(metric, kind)
            of_metric = _metric(metric, kind, data)
            for index, point in enumerate(data.data_points):
                try:
                    rows.add_content(of_metric + _row(point, _VALUES_OF[kind], shared))
                except RecordRejected as fault:
                    rejections.add(f"point {index} of {metric.name[:80]}", fault)
    return rows


def _metric(metric: Any, kind: str, data: Any) -> tuple[Any, ...]:
    temporality = None
    if kind not in ("gauge", "summary"):
        told = data.aggregation_temporality
        temporality = TEMPORALITIES[told] if 0 <= told < len(TEMPORALITIES) else TEMPORALITIES[0]
    monotonic = data.is_monotonic if kind == "sum" else None
    return metric.name, metric.description, metric.unit, kind, temporality, monotonic


def _row(point: Any, read: Callable[[Any], Mapping[str, Any]], shared: Scoped) -> tuple[Any, ...]:
    own = attributes(point.attributes)
    exemplars = getattr(point, "exemplars", ())
    values = read(point)
    return (
        whole(point.time_unix_nano, "time_unix_nano"),
        whole(point.start_time_unix_nano, "start_time_unix_nano") or None,
        text(own),
        text([_exemplar(one) for one in exemplars]) if exemplars else None,
        *[values.get(name) for name in _VALUES],
        *shared.columns,
        *correlation(own, shared.resource),
    )


def _number(point: Any) -> dict[str, Any]:
    kind = point.WhichOneof("value")
    if kind == "as_int":
        return {"int_value": point.as_int}
    return {"double_value": point.as_double} if kind == "as_double" else {}


def _counts(point: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"count": whole(point.count, "count")}
    for name in ("sum", "min", "max"):
        found[name] = getattr(point, name) if point.HasField(name) else None
    return found


def _histogram(point: Any) -> dict[str, Any]:
    return {
        **_counts(point),
        "bucket_counts": _all_whole(point.bucket_counts),
        "explicit_bounds": list(point.explicit_bounds),
    }


def _exponential(point: Any) -> dict[str, Any]:
    return {
        **_counts(point),
        "scale": point.scale,
        "zero_count": whole(point.zero_count, "zero_count"),
        "zero_threshold": point.zero_threshold,
        "positive_offset": point.positive.offset,
        "positive_bucket_counts": _all_whole(point.positive.bucket_counts),
        "negative_offset": point.negative.offset,
        "negative_bucket_counts": _all_whole(point.negative.bucket_counts),
    }


def _summary(point: Any) -> dict[str, Any]:
    return {
        "count": whole(point.count, "count"),
        "sum": point.sum,
        "quantiles": [{"quantile": one.quantile, "value": one.value} for one in point.quantile_values],
    }


_VALUES_OF: dict[str, Callable[[Any], Mapping[str, Any]]] = {
    "gauge": _number,
    "sum": _number,
    "histogram": _histogram,
    "exponential_histogram": _exponential,
    "summary": _summary,
}


def _all_whole(counts: Any) -> list[int]:
    return [whole(count, "a bucket count") for count in counts]


def _exemplar(one: Any) -> dict[str, Any]:
    kind = one.WhichOneof("value")
    value = None if kind is None else one.as_int if kind == "as_int" else finite(one.as_double)
    return {
        "time_unix_nano": whole(one.time_unix_nano, "the time of an exemplar"),
        "value": value,
        "attributes": attributes(one.filtered_attributes),
        "trace_id": optional_identifier(one.trace_id, "trace_id of an exemplar", 16),
        "span_id": optional_identifier(one.span_id, "span_id of an exemplar", 8),
    }
