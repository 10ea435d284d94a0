"""In graphs for any sizes each size is calculated once, and sizes that may differ are not taken for each other."""

from collections import Counter

import numpy as np
import pytest
from mindspore import Tensor, nn, ops
from ms_ascend_ops.export.graphs.graph import CONSTANT, INPUT, Graph, Node, constant
from ms_ascend_ops.export.graphs.mindir_graph import graphs_of
from ms_ascend_ops.export.graphs.sizes import Sizes

from ms_ascend_ops import export_mindir, load, optimize_mindir
from tests.export.engines.test_mindir_engine import model_of
from tests.tensors import numpy

SIZE_NODES = ("Shape", "TupleGetItem", "MakeTuple", "ScalarMul", "ScalarAdd")


def draw(*shape):
    return Tensor(np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32))


def counts(path):
    return Counter(node.kind for graph in graphs_of(model_of(path)) for node in graph.graph.nodes)


def simplified(cell, inputs, dynamic, tmp_path):
    """Both files, exported for open sizes."""
    stock = export_mindir(cell, *inputs, path=tmp_path / "stock", dynamic=dynamic)
    optimize_mindir(stock, tmp_path / "simple.mindir", level="O1")
    return stock, tmp_path / "simple.mindir"


def assert_same(stock, simple, inputs):
    mine, theirs = load(simple)(*inputs), load(stock)(*inputs)
    if isinstance(mine, Tensor):
        mine, theirs = [mine], [theirs]
    for one, other in zip(mine, theirs, strict=True):
        assert one.shape == other.shape
        np.testing.assert_array_equal(numpy(one), numpy(other))


class Layers(nn.Cell):
    """Every layer asks what it gets for batch and length."""

    def construct(self, x):
        for _ in range(3):
            batch, length, _ = x.shape
            heads = ops.tanh(x).reshape(batch, length, 2, 4).swapaxes(1, 2)
            x = ops.sin(heads).swapaxes(1, 2).reshape(batch, length, 8) + x
        return x


def test_layers_take_sizes_from_where_they_were_first(tmp_path):
    stock, simple = simplified(Layers(), [draw(2, 3, 8)], {0: (0, 1)}, tmp_path)
    before, after = counts(stock), counts(simple)
    assert (before["Shape"], before["TupleGetItem"], before["MakeTuple"]) == (3, 6, 6)
    assert (after["Shape"], after["TupleGetItem"], after["MakeTuple"]) == (1, 2, 1)  # x has the other shape
    for sizes in ((2, 3), (1, 5), (4, 1)):
        assert_same(stock, simple, [draw(*sizes, 8)])


class Appended(nn.Cell):
    """Batch and length of what is appended; only the batch is that of the cache, as else nothing could be appended."""

    def construct(self, cache, x):
        both = ops.cat((cache, x), axis=1)
        lengths = ops.zeros_like(x).sum(-1).reshape(x.shape[0], x.shape[1], 1)
        return (both * 2).reshape(cache.shape[0], -1, 8), cache.reshape(cache.shape[0], cache.shape[1], 2, 4), lengths


def test_what_is_appended_has_the_batch_of_what_was_there(tmp_path):
    stock, simple = simplified(Appended(), [draw(2, 4, 8), draw(2, 3, 8)], {0: (0, 1), 1: (0, 1)}, tmp_path)
    assert counts(simple)["TupleGetItem"] < counts(stock)["TupleGetItem"]
    for batch, past, new in ((2, 3, 3), (1, 7, 2), (3, 1, 4)):
        assert_same(stock, simple, [draw(batch, past, 8), draw(batch, new, 8)])


class Broadcasting(nn.Cell):
    """One of the two may have a single row, so nobody knows of which size the sum is."""

    def construct(self, x, y):
        total = x + y
        return total.reshape(total.shape[0], 2, 4), x.reshape(x.shape[0], 4, 2), y.reshape(y.shape[0], 4, 2)


def test_sizes_of_a_sum_may_be_those_of_either(tmp_path):
    stock, simple = simplified(Broadcasting(), [draw(2, 8), draw(2, 8)], {0: (0,), 1: (0,)}, tmp_path)
    assert counts(simple)["MakeTuple"] == counts(stock)["MakeTuple"]
    for rows in ((3, 3), (1, 5), (5, 1)):
        assert_same(stock, simple, [draw(rows[0], 8), draw(rows[1], 8)])


class Calculated(nn.Cell):
    """The same calculation twice, and others with the same numbers."""

    def construct(self, x):
        a, b = x.shape[0], x.shape[1]
        y = ops.tanh(x) + x
        return (
            x.reshape(a + a, -1),
            y.reshape(y.shape[0] + y.shape[0], -1),
            y.reshape(b + b, -1),
            x.reshape(a * 2, -1, 2),
            y.reshape(y.shape[0] * 2, -1, 1),
        )


