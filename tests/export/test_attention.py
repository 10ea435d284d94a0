"""Attention in the forms that networks give it, in all engines."""

import math

import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, Tensor, mint, nn, ops
from ms_ascend_ops.export.graphs.mindir_graph import graphs_of
from ms_ascend_ops.samples.network import flat

from ms_ascend_ops import export_mindir, load, optimize, optimize_mindir
from tests.acceptance import assert_close
from tests.export.engines.test_mindir_engine import model_of
from tests.modes import Together, few_modes, run
from tests.tensors import numpy, tensor

B, N, G, S, T, D = 2, 4, 2, 5, 7, 8
# Outputs are averages of standard normal values: a few units, some of them near 0, of float32 sums in another order.
OUTPUT = 1e-5
# Gradients are sums over batches, heads and keys, as a share of the largest.
GRADIENT = 1e-4


def draw(*shape, seed=0):
    return np.random.default_rng((seed, *shape)).standard_normal(shape)


QUERY, KEY, VALUE = draw(B, N, S, D), draw(B, N, T, D), draw(B, N, T, D, seed=1)
SHARED = [QUERY, draw(B, G, T, D), draw(B, G, T, D, seed=1)]
CAUSAL = np.where(np.tri(S, T, T - S), 0, -1e9)
HIDDEN = np.tri(S, T, T - S) == 0


