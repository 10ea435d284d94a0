"""Writes web pages as single files: templates of `templates/pages/`, with plots as inline SVG. They need no network.

Needs jinja2, which an extra brings.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

__all__ = ["Bar", "Curve", "bars", "curve", "render"]

_WIDTH, _LABEL, _ROW = 420.0, 150.0, 20.0
_CHARACTER = 7.0  # width of a character of a label
_DECADE = 10.0


@dataclass(frozen=True)
class Bar:
    """Describes one bar: `kind` is its colour: ours, other, bad."""

    label: str
    value: float
    text: str
    kind: str = "ours"


@dataclass(frozen=True)
class Curve:
    """Holds points of a line, and which of them are marked."""

    name: str
    values: Sequence[float]
    kind: str = "ours"


def render(template: str, **values: Any) -> str:
    """Render a page from a template, in which all text is escaped."""
    import jinja2  # noqa: PLC0415 - of an extra

    folder = files("ms_ascend_ops") / "templates" / "pages"
    loader = jinja2.FunctionLoader(lambda name: (folder / name).read_text(encoding="utf-8"))
    environment = jinja2.Environment(
        loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template(template).render(**values)


def bars(title: str, given: Sequence[Bar], line: float | None = None, logarithmic: bool = False) -> dict[str, Any]:
    """Return what the macro `bars` draws: lengths in its units. `line`: a bound, drawn across."""
    values = [bar.value for bar in given if math.isfinite(bar.value)] + ([] if line is None else [line])
    least = min((value for value in values if value > 0), default=1.0)
    largest = max(values, default=1.0) or 1.0
    floor = least / _DECADE**0.3
    # Labels end at the bars: as wide as the longest needs, the bars stay as long.
    label = max(_LABEL, 8 + _CHARACTER * max((len(bar.label) for bar in given), default=0))
    width = _WIDTH - _LABEL + label

    def length(value: float) -> float:
        if not math.isfinite(value):
            return _WIDTH - _LABEL
        if logarithmic:
            share = math.log(max(value, floor) / floor) / math.log(largest / floor) if largest > floor else 0.0
        else:
            share = value / largest
        return max(1.0, 0.7 * share * (_WIDTH - _LABEL))

    rows = [
        {"y": _ROW * i, "length": round(length(bar.value), 1), "label": bar.label, "text": bar.text, "kind": bar.kind}
        for i, bar in enumerate(given)
    ]
    place = None if line is None else round(label + length(line), 1)
    return {
        "title": title,
        "rows": rows,
        "line": place,
        "width": width,
        "label": label,
        "height": _ROW * len(rows) + 6,
    }


def curve(title: str, curves: Sequence[Curve], marks: Sequence[tuple[int, str]] = ()) -> dict[str, Any]:
    """Return what the macro `curve` draws: lines over equally spaced points, logarithmic; zeros at the bottom."""
    height, left = 180.0, 45.0
    positive = [value for one in curves for value in one.values if value > 0 and math.isfinite(value)]
    low = math.floor(math.log10(min(positive))) if positive else 0
    high = max(math.ceil(math.log10(max(positive))) if positive else 1, low + 1)
    count = max((len(one.values) for one in curves), default=1)

    def x(i: int) -> float:
        return round(left + (_WIDTH - left - 10) * (i / (count - 1) if count > 1 else 0.5), 1)

    def y(value: float) -> float:
        if not value > 0:
            return height
        level = high if not math.isfinite(value) else math.log10(value)
        return round(height - (height - 10) * (min(max(level, low), high) - low) / (high - low), 1)

    step = max(1, (high - low) // 6)
    return {
        "title": title,
        "width": _WIDTH,
        "height": height,
        "left": left,
        "ticks": [{"y": y(10.0**power), "text": f"1e{power:+d}"} for power in range(low, high + 1, step)],
        "lines": [
            {"name": one.name, "kind": one.kind, "points": " ".join(f"{x(i)},{y(v)}" for i, v in enumerate(one.values))}
            for one in curves
        ],
        "marks": [{"x": x(i), "text": text} for i, text in marks],
    }
