"""Provides a linear layer with a pruned weight, for a few rows."""

from __future__ import annotations

from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Tensor, mint, nn
from ms_ascend_ops.cells.parameters import fixed_parameter
from ms_ascend_ops.cells.sparse_dense import SparseDense

from ms_ascend_ops.ops.sliced_sparse_matmul import sliced_sparse_matmul
from ms_ascend_ops.sliced import LANES, SlicedPattern, fits
from ms_ascend_ops.sparse import CSR

__all__ = ["SlicedDense"]


class SlicedDense(nn.Cell):  # type: ignore[misc]
    r"""Computes a linear layer with a sparse weight in slices, for a few rows of x, as the tokens of a step;
    for inference.

    .. math::
        y = x \, w^T + bias

    Args:
        weight: the matrix (out_channels, in_channels): what `CSR.of` takes, such as a dense one with zeros.
        bias: Tensor of shape (out_channels,), or None.

    Inputs:
        x: Tensor[dtype of the weight], shape (..., in_channels).

    Outputs:
        Tensor[dtype of the weight], shape (..., out_channels).

    Raises:
        TypeError, ValueError: `weight` is no matrix, or one that is wrong (`CSR.check`); it has more than 28672
            columns, or pieces of rows; a bias of another shape.

    Parameters `weight` (the values, in slices), the pattern (`slice_ends`, `indices`, `group_ends`, `pieces`) and
    `bias`; none of them is trained. `SlicedDense.of` makes one of an `nn.Dense` or of a trained `SparseDense`.
    Accumulated in float32; see `ops.sliced_sparse_matmul`. On a CPU, and with more than some rows, `SparseDense`
    is the faster one (docs/sparse.md).
    """

    def __init__(self, weight: Any, bias: Tensor | None = None):
        super().__init__()
        matrix = CSR.of(weight)
        self.out_channels, self.in_channels = matrix.shape
        if bias is not None and tuple(bias.shape) != (self.out_channels,):
            raise ValueError(f"SlicedDense: bias must have shape ({self.out_channels},), got {tuple(bias.shape)}")
        if not fits(*matrix.shape, matrix.values.shape[0]):
            raise ValueError(f"SlicedDense: weight is too large for rows in slices, got shape {matrix.shape}")
        pattern = SlicedPattern.of(matrix.indptr.asnumpy(), matrix.indices.asnumpy(), self.in_channels)
        self.weight = fixed_parameter(pattern.with_values(matrix.values), "weight")
        for name in ("slice_ends", "indices", "group_ends", "pieces"):
            setattr(self, name, fixed_parameter(np.ascontiguousarray(getattr(pattern, name)), name))
        self.has_bias = bias is not None
        self.bias: Any = None if bias is None else fixed_parameter(Tensor(bias), "bias")

    @classmethod
    def of(cls, layer: nn.Cell, density: float | None = None) -> SlicedDense:
        """Return a layer with the weight and the bias of an `nn.Dense`, a `mint.nn.Linear` or a `SparseDense`.

        Args:
            layer: an `nn.Dense` without activation, a `mint.nn.Linear` or a `SparseDense`.
            density: of a dense layer: this share of the weight stays, the largest magnitudes; None: all that is not 0.

        Raises:
            TypeError: `layer` is none of these.
            ValueError: it has an activation; density is not above 0 and up to 1, or given for a `SparseDense`.
        """
        if isinstance(layer, SparseDense):
            if density is not None:
                raise ValueError(f"SlicedDense: density must be None for a SparseDense, got {density}")
        elif isinstance(layer, nn.Dense | mint.nn.Linear):
            layer = SparseDense.of(layer, density)
        else:
            raise TypeError(
                f"SlicedDense: layer must be nn.Dense, mint.nn.Linear or SparseDense, got {type(layer).__name__}"
            )
        return cls(layer.to_csr(), Tensor(layer.bias) if layer.has_bias else None)

    def construct(self, x):  # type: ignore[no-untyped-def]
        weight = self.weight
        if weight.dtype != x.dtype:  # of mixed precision
            weight = weight.astype(x.dtype)
        y = sliced_sparse_matmul(x, self.slice_ends, self.indices, weight, self.group_ends, self.pieces)
        if self.out_channels % LANES:
            # MindSpore's slices need float32 on a CPU.
            y = y.astype(ms.float32)[..., : self.out_channels].astype(y.dtype)
        return y + self.bias if self.has_bias else y

    def extend_repr(self) -> str:
        return f"{self.in_channels}, {self.out_channels}, has_bias={self.has_bias}"
