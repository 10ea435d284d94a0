"""The largest sizes that the functions accept are those that the tiling of every chip accepts. No memory is needed."""

import re

import numpy as np
import pytest

from ms_ascend_ops import _C, registry
from ms_ascend_ops.checks import CHECKS
from ms_ascend_ops.definitions.inference import infer_shapes
from ms_ascend_ops.profiler.chip import chip_names, load_chip
from tests.kernels.ascend.cases import draw

# A tiling knows nothing else of a chip.
CHIPS = list({(chip.cores, chip.ub_bytes): chip for chip in map(load_chip, chip_names())}.values())
SIGNATURES = [signature for name in registry.names() for signature in registry.op_spec(name).signatures]
ROUNDS = 60
MODES = ("half", "interleave")


def rotary(size):
    """(shapes, attributes) of heads of this size: all of it is rotated, half of it, or a pair."""
    for mode in MODES:
        for rotated in (0, size // 4 * 2, 2):
            for width, separate_halves in (
                (rotated or size, True),
                (rotated or size, False),
                ((rotated or size) // 2, False),
            ):
                attributes = {"seq_axis": 1, "mode": mode, "rotary_dim": rotated, "separate_halves": separate_halves}
                yield [(1, 2, 3, size), (2, width), (2, width)], attributes


def qkv(size):
    for shapes, attributes in rotary(size):
        for layout in ("BNSD", "BSND"):
            heads = {"q_heads": 2, "k_heads": 1, "v_heads": 1, "layout": layout}
            packed = [(1, 2, 4, size), *shapes[1:]]
            yield packed, heads | {name: attributes[name] for name in ("mode", "rotary_dim", "separate_halves")}


def cache(slots):
    yield [(3, 1, 1), (3, 1, 1), (slots, 1, 1, 1), (slots, 1, 1, 1), (3,)], {}


def attention(size):
    for sizes in ((size, size), (size, 8), (8, size)):
        for layout in ("BNSD", "BSND"):
            shapes = [(1, 2, 2, sizes[0])] * 2 + [(1, 2, 2, sizes[1]), (1, 1, 2, 2)]
            yield shapes, {"scale": 1.0, "causal": False, "window": 0, "layout": layout}


def packed(size):
    for sizes in ((size, size), (size, 8), (8, size)):
        yield [(2, 2, sizes[0])] * 2 + [(2, 2, sizes[1]), (1,), (1,)], {"scale": 1.0, "causal": False, "window": 0}


def paged(size):
    for sizes in ((size, size), (size, 8), (8, size)):
        caches = [(3, 4, 2, n) for n in sizes]
        yield [(1, 2, 2, sizes[0]), *caches, (1, 2), (1,)], {"scale": 1.0, "window": 0, "softcap": 0.0}


def paged_slots(slots):
    yield [(1, 1, 1, 8), (slots, 1, 1, 8), (slots, 1, 1, 8), (1, 2), (1,)], {"scale": 1.0, "window": 0, "softcap": 0.0}


def quantised(size):
    for per_byte in (1, 2):
        yield [(3, 2 * size), (6, 2 * size // per_byte), (6, 2), (6, 2), (6,)], {"activation": "gelu"}


def gated(size):
    for shapes, _ in quantised(size):
        yield shapes, {}


def grouped_integers(k):
    yield [(2, k), (3, 5, k), (3, 5), (3,), (2,)], {}


def integers(columns):
    yield [(3, columns), (5, columns), (5,), (3,), (5,)], {}


def gate(experts, k=1, group_count=1):
    scores = {"scoring": "softmax", "renormalize": True, "group_score": "max", "scale": 1.0, "epsilon": 0.0}
    yield [(3, experts), (experts,)], scores | {"k": k, "group_count": group_count, "k_group": 1}


def chosen(k):
    yield from gate(200, k)


def groups(count):
    yield from gate(2 * count, group_count=count)


def permuted(k):
    yield [(3, 5), (3, k)], {"num_experts": 7}


def experts(count):
    yield [(3, 5), (3, 2)], {"num_experts": count}


def unpermuted(k):
    yield [(3, k, 5), (3, k), (3, k)], {}


def sliced(size):
    yield [(1, size), (2,), (3, 64), (3, 64), (1,), (1, 64)], {}


CASES = {
    ("flash_attention", "head_size"): attention,
    ("flash_attention_varlen", "head_size"): packed,
    ("moe_gating_top_k", "experts"): gate,
    ("moe_gating_top_k", "experts_of_a_token"): chosen,
    ("moe_gating_top_k", "groups"): groups,
    ("moe_token_permute", "experts"): experts,
    ("moe_token_permute", "experts_of_a_token"): permuted,
    ("moe_token_unpermute", "experts_of_a_token"): unpermuted,
    ("rotary_embedding", "head_size"): rotary,
    ("qkv_rotary_embedding", "head_size"): qkv,
    ("kv_cache_update", "slots"): cache,
    ("paged_attention", "head_size"): paged,
    ("paged_attention", "slots"): paged_slots,
    ("grouped_quant_matmul", "columns"): grouped_integers,
    ("quant_matmul", "columns"): integers,
    ("sliced_sparse_matmul", "elements"): sliced,
    ("weight_quant_matmul", "group_size"): quantised,
    ("weight_quant_swiglu", "group_size"): gated,
}


def test_every_limit_has_its_cases():
    assert set(CASES) == {(name, limit) for name in registry.names() for limit in registry.op_spec(name).limits}


def tile(signature, shapes, row, attributes, chip):
    dtypes = [row.get(tensor.dtype, tensor.dtype) for tensor in signature.inputs]
    return _C.tiling(signature.name, shapes, dtypes, attributes, core_num=chip.cores, ub_bytes=chip.ub_bytes)


def gradient_shapes(name, shapes, attributes):
    """Of the outputs' gradients, then the tables."""
    if name == "moe_gating_top_k":
        weights = (3, attributes["k"])
        return [weights, shapes[0], weights]
    if name == "moe_token_unpermute":
        return [(3, 5), *shapes]
    if name == "rotary_embedding":
        return shapes
    if name == "flash_attention":
        query, key, value, mask = shapes
        return [(*query[:3], value[3]), query, key, value, query[:3], query[:3], mask]
    if name == "flash_attention_varlen":
        query, key, value, *lengths = shapes
        return [(*query[:2], value[2]), query, key, value, query[1::-1], query[1::-1], *lengths]
    (batch, positions, _, size), *tables = shapes
    return [*[(batch, count, positions, size) for count in (2, 1, 1)], *tables]


@pytest.mark.parametrize(("name", "limit"), CASES)
def test_the_function_and_the_tiling_accept_the_same(name, limit):
    for chip in CHIPS:
        assert_accepted(name, limit, chip)


def assert_accepted(name, limit, chip):
    spec, check = registry.op_spec(name), CHECKS[name]
    most = spec.limits[limit]
    for shapes, attributes in CASES[name, limit](most):
        check(shapes, attributes)
        for row in spec.forward.types:
            assert tile(spec.forward, shapes, row, attributes, chip)["block_dim"] >= 1
            if spec.gradient is not None and attributes.get("layout") != "BSND":
                assert (
                    tile(spec.gradient, gradient_shapes(name, shapes, attributes), row, attributes, chip)["block_dim"]
                    >= 1
                )
    refused = re.escape(name) + r": .* must (be|have) (at most \d+|fewer than 2\^31)"
    for shapes, attributes in CASES[name, limit](most + 2):
        with pytest.raises(ValueError, match=refused):
            check(shapes, attributes)
        with pytest.raises(ValueError, match=refused):
            tile(spec.forward, shapes, spec.forward.types[0], attributes, chip)


@pytest.mark.parametrize("signature", SIGNATURES, ids=[signature.name for signature in SIGNATURES])
def test_what_the_rules_accept_every_chip_accepts(signature):
    rng = np.random.default_rng(sum(signature.name.encode()))
    for _ in range(ROUNDS):
        shapes, dtypes, attributes = draw(rng, signature, 1 << 28)
        if all(0 in shape for shape in infer_shapes(signature, shapes, attributes)):
            continue  # nothing is launched
        for chip in CHIPS:
            tiling = _C.tiling(signature.name, shapes, dtypes, attributes, core_num=chip.cores, ub_bytes=chip.ub_bytes)
            assert 1 <= tiling["block_dim"] <= chip.cores, f"{shapes} {dtypes} {attributes} {chip.name}"


@pytest.mark.parametrize("name", ["rms_norm", "layer_norm", "add_rms_norm", "add_layer_norm", "softmax"])
def test_a_row_of_more_than_32_bits_is_refused(name):
    """It was taken for one of 8 elements."""
    signature = registry.signature(name)
    size = 2**32 + 8
    shapes = [(size,) if tensor.name in ("gamma", "beta") else (2, size) for tensor in signature.inputs]
    row = signature.types[0]
    with pytest.raises(ValueError, match=rf"^{name}: the elements of a row must be fewer than 2\^31, got {size}$"):
        tile(signature, shapes, row, signature.check_attributes({}), CHIPS[0])
