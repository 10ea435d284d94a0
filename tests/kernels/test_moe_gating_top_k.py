import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.acceptance import assert_accurate, assert_close
from tests.cover import cover
from tests.inputs import draw
from tests.native import launch
from tests.reference import moe_gating_top_k as reference

CASES = [  # tokens, experts, k
    (1, 1, 1),
    (1, 8, 2),  # one token
    (9, 5, 5),  # all experts, which fill no block
    (700, 8, 2),  # several tiles and cores
    (70, 64, 6),
    (33, 100, 8),  # lanes with tails
    (20, 256, 8),
    (5, 1024, 64),  # as many as there may be
    (0, 8, 2),  # no tokens
]
GROUPED = [  # tokens, experts, k, groups, groups that are looked at
    (9, 8, 3, 4, 2),
    (40, 256, 8, 8, 4),  # DeepSeek-V3's
    (30, 160, 6, 8, 3),
    (21, 21, 4, 7, 2),  # groups that fill no block
    (5, 96, 3, 32, 1),  # as many as there may be
    (3, 1000, 64, 4, 4),
]
TYPES = [("float16", "float16"), ("bfloat16", "float32"), ("float32", "float32")]


def gate(x, bias, types, **attributes):
    return launch("moe_gating_top_k", [x, bias], types, **attributes)


def check(x, bias, types, attributes):
    """Forward and gradient. Experts with scores that rounding may swap may be swapped."""
    (weights, experts), (x, bias) = gate(x, bias, types, **attributes)
    experts = experts.astype(int)
    groups = {name: attributes[name] for name in ("group_count", "k_group", "group_score") if name in attributes}
    by = reference.chosen_by(x, bias, attributes["scoring"], **groups)
    golden = np.take_along_axis(by, reference.forward(x, bias, **attributes)[1], -1)
    assert_close(np.take_along_axis(by, experts, -1), golden, rtol=1e-5, atol=1e-6)
    assert all(len(set(row)) == len(row) for row in experts)
    expected = reference.weights_of(x, experts, **attributes)
    # The exponential is good to some ULP.
    assert_accurate(weights, expected, "float32", 4 * np.abs(expected))
    dweights = draw(np.random.default_rng(1), weights.shape)
    dtypes = ["float32", types[0], "int32"]
    (dx,), rounded = launch("moe_gating_top_k_grad", [dweights, x, experts], dtypes, **attributes)
    terms = reference.backward_terms(*rounded, **attributes)
    assert_accurate(dx, reference.backward(*rounded, **attributes), types[0], 4 * terms)


@cover("case", CASES, types=TYPES, scoring=["softmax", "sigmoid"], renormalize=[True, False], has_bias=[False, True])
def test_experts_weights_and_gradient(case, types, scoring, renormalize, has_bias):
    tokens, experts, k = case
    rng = np.random.default_rng(sum(case))
    bias = rng.normal(size=experts) / 4 if has_bias else None
    attributes = {"k": k, "scoring": scoring, "renormalize": renormalize, "scale": 2.5}
    check(draw(rng, (tokens, experts)), bias, types, attributes)


@cover(
    "case", GROUPED, types=TYPES, scoring=["softmax", "sigmoid"], group_score=["max", "top2"], has_bias=[False, True]
)
def test_groups(case, types, scoring, group_score, has_bias):
    tokens, experts, k, count, open_ = case
    rng = np.random.default_rng(sum(case))
    bias = rng.normal(size=experts) / 4 if has_bias else None
    attributes = {"k": k, "scoring": scoring, "group_count": count, "k_group": open_, "group_score": group_score}
    check(draw(rng, (tokens, experts)), bias, types, attributes)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.data())
def test_any_sizes(data):
    groups, size = data.draw(st.integers(1, 9)), data.draw(st.integers(2, 40))
    open_ = data.draw(st.integers(1, groups))
    attributes = {
        "k": data.draw(st.integers(1, min(64, open_ * size))),
        "scoring": data.draw(st.sampled_from(["softmax", "sigmoid"])),
        "renormalize": data.draw(st.booleans()),
        "group_count": groups,
        "k_group": open_,
        "group_score": data.draw(st.sampled_from(["max", "top2"])),
    }
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    x = rng.normal(size=(data.draw(st.integers(1, 80)), groups * size))
    bias = rng.normal(size=groups * size) if data.draw(st.booleans()) else None
    check(x, bias, data.draw(st.sampled_from(TYPES)), attributes)


def test_the_first_of_equal_experts():
    x = np.zeros((3, 9))
    x[1, [4, 7]] = 1
    experts = gate(x, None, TYPES[2], k=3, scoring="sigmoid")[0][1]
    np.testing.assert_array_equal(experts, [[0, 1, 2], [4, 7, 0], [0, 1, 2]])
    # Of equal groups, too; and scores that differ as little as floats can.
    experts = gate(x, None, TYPES[2], k=2, group_count=3, k_group=1, scoring="sigmoid")[0][1]
    np.testing.assert_array_equal(experts, [[0, 1], [4, 3], [0, 1]])
    bias = np.array([0, 1e-45, 3e-45, 3e-45])
    scores = np.full((1, 4), -200.0)
    np.testing.assert_array_equal(gate(scores, bias, TYPES[2], k=3, scoring="sigmoid")[0][1], [[2, 3, 1]])


def test_special_values():
    """NaN makes the weights of its token NaN and the experts of no other different; experts are such that there are."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(6, 10))
    (weights, experts), _ = gate(x, None, TYPES[2], k=3)
    x[1, 4], x[3, 2], x[4] = np.nan, np.inf, -np.inf
    (changed, of_changed), _ = gate(x, None, TYPES[2], k=3)
    assert np.isnan(changed[[1, 3, 4]]).all()
    np.testing.assert_array_equal(changed[[0, 2, 5]], weights[[0, 2, 5]])
    np.testing.assert_array_equal(of_changed[[0, 2, 5]], experts[[0, 2, 5]])
    assert ((of_changed >= 0) & (of_changed < 10)).all()
    # A sigmoid knows infinities.
    (changed, of_changed), _ = gate(x, None, TYPES[2], k=3, scoring="sigmoid", renormalize=False)
    assert np.isnan(changed[1]).all()
    assert (changed[3, 0], of_changed[3, 0]) == (1, 2)
    np.testing.assert_array_equal(changed[4], 0)
