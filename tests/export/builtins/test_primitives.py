import sys

import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, Tensor, nn, ops
from mindspore.ops.auto_generate import gen_ops_prim
from ms_ascend_ops.export.builtins import primitives
from ms_ascend_ops.export.builtins import stock_primitives as stock

from ms_ascend_ops import cpu_builtins, optimize
from tests.acceptance import assert_close
from tests.modes import run
from tests.reference import rotary_embedding as rotary

RNG = np.random.default_rng(0)
MODES = ["pynative", "graph"]


def tensor(*shape):
    return Tensor(RNG.standard_normal(shape).astype(np.float32))


def attended(q, k, v, scale, causal):
    """(s, n, d), (t, n, d) in float64."""
    scores = np.einsum("snd,tnd->nst", q, k) * scale
    if causal:
        hidden = np.arange(k.shape[0]) > np.arange(q.shape[0])[:, None] + k.shape[0] - q.shape[0]
        scores = np.where(hidden, -np.inf, scores)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("nst,tnd->snd", weights / weights.sum(-1, keepdims=True), v)


@pytest.mark.parametrize("mode", MODES)
def test_tokens_of_two_sequences(mode):
    """Rotary embedding by positions in each sequence, and attention within each."""
    lengths = Tensor(np.int32([3, 2]))
    q, k, v, cos, sin = (tensor(5, 8), tensor(5, 8), tensor(5, 8), tensor(16, 4), tensor(16, 4))
    rotated, _ = run(mode, primitives.ApplyRotaryPosEmb(2), (q, k, cos, sin, lengths))
    rows = [0, 1, 2, 0, 1]
    heads = q.asnumpy().astype(np.float64).reshape(1, 5, 2, 4)
    expected = rotary.forward(heads, cos.asnumpy()[rows], sin.asnumpy()[rows], "half", 1, 0, True)
    assert_close(rotated.asnumpy(), expected.reshape(5, 8), atol=1e-5)

    class Attention(nn.Cell):
        def __init__(self):
            super().__init__()
            self.score = primitives.FlashAttentionScore(2, 1.0, 0.5, input_layout="TH")

        def construct(self, q, k, v, mask, lengths):
            return self.score(q, k, v, None, None, None, mask, None, lengths, lengths)[3]

    out = run(mode, Attention(), (q, k, v, Tensor(np.triu(np.ones((128, 128), np.float32), 1)), lengths))
    for part in (slice(0, 3), slice(3, 5)):
        q1, k1, v1 = (x.asnumpy().astype(np.float64)[part].reshape(-1, 2, 4) for x in (q, k, v))
        assert_close(out.asnumpy()[part].reshape(-1, 2, 4), attended(q1, k1, v1, 0.5, True), atol=1e-5)


@pytest.mark.parametrize("mode", MODES)
def test_what_is_written_is_read(mode):
    """The result of the write is not used: the order of the calls is that of a graph, too."""

    class Step(nn.Cell):
        def __init__(self):
            super().__init__()
            self.write = primitives.ReshapeAndCache()
            self.read = primitives.PagedAttention(2, 0.5, 2)

        def construct(self, q, k, v, keys, values, slots, tables, lengths):
            self.write(k, v, keys, values, slots)
            return self.read(q, keys, values, tables, lengths)

    k, v, q = tensor(5, 8), tensor(5, 8), tensor(1, 8)
    keys, values = (Tensor(np.zeros((4, 4, 2, 4), np.float32)) for _ in range(2))
    slots, tables = Tensor(np.int32([8, 9, 10, 11, 4])), Tensor(np.int32([[2, 1]]))
    out = run(mode, Step(), (q, k, v, keys, values, slots, tables, Tensor(np.int32([5]))))
    q1, k1, v1 = (x.asnumpy().astype(np.float64).reshape(-1, 2, 4) for x in (q, k, v))
    assert_close(out.asnumpy().reshape(1, 2, 4), attended(q1, k1, v1, 0.5, False), atol=1e-5)


