"""A drift report as a picture (SVG): baseline against window, score against threshold, control charts.

Works from the report's document alone, so that any stored result can be drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from xml.sax.saxutils import escape, quoteattr

WIDTH = 760
_MARGIN = 56
_CHART = 130
_FIGURES = 56
"""Of a panel: what its name and its figures take."""
_BARS = _CHART + 42
_GAUGE = 52
_CONTROL = _CHART + 40
_HEADER = 64
_TITLE_CHARACTERS = 58
_SUBTITLE_CHARACTERS = 112
_COLOURS = {"Drift": "#c0392b", "NoDrift": "#2e7d4f", "Inconclusive": "#8a6d1f"}
_WORDS = {"Drift": "drift", "NoDrift": "no drift", "Inconclusive": "inconclusive"}
_BASELINE, _WINDOW, _LINE, _TEXT, _FAINT = "#9aa5b1", "#2b6cb0", "#52606d", "#1f2933", "#e4e7eb"
_MOST_LABELS = 12
_STYLE = (
    "text{font:12px ui-sans-serif,system-ui,sans-serif;fill:#1f2933}"
    ".title{font-size:16px;font-weight:600}.name{font-size:14px;font-weight:600}"
    ".small{font-size:10px;fill:#52606d}.end{text-anchor:end}.mid{text-anchor:middle}"
)


def drift_svg(report: Mapping[str, Any], title: str, subtitle: str) -> str:
    """The picture of one report: a panel a feature, in the report's order."""
    features = list(report["features"].values())
    parts = [
        _text(_MARGIN, 28, _cut(title, _TITLE_CHARACTERS), "title"),
        _text(_MARGIN, 48, _cut(subtitle, _SUBTITLE_CHARACTERS), "small"),
        _badge(WIDTH - _MARGIN, 28, report["verdict"]),
    ]
    top = _HEADER
    for feature in features:
        height, panel = _panel(feature)
        parts.append(_moved(top, panel))
        top += height
    if not features:
        parts.append(_text(_MARGIN, top + 24, "No feature could be judged; the reason is in the result."))
        top += 48
    label = quoteattr(_printable(f"{title}: {_WORDS[report['verdict']]}"))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}" width="{WIDTH}" height="{top}"'
        f' role="img" aria-label={label}><style>{_STYLE}</style>'
        f'<rect width="{WIDTH}" height="{top}" fill="#fff"/>{"".join(parts)}</svg>'
    )


def _panel(feature: Mapping[str, Any]) -> tuple[int, str]:
    """The height of a feature's panel, and what is in it."""
    evidence = feature.get("evidence") or {}
    parts = [
        f'<line x1="{_MARGIN}" y1="0" x2="{WIDTH - _MARGIN}" y2="0" stroke="{_FAINT}"/>',
        _text(_MARGIN, 26, feature["feature"], "name"),
        _text(_MARGIN, 44, _figures(feature), "small"),
        _badge(WIDTH - _MARGIN, 26, feature["verdict"]),
    ]
    height = _FIGURES
    if _is_chart(feature):
        for name, values, of in (
            ("subgroup mean", "means", "mean"),
            ("subgroup standard deviation", "deviations", "deviation"),
        ):
            limits = (evidence[f"{of}_lower"], evidence[of], evidence[f"{of}_upper"])
            parts.append(_moved(height, _chart(name, evidence[values], limits)))
            height += _CONTROL
        return height, "".join(parts)
    if "bins" in evidence:
        parts.append(_moved(height, _bars(evidence)))
        height += _BARS
    if feature["score"] is not None and feature["threshold"] is not None:
        parts.append(_moved(height, _gauge(feature)))
        height += _GAUGE
    return height, "".join(parts)


def _is_chart(feature: Mapping[str, Any]) -> bool:
    return "mean_upper" in (feature.get("evidence") or {})


def _figures(feature: Mapping[str, Any]) -> str:
    if feature["score"] is None:
        return "no score"
    evidence = feature.get("evidence") or {}
    if _is_chart(feature):
        subgroups = f"{evidence['window_subgroups']} subgroups of {evidence['sample_size']}"
        return f"{_counted(evidence['signal_count'], 'point')} outside the limits · {subgroups}"
    told = [f"score {feature['score']:.4g}", f"threshold {feature['threshold']:.4g}"]
    if "window_values" in evidence:
        told.append(_counted(evidence["window_values"], "value"))
    if evidence.get("false_alarm_rate") is not None:
        told.append(f"{evidence['false_alarm_rate']:.1%} of unchanged windows this size would drift")
    if evidence.get("unseen_label_count"):
        told.append(f"{_counted(evidence['unseen_label_count'], 'label')} unseen in the baseline")
    return " · ".join(told)