def test_the_same_calculation_is_done_once(tmp_path):
    stock, simple = simplified(Calculated(), [draw(2, 3, 8)], {0: (0, 1)}, tmp_path)
    before, after = counts(stock), counts(simple)
    assert (before["ScalarMul"], before["ScalarAdd"]) == (2, 3)
    assert (after["ScalarMul"], after["ScalarAdd"]) == (1, 2)
    for sizes in ((2, 3), (5, 4)):
        assert_same(stock, simple, [draw(*sizes, 8)])


class SizesOut(nn.Cell):
    """Sizes that leave the network."""

    def construct(self, x):
        y = ops.tanh(x)
        return y, x.shape[0], y.shape[0]


def test_sizes_that_leave_the_network(tmp_path):
    stock, simple = simplified(SizesOut(), [draw(2, 8)], {0: (0,)}, tmp_path)
    mine, theirs = load(simple)(draw(5, 8)), load(stock)(draw(5, 8))
    assert [int(size) for size in mine[1:]] == [int(size) for size in theirs[1:]] == [5, 5]


class InBranches(nn.Cell):
    """Each branch is a graph of its own, and one of them appends, which the other need not be able to."""

    def construct(self, x, y):
        if x.sum() > 0:
            both = ops.cat((x, y), axis=1)
            return both.reshape(x.shape[0], -1).sum() + y.reshape(y.shape[0], -1, 2).sum()
        return x.reshape(x.shape[0], 4, 2).sum() - y.reshape(y.shape[0], 4, 2).sum()


def test_what_a_branch_needs_holds_in_that_branch(tmp_path):
    stock, simple = simplified(InBranches(), [draw(2, 8), draw(2, 8)], {0: (0,), 1: (0,)}, tmp_path)
    for rows, sign in ((3, 1), (5, -1)):
        assert_same(stock, simple, [ops.abs(draw(3, 8)) * sign, draw(rows, 8)])


def node(kind, *inputs, shape=None, **attributes):
    return Node(kind, inputs, shape=shape, attributes=attributes)


X = Node(INPUT, name="x", shape=(-1, 4, -1))
Y = Node(INPUT, name="y", shape=(-1, 4, -1))


@pytest.mark.parametrize(
    ("made", "same"),
    [
        (node("Tanh", X, shape=(-1, 4, -1)), True),
        (node("Mul", X, constant(2.0), shape=(-1, 4, -1)), True),
        (node("Mul", X, Y, shape=(-1, 4, -1)), False),
        (node("Softmax", X, constant((-1,)), shape=(-1, 4, -1)), True),
        (node("Transpose", X, constant((2, 1, 0)), shape=(-1, 4, -1)), False),
        (node("Transpose", node("Transpose", X, constant((2, 0, 1)), shape=(-1, -1, 4)), constant((1, 2, 0)),
              shape=(-1, 4, -1)), True),
        (node("Reshape", X, constant((-1, 4, -1)), shape=(-1, 4, -1)), False),
        (node("StridedSlice", X, constant((0, 0, 1)), constant((0, 0, 9)), constant((1, 1, 1)), constant(3),
              constant(3), constant(0), constant(0), constant(0), shape=(-1, 4, -1)), False),
        (node("Unheard", X, shape=(-1, 4, -1)), False),
    ],
)  # fmt: skip
def test_which_nodes_keep_sizes(made, same):
    inner = [i for i in made.inputs if i.kind not in (INPUT, CONSTANT)]
    sizes = Sizes(Graph([*inner, made], [made]))
    assert sizes.same(sizes.shape(X), sizes.shape(made)) is same


def test_axes_that_are_kept_beside_others():
    sliced = node(
        "StridedSlice", X, constant((0, 0, 1)), constant((0, 0, 9)), constant((1, 1, 1)), constant(3), constant(3),
        constant(0), constant(0), constant(0), shape=(-1, 4, -1),
    )  # fmt: skip
    flat = node("Reshape", sliced, constant((-1,)), shape=(-1,))
    rows = node("Reshape", node("Gather", Y, X, constant(0), constant(0)), constant((-1, 8)), shape=(-1, 8))
    again = node("Reshape", rows, constant((2, -1, 4)), shape=(2, -1, 4))
    sizes = Sizes(Graph([sliced, flat, rows, again], [again]))
    assert sizes.shape(sliced)[0] is sizes.shape(X)[0]
    assert sizes.shape(again)[1] is sizes.shape(rows)[0]
    assert sizes.shape(flat)[0] not in (*sizes.shape(X), *sizes.shape(sliced))