@pytest.mark.parametrize("mode", MODES)
def test_experts(mode):
    chosen = np.int32([[2, 0], [1, 2], [2, 1], [0, 2], [2, 1]])
    x, weight = tensor(5, 6), tensor(3, 6, 4)
    probs = Tensor(RNG.random((5, 2)).astype(np.float32))

    class Experts(nn.Cell):
        def __init__(self):
            super().__init__()
            self.route = primitives.MoeInitRoutingV2()
            self.product = primitives.GroupedMatmulV4()
            self.back = primitives.MoeTokenUnpermute()

        def construct(self, x, chosen, weight, probs):
            rows, places, counts, _ = self.route(x, chosen, 0, 0, 3, 0, 2, True)
            out = self.product([x0(rows)], [weight], group_list=counts, split_item=3, group_type=0, group_list_type=1)
            return self.back(out[0], places, probs)

    def x0(rows):
        return rows

    out = run(mode, Experts(), (x, Tensor(chosen), weight, probs))
    each = np.einsum("tk,tjkn->tjn", x.asnumpy().astype(np.float64), weight.asnumpy().astype(np.float64)[chosen])
    assert_close(out.asnumpy(), (each * probs.asnumpy()[..., None]).sum(1), atol=1e-5)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("best", [1, 2])
def test_experts_of_the_best_groups(best, mode):
    """As MindFormers has it for DeepSeek-V3, with its fused router; loop over tokens in float64."""
    logits, bias = tensor(9, 12), tensor(12)
    weights, chosen = run(mode, primitives.FusedAddTopKDiv(), (logits, bias), 4, 2, best, 3, 0, True, 2.5)
    for row, own, experts in zip(logits.asnumpy().astype(np.float64), weights.asnumpy(), chosen.asnumpy(), strict=True):
        scores = 1 / (1 + np.exp(-row))
        picking = (scores + bias.asnumpy()).reshape(4, 3)
        open_groups = np.argsort(-np.sort(picking, -1)[:, -best:].sum(-1))[:2]
        closed = np.full((4, 3), -np.inf)
        closed[open_groups] = picking[open_groups]
        expected = np.argsort(-closed.reshape(-1))[:3]
        np.testing.assert_array_equal(experts, expected)
        # Of float32: exp, a sum, a division and a product round; weights of other experts are off by far more.
        np.testing.assert_allclose(own, 2.5 * scores[expected] / scores[expected].sum(), rtol=1e-5)
    with pytest.raises(ValueError, match="FusedAddTopKDiv: n must be 1 or 2"):
        primitives.FusedAddTopKDiv()(logits, bias, 4, 2, 3, 3)
    with pytest.raises(ValueError, match="FusedAddTopKDiv: activate_type must be 0"):
        primitives.FusedAddTopKDiv()(logits, bias, 4, 2, 2, 3, 1)
    best = primitives.FusedAddTopKDiv()(logits, bias, 1, 1, 4, 3)[1].asnumpy()
    scores = 1 / (1 + np.exp(-logits.asnumpy().astype(np.float64))) + bias.asnumpy()
    np.testing.assert_array_equal(best, np.argsort(-scores, -1)[:, :3])


def test_scales_of_rows_without_those_of_columns_are_refused():
    x, weight, ends = tensor(4, 3), tensor(2, 3, 5), ms.Tensor([1, 4], ms.int64)
    with pytest.raises(ValueError, match="pre_token_scale needs scale"):
        primitives.GroupedMatmulV4()(
            [x], [weight], pre_token_scale=[tensor(4)], group_list=ends, split_item=3, group_type=0
        )


@pytest.mark.parametrize("mode", MODES)
def test_rows_of_int8_and_rows_behind_the_groups(mode):
    """Scales of columns and rows; two rows have no group."""
    x, weight = RNG.integers(-9, 9, (7, 6)).astype(np.int8), RNG.integers(-9, 9, (3, 6, 4)).astype(np.int8)
    scale, row_scale = RNG.random((3, 4)).astype(np.float32), RNG.random(7).astype(np.float32)
    product = primitives.GroupedMatmulV4()

    class Products(nn.Cell):
        def construct(self, x, weight, scale, row_scale, ends):
            extra = (None,) * 3
            out = product(
                [x], [weight], None, [scale], *extra, [row_scale], ends, None, None, None, 3, 0, 0, 0, ms.float16
            )
            return out[0]

    inputs = [Tensor(array) for array in (x, weight, scale, row_scale, np.int64([2, 2, 5]))]
    out = run(mode, Products(), inputs).asnumpy()
    group = np.array([0, 0, 2, 2, 2])
    expected = np.einsum("mk,mkn->mn", x[:5].astype(np.float64), weight[group].astype(np.float64))
    np.testing.assert_allclose(out[:5], expected * scale[group] * row_scale[:5, None], rtol=2e-3, atol=1e-2)
    np.testing.assert_array_equal(out[5:], 0)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", [np.float32, np.int8])
