"""A linear layer with a pruned weight."""

from __future__ import annotations

from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops

from ms_ascend_ops.custom import kernel
from ms_ascend_ops.gradients import needs_gradient
from ms_ascend_ops.ops.sparse_matmul import reordered, sparse_matmul
from ms_ascend_ops.sparse import CSR, transposed_arrays

__all__ = ["SparseDense"]


class _Product(nn.Cell):  # type: ignore[misc]
    """`ops.sparse_matmul` with the transposed pattern at hand, so that a gradient has nothing to sort."""

    def __init__(self) -> None:
        super().__init__()
        self.gradient = kernel("sparse_matmul_grad")
        self.product = kernel("sparse_matmul")

    def construct(self, row_ends, indices, values, dense, column_ends, rows, order):  # type: ignore[no-untyped-def]
        return sparse_matmul(row_ends, indices, values, dense)

    def bprop(self, row_ends, indices, values, dense, column_ends, rows, order, out, dout):  # type: ignore[no-untyped-def]
        dvalues = self.gradient(dout, row_ends, indices, dense) if needs_gradient(values) else ops.zeros_like(values)
        if needs_gradient(dense):
            ddense = self.product(column_ends, rows, reordered(values, order), dout)
        else:
            ddense = ops.zeros_like(dense)
        pattern = [ops.zeros_like(tensor) for tensor in (row_ends, indices, column_ends, rows, order)]
        return pattern[0], pattern[1], dvalues, ddense, pattern[2], pattern[3], pattern[4]


class SparseDense(nn.Cell):  # type: ignore[misc]
    r"""Linear layer with a sparse weight, whose pattern stays as it is while its values are trained.

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
        TypeError, ValueError: `weight` is no matrix, or one that is wrong (`CSR.check`); a bias of another shape.

    Parameters `weight` (the values) and `bias`, which are trained, and the pattern, which is not: `row_ends` and
    `indices`, and the same of the transposed weight. Products are accumulated in float32.
    """

    def __init__(self, weight: Any, bias: Tensor | None = None):
        super().__init__()
        matrix = CSR.of(weight)
        if not matrix.values.shape[0]:
            raise ValueError(f"SparseDense: weight must have a value that is not 0, got shape {matrix.shape}")
        self.out_channels, self.in_channels = matrix.shape
        self.has_bias = bias is not None
        if bias is not None and tuple(bias.shape) != (self.out_channels,):
            raise ValueError(f"SparseDense: bias must have shape ({self.out_channels},), got {tuple(bias.shape)}")
        self.weight = Parameter(matrix.values, name="weight")
        self.bias: Any = None if bias is None else Parameter(Tensor(bias), name="bias")
        indptr, indices = matrix.indptr.asnumpy(), matrix.indices.asnumpy()
        column_pointers, rows, order = transposed_arrays(indptr, indices, self.in_channels)
        for name, array in (
            ("row_ends", indptr[1:]), ("indices", indices), ("column_ends", column_pointers[1:]), ("rows", rows),
            ("order", order),
        ):  # fmt: skip
            setattr(self, name, Parameter(Tensor(np.ascontiguousarray(array)), name=name, requires_grad=False))
        self._product = _Product()

    @classmethod
    def of(cls, dense: nn.Dense, density: float | None = None) -> SparseDense:
        """A layer with the weight and the bias of an `nn.Dense`.

        Args:
            dense: the layer, without activation.
            density: this share of the weight stays, the largest magnitudes; None: all that is not 0.

        Raises:
            TypeError: `dense` is no nn.Dense.
            ValueError: it has an activation; density is not above 0 and up to 1.
        """
        if not isinstance(dense, nn.Dense):
            raise TypeError(f"SparseDense: dense must be an nn.Dense, got {type(dense).__name__}")
        if dense.activation is not None:
            raise ValueError(f"SparseDense: dense must have no activation, got {dense.activation}")
        weight = Tensor(dense.weight)
        if density is not None:
            if not 0 < density <= 1:
                raise ValueError(f"SparseDense: density must be above 0 and at most 1, got {density}")
            weight = _pruned(weight, density)
        return cls(weight, Tensor(dense.bias) if dense.has_bias else None)

    def to_csr(self) -> CSR:
        """The weight as a sparse matrix."""
        indptr = np.concatenate(([0], self.row_ends.asnumpy())).astype(np.int32)
        shape = (self.out_channels, self.in_channels)
        return CSR(Tensor(indptr), Tensor(self.indices), Tensor(self.weight), shape)

    def construct(self, x):  # type: ignore[no-untyped-def]
        rows = x.reshape((-1, self.in_channels))
        y = self._product(
            self.row_ends, self.indices, self.weight, _turned(rows), self.column_ends, self.rows, self.order
        )
        y = _turned(y)
        if self.has_bias:
            y = y + self.bias
        return y.reshape((*x.shape[:-1], self.out_channels))


def _turned(x: Tensor) -> Tensor:
    """Transposed, in float, which MindSpore's operator for a CPU needs."""
    return x.astype(ms.float32).swapaxes(0, 1).astype(x.dtype)


def _pruned(weight: Tensor, density: float) -> Tensor:
    """The largest magnitudes, and zeros; of equal ones the first."""
    values = weight.astype(ms.float32).asnumpy()
    kept = max(1, round(values.size * density))
    chosen = np.argsort(-np.abs(values).ravel(), kind="stable")[:kept]
    mask = np.zeros(values.size, bool)
    mask[chosen] = True
    return Tensor(np.where(mask.reshape(values.shape), values, np.float32(0))).astype(weight.dtype)
