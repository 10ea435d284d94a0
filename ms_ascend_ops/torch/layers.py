"""Provides layers without state, for `kernelize` of Hugging Face's `kernels`: it puts their `forward` into a
network's layers.

They read the weights of the layer that they stand in, under the names that `transformers` gives them. Each is named as
the kernels of the Hub are.
"""

from __future__ import annotations

from torch import Tensor, nn

from ms_ascend_ops.torch import functions

__all__ = ["MLP", "GeluAndMul", "LayerNorm", "RMSNorm", "SiluAndMul"]


class RMSNorm(nn.Module):  # type: ignore[misc]
    """Replaces `LlamaRMSNorm` and its like: `weight` and `variance_epsilon`."""

    can_torch_compile = True

    def forward(self, hidden_states: Tensor) -> Tensor:
        y: Tensor = functions.rms_norm(hidden_states, self.weight, self.variance_epsilon)[0]
        return y


class LayerNorm(nn.Module):  # type: ignore[misc]
    """Replaces `torch.nn.LayerNorm` with a weight and a bias."""

    can_torch_compile = True

    def forward(self, input: Tensor) -> Tensor:
        return functions.layer_norm(input, self.weight, self.bias, self.eps)[0]


class MLP(nn.Module):  # type: ignore[misc]
    """Replaces `LlamaMLP` and its like with SiLU: `gate_proj`, `up_proj` and `down_proj`."""

    can_torch_compile = True

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.down_proj(functions.silu_mul(self.gate_proj(x), self.up_proj(x)))
        return y


class SiluAndMul(nn.Module):  # type: ignore[misc]
    """Computes silu(gate) * up of a tensor that holds both."""

    can_torch_compile = True

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = functions.swiglu(x)
        return y


class GeluAndMul(nn.Module):  # type: ignore[misc]
    """Computes gelu(gate) * up of a tensor that holds both, the gate first."""

    can_torch_compile = True

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = functions.geglu(x, -1, True)
        return y
