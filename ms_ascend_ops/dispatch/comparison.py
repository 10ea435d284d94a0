"""Says how far the results of two implementations of an operator are apart, and whether rounding explains it."""

from __future__ import annotations

from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Tensor

from ms_ascend_ops.acceptance import RULES, Accuracy, accuracy

__all__ = ["Difference", "difference_of", "flat", "is_finite", "values_of"]


class Difference:
    """Holds the largest distance of two results in ULP, and what rounding does not explain."""

    def __init__(self, found: list[Accuracy]):
        self.ulps = max((one.ulps for one in found), default=0.0)
        self.reasons = [reason for one in found for reason in _beyond_rounding(one)]


def _beyond_rounding(found: Accuracy) -> list[str]:
    """Judge two that have both rounded by the mixed tolerance: relative errors of results that cancel say nothing."""
    return [reason for reason in found.reasons if not reason.startswith(("MERE", "MARE"))]


def difference_of(results: Any, golden: Any) -> Difference:
    """Compare all outputs in floats of one implementation with those of another."""
    found = []
    for mine, theirs in zip(flat(results), flat(golden), strict=True):
        dtype = str(mine.dtype).lower()
        if dtype in RULES:
            found.append(accuracy(values_of(mine), values_of(theirs), dtype))
    return Difference(found)


def flat(results: Any) -> list[Tensor]:
    """The outputs of a call, also where there is only one."""
    return list(results) if isinstance(results, (tuple, list)) else [results]


def values_of(tensor: Tensor) -> Any:
    """Return a NumPy array; bfloat16, which NumPy does not have, as float32."""
    return tensor.astype(ms.float32).asnumpy() if tensor.dtype == ms.bfloat16 else tensor.asnumpy()


def is_finite(tensor: Tensor) -> bool:
    """Tell it in one pass, by a sum: one that overflows is looked at again, element by element."""
    if str(tensor.dtype).lower() not in RULES:
        return True
    values = values_of(tensor)
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(values.sum(dtype=np.float32))) or bool(np.all(np.isfinite(values)))
