"""What the shape rules of a definition cannot say of an operator. It is the same for MindSpore and for PyTorch.

Each check gets the shapes of the inputs and the attributes by name, and raises ValueError. Unknown dims are -1, unknown
ranks (-2,); of optional inputs that are absent the shape is None.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ms_ascend_ops import registry

__all__ = ["CHECKS"]

ShapeCheck = Callable[[list[Any], dict[str, Any]], None]


def _conv2d(shapes: list[Any], attributes: dict[str, Any], op: str = "conv2d") -> None:
    axis = -1 if attributes["data_format"] == "NHWC" else 1
    x, weight, groups = shapes[0], shapes[1], attributes["groups"]
    if len(x) != 4 or len(weight) != 4 or -1 in (x[axis], weight[axis]):
        return
    if weight[axis] * groups != x[axis]:
        raise ValueError(
            f"{op}: weight.shape[{axis}] must be x.shape[{axis}] / groups ({x[axis] // groups}), got {weight}"
        )


def _conv2d_group_norm(shapes: list[Any], attributes: dict[str, Any]) -> None:
    op = "conv2d_group_norm"
    _conv2d(shapes, attributes, op)
    weight, residual, groups = shapes[1], shapes[6], attributes["num_groups"]
    if len(weight) == 4 and weight[0] != -1 and weight[0] % groups:
        raise ValueError(f"{op}: weight.shape[0] must be a multiple of num_groups ({groups}), got {weight}")
    if residual is None or len(shapes[0]) != 4 or len(weight) != 4 or len(residual) != 4:
        return
    rows = 1 if attributes["data_format"] == "NHWC" else 2
    names = (("h", "top", "bottom", rows), ("w", "left", "right", rows + 1))
    for name, before, behind, dim in names:
        size, taps = shapes[0][dim], weight[dim]
        if -1 in (size, taps, residual[dim]):
            continue
        room = size + attributes[f"pad_{before}"] + attributes[f"pad_{behind}"]
        places = (room - (taps - 1) * attributes[f"dilation_{name}"] - 1) // attributes[f"stride_{name}"] + 1
        if residual[dim] != places:
            raise ValueError(f"{op}: residual.shape[{dim}] must be that of the output ({places}), got {residual}")


def _cross_entropy(shapes: list[Any], attributes: dict[str, Any]) -> None:
    if not -(2**31) < attributes["ignore_index"] < 2**31:
        raise ValueError(f"cross_entropy: ignore_index must fit in 32 bits, got {attributes['ignore_index']}")


def _attention(operator: str) -> ShapeCheck:
    def check(shapes: list[Any], attributes: dict[str, Any]) -> None:
        most = registry.op_spec(operator).limits["head_size"]
        for name, shape in zip(("query", "key", "value"), shapes, strict=False):
            if shape[-1] > most:
                raise ValueError(f"{operator}: {name}.shape[-1] must be at most {most}, got {shape}")
        if attributes["window"] < 0:
            raise ValueError(f"{operator}: window must be 0 (all keys) or more, got {attributes['window']}")

    return check


def _kv_cache_update(shapes: list[Any], attributes: dict[str, Any]) -> None:
    cache = shapes[2]
    most = registry.op_spec("kv_cache_update").limits["slots"]
    if len(cache) == 4 and -1 not in cache and cache[0] * cache[1] > most:
        raise ValueError(f"kv_cache_update: the cache must have at most {most} slots, got key_cache of shape {cache}")


def _matmul(shapes: list[Any], attributes: dict[str, Any]) -> None:
    x, weight = shapes[0][:-2], shapes[1][:-2]
    if weight and weight != x and (-2,) not in (shapes[0], shapes[1]) and -1 not in (*x, *weight):
        raise ValueError(
            f"matmul: weight.shape[:-2] must be that of x {x}, or be empty: one matrix for all, got {shapes[1]}"
        )


def _moe_gating_top_k(shapes: list[Any], attributes: dict[str, Any]) -> None:
    limits = registry.op_spec("moe_gating_top_k").limits
    k, groups, open_groups = (attributes[name] for name in ("k", "group_count", "k_group"))
    if k > limits["experts_of_a_token"]:
        raise ValueError(f"moe_gating_top_k: k must be at most {limits['experts_of_a_token']}, got {k}")
    if groups > limits["groups"]:
        raise ValueError(f"moe_gating_top_k: group_count must be at most {limits['groups']}, got {groups}")
    if open_groups > groups:
        raise ValueError(f"moe_gating_top_k: k_group must be at most group_count ({groups}), got {open_groups}")
    experts = shapes[0][-1]
    if experts < 0:
        return
    if experts > limits["experts"]:
        raise ValueError(f"moe_gating_top_k: x.shape[-1] must be at most {limits['experts']}, got {shapes[0]}")
    if experts % groups:
        raise ValueError(f"moe_gating_top_k: group_count must divide x.shape[-1] ({experts}), got {groups}")
    if k > experts // groups * open_groups:
        raise ValueError(
            f"moe_gating_top_k: k must be at most the experts of k_group groups ({experts // groups * open_groups}),"
            f" got {k}"
        )
    if attributes["group_score"] == "top2" and 1 < groups == experts:
        raise ValueError(f"moe_gating_top_k: a group must have two experts for 'top2', got {groups} of {experts}")


def _experts_of_a_token(operator: str, place: int) -> ShapeCheck:
    """Of the shape (n, k) at this place."""

    def check(shapes: list[Any], attributes: dict[str, Any]) -> None:
        limits = registry.op_spec(operator).limits
        if len(shapes[place]) == 2 and shapes[place][1] > limits["experts_of_a_token"]:
            raise ValueError(
                f"{operator}: a token must have at most {limits['experts_of_a_token']} experts, got {shapes[place][1]}"
            )
        if attributes.get("num_experts", 0) > limits.get("experts", 0):
            raise ValueError(
                f"{operator}: num_experts must be at most {limits['experts']}, got {attributes['num_experts']}"
            )

    return check


def _paged_attention(shapes: list[Any], attributes: dict[str, Any]) -> None:
    limits = registry.op_spec("paged_attention").limits
    for name, shape in zip(("query", "key_cache", "value_cache"), shapes, strict=False):
        if shape[-1] > limits["head_size"]:
            raise ValueError(f"paged_attention: {name}.shape[-1] must be at most {limits['head_size']}, got {shape}")
    cache = shapes[1]
    if len(cache) == 4 and -1 not in cache and cache[0] * cache[1] > limits["slots"]:
        raise ValueError(
            f"paged_attention: the cache must have at most {limits['slots']} slots, got key_cache of shape {cache}"
        )


def _qkv_rotary_embedding(shapes: list[Any], attributes: dict[str, Any]) -> None:
    qkv, cos, sin = shapes[:3]
    _turned("qkv_rotary_embedding", "qkv", qkv, cos, sin, attributes)


def _rotary_embedding(shapes: list[Any], attributes: dict[str, Any]) -> None:
    x, cos, sin = shapes[:3]
    _turned("rotary_embedding", "x", x, cos, sin, attributes)
    if -2 not in (*x, *cos):
        _tables(x[: attributes["seq_axis"]], cos[:-2], cos)


def _turned(
    op: str,
    name: str,
    x: tuple[int, ...],
    cos: tuple[int, ...],
    sin: tuple[int, ...],
    attributes: dict[str, Any],
) -> None:
    """Whether heads of x can be turned by tables of these shapes."""
    most, rotary_dim = registry.op_spec(op).limits["head_size"], attributes["rotary_dim"]
    if rotary_dim < 0 or rotary_dim % 2:
        raise ValueError(f"{op}: rotary_dim must be even and at least 0, got {rotary_dim}")
    if (-2,) not in (cos, sin) and (
        len(cos) != len(sin) or any(a != b and -1 not in (a, b) for a, b in zip(cos, sin, strict=True))
    ):
        raise ValueError(f"{op}: sin.shape must be cos.shape ({cos}), got {sin}")
    dim = -1 if x == (-2,) else x[-1]
    if dim == -1:
        return
    if rotary_dim > dim:
        raise ValueError(f"{op}: rotary_dim must be at most {name}.shape[-1] ({dim}), got {rotary_dim}")
    if dim > most:
        raise ValueError(f"{op}: {name}.shape[-1] must be at most {most}, got {x}")
    turned = rotary_dim or dim
    if turned % 2:
        raise ValueError(f"{op}: {name}.shape[-1] must be even (its elements are turned in pairs), got {x}")
    if cos != (-2,) and attributes["own_angles"] and cos[-1] not in (turned, -1):
        raise ValueError(f"{op}: cos.shape[-1] must be {turned} with own_angles, got {cos}")
    if cos != (-2,) and cos[-1] not in (turned, turned // 2, -1):
        raise ValueError(
            f"{op}: cos.shape[-1] must be {turned} or {turned // 2} where {turned} elements of a head are turned, "
            f"got {cos}"
        )


def _tables(batch: tuple[int, ...], tables: tuple[int, ...], cos: tuple[int, ...]) -> None:
    """The dims that tables differ in are neighbours: the kernel reads the tables of one stretch of x in one piece."""
    aligned = (1,) * (len(batch) - len(tables)) + tables
    own = [i for i, size in enumerate(aligned) if size != 1]
    if own and any(aligned[i] == 1 and batch[i] not in (1, -1) for i in range(own[0], own[-1])):
        raise ValueError(f"rotary_embedding: cos may not broadcast between dims in which it does not, got {cos}")


def _exact_sums(op: str) -> ShapeCheck:
    def check(shapes: list[Any], attributes: dict[str, Any]) -> None:
        x = shapes[0]
        most = registry.op_spec(op).limits["columns"]
        if x[-1] > most:
            raise ValueError(f"{op}: x.shape[-1] must be at most {most}, got {x}")

    return check


def _sliced_sparse_matmul(shapes: list[Any], attributes: dict[str, Any]) -> None:
    x, (slices,) = shapes[0], shapes[1]
    most = registry.op_spec("sliced_sparse_matmul").limits["elements"]
    if x[-1] > most:
        raise ValueError(f"sliced_sparse_matmul: x.shape[-1] must be at most {most}, got {x}")
    if 64 * slices > most:
        raise ValueError(f"sliced_sparse_matmul: slice_ends.shape[0] must be at most {most // 64}, got {slices}")


def _weight_quant(op: str) -> ShapeCheck:
    return lambda shapes, _: _packed_weight(op, *shapes[:3])


def _packed_weight(op: str, x: tuple[int, ...], weight: tuple[int, ...], scale: tuple[int, ...]) -> None:
    limits = registry.op_spec(op).limits
    k, row, groups = x[-1], weight[-1], scale[-1]
    if k > 0 and row > 0 and k // row not in (1, 2):
        raise ValueError(
            f"{op}: weight.shape[-1] must be x.shape[-1] (8 bits) or half of that (4 bits),"
            f" got x {x} and weight {weight}"
        )
    if k > 0 and groups > 1:
        rule = ""
        if k // groups > limits["group_size"]:
            rule = f"must have at most {limits['group_size']} elements"
        elif k // groups % 32:
            rule = "must have a multiple of 32 elements"
        if rule:
            raise ValueError(
                f"{op}: a group {rule}, or be a whole row, got {groups} groups of {k // groups}: x {x}, scale {scale}"
            )


CHECKS: dict[str, ShapeCheck] = {
    "conv2d": _conv2d,
    "conv2d_group_norm": _conv2d_group_norm,
    "cross_entropy": _cross_entropy,
    "flash_attention": _attention("flash_attention"),
    "flash_attention_varlen": _attention("flash_attention_varlen"),
    "grouped_quant_matmul": _exact_sums("grouped_quant_matmul"),
    "kv_cache_update": _kv_cache_update,
    "matmul": _matmul,
    "moe_gating_top_k": _moe_gating_top_k,
    "moe_token_permute": _experts_of_a_token("moe_token_permute", 1),
    "moe_token_unpermute": _experts_of_a_token("moe_token_unpermute", 1),
    "paged_attention": _paged_attention,
    "qkv_rotary_embedding": _qkv_rotary_embedding,
    "quant_matmul": _exact_sums("quant_matmul"),
    "rotary_embedding": _rotary_embedding,
    "sliced_sparse_matmul": _sliced_sparse_matmul,
    "weight_quant_matmul": _weight_quant("weight_quant_matmul"),
    "weight_quant_swiglu": _weight_quant("weight_quant_swiglu"),
}
