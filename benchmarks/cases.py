"""The table of cases: which operators, shapes and dtypes are measured, and the data of one case."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import ml_dtypes
import numpy as np

from ms_ascend_ops import registry
from ms_ascend_ops.shapes import infer_shapes, infer_types

__all__ = ["DTYPES", "OPERATORS", "SHAPES", "Case"]

# The shapes of the inputs, so that the output is (rows, cols).
OPERATORS: dict[str, Callable[[int, int], list[tuple[int, ...]]]] = {
    "rms_norm": lambda rows, cols: [(rows, cols), (cols,)],
    "silu_mul": lambda rows, cols: [(rows, cols), (rows, cols)],
    "swiglu": lambda rows, cols: [(rows, 2 * cols)],
}

SHAPES = (
    (1, 4096),  # one token: the cost of a call
    (128, 4096),  # in cache
    (2048, 4096),  # in memory
    (333, 4097),  # tails everywhere
)

DTYPES = {
    "float32": np.dtype(np.float32),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float16": np.dtype(np.float16),
}


@dataclass(frozen=True)
class Case:
    """One row of the benchmark. With `gradient` it is what a training step does: forward, then gradient."""

    operator: str
    gradient: bool
    rows: int
    cols: int
    dtype: str

    @property
    def name(self) -> str:
        return f"{self.operator}{'_grad' if self.gradient else ''} {self.dtype} {self.rows}x{self.cols}"

    @property
    def signatures(self) -> list[registry.Signature]:
        """The kernels that a provider has to replace, in order."""
        spec = registry.op_spec(self.operator)
        return list(spec.signatures) if self.gradient else [spec.forward]

    @cached_property
    def inputs(self) -> list[np.ndarray]:
        random = np.random.default_rng(0)
        shapes = OPERATORS[self.operator](self.rows, self.cols)
        return [random.standard_normal(shape, np.float32).astype(DTYPES[self.dtype]) for shape in shapes]

    @cached_property
    def dy(self) -> np.ndarray:
        """Gradient of the first output."""
        random = np.random.default_rng(1)
        return random.standard_normal((self.rows, self.cols), np.float32).astype(DTYPES[self.dtype])

    def outputs(self, signature: registry.Signature, inputs: list[np.ndarray]) -> list[np.ndarray]:
        """Arrays for the outputs of a kernel, full of NaN."""
        shapes = infer_shapes(signature, [array.shape for array in inputs], signature.check_attributes({}))
        dtypes = infer_types(signature, [array.dtype.name for array in inputs])
        return [np.full(shape, np.nan, DTYPES[dtype]) for shape, dtype in zip(shapes, dtypes, strict=True)]

    @cached_property
    def kernels(self) -> list[tuple[registry.Signature, list[np.ndarray], list[np.ndarray]]]:
        """Every kernel with its inputs and outputs, all in memory that stays the same from call to call."""
        known = {"dy": self.dy}
        known |= dict(zip([tensor.name for tensor in self.signatures[0].inputs], self.inputs, strict=True))
        calls = []
        for signature in self.signatures:
            inputs = [known[tensor.name] for tensor in signature.inputs]
            outputs = self.outputs(signature, inputs)
            for tensor, array in zip(signature.outputs, outputs, strict=True):
                known[tensor.name] = array
                known.setdefault(f"d{tensor.name}", np.zeros_like(array))  # dy is there; rstd has no gradient
            calls.append((signature, inputs, outputs))
        return calls

    @property
    def bytes(self) -> int:
        """The least that has to move: every input of every kernel once, every output once."""
        return sum(array.nbytes for _, inputs, outputs in self.kernels for array in inputs + outputs)
