"""Provides a linear layer with a pruned weight."""

from __future__ import annotations

import math
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, mint, nn, ops
from ms_ascend_ops.cells.exchange import exchange
from ms_ascend_ops.cells.in_float32 import InFloat32

from ms_ascend_ops.custom import kernel
from ms_ascend_ops.deprecation import renamed_argument, warn_renamed
from ms_ascend_ops.gradients import needs_gradient
from ms_ascend_ops.mindspore_versions import device_target, zeros_like
from ms_ascend_ops.ops.block_sparse_matmul import block_sparse_matmul
from ms_ascend_ops.ops.matmul import matmul
from ms_ascend_ops.ops.sparse_matmul import reordered, sparse_matmul
from ms_ascend_ops.sparse import (
    BLOCK_AREA,
    BLOCK_SIDE,
    CSR,
    LAYER_METHODS,
    THRESHOLDS,
    Method,
    placed,
    transposed_arrays,
)

__all__ = ["SparseDense"]


class _Product(nn.Cell):  # type: ignore[misc]
    """Calls `ops.sparse_matmul` with the transposed pattern at hand, so that a gradient has nothing to sort."""

    def __init__(self) -> None:
        super().__init__()
        self.gradient = kernel("sparse_matmul_grad")
        self.product = kernel("sparse_matmul")

    def construct(self, row_ends, indices, values, dense, column_ends, rows, order):  # type: ignore[no-untyped-def]
        return sparse_matmul(row_ends, indices, values, dense)

    def bprop(self, row_ends, indices, values, dense, column_ends, rows, order, out, dout):  # type: ignore[no-untyped-def]
        kind = dout.dtype  # with mixed precision another one than that of the inputs
        dvalues, ddense = zeros_like(values), zeros_like(dense)
        if needs_gradient(values):
            dvalues = self.gradient(dout, row_ends, indices, dense.astype(kind)).astype(values.dtype)
        if needs_gradient(dense):
            ddense = self.product(column_ends, rows, reordered(values, order).astype(kind), dout).astype(dense.dtype)
        pattern = [zeros_like(tensor) for tensor in (row_ends, indices, column_ends, rows, order)]
        return pattern[0], pattern[1], dvalues, ddense, pattern[2], pattern[3], pattern[4]


