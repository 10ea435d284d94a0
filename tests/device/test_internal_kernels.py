"""MindSpore's own fused kernels for inference on the device, against float64; networks are in tests/mindformers."""

import re
from pathlib import Path

import numpy as np
import pytest

from ms_ascend_ops.device import internal_kernels as library
from ms_ascend_ops.device.operators.internal_kernels import KERNELS, run_internal
from ms_ascend_ops.device.operators.memory import Tensor
from tests.acceptance import assert_close

FLOAT32, INT32 = 0, 3
MATMUL = {"transpose_a": 0, "transpose_b": 1}
SOURCE = Path(__file__).parents[2] / "kernels" / "device" / "internal_kernels" / "internal_kernels.cpp"


@pytest.fixture
def draw():
    rng = np.random.default_rng(0)
    return lambda *shape: rng.normal(size=shape).astype(np.float32)


def tensor(array):
    strides = tuple(stride // array.itemsize for stride in array.strides)
    return Tensor(array.ctypes.data, INT32 if array.dtype == np.int32 else FLOAT32, 0, array.shape, strides, array.size)


def run(name, inputs, *shapes, **parameters):
    outputs = [np.zeros(shape, np.float32) for shape in shapes]
    given = [None if array is None else tensor(array) for array in inputs]
    named = [item for pair in parameters.items() for item in pair]
    run_internal(name, [len(given), *given, len(outputs), *map(tensor, outputs), *named])
    return outputs


def attention(q, k, v, scale, seen=None):
    """One sequence of (tokens, heads, size), in float64."""
    k, v = (np.repeat(x.astype(np.float64), q.shape[1] // k.shape[1], 1) for x in (k, v))
    scores = np.einsum("qhd,khd->hqk", q.astype(np.float64), k) * scale
    scores = scores if seen is None else np.where(seen, scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("hqk,khd->qhd", weights / weights.sum(-1, keepdims=True), v)


def close(found, golden):
    """Computed in float32: sums of up to 16 products, and an exponential, round by some 1e-6."""
    assert_close(found, golden, rtol=1e-5, atol=1e-6)


def test_the_kernels_that_mindspore_is_told_of_are_computed():
    """MindSpore takes CANN's operator for the others: a name that only one of the places has fails at run time."""
    text = SOURCE.read_text(encoding="utf-8")
    told = re.findall(r"kInternal\w+OpName", text[text.index("KERNELS[]") : text.index("};", text.index("KERNELS[]"))])
    defined = re.findall(r"DEFINE_KERNEL(?:_WITH)?\(\w+, (kInternal\w+OpName)", text)
    assert sorted(told) == sorted(defined)
    client = library.client()
    if client is None:
        pytest.skip("this MindSpore has no kernels of its own")
    names = dict(re.findall(r'auto (kInternal\w+) = "(\w+)"', (client[1] / "include/op_param.h").read_text()))
    assert {names[one] for one in told} == {*KERNELS, "ReshapeAndCache"}


def test_joined_products_are_divided(draw):
    x, weight, bias = draw(3, 8), draw(12, 8), draw(12)
    y = x.astype(np.float64) @ weight.T + bias
    shape = {"sizes": [6, 4, 2], **MATMUL, "silu_position": 1, "with_bias": 1, "fused": 0, "split_two": 0}
    found = run("MultiWeightMatmul", [x, weight, bias], (3, 6), (3, 4), (3, 2), **shape)
    close(np.concatenate([found[0], found[2]], 1), np.delete(y, range(6, 10), 1))
    close(found[1], y[:, 6:10] / (1 + np.exp(-y[:, 6:10])))
    shape |= {"sizes": [6, 6, 0], "fused": 1, "split_two": 1}
    (gated,) = run("MultiWeightMatmul", [x, weight, bias], (3, 6), **shape)
    close(gated, y[:, :6] / (1 + np.exp(-y[:, :6])) * y[:, 6:])


def test_products(draw):
    x, weight, bias = draw(2, 3, 8), draw(8, 5), draw(5)
    y = x.astype(np.float64) @ weight
    shape = {"transpose_a": 0, "transpose_b": 0}
    close(run("MatMul", [x, weight], y.shape, **shape)[0], y)
    close(run("MatMul", [x, weight, bias], y.shape, **shape, with_bias=1, with_relu=1)[0], np.maximum(y + bias, 0))
    fast = y / (1 + np.exp(-1.702 * y))
    close(run("MatMul", [x, weight], y.shape, **shape, with_fast_gelu=1)[0], fast)
    tanh = 0.5 * y * (1 + np.tanh((2 / np.pi) ** 0.5 * (y + 0.044715 * y**3)))
    close(run("MatMul", [x, weight], y.shape, **shape, with_gelu=1)[0], tanh)
    weights = draw(3, 8, 5)
    order = {"perm_in": [1, 0, 2], "perm_out": [1, 0, 2]}
    golden = np.einsum("abk,bkn->abn", x.astype(np.float64), weights)
    close(run("TransposeBatchMatmulTranspose", [x, weights], (2, 3, 5), **shape, **order)[0], golden)


@pytest.mark.parametrize("cos_format", [2, 3])
def test_angles_follow_the_position_in_each_sequence(draw, cos_format):
    query, key, cos, sin = draw(5, 16), draw(5, 8), draw(9, 8), draw(9, 8)
    lengths = np.array([3, 2], np.int32)
    rows = [0, 1, 2, 0, 1]

    def golden(x):
        heads = x.reshape(5, -1, 8).astype(np.float64)
        if cos_format == 2:
            other = np.concatenate([-heads[..., 4:], heads[..., :4]], -1)
        else:
            other = np.stack([-heads[..., 1::2], heads[..., ::2]], -1).reshape(heads.shape)
        return (heads * cos[rows][:, None] + other * sin[rows][:, None]).reshape(x.shape)

    found = run("ApplyRotaryPosEmb", [query, key, cos, sin, lengths], query.shape, key.shape, cos_format=cos_format)
    close(found[0], golden(query))
    close(found[1], golden(key))


def test_newest_tokens_have_angles_of_their_own(draw):
    query, key, cos, sin = draw(2, 16), draw(2, 8), draw(2, 8), draw(2, 8)
    found = run("ApplyRotaryPosEmb", [query, key, cos, sin, np.array([4, 7], np.int32)], (2, 16), (2, 8), cos_format=2)
    close(found[1], key * cos + np.concatenate([-key[:, 4:], key[:, :4]], 1) * sin)


@pytest.mark.parametrize("size", [4, 8], ids=["a triangle for all lengths", "the whole mask"])
def test_sequences_behind_each_other(draw, size):
    """Attention of 4 heads over 2, of sequences of 5 and 3 tokens, none of which sees those behind it."""
    query, key, value = draw(8, 16), draw(8, 8), draw(8, 8)
    mask = np.triu(np.ones((size, size), np.float32), 1)
    about = {"heads": 4, "scale": 0.5, "layout": 5, "before": 9, "after": 0, "mode": 0}
    lengths = {"query_lengths": [5, 3], "key_lengths": [5, 3]}
    (found,) = run("FlashAttentionScore", [query, key, value, None, mask], query.shape, **about, **lengths)
    golden = [
        attention(
            query[rows].reshape(-1, 4, 4),
            key[rows].reshape(-1, 2, 4),
            value[rows].reshape(-1, 2, 4),
            0.5,
            np.tri(rows.stop - rows.start, dtype=bool),
        )
        for rows in (slice(0, 5), slice(5, 8))
    ]
    close(found, np.concatenate(golden).reshape(8, 16))
    with pytest.raises(ValueError, match="MindSpore gives no lengths of sequences"):
        run(
            "FlashAttentionScore",
            [query, key, value, None, mask],
            query.shape,
            **about,
            query_lengths=[],
            key_lengths=[],
        )


@pytest.mark.parametrize(("mode", "after"), [(4, 1), (2, 0)], ids=["a band", "causal"])
def test_a_batch_as_cann_has_it(draw, mode, after):
    """The layout BSH; sparse mode 4 hides what is more than one behind or ahead."""
    query, key, value = draw(2, 5, 16), draw(2, 5, 8), draw(2, 5, 8)
    about = {"heads": 4, "scale": 0.5, "layout": 0, "before": 1, "after": after, "mode": mode}
    inputs = [query, key, value, None, np.ones((5, 5), np.float32)]
    (found,) = run("FlashAttentionScore", inputs, query.shape, **about, query_lengths=[], key_lengths=[])
    seen = np.tri(5, 5, after, dtype=bool) & ~(np.tri(5, 5, -2, dtype=bool) & (mode == 4))
    for one, q, k, v in zip(found, query, key, value, strict=True):
        golden = attention(q.reshape(5, 4, 4), k.reshape(5, 2, 4), v.reshape(5, 2, 4), 0.5, seen)
        close(one, golden.reshape(5, 16))


def test_a_cache_is_written_and_read_by_pages(draw):
    keys, values = np.zeros((2, 4, 4, 2, 4), np.float32)
    key, value = draw(6, 8), draw(6, 8)
    slots = np.array([12, 13, 14, 15, 5, -1], np.int32)  # the last token has none
    run("ReshapeAndCache", [key, value, keys, values, slots])
    np.testing.assert_array_equal(keys.reshape(16, 8)[slots[:-1]], key[:-1])
    assert np.count_nonzero(values) == 5 * 8
    query, tables, lengths = draw(1, 16), np.array([[3, 1, -1]], np.int32), np.array([6], np.int32)
    seen = np.array([12, 13, 14, 15, 4, 5])
    about = {"heads": 4, "key_heads": 2, "scale": 0.5, "value_size": 0, "quantized": 0}
    inputs = [query, keys, values, tables, lengths]
    (found,) = run("PagedAttention", inputs, (1, 16), **about, query_lengths=[], mask_type=0)
    k, v = (x.reshape(16, 2, 4)[seen] for x in (keys, values))
    close(found, attention(query.reshape(1, 4, 4), k, v, 0.5).reshape(1, 16))
    # Three new tokens of the sequence, which do not see those behind them.
    inputs[0] = query = draw(3, 16)
    (found,) = run("PagedAttention", inputs, (3, 16), **about, query_lengths=[3], mask_type=2)
    ahead = np.tri(3, 6, 3, dtype=bool)
    close(found, attention(query.reshape(3, 4, 4), k, v, 0.5, ahead).reshape(3, 16))
    # Latent heads: values are the first elements of the keys.
    about |= {"value_size": 2}
    (found,) = run(
        "PagedAttention", [query, keys, None, tables, lengths], (3, 8), **about, query_lengths=[3], mask_type=0
    )
    close(found, attention(query.reshape(3, 4, 4), k, k[..., :2], 0.5).reshape(3, 8))


def test_best_experts_of_the_best_groups(draw):
    x, bias = draw(3, 8), draw(8)
    about = {"groups": 4, "group_k": 2, "best": 2, "k": 3, "activation": 0, "normalize": 1, "scale": 2.5, "mapped": 0}
    weights, experts = run("FusedAddTopkDiv", [x, bias], (3, 3), (3, 3), **about)
    scores = 1 / (1 + np.exp(-x.astype(np.float64)))
    for row in range(3):
        by = scores[row] + bias
        groups = sorted(range(4), key=lambda group: -by[2 * group : 2 * group + 2].sum())[:2]
        allowed = [2 * group + i for group in groups for i in (0, 1)]
        chosen = sorted(allowed, key=lambda expert: -by[expert])[:3]
        assert experts[row].tolist() == chosen
        close(weights[row], scores[row][chosen] / scores[row][chosen].sum() * 2.5)


def test_rows(draw):
    x, other, gamma = draw(3, 8), draw(3, 8), draw(8)
    total = x.astype(np.float64) + other
    rstd = 1 / np.sqrt(np.square(total).mean(-1, keepdims=True) + 1e-5)
    found = run("AddRmsNorm", [x, other, gamma], (3, 8), (3, 1), (3, 8), eps=1e-5)
    for one, golden in zip(found, (total * rstd * gamma, rstd, total), strict=True):
        close(one, golden)
    gate, up = x[:, :4].astype(np.float64), x[:, 4:]
    close(run("SwiGLU", [x], (3, 4), axis=-1)[0], gate / (1 + np.exp(-gate)) * up)
    close(run("Swish", [x], (3, 8))[0], x / (1 + np.exp(-x.astype(np.float64))))
    powers = np.exp(x.astype(np.float64))
    close(run("Softmax", [x], (3, 8), axes=[-1])[0], powers / powers.sum(-1, keepdims=True))
