"""Provides a convolution in two dims and group normalization of its result as one layer."""

from __future__ import annotations

import mindspore as ms
from mindspore import Tensor, nn
from ms_ascend_ops.cells.conv2d import Conv2d
from ms_ascend_ops.cells.exchange import named_as_before
from ms_ascend_ops.cells.group_norm import GroupNorm
from ms_ascend_ops.cells.parameters import Init, eps_or_epsilon

from ms_ascend_ops.ops.conv2d_group_norm import conv2d_group_norm

__all__ = ["Conv2dGroupNorm"]


class Conv2dGroupNorm(nn.Cell):  # type: ignore[misc]
    r"""Convolves in two dims, adds a tensor, and normalizes the sum by groups, with an activation.

    .. math::
        z &= weight * x + bias + shift + residual \\
        y &= \mathrm{act}\left(\frac{z - \mathrm{mean}}{\sqrt{\mathrm{var} + \epsilon}} \cdot \gamma + \beta\right)

    It has the layers `convolution`, a `Conv2d`, and `norm`, a `GroupNorm`, for their parameters.

    Args:
        in_channels: channels of x, a multiple of group.
        out_channels: channels of the output, a multiple of group and of num_groups.
        kernel_size: an int or (rows, columns), as stride and dilation.
        num_groups: groups of channels that are normalized together.
        stride: step between two positions of the kernel.
        pad_mode: "same", "valid" or "pad", as `Conv2d` has it.
        padding: an int, or (top, bottom, left, right).
        dilation: distance of two elements of the kernel.
        group: groups of channels of the convolution.
        has_bias: whether there is a bias.
        epsilon: added to the variance, inside the root; > 0. `eps` is another name of it.
        weight_init: initial weight: a value, the name of an initializer, an Initializer or a Tensor; None: as
            `nn.Conv2d` has it. A Parameter becomes the layer's weight itself, with its name.
        bias_init: initial bias, as weight_init.
        gamma_init: initial gamma, as weight_init.
        beta_init: initial beta, as weight_init.
        data_format: "NCHW": channels are axis 1; "NHWC": the last axis.
        dtype: dtype of the parameters, unless Parameters are given.
        activation: "none", "silu" or "relu".
        with_z: whether z is an output, too: what the next block adds its result to.

    Inputs:
        x: Tensor[float16 | bfloat16 | float32], shape (n, in_channels, h, w), or (n, h, w, in_channels).
        shift: Tensor[dtype of x], shape (n, out_channels), which is added at all positions; or None.
        residual: Tensor[dtype of x], shape of the output; or None.

    Outputs:
        y: Tensor[dtype of x], shape (n, out_channels, p, q), or (n, p, q, out_channels).
        z: Tensor[dtype of x], shape of y, if `with_z`.

    Raises:
        TypeError: an argument has a wrong type.
        ValueError: an argument has a value that is not allowed, or a Parameter another shape.

    See `ops.conv2d_group_norm`.
    """

    @eps_or_epsilon  # type: ignore[untyped-decorator]
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        num_groups: int,
        stride: int | tuple[int, ...] = 1,
        pad_mode: str = "same",
        padding: int | tuple[int, ...] = 0,
        dilation: int | tuple[int, ...] = 1,
        group: int = 1,
        has_bias: bool = False,
        epsilon: float = 1e-5,
        weight_init: Init | None = None,
        bias_init: Init | None = None,
        gamma_init: Init = "ones",
        beta_init: Init = "zeros",
        data_format: str = "NCHW",
        dtype: ms.dtype = ms.float32,
        activation: str = "none",
        with_z: bool = False,
    ):
        super().__init__()
        if not isinstance(with_z, bool):
            raise TypeError(f"Conv2dGroupNorm: with_z must be a bool, got {type(with_z).__name__}")
        self.convolution = Conv2d(
            *(in_channels, out_channels, kernel_size, stride, pad_mode, padding, dilation, group, has_bias),
            *(weight_init, bias_init, data_format, dtype),
        )
        self.norm = GroupNorm(
            num_groups, out_channels, epsilon, True, gamma_init, beta_init, dtype, activation, data_format
        )
        self.with_z = with_z

    @classmethod
    def of(cls, convolution: nn.Cell, norm: nn.Cell, activation: str = "none", with_z: bool = False) -> Conv2dGroupNorm:
        """Return the layer in the place of two, with their parameters themselves.

        Args:
            convolution: `nn.Conv2d`, `mint.nn.Conv2d`, or `Conv2d` without activation.
            norm: `nn.GroupNorm`, `mint.nn.GroupNorm`, or `GroupNorm` without activation, of channels first or last as
                the convolution.
            activation: what is behind the norm.
            with_z: whether z is an output, too.

        Raises:
            TypeError: a layer is something else.
            ValueError: the convolution has an activation or pads with something else than zeros; the norm has an
                activation, or is of another number of channels or of another data format.
        """
        if not isinstance(convolution, Conv2d):
            convolution = Conv2d.of(convolution)
        norm = _norm_of(norm, convolution.data_format)
        for layer, name in ((convolution, "convolution"), (norm, "norm")):
            if layer.activation != "none":
                raise ValueError(f"Conv2dGroupNorm.of: the {name} must have no activation, got '{layer.activation}'")
        if norm.num_channels != convolution.out_channels:
            raise ValueError(
                f"Conv2dGroupNorm.of: the norm must be of {convolution.out_channels} channels, got {norm.num_channels}"
            )
        if norm.data_format != convolution.data_format:
            raise ValueError(f"Conv2dGroupNorm.of: the norm must be of {convolution.data_format}")

        def make() -> Conv2dGroupNorm:
            c, n = convolution, norm
            return cls(
                *(c.in_channels, c.out_channels, c.kernel_size, n.num_groups, c.stride, c.pad_mode, c.padding),
                *(c.dilation, c.group, c.has_bias, n.epsilon, c.weight, c.bias, n.gamma, n.beta, c.data_format),
                activation=activation,
                with_z=with_z,
            )

        parameters = [*convolution.get_parameters(), *norm.get_parameters()]
        return named_as_before(make, parameters).set_train(convolution.training)  # type: ignore[no-any-return]

    def construct(
        self, x: Tensor, shift: Tensor | None = None, residual: Tensor | None = None
    ) -> Tensor | tuple[Tensor, Tensor]:
        c, n = self.convolution, self.norm
        weight, bias = c.weight, c.bias
        if weight.dtype != x.dtype:  # of mixed precision
            weight = weight.astype(x.dtype)
        gamma, beta = n.gamma, n.beta
        if gamma.dtype != x.dtype:
            gamma, beta = gamma.astype(ms.float32), beta.astype(ms.float32)
        if bias is not None and bias.dtype != gamma.dtype:
            bias = bias.astype(gamma.dtype)
        padding = c.padding if c.pad_mode == "pad" else c.pad_mode
        y, z, _, _ = conv2d_group_norm(
            *(x, weight, gamma, beta, bias, shift, residual, n.num_groups, c.stride, padding, c.dilation, c.group),
            *(n.epsilon, n.activation, c.data_format),
        )
        return (y, z) if self.with_z else y


def _norm_of(layer: nn.Cell, data_format: str) -> GroupNorm:
    """Return a layer of ours, with the very same parameters."""
    if isinstance(layer, GroupNorm):
        return layer
    kind = type(layer)
    if kind.__name__ != "GroupNorm" or not kind.__module__.startswith("mindspore."):
        raise TypeError(
            f"Conv2dGroupNorm.of: the norm must be nn.GroupNorm, mint.nn.GroupNorm or GroupNorm, got {kind.__name__}"
        )
    gamma, beta = (layer.gamma, layer.beta) if hasattr(layer, "gamma") else (layer.weight, layer.bias)

    def make() -> GroupNorm:
        return GroupNorm(
            *(layer.num_groups, layer.num_channels, layer.eps),
            gamma_init=gamma,
            beta_init=beta,
            data_format=data_format,
        )

    return named_as_before(make, [gamma, beta])  # type: ignore[no-any-return]
