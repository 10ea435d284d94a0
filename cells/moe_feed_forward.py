"""Provides a mixture of experts as a layer."""

from __future__ import annotations

from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn
from ms_ascend_ops.cells.exchange import exchange
from ms_ascend_ops.cells.expert_blocks import is_block, read_block
from ms_ascend_ops.cells.parameters import Init, make_parameter, one_size

from ms_ascend_ops import registry
from ms_ascend_ops.checks.moe_gating_top_k import check as check_gating
from ms_ascend_ops.ops.grouped_matmul import grouped_matmul
from ms_ascend_ops.ops.matmul import matmul
from ms_ascend_ops.ops.moe_gating_top_k import moe_gating_top_k
from ms_ascend_ops.ops.moe_token_permute import moe_token_permute
from ms_ascend_ops.ops.moe_token_unpermute import moe_token_unpermute
from ms_ascend_ops.ops.silu_mul import silu_mul

__all__ = ["MoEFeedForward"]


class MoEFeedForward(nn.Cell):  # type: ignore[misc]
    r"""Computes a feed-forward layer of experts with SwiGLU, of which every token takes the best k.

    A call returns two tensors, (y, logits), unless `return_logits=False`.

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
        shared_experts: a cell that all tokens pass, too, and whose result is added (DeepSeek-V3's), or None.
        return_logits: the logits of the router are a second output; False: y alone is returned.
        router_weight_init, gate_weight_init, up_weight_init, down_weight_init: initial values, or Parameters.
        dtype: of the parameters, but for the bias, which is float32.
        router_dtype: of the router's parameter, and of its product. None: dtype.

    Parameters:
        router_weight: shape (e, h), as nn.Dense keeps it.
        gate_weight, up_weight: shape (e, i, h).
        down_weight: shape (e, h, i).
        router_bias: Tensor[float32], shape (e,), with `has_bias`.

    Inputs:
        x: Tensor[dtype of the parameters], shape (..., h).

    Outputs:
        y: Tensor[dtype of x], shape of x.
        logits: Tensor[router_dtype], shape (tokens, e): those of the router, of which auxiliary losses are made; with
            `return_logits`.

    Raises:
        TypeError: a size is no int.
        ValueError: a size below 1, or experts that `ops.moe_gating_top_k` refuses.

    Products are accumulated in float32, weights are calculated in float32. Results do not change from run to run.

    Source: Jiang et al., Mixtral of Experts, 2024.
    """

    # Largest allowed difference from a block, for half of the tokens, by 16-bit dtypes and float32.
    close = (5e-2, 1e-3)

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
        shared_experts: nn.Cell | None = None,
        return_logits: bool = True,
        router_weight_init: Init = "normal",
        gate_weight_init: Init = "normal",
        up_weight_init: Init = "normal",
        down_weight_init: Init = "normal",
        dtype: ms.dtype = ms.float32,
        router_dtype: ms.dtype | None = None,
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
        try:
            check_gating([(1, experts)], dict(zip(values, self.gating, strict=True)))
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
        self.num_experts = experts
        self.hidden_size = hidden
        self.shared_experts = shared_experts
        self.return_logits = bool(return_logits)
        router_dtype = router_dtype or dtype
        self.router_weight = make_parameter(
            name, "router_weight_init", router_weight_init, (experts, hidden), router_dtype, "router_weight"
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
        self.dtype = self.gate_weight.dtype
        self.router_bias = None
        if has_bias:
            self.router_bias = make_parameter(name, "router_bias", "zeros", (experts,), ms.float32, "router_bias")
            self.router_bias.requires_grad = False

    @classmethod
    def of(cls, block: nn.Cell, check: bool = True, **arguments: Any) -> MoEFeedForward:
        """Return the layer of a block as Mixtral, Qwen3-MoE and DeepSeek-V3 have it, with copies of its weights.

        Blocks are those of mindone, and of transformers written for MindSpore. MindFormers has no such blocks: its
        experts are products of groups already, which `cpu_builtins` serves.

        Args:
            block: a cell with a router, `gate` or `router`, that has `weight`, shape (e, h), and no `bias`; and with
                `experts`, cells that each have three products without bias: `gate_proj`, `up_proj`, `down_proj`, or
                `w1`, `w3`, `w2`; or one cell with the parameters `gate_up_proj`, shape (e, 2 * i, h), and `down_proj`,
                shape (e, h, i). SiLU is between them. A router with `e_score_correction_bias` is DeepSeek-V3's:
                sigmoid, groups by their best two, in float32. `shared_experts` stay what they are. Where the block has
                no parameter that is trained, the layer has none.
            check: calls block and layer, neither in training, with the same tokens, and compares: blocks may compute
                other things under these names. The layer returns logits if the block returned more than one output.
                Without it nothing is called, and `return_logits` is what arguments say, or False for DeepSeek-V3's.
            arguments: of the layer, in the place of those that the block tells.

        Raises:
            ValueError: the block has another form, or computes something else.

        Where a negative bias makes scores negative, these networks may pick experts of closed groups, whose scores they
        take for 0; this layer does not.
        """
        parts, found = read_block(block, f"{cls.__name__}.of")
        found |= arguments
        found["scale"] = float(found.get("scale", 1.0))
        parts["router_weight"] = parts["router_weight"].astype(found["router_dtype"])
        bias = parts.pop("router_bias", None)
        initial = {f"{key}_init": ms.Parameter(value, name=key) for key, value in parts.items()}
        shared = found["shared_experts"]
        names_of_shared = [] if shared is None else [(p, p.name) for p in shared.get_parameters()]
        experts, inner, hidden = parts["gate_weight"].shape
        layer = cls(hidden, inner, experts, **initial, **found)
        for parameter, own_name in names_of_shared:  # MindSpore puts a prefix in front
            parameter.name = own_name
        if bias is not None and layer.router_bias is not None:
            layer.router_bias.set_data(bias)
        if check:
            layer.return_logits = arguments.get("return_logits", _compare(block, layer))
        layer.set_train(block.training)
        if not block.trainable_params():
            for parameter in layer.own_parameters():
                parameter.requires_grad = False
        return layer

    @classmethod
    def replace(cls, network: nn.Cell, check: bool = True) -> list[str]:
        """Put the layer in the place of all blocks of a network that have `experts`.

        Args:
            network: a cell, changed in place.
            check: as that of `of`.

        Returns:
            The names of the cells that were replaced.

        Raises:
            ValueError: a block has another form, or computes something else; nothing is replaced then.
        """
        found: dict[str, MoEFeedForward] = {}
        for name, cell in network.cells_and_names():
            inside = any(name.startswith(f"{outer}.") for outer in found)
            if name and is_block(cell) and not isinstance(cell, cls) and not inside:
                found[name] = cls.of(cell, check)
        for name, layer in found.items():
            layer.put_into(network, name)
        return list(found)

    def put_into(self, network: nn.Cell, name: str) -> None:
        """Take the place of the cell of this name; the layer's own parameters are called after it.

        Args:
            network: the cell that holds the block, changed in place.
            name: that of the block, as `cells_and_names` has it.
        """
        for parameter in self.own_parameters():
            parameter.name = f"{name}.{parameter.name}"
        exchange(network, {name: self})

    def own_parameters(self) -> list[ms.Parameter]:
        """Return all but those of the shared experts."""
        found = [self.router_weight, self.gate_weight, self.up_weight, self.down_weight, self.router_bias]
        return [parameter for parameter in found if parameter is not None]

    def construct(self, x: Tensor) -> Any:
        tokens = x if x.ndim == 2 else x.reshape(-1, self.hidden_size)
        logits = matmul(tokens.astype(self.router_weight.dtype), self.router_weight, None, False, True)
        weights, experts = moe_gating_top_k(logits, self.router_bias, *self.gating)
        rows, places, ends = moe_token_permute(tokens, experts, self.num_experts)
        y = moe_token_unpermute(self.multiply(rows, ends), places, weights)
        y = y if x.ndim == 2 else y.reshape(x.shape)
        if self.shared_experts is not None:
            y = y + self.shared_experts(x)
        return (y, logits) if self.return_logits else y

    def multiply(self, rows: Tensor, ends: Tensor) -> Tensor:
        """Multiply each row by the matrices of its expert: gate, up, SwiGLU and down.

        Args:
            rows: Tensor[dtype], shape (rows, h): tokens, sorted by expert.
            ends: Tensor[int32], shape (e,): where the rows of each expert end.
        """
        gate_weight, up_weight, down_weight = self.gate_weight, self.up_weight, self.down_weight
        if gate_weight.dtype != rows.dtype:  # of mixed precision
            gate_weight, up_weight = gate_weight.astype(rows.dtype), up_weight.astype(rows.dtype)
            down_weight = down_weight.astype(rows.dtype)
        gate = grouped_matmul(rows, gate_weight, ends, True)
        up = grouped_matmul(rows, up_weight, ends, True)
        return grouped_matmul(silu_mul(gate, up), down_weight, ends, True)

    def extend_repr(self) -> str:
        experts, inner, hidden = self.gate_weight.shape
        return f"hidden_size={hidden}, intermediate_size={inner}, num_experts={experts}, k={self.gating[0]}"


def _compare(block: nn.Cell, layer: MoEFeedForward) -> bool:
    """Tell whether the block returns logits, too. What it computes must be what the layer does."""
    dtype, hidden = layer.dtype, layer.hidden_size
    x = Tensor(np.random.default_rng(0).normal(size=(2, 16, hidden)).astype(np.float32)).astype(dtype)
    training = block.training
    block.set_train(False)
    layer.set_train(False)
    theirs, layer.return_logits = block(x), False
    block.set_train(training)
    y = (theirs[0] if isinstance(theirs, tuple) else theirs).astype(ms.float32).asnumpy().reshape(-1, hidden)
    ours = layer(x).astype(ms.float32).asnumpy().reshape(-1, hidden)
    # Compare most tokens only: where two experts are equally good, rounding decides.
    errors = np.abs(ours - y).max(-1) / (np.abs(y).max(-1) + 1e-30)
    most = layer.close[dtype == ms.float32]
    if not np.median(errors) <= most:
        raise ValueError(
            f"MoEFeedForward.of: {type(block).__name__} must compute what this layer does, got a relative difference of"
            f" {np.median(errors):.3g} for half of its tokens"
        )
    return isinstance(theirs, tuple) and len(theirs) > 1
