"""Provides a convolution in two dims as a layer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import mindspore as ms
from mindspore import Tensor, nn
from mindspore.common.initializer import HeUniform, Uniform
from ms_ascend_ops.cells.exchange import exchange, named_as_before
from ms_ascend_ops.cells.parameters import Init, make_parameter, one_size

from ms_ascend_ops import registry
from ms_ascend_ops.ops.conv2d import conv2d

__all__ = ["Conv2d", "is_convolution", "settings"]

_PAD_MODES = ("same", "valid", "pad")


class Conv2d(nn.Cell):  # type: ignore[misc]
    r"""Convolves in two dims, with the arguments of `nn.Conv2d` and an activation.

    .. math::
        y = \mathrm{act}(weight * x + bias)

    Args:
        in_channels: channels of x, a multiple of group.
        out_channels: channels of the output, a multiple of group.
        kernel_size: an int or (rows, columns), as stride and dilation.
        stride: step between two positions of the kernel.
        pad_mode: "same": zeros around x so that the output has as many rows and columns as x, divided by the stride and
            rounded up; of an odd number the larger part is below and to the right. "valid": none. "pad": `padding`.
        padding: an int, or (top, bottom, left, right).
        dilation: distance of two elements of the kernel.
        group: groups of channels that have nothing to do with each other.
        has_bias: whether there is a bias.
        weight_init: initial weight: a value, the name of an initializer, an Initializer or a Tensor; None: as
            `nn.Conv2d` has it. A Parameter becomes the layer's weight itself, with its name.
        bias_init: initial bias, as weight_init.
        data_format: "NCHW": channels are axis 1, the weight is (out, in / group, rows, columns); "NHWC": the last axis,
            the weight is (out, rows, columns, in / group). `nn.Conv2d` has that on a GPU only.
        dtype: dtype of weight and bias, unless Parameters are given.
        activation: "none", "relu", "gelu", "gelu_tanh" or "silu".

    Inputs:
        x: Tensor[float16 | bfloat16 | float32], shape (n, in_channels, h, w), or (n, h, w, in_channels).

    Outputs:
        Tensor[dtype of x], shape (n, out_channels, p, q), or (n, p, q, out_channels).

    Raises:
        TypeError: an argument has a wrong type.
        ValueError: an argument has a value that is not allowed, or a Parameter another shape.

    Accumulated in float32; see `ops.conv2d`. In a graph of unknown sizes "same" needs stride 1: else the padding
    follows from the sizes of x.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...] = 1,
        pad_mode: str = "same",
        padding: int | tuple[int, ...] = 0,
        dilation: int | tuple[int, ...] = 1,
        group: int = 1,
        has_bias: bool = False,
        weight_init: Init | None = None,
        bias_init: Init | None = None,
        data_format: str = "NCHW",
        dtype: ms.dtype = ms.float32,
        activation: str = "none",
    ):
        super().__init__()
        signature = registry.signature("conv2d")
        self.in_channels = one_size("Conv2d", "in_channels", in_channels)
        self.out_channels = one_size("Conv2d", "out_channels", out_channels)
        self.kernel_size = _numbers("kernel_size", kernel_size, (2,), 1)
        self.stride = _numbers("stride", stride, (2,), 1)
        self.dilation = _numbers("dilation", dilation, (2,), 1)
        self.padding = _numbers("padding", padding, (4,), 0)
        self.group = one_size("Conv2d", "group", group)
        for name, channels in (("in_channels", self.in_channels), ("out_channels", self.out_channels)):
            if channels % self.group:
                raise ValueError(f"Conv2d: {name} must be a multiple of group ({self.group}), got {channels}")
        if pad_mode not in _PAD_MODES:
            raise ValueError(f"Conv2d: pad_mode must be 'same', 'valid' or 'pad', got {pad_mode!r}")
        if pad_mode != "pad" and any(self.padding):
            raise ValueError(f"Conv2d: padding must be 0 with pad_mode '{pad_mode}', got {padding!r}")
        if not isinstance(has_bias, bool):
            raise TypeError(f"Conv2d: has_bias must be a bool, got {type(has_bias).__name__}")
        self.pad_mode = pad_mode
        self.has_bias = has_bias
        self.activation = signature.attribute("activation").check("Conv2d", activation)
        self.data_format = signature.attribute("data_format").check("Conv2d", data_format)
        ins = self.in_channels // self.group
        inner = (ins, *self.kernel_size) if self.data_format == "NCHW" else (*self.kernel_size, ins)
        weight_init = HeUniform(math.sqrt(5)) if weight_init is None else weight_init
        self.weight = make_parameter("Conv2d", "weight_init", weight_init, (self.out_channels, *inner), dtype, "weight")
        self.bias = None
        if has_bias:
            bias_init = Uniform(1 / math.sqrt(math.prod(inner))) if bias_init is None else bias_init
            self.bias = make_parameter("Conv2d", "bias_init", bias_init, (self.out_channels,), dtype, "bias")

    @classmethod
    def of(cls, layer: nn.Cell, activation: str = "none") -> Conv2d:
        """Return the layer in the place of `nn.Conv2d` or `mint.nn.Conv2d`, with its parameters themselves.

        Args:
            layer: the convolution; it is not changed.
            activation: what stands behind it: "none", "relu", "gelu", "gelu_tanh" or "silu".

        Raises:
            TypeError: it is neither.
            ValueError: it has a padding of other values than zeros.
        """
        name = type(layer).__name__
        if not is_convolution(layer):
            raise TypeError(f"Conv2d.of: the layer must be nn.Conv2d or mint.nn.Conv2d, got {name}")
        found = settings(layer)
        if found is None:
            raise ValueError(f"Conv2d.of: padding_mode must be 'zeros', got {layer.padding_mode!r}")
        named = isinstance(found["padding"], str)
        pad_mode, padding = (found["padding"], 0) if named else ("pad", found["padding"])

        def make() -> Conv2d:
            return cls(
                layer.in_channels, layer.out_channels, tuple(layer.kernel_size), found["stride"], pad_mode, padding,
                found["dilation"], found["groups"], layer.bias is not None, layer.weight, layer.bias,
                found["data_format"], activation=activation,
            )  # fmt: skip

        return named_as_before(make, list(layer.get_parameters())).set_train(layer.training)  # type: ignore[no-any-return]

    @classmethod
    def replace(cls, network: nn.Cell) -> list[str]:
        """Put the layer in the place of all `nn.Conv2d` and `mint.nn.Conv2d` of a network that pad with zeros.

        `optimize` at O3 does so, too, with the activations behind them, and compares. On a CPU a training step with a
        stride may take longer than with stock layers (docs/convolution.md).

        Args:
            network: a cell, changed in place. Parameters keep their names.

        Returns:
            The names of the cells that were replaced.
        """
        found = {
            name: cls.of(cell)
            for name, cell in network.cells_and_names()
            if name and is_convolution(cell) and settings(cell) is not None
        }
        return exchange(network, found)

    def construct(self, x: Tensor) -> Tensor:
        weight = self.weight
        if weight.dtype != x.dtype:  # of mixed precision
            weight = weight.astype(x.dtype)
        return conv2d(
            x, weight, self.bias, self.stride, self.padding if self.pad_mode == "pad" else self.pad_mode, self.dilation,
            self.group, self.activation, self.data_format,
        )  # fmt: skip

    def extend_repr(self) -> str:
        form = f"activation='{self.activation}', data_format='{self.data_format}'"
        sizes = f"{self.in_channels}, {self.out_channels}, {self.kernel_size}, stride={self.stride}"
        pads = f"pad_mode='{self.pad_mode}', padding={self.padding}, dilation={self.dilation}"
        return f"{sizes}, {pads}, group={self.group}, has_bias={self.has_bias}, {form}"