def test_tokens_there_and_back(dtype, mode):
    """int8 is what no kernel moves; all experts of a token are one number, or a row of them."""
    tokens, experts = RNG.integers(-9, 9, (5, 6)).astype(dtype), np.int32([3, 0, 3, 1, 0])
    permute = primitives.MoeTokenPermute()

    class There(nn.Cell):
        def construct(self, tokens, experts):
            return permute(tokens, experts, 4)

    rows, places = run(mode, There(), (Tensor(tokens), Tensor(experts)))
    np.testing.assert_array_equal(rows.asnumpy(), tokens[[1, 4, 3, 0]])
    np.testing.assert_array_equal(places.asnumpy(), [3, 0, 4, 2, 1])
    if dtype == np.float32:
        back = primitives.MoeTokenUnpermute()(permute(Tensor(tokens), Tensor(experts))[0], places)
        np.testing.assert_array_equal(back.asnumpy(), tokens)


def test_primitives_that_cells_hold_are_put_back():
    class Net(nn.Cell):
        def __init__(self):
            super().__init__()
            self.weight = Parameter(Tensor(np.ones(8, np.float32)), name="weight")
            self.norm = gen_ops_prim.RmsNorm(1e-5)

        def construct(self, x):
            return self.norm(x, self.weight)[0]

    net, x = Net(), tensor(3, 8)
    primitive, kind = net.norm, gen_ops_prim.RmsNorm
    exact = x.asnumpy().astype(np.float64)
    expected = exact / np.sqrt((exact**2).mean(-1, keepdims=True) + 1e-5)
    with cpu_builtins():
        assert isinstance(net.norm, primitives.RmsNorm)
        for mode in MODES:
            np.testing.assert_allclose(run(mode, net, (x,)).asnumpy(), expected, rtol=1e-5)
        assert np.abs(ms.grad(lambda x: net(x).sum())(x).asnumpy()).max() > 0
    assert net.norm is primitive
    assert gen_ops_prim.RmsNorm is kind
    assert not any(value in primitives.SHIMS.values() for value in vars(gen_ops_prim).values() if callable(value))


def test_what_is_missing_is_named():
    x = tensor(2, 4)
    with (
        pytest.raises(RuntimeError, match=r"MoeGatingTopKSoftmax has no kernel on a CPU and no shim, called at .*py"),
        cpu_builtins(),
    ):
        gen_ops_prim.MoeGatingTopKSoftmax()(x, None, 2)[0].asnumpy()
    assert "ms_ascend_ops" in sys.modules


