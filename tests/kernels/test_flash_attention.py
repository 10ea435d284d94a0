import numpy as np
import pytest

from ms_ascend_ops.library import get_num_threads, set_num_threads
from tests.acceptance import assert_accurate
from tests.cann_bench import cases, draw_range
from tests.cover import cover
from tests.dtypes import FLOATS
from tests.inputs import draw
from tests.native import launch
from tests.reference import flash_attention as reference

CASES = [  # batch, heads, key heads, queries, keys, head size, value size
    (1, 1, 1, 1, 1, 1, 1),
    (1, 2, 2, 5, 7, 8, 8),  # a tile that nothing fills
    (2, 4, 2, 130, 130, 32, 32),  # several tiles of rows, with a tail
    (1, 2, 1, 20, 700, 40, 24),  # several tiles of keys, sizes of their own
    (1, 8, 2, 1, 1100, 64, 64),  # one query of each head: heads that share keys are one tile
    (1, 6, 2, 7, 600, 33, 17),  # a tile of rows of several heads; sizes that fill no block
    (1, 2, 1, 33, 300, 128, 128),
    (1, 2, 1, 9, 40, 256, 256),  # heads that leave room for few rows
    (1, 3, 1, 20, 10, 16, 16),  # with `causal` some queries see no key
    (3, 2, 2, 4, 0, 8, 8),  # no keys at all
]
SEEN = {"all": (False, 0), "causal": (True, 0), "window": (True, 50), "behind": (False, 9)}
LAYOUTS = ("BNSD", "BSND")


def shapes(case, layout):
    b, h, g, s, t, d, e = case
    ordered = (lambda n, length, size: (b, n, length, size)) if layout == "BNSD" else (lambda n, x, y: (b, x, n, y))
    return ordered(h, s, d), ordered(g, t, d), ordered(g, t, e), ordered(h, s, e)


@cover("case", CASES, dtype=FLOATS, seen=list(SEEN), layout=LAYOUTS)
def test_forward(case, dtype, seen, layout):
    rng = np.random.default_rng(sum(case))
    inputs = [draw(rng, shape) / 2 for shape in shapes(case, layout)[:3]] + [None]
    causal, window = SEEN[seen]
    attributes = {"scale": case[5] ** -0.5, "causal": causal, "window": window, "layout": layout}
    (out, lse), rounded = launch("flash_attention", inputs, [dtype] * 4, **attributes)
    golden, golden_lse = reference.forward(*rounded, **attributes)
    assert_accurate(lse, golden_lse, "float32", np.abs(golden_lse) + 1)
    # Probabilities are rounded to the dtype before they meet the values: what cancels there has no relative accuracy.
    terms = reference.forward(*rounded[:2], np.abs(rounded[2]), None, **attributes)[0]
    assert_accurate(out, golden, dtype, terms * TERMS[dtype])


@pytest.mark.parametrize("case", cases("GQA") + cases("MHA"), ids=lambda row: f"{row['operator']}{row['case_id']}")
def test_cann_bench(case):
    """Two new tokens behind a context (is_causal): the last query stands at the last key."""
    rng = np.random.default_rng(case["case_id"])
    inputs = [draw_range(rng, shape, case["value_range"]) for shape in case["input_shape"]]
    dtype, given = case["dtype"][0], case["attrs"]["scaleValue"]
    scale = case["input_shape"][0][-1] ** -0.5 if given == -1 else given  # -1: the usual one
    attributes = {"scale": scale, "causal": case["attrs"]["is_causal"], "layout": "BSND"}
    (out, lse), rounded = launch("flash_attention", [*inputs, None], [dtype] * 4, **attributes)
    for b in range(len(out)):  # float64 scores of all sequences together are GiB
        query, key, value = (values[b : b + 1] for values in rounded[:3])
        both, golden_lse = reference.forward(query, key, np.concatenate([value, np.abs(value)], -1), **attributes)
        golden, terms = np.split(both, 2, -1)
        assert_accurate(lse[b : b + 1], golden_lse, "float32", np.abs(golden_lse) + 1)
        assert_accurate(out[b : b + 1], golden, dtype, terms * TERMS[dtype])


# assert_accurate() counts an error beyond 2 ULP of float32 of the terms; here they are rounded to the dtype.
TERMS = {"float32": 8, "float16": 2.0**13, "bfloat16": 2.0**16}