def reference(q, k, v, bias=0.0, scale=D**-0.5):
    """In float64."""
    k, v = (np.repeat(x, q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = scale * q @ k.swapaxes(2, 3) + bias
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


def repeat_kv(x, times):
    batch, heads, length, size = x.shape
    x = x[:, :, None, :, :].broadcast_to((batch, heads, times, length, size))
    return x.reshape(batch, heads * times, length, size)


# Equivalent forms: functions, as MindSpore reads their source.
def llama(q, k, v, mask):
    """Hugging Face's eager attention."""
    k, v = repeat_kv(k, 2), repeat_kv(v, 2)
    weights = ops.matmul(q, k.swapaxes(2, 3)) * D**-0.5
    weights = weights + mask
    weights = ops.softmax(weights.astype(ms.float32), -1).astype(q.dtype)
    return ops.matmul(weights, v)


def interleaved(q, k, v, mask):
    k, v = ops.repeat_interleave(k, 2, 1), ops.repeat_interleave(v, 2, 1)
    return ops.matmul(ops.softmax(ops.matmul(q, k.swapaxes(2, 3)) * D**-0.5 + mask, -1), v)


def grouped(q, k, v, mask):
    """A head of keys meets all its heads of queries in one product."""
    q = q.reshape(B, G, N // G * S, D)
    scores = (ops.matmul(q, k.swapaxes(2, 3)) / math.sqrt(D)).reshape(B, N, S, T) + mask
    weights = ops.softmax(scores, -1).reshape(B, G, N // G * S, T)
    return ops.matmul(weights, v).reshape(B, N, S, D)


def plain(q, k, v):
    return ops.matmul(ops.softmax(ops.matmul(q, k.swapaxes(-1, -2)) / math.sqrt(D), -1), v)


def scaled_first(q, k, v):
    return ops.BatchMatMul()(ops.softmax(ops.BatchMatMul(transpose_b=True)(q * D**-0.5, k), -1), v)


def scaled_both(q, k, v):
    weights = mint.nn.functional.softmax(mint.matmul(q * D**-0.25, (k * D**-0.25).swapaxes(2, 3)), dim=-1)
    return mint.matmul(weights, v)


def in_batches(q, k, v):
    """Batch and heads as one axis, for bmm."""
    q, k, v = q.reshape(B * N, S, D), k.reshape(B * N, T, D), v.reshape(B * N, T, D)
    weights = ops.softmax(ops.bmm(q, k.swapaxes(1, 2)) * D**-0.5, -1)
    return ops.bmm(weights, v).reshape(B, N, S, D)


def by_views(q, k, v):
    """mint.transpose is a view, which MindSpore keeps in the order of what is written."""
    scores = mint.matmul(q, mint.transpose(k, 2, 3)) / math.sqrt(D)
    return mint.matmul(mint.nn.functional.softmax(scores, dim=-1), v)


def added(q, k, v, mask):
    return ops.matmul(ops.softmax(ops.matmul(q, k.swapaxes(2, 3)) * D**-0.5 + mask, -1), v)


def filled(q, k, v, hidden):
    scores = ops.matmul(q, k.swapaxes(2, 3)) * D**-0.5
    return ops.matmul(ops.softmax(scores.masked_fill(hidden, -1e9), -1), v)


def selected(q, k, v, visible):
    scores = ops.matmul(q, k.swapaxes(2, 3)) * D**-0.5
    return ops.matmul(ops.softmax(ops.select(visible, scores, -1e9), -1), v)


def unscaled(q, k, v):
    return ops.matmul(ops.softmax(ops.matmul(q, k.swapaxes(2, 3)), -1), v)


HEADS = [QUERY, KEY, VALUE]
FORMS = [
    (llama, [*SHARED, CAUSAL.reshape(1, 1, S, T)], CAUSAL),
    (interleaved, [*SHARED, CAUSAL], CAUSAL),
    (grouped, [*SHARED, CAUSAL], CAUSAL),
    (plain, HEADS, 0),
    (scaled_first, HEADS, 0),
    (scaled_both, HEADS, 0),
    (in_batches, HEADS, 0),
    (by_views, HEADS, 0),
    (added, [*HEADS, draw(B, 1, 1, T)], draw(B, 1, 1, T)),
    (filled, [*HEADS, HIDDEN], CAUSAL),
    (selected, [*HEADS, ~HIDDEN.reshape(1, S, T)], CAUSAL),
]


def cell(function):
    class Net(nn.Cell):
        def construct(self, *args):
            return function(*args)

    return Net()


def tensors(values, dtype="float32"):
    return [Tensor(v) if v.dtype == bool else tensor(v, dtype) for v in values]


def kinds(path):
    return [node.kind for graph in graphs_of(model_of(path)) for node in graph.graph.nodes]


def optimized(net, inputs, folder, level="O2", dynamic=None):
    """The report, and what the file gives that it is about."""
    stock = export_mindir(net, *inputs, path=folder / "stock", dynamic=dynamic or {})
    report = optimize_mindir(stock, folder / "fused.mindir", level=level)
    return report, load(folder / "fused.mindir")


def entries(report):
    return {e.pattern: (e.replaced, e.text) for e in report.entries}


def gradients_of(net, inputs):
    return [numpy(g) for g in ms.grad(lambda *x: (net(*x) ** 2).sum(), None, net.trainable_params())(*inputs)]


def test_equivalent_forms_in_a_file(tmp_path):
    functions, values, biases = zip(*FORMS, strict=True)
    inputs = tensors([value for some in values for value in some])
    report, network = optimized(Together(functions, [len(some) for some in values]), inputs, tmp_path)
    found = [e.replaced for e in report.entries if (e.engine, e.pattern) == ("mindir", "attention")]
    assert found == [True] * len(FORMS), report
    assert not {"Softmax", "MatMulExt", "BatchMatMul", "BroadcastTo", "Tile"} & set(kinds(tmp_path / "fused.mindir"))
    # Some roundings of values of a few units.
    for function, given, some, bias in zip(functions, network(*inputs), values, biases, strict=True):
        assert_close(numpy(given), reference(*some[:3], bias), atol=OUTPUT, err_msg=function.__name__)


class Decoder(nn.Cell):
    """A function on inputs of its own names, as a layer has it."""

    def __init__(self):
        super().__init__()
        self.scale = D**-0.5


class SharedHeads(Decoder):
    def construct(self, q, k, v, mask):
        k, v = repeat_kv(k, 2), repeat_kv(v, 2)
        weights = ops.matmul(q, k.swapaxes(2, 3)) * self.scale + mask
        weights = ops.softmax(weights.astype(ms.float32), -1).astype(q.dtype)
        return ops.matmul(weights, v).reshape(q.shape[0], -1)


class SharedHeadsByOtherNames(Decoder):
    def construct(self, q, k, v, mask):
        keys, values = repeat_kv(k, 2), repeat_kv(v, 2)
        weights = ops.softmax(ops.matmul(q, keys.swapaxes(2, 3)) * self.scale + mask, -1)
        return ops.matmul(weights, values).reshape(q.shape[0], -1)


class Filled(Decoder):
    def construct(self, q, k, v, mask):
        scores = ops.matmul(q * self.scale, k.swapaxes(2, 3))
        weights = ops.softmax(scores.masked_fill(mask, -1e9), -1)
        return ops.matmul(weights, v).reshape(q.shape[0], -1)


@pytest.mark.parametrize(
    ("kind", "values", "shared"),
    [
        (SharedHeads, [*SHARED, CAUSAL], True),  # their names have other values by then
        (SharedHeadsByOtherNames, [*SHARED, CAUSAL], True),
        (Filled, [*HEADS, HIDDEN], False),
    ],
)
def test_statements_of_a_construct(kind, values, shared):
    net, inputs = kind(), tensors(values)
    (entry,) = optimize(net, verify=inputs).replaced
    assert (entry.pattern, entry.engine) == ("attention", "rewrite")
    assert "masked as a whole gives zeros" in entry.text
    assert ("share keys" in entry.text) is shared
    expected = reference(*values[:3], CAUSAL).reshape(B, -1)
    for mode in few_modes(shared, (True, False)):
        assert_close(numpy(run(mode, net, inputs)), expected, atol=OUTPUT)


class Products(nn.Cell):
    """A cell that is an attention as a whole."""

    def construct(self, q, k, v, mask=None):
        scores = ops.matmul(q, k.swapaxes(2, 3)) * 0.25
        if mask is not None:
            scores = scores + mask
        return ops.matmul(ops.softmax(scores, -1), v)


class Around(nn.Cell):
    """T5's way: the bias of the scores is learned elsewhere, and comes into the cell from outside."""

    def __init__(self, learned, factor):
        super().__init__()
        self.attention, self.factor = Products(), factor
        self.bias = Parameter(tensor(draw(1, N, S, T), "float32"), name="bias", requires_grad=learned)
        self.weight = Parameter(tensor(draw(D, D), "float32"), name="weight")

    def construct(self, q, k, v):
        return self.attention(ops.matmul(q, self.weight), k, v, self.bias * self.factor)


BIASES = [(False, 2), (True, 2), (True, 1e-4)]


@pytest.mark.parametrize(("learned", "factor"), BIASES)
def test_a_bias_from_outside(learned, factor):
    net, inputs = Around(learned, factor), tensors(HEADS)
    expected = numpy(net(*inputs)), gradients_of(net, inputs)
    report = optimize(net, verify=inputs)
    assert report.rolled_back == ""
    assert {e.pattern for e in report.replaced} == {"scale + mask + softmax" if learned else "attention"}
    if learned:
        assert entries(report)["attention"] == (False, "a gradient goes through its mask, and the operator gives none")
    for mode in few_modes((learned, factor), BIASES):
        assert_close(numpy(run(mode, net, inputs)), expected[0], atol=OUTPUT)
    for got, wanted in zip(gradients_of(net, inputs), expected[1], strict=True):
        np.testing.assert_allclose(got, wanted, atol=GRADIENT * max(1e-2, np.abs(wanted).max()))


class Bert(nn.Cell):
    """Queries, keys and values of linear layers, heads behind the sequence, a mask, and perhaps dropout or a bias."""

    def __init__(self, dropout=0.0, learned=False):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Dense(N * D, N * D) for _ in range(4))
        self.softmax, self.dropout = nn.Softmax(-1), nn.Dropout(p=dropout)
        self.bias = Parameter(tensor(draw(N, S, S), "float32"), name="bias") if learned else None

    def split(self, x):
        return x.reshape(x.shape[0], x.shape[1], N, D).transpose(0, 2, 1, 3)

    def construct(self, x, mask):
        q, k, v = self.split(self.q(x)), self.split(self.k(x)), self.split(self.v(x))
        scores = ops.matmul(q, k.swapaxes(-1, -2)) / math.sqrt(D)
        scores = scores + (mask if self.bias is None else self.bias)
        mixed = ops.matmul(self.dropout(self.softmax(scores)), v).transpose(0, 2, 1, 3)
        return self.out(mixed.reshape(x.shape))


SENTENCE = [draw(B, S, N * D), np.where(draw(B, 1, 1, S) < 0.5, 0, -1e9)]


def test_heads_behind_the_sequence_stay_there_in_a_file(tmp_path):
    inputs, net = tensors(SENTENCE), Bert()
    report, network = optimized(net, inputs, tmp_path)
    assert [e.text for e in report.replaced] == ["scale 0.353553, BSND; a row that is masked as a whole gives zeros"]
    assert "Transpose" not in kinds(tmp_path / "fused.mindir")
    assert_close(numpy(network(*inputs)), numpy(net(*inputs)), atol=OUTPUT)


def test_any_sizes(tmp_path):
    inputs, net = tensors(SENTENCE), Bert()
    report, network = optimized(net, inputs, tmp_path, dynamic={0: (0, 1), 1: (0, 3)})
    assert [e.pattern for e in report.replaced] == ["attention"]
    other = tensors([draw(3, 9, N * D), np.where(draw(3, 1, 1, 9) < 0.5, 0, -1e9)])
    for values in (inputs, other):
        assert_close(numpy(network(*values)), numpy(net(*values)), atol=OUTPUT)


class ConstantMask(Decoder):
    """The part of a table that the length needs, as examples/llama.py has it."""

    def __init__(self, table):
        super().__init__()
        self.table = Tensor(table if table.dtype == bool else table.astype(np.float32))

    def construct(self, q, k, v):
        scores = ops.matmul(q * self.scale, k.swapaxes(2, 3))
        mask = self.table[:S, :T]
        scores = scores.masked_fill(mask, -1e9) if self.table.dtype == ms.bool_ else scores + mask
        return ops.matmul(ops.softmax(scores, -1), v)


_ROWS, _COLS = np.indices((9, 9))
_BEHIND = _COLS > _ROWS + T - S


MASKS = [
    (np.where(_BEHIND, -1e4, 0), "causal by its mask"),
    (_BEHIND, "causal by its mask"),
    (np.zeros((9, 9)), ""),
    (np.where(_COLS > _ROWS, -1e4, 0), "masked as a whole"),  # as if the first query stood at the first key
    (np.where(_BEHIND, -10.0, 0), "masked as a whole"),  # hides nothing
    (np.where(_BEHIND, -1e4, 0.5), "masked as a whole"),
]


def test_constant_masks_of_a_file(tmp_path):
    net, inputs = Together([ConstantMask(table) for table, _ in MASKS], [3] * len(MASKS)), tensors(HEADS) * len(MASKS)
    report, network = optimized(net, inputs, tmp_path)
    texts = [e.text for e in report.replaced if e.pattern == "attention"]
    assert len(texts) == len(MASKS)
    for text in ("causal by its mask", "masked as a whole"):
        assert sum(text in one for one in texts) == [known for _, known in MASKS].count(text)
    for one, other in zip(network(*inputs), net(*inputs), strict=True):
        assert_close(numpy(one), numpy(other), atol=OUTPUT)


class GroupedHeads(nn.Cell):
    """Heads of queries that share keys meet them in one product, of sizes that the graph calculates."""

    def construct(self, x, mask):
        batch, length, _ = x.shape
        q = x.reshape(batch, length, N, D).swapaxes(1, 2)
        k = ops.relu(x)[:, :, : G * D].reshape(batch, length, G, D).swapaxes(1, 2)
        v = ops.tanh(x)[:, :, : G * D].reshape(batch, length, G, D).swapaxes(1, 2)
        q = q.reshape(batch, G, N // G * length, D)
        scores = (ops.matmul(q, k.swapaxes(2, 3)) * D**-0.5).reshape(batch, N, length, -1) + mask
        weights = ops.softmax(scores, -1).reshape(batch, G, N // G * length, -1)
        return ops.matmul(weights, v).reshape(batch, N, length, D).swapaxes(1, 2).reshape(batch, length, N * D)


def test_any_sizes_of_heads_that_share_keys(tmp_path):
    net, inputs = GroupedHeads(), tensors([SENTENCE[0], draw(S, S)])
    report, network = optimized(net, inputs, tmp_path, dynamic={0: (0, 1), 1: (0, 1)})
    assert ["heads share keys" in e.text for e in report.replaced if e.pattern == "attention"] == [True]
    for values in (inputs, tensors([draw(3, 9, N * D), draw(9, 9)])):
        assert_close(numpy(network(*values)), numpy(net(*values)), atol=OUTPUT)


def test_a_learned_bias_keeps_its_gradient():
    net, inputs = Bert(learned=True), tensors(SENTENCE)
    expected = gradients_of(net, inputs)
    found = entries(optimize(net, verify=inputs))
    assert found["attention"] == (False, "a gradient may be needed that the operator does not give")
    assert found["scale + mask + softmax"][0]
    for got, wanted in zip(gradients_of(net, inputs), expected, strict=True):
        np.testing.assert_allclose(got, wanted, atol=GRADIENT * max(1e-2, np.abs(wanted).max()))


def test_a_learned_bias_of_a_file_is_not_trained(tmp_path):
    inputs, net = tensors(SENTENCE), Bert(learned=True)
    report, network = optimized(net, inputs, tmp_path)
    assert entries(report)["attention"][0]
    assert_close(numpy(network(*inputs)), numpy(net(*inputs)), atol=OUTPUT)


def test_dropout_stays():
    net = Bert(dropout=0.5)
    found = entries(optimize(net, verify=tensors(SENTENCE)))
    assert found["attention"] == (False, "in training there is a dropout inside, which the operator has not")
    assert found["scale + mask + softmax"][0]
    net.set_train(True)
    inputs = tensors(SENTENCE)
    assert np.abs(numpy(net(*inputs)) - numpy(net(*inputs))).max() > 0


def twice(q, k, v, mask):
    """Two masks, of which the second is none of additive numbers."""
    scores = (ops.matmul(q, k.swapaxes(2, 3)) + mask).masked_fill(mask < -1, -1e9)
    return ops.matmul(ops.softmax(scores, -1), v)


def not_hidden(q, k, v, mask):
    scores = ops.matmul(q, k.swapaxes(2, 3)).masked_fill(mask < -1, -3.0)
    return ops.matmul(ops.softmax(scores, -1), v)


def probabilities(q, k, v, mask):
    weights = ops.softmax(ops.matmul(q, k.swapaxes(2, 3)) + mask, -1)
    return ops.matmul(weights, v), weights


def scaled_mask(q, k, v, mask):
    return ops.matmul(ops.softmax((ops.matmul(q, k.swapaxes(2, 3)) + mask) * 0.5, -1), v)


def other_axis(q, k, v, mask):
    return ops.matmul(ops.softmax(ops.matmul(q, k.swapaxes(2, 3)) + mask, -2), v)


def repeated_in_blocks(q, k, v, mask):
    """Heads of keys one after the other, and then once more: queries 0 and 2 share one."""
    k, v = ops.tile(k[:, :2], (1, 2, 1, 1)), ops.tile(v[:, :2], (1, 2, 1, 1))
    return ops.matmul(ops.softmax(ops.matmul(q, k.swapaxes(2, 3)) + mask, -1), v)


def test_what_stays(tmp_path):
    functions = twice, not_hidden, probabilities, scaled_mask, other_axis  # the last two are no pattern
    inputs = tensors([*HEADS, CAUSAL]) * len(functions)
    net = Together([cell(function) for function in functions], [4] * len(functions))
    report, network = optimized(net, inputs, tmp_path)
    left = [e.text for e in report.entries if e.pattern == "attention" and not e.replaced]
    for reason in ("two masks", "does not hide them", "used elsewhere"):
        assert sum(reason in text for text in left) == 1, left
    assert "attention" not in [e.pattern for e in report.replaced]
    for one, other in zip(flat(network(*inputs)), flat(net(*inputs)), strict=True):
        assert_close(numpy(one), numpy(other), atol=OUTPUT)


def test_heads_that_are_repeated_in_another_order(tmp_path):
    """They are given to the operator as they are."""
    inputs = tensors([*HEADS, CAUSAL])
    report, network = optimized(cell(repeated_in_blocks), inputs, tmp_path)
    assert "share" not in entries(report)["attention"][1]
    assert_close(numpy(network(*inputs)), numpy(cell(repeated_in_blocks)(*inputs)), atol=OUTPUT)


def test_large_heads_stay(tmp_path):
    inputs = tensors([draw(1, 1, 3, 264), draw(1, 1, 3, 264), draw(1, 1, 3, 264)])
    report, _ = optimized(cell(unscaled), inputs, tmp_path)
    assert entries(report)["attention"] == (False, "its heads have 264 elements, the operator takes 256 at most")


def test_half_precision_is_of_level_o2(tmp_path):
    inputs = tensors([*SHARED, CAUSAL.clip(-1e4)], "float16")
    stock = export_mindir(cell(llama), *inputs, path=tmp_path / "stock")
    report = optimize_mindir(stock, tmp_path / "exact.mindir", level="O1")
    assert not entries(report)["attention"][0]
    assert "level O2" in entries(report)["attention"][1]
    report = optimize_mindir(stock, tmp_path / "fused.mindir", level="O2")
    assert entries(report)["attention"][0]
    result = load(tmp_path / "fused.mindir")(*inputs)
    assert result.dtype == ms.float16
    expected = reference(*(numpy(x) for x in inputs[:3]), CAUSAL)
    np.testing.assert_allclose(numpy(result), expected, atol=4e-3)  # eps of float16 times values of a few units