def test_what_networks_for_training_use():
    """MindFormers' networks of Qwen3, that is; in one graph, and against NumPy."""

    class Small(nn.Cell):
        def __init__(self):
            super().__init__()
            self.outer, self.stack, self.sort = stock.Outer(), stock.StackExt(-1), stock.SortExt()
            self.rows, self.drop, self.hot = stock.Embedding(), stock.DropoutExt(), stock.OneHotExt(-1)
            self.turn, self.swiglu = primitives.RotaryPositionEmbedding(), stock.SwigluGrad()

        def construct(self, x, weight, ids, heads, cos, sin, on, off):
            table = self.outer(x[0], x[1])
            kept, mask = self.drop(x, 0.25, None, None)
            hot = self.hot(ids, 5, on, off)
            back = self.swiglu(x[:, :3], x, -1)
            found = self.sort(x, -1, True)[1]
            return (
                table,
                self.stack((x, x)),
                found,
                self.rows(ids, weight),
                hot,
                self.turn(heads, cos, sin),
                back,
                kept,
                mask,
            )

    x, weight, ids = tensor(4, 6), tensor(5, 3), Tensor(np.int32([4, 0, 4]))
    heads, cos, sin = tensor(3, 2, 2, 4), Tensor(np.ones((3, 1, 1, 4), np.float32)), tensor(3, 1, 1, 4)
    scalars = Tensor(1.0, ms.float32), Tensor(0.0, ms.float32)
    outputs = run("graph", Small(), (x, weight, ids, heads, cos, sin, *scalars))
    outer, stacked, order, rows, hot, rotated, back, kept, mask = (y.asnumpy() for y in outputs)
    a, t, s = x.asnumpy().astype(np.float64), heads.asnumpy(), sin.asnumpy()
    np.testing.assert_allclose(outer, np.outer(a[0], a[1]), rtol=1e-6)
    np.testing.assert_array_equal(stacked, np.stack([x.asnumpy()] * 2, -1))
    np.testing.assert_array_equal(order, np.argsort(-a, -1))
    np.testing.assert_array_equal(rows, weight.asnumpy()[[4, 0, 4]])
    np.testing.assert_array_equal(hot, np.eye(5)[[4, 0, 4]])
    halves = np.concatenate([-t[..., 2:], t[..., :2]], -1)
    # Of both halves of a table the first counts, as there.
    s = np.concatenate([s[..., :2]] * 2, -1)
    assert_close(rotated, t + halves * s, atol=1e-6)
    sigmoid = 1 / (1 + np.exp(-a[:, :3]))
    slope = sigmoid * (1 + a[:, :3] * (1 - sigmoid))
    expected = np.concatenate([a[:, :3] * a[:, 3:] * slope, a[:, :3] ** 2 * sigmoid], -1)
    assert_close(back, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(kept, x.asnumpy() * mask / 0.75, rtol=1e-6)


class Activated(nn.Cell):
    """A linear layer on two dims with an activation, as MindFormers has it."""

    def __init__(self, activation):
        super().__init__()
        self.weight = Parameter(tensor(8, 6), name="weight")
        self.activation = activation

    def construct(self, x):
        shape = x.shape[:-1] + (8,)  # noqa: RUF005
        y = ops.matmul(x.reshape((-1, 6)), self.weight.swapaxes(0, 1))
        if self.activation is not None:
            y = self.activation(y)
        return y.reshape(shape)


class Gated(nn.Cell):
    def __init__(self):
        super().__init__()
        self.w1, self.w3 = Activated(nn.SiLU()), Activated(None)

    def construct(self, x):
        return self.w3(x) * self.w1(x)


class BoundNorm(nn.Cell):
    def __init__(self):
        super().__init__()
        self.weight = Parameter(Tensor(np.linspace(0.5, 1.5, 6).astype(np.float32)), name="weight")
        self.square, self.mean, self.rsqrt = ops.Square(), ops.ReduceMean(keep_dims=True), ops.Rsqrt()
        self.norm = self._own

    def _own(self, x):
        return x * self.rsqrt(self.mean(self.square(x), -1) + 1e-5) * self.weight

    def construct(self, x):
        return self.norm(x)


class InMethods(nn.Cell):
    """Softmax in a method, between reshapes to sizes."""

    def _weights(self, x):
        return ops.softmax(x * 0.5, -1)

    def construct(self, x):
        batch, rows, _ = x.shape
        return self._weights(x.reshape((batch * rows, 6))).reshape((batch, rows, 6))


class Rotary(nn.Cell):
    """A rotation by a product with a matrix, tables in a tuple."""

    def construct(self, x, tables):
        cos, sin, matrix = tables
        return x * cos + ops.matmul(x, matrix) * sin


@pytest.mark.parametrize(
    ("cell", "pattern"),
    [(Gated, "SwiGLU"), (BoundNorm, "RMSNorm"), (InMethods, "softmax")],
)
def test_equivalent_forms_of_mindformers(cell, pattern):
    net, x = cell(), tensor(2, 3, 6)
    expected = net(x).asnumpy()
    report = optimize(net, verify=[x], gradients=bool(net.trainable_params()))
    assert pattern in {entry.pattern for entry in report.replaced}
    assert_close(net(x).asnumpy(), expected, atol=1e-5)
    report.restore()
    np.testing.assert_array_equal(net(x).asnumpy(), expected)


def test_tables_in_a_tuple_and_a_rotation_by_a_matrix():
    class Net(nn.Cell):
        def __init__(self):
            super().__init__()
            self.turn = Rotary()
            self.matrix = Tensor(np.kron([[0, 1], [-1, 0]], np.eye(4)).astype(np.float32))

        def construct(self, x, cos, sin):
            return self.turn(x, (cos, sin, self.matrix))

    net, x, cos, sin = Net(), tensor(2, 3, 5, 8), tensor(5, 8), tensor(5, 8)
    expected = net(x, cos, sin).asnumpy()
    report = optimize(net, verify=[x, cos, sin])
    (entry,) = report.replaced
    assert (entry.pattern, "tables as they are" in entry.text) == ("rotary embedding", True)
    assert_close(net(x, cos, sin).asnumpy(), expected, atol=1e-5)
