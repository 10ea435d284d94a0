"""Counts bytes and FLOPs of CANN's own operators, as calls of the device have them, for what they take on a chip.

Bytes are those of every tensor of a call once; products of matrices, convolutions and attention count 2 FLOPs a
multiplication.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

from ms_ascend_ops.device.aclnn_table import rows
from ms_ascend_ops.device.operators.internal_kernels import LAYOUTS, divided
from ms_ascend_ops.device.operators.memory import DTYPES, Tensor
from ms_ascend_ops.profiler.chip import Chip
from ms_ascend_ops.profiler.roofline import Cost, roofline

__all__ = ["cost", "flops", "tensor_bytes", "tensors_of"]

_GRAPH_ENGINE, _INTERNAL = "aclop:", "internal:"
_CAUSAL = (2, 3)  # sparseMode: half of the scores are hidden
_BACKWARD = 2.5  # five products in the gradient of attention, two in attention itself
_KEYS_AXIS = {"BSH": 1, "BSND": 1, "SBH": 0, "BNSD": 2, "BNSD_BSND": 2}

Named = Mapping[str, Any]


def cost(name: str, values: Sequence[Any], chip: Chip) -> Cost:
    """Predict a call of an operator of CANN or of MindSpore's own kernels.

    Args:
        name: as the call has it, e.g. "aclnnMatmul", "aclop:MatMulV2" or "internal:PagedAttention".
        values: those of the call (kernels/device/protocol/call.h).
        chip: on which.
    """
    named = _named(name, values)
    first = next((tensor for value in named.values() for tensor in tensors_of(value)), None)
    width = DTYPES[first.code][1].itemsize if first is not None and first.code in DTYPES else 2
    return roofline(chip, _bytes(name, named), flops(name, values), width)


def flops(name: str, values: Sequence[Any]) -> float:
    """Count the FLOPs of products of matrices, convolutions and attention in a call; 0 for any other operator."""
    row = rows().get(name.removeprefix(_GRAPH_ENGINE))
    rule = _RULES.get(name if name.startswith(_INTERNAL) else row.computation if row is not None else "")
    return 0.0 if rule is None else float(rule(_named(name, values)))


def tensor_bytes(tensor: Tensor) -> int:
    """Return the bytes of the elements of a tensor, each once where a broadcast view repeats them."""
    known = DTYPES.get(tensor.code)
    return min(prod(tensor.shape), tensor.storage_elements) * known[1].itemsize if known else 0


def _named(name: str, values: Sequence[Any]) -> Named:
    """Return arguments by their names in the table; of MindSpore's kernels 0, 1 ... are inputs, -1 is the outputs."""
    if name.startswith(_INTERNAL):
        inputs, outputs, named = divided(values)
        return {
            **{str(place): value for place, value in enumerate(inputs)},
            "-1": outputs,
            **dict(zip(named[0::2], named[1::2], strict=True)),
        }
    row = rows().get(name.removeprefix(_GRAPH_ENGINE))
    if row is None:
        return {str(place): value for place, value in enumerate(values)}
    if not name.startswith(_GRAPH_ENGINE):
        return dict(zip((parameter.name for parameter in row.parameters), values, strict=False))
    count, all_tensors = values[0], values[0] + values[1]
    places = [parameter for parameter in row.parameters if parameter.kind in {"tensor", "tensors"}]
    tensors = [values[3 + 3 * i] for i in range(all_tensors)]
    attributes = values[2 + 3 * all_tensors :]
    return {
        **dict(zip((parameter.name for parameter in places if parameter.is_input), tensors[:count], strict=False)),
        **dict(zip((parameter.name for parameter in places if parameter.mark == ">"), tensors[count:], strict=False)),
        **dict(zip(attributes[0::2], attributes[1::2], strict=False)),
    }


def tensors_of(value: Any) -> list[Tensor]:
    """List the tensors of a value of a call: one, some of a list, or none."""
    if isinstance(value, Tensor):
        return [value]
    return [item for item in value if isinstance(item, Tensor)] if isinstance(value, list) else []


def _bytes(name: str, named: Named) -> float:
    if name == f"{_INTERNAL}ReshapeAndCache":  # rows of the caches are written, not read
        return 2.0 * sum(tensor_bytes(tensor) for tensor in tensors_of([named.get("0"), named.get("1")]))
    total = float(sum(tensor_bytes(tensor) for value in named.values() for tensor in tensors_of(value)))
    if name == f"{_INTERNAL}PagedAttention":
        caches = tensors_of([named.get("1"), named.get("2")])
        rows_of_cache = sum(map(prod, (cache.shape[:2] for cache in caches[:1])))
        share = min(1.0, float(_lengths(named["4"]).sum()) / rows_of_cache) if rows_of_cache else 1.0
        total -= (1 - share) * sum(map(tensor_bytes, caches))
    return total


def _lengths(tensor: Tensor) -> Any:
    return tensor.read().reshape(-1)


def _product(left: Tensor, out: Tensor) -> float:
    """Count a product whose left factor may be transposed: each of its elements meets every column of the result."""
    return 2.0 * left.size * out.shape[-1]


def _by_depth(depth: int, out: Tensor) -> float:
    return 2.0 * out.size * depth


