"""Products of matrices take transposes of their operands along, and go without broadcasting where it does nothing."""

from collections import Counter

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, mint, ops
from ms_ascend_ops.export.graphs.mindir_graph import graphs_of
from ms_ascend_ops.samples.network import flat

from ms_ascend_ops import export_mindir, load, optimize_mindir
from tests.acceptance import assert_close
from tests.export.engines.test_mindir_engine import model_of
from tests.modes import Together
from tests.tensors import numpy
from tests.versions import without


def draw(*shape, dtype=np.float32):
    return Tensor((8 * np.random.default_rng(sum(shape)).standard_normal(shape)).astype(dtype))


def counts(path):
    return Counter(node.kind for graph in graphs_of(model_of(path)) for node in graph.graph.nodes)


def simplified(functions, inputs, tmp_path, dynamic=None, others=()):
    """What a file of some functions has before and after, each with two inputs of its own. It gives what they give."""

    net = Together(functions, [2] * len(functions))
    stock = export_mindir(net, *inputs * len(functions), path=tmp_path / "stock", dynamic=dynamic or {})
    report = optimize_mindir(stock, tmp_path / "simple.mindir", level="O1")
    network = load(tmp_path / "simple.mindir")
    for tensors in (inputs, *others):
        wanted = flat(tuple(function(*tensors) for function in functions))
        for one, other in zip(flat(network(*tensors * len(functions))), wanted, strict=True):
            assert (one.shape, one.dtype) == (other.shape, other.dtype)
            assert_close(numpy(one), numpy(other), rtol=1e-5)  # sums of 4 to 9 products in another order
    return counts(stock), counts(tmp_path / "simple.mindir"), Counter(e.pattern for e in report.replaced)


# Functions, as MindSpore reads their source; x is (2, 3, 5, 8), y (2, 3, 7, 8).
def at(x, y):
    return x @ y.swapaxes(2, 3)


def matmul(x, y):
    return ops.matmul(x, y.transpose(0, 1, 3, 2))


def mint_matmul(x, y):
    return mint.matmul(x, y.swapaxes(-1, -2))


def bmm(x, y):
    return ops.bmm(x, y.swapaxes(-1, -2))


def mint_bmm(x, y):
    return mint.bmm(x.reshape(6, 5, 8), y.reshape(6, 7, 8).swapaxes(1, 2))


def first(x, y):
    return x.swapaxes(2, 3).swapaxes(2, 3).swapaxes(2, 3) @ y[:, :, :5]


def both(x, y):
    return x.swapaxes(2, 3) @ y.reshape(2, 3, 8, 7)[:, :, :5].swapaxes(2, 3).swapaxes(2, 3)


def matrices(x, y):
    return ops.matmul(x[0, 0], y[0, 0].T)


def taken_transposed(x, y):
    return ops.BatchMatMul(transpose_b=True)(x, y.reshape(2, 3, 8, 7).swapaxes(2, 3))


def scaled(x, y):
    return x @ (y.swapaxes(2, 3) * 0.25)


def divided(x, y):
    return (x * 0.5) @ (y.swapaxes(2, 3) / 4.0)


def divided_by_a_tensor(x, y):
    return x @ (y.swapaxes(2, 3) / Tensor(4.0))


FORMS = (at, matmul, mint_matmul, bmm, mint_bmm, first, both, matrices, taken_transposed, scaled, divided,
         divided_by_a_tensor)  # fmt: skip


def test_equivalent_forms(tmp_path):
    before, after, entries = simplified(FORMS, (draw(2, 3, 5, 8), draw(2, 3, 7, 8)), tmp_path)
    assert before["Transpose"] >= len(FORMS)
    assert after["Transpose"] == 0
    assert entries["transpose in front of a product"] == len(FORMS)


def heads(x, y):
    """The axes of heads and positions, which no product takes along."""
    return x.swapaxes(1, 2) @ y.reshape(2, 1, 8, 21)[:, :, :, :7]


def broadcast(x, y):
    return x @ y[:1].swapaxes(2, 3)


def one_for_all(x, y):
    return x @ y[0, 0].swapaxes(0, 1)


def of_integers(x, y):
    return x.astype(ms.int32) @ y.astype(ms.int32).swapaxes(2, 3)


def scaled_by_a_tensor(x, y):
    return x @ (y.swapaxes(2, 3) * x[:, :, :1, :7])


def test_what_stays(tmp_path):
    functions = heads, broadcast, one_for_all, of_integers, scaled_by_a_tensor
    before, after, entries = simplified(functions, (draw(2, 3, 5, 8), draw(2, 3, 7, 8)), tmp_path)
    assert after["Transpose"] == before["Transpose"] == len(functions)
    assert not entries


def used_elsewhere(x, y):
    transposed = y.swapaxes(2, 3)
    return x @ transposed, transposed * 2


def scaled_and_used_elsewhere(x, y):
    transposed = y.swapaxes(2, 3)
    return x @ (transposed * 2), transposed


@pytest.mark.parametrize(("function", "folded"), [(used_elsewhere, 1), (scaled_and_used_elsewhere, 0)])
def test_a_transpose_that_is_used_elsewhere_stays_for_that(function, folded, tmp_path):
    _, after, entries = simplified([function], (draw(2, 3, 5, 8), draw(2, 3, 7, 8)), tmp_path)
    assert after["Transpose"] == 1
    assert entries["transpose in front of a product"] == folded