def is_convolution(cell: nn.Cell) -> bool:
    """Tell whether it is MindSpore's own, not of a derived class: that may compute something else."""
    return type(cell).__name__ == "Conv2d" and type(cell).__module__.startswith("mindspore.")


def settings(layer: nn.Cell) -> dict[str, Any] | None:
    """Return arguments of `ops.conv2d` for a layer of MindSpore, beside tensors; None if it pads with something else
    than zeros.
    """
    if getattr(layer, "padding_mode", "zeros") != "zeros":
        return None
    mode, padding = getattr(layer, "pad_mode", "pad"), layer.padding
    padding = (padding,) * 4 if isinstance(padding, int) else padding
    if not isinstance(padding, str):
        padding = mode if mode != "pad" else tuple(n for n in padding for _ in range(4 // len(padding)))
    return {
        "stride": tuple(layer.stride),
        "padding": padding,
        "dilation": tuple(layer.dilation),
        "groups": getattr(layer, "group", None) or layer.groups,
        "data_format": getattr(layer, "data_format", "NCHW"),
    }


def _numbers(name: str, value: Any, counts: tuple[int, ...], least: int) -> tuple[int, ...]:
    if isinstance(value, int) and not isinstance(value, bool):
        value = (value,) * counts[0]
    if not isinstance(value, Sequence) or any(isinstance(n, bool) or not isinstance(n, int) for n in value):
        raise TypeError(f"Conv2d: {name} must be an int or a tuple of ints, got {value!r}")
    if len(value) not in counts:
        raise ValueError(f"Conv2d: {name} must be an int or {counts[0]} of them, got {value!r}")
    if min(value) < least:
        raise ValueError(f"Conv2d: {name} must be at least {least}, got {value!r}")
    return tuple(value)
