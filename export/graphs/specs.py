"""Describes tensors in their place: shape, dtype and what a table or a matrix is known to be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Tensor
from ms_ascend_ops.export.graphs.probe import dtype_name, read, tensor
from ms_ascend_ops.export.matching.rotary import repeats
from ms_ascend_ops.export.matching.rotations import rotated_pairs, rotation_matrix

__all__ = ["OWNER", "Spec", "drawn", "spec_of"]


@dataclass(frozen=True)
class Spec:
    """Describes a tensor by shape and dtype, in the place of the tensor."""

    shape: tuple[int, ...]
    dtype: str
    repeats: str = ""  # for a table of a rotary embedding: what `patterns.repeats` says of it
    rotates: str = ""  # for a matrix: what `rotations.rotated_pairs` says of it

    def draw(self, seed: int) -> Tensor:
        """Draw a tensor of this kind with random values."""
        random = np.random.default_rng(seed)
        if self.rotates:
            matrix = rotation_matrix(self.rotates, self.shape[-1])
            return tensor(np.broadcast_to(matrix, self.shape), self.dtype)
        if self.dtype in ("float32", "float16", "bfloat16"):
            values = random.standard_normal(self.shape)
            if self.repeats in ("half", "both"):
                values[..., self.shape[-1] // 2 :] = values[..., : self.shape[-1] // 2]
            if self.repeats in ("interleave", "both"):
                values[..., 1::2] = values[..., 0::2]
            return tensor(values, self.dtype)
        if self.dtype == "bool":
            return Tensor(random.random(self.shape) < 0.5)
        return Tensor(np.ones(self.shape, np.int64), getattr(ms, self.dtype))


class _Owner:
    def __repr__(self) -> str:
        return "the cell"


OWNER = _Owner()  # the cell itself, among the described inputs of a function


def spec_of(value: Any) -> Any:
    """Return a value with its tensors described instead of held."""
    if isinstance(value, Tensor):
        dtype, small = dtype_name(value.dtype), value.ndim > 1 and value.shape[-1] <= 512 and 0 < value.size <= 2**20
        if not small or "float" not in dtype:
            return Spec(tuple(value.shape), dtype)
        values = value.asnumpy() if dtype == "float32" else read(value)
        first = values.reshape(-1, *values.shape[-2:])[0]  # few tensors get beyond that
        return Spec(
            tuple(value.shape),
            dtype,
            repeats(first) and repeats(values),
            rotated_pairs(first) and rotated_pairs(values),
        )
    if isinstance(value, (tuple, list)):
        return tuple(spec_of(item) for item in value)
    return value


def drawn(spec: Any, seed: int) -> Any:
    """Draw values for a description: those of a tuple are a tuple."""
    if isinstance(spec, Spec):
        return spec.draw(seed)
    return tuple(drawn(item, seed + 1 + i) for i, item in enumerate(spec)) if isinstance(spec, tuple) else spec