class SparseDense(nn.Cell):  # type: ignore[misc]
    r"""Computes a linear layer with a sparse weight, whose pattern stays as it is while its values are trained.

    .. math::
        y = x \, w^T + bias

    Args:
        weight: the matrix (out_channels, in_channels): what `CSR.of` takes, such as a dense one with zeros.
        bias: Tensor of shape (out_channels,), or None.
        method: how to multiply, one of `sparse.LAYER_METHODS`; None: as `CSR.method` says for the weight, rows of x
            being the columns.

    Inputs:
        x: Tensor[dtype of the weight], shape (..., in_channels).

    Outputs:
        Tensor[dtype of the weight], shape (..., out_channels).

    Raises:
        TypeError, ValueError: `weight` is no matrix, or one that is wrong (`CSR.check`); a bias of another shape; a
            method that there is not.
        RuntimeError: with the method of blocks, parameters were loaded whose values are in other blocks than those of
            `weight`: the kernel stops.

    Parameters `weight` (the values) and `bias`, which are trained, and the pattern, which is not: `row_ends` and
    `indices`, and the same of the transposed weight. Products are accumulated in float32. A checkpoint may have another
    pattern of as many values: where a value is in a dense matrix or in its block follows from these parameters in each
    call. The method, and with it the blocks, remain those that suit `weight`.
    """

    @renamed_argument("way", "method")
    def __init__(self, weight: Any, bias: Tensor | None = None, method: str | None = None):
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
        self._transposed, self._add = InFloat32(_transposed), InFloat32(_add)
        self._reordered, self._placed = InFloat32(reordered), InFloat32(placed)
        self._methods = _methods(matrix, method)
        if any(chosen.name == "blocks" for _, chosen in self._methods):
            self._blocks = _Blocks(matrix)

    @classmethod
    @renamed_argument("way", "method")
    def of(cls, dense: nn.Cell, density: float | None = None, method: str | None = None) -> SparseDense:
        """Return a layer with the weight and the bias of an `nn.Dense` or a `mint.nn.Linear`.

        Args:
            dense: the layer, without activation.
            density: this share of the weight stays, the largest magnitudes; None: all that is not 0.
            method: see above.

        Raises:
            TypeError: `dense` is neither.
            ValueError: it has an activation; density is not above 0 and up to 1.
        """
        if not isinstance(dense, nn.Dense | mint.nn.Linear):
            raise TypeError(f"SparseDense: dense must be an nn.Dense or mint.nn.Linear, got {type(dense).__name__}")
        if getattr(dense, "activation", None) is not None:
            raise ValueError(f"SparseDense: dense must have no activation, got {dense.activation}")
        weight = Tensor(dense.weight)
        if density is not None:
            if not 0 < density <= 1:
                raise ValueError(f"SparseDense: density must be above 0 and at most 1, got {density}")
            weight = _pruned(weight, density)
        return cls(weight, None if dense.bias is None else Tensor(dense.bias), method)

    @classmethod
    @renamed_argument("way", "method")
    def replace(cls, network: nn.Cell, density: float | None = None, method: str | None = None) -> list[str]:
        """Put the layer in the place of `nn.Dense` without activation and `mint.nn.Linear` of a network.

        Args:
            network: a cell, changed in place. Parameters are called after the cell, as before; `weight` holds values.
            density: prune each weight to this share; None: take those that have been pruned, which a method other than
                `dense` suits where rows of x are many (`CSR.method`).
            method: see above.

        Returns:
            The names of the cells that were replaced. A weight that another cell has, too, such as an embedding's,
            stays, and so does one without a value that is not 0.

        Raises:
            ValueError: density or method is not allowed; nothing is replaced then.
        """
        owners: dict[int, int] = {}
        for _, cell in network.cells_and_names():
            for parameter in cell.parameters_dict(recurse=False).values():
                owners[id(parameter)] = owners.get(id(parameter), 0) + 1
        found = {}
        for name, cell in network.cells_and_names():
            linear = type(cell) in (nn.Dense, mint.nn.Linear) and getattr(cell, "activation", None) is None
            if name and linear and owners[id(cell.weight)] == 1 and _suits(cell.weight, density):
                layer = cls.of(cell, density, method).set_train(cell.training)
                for parameter in layer.get_parameters():
                    parameter.name = f"{name}.{parameter.name}"
                found[name] = layer
        return exchange(network, found)

    def to_csr(self) -> CSR:
        """Return the weight as a sparse matrix."""
        indptr = np.concatenate(([0], self.row_ends.asnumpy())).astype(np.int32)
        shape = (self.out_channels, self.in_channels)
        return CSR(Tensor(indptr), Tensor(self.indices), Tensor(self.weight), shape)

    def method(self, n: int) -> Method:
        """Return how n rows of x are multiplied, and why.

        Args:
            n: the number of rows.
        """
        return next(method for most, method in self._methods if n <= most)

    def way(self, n: int) -> Method:
        """Return `method` under its old name.

        Args:
            n: the number of rows.
        """
        warn_renamed("SparseDense.way", "SparseDense.method")
        return self.method(n)

    def construct(self, x):  # type: ignore[no-untyped-def]
        rows = x.reshape((-1, self.in_channels))
        weight = self.weight
        if weight.dtype != x.dtype:  # of mixed precision
            weight = weight.astype(x.dtype)
        method = _name_of(self._methods, rows.shape[0])
        if method == "direct":
            y = self._product(
                self.row_ends, self.indices, weight, self._transposed(rows), self.column_ends, self.rows, self.order
            )
            y = self._transposed(y)
        else:
            # Sort by the transposed weight, in which columns do not decrease: so the dense one is written in order.
            columns = ops.gather(self.indices, self.order, 0)
            values = self._reordered(weight, self.order)
            if method == "dense":
                places = (columns * self.out_channels + self.rows).expand_dims(1)
                dense = self._placed(values, places, self.in_channels * self.out_channels)
                y = matmul(rows, dense.reshape((self.in_channels, self.out_channels)))
            else:
                y = self._transposed(self._blocks(self.rows, columns, values, self._transposed(rows)))
        if self.has_bias:
            y = self._add(y, self.bias)
        return y.reshape((*x.shape[:-1], self.out_channels))