def _bars(evidence: Mapping[str, Any]) -> str:
    bins: Sequence[Mapping[str, Any]] = evidence["bins"]
    highest = max([*(max(b["baseline_proportion"], b["window_proportion"]) for b in bins), 1e-9])
    left, base = _MARGIN, 14 + _CHART
    step = (WIDTH - 2 * _MARGIN) / len(bins)
    parts = [
        f'<line x1="{left}" y1="{base}" x2="{WIDTH - _MARGIN}" y2="{base}" stroke="{_LINE}"/>',
        _text(left - 6, 24, f"{highest:.0%}", "small end"),
        _text(left - 6, base, "0", "small end"),
        _legend(),
    ]
    named = max(1, -(-len(bins) // _MOST_LABELS))
    for index, one in enumerate(bins):
        x = left + index * step
        for offset, key, colour in (
            (0.1, "baseline_proportion", _BASELINE),
            (0.5, "window_proportion", _WINDOW),
        ):
            tall = one[key] / highest * (_CHART - 6)
            parts.append(
                f'<rect x="{x + offset * step:.2f}" y="{base - tall:.2f}" width="{max(0.4 * step, 0.5):.2f}"'
                f' height="{tall:.2f}" fill="{colour}">'
                f"<title>{escape(_printable(_place(one)))}: {one[key]:.4f}</title></rect>"
            )
        if "label" in one and index % named == 0:
            parts.append(_text(x + step / 2, base + 14, _short(one["label"]), "small mid"))
        elif one.get("up_to") is not None and index % named == 0:
            parts.append(_text(x + step, base + 14, f"{one['up_to']:.3g}", "small mid"))
    return "".join(parts)


def _legend() -> str:
    right = WIDTH - _MARGIN
    return (
        _text(right, 4, "window", "small end")
        + f'<rect x="{right - 52}" y="-4" width="9" height="9" fill="{_WINDOW}"/>'
        + _text(right - 60, 4, "baseline", "small end")
        + f'<rect x="{right - 118}" y="-4" width="9" height="9" fill="{_BASELINE}"/>'
    )


def _gauge(feature: Mapping[str, Any]) -> str:
    """The score as a bar, the threshold as a line across it."""
    score, threshold = feature["score"], feature["threshold"]
    left, wide, y = _MARGIN, WIDTH - 2 * _MARGIN, 8
    reach = max(score, threshold, 1e-12) * 1.15
    at = left + threshold / reach * wide
    colour = _COLOURS[feature["verdict"]]
    return (
        f'<rect x="{left}" y="{y}" width="{wide}" height="8" rx="4" fill="{_FAINT}"/>'
        f'<rect x="{left}" y="{y}" width="{score / reach * wide:.2f}" height="8" rx="4" fill="{colour}"/>'
        f'<line x1="{at:.2f}" y1="{y - 4}" x2="{at:.2f}" y2="{y + 12}" stroke="{_TEXT}" stroke-width="2"/>'
        + _text(at, y + 24, "threshold", "small mid")
    )


def _chart(name: str, values: Sequence[float], limits: tuple[float, float, float]) -> str:
    lower, centre, upper = limits
    low, high = min([*values, lower]), max([*values, upper])
    span = (high - low) or 1.0
    left, top, wide = _MARGIN, 8, WIDTH - 2 * _MARGIN

    def at(value: float) -> float:
        return top + _CHART - 8 - (value - low) / span * (_CHART - 16)

    parts = [_text(left, top - 4, name, "small")]
    for value, dashes, label in ((lower, "4 3", "LCL"), (centre, "", "CL"), (upper, "4 3", "UCL")):
        dash = f' stroke-dasharray="{dashes}"' if dashes else ""
        parts.append(
            f'<line x1="{left}" y1="{at(value):.2f}" x2="{left + wide}" y2="{at(value):.2f}"'
            f' stroke="{_LINE}"{dash}><title>{label} {value:.6g}</title></line>'
        )
        parts.append(_text(left - 6, at(value) + 4, f"{value:.3g}", "small end"))
        parts.append(_text(left + wide + 6, at(value) + 4, label, "small"))
    step = wide / max(len(values), 1)
    points = [(left + (index + 0.5) * step, at(value), value) for index, value in enumerate(values)]
    path = " ".join(f"{x:.2f},{y:.2f}" for x, y, _ in points)
    parts.append(f'<polyline points="{path}" fill="none" stroke="{_WINDOW}"/>')
    for x, y, value in points:
        outside = value < lower or value > upper
        colour, size = (_COLOURS["Drift"], 4) if outside else (_WINDOW, 2.5)
        parts.append(
            f'<circle cx="{x:.2f}" cy="{y:.2f}" r="{size}" fill="{colour}">'
            f"<title>{value:.6g}</title></circle>"
        )
    return "".join(parts)


def _place(one: Mapping[str, Any]) -> str:
    if "label" in one:
        return "any other label" if one["label"] is None else str(one["label"])
    low = "-∞" if one["above"] is None else f"{one['above']:.6g}"
    high = "∞" if one["up_to"] is None else f"{one['up_to']:.6g}"
    return f"({low}, {high}]"


def _short(label: Any) -> str:
    return "unseen" if label is None else _cut(str(label), 10)


def _cut(text: str, characters: int) -> str:
    return text if len(text) <= characters else f"{text[: characters - 1]}…"


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _moved(down: int, parts: str) -> str:
    return f'<g transform="translate(0 {down})">{parts}</g>'


def _badge(right: float, y: float, verdict: str) -> str:
    colour, word = _COLOURS[verdict], _WORDS[verdict]
    return f'<text x="{right}" y="{y}" class="end name" style="fill:{colour}">{word}</text>'


def _text(x: float, y: float, text: str, classes: str = "") -> str:
    named = f' class="{classes}"' if classes else ""
    return f'<text x="{x:.2f}" y="{y:.2f}"{named}>{escape(_printable(text))}</text>'


def _printable(text: str) -> str:
    """XML holds no control characters, and a label may."""
    return "".join(
        character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text
    )
