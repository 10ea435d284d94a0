"""Cases of a public CANN benchmark (tests/data/cann_bench_cases.json): inputs are drawn uniformly from a range."""

import json
from pathlib import Path

import numpy as np
import pytest

_LARGE = 2**21  # elements: several tiles for every core. Larger ones meet no other tiling, only in the main build.


def cases(operator):
    """The cases of one operator; the large ones are marked slow."""
    rows = json.loads((Path(__file__).parent / "data" / "cann_bench_cases.json").read_text())
    chosen = [row for row in rows if row["operator"] == operator]
    assert chosen, f"no case of {operator}"  # pytest would only skip the test
    return [
        pytest.param(row, marks=[pytest.mark.slow] if np.prod(row["input_shape"][0]) > _LARGE else []) for row in chosen
    ]


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
