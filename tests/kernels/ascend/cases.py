"""Random inputs for any operator of the registry, drawn from its shape rules."""

from dataclasses import dataclass
from functools import partial

import ml_dtypes
import numpy as np
from ms_ascend_ops._C import MAX_RANK

from ms_ascend_ops import registry
from ms_ascend_ops.checks import CHECKS
from ms_ascend_ops.definitions.inference import given_types, infer_shapes, infer_types
from ms_ascend_ops.registry import Signature

# What breaks tilings: nothing, one, less and more than a block or a repeat, tails, more than a tile.
SIZES = (1, 2, 7, 8, 16, 31, 64, 65, 127, 128, 255, 256, 500, 1023, 1024, 1025, 2047, 4096, 4097, 8191)
LARGE = (12288, 16384, 30000, 65537)
HUGE = (2**31 - 1, 2**31, 2**32 - 1, 2**32 + 8, 2**33 + 1, 2**36 + 3, 2**40)  # what does not fit in 32 bits


def _check(operator):
    """What the shape rules of an operator cannot say. A gradient has tables last, and heads first, too."""
    check = CHECKS[operator]
    return lambda shapes, attributes: check([shapes[0], *shapes[-2:]], attributes)


RULES = (
    {name: _check(name) for name in ("rotary_embedding", "qkv_rotary_embedding")}
    | {
        name: CHECKS[name]
        for name in ("conv2d_group_norm", "flash_attention", "flash_attention_varlen", "paged_attention")
    }
    | {
        # Of what both forward and gradient have.
        "moe_gating_top_k": lambda shapes, attributes: CHECKS["moe_gating_top_k"](
            [shapes[0] if len(shapes) == 2 else shapes[1]], attributes
        ),
        "moe_token_permute": CHECKS["moe_token_permute"],
        "moe_token_unpermute": lambda shapes, attributes: CHECKS["moe_token_unpermute"](["", shapes[-2]], attributes),
    }
)