def test_a_product_that_runs_has_operands_that_fit():
    """Whatever the graph shows before or behind it."""
    product = node("MatMulExt", X, Y, shape=(-1, 4, -1))
    sizes = Sizes(Graph([product], [product]))
    assert sizes.shape(X)[2] == 4  # the rows of Y
    assert sizes.shape(product)[2] is sizes.shape(Y)[2]
    assert sizes.shape(X)[0] is not sizes.shape(Y)[0]  # one of them may be 1


def test_sizes_that_the_file_says():
    assert Sizes(Graph([], [])).shape(Node(INPUT, shape=(2, 3))) == (2, 3)
    assert Sizes(Graph([], [])).shape(Node(INPUT)) is None


class Subtracted(nn.Cell):
    """A size that the network calculates may come out as the -1 of a reshape."""

    def construct(self, x, y):
        rows = ops.tanh(x.reshape(x.shape[0] - y.shape[0], x.shape[1], 8))
        wide = ops.tanh(x).broadcast_to((x.shape[0] - y.shape[0], x.shape[1], 8))
        return rows * rows.shape[0], rows.reshape(x.shape[1], rows.shape[0], 8), wide * wide.shape[0]


def test_a_size_that_comes_out_as_minus_one(tmp_path):
    stock, simple = simplified(Subtracted(), [draw(2, 3, 8), draw(1, 8)], {0: (0, 1), 1: (0,)}, tmp_path)
    for length in (1, 4):
        assert_same(stock, simple, [draw(2, length, 8), draw(3, 8)])


@pytest.mark.parametrize(
    ("target", "known"),
    [((-1, 8), True), ((0, -1), False), ((-1, -1), False), ((-2, 8), False), ((3, 8), True)],
)
def test_targets_of_reshapes(target, known):
    rows = Node(INPUT, name="rows", shape=(-1, 8))
    made = node("Reshape", rows, constant(target), shape=(-1, -1))
    sizes = Sizes(Graph([made], [made]))
    if known:
        assert sizes.same(sizes.shape(made), [sizes.shape(rows)[0] if target[0] == -1 else 3, 8])
    else:
        assert not sizes.same(sizes.shape(made)[:1], sizes.shape(rows)[:1])
        assert all(not isinstance(size, int) or size >= 0 for size in sizes.shape(made))


def test_numbers_that_no_size_can_be():
    large = node("ScalarMul", constant(2**40), constant(2**40))
    pair = node("MakeTuple", constant(3), node("MakeTuple", constant(4)))
    sizes = Sizes(Graph([large, *pair.inputs[1:], pair], [pair]))
    assert sizes.numbers(large) is None
    assert sizes.numbers(pair) == (3, None)


def test_numbers_of_elements_tell_open_sizes():
    """(b, 2, s, t) -> (b, 1, 2 * s, -1) -> (b, 4, s, -1): t stays where the products of the others are the same."""
    x = Node(INPUT, (), "x", (-1, 2, -1, -1))
    sizes = Node("Shape", (x,))
    batch, length = (Node("TupleGetItem", (sizes, constant(index))) for index in (0, 2))
    rows = Node("ScalarMul", (constant(2), length))
    first = Node("MakeTuple", (batch, constant(1), rows, constant(-1)))
    joined = Node("Reshape", (x, first), "joined", (-1, 1, -1, -1))
    second = Node("MakeTuple", (batch, constant(4), length, constant(-1)))
    halved = Node("Reshape", (joined, second), "halved", (-1, 4, -1, -1))
    found = Sizes(Graph([x, sizes, batch, length, rows, first, joined, second, halved], [halved]))
    b, _, s, t = found.shape(x)
    assert found.same(found.shape(joined), (b, 1, found.numbers(rows), t))
    assert found.same(found.shape(halved)[:3], (b, 4, s))
    assert found.shape(halved)[3] is not t  # of half as many elements


def test_a_size_that_only_the_number_of_elements_tells():
    """(b, 2, u, 8) -> (b, 1, 2 * s, 8): u is s, or the graph stops."""
    x, y = Node(INPUT, (), "x", (-1, -1)), Node(INPUT, (), "y", (-1, 2, -1, 8))
    sizes, places = Node("Shape", (x,)), Node("Shape", (y,))
    length, batch = Node("TupleGetItem", (sizes, constant(1))), Node("TupleGetItem", (places, constant(0)))
    rows = Node("ScalarMul", (constant(2), length))
    target = Node("MakeTuple", (batch, constant(1), rows, constant(8)))
    made = Node("Reshape", (y, target), "made", (-1, 1, -1, 8))
    found = Sizes(Graph([x, y, sizes, places, length, batch, rows, target, made], [made]))
    assert found.same([found.shape(y)[2]], [found.shape(x)[1]])
