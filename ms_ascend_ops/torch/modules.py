"""Provides layers for PyTorch. Those that PyTorch has, too, are subclasses with its arguments and parameter names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ms_ascend_ops import registry
from ms_ascend_ops.torch import functions
from ms_ascend_ops.torch.versions import GROUP_NORM_HAS_BIAS, default_epsilon

__all__ = ["GEGLU", "GELU", "AddRMSNorm", "GroupNorm", "LayerNorm", "RMSNorm", "SwiGLU"]


class RMSNorm(nn.RMSNorm):  # type: ignore[misc]
    r"""Normalizes by the root mean square over the last axis, with the arguments of `torch.nn.RMSNorm`.

    .. math::
        y = \frac{x}{\sqrt{\mathrm{mean}(x^2) + \epsilon}} \cdot \mathrm{weight}

    Args:
        normalized_shape: size of the last axis, as an int or a shape of one int.
        eps: added to the mean square, inside the root; > 0. None: that of float32 in every dtype, as
            PyTorch has it; before 2.7: of the dtype of x.
        elementwise_affine: whether there is a weight.
        device: of the weight.
        dtype: of the weight.
        scheme: where half precision rounds: "round_then_scale", or "one_plus_gamma", which scales by 1 + weight, too;
            see `ops.rms_norm`.

    Inputs:
        x: Tensor[float16 | bfloat16 | float32], shape (..., normalized_shape).

    Outputs:
        Tensor[dtype of x], shape of x.

    Raises:
        TypeError: an argument has a wrong type.
        ValueError: an argument has a value that is not allowed, or normalized_shape has several sizes.

    Sums are accumulated in float32.
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        scheme: str = "round_then_scale",
    ):
        layer = type(self).__name__
        super().__init__(normalized_shape, eps, elementwise_affine, device, dtype)
        if len(self.normalized_shape) != 1:
            raise ValueError(f"{layer}: normalized_shape must be one size, got {tuple(self.normalized_shape)}")
        signature = registry.signature("rms_norm")
        if eps is not None:
            signature.attribute("epsilon").check(layer, eps, "eps")
        self.scheme = signature.attribute("scheme").check(layer, scheme)

    def forward(self, x: Tensor) -> Tensor:
        return functions.rms_norm(x, self._gamma(x), self._epsilon(x), self.scheme)[0]  # type: ignore[no-any-return]

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, scheme='{self.scheme}'"

    def _gamma(self, x: Tensor) -> Tensor:
        if self.weight is not None:
            return self.weight  # type: ignore[no-any-return]
        ones = x.new_ones if self.scheme == "round_then_scale" else x.new_zeros
        return ones(self.normalized_shape)  # type: ignore[no-any-return]

    def _epsilon(self, x: Tensor) -> float:
        return default_epsilon(x.dtype) if self.eps is None else self.eps  # type: ignore[no-any-return]