@cover("case", [case for case in CASES if case[4] > 0], dtype=FLOATS, seen=list(SEEN), layout=LAYOUTS)
def test_gradient(case, dtype, seen, layout):
    rng = np.random.default_rng(sum(case))
    query, key, value, dout = (draw(rng, shape) / 2 for shape in shapes(case, layout))
    causal, window = SEEN[seen]
    attributes = {"scale": case[5] ** -0.5, "causal": causal, "window": window, "layout": layout}
    (out, lse), _ = launch("flash_attention", [query, key, value, None], [dtype] * 4, **attributes)
    lse = np.where(np.isfinite(lse), lse, 3e38)
    delta = (out * dout).sum(-1)
    delta = delta if layout == "BNSD" else delta.swapaxes(1, 2)
    results, rounded = launch(
        "flash_attention_grad",
        [dout, query, key, value, lse, delta, None],
        [dtype] * 4 + ["float32"] * 3,
        **attributes,
    )
    golden = reference.backward(*rounded[:4], **attributes)
    terms = reference.backward_terms(*rounded[:4], **attributes)
    for result, exact, term in zip(results, golden, terms, strict=True):
        assert_accurate(result, exact, dtype, term * TERMS[dtype])


def test_scores_beyond_the_range_of_exp():
    """exp of the scores overflows, but not exp of their distance from the largest."""
    query, key, value = np.full((1, 1, 2, 4), 100.0), np.full((1, 1, 600, 4), 100.0), np.ones((1, 1, 600, 4))
    key[0, 0, 300] = -100.0
    (out, lse), _ = launch("flash_attention", [query, key, value, None], ["float32"] * 4, scale=1.0)
    assert np.allclose(out, 1)
    assert np.allclose(lse, 40000 + np.log(599))


MASKS = [  # of batch, heads, queries: 1 where it broadcasts
    ((2, 4, 13), (1, 1, 13)),  # causal: the same for all
    ((2, 4, 13), (2, 1, 1)),  # padding
    ((2, 4, 13), (2, 4, 13)),
    ((2, 4, 1), (1, 4, 1)),  # one query of each head, heads that share keys together
    ((1, 4, 150), (1, 4, 1)),  # several tiles of rows
    ((1, 4, 150), (1, 1, 150)),
]


@cover("sizes, mask_sizes", MASKS, types=[("float16", "float16"), ("bfloat16", "float32"), ("float32", "float32")])
def test_mask(sizes, mask_sizes, types):
    rng = np.random.default_rng(sum(sizes))
    dtype, mask_dtype = types
    batch, heads, queries = sizes
    arrays = [draw(rng, shape) / 2 for shape in shapes((batch, heads, 2, queries, 300, 20, 12), "BNSD")]
    mask = np.where(rng.random((*mask_sizes, 300)) < 0.3, -np.inf, rng.normal(size=(*mask_sizes, 300)))
    mask[0, 0, 0] = -np.inf  # one row, or all, sees nothing
    (out, lse), rounded = launch("flash_attention", [*arrays[:3], mask], [dtype] * 3 + [mask_dtype], scale=0.3)
    golden, golden_lse = reference.forward(*rounded, scale=0.3)
    assert_accurate(lse, golden_lse, "float32", np.abs(np.where(np.isfinite(golden_lse), golden_lse, 0)) + 1)
    terms = reference.forward(*rounded[:2], np.abs(rounded[2]), rounded[3], scale=0.3)[0]
    assert_accurate(out, golden, dtype, terms * TERMS[dtype])
    inputs = [arrays[3], *arrays[:3], np.where(np.isfinite(lse), lse, 3e38), (out * arrays[3]).sum(-1), mask]
    results, exact = launch("flash_attention_grad", inputs, [dtype] * 4 + ["float32"] * 2 + [mask_dtype], scale=0.3)
    exact = [*exact[:4], exact[6]]
    golden, terms = (f(*exact, scale=0.3) for f in (reference.backward, reference.backward_terms))
    for result, value, term in zip(results, golden, terms, strict=True):
        assert_accurate(result, value, dtype, term * TERMS[dtype])


@pytest.mark.parametrize("dtype", FLOATS)
def test_results_do_not_depend_on_the_number_of_threads(dtype):
    rng = np.random.default_rng(0)
    inputs = [draw(rng, shape) for shape in shapes((2, 4, 2, 150, 300, 32, 32), "BNSD")]
    lse, delta = np.full((2, 4, 150), 5.0), np.zeros((2, 4, 150))
    results = []
    before = get_num_threads()
    try:
        for threads in (1, 3):
            set_num_threads(threads)
            forward, _ = launch("flash_attention", [*inputs[:3], None], [dtype] * 4, causal=True)
            backward, _ = launch(
                "flash_attention_grad",
                [inputs[3], *inputs[:3], lse, delta, None],
                [dtype] * 4 + ["float32"] * 3,
                causal=True,
            )
            results.append([*forward, *backward])
    finally:
        set_num_threads(before)
    for one, several in zip(*results, strict=True):
        np.testing.assert_array_equal(one, several)