@without("float16 in tuples on a CPU")
def test_half_precision(tmp_path):
    inputs = draw(2, 3, 5, 8, dtype=np.float16), draw(2, 3, 7, 8, dtype=np.float16)
    _, after, _ = simplified([at], inputs, tmp_path)
    assert after["BatchMatMul"] == 1


def attention(x, y):
    """Both products have the batch of the cache, and the heads."""
    batch, length = x.shape[0], x.shape[2]
    keys = ops.cat((y, x), axis=2)
    weights = ops.tanh(x @ keys.swapaxes(2, 3))
    return (weights @ keys).swapaxes(1, 2).reshape(batch, length, 24)


def test_products_of_any_sizes(tmp_path):
    others = [(draw(b, 3, length, 8), draw(b, 3, past, 8)) for b, length, past in ((1, 1, 9), (4, 2, 1))]
    open_sizes = {0: (0, 2), 1: (0, 2)}
    before, after, _ = simplified([attention], (draw(2, 3, 5, 8), draw(2, 3, 7, 8)), tmp_path, open_sizes, others)
    assert (before["MatMulExt"], before["BatchMatMul"]) == (2, 0)
    assert (after["MatMulExt"], after["BatchMatMul"]) == (0, 2)
    assert after["Transpose"] == 1


def test_batches_that_may_differ_are_broadcast(tmp_path):
    others = [(draw(one, 3, 5, 8), draw(other, 3, 7, 8)) for one, other in ((1, 3), (3, 1))]
    _, after, _ = simplified([at], (draw(2, 3, 5, 8), draw(2, 3, 7, 8)), tmp_path, {0: (0,), 1: (0,)}, others)
    assert (after["MatMulExt"], after["Transpose"]) == (1, 1)


# y holds two heads, which three of x share each.
def repeated(x, y):
    batch, heads, length, size = y.shape
    return y[:, :, None].broadcast_to((batch, heads, 3, length, size)).reshape(batch, heads * 3, length, size)


def tiled(x, y):
    return ops.tile(y.expand_dims(2), (1, 1, 3, 1, 1)).reshape(y.shape[0], 6, y.shape[2], -1)


def scores(x, y):
    return x @ repeated(x, y).swapaxes(2, 3)


def mixed(x, y):
    return ops.tanh(ops.matmul(x, tiled(x, y).swapaxes(2, 3))) @ tiled(x, y)


def repeated_in_use(x, y):
    keys = repeated(x, y)
    return x @ keys.swapaxes(2, 3), keys * 2


def repeated_in_another_order(x, y):
    batch, heads, length, size = y.shape
    keys = y[:, None].broadcast_to((batch, 3, heads, length, size)).reshape(batch, 6, length, size)
    return x @ keys.swapaxes(2, 3)


def repeated_first(x, y):
    return repeated(x, y) @ x.swapaxes(2, 3)


@pytest.mark.parametrize(
    ("functions", "grouped", "copies", "shape"),
    [
        ((scores, mixed), 3, 0, (2, 6, 5, 4)),
        ((scores, mixed), 3, 0, (1, 6, 1, 4)),
        ((repeated_in_use,), 1, 1, (1, 6, 1, 4)),
        ((repeated_in_another_order, repeated_first), 0, 2, (2, 6, 5, 4)),
    ],
)
def test_heads_that_share_keys(functions, grouped, copies, shape, tmp_path):
    inputs = draw(*shape), draw(shape[0], 2, 7, 4)
    before, after, entries = simplified(functions, inputs, tmp_path)
    spread = ("BroadcastTo", "Tile")
    assert sum(before[kind] for kind in spread) >= len(functions)
    assert sum(after[kind] for kind in spread) == copies
    assert entries["repeated heads"] == grouped


@pytest.mark.parametrize(("axis", "grouped"), [(2, 1), (0, 0)])
def test_heads_that_share_keys_of_any_number(axis, grouped, tmp_path):
    """Of positions; of sequences queries and keys may have other numbers."""
    batch, length = (3, 7) if axis == 0 else (2, 9)
    others = [(draw(batch, 6, 5, 4), draw(batch, 2, length, 4))]
    open_sizes = {0: (0,) * (axis == 0), 1: (axis,)}
    _, after, entries = simplified([scores], (draw(2, 6, 5, 4), draw(2, 2, 7, 4)), tmp_path, open_sizes, others)
    assert entries["repeated heads"] == grouped
    assert after["BroadcastTo"] == 1 - grouped


def there_and_back(x, y):
    return ops.sin(x.transpose(1, 3, 0, 2).transpose(2, 0, 3, 1)) + 1, y


def one_and_one(x, y):
    return ops.sin(ops.tanh(x) / 1.0), ops.cos(ops.tanh(y) / 1)


def ones_that_do_something(x, y):
    return ops.sin(x.astype(ms.int32) / 1), ops.cos(y[:, :, :, :1] * Tensor(np.ones((8,), np.float32)))


def test_what_hands_on_what_it_gets_is_left_out(tmp_path):
    functions = there_and_back, one_and_one, ones_that_do_something
    *_, found = simplified(functions, (draw(2, 3, 5, 8), draw(2, 3, 7, 8)), tmp_path)
    assert found == {"transpose and back": 1, "product with 1": 2}