class AddRMSNorm(RMSNorm):
    """Adds a residual and normalizes the sum by its root mean square in one pass. Arguments are those of RMSNorm.

    Inputs:
        x: Tensor[float16 | bfloat16 | float32], shape (..., normalized_shape).
        residual: Tensor[dtype of x], shape of x.

    Outputs:
        y: Tensor[dtype of x], the norm of the sum.
        sum: Tensor[dtype of x], x + residual.

    Sums are accumulated in float32.
    """

    def forward(self, x: Tensor, residual: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        y, _, total = functions.add_rms_norm(x, residual, self._gamma(x), self._epsilon(x), self.scheme)
        return y, total


class LayerNorm(nn.LayerNorm):  # type: ignore[misc]
    r"""Normalizes over trailing axes (layer normalization), with the arguments of `torch.nn.LayerNorm`.

    .. math::
        y = \frac{x - \mathrm{mean}}{\sqrt{\mathrm{var} + \epsilon}} \cdot \mathrm{weight} + \mathrm{bias}

    Inputs:
        x: Tensor[float16 | bfloat16 | float32], shape (..., *normalized_shape).

    Outputs:
        Tensor[dtype of x], shape of x.

    Calculated in float32; see `ops.layer_norm`.
    """

    def forward(self, x: Tensor) -> Tensor:
        weight = x.new_ones(self.normalized_shape) if self.weight is None else self.weight
        return functions.layer_norm(x, weight, self.bias, self.eps)[0]


class GroupNorm(nn.GroupNorm):  # type: ignore[misc]
    """Normalizes by groups, with the arguments of `torch.nn.GroupNorm`, and an activation and channels last besides.

    Args:
        num_groups: as there.
        num_channels: as there.
        eps: as there.
        affine: as there.
        device: as there.
        dtype: as there.
        activation: of the result, "none", "silu" or "relu".
        data_format: "NCHW", or "NHWC": channels are the last axis.
        bias: as there.

    Inputs:
        x: Tensor[float16 | bfloat16 | float32], shape (n, c, ...) or (n, ..., c).

    Outputs:
        Tensor[dtype of x], shape of x.

    Calculated in float32; see `ops.group_norm`.
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        activation: str = "none",
        data_format: str = "NCHW",
        *,
        bias: bool = True,
    ):
        options = {"bias": bias} if GROUP_NORM_HAS_BIAS else {}
        super().__init__(num_groups, num_channels, eps, affine, device, dtype, **options)
        if not bias:
            self.register_parameter("bias", None)
        signature = registry.signature("group_norm")
        self.activation = signature.attribute("activation").check("GroupNorm", activation)
        self.data_format = signature.attribute("data_format").check("GroupNorm", data_format)

    def forward(self, x: Tensor) -> Tensor:
        weight, bias = self.weight, self.bias
        if weight is None:
            weight = x.new_ones(self.num_channels)
        if bias is None:
            bias = torch.zeros_like(weight)
        attributes = self.num_groups, self.eps, self.activation, self.data_format
        return functions.group_norm(x, weight, bias, *attributes)[0]

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, activation='{self.activation}', data_format='{self.data_format}'"


class GELU(nn.GELU):  # type: ignore[misc]
    """Computes the Gaussian error linear unit, with the argument of `torch.nn.GELU`: approximate, "none" or "tanh".

    Computed in float32 and rounded once.
    """

    def forward(self, x: Tensor) -> Tensor:
        return functions.gelu(x, self.approximate)  # type: ignore[no-any-return]


class SwiGLU(nn.Module):  # type: ignore[misc]
    r"""Computes a SiLU-gated linear unit, of one tensor that holds gate and up or of two: silu(gate) * up.

    Args:
        axis: the axis that holds gate and up when one tensor is given.
        interleaved: False: the first half of the axis is gate, the second up. True: they alternate, gate first.

    Computed in float32 and rounded once.
    """

    def __init__(self, axis: int = -1, interleaved: bool = False):
        super().__init__()
        signature = registry.signature("swiglu")
        self.axis = signature.attribute("axis").check("SwiGLU", axis)
        self.interleaved = signature.attribute("interleaved").check("SwiGLU", interleaved)

    def forward(self, gate: Tensor, up: Tensor | None = None) -> Tensor:
        if up is None:
            return functions.swiglu(gate, self.axis, self.interleaved)  # type: ignore[no-any-return]
        return functions.silu_mul(gate, up)  # type: ignore[no-any-return]

    def extra_repr(self) -> str:
        return f"axis={self.axis}, interleaved={self.interleaved}"


class GEGLU(nn.Module):  # type: ignore[misc]
    r"""Computes a GELU-gated linear unit, of one tensor that holds gate and up or of two: gelu(gate) * up.

    Args:
        axis: the axis that holds gate and up when one tensor is given.
        activate_left: False: the second half is the gate. True: the first one.
        approximate: "none" or "tanh".

    Computed in float32 and rounded once.
    """

    def __init__(self, axis: int = -1, activate_left: bool = False, approximate: str = "none"):
        super().__init__()
        signature = registry.signature("geglu")
        self.axis = signature.attribute("axis").check("GEGLU", axis)
        self.activate_left = signature.attribute("activate_left").check("GEGLU", activate_left)
        self.approximate = signature.attribute("approximate").check("GEGLU", approximate)

    def forward(self, gate: Tensor, up: Tensor | None = None) -> Tensor:
        if up is None:
            return functions.geglu(gate, self.axis, self.activate_left, self.approximate)  # type: ignore[no-any-return]
        return functions.gelu_mul(gate, up, self.approximate)  # type: ignore[no-any-return]

    def extra_repr(self) -> str:
        return f"axis={self.axis}, activate_left={self.activate_left}, approximate='{self.approximate}'"
