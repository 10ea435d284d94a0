"""The functions of the package ms_custom_ops that MindFormers calls, against float64; names as they have them."""

import sys

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn
from ms_ascend_ops.export.builtins import custom_ops, primitives
from ms_ascend_ops.export.builtins.shims import MissingOperatorError

from ms_ascend_ops import cpu_builtins
from tests.acceptance import assert_close
from tests.modes import run

RNG = np.random.default_rng(0)
# Attention in float32 beside float64: scores of some 50 products of numbers about 1, and means of values about 2 with
# weights that are exact to as many roundings. Seen here: 1.3e-6.
ATTENTION = {"rtol": 0, "atol": 1e-5}
SLOTS, TABLES, LENGTHS = np.int32([37, -1, 16]), np.int32([[2, 1], [1, 0]]), np.int32([19, 5])


class Call(nn.Cell):
    """A function as MindFormers calls it: of a module that a cell holds."""

    def __init__(self, name, *extra, **keywords):
        super().__init__()
        self.custom, self.called = custom_ops, getattr(custom_ops, name)
        self.extra, self.keywords = extra, keywords

    def construct(self, *inputs):
        return self.called(*inputs, *self.extra, **self.keywords)


def normal(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def integers(*shape):
    return RNG.integers(-9, 9, shape).astype(np.int8)


def fractal(array):
    """(..., rows, columns) as FRACTAL_NZ has it in memory, in the shape that it has."""
    block = 32 if array.dtype == np.int8 else 16
    blocks = [array[..., i : i + block] for i in range(0, array.shape[-1], block)]
    return np.stack(blocks, -3).reshape(array.shape)


def softmax(scores):
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


@pytest.mark.parametrize("array", [normal(3, 16, 48), integers(16, 64)], ids=["float32", "int8"])
def test_formats(array):
    there = Call("trans_data", 1)(Tensor(array))
    np.testing.assert_array_equal(there.asnumpy(), fractal(array))
    np.testing.assert_array_equal(Call("trans_data", 0)(there).asnumpy(), array)


@pytest.mark.parametrize(
    ("make", "nz", "mode"), [(normal, False, "pynative"), (normal, True, "graph"), (integers, True, "pynative")]
)
def test_what_is_written_to_a_cache(make, nz, mode):
    """One token has no slot. Keys and values have different sizes, as latent ones have."""
    new, rotated, cache, rotary = make(3, 64), normal(3, 1, 16), make(3, 16, 64), normal(3, 16, 16)
    expected, expected_rotary = cache.copy(), rotary.copy()
    for token, slot in enumerate(SLOTS):
        if slot >= 0:
            expected[slot // 16, slot % 16], expected_rotary[slot // 16, slot % 16] = new[token], rotated[token, 0]
    stored = [fractal(x) if nz else x.reshape(3, 16, 1, -1) for x in (cache, rotary)]
    caches = [Tensor(x.copy()) for x in stored]
    run(mode, Call("reshape_and_cache", int(nz), head_num=1), (Tensor(new), Tensor(rotated), *caches, Tensor(SLOTS)))
    for written, values in zip(caches, (expected, expected_rotary), strict=True):
        np.testing.assert_array_equal(written.asnumpy().reshape(values.shape), fractal(values) if nz else values)


def attended(query, keys, values, visible, scale):
    """(heads, d), (t, d), (t, e): of one query, in float64."""
    scores = query.astype(np.float64) @ keys[:visible].T.astype(np.float64) * scale
    return softmax(scores) @ values[:visible].astype(np.float64)


@pytest.mark.parametrize(("nz", "mode"), [(False, "pynative"), (True, "graph")])
def test_latent_attention_over_pages(nz, mode):
    """Two sequences with one and two new tokens; no mask, as the first of the two is asked with both keys."""
    query, rotated, latent, rotary = normal(3, 2, 48), normal(3, 2, 16), normal(3, 16, 48), normal(3, 16, 16)
    caches = [Tensor(fractal(x) if nz else x.reshape(3, 16, 1, -1)) for x in (latent, rotary)]
    call = Call("mla", None, None, None, Tensor(np.int32([1, 2])), Tensor(LENGTHS), 2, 0.2, input_format=int(nz))
    out, _ = run(mode, call, (Tensor(query), Tensor(rotated), *caches, Tensor(TABLES)))
    for token, sequence in enumerate((0, 1, 1)):
        values = latent[TABLES[sequence]].reshape(32, 48)
        keys = np.concatenate([values, rotary[TABLES[sequence]].reshape(32, 16)], -1)
        whole = np.concatenate([query[token], rotated[token]], -1)
        expected = attended(whole, keys, values, LENGTHS[sequence], 0.2)
        assert_close(out.asnumpy()[token], expected, **ATTENTION)


def test_paged_attention_of_latent_heads():
    """The primitive, whose values are a part of its keys: heads of more elements than the kernel has."""
    query, keys = normal(2, 2 * 320), normal(3, 16, 1, 320)
    cell = primitives.PagedAttention(2, 0.1, 1, mla_v_dim=288)
    out = run("pynative", cell, (Tensor(query), Tensor(keys), Tensor(keys), Tensor(TABLES), Tensor(LENGTHS)))
    for i in range(2):
        whole = keys[TABLES[i]].reshape(32, 320)
        expected = attended(query[i].reshape(2, 320), whole, whole[:, :288], LENGTHS[i], 0.1)
        assert_close(out.asnumpy()[i].reshape(2, 288), expected, **ATTENTION)


def test_attention_in_parts_is_that_of_the_whole():
    """ring_mla, with keys of one half, then of the other: as with all of them. One sequence has no keys at first."""
    query, rotated = normal(5, 2, 32), normal(5, 2, 16)
    key, rotary, value = normal(8, 2, 32), normal(8, 2, 16), normal(8, 2, 24)
    lengths, parts = np.int32([3, 2]), ([[0, 1, 2, 3], [3, 0]], [[4, 5, 6, 7], [2, 2]])
    out, lse = np.zeros((5, 2, 24), np.float32), np.zeros((2, 5), np.float32)
    options = {"head_num": 2, "scale_value": 0.3, "kv_head_num": 2, "mask_type": 0}
    before = None
    for ids, counts in parts:
        counted = Tensor(np.int32([len(ids) - 2, 2])) if before else Tensor(np.int32([4, 0]))
        step = Call("ring_mla", *[None] * 8, Tensor(out), Tensor(lse), Tensor(lengths), counted, **options)
        step.keywords["calc_type"] = 0 if before else 1
        inputs = [Tensor(query), Tensor(rotated), *(Tensor(x[ids]) for x in (key, rotary, value))]
        got, got_lse = (x.asnumpy() for x in run("pynative", step, inputs))
        if before is None:
            np.testing.assert_array_equal(got[3:], 0)
            np.testing.assert_array_equal(got_lse[:, 3:], 0)
            got_lse = np.where(np.arange(5) < 3, got_lse, -np.inf)
        out, lse, before = got.astype(np.float32), got_lse.astype(np.float32), counts
    whole, keys = np.concatenate([query, rotated], -1), np.concatenate([key, rotary], -1)
    for token in range(5):
        ids = [0, 1, 2, 3, 4, 5] if token < 3 else [6, 7]
        for head in range(2):
            expected = attended(whole[token, head], keys[ids, head], value[ids, head], len(ids), 0.3)
            assert_close(out[token, head], expected, **ATTENTION)


def test_causal_attention_of_sequences():
    query, rotated, value = normal(5, 2, 32), normal(5, 2, 16), normal(5, 2, 24)
    lengths = Tensor(np.int32([3, 2]))
    options = {"head_num": 2, "scale_value": 0.3, "kv_head_num": 2, "mask_type": 1, "calc_type": 1}
    step = Call("ring_mla", *[None] * 10, lengths, lengths, **options)
    out, _ = run("graph", step, [Tensor(x) for x in (query, rotated, query, rotated, value)])
    whole = np.concatenate([query, rotated], -1)
    for token in range(5):
        first = 0 if token < 3 else 3
        for head in range(2):
            ids = slice(first, token + 1)
            expected = attended(whole[token, head], whole[ids, head], value[ids, head], token + 1 - first, 0.3)
            assert_close(out.asnumpy()[token, head], expected, **ATTENTION)


def test_products_of_int8():
    """A weight in FRACTAL_NZ, a bias of int32 before the scale, scales of rows; sums that float32 does not hold."""
    x, weight = np.full((3, 2048), 127, np.int8), np.full((32, 2048), 127, np.int8)
    weight[1::2], x[1] = integers(16, 2048), integers(2048)
    scale, rows, bias = RNG.random(32).astype(np.float32), RNG.random(3).astype(np.float32), np.int32(range(32))
    call = Call("quant_batch_matmul", None, Tensor(bias), Tensor(rows), False, True, "FRACTAL_NZ", ms.float32)
    out = run("graph", call, (Tensor(x), Tensor(fractal(weight)), Tensor(scale)))
    expected = (x.astype(np.float64) @ weight.T.astype(np.float64) + bias) * scale * rows[:, None]
    # The sum is exact; behind it come a bias and two products in float32, three roundings of 6e-8.
    np.testing.assert_allclose(out.asnumpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("shape", [(70, 96), (2, 35, 96)])
def test_rows_do_not_depend_on_their_number(shape):
    x, weight = Tensor(normal(*shape)), Tensor(normal(96, 40))
    whole = custom_ops.matmul_batch_invariant(x, weight).asnumpy()
    # 96 products of numbers up to 4, added up in float32 in an order that is the library's: 96 roundings of sums up to
    # 34 at most, of which 1.7e-5 is seen. What the test is about are the equal bits below.
    assert_close(whole, x.asnumpy().astype(np.float64) @ weight.asnumpy(), atol=1e-5)
    for count in (1, 3, 17, 33):
        part = custom_ops.matmul_batch_invariant(x[..., :count, :], weight).asnumpy()
        np.testing.assert_array_equal(part, whole[..., :count, :])


@pytest.mark.parametrize(("cache_mode", "mode"), [(0, "pynative"), (1, "pynative"), (3, "graph")])
def test_all_that_is_before_latent_attention(cache_mode, mode):
    """Two tokens, 2 heads of 16 + 16 elements, latent keys of 32, latent queries of 64."""
    x, gamma, beta = normal(2, 64), normal(64), normal(64)
    down, up, absorb = integers(32 + 16 + 64, 64), integers(64, 64), normal(2, 16, 32)
    scales = [RNG.random(n).astype(np.float32) / 100 for n in (112, 64)]
    bias = [np.int32(RNG.integers(-99, 99, n)) for n in (112, 64)]
    gamma2, beta2, gamma3, sin, cos = normal(64), normal(64), normal(32), normal(2, 16), normal(2, 16)
    step, offset, slots = np.float32([0.05]), np.int8([3]), np.int32([5, 40])
    caches = [np.zeros((3, 16, n), np.float32) for n in ((48, 16) if cache_mode == 0 else (32, 16))]
    tensors = [Tensor(c.copy()) for c in caches]
    inputs = [x, gamma, beta, step, offset, fractal(down), bias[0], gamma2, beta2, step, offset, gamma3, sin, cos, sin]
    inputs = [*map(Tensor, inputs), Tensor(cos), tensors[0], Tensor(slots), Tensor(fractal(up)), Tensor(bias[1])]
    rest = [Tensor(absorb), *map(Tensor, scales), Tensor(step), Tensor(step), tensors[1]]
    got = run(mode, Call("mla_preprocess", cache_mode), [*inputs, *rest])

    def norm(x, gamma):
        x = x.astype(np.float64)
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * gamma

    def quantized(x, gamma, beta):
        return np.clip(np.rint((norm(x, gamma) + beta) / step.astype(np.float64) + offset), -128, 127)

    def rotate(x):
        return x * cos + np.concatenate([-x[:, 8:], x[:, :8]], -1) * sin

    whole = (quantized(x, gamma, beta) @ down.T + bias[0]) * scales[0]
    keys, rotary, queries = whole[:, :32], rotate(whole[:, 32:48]), whole[:, 48:]
    keys = norm(keys, gamma3)
    heads = ((quantized(queries, gamma2, beta2) @ up.T + bias[1]) * scales[1]).reshape(2, 2, 32)
    plain = np.einsum("thd,hde->the", heads[..., :16], absorb)
    rotated = np.stack([rotate(heads[:, i, 16:]) for i in range(2)], 1)
    expected = np.concatenate([plain, rotated], -1) if cache_mode == 0 else plain
    # Products of integers are exact, as no number that is rounded to one is near a tie; norms, angles and the product
    # with `absorb` are sums of up to 64 terms in float32. Seen here: 1.4e-5 of results up to 91.
    close = {"rtol": 1e-5, "atol": 1e-6}
    assert_close(got[0].asnumpy(), expected, **close)
    assert_close(got[2].asnumpy(), rotated, **close)
    written = [np.concatenate([keys, rotary], -1)] if cache_mode == 0 else [keys, rotary]
    for cache, tensor, rows in zip(caches, tensors, written, strict=False):
        cache[slots // 16, slots % 16] = rows
        stored = fractal(cache) if cache_mode == 3 else cache
        assert_close(tensor.asnumpy(), stored, **close)


def test_the_package_is_there_within_and_gone_afterwards():
    with cpu_builtins():
        import ms_custom_ops  # noqa: PLC0415

        assert ms_custom_ops.trans_data is custom_ops.trans_data
        assert not hasattr(ms_custom_ops, "paged_cache_load")
    assert "ms_custom_ops" not in sys.modules
    with (
        pytest.raises(MissingOperatorError, match=r"ms_custom_ops.paged_cache_load has .* called at .*py.*trans_data"),
        cpu_builtins(),
    ):
        from ms_custom_ops import paged_cache_load  # noqa: F401, PLC0415


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: custom_ops.trans_data(x[:, :3], 1), "trans_data: the last dims of input must be multiples of 16"),
        (lambda x: custom_ops.mla(x, x, x, x, x, mask_type=2), "mla: mask_type must be 0"),
        (lambda x: custom_ops.ring_mla(x, x, x, x, x, quant_p=x), "ring_mla: alibi_coeff"),
        (lambda x: custom_ops.quant_batch_matmul(x, x, x, x2_format="NZ"), "quant_batch_matmul: x2_format must be"),
    ],
)
def test_what_is_not_served_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call(Tensor(np.zeros((16, 16), np.float32)))
