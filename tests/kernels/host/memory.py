"""Runs a few calls on NumPy arrays laid into a Unified Buffer and a global memory full of NaN."""

import ml_dtypes
import numpy as np

from tests.kernels.host.module import host_calls, program

STORAGE = {
    "float32": np.dtype(np.float32),
    "int32": np.dtype(np.int32),
    "int8": np.dtype(np.int8),
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "uint32": np.dtype(np.uint32),
}
POISON = 0xFF  # every byte: NaN in each of the float types, -1 in int32


def bits(value, dtype):
    """The bit pattern of a scalar."""
    pattern = np.array(value, STORAGE[dtype]).tobytes()
    return int.from_bytes(pattern, "little")


class Memory:
    """A Unified Buffer and a global memory, addressed by bytes."""

    def __init__(self, ub_bytes=32768, gm_bytes=32768):
        self.ub = np.full((1, ub_bytes), POISON, np.uint8)
        self.gm = np.full(gm_bytes, POISON, np.uint8)

    def put(self, offset, values):
        """Lay an array into the Unified Buffer."""
        self._put(self.ub[0], offset, values)
        return self

    def put_gm(self, offset, values):
        """Lay an array into global memory."""
        self._put(self.gm, offset, values)
        return self

    @staticmethod
    def _put(memory, offset, values):
        raw = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
        memory[offset : offset + raw.size] = raw

    def run(self, *calls, execution="deferred"):
        """Run the calls on one core; what they read by themselves is returned."""
        return host_calls().run([program(calls)], self.gm, self.ub, execution)[0]

    def get(self, offset, count, dtype):
        """An array out of the Unified Buffer."""
        return self.ub[0][offset : offset + count * STORAGE[dtype].itemsize].view(STORAGE[dtype])

    def get_gm(self, offset, count, dtype):
        """An array out of global memory."""
        return self.gm[offset : offset + count * STORAGE[dtype].itemsize].view(STORAGE[dtype])
