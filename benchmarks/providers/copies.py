"""Copies of as many bytes as the case has to move: half of them read, half of them written.

Three ways, because none is the fastest for all sizes; the report compares with the fastest.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from itertools import pairwise
from typing import Any

import numpy as np
from ms_ascend_ops.benchmarks.providers import Prepared
from ms_ascend_ops.samples.cases import Case
from numpy.typing import NDArray

__all__ = ["all_threads", "one_thread", "torch_copy"]


def _buffers(case: Case) -> tuple[NDArray[Any], NDArray[Any]]:
    source = np.ones(case.bytes // 2, np.uint8)
    return source, np.zeros_like(source)


def one_thread(case: Case, threads: int) -> Prepared:
    """Prepare a copy by NumPy in the calling thread."""
    source, target = _buffers(case)
    return Prepared(partial(np.copyto, target, source), lambda _: [])


@cache
def _executor(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads)


def all_threads(case: Case, threads: int) -> Prepared:
    """Prepare a copy by NumPy, which releases the GIL, in all threads; the calling thread copies the last part."""
    source, target = _buffers(case)
    bounds = np.linspace(0, source.size, threads + 1).astype(np.int64) // 64 * 64
    bounds[-1] = source.size
    parts = [(target[a:b], source[a:b]) for a, b in pairwise(bounds)]

    def run() -> None:
        others = [_executor(threads).submit(np.copyto, *part) for part in parts[:-1]]
        np.copyto(*parts[-1])
        for other in others:
            other.result()

    return Prepared(run, lambda _: [])


def torch_copy(case: Case, threads: int) -> Prepared:
    """Prepare PyTorch's `copy_`, on its own threads."""
    import torch

    torch.set_num_threads(threads)
    source, target = (torch.from_numpy(buffer) for buffer in _buffers(case))
    return Prepared(partial(target.copy_, source), lambda _: [])
