"""Cases of a public CANN benchmark (tests/data/cann_bench_cases.json): inputs are drawn uniformly from a range."""

import json
from pathlib import Path

import numpy as np
import pytest

_LARGE = 2**21  # elements: several tiles for every core. Larger ones meet no other tiling, only in the main build.
_HUGE = 2**22  # those take ten times as long as all others together


def cases(operator):
    """The cases of one operator; the large ones are marked slow, and the largest are for `--thorough` only."""
    rows = json.loads((Path(__file__).parent / "data" / "cann_bench_cases.json").read_text())
    chosen = [row for row in rows if row["operator"] == operator]
    assert chosen, f"no case of {operator}"  # pytest would only skip the test
    sizes = [_size(row) for row in chosen]
    marks = [pytest.mark.thorough if size > _HUGE else pytest.mark.slow if size > _LARGE else () for size in sizes]
    return [pytest.param(row, marks=mark) for row, mark in zip(chosen, marks, strict=True)]


def _size(row):
    """Elements of the largest input; of attention also scores, which the golden value takes longest for."""
    shapes = row["input_shape"]
    size = max(np.prod(shape) for shape in shapes)
    if row["operator"] in ("GQA", "MHA"):
        (batch, queries, heads, _), keys = shapes[0], shapes[1][1]
        size = max(size, batch * heads * queries * keys)
    return size


def draw_range(rng, shape, value_range):
    """NaN or infinite bounds stand for the special values themselves, between ordinary ones."""
    low, high = value_range
    if np.isnan(low):
        return np.full(shape, np.nan)
    if np.isinf(high):
        values = rng.uniform(-10, 10, shape)
        special = rng.choice([low, high], shape)
        return np.where(rng.random(shape) < 0.1, special, values)
    return rng.uniform(low, high, shape)
