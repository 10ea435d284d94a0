"""Provides LayerNorm as a layer."""

from __future__ import annotations

from collections.abc import Sequence

import mindspore as ms
from mindspore import Tensor, nn, ops
from ms_ascend_ops.cells.parameters import Init, eps_or_epsilon, make_parameter

from ms_ascend_ops import registry
from ms_ascend_ops.ops.layer_norm import layer_norm

__all__ = ["LayerNorm"]


class LayerNorm(nn.Cell):  # type: ignore[misc]
    r"""Normalizes over trailing axes (layer normalization), with the arguments of `nn.LayerNorm`.

    .. math::
        y = \frac{x - \mathrm{mean}}{\sqrt{\mathrm{var} + \epsilon}} \cdot \gamma + \beta

    Args:
        normalized_shape: shape of gamma and beta: the trailing axes of x from begin_params_axis on.
        begin_norm_axis: the first axis that is normalized over; negative counts from the end.
        begin_params_axis: the first axis that gamma and beta have; it is not before begin_norm_axis.
        gamma_init: initial gamma: a value, the name of an initializer, an Initializer or a Tensor. A Parameter becomes
            the layer's gamma itself, with its name.
        beta_init: initial beta, as gamma_init.
        epsilon: added to the variance, inside the root; > 0. `eps` is another name of it.
        dtype: dtype of gamma and beta, unless Parameters are given.
        activation: of the result: "none" or "relu".

    Inputs:
        x: Tensor[float16 | bfloat16 | float32], shape (..., *normalized_shape).

    Outputs:
        Tensor[dtype of x], shape of x.

    Raises:
        TypeError: an argument has a wrong type.
        ValueError: an argument has a value that is not allowed, a Parameter another shape than normalized_shape, or the
            axes do not fit normalized_shape and x.

    Calculated in float32; see `ops.layer_norm`.

    Source: Ba, Kiros and Hinton, Layer Normalization, 2016.
    """

    @eps_or_epsilon  # type: ignore[untyped-decorator]
    def __init__(
        self,
        normalized_shape: Sequence[int],
        begin_norm_axis: int = -1,
        begin_params_axis: int = -1,
        gamma_init: Init = "ones",
        beta_init: Init = "zeros",
        epsilon: float = 1e-7,
        dtype: ms.dtype = ms.float32,
        activation: str = "none",
    ):
        super().__init__()
        if not isinstance(normalized_shape, (tuple, list)) or not normalized_shape:
            raise TypeError(
                f"LayerNorm: normalized_shape must be a shape of at least one int, got {normalized_shape!r}"
            )
        if any(isinstance(size, bool) or not isinstance(size, int) for size in normalized_shape):
            raise TypeError(f"LayerNorm: normalized_shape must be a shape of ints, got {normalized_shape!r}")
        if min(normalized_shape) < 1:
            raise ValueError(f"LayerNorm: normalized_shape must have sizes >= 1, got {normalized_shape!r}")
        for name, axis in (("begin_norm_axis", begin_norm_axis), ("begin_params_axis", begin_params_axis)):
            if isinstance(axis, bool) or not isinstance(axis, int):
                raise TypeError(f"LayerNorm: {name} must be an int, got {type(axis).__name__}")
        self.normalized_shape = tuple(normalized_shape)
        self.begin_norm_axis = begin_norm_axis
        self.begin_params_axis = begin_params_axis
        signature = registry.signature("layer_norm")
        self.epsilon = signature.attribute("epsilon").check("LayerNorm", epsilon)
        self.activation = signature.attribute("activation").check("LayerNorm", activation)
        self.gamma = make_parameter("LayerNorm", "gamma_init", gamma_init, self.normalized_shape, dtype, "gamma")
        self.beta = make_parameter("LayerNorm", "beta_init", beta_init, self.normalized_shape, dtype, "beta")

    def construct(self, x: Tensor) -> Tensor:
        gamma, beta = self.gamma, self.beta
        wider = self._axes_before_gamma(len(x.shape))
        if wider > 0:
            shape = x.shape[-wider - len(self.normalized_shape) :]
            gamma, beta = ops.broadcast_to(gamma, shape), ops.broadcast_to(beta, shape)
        return layer_norm(x, gamma, beta, self.epsilon, self.activation)[0]

    def _axes_before_gamma(self, rank: int) -> int:
        """Return how many axes are normalized over that gamma does not have."""
        norm, params = self.begin_norm_axis, self.begin_params_axis
        norm = rank - norm if norm >= 0 else -norm
        params = rank - params if params >= 0 else -params
        if params != len(self.normalized_shape):
            raise ValueError(
                f"LayerNorm: begin_params_axis must leave the {len(self.normalized_shape)} axes of normalized_shape, "
                f"got {self.begin_params_axis} for x of {rank} dims"
            )
        if not params <= norm <= rank:
            raise ValueError(
                f"LayerNorm: begin_norm_axis must be an axis of x, not after begin_params_axis, "
                f"got {self.begin_norm_axis} for x of {rank} dims"
            )
        return norm - params

    def extend_repr(self) -> str:
        axes = f"begin_norm_axis={self.begin_norm_axis}, begin_params_axis={self.begin_params_axis}"
        return f"{self.normalized_shape}, {axes}, epsilon={self.epsilon}, activation='{self.activation}'"