def _rotary_tables(rng, shapes, attributes):
    """Tables that fit x. Of those that are drawn one by one less than one in a hundred does."""
    x, axis = shapes[0], attributes["seq_axis"]
    if not 0 <= axis < len(x) - 1:
        return shapes
    batch = _broadcast(rng, x[:axis])
    rotated = attributes["rotary_dim"] or x[-1]
    return [x, *[(*batch, x[axis], rotated // int(rng.integers(1, 3)))] * 2]


def _qkv(rng, shapes, attributes):
    """Of the packed tensor's batch, positions and size of a head: it or the three, and tables that fit."""
    batch, positions, dim = (shapes[0][i] for i in (0, 1, 3))
    counts = [attributes[name] for name in ("q_heads", "k_heads", "v_heads")]
    width = (attributes["rotary_dim"] or dim) // int(rng.integers(1, 3))
    tables = [(*_broadcast(rng, [batch]), positions, width)] * 2
    if len(shapes) == 3:
        return [(batch, positions, sum(counts), dim), *tables]
    heads_first = attributes["layout"] == "BNSD"
    return [(batch, n, positions, dim) if heads_first else (batch, positions, n, dim) for n in counts] + tables


def _attention(rng, shapes, attributes):
    """Of the sizes that were drawn: heads that divide, a mask that fits, heads of a size that fits."""
    shared, heads = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    batch, queries, keys = (int(rng.integers(1, 3)), *(min(shapes[i][2] % 700, 700) for i in (0, 1)))
    head, value = (int(rng.integers(1, 257)) for _ in range(2))

    def tensor(count, length, size):
        return (batch, count, length, size) if attributes["layout"] == "BNSD" else (batch, length, count, size)

    query, key = tensor(heads * shared, queries, head), tensor(heads, keys, head)
    rows = (batch, heads * shared, queries)
    mask = (*(1 if rng.integers(2) else size for size in rows), keys)
    inputs = [query, key, tensor(heads, keys, value)]
    if len(shapes) == 4:
        return [*inputs, mask]
    return [tensor(heads * shared, queries, value), *inputs, rows, rows, mask]


def _packed(rng, shapes, attributes):
    """Of the sizes that were drawn: heads that divide, and are of a size that fits; some sequences."""
    shared, heads, sequences = (int(rng.integers(1, most)) for most in (5, 4, 20))
    queries, keys = (min(shapes[i][0], 3000) for i in (0, 1))
    head, value = (int(rng.integers(1, 257)) for _ in range(2))
    query, out = ((queries, heads * shared, size) for size in (head, value))
    inputs = [query, (keys, heads, head), (keys, heads, value)]
    if len(shapes) == 8:
        inputs = [out, *inputs, *[(heads * shared, queries)] * 2]
    return [*inputs, *[(sequences,)] * 2]


def _paged(rng, shapes, attributes):
    """Of the sizes that were drawn: heads that divide, and are of a size that fits; some blocks."""
    shared, heads, blocks, table = (int(rng.integers(1, most)) for most in (5, 4, 40, 20))
    batch, tokens, block_size = int(rng.integers(1, 5)), int(rng.integers(1, 200)), int(rng.choice([1, 16, 128, 4096]))
    head, value = (int(rng.integers(1, 257)) for _ in range(2))
    caches = [(blocks, block_size, heads, size) for size in (head, value)]
    return [(batch, tokens, heads * shared, head), *caches, (batch, table), (batch,)]


def _products(rng, shapes, attributes):
    """One matrix of weights, or as many as x has."""
    x, weight = shapes[0], shapes[1]
    return [x, (x[:-2] if rng.integers(2) else ()) + weight[-2:], *shapes[2:]]


def _quantised(rng, shapes, attributes):
    """A weight of 8 or 4 bits with groups of a size that there is."""
    rows, group = shapes[1][0], int(rng.choice([32, 64, 96, 128, 1024, 7]))
    groups = 1 if group == 7 else int(rng.integers(1, 20))
    per_byte = int(rng.integers(1, 3))
    columns = groups * group * (2 if group == 7 else 1)
    factors = (rows, groups)  # of a gated pair an even number of rows, as they were drawn
    return [(*shapes[0][:-1], columns), (rows, columns // per_byte), factors, factors, (rows,)]


def _convolution(rng, shapes, attributes):
    """Of the sizes that were drawn: a kernel that fits, groups, and places of y."""
    attributes.update({name: int(rng.integers(-1, 4)) for name in attributes if name.startswith("pad_")})
    groups, last = attributes["groups"], attributes["data_format"] == "NHWC"
    forward = len(shapes[2]) == 1
    attributes["transposed_weight"] = attributes["transposed_weight"] and forward
    has_gaps = forward and attributes["stride_h"] == attributes["stride_w"] == 1
    attributes.update({name: int(rng.integers(0, 3)) * has_gaps for name in ("gap_h", "gap_w")})
    x, weight = (shapes[0], shapes[1]) if forward else (shapes[1], shapes[2])
    ins, outs = min(x[3 if last else 1] // groups, 3000), weight[0]
    h, w = x[1:3] if last else x[2:]
    kernel = tuple(int(size) for size in rng.integers(1, 6, 2))
    weight = (outs, *kernel, ins) if last else (outs, ins, *kernel)
    x = (min(x[0], 3), h, w, ins * groups) if last else (min(x[0], 3), ins * groups, h, w)
    y = infer_shapes(registry.signature("conv2d"), [x, weight, None], attributes)[0]
    return [x, weight, (outs,)] if forward else [y, x, weight]


def _plain_convolution(attributes):
    """The attributes of conv2d among those of an operator that has more behind it."""
    plain = {name: attributes[name] for name in registry.signature("conv2d").check_attributes({}) if name in attributes}
    return plain | {"activation": "none", "flip_weight": False, "transposed_weight": False, "gap_h": 0, "gap_w": 0}


def _batch_normalized_convolution(rng, shapes, attributes):
    """A convolution, and five vectors of its output channels."""
    outs, plain = shapes[1][0], _plain_convolution(attributes)
    x, weight, _ = _convolution(rng, [shapes[0], shapes[1], (outs,)], plain)
    attributes.update({name: value for name, value in plain.items() if name.startswith("pad_")})
    return [x, weight, *[(outs,)] * 5]


def _normalized_convolution(rng, shapes, attributes):
    """A convolution whose output channels are groups of the norm; what is added to it."""
    outs = shapes[1][0]
    attributes["num_groups"] = next(n for n in (32, 6, 4, 3, 2, 1) if outs % n == 0)
    x, weight, *_ = _batch_normalized_convolution(rng, shapes, attributes)
    z = infer_shapes(registry.signature("conv2d"), [x, weight, None], _plain_convolution(attributes))[0]
    return [x, weight, *[(outs,)] * 3, (x[0], outs), z]


def _experts(rng, shapes, attributes):
    """Two experts at least: indices are 0 and 1."""
    attributes["num_experts"] = int(rng.integers(2, 300))
    return shapes


def _sparse(rng, shapes, attributes, side=1):
    """A row at least, and so few values, or blocks of side x side, that products do not take long."""
    dense = shapes[3]
    most = 1 + 1_000_000 // side**2 // max(1, dense[1])
    if len(shapes[0]) == 2:  # the gradient: dy comes first
        rows = max(1, shapes[1][0])
        return [(rows * side, dense[1]), (rows,), (min(shapes[2][0], most),), dense]
    values = min(shapes[1][0], most)
    return [(max(1, shapes[0][0]),), (values,), (values, *shapes[2][1:]), dense]


def _sliced(rng, shapes, attributes):
    """A row of x that the Unified Buffer holds, and its pieces."""
    most = registry.op_spec("sliced_sparse_matmul").limits["elements"]
    x, slices, groups = shapes[0], max(1, min(shapes[1][0], most // 64)), max(1, shapes[4][0])
    return [(*x[:-1], min(x[-1], most)), (slices,), *shapes[2:4], (groups,), shapes[5]]


ARRANGED = {
    "block_sparse_matmul": partial(_sparse, side=16),
    "conv2d": _convolution,
    "conv2d_batch_norm": _batch_normalized_convolution,
    "conv2d_group_norm": _normalized_convolution,
    "flash_attention": _attention,
    "flash_attention_varlen": _packed,
    "matmul": _products,
    "moe_token_permute": _experts,
    "paged_attention": _paged,
    "qkv_rotary_embedding": _qkv,
    "rotary_embedding": _rotary_tables,
    "sliced_sparse_matmul": _sliced,
    "sparse_matmul": _sparse,
    "weight_quant_matmul": _quantised,
    "weight_quant_swiglu": _quantised,
}


def draw(rng, signature, largest, sizes=LARGE):
    """(shapes, dtypes, attributes) that the operator takes, with at most `largest` elements in a tensor.

    `sizes`: of the few dims that are large. Of an optional input that is absent shape and dtype are None.
    """
    name = signature.name.removesuffix("_grad")
    for _ in range(1000):
        attributes = {attribute.name: _attribute(rng, attribute) for attribute in signature.attributes}
        try:
            shapes = _shapes(rng, signature, signature.check_attributes(attributes), largest, sizes)
            if name in ARRANGED:
                shapes = ARRANGED[name](rng, shapes, attributes)
            shapes = [
                None if t.optional and rng.integers(2) else s for s, t in zip(shapes, signature.inputs, strict=True)
            ]
            infer_shapes(signature, shapes, attributes)
            if name in RULES:
                RULES[name](shapes, attributes)
        except ValueError:
            continue
        row = signature.types[rng.integers(len(signature.types))]
        return shapes, given_types(shapes, types_of(signature, row)), attributes
    raise AssertionError(f"no valid shapes found for {signature.name}")


def types_of(signature, row):
    """The dtypes of all inputs in a row of the definition."""
    return [row.get(tensor.dtype, tensor.dtype) for tensor in signature.inputs]


def _attribute(rng, attribute):
    if attribute.choices:
        return str(rng.choice(attribute.choices))
    if attribute.type == "bool":
        return bool(rng.integers(2))
    if attribute.type == "int":
        return int(rng.choice([attribute.default, attribute.default, -2, -1, 0, 1, 2, 4]))
    return float(attribute.default)


def _shapes(rng, signature, attributes, largest, large):
    """Sizes for every symbol, then the shapes of the rules. Few symbols are large at a time."""
    bound, room = {}, largest
    tokens = [token for tensor in signature.inputs for token in tensor.rule.tokens if token.symbol]
    for token in tokens:
        room //= token.factor
    multiples = getattr(signature, "multiples", {})
    single = {token.symbol for token in tokens if not token.star}  # a ~ may broadcast to one dim
    for position in rng.permutation(len(tokens)):
        token = tokens[position]
        if token.symbol in bound:
            continue
        dims, multiple = [], attributes.get(multiples.get(token.symbol), 1)
        for _ in range(1 if token.symbol in single else int(rng.integers(0, 4))):
            choices = [size for size in (*SIZES, *(large if rng.random() < 0.2 else ())) if size <= max(1, room)]
            dims.append(multiple * int(rng.choice(choices)) if rng.random() > 0.02 else 0)
            room //= max(1, abs(dims[-1]))
        bound[token.symbol] = dims
    named = {a.name: a.axis(attributes[a.name]) for a in signature.attributes if a.axes or a.type == "int"}
    return [_shape(rng, tensor.rule, bound, named) for tensor in signature.inputs]


def _dims(rng, token, bound, attributes):
    if getattr(token, "sizes", ()):
        return [sum(attributes[name] for name in token.sizes)]
    if not token.symbol:
        return [token.factor]
    dims = [token.factor * size for size in bound[token.symbol]]
    if getattr(token, "ones", False):
        return [1] * len(dims)
    return _broadcast(rng, dims) if token.broadcasts else dims


def _broadcast(rng, dims):
    """Some of them 1, and the first ones left out."""
    dims = [1 if rng.random() < 0.4 else size for size in dims]
    return dims[int(rng.integers(0, len(dims) + 1)) :] if rng.random() < 0.5 else dims


def _shape(rng, rule, bound, attributes):
    def dims(tokens):
        return [size for token in tokens for size in _dims(rng, token, bound, attributes)]

    if rule.anchor is None:
        return tuple(dims(rule.before))[:MAX_RANK]
    # The anchored dim stands where its attribute says, among those around it.
    around = dims(rule.before) + dims(rule.after)
    axis = attributes[rule.anchor.attribute]
    rank = len(around) + 1
    place = min(max(axis + rank if axis < 0 else axis, 0), rank - 1)
    return tuple(around[:place] + dims([rule.anchor]) + around[place:])


def arrays(rng, signature, shapes, dtypes):
    """Inputs of these shapes."""
    found = [None if s is None else values(rng, s, dtype) for s, dtype in zip(shapes, dtypes, strict=True)]
    by_name = dict(zip((tensor.name for tensor in signature.inputs), found, strict=True))
    # Added up: where each sequence or group ends.
    for name, rows, dims in (
        ("query_lengths", "query", 1), ("key_lengths", "key", 1), ("group_list", "x", -1), ("row_ends", "indices", 1),
        ("slice_ends", "indices", 1), ("group_ends", "pieces", 1),
    ):  # fmt: skip
        if name in by_name:
            ends, count = by_name[name], int(np.prod(by_name[rows].shape[:dims]))
            ends[...] = np.sort(rng.integers(0, count + 1, ends.shape))
            ends[-1] = count
    if "row_ends" in by_name:  # of values, whose columns are rows of the dense factor
        by_name["indices"] %= max(1, by_name["dense"].shape[0] // (16 if "block" in signature.name else 1))
    if "slice_ends" in by_name:
        by_name["indices"] %= by_name["x"].shape[-1] + 1
    if "sorted_indices" in by_name:  # each row once
        by_name["sorted_indices"].flat = rng.permutation(by_name["sorted_indices"].size)
    if "experts" in by_name:
        by_name["experts"] %= by_name["x"].shape[-1]
    if "slot_mapping" in by_name:  # each slot of the cache once at most
        slots, places = by_name["slot_mapping"], int(np.prod(by_name["key_cache"].shape[:2]))
        chosen = np.concatenate([rng.permutation(places), np.full(slots.size, -1)])[: slots.size]
        slots.flat = rng.permutation(chosen)
    return found


def values(rng, shape, dtype):
    """Numbers of a dtype: small ones, of both signs; indices are never negative."""
    if dtype in ("int32", "int64", "int8"):
        return rng.integers(0, 2, shape).astype(dtype)
    return rng.normal(size=shape).astype(numpy_type(dtype))


def numpy_type(dtype):
    return np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


def poisoned(shape, dtype):
    """Bytes that no kernel writes."""
    dtype = numpy_type(dtype)
    size = dtype.itemsize
    byte = {1: 0x80, 2: 0xFF}.get(size, 0xA5)  # -128, which quantisation leaves out; no number; one that is not met
    return np.full(int(np.prod(shape)) * size, byte, np.uint8).view(dtype).reshape(shape)


def untouched(array):
    return array.view(np.dtype(f"u{array.itemsize}")) == poisoned(array.shape, array.dtype).view(f"u{array.itemsize}")


@dataclass
class Call:
    """An operator with the dtypes of a row of its definition; the outputs are poisoned."""

    signature: Signature
    row: int
    attributes: dict
    dtypes: list  # of inputs
    inputs: list
    output_types: list
    outputs: list

    @property
    def shapes(self):
        return [None if array is None else array.shape for array in self.inputs]

    @property
    def is_empty(self):
        """CANN launches nothing then."""
        return all(output.size == 0 for output in self.outputs)


def random_call(rng, signature, row, largest):
    """Its tensors have `largest` elements at most."""
    shapes, _, attributes = draw(rng, signature, largest)
    dtypes = given_types(shapes, types_of(signature, signature.types[row]))
    types = infer_types(signature, dtypes)
    outputs = [poisoned(s, dtype) for s, dtype in zip(infer_shapes(signature, shapes, attributes), types, strict=True)]
    return Call(signature, row, attributes, dtypes, arrays(rng, signature, shapes, dtypes), types, outputs)
