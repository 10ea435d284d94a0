"""Provides a linear layer."""

from __future__ import annotations

import math

import mindspore as ms
from mindspore import Tensor, mint, nn
from mindspore.common.initializer import HeUniform, Uniform
from ms_ascend_ops.cells.exchange import exchange, named_as_before
from ms_ascend_ops.cells.parameters import Init, make_parameter, one_size

from ms_ascend_ops import registry
from ms_ascend_ops.ops.matmul import matmul

__all__ = ["Dense"]


class Dense(nn.Cell):  # type: ignore[misc]
    r"""Computes a linear layer, with the arguments of `nn.Dense`; the activation sees each tile while it is in cache.

    .. math::
        y = \mathrm{act}(x \, weight^T + bias)

    Args:
        in_channels: size of the last dim of x.
        out_channels: size of the last dim of y.
        weight_init: initial weight: a value, the name of an initializer, an Initializer or a Tensor; None: as
            `nn.Dense` has it. A Parameter becomes the layer's weight itself, with its name.
        bias_init: initial bias, as weight_init.
        has_bias: whether there is a bias.
        activation: None or "none", "relu", "gelu", "gelu_tanh" or "silu".
        dtype: dtype of weight and bias, unless Parameters are given.

    Inputs:
        x: Tensor[float16 | bfloat16 | float32], shape (..., in_channels).

    Outputs:
        Tensor[dtype of x], shape (..., out_channels).

    Raises:
        TypeError: an argument has a wrong type.
        ValueError: an argument has a value that is not allowed, or a Parameter another shape.

    Parameters `weight`, shape (out_channels, in_channels), and `bias`. Accumulated in float32; see `ops.matmul`.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        weight_init: Init | None = None,
        bias_init: Init | None = None,
        has_bias: bool = True,
        activation: str | None = None,
        dtype: ms.dtype = ms.float32,
    ):
        super().__init__()
        self.in_channels = one_size("Dense", "in_channels", in_channels)
        self.out_channels = one_size("Dense", "out_channels", out_channels)
        if not isinstance(has_bias, bool):
            raise TypeError(f"Dense: has_bias must be a bool, got {type(has_bias).__name__}")
        self.has_bias = has_bias
        known = registry.signature("matmul").attribute("activation")
        self.activation = known.check("Dense", "none" if activation is None else activation)
        weight_init = HeUniform(math.sqrt(5)) if weight_init is None else weight_init
        shape = (self.out_channels, self.in_channels)
        self.weight = make_parameter("Dense", "weight_init", weight_init, shape, dtype, "weight")
        self.bias = None
        if has_bias:
            bias_init = Uniform(1 / math.sqrt(self.in_channels)) if bias_init is None else bias_init
            self.bias = make_parameter("Dense", "bias_init", bias_init, shape[:1], dtype, "bias")

    @classmethod
    def of(cls, layer: nn.Cell, activation: str | None = None) -> Dense:
        """Return the layer in the place of an `nn.Dense` without activation or a `mint.nn.Linear`, with its Parameters.

        Args:
            layer: the linear layer; it is not changed.
            activation: what stands behind it, as that of the class; None: nothing.

        Raises:
            TypeError: it is neither.
        """
        if not _is_linear(layer):
            raise TypeError(
                f"Dense.of: the layer must be nn.Dense without activation or mint.nn.Linear, got {type(layer).__name__}"
            )
        out_channels, in_channels = layer.weight.shape

        def make() -> Dense:
            return cls(in_channels, out_channels, layer.weight, layer.bias, layer.bias is not None, activation)

        return named_as_before(make, list(layer.get_parameters())).set_train(layer.training)  # type: ignore[no-any-return]

    @classmethod
    def replace(cls, network: nn.Cell) -> list[str]:
        """Put the layer in the place of all `nn.Dense` without activation and `mint.nn.Linear` of a network.

        `optimize` knows linear layers by their stock classes: call it first, for patterns in which they have a part.

        Args:
            network: a cell, changed in place. Parameters keep their names.

        Returns:
            The names of the cells that were replaced.
        """
        found = {name: cls.of(cell) for name, cell in network.cells_and_names() if name and _is_linear(cell)}
        return exchange(network, found)

    def construct(self, x: Tensor) -> Tensor:
        weight = self.weight
        if weight.dtype != x.dtype:  # of mixed precision
            weight = weight.astype(x.dtype)
        return matmul(x, weight, self.bias, False, True, self.activation)

    def extend_repr(self) -> str:
        return f"{self.in_channels}, {self.out_channels}, has_bias={self.has_bias}, activation='{self.activation}'"


def _is_linear(cell: nn.Cell) -> bool:
    """Tell whether it is MindSpore's own, not of a derived class: that may compute something else."""
    return type(cell) in (nn.Dense, mint.nn.Linear) and getattr(cell, "activation", None) is None
