"""Replaces operators that are fused already, by ONNX or by ONNX Runtime, by those of this package.

A row of `_RULES` says what one of their nodes is here; it raises `_LeftError` where this package has not the same. They
are exact: both compute in float32 and round once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
from onnx import GraphProto, NodeProto, helper, numpy_helper

from ms_ascend_ops import registry
from ms_ascend_ops.export.reports.report import Entry
from ms_ascend_ops.onnx.graphs import captured, shape_of
from ms_ascend_ops.onnx.schemas import DOMAIN, ORT_DOMAIN

__all__ = ["replace_builtins"]

_FLOATS = frozenset({"float16", "bfloat16", "float32"})
_RANK_OF_HEADS = 4


class _LeftError(Exception):
    """Reports a node that must stay; the reason, or nothing where it is not even of the kind."""


def replace_builtins(graph: GraphProto, opset: int) -> list[Entry]:
    """Replace what can be, in place; the places, those too that must stay."""
    builder = _Builder(graph, opset)
    entries = []
    nodes: list[NodeProto] = []
    for node in graph.node:
        rule = _RULES.get((node.domain if node.domain == ORT_DOMAIN else "", node.op_type))
        before = len(builder.nodes)
        if rule is not None:
            name, row = rule
            place = node.name or (node.output[0] if node.output else node.op_type)
            try:
                note = row(builder, node)
                entries.append(Entry(place, name, "onnx", True, note))
                nodes += builder.nodes[before:]
                continue
            except _LeftError as reason:
                del builder.nodes[before:]
                if str(reason):
                    entries.append(Entry(place, name, "onnx", False, str(reason)))
            except (IndexError, KeyError, TypeError, ValueError, AttributeError):  # not as the operator is defined
                del builder.nodes[before:]
        nodes.append(NodeProto.FromString(node.SerializeToString()))
    if any(entry.replaced for entry in entries):
        del graph.node[:]
        graph.node.extend(nodes)
    return entries


class _Builder:
    """Answers what rules ask of a graph, and takes the nodes that they make."""

    def __init__(self, graph: GraphProto, opset: int) -> None:
        self.opset = opset
        self.nodes: list[NodeProto] = []
        self._graph = graph
        self._infos = {value.name: value for value in (*graph.input, *graph.value_info, *graph.output)}
        self._tensors = {tensor.name: tensor for tensor in graph.initializer}
        self._names = {*self._infos, *self._tensors}
        for node in graph.node:
            self._names.update(node.output, captured(node))

    def shape(self, name: str) -> tuple[int | str | None, ...] | None:
        """Return the dims of a value: numbers, names of open ones, or None."""
        if name in self._tensors:
            return tuple(self._tensors[name].dims)
        if name not in self._infos:
            return None
        sizes, names, _ = shape_of(self._infos[name])
        return None if sizes is None else tuple(s if s >= 0 else n or None for s, n in zip(sizes, names, strict=True))

    def dtype(self, name: str) -> str:
        """Return the dtype of a value; nothing, if it is not known."""
        if name in self._tensors:
            return str(helper.tensor_dtype_to_np_dtype(self._tensors[name].data_type).name)
        return shape_of(self._infos[name])[2] if name in self._infos else ""

    def new(self, stem: str) -> str:
        """Return a name that the graph does not have."""
        number = 0
        while f"{stem}_{number}" in self._names:
            number += 1
        self._names.add(f"{stem}_{number}")
        return f"{stem}_{number}"

    def constant(self, stem: str, values: Any) -> str:
        """Add a constant and return its name."""
        name = self.new(stem)
        self._graph.initializer.add().CopyFrom(numpy_helper.from_array(np.asarray(values), name))
        return name

    def stock(self, op: str, *inputs: str, to: str = "", **attributes: Any) -> str:
        """Add a node of ONNX; return the name of its result."""
        result = to or self.new(op.lower())
        self.nodes.append(helper.make_node(op, list(inputs), [result], **attributes))
        return result

    def reshaped(self, value: str, sizes: list[int], to: str = "") -> str:
        """Add a Reshape, in which 0 is a size that stays and -1 the one that follows."""
        return self.stock("Reshape", value, self.constant("shape", np.array(sizes, np.int64)), to=to)

    def fused(self, node: NodeProto, op: str, inputs: list[str], results: list[str], **attributes: Any) -> None:
        """Add a node of this package, in the place of `node`."""
        signature = registry.signature(op)
        given = signature.check_attributes(attributes)
        values: dict[str, Any] = {
            name: int(value) if isinstance(value, bool) else value for name, value in given.items()
        }
        while results and not results[-1]:
            results.pop()
        self.nodes.append(helper.make_node(op, inputs, results, node.name or self.new(op), domain=DOMAIN, **values))


def _attributes(node: NodeProto) -> dict[str, Any]:
    values = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    return {name: value.decode() if isinstance(value, bytes) else value for name, value in values.items()}


def _inputs(node: NodeProto, count: int) -> list[str]:
    return [*node.input, *[""] * (count - len(node.input))]


def _outputs(node: NodeProto, count: int) -> list[str]:
    return [*node.output, *[""] * (count - len(node.output))]


def _floats(builder: _Builder, *names: str) -> None:
    """Require that the dtypes of values that the operators take are known, and are theirs."""
    dtypes = {builder.dtype(name) for name in names}
    if "" in dtypes:
        raise _LeftError
    if not dtypes <= _FLOATS:
        raise _LeftError(f"the operator takes {', '.join(sorted(_FLOATS))}, and it has {', '.join(sorted(dtypes))}")


def _on_last_axis(builder: _Builder, node: NodeProto, given: Mapping[str, Any]) -> None:
    shape, axis = builder.shape(node.input[0]), given.get("axis", -1)
    if axis != -1 and (shape is None or axis != len(shape) - 1):
        raise _LeftError("it normalizes over several axes")


def _rms_norm(builder: _Builder, node: NodeProto) -> str:
    given = _attributes(node)
    _floats(builder, *node.input[:2])
    _on_last_axis(builder, node, given)
    gamma = builder.shape(node.input[1])
    if any(node.output[1:]) or gamma is None or len(gamma) != 1:
        raise _LeftError("its scale is no vector, or it has further results")
    epsilon = given.get("epsilon", 1e-5)
    builder.fused(node, "rms_norm", list(node.input[:2]), [node.output[0]], epsilon=epsilon, scheme="round_then_scale")
    return f"eps {epsilon:g}"


def _same_shapes(builder: _Builder, one: str, other: str) -> None:
    first, second = builder.shape(one), builder.shape(other)
    if first is None or second is None or first != second or None in first:
        raise _LeftError("what is added is not known to have the same shape")


def _skip_rms_norm(builder: _Builder, node: NodeProto) -> str:
    x, skip, gamma, bias = _inputs(node, 4)
    y, mean, rstd, total = _outputs(node, 4)
    _floats(builder, x, skip, gamma)
    _same_shapes(builder, x, skip)
    if mean or rstd:
        raise _LeftError("its mean or deviation is used")
    if bias:
        skip = builder.stock("Add", skip, bias)
    epsilon = _attributes(node).get("epsilon", 1e-5)
    builder.fused(node, "add_rms_norm", [x, skip, gamma], [y, "", total], epsilon=epsilon, scheme="round_then_scale")
    return f"eps {epsilon:g}"


def _skip_layer_norm(builder: _Builder, node: NodeProto) -> str:
    x, skip, gamma, beta, bias = _inputs(node, 5)
    y, mean, rstd, total = _outputs(node, 4)
    _floats(builder, x, skip, gamma)
    _same_shapes(builder, x, skip)
    if mean or rstd:
        raise _LeftError("its mean or deviation is used")
    if not beta:
        raise _LeftError("it has no beta")
    if bias:
        skip = builder.stock("Add", skip, bias)
    epsilon = _attributes(node).get("epsilon", 1e-5)
    builder.fused(node, "add_layer_norm", [x, skip, gamma, beta], [y, "", "", total], epsilon=epsilon)
    return f"eps {epsilon:g}"


def _gelu(approximate: str) -> _Rule:
    def build(builder: _Builder, node: NodeProto) -> str:
        x, bias = _inputs(node, 2)
        _floats(builder, x)
        if bias:
            x = builder.stock("Add", x, bias)
        builder.fused(node, "gelu", [x], [node.output[0]], approximate=approximate)
        return approximate

    return build


def _rotary(builder: _Builder, node: NodeProto) -> str:
    given = _attributes(node)
    if node.domain == ORT_DOMAIN:
        x, positions, cos, sin = node.input[:4]
        if given.get("scale", 1.0) != 1.0 or given.get("is_packed_batching", 0):
            raise _LeftError("it scales, or packs sequences")
        if len(builder.shape(positions) or ()) != 2:
            raise _LeftError("its positions are not one for each token")
    else:
        x, cos, sin, positions = _inputs(node, 4)
    _floats(builder, x, cos, sin)
    shape, table = builder.shape(x), builder.shape(cos)
    if shape is None or table is None or len(shape) not in (3, _RANK_OF_HEADS):
        raise _LeftError("the rank of its input is not known")
    rotary_dim = given.get("rotary_embedding_dim", 0)
    heads = given.get("num_heads", 0)
    if len(shape) != _RANK_OF_HEADS and not heads:
        if rotary_dim or not isinstance(shape[-1], int) or not isinstance(table[-1], int):
            raise _LeftError("its number of heads is not known")
        heads = shape[-1] // (2 * table[-1])
    tables = [builder.stock("Gather", t, positions) if positions else t for t in (cos, sin)]
    first = len(shape) == _RANK_OF_HEADS  # (batch, heads, sequence, head size)
    if first:
        axes = builder.constant("axes", np.array([1]))
        tables = [builder.stock("Unsqueeze", t, axes) for t in tables]
    mode = "interleave" if given.get("interleaved", 0) else "half"
    attributes = {"seq_axis": 2 if first else 1, "mode": mode, "rotary_dim": rotary_dim}
    if first:
        builder.fused(node, "rotary_embedding", [x, *tables], [node.output[0]], **attributes)
        return f"{mode}, BNSD"
    rotated = builder.new("rotated")
    builder.fused(node, "rotary_embedding", [builder.reshaped(x, [0, 0, heads, -1]), *tables], [rotated], **attributes)
    builder.reshaped(rotated, [0, 0, -1], node.output[0])
    return f"{mode}, BSND"


def _attention(builder: _Builder, node: NodeProto) -> str:  # noqa: PLR0912  (what it must not have)
    """Replace ONNX's. With past keys they are put together in front of it, and the last query stands at the
    last key.
    """
    given = _attributes(node)
    query, key, value, mask, past_key, past_value, lengths = _inputs(node, 7)
    y, present_key, present_value, scores = _outputs(node, 4)
    _floats(builder, query, key, value)
    if given.get("softcap", 0.0) or scores or lengths:
        raise _LeftError("it caps its scores, gives them out, or has lengths of its sequences")
    q, k, v = (builder.shape(name) for name in (query, key, value))
    if q is None or k is None or v is None or len({len(q), len(k), len(v)}) != 1:
        raise _LeftError("the ranks of its inputs are not known")
    packed = len(q) == 3  # (batch, sequence, heads * head size)
    heads, shared = (given["q_num_heads"], given["kv_num_heads"]) if packed else (q[1], k[1])
    size = q[-1]
    if not isinstance(size, int) or not isinstance(heads, int) or not isinstance(shared, int):
        raise _LeftError("the size of its heads is not known")
    size = size // heads if packed else size
    widest = max([size, v[-1] // shared if packed else v[-1]] if isinstance(v[-1], int) else [size])  # type: ignore[operator]
    most = registry.op_spec("flash_attention").limits["head_size"]
    if widest > most:
        raise _LeftError(f"its heads have {widest} elements, the operator takes {most} at most")
    causal = bool(given.get("is_causal", 0))
    if causal and not past_key and q[-2 if not packed else 1] != k[-2 if not packed else 1]:
        raise _LeftError("its causal mask begins at the first key")
    layout = "BSND" if packed else "BNSD"
    if packed:
        query = builder.reshaped(query, [0, 0, heads, -1])
        key, value = (builder.reshaped(name, [0, 0, shared, -1]) for name in (key, value))
    if past_key or present_key or present_value:
        if packed:  # the cache has its heads in front
            query, key, value = (builder.stock("Transpose", n, perm=[0, 2, 1, 3]) for n in (query, key, value))
            layout = "BNSD"
        if past_key:
            key = builder.stock("Concat", past_key, key, axis=2, to=present_key)
            value = builder.stock("Concat", past_value, value, axis=2, to=present_value)
        else:
            key = builder.stock("Identity", key, to=present_key)
            value = builder.stock("Identity", value, to=present_value)
    inputs = [query, key, value]
    if mask:
        inputs.append(_additive(builder, mask, past_key, k[-2 if not packed else 1]))
    scale = given.get("scale") or float(size or 1) ** -0.5
    result = y if not packed else builder.new("attention")
    attributes = {"scale": scale, "causal": causal, "window": 0, "layout": layout}
    builder.fused(node, "flash_attention", inputs, [result], **attributes)
    if packed:
        if layout == "BNSD":
            result = builder.stock("Transpose", result, perm=[0, 2, 1, 3])
        builder.reshaped(result, [0, 0, -1], y)
    return f"scale {scale:g}, {layout}" + (", causal" if causal else "")


def _additive(builder: _Builder, mask: str, past: str, keys: int | str | None) -> str:
    """Return a mask as the kernel takes it: numbers, in four axes."""
    shape, dtype = builder.shape(mask), builder.dtype(mask)
    if shape is None or not shape or not dtype:
        raise _LeftError("the shape of its mask is not known")
    if not past and (shape[-1] != keys or keys is None):
        raise _LeftError("its mask is not known to have an element for each key")
    if dtype == "bool":
        low, zero = (builder.constant(stem, np.float32(value)) for stem, value in (("masked", -np.inf), ("seen", 0)))
        mask = builder.stock("Where", mask, zero, low)
    if len(shape) < _RANK_OF_HEADS:
        axes = builder.constant("axes", np.arange(_RANK_OF_HEADS - len(shape)))
        mask = builder.stock("Unsqueeze", mask, axes)
    return mask


def _group_query_attention(builder: _Builder, node: NodeProto) -> str:
    """Replace ONNX Runtime's, of one sequence without past: causal attention, perhaps with rotary embedding by
    the caller.
    """
    given = _attributes(node)
    query, key, value, past_key, past_value, _, _, cos, sin, *more = _inputs(node, 9)
    y, present_key, present_value, *scores = _outputs(node, 3)
    q, k = builder.shape(query), builder.shape(key) if key else None
    if not key or q is None or k is None:
        raise _LeftError("queries, keys and values are packed in one tensor, or their shapes are not known")
    _floats(builder, query, key, value)
    if past_key or past_value:
        raise _LeftError("it has past keys, in a buffer that may be longer than they are")
    if q[0] != 1:
        raise _LeftError("its sequences may have different lengths")
    if q[1] != k[1] or q[1] is None:
        raise _LeftError("it is not known to have a key for each query")
    if given.get("do_rotary", 0) or cos or sin or any(more) or any(scores) or given.get("smooth_softmax", 0):
        raise _LeftError("it does more than attention")
    if given.get("softcap", 0.0):
        raise _LeftError("it caps its scores")
    heads, shared = given["num_heads"], given["kv_num_heads"]
    if not isinstance(q[-1], int) or q[-1] % heads:
        raise _LeftError("the size of its heads is not known")
    size = q[-1] // heads
    most = registry.op_spec("flash_attention").limits["head_size"]
    if size > most:
        raise _LeftError(f"its heads have {size} elements, the operator takes {most} at most")
    query = builder.reshaped(query, [0, 0, heads, -1])
    key, value = (builder.reshaped(name, [0, 0, shared, -1]) for name in (key, value))
    for heads_behind, present in ((key, present_key), (value, present_value)):
        if present:
            builder.stock("Transpose", heads_behind, perm=[0, 2, 1, 3], to=present)
    scale = given.get("scale") or float(size or 1) ** -0.5
    window = max(given.get("local_window_size", -1), 0)
    result = builder.new("attention")
    attributes = {"scale": scale, "causal": True, "window": window, "layout": "BSND"}
    builder.fused(node, "flash_attention", [query, key, value], [result], **attributes)
    builder.reshaped(result, [0, 0, -1], y)
    return f"scale {scale:g}, BSND, causal"


_Rule = Callable[[_Builder, NodeProto], str]
_RULES: dict[tuple[str, str], tuple[str, _Rule]] = {
    ("", "RMSNormalization"): ("RMSNorm", _rms_norm),
    ("", "SimplifiedLayerNormalization"): ("RMSNorm", _rms_norm),
    (ORT_DOMAIN, "SimplifiedLayerNormalization"): ("RMSNorm", _rms_norm),
    (ORT_DOMAIN, "SkipSimplifiedLayerNormalization"): ("add + RMSNorm", _skip_rms_norm),
    (ORT_DOMAIN, "SkipLayerNormalization"): ("add + LayerNorm", _skip_layer_norm),
    (ORT_DOMAIN, "FastGelu"): ("GELU", _gelu("tanh")),
    (ORT_DOMAIN, "BiasGelu"): ("GELU", _gelu("none")),
    (ORT_DOMAIN, "Gelu"): ("GELU", _gelu("none")),
    ("", "RotaryEmbedding"): ("rotary embedding", _rotary),
    (ORT_DOMAIN, "RotaryEmbedding"): ("rotary embedding", _rotary),
    ("", "Attention"): ("attention", _attention),
    (ORT_DOMAIN, "GroupQueryAttention"): ("attention", _group_query_attention),
}