class _Blocks(nn.Cell):  # type: ignore[misc]
    """Multiplies by a dense matrix with those blocks that have a value in `matrix`."""

    def __init__(self, matrix: CSR):
        super().__init__()
        self.shape = matrix.shape
        self.across = -(-matrix.shape[1] // BLOCK_SIDE)
        pattern = matrix.block_pattern
        self.row_ends, self.indices, self.count = pattern.indptr[1:], pattern.indices, pattern.indices.shape[0]
        rows = np.repeat(np.arange(pattern.indptr.shape[0] - 1), np.diff(pattern.indptr.asnumpy()))
        numbers = np.full((pattern.indptr.shape[0] - 1) * self.across, self.count, np.int32)
        numbers[rows * self.across + pattern.indices.asnumpy()] = np.arange(self.count)
        self.numbers = Tensor(numbers)  # of each block, also of those without a value: `count`
        self._placed, self._first_rows, self._more_rows = (
            InFloat32(function) for function in (placed, _first_rows, _more_rows)
        )

    def construct(self, rows, columns, values, dense):  # type: ignore[no-untyped-def]
        down, right = rows // BLOCK_SIDE, columns // BLOCK_SIDE
        number = ops.gather(self.numbers, down * self.across + right, 0)
        within = (rows - down * BLOCK_SIDE) * BLOCK_SIDE + columns - right * BLOCK_SIDE
        # An additional block takes values without a block: their column is invalid, so the kernel stops.
        blocks = self._placed(values, (number * BLOCK_AREA + within).expand_dims(1), (self.count + 1) * BLOCK_AREA)
        blocks = self._first_rows(blocks, self.count * BLOCK_AREA).reshape((self.count, BLOCK_SIDE, BLOCK_SIDE))
        missing = number.max() // self.count
        indices = self.indices - missing * (self.across + 1)
        more = -self.shape[1] % BLOCK_SIDE
        if more:
            dense = self._more_rows(dense, more)
        return self._first_rows(block_sparse_matmul(self.row_ends, indices, blocks, dense), self.shape[0])


_MOST = 2**62  # rows of x: no limit


def _methods(matrix: CSR, method: str | None) -> tuple[tuple[int, Method], ...]:
    """Return pairs: up to how many rows of x, and how to multiply."""
    if method is None:
        return tuple((int(min(row.columns, _MOST)), matrix.method(row.columns)) for row in THRESHOLDS[device_target()])
    if method not in LAYER_METHODS:
        raise ValueError(f"SparseDense: method must be one of {', '.join(LAYER_METHODS)}, got {method}")
    return ((_MOST, Method(method, "given")),)


@ms.constexpr  # type: ignore[untyped-decorator]
def _name_of(methods: tuple[tuple[int, Method], ...], rows: int) -> str:
    """Return the method for so many rows; if a graph does not know the number (-1), the one for the most rows."""
    return next((method[0] for most, method in methods if 0 <= rows <= most), methods[-1][1][0])


def _transposed(x: Tensor) -> Tensor:
    """Transpose x, in float, which MindSpore's operator for a CPU needs; a row or a column lies as it is."""
    if 1 in x.shape:
        return x.reshape(x.shape[::-1])
    return x.astype(ms.float32).swapaxes(0, 1).astype(x.dtype)


def _add(x: Tensor, bias: Tensor) -> Tensor:
    """Add in float32, as the gradient of the bias is a sum, which MindSpore's CPU does not have of bfloat16."""
    return (x.astype(ms.float32) + bias.astype(ms.float32)).astype(x.dtype)


def _first_rows(x: Tensor, rows: int) -> Tensor:
    return x.astype(ms.float32)[:rows].astype(x.dtype)


def _more_rows(x: Tensor, rows: int) -> Tensor:
    """Append rows of zeros."""
    return ops.cat((x.astype(ms.float32), ops.zeros((rows, x.shape[1]), ms.float32))).astype(x.dtype)


def _suits(weight: Tensor, density: float | None) -> bool:
    """Tell whether a weight has values, and few of them, unless it is going to be pruned."""
    if not (weight.astype(ms.float32).asnumpy() != 0).any():
        return False
    return density is not None or bool(CSR.of(Tensor(weight)).method(math.inf).name != "dense")


def _pruned(weight: Tensor, density: float) -> Tensor:
    """Keep the largest magnitudes and set the others to zero; of equal ones keep the first."""
    values = weight.astype(ms.float32).asnumpy()
    kept = max(1, round(values.size * density))
    chosen = np.argsort(-np.abs(values).ravel(), kind="stable")[:kept]
    mask = np.zeros(values.size, bool)
    mask[chosen] = True
    return Tensor(np.where(mask.reshape(values.shape), values, np.float32(0))).astype(weight.dtype)
