"""Formulas as people write them who know nothing of the table of patterns: one form before matching."""

import numpy as np
from mindspore import Parameter, Tensor, nn, ops

from ms_ascend_ops import optimize
from tests.acceptance import assert_close
from tests.modes import Together
from tests.tensors import numpy, tensor

B, S, N, D = 2, 5, 3, 8
EPSILON = 1e-5
WEIGHT = np.linspace(0.5, 1.5, D)
ANGLES = np.random.default_rng(1).uniform(0, 3, (S, D // 2))
SWAP = np.kron([[0, 1], [-1, 0]], np.eye(D // 2))  # (-x2, x1) of the halves x1 and x2
# Sums of a row in another order, and exp of another library: some roundings of float32.
TOLERANCE = 5e-6


def square_mean(x):
    return ops.square(x).mean(-1, keep_dims=True) + EPSILON


def weight_first(x, w):
    return (w * x) * ops.rsqrt(square_mean(x))


def weight_on_the_factor(x, w):
    return x * (ops.rsqrt(square_mean(x)) * w)


def weight_divided(x, w):
    return w * x / ops.sqrt(square_mean(x))


def one_over_the_root(x, w):
    return x * (1.0 / ops.sqrt((x * x).mean(-1, keep_dims=True) + EPSILON)) * w


def axis_put_back(x, w):
    return x * ops.rsqrt(ops.square(x).mean(-1) + EPSILON).expand_dims(-1) * w


def axis_put_back_by_index(x, w):
    return x * ops.rsqrt(ops.square(x).mean(-1) + EPSILON)[..., None] * w


def weight_with_axes(x, w):
    return x * ops.rsqrt(square_mean(x)) * w.reshape(1, 1, 1, -1)


def weight_as_difference(x, w):
    y = x * ops.rsqrt(square_mean(x))
    return y + y * (w - 1.0)


def without_scale(x):
    mean = x.mean(-1, keep_dims=True)
    return (x - mean) / ops.sqrt(((x - mean) ** 2).mean(-1, keep_dims=True) + EPSILON)


def with_ones(x):
    return ops.LayerNorm(-1, -1, EPSILON)(x, ops.ones(D, x.dtype), ops.zeros(D, x.dtype))[0]


def quotient_by_exp(gate, up):
    return up * gate / (1 + ops.exp(-gate))


def factor_by_exp(gate, up):
    return up * (1 / (1 + ops.exp(-1 * gate))) * gate


def tanh_of_half(gate, up):
    return up * (gate * (0.5 * (1 + ops.tanh(0.5 * gate))))


def halves(x):
    return x[..., : D // 2], x[..., D // 2 :]


def subtracted(x, cos, sin):
    x1, x2 = halves(x)
    return x * cos - ops.cat((x2, -x1), -1) * sin


def times_minus_one(x, cos, sin):
    x1, x2 = ops.chunk(x, 2, -1)
    return x * cos + ops.cat((-1 * x2, x1), -1) * sin


def parted(x, cos, sin):
    x1, x2 = ops.unbind(x.reshape(B, N, S, 2, D // 2), -2)
    return x * cos + ops.stack((-x2, x1), -2).reshape(B, N, S, D) * sin


def with_half_tables(x, cos, sin):
    x1, x2 = halves(x)
    cos, sin = cos[..., : D // 2], sin[..., : D // 2]
    return ops.cat((x1 * cos + (-x2) * sin, x2 * cos + x1 * sin), -1)


def neighbours(x, cos, sin):
    """With the halves as the neighbours that they are there."""
    x1, x2 = x.reshape(B, N, S, D // 2, 2)[..., 0], x.reshape(B, N, S, D // 2, 2)[..., 1]
    cos, sin = cos[..., : D // 2], sin[..., : D // 2]
    return ops.stack((x1 * cos - x2 * sin, x1 * sin + x2 * cos), -1).reshape(B, N, S, D)


def softmax_by_exp(x):
    e = ops.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


class Formula(nn.Cell):
    """The cells that hold a formula: a weight and a swap matrix are there for who wants them."""

    def __init__(self, function, swap=None):
        super().__init__()
        self.weight = Parameter(Tensor(WEIGHT.astype(np.float32)), name="weight")
        self.swap = None if swap is None else Tensor(swap.astype(np.float32))
        self.function = function


class Weighted(Formula):
    def construct(self, x):
        return self.function(x, self.weight)


class Gate(Formula):
    def construct(self, gate, up):
        return self.function(gate, up)


class Rotary(Formula):
    def construct(self, x, cos, sin):
        return self.function(x, cos, sin)


class Scores(Formula):
    def construct(self, x):
        return self.function(x)


class SwapTransposed(Formula):
    def construct(self, x, cos, sin):
        return x * cos + ops.matmul(x, self.swap.T) * sin


class SwapRepeated(Formula):
    def construct(self, x, cos, sin):
        return x * cos + ops.matmul(x, self.swap.broadcast_to((B, N, D, D))) * sin


class SwapOfALinearLayer(Formula):
    def construct(self, x, cos, sin):
        return x * cos + ops.dense(x, self.swap) * sin


X, UP = (np.random.default_rng((2, seed)).standard_normal((B, N, S, D)) for seed in range(2))
TABLES = [np.tile(f(ANGLES), 2) for f in (np.cos, np.sin)]


def norm(x):
    return x / np.sqrt(np.mean(x * x, -1, keepdims=True) + EPSILON) * WEIGHT


def rotated(x, interleave=False):
    cos, sin = np.cos(ANGLES), np.sin(ANGLES)
    x1, x2 = (x[..., 0::2], x[..., 1::2]) if interleave else np.split(x, 2, -1)
    parts = x1 * cos - x2 * sin, x2 * cos + x1 * sin
    return np.stack(parts, -1).reshape(x.shape) if interleave else np.concatenate(parts, -1)


EXPONENTIALS = np.exp(X)
NORM = ("RMSNorm", [X], norm(X))
STANDARD = ("LayerNorm", [X], (X - X.mean(-1, keepdims=True)) / np.sqrt(X.var(-1, keepdims=True) + EPSILON))
GATED = ("SwiGLU", [X, UP], X / (1 + np.exp(-X)) * UP)
ROTARY = ("rotary embedding", [X, *TABLES], rotated(X))
CELLS = [
    *(
        (Weighted(f), *NORM)
        for f in (
            weight_first,
            weight_on_the_factor,
            weight_divided,
            one_over_the_root,
            axis_put_back,
            axis_put_back_by_index,
            weight_with_axes,
        )
    ),
    (Weighted(weight_as_difference), *NORM),
    *((Scores(f), *STANDARD) for f in (without_scale, with_ones)),
    *((Gate(f), *GATED) for f in (quotient_by_exp, factor_by_exp, tanh_of_half)),
    *((Rotary(f), *ROTARY) for f in (subtracted, times_minus_one, parted, with_half_tables)),
    (Rotary(neighbours), "rotary embedding", [X, *TABLES], rotated(X, interleave=True)),
    (SwapTransposed(None, SWAP.T), *ROTARY),
    (SwapRepeated(None, SWAP), *ROTARY),
    (SwapOfALinearLayer(None, SWAP.T), *ROTARY),
    (Scores(softmax_by_exp), "softmax", [X], EXPONENTIALS / EXPONENTIALS.sum(-1, keepdims=True)),
]


def opposite(x, cos, sin):
    """Turns the other way: no form of a rotary embedding with these tables."""
    x1, x2 = halves(x)
    return x * cos + ops.cat((x2, -x1), -1) * sin


def other_sum(x):
    e = ops.exp(x - x.max(-1, keepdims=True))
    return e / ops.exp(x).sum(-1, keepdims=True)


def test_equivalent_forms():
    almost = [(Rotary(opposite), [X, *TABLES]), (Scores(other_sum), [X])]
    cells = [*(cell for cell, *_ in CELLS), *(cell for cell, _ in almost)]
    given = [[tensor(value, "float32") for value in one[-1]] for one in [row[:3] for row in CELLS] + almost]
    inputs = [value for some in given for value in some]
    net = Together(cells, [len(some) for some in given])
    stock = net(*inputs)
    report = optimize(net, verify=inputs, engines=["cell"])
    found = {entry.place: entry.pattern for entry in report.entries if entry.replaced}
    assert found == {f"parts.{index}": pattern for index, (_, pattern, *_) in enumerate(CELLS)}, str(report)
    for index, result in enumerate(net(*inputs)):
        if index < len(CELLS):
            cell, *_, expected = CELLS[index]
            name = getattr(cell.function, "__name__", type(cell).__name__)
            assert_close(numpy(result), expected, rtol=TOLERANCE, atol=TOLERANCE, err_msg=name)
        else:
            np.testing.assert_array_equal(numpy(result), numpy(stock[index]))
