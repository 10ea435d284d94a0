"""Reports, with --check, operators that NumPy computes and that read device memory that nobody has written.

Each byte of device memory has a byte of shadow, which is not 0 when the byte was written (kernels/device/protocol).
"""

from __future__ import annotations

import numpy as np

from ms_ascend_ops.device.operators import memory

__all__ = ["watch"]


def watch(shift: int) -> None:
    """Check, from now on, tensors that are read, and note those that are written.

    Args:
        shift: from an address to its shadow.
    """
    memory.watchers.reads = lambda array: _check(array, shift)
    memory.watchers.writes = lambda array: _shadow(array, shift).fill(1)


def _shadow(array: memory.Array, shift: int) -> memory.Array:
    width = array.itemsize
    return memory.array_at(np.dtype(np.uint8), array.ctypes.data + shift, (*array.shape, width), (*array.strides, 1))


def _check(array: memory.Array, shift: int) -> None:
    written = _shadow(array, shift)
    if written.all():
        return
    missing = np.argwhere(written.min(-1) == 0)
    raise ValueError(
        f"it reads device memory that nobody has written: {len(missing)} of the {array.size} elements of a tensor of "
        f"shape {array.shape}, the first at {tuple(int(i) for i in missing[0])}"
    )
