"""Runs SciPy, which has one thread, for what it has a function for. Forward only, float32."""

from __future__ import annotations

from ms_ascend_ops.benchmarks.providers import Prepared
from ms_ascend_ops.samples.cases import Case

try:
    import scipy.sparse
except ImportError:
    raise ImportError("SciPy is not installed") from None

__all__ = ["product"]


def product(case: Case, threads: int) -> Prepared:
    """Prepare a call; a sparse matrix is made once, outside the time."""
    if case.operator.scipy is None:
        raise ValueError("no composition for SciPy")
    if case.gradient or case.dtype != "float32":
        raise ValueError("SciPy is compared forward, in float32")
    return Prepared(case.operator.scipy(scipy, *case.inputs, **case.attributes), lambda result: [result])
