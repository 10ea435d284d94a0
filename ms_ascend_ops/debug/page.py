"""Writes a comparison as JSON, as one web page and as lines of text."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ms_ascend_ops.debug.compare import Comparison
from ms_ascend_ops.pages import Curve, curve, render

__all__ = ["verdict", "write_json", "write_page"]

_FLOOR = 1e-12  # of the chart: equal


def verdict(found: Comparison) -> str:
    """Describe it in a few words."""
    if not found.places:
        return "no layers in common"
    if found.first is not None:
        return "differs by more than rounding explains"
    return "overflows" if found.first_overflow is not None else "differs by rounding only"


def write_json(found: Comparison, path: Path) -> None:
    """Write all of it; what is no finite number is null."""
    content = {
        "a": found.a,
        "b": found.b,
        "verdict": verdict(found),
        "first": found.first.name if found.first else None,
        "first_overflow": found.first_overflow.name if found.first_overflow else None,
        "blamed": found.blamed,
        "blame": found.blame_text,
        "only_a": found.only_a,
        "only_b": found.only_b,
        "layers": [{**asdict(place), "explained": place.explained} for place in found.places],
    }
    path.write_text(json.dumps(_finite(content), indent=1, allow_nan=False) + "\n", encoding="utf-8")


def write_page(found: Comparison, path: Path) -> None:
    """Write one file."""
    names = [place.name for place in found.places]
    marks = [(names.index(found.first.name), "first")] if found.first else []
    lines = [
        Curve("difference", [max(place.difference, _FLOOR) for place in found.places]),
        Curve("explained by rounding", [max(place.bound, _FLOOR) for place in found.places], "other"),
    ]
    plot = curve("Layers in order", lines, marks)
    path.write_text(render("comparison.html", found=found, verdict=verdict(found), plot=plot), encoding="utf-8")


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
