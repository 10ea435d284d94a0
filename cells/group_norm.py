"""Provides GroupNorm as a layer."""

from __future__ import annotations

import mindspore as ms
from mindspore import Tensor, nn
from ms_ascend_ops.cells.parameters import Init, eps_or_epsilon, make_parameter, one_size

from ms_ascend_ops import registry
from ms_ascend_ops.ops.group_norm import group_norm

__all__ = ["GroupNorm"]


class GroupNorm(nn.Cell):  # type: ignore[misc]
    r"""Normalizes by groups, with the arguments of `nn.GroupNorm`, an activation and a data format.

    .. math::
        y = \mathrm{act}\left(\frac{x - \mathrm{mean}}{\sqrt{\mathrm{var} + \epsilon}} \cdot \gamma + \beta\right)

    Args:
        num_groups: number of groups, a divisor of num_channels.
        num_channels: size of the channel axis.
        epsilon: added to the variance, inside the root; > 0. `eps` is another name of it.
        affine: whether gamma and beta are trained.
        gamma_init: initial gamma: a value, the name of an initializer, an Initializer or a Tensor. A Parameter becomes
            the layer's gamma itself, with its name.
        beta_init: initial beta, as gamma_init.
        dtype: dtype of gamma and beta, unless Parameters are given.
        activation: "none", "silu" or "relu".
        data_format: "NCHW": channels are axis 1; "NHWC": the last axis.

    Inputs:
        x: Tensor[float16 | bfloat16 | float32], shape (N, C, ...), or (N, ..., C).

    Outputs:
        Tensor[dtype of x], shape of x.

    Raises:
        TypeError: an argument has a wrong type.
        ValueError: an argument has a value that is not allowed, or a Parameter another shape than (num_channels,).

    Calculated in float32; see `ops.group_norm`.

    Source: Wu and He, Group Normalization, 2018.
    """

    @eps_or_epsilon  # type: ignore[untyped-decorator]
    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        epsilon: float = 1e-5,
        affine: bool = True,
        gamma_init: Init = "ones",
        beta_init: Init = "zeros",
        dtype: ms.dtype = ms.float32,
        activation: str = "none",
        data_format: str = "NCHW",
    ):
        super().__init__()
        signature = registry.signature("group_norm")
        self.num_groups = signature.attribute("num_groups").check("GroupNorm", num_groups)
        self.num_channels = one_size("GroupNorm", "num_channels", num_channels)
        if self.num_channels % self.num_groups:
            raise ValueError(
                f"GroupNorm: num_channels must be a multiple of num_groups ({self.num_groups}), got {self.num_channels}"
            )
        if not isinstance(affine, bool):
            raise TypeError(f"GroupNorm: affine must be a bool, got {type(affine).__name__}")
        self.epsilon = signature.attribute("epsilon").check("GroupNorm", epsilon)
        self.activation = signature.attribute("activation").check("GroupNorm", activation)
        self.data_format = signature.attribute("data_format").check("GroupNorm", data_format)
        shape = (self.num_channels,)
        self.gamma = make_parameter("GroupNorm", "gamma_init", gamma_init, shape, dtype, "gamma")
        self.beta = make_parameter("GroupNorm", "beta_init", beta_init, shape, dtype, "beta")
        if not affine:
            self.gamma.requires_grad = False
            self.beta.requires_grad = False

    def construct(self, x: Tensor) -> Tensor:
        return group_norm(x, self.gamma, self.beta, self.num_groups, self.epsilon, self.activation, self.data_format)[0]

    def extend_repr(self) -> str:
        form = f"activation='{self.activation}', data_format='{self.data_format}'"
        return f"{self.num_groups}, {self.num_channels}, epsilon={self.epsilon}, {form}"