def _grouped(xs: Sequence[Tensor], out: Sequence[Tensor]) -> float:
    return sum(2.0 * x.size for x in xs) * out[0].shape[-1]


def _convolution(positions: Tensor, weight: Tensor) -> float:
    """Count a convolution: at each position of y (of x if it is transposed) the weight of a channel."""
    return 2.0 * positions.size * weight.size / max(1, weight.shape[0])


def _attention(named: Named, query: str, key: str, layout: str, mode: int) -> float:
    q, k = tensors_of(named[query])[0], tensors_of(named[key])[0]
    pairs = k.shape[_KEYS_AXIS[layout]] if layout in _KEYS_AXIS else k.shape[0]
    return 4.0 * q.size * pairs * (0.5 if mode in _CAUSAL else 1.0)


def _score(named: Named, query: str = "query", key: str = "key") -> float:
    return _attention(named, query, key, named["inputLayout"], named.get("sparseMode", 0))


def _of_sequences(named: Named, query: str = "query") -> float:
    """Count attention of sequences that lie behind each other; lengths are where they end."""
    ends = [named.get(name) or [] for name in ("actualSeqQLen", "actualSeqKvLen")]
    if not all(ends):
        return 0.0
    q = tensors_of(named[query])[0]
    lengths = [[end - begin for begin, end in zip([0, *one], one, strict=False)] for one in ends]
    pairs = sum(rows_ * columns for rows_, columns in zip(*lengths, strict=False))
    return float(4.0 * q.size / max(1, q.shape[0]) * pairs * (0.5 if named.get("sparseMode") in _CAUSAL else 1.0))


def _internal_attention(named: Named) -> float:
    layout, lengths = LAYOUTS[named["layout"]], named["query_lengths"]
    if layout != "TH":
        return _attention(named, "0", "1", layout, named["mode"])
    pairs = sum(rows_ * columns for rows_, columns in zip(lengths, named["key_lengths"] or lengths, strict=False))
    return float(4.0 * named["0"].size / max(1, sum(lengths)) * pairs)


def _paged(named: Named) -> float:
    query, lengths = named["0"], _lengths(named["4"])
    rows_ = query.size / max(1, prod(query.shape[:-1]))
    new = named["query_lengths"] or [1] * len(lengths)
    return float(4.0 * rows_ * sum(count * int(length) for count, length in zip(new, lengths, strict=False)))


# By the computations of aclnn.txt, and MindSpore's own kernels.
_RULES: Mapping[str, Callable[[Named], float]] = {
    "matmul": lambda v: _by_depth(v["self"].shape[-1], v["out"]),
    "addmv": lambda v: _by_depth(v["mat"].shape[-1], v["out"]),
    "dot": lambda v: 2.0 * v["self"].size,
    "addmm": lambda v: _by_depth((v.get("mat1") or v["batch1"]).shape[-1], v.get("out") or v["self"]),
    "addbmm": lambda v: _product(v["batch1"], v["out"]),
    "dense": lambda v: _by_depth(v["weight"].shape[-1], v["out"]),
    "product_of": lambda v: _product(v["x1"], v["y"]),
    "batch_product_of": lambda v: _product(v["x1"], v["y"]),
    "quant_matmul": lambda v: _product(v["x1"], v["out"]),
    "weight_quant_matmul": lambda v: _by_depth(v["x"].shape[-1], v["y"]),
    "grouped_matmul": lambda v: _grouped(v["x"], v["y"]),
    "grouped_matmul_v4": lambda v: _grouped(v["x"], v["out"]),
    "convolution": lambda v: _convolution(v["input"] if v["transposed"] else v["output"], v["weight"]),
    "convolution_backward": lambda v: (
        sum(v["outputMask"][:2]) * _convolution(v["input"] if v["transposed"] else v["gradOutput"], v["weight"])
    ),
    "conv_2d": lambda v: _convolution(v["y"], v["filter"]),
    "conv_2d_backprop_filter": lambda v: _convolution(v["out_backprop"], v["y"]),
    "conv_2d_backprop_input": lambda v: _convolution(v["out_backprop"], v["filter"]),
    "flash_attention_score": _score,
    "flash_attention_score_v2": _score,
    "flash_attention_score_grad": lambda v: _BACKWARD * _score(v, key="keyIn"),
    "flash_attention_score_grad_v2": lambda v: _BACKWARD * _score(v, key="keyIn"),
    "flash_attention_varlen": _of_sequences,
    "flash_attention_varlen_v2": _of_sequences,
    "flash_attention_varlen_grad": lambda v: _BACKWARD * _of_sequences(v),
    "flash_attention_varlen_grad_v2": lambda v: _BACKWARD * _of_sequences(v),
    "prompt_flash_attention": _score,
    "fused_infer_attention_score": lambda v: 0.0 if v.get("blockTable") else _score(v),  # pages: bound by memory
    "internal:MatMul": lambda v: _product(v["0"], v["-1"][0]),
    "internal:MultiWeightMatmul": lambda v: sum(_product(v["0"], out) for out in v["-1"] if out is not None),
    "internal:FlashAttentionScore": _internal_attention,
    "internal:PagedAttention": _paged,
}
