"""MindSpore's attention functions for an NPU, on a CPU: against softmax(q k^T) v in float64."""

from itertools import product

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, ops

from ms_ascend_ops import cpu_builtins
from tests.acceptance import assert_close
from tests.modes import MODES, last_compiled, run
from tests.tensors import numpy, tensor

B, N, G, S, T, D = 2, 4, 2, 5, 7, 8
SCALE = D**-0.5
TRIANGLE = Tensor(np.triu(np.ones((2048, 2048), np.uint8), 1))


def draw(*shape, seed=0):
    return np.random.default_rng((seed, *shape)).standard_normal(shape)


def attention(q, k, v, visible=True, bias=0.0):
    """In float64, of (batch, heads, length, features)."""
    k, v = (np.repeat(x, q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = np.where(visible, SCALE * q @ k.swapaxes(2, 3) + bias, -np.inf)
    largest = scores.max(-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isfinite(largest), largest, 0))
    total = weights.sum(-1, keepdims=True)
    return weights / np.where(total > 0, total, 1) @ v


def laid_out(x, layout):
    """(batch, heads, length, features) in a layout of MindSpore's."""
    b, n, s, d = x.shape
    return {
        "BNSD": x,
        "BSND": x.swapaxes(1, 2),
        "BSH": x.swapaxes(1, 2).reshape(b, s, n * d),
        "SBH": x.transpose(2, 0, 1, 3).reshape(s, b, n * d),
    }[layout]


HEADS = [draw(B, N, S, D), draw(B, G, T, D), draw(B, G, T, D, seed=1)]
ROW, COLUMN = np.ogrid[:S, :T]


def inputs(layout, dtype="float32"):
    return [tensor(laid_out(x, layout), dtype) for x in HEADS]


def check(result, expected, layout, dtype="float32"):
    bound = {"float32": 1e-5, "float16": 1e-3}[dtype]  # some roundings
    assert_close(numpy(result), laid_out(expected, layout), atol=bound)


def plain(q, k, v, layout):
    return ops.flash_attention_score(q, k, v, N, scalar_value=SCALE, input_layout=layout)


def left_up(q, k, v, layout):
    return ops.flash_attention_score(
        q, k, v, N, attn_mask=TRIANGLE, scalar_value=SCALE, input_layout=layout, sparse_mode=2
    )


def right_down(q, k, v, layout):
    return ops.flash_attention_score(
        q, k, v, N, attn_mask=TRIANGLE, scalar_value=SCALE, input_layout=layout, sparse_mode=3
    )


def band(q, k, v, layout):
    return ops.flash_attention_score(
        q, k, v, N, None, None, None, TRIANGLE, None, None, None, 1.0, SCALE, 2, 1, 0, layout, 4
    )


FUNCTIONS = [
    (plain, "BSH", True),
    (plain, "BNSD", True),
    (plain, "SBH", True),
    (left_up, "BSND", COLUMN <= ROW),
    (right_down, "BSH", COLUMN <= ROW + T - S),
    (band, "BNSD", (COLUMN <= ROW + T - S + 1) & (COLUMN >= ROW + T - S - 2)),
]


@pytest.mark.parametrize(("mode", "function", "layout", "visible"), last_compiled(FUNCTIONS))
def test_layouts_and_sparse_modes(mode, function, layout, visible):
    with cpu_builtins():
        result = run(mode, function, inputs(layout), layout)
    check(result, attention(*HEADS, visible), layout)


def test_half_precision():
    rounded = [numpy(x) for x in inputs("BNSD", "float16")]
    with cpu_builtins():
        result = plain(*inputs("BSH", "float16"), "BSH")
    assert result.dtype == ms.float16
    check(result, attention(*rounded), "BSH", "float16")


def masked(q, k, v, mask, mode):
    return ops.flash_attention_score(q, k, v, N, attn_mask=mask, scalar_value=SCALE, sparse_mode=mode)


@pytest.mark.parametrize("shape", [(S, T), (B, 1, S, T), (B, N, S, T)])
@pytest.mark.parametrize("dtype", [np.bool_, np.uint8])
def test_masks(shape, dtype):
    hidden = np.random.default_rng(1).random(shape) < 0.4
    hidden[..., 3, :] = True  # a query that sees nothing gives zeros
    with cpu_builtins():
        for sparse_mode in (0, 1):
            result = masked(*inputs("BSH"), Tensor(hidden.astype(dtype)), sparse_mode)
            check(result, attention(*HEADS, ~hidden), "BSH")


def test_a_mask_within_a_band():
    """The default mode calculates what is between the tokens before and after, counted from the first key."""
    hidden = np.random.default_rng(1).random((S, T)) < 0.3
    with cpu_builtins():
        result = ops.flash_attention_score(
            *inputs("BSH"), N, attn_mask=Tensor(hidden), scalar_value=SCALE, pre_tokens=2, next_tokens=1
        )
    check(result, attention(*HEADS, ~hidden & (COLUMN <= ROW + 1) & (COLUMN >= ROW - 2)), "BSH")


def test_prefixes():
    with cpu_builtins():
        result = ops.flash_attention_score(
            *inputs("BNSD"),
            N,
            attn_mask=Tensor(np.zeros((B, 1, S, T), bool)),
            prefix=(3, 6),
            scalar_value=SCALE,
            input_layout="BNSD",
            sparse_mode=5,
        )
    visible = (COLUMN <= ROW + T - S) | (np.array([3, 6]).reshape(2, 1, 1, 1) > COLUMN)
    check(result, attention(*HEADS, visible), "BNSD")


def biased(q, k, v, shift):
    return ops.flash_attention_score(q, k, v, N, shift, attn_mask=TRIANGLE, scalar_value=SCALE, sparse_mode=3)


@pytest.mark.parametrize("mode", MODES)
def test_a_shift_of_the_scores(mode):
    shift = draw(1, N, S, T)
    with cpu_builtins():
        result = run(mode, biased, [*inputs("BSH"), tensor(shift, "float32")])
    check(result, attention(*HEADS, COLUMN <= ROW + T - S, shift), "BSH")


def test_gradients():
    """Of a sum with weights, against differences in float64; one element of each input."""
    shift, weights = draw(1, N, S, T), draw(B, N, S, D, seed=3)

    def loss(q, k, v, shift, weights):
        return (biased(q, k, v, shift) * weights).sum()

    def total(q, k, v):
        return right_down(q, k, v, "BSH").sum()

    with cpu_builtins():
        given = [*inputs("BSH"), tensor(shift, "float32"), tensor(laid_out(weights, "BSH"), "float32")]
        gradients = ms.grad(loss, (0, 1, 2, 3))(*given)
        causal = ms.grad(total, (0, 1, 2))(*given[:3])
    visible = COLUMN <= ROW + T - S
    values, place, step = [*HEADS, shift], (0, 1, 2, 3), 1e-6
    for index, gradient in enumerate(gradients):
        moved = []
        for sign in (1, -1):
            changed = [x.copy() for x in values]
            changed[index][place] += sign * step
            moved.append((attention(*changed[:3], visible, changed[3]) * weights).sum())
        expected = np.zeros_like(values[index])
        expected[place] = (moved[0] - moved[1]) / (2 * step)
        got = numpy(gradient)
        here = laid_out(expected, "BSH") if index < 3 else expected
        where = np.unravel_index(np.abs(here).argmax(), here.shape)
        np.testing.assert_allclose(got[where], here[where], rtol=1e-3, atol=1e-5)  # of differences of sums
    # Of values: the sum of the probabilities of a key.
    np.testing.assert_allclose(numpy(causal[2]).sum(), B * N * S * D, rtol=1e-5)


def varied(q, k, v, mode):
    return ops.flash_attention_score(
        q,
        k,
        v,
        N,
        attn_mask=TRIANGLE if mode > 1 else None,
        actual_seq_qlen=(2, 5, 6),
        actual_seq_kvlen=(4, 7, 10),
        scalar_value=SCALE,
        input_layout="TND",
        sparse_mode=mode,
    )


@pytest.mark.parametrize(("mode", "sparse_mode"), last_compiled([(0,), (2,), (3,)], "graph"))
def test_sequences_of_several_lengths(mode, sparse_mode):
    q, k, v = draw(6, N, D), draw(10, G, D), draw(10, G, D, seed=1)
    with cpu_builtins():
        result = run(mode, varied, [tensor(x, "float32") for x in (q, k, v)], sparse_mode)
    for rows, columns in ((slice(0, 2), slice(0, 4)), (slice(2, 5), slice(4, 7)), (slice(5, 6), slice(7, 10))):
        one = [x[None, part].swapaxes(1, 2) for x, part in ((q, rows), (k, columns), (v, columns))]
        i, j = np.ogrid[: one[0].shape[2], : one[1].shape[2]]
        shift = one[1].shape[2] - one[0].shape[2] if sparse_mode == 3 else 0
        visible = j <= i + shift if sparse_mode else True
        expected = attention(*one, visible)[0].swapaxes(0, 1)
        assert_close(numpy(result)[rows], expected, atol=1e-5)  # as in check()


def prompt(q, k, v, layout, lengths, key_lengths, sparse_mode):
    mask = TRIANGLE if sparse_mode > 1 else None
    return ops.prompt_flash_attention(
        q,
        k,
        v,
        attn_mask=mask,
        actual_seq_lengths=lengths,
        actual_seq_lengths_kv=key_lengths,
        num_heads=N,
        num_key_value_heads=G,
        scale_value=SCALE,
        input_layout=layout,
        sparse_mode=sparse_mode,
    )


@pytest.mark.parametrize(
    ("mode", "layout", "lengths", "key_lengths", "sparse_mode"),
    last_compiled(
        [("BSH", None, None, 0), ("BSH", None, (4, 7), 0), ("BSH", (3, 5), None, 2), ("BNSD", (3, 5), (4, 7), 3)]
    ),
)
def test_prompts(mode, layout, lengths, key_lengths, sparse_mode):
    with cpu_builtins():
        result = run(mode, prompt, inputs(layout), layout, lengths, key_lengths, sparse_mode)
    rows, columns = (np.array(x).reshape(2, 1, 1, 1) for x in (lengths or (S, S), key_lengths or (T, T)))
    visible = (rows > ROW) & (columns > COLUMN)
    if sparse_mode:
        visible = visible & (ROW + (columns - rows if sparse_mode == 3 else 0) >= COLUMN)
    check(result, attention(*HEADS, visible), layout)


def test_a_mask_and_a_shift_of_a_prompt():
    hidden, shift = np.random.default_rng(1).random((B, S, T)) < 0.3, draw(1, N, S + 1, T + 2)
    with cpu_builtins():
        result = ops.prompt_flash_attention(
            *inputs("BSH"),
            attn_mask=Tensor(hidden),
            pse_shift=tensor(shift, "float32"),
            num_heads=N,
            num_key_value_heads=G,
            scale_value=SCALE,
            next_tokens=2147483647,
        )
    check(result, attention(*HEADS, ~hidden[:, None], shift[:, :, :S, :T]), "BSH")


def one_token(q, k, v, mask, lengths, layout):
    return ops.incre_flash_attention(
        q,
        [k],
        [v],
        mask,
        lengths,
        num_heads=N,
        input_layout=layout,
        scale_value=SCALE,
        num_key_value_heads=G,
    )


@pytest.mark.parametrize(
    ("mode", "layout", "lengths"), last_compiled([*product(["BSH", "BNSD"], [None, (4, 6)])], "graph")
)
def test_one_token(mode, layout, lengths):
    hidden = np.random.default_rng(1).random((B, T)) < 0.3
    query = HEADS[0][:, :, :1]
    given = [tensor(laid_out(x, layout), "float32") for x in (query, *HEADS[1:])]
    with cpu_builtins():
        result = run(mode, one_token, [*given, Tensor(hidden)], lengths, layout)
    columns = np.array(lengths or (T, T)).reshape(2, 1, 1, 1)
    check(result, attention(query, *HEADS[1:], (columns > COLUMN[:1]) & ~hidden[:, None, None]), layout)


REFUSED = [
    ("keep_prob", lambda x: ops.flash_attention_score(*x, N, keep_prob=0.9)),
    ("drop_mask", lambda x: ops.flash_attention_score(*x, N, drop_mask=TRIANGLE)),
    ("padding_mask", lambda x: ops.flash_attention_score(*x, N, padding_mask=TRIANGLE)),
    ("sparse_mode", lambda x: ops.flash_attention_score(*x, N, sparse_mode=7)),
    ("attn_mask", lambda x: ops.flash_attention_score(*x, N, sparse_mode=2)),
    ("attn_mask", lambda x: ops.flash_attention_score(*x, N, attn_mask=TRIANGLE)),
    ("prefix", lambda x: ops.flash_attention_score(*x, N, sparse_mode=5, attn_mask=TRIANGLE)),
    ("actual_seq_qlen", lambda x: ops.flash_attention_score(*x, N, actual_seq_qlen=(2, 5))),
    ("real_shift", lambda x: ops.flash_attention_score(*x, N, x[0])),
    ("input_layout", lambda x: ops.flash_attention_score(*x, N, input_layout="BHS")),
    ("heads", lambda x: ops.flash_attention_score(*x, 3)),
    ("quantization", lambda x: ops.prompt_flash_attention(*x, num_heads=N, quant_scale1=x[0])),
    ("input_layout", lambda x: ops.prompt_flash_attention(*x, num_heads=N, input_layout="SBH")),
    ("block_table", lambda x: ops.incre_flash_attention(*x, num_heads=N, block_table=TRIANGLE)),
    ("kv_padding_size", lambda x: ops.incre_flash_attention(*x, num_heads=N, kv_padding_size=TRIANGLE)),
    ("one token", lambda x: ops.incre_flash_attention(*x, num_heads=N, num_key_value_heads=G)),
]


@pytest.mark.parametrize(("text", "call"), REFUSED, ids=range(len(REFUSED)))
def test_arguments_that_cannot_be_served(text, call):
    with cpu_builtins(), pytest.raises(ValueError, match=text):
        call(inputs("BSH"))
