"""A mixture of experts as a layer."""

from __future__ import annotations

from typing import Any

import mindspore as ms
from mindspore import Tensor, nn
from mindspore import ops as stock
from ms_ascend_ops.cells.parameters import Init, make_parameter, one_size

from ms_ascend_ops import registry
from ms_ascend_ops.ops.grouped_matmul import grouped_matmul
from ms_ascend_ops.ops.matmul import matmul
from ms_ascend_ops.ops.moe_gating_top_k import moe_gating_top_k
from ms_ascend_ops.ops.moe_token_permute import moe_token_permute
from ms_ascend_ops.ops.moe_token_unpermute import moe_token_unpermute
from ms_ascend_ops.ops.silu_mul import silu_mul

__all__ = ["MoEFeedForward"]

# How networks call the three products of an expert: gate, up, down.
_NAMES = (("gate_proj", "up_proj", "down_proj"), ("w1", "w3", "w2"))


class MoEFeedForward(nn.Cell):  # type: ignore[misc]
    r"""A feed-forward layer of experts with SwiGLU, of which every token takes the best k.

    .. math::
        y = \sum_{j \in topk} weights_j \cdot (\mathrm{silu}(x \, gate_j^T) \cdot (x \, up_j^T)) \, down_j^T

    Tokens are brought into the order of their experts, and all experts are three grouped products: no expert waits for
    another, and which token goes where is known to the device alone.

    Args:
        hidden_size: elements of a token, h.
        intermediate_size: elements between the products of an expert, i.
        num_experts: e.
        k, scoring, renormalize, group_count, k_group, group_score, scale: as those of `ops.moe_gating_top_k`.
        has_bias: the scores by which experts are picked have a bias (DeepSeek-V3's `e_score_correction_bias`), a
            parameter that no gradient changes.
        router_weight_init, gate_weight_init, up_weight_init, down_weight_init: initial values, or Parameters.
        dtype: of the parameters, but for the bias, which is float32.

    Parameters:
        router_weight: shape (e, h), as nn.Dense keeps it.
        gate_weight, up_weight: shape (e, i, h).
        down_weight: shape (e, h, i).
        router_bias: Tensor[float32], shape (e,), with `has_bias`.

    Inputs:
        x: Tensor[dtype of the parameters], shape (..., h).

    Outputs:
        y: Tensor[dtype of x], shape of x.
        logits: Tensor[dtype of x], shape (tokens, e): those of the router, of which auxiliary losses are made.

    Raises:
        TypeError: a size is no int.
        ValueError: a size below 1, or experts that `ops.moe_gating_top_k` refuses.

    Products are accumulated in float32, weights are calculated in float32. Results do not change from run to run.

    Source: Jiang et al., Mixtral of Experts, 2024.
    """

    def __init__(
        self,
        hidden_size: int,
        intermediate_size: int,
        num_experts: int,
        k: int = 2,
        scoring: str = "softmax",
        renormalize: bool = True,
        group_count: int = 1,
        k_group: int = 1,
        group_score: str = "max",
        scale: float = 1.0,
        has_bias: bool = False,
        router_weight_init: Init = "normal",
        gate_weight_init: Init = "normal",
        up_weight_init: Init = "normal",
        down_weight_init: Init = "normal",
        dtype: ms.dtype = ms.float32,
    ):
        super().__init__()
        name = type(self).__name__
        hidden, inner = (
            one_size(name, *size) for size in (("hidden_size", hidden_size), ("intermediate_size", intermediate_size))
        )
        experts = one_size(name, "num_experts", num_experts)
        values = {
            "k": k,
            "scoring": scoring,
            "renormalize": renormalize,
            "group_count": group_count,
            "k_group": k_group,
            "group_score": group_score,
            "scale": scale,
        }
        signature = registry.signature("moe_gating_top_k")
        self.gating = tuple(signature.attribute(key).check(name, value) for key, value in values.items())
        self.num_experts = experts
        self.hidden_size = hidden
        self.router_weight = make_parameter(
            name, "router_weight_init", router_weight_init, (experts, hidden), dtype, "router_weight"
        )
        self.gate_weight = make_parameter(
            name, "gate_weight_init", gate_weight_init, (experts, inner, hidden), dtype, "gate_weight"
        )
        self.up_weight = make_parameter(
            name, "up_weight_init", up_weight_init, (experts, inner, hidden), dtype, "up_weight"
        )
        self.down_weight = make_parameter(
            name, "down_weight_init", down_weight_init, (experts, hidden, inner), dtype, "down_weight"
        )
        self.router_bias = None
        if has_bias:
            self.router_bias = make_parameter(name, "router_bias", "zeros", (experts,), ms.float32, "router_bias")
            self.router_bias.requires_grad = False

    @classmethod
    def of(cls, block: nn.Cell, **gating: Any) -> MoEFeedForward:
        """The layer of a block as Mixtral and Qwen3-MoE have it, with copies of its weights.

        Args:
            block: a cell with `gate`, an nn.Dense without bias, and `experts`, cells that each have three of them:
                `gate_proj`, `up_proj`, `down_proj`, or `w1`, `w3`, `w2`; SiLU is between them.
            gating: attributes of `ops.moe_gating_top_k`. Without them k is `top_k` of the block, and `renormalize` its
                `norm_topk_prob`, or True where it has none.

        Raises:
            ValueError: the block has another form.
        """
        experts = list(getattr(block, "experts", ()))
        named = [n for n in _NAMES if experts and all(hasattr(e, part) for e in experts for part in n)]
        if not named or not hasattr(block, "gate"):
            raise ValueError(
                f"{cls.__name__}.of: the block must have `gate` and `experts` of three products each,"
                f" got {type(block).__name__}"
            )
        parts = [[getattr(expert, part) for expert in experts] for part in named[0]]
        for dense in [block.gate, *(dense for part in parts for dense in part)]:
            if getattr(dense, "bias", None) is not None and getattr(dense, "has_bias", True):
                raise ValueError(f"{cls.__name__}.of: products must have no bias, got {type(dense).__name__} with one")
        stacked = [ms.Parameter(stock.stack([dense.weight.value() for dense in part])) for part in parts]
        gating.setdefault("k", getattr(block, "top_k", 2))
        gating.setdefault("renormalize", bool(getattr(block, "norm_topk_prob", True)))
        router, (gate, up, down) = block.gate.weight, stacked
        for parameter, name in zip(stacked, ("gate_weight", "up_weight", "down_weight"), strict=True):
            parameter.name = name
        layer = cls(
            router.shape[1],
            gate.shape[1],
            len(experts),
            router_weight_init=ms.Parameter(router.value(), name="router_weight"),
            gate_weight_init=gate,
            up_weight_init=up,
            down_weight_init=down,
            dtype=router.dtype,
            **gating,
        )
        layer.set_train(block.training)
        return layer

    def construct(self, x: Tensor) -> tuple[Tensor, Tensor]:
        tokens = x if x.ndim == 2 else x.reshape(-1, self.hidden_size)
        logits = matmul(tokens, self.router_weight, None, False, True)
        weights, experts = moe_gating_top_k(logits, self.router_bias, *self.gating)
        rows, places, ends = moe_token_permute(tokens, experts, self.num_experts)
        gate = grouped_matmul(rows, self.gate_weight, ends, True)
        up = grouped_matmul(rows, self.up_weight, ends, True)
        rows = grouped_matmul(silu_mul(gate, up), self.down_weight, ends, True)
        y = moe_token_unpermute(rows, places, weights)
        return (y if x.ndim == 2 else y.reshape(x.shape)), logits

    def extend_repr(self) -> str:
        experts, inner, hidden = self.gate_weight.shape
        return f"hidden_size={hidden}, intermediate_size={inner}, num_experts={experts}, k={self.gating[0]}"
