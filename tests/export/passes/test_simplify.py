"""Slices of constants are calculated when the file is written, and factors go behind a reshape."""

from contextlib import nullcontext

import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, Tensor, nn, ops
from mindspore.train.mind_ir_pb2 import AttributeProto
from ms_ascend_ops.export.graphs.mindir_graph import graphs_of
from ms_ascend_ops.export.passes.simplify import simplify
from ms_ascend_ops.samples.network import flat

from ms_ascend_ops import export_mindir, load, optimize_mindir
from tests.export.engines.test_mindir_engine import model_of
from tests.export.mindir import change
from tests.modes import Together
from tests.tensors import numpy

X = Tensor(np.float32([1, 2]))
PRODUCTS = {"Mul", "Muls"}  # by a tensor, and by a number
TABLE = np.arange(6 * 8, dtype=np.float32).reshape(6, 8) - 20


# Functions, as MindSpore reads their source.
def corner(t):
    return t[:3, :3]


def rows(t):
    return t[2:5]


def from_the_end(t):
    return t[-4:-1, 1:-2]


def every_second(t):
    return t[::2, 1::3]


def one_row(t):
    return t[3]


def an_element_of_each_row(t):
    return t[:, 5]


SLICES = (corner, rows, from_the_end, every_second, one_row, an_element_of_each_row)


class Sliced(nn.Cell):
    """x plus the sum of a slice: any shape of that will do."""

    def __init__(self, table, cut):
        super().__init__()
        self.table, self.cut = table, cut

    def construct(self, x):
        part = self.cut(self.table)
        return x + part.astype(ms.float32).sum(), part + part.astype(part.dtype)


def kinds(path):
    return [node.kind for graph in graphs_of(model_of(path)) for node in graph.graph.nodes]


def optimized(cell, tmp_path, level="O1", count=1, dynamic=None):
    """The slices that were folded, and both files, of a cell that takes `count` inputs."""
    stock = export_mindir(cell, *[X] * count, path=tmp_path / "stock", dynamic=dynamic)
    report = optimize_mindir(stock, tmp_path / "folded.mindir", level=level)
    assert "StridedSlice" in kinds(stock)
    return [e for e in report.replaced if e.pattern == "slice of a constant"], stock, tmp_path / "folded.mindir"


def assert_same(file, stock, *inputs):
    for mine, theirs in zip(flat(load(file)(*inputs)), flat(load(stock)(*inputs)), strict=True):
        assert mine.dtype == theirs.dtype
        np.testing.assert_array_equal(numpy(mine), numpy(theirs))


# MindSpore has no kernel for slices of bfloat16 on a CPU: with the file before, this would not run.
DTYPES = (ms.float16, ms.bfloat16, ms.int32, ms.float64)


def test_slices(tmp_path):
    made = [(cut, ms.float32) for cut in SLICES] + [(corner, dtype) for dtype in DTYPES]
    net = Together([Sliced(Tensor(TABLE).astype(dtype), cut) for cut, dtype in made])
    entries, _, folded = optimized(net, tmp_path, count=len(made))
    assert [e.text for e in entries].count("6x8 to 3x3, a constant") == 2 + len(DTYPES)  # every_second gives one, too
    assert len(entries) == len(made)
    assert "StridedSlice" not in kinds(folded)
    for (cut, dtype), (total, doubled) in zip(made, load(folded)(*[X] * len(made)), strict=True):
        assert doubled.dtype == dtype
        np.testing.assert_array_equal(numpy(doubled.astype(ms.float32)), 2 * cut(TABLE))
        np.testing.assert_array_equal(numpy(total), numpy(X) + cut(TABLE).sum())


def test_what_is_not_used_any_more_is_gone(tmp_path):
    large = Tensor(np.tile(TABLE, (64, 64)))
    _, stock, folded = optimized(Sliced(large, corner), tmp_path)
    assert_same(folded, stock, X)
    assert folded.stat().st_size < stock.stat().st_size - large.nbytes // 2


def test_parameters_stay(tmp_path):
    """Somebody may load other values into them."""
    entries, _, folded = optimized(Sliced(Parameter(Tensor(TABLE), name="table"), corner), tmp_path)
    assert entries == []
    assert "StridedSlice" in kinds(folded)


def test_slices_of_what_is_calculated_stay(tmp_path):
    class Net(nn.Cell):
        def construct(self, x):
            return x[:1], x * 2

    entries, _, folded = optimized(Net(), tmp_path)
    assert entries == []
    assert "StridedSlice" in kinds(folded)


def a_new_axis(t):
    return t[:, None]


def two_new_axes(t):
    return t[:, None][:, :, None]


def up_to_its_length(t):
    return t[0:2]


def its_last(t):
    return t[-2:]


def its_first(t):
    return t[:1]


def backwards(t):
    return t[::-1]


class SlicedBetween(nn.Cell):
    """Both users of the slice go on with what was sliced."""

    def __init__(self, cut):
        super().__init__()
        self.cut = cut

    def construct(self, x):
        part = self.cut(ops.exp(x))
        return ops.sin(part), part * part


class SlicedInBranch(nn.Cell):
    """The branch is a graph of its own; what it slices comes from outside."""

    def construct(self, x):
        larger = ops.exp(x)
        if x.sum() > 0:
            return ops.sin(larger[:, None]), larger
        return ops.cos(larger[:, None]), x


def test_slices_that_take_everything_are_left_out(tmp_path):
    """Its last elements may be everything, too, but are seldom written so."""
    cuts = (a_new_axis, two_new_axes, up_to_its_length, its_last, its_first, backwards)
    parts = [*map(SlicedBetween, cuts), SlicedInBranch()]
    _, stock, simple = optimized(Together(parts), tmp_path, count=len(parts))
    assert kinds(simple).count("StridedSlice") == 3  # the last three cuts
    assert_same(simple, stock, *[X] * len(parts))


def test_a_slice_that_leaves_the_network_stays(tmp_path):
    class Net(nn.Cell):
        def construct(self, x):
            return ops.exp(x)[:, None]

    stock = export_mindir(Net(), X, path=tmp_path / "stock")
    report = optimize_mindir(stock, tmp_path / "simple.mindir", level="O1")
    assert report.replaced == []
    assert "StridedSlice" in kinds(tmp_path / "simple.mindir")
    np.testing.assert_array_equal(numpy(load(tmp_path / "simple.mindir")(X)), numpy(load(stock)(X)))


def test_an_axis_of_any_length(tmp_path):
    """A new axis takes it as a whole, of an end nobody knows."""
    net = Together([SlicedBetween(a_new_axis), SlicedBetween(up_to_its_length)])
    _, stock, simple = optimized(net, tmp_path, count=2, dynamic={0: (0,), 1: (0,)})
    assert kinds(simple).count("StridedSlice") == 1
    assert_same(simple, stock, *[Tensor(np.float32([3, 1, 2]))] * 2)


def test_level_0_changes_nothing(tmp_path):
    entries, _, folded = optimized(Sliced(Tensor(TABLE), corner), tmp_path, level="O0")
    assert entries == []
    assert "StridedSlice" in kinds(folded)


def add_constant(model, value):
    """A number or a tuple of numbers; the name that it gets."""
    node = model.graph.node.add(op_type="Constant", name=f"added_{len(model.graph.node)}")
    node.output.append(node.name)
    if isinstance(value, int):
        node.attribute.add(name="value", type=AttributeProto.INT64, i=value)
    else:
        numbers = node.attribute.add(name="value", type=AttributeProto.TUPLE).values
        for number in value:
            numbers.add(type=AttributeProto.INT64, ints=[number])
    return node.name


def test_indices_that_do_not_fit_stay(tmp_path):
    """A file is input from outside."""
    path = export_mindir(Sliced(Tensor(TABLE), one_row), X, path=tmp_path / "stock")
    arguments = ("begin", "end", "strides", "begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask")
    for cut, folded in (
        ({}, 1),
        ({"begin": (9, 0)}, 0),
        ({"strides": (0, 1)}, 0),
        ({"begin": (0,)}, 0),
        ({"begin_mask": 1}, 0),  # and the axis goes away
        ({"ellipsis_mask": 1}, 0),
        ({"new_axis_mask": 1}, 0),
    ):
        model = model_of(path)
        (node,) = [node for node in model.graph.node if node.op_type.startswith("REF::StridedSlice")]
        for name, value in {"begin": (3, 0), "end": (4, 8), "strides": (1, 1), **cut}.items():
            node.input[1 + arguments.index(name)] = add_constant(model, value)
        assert len(simplify(model)) == folded, cut


@pytest.mark.parametrize("dims", [(-6, -8), (2**32, 2**32)])
def test_dims_that_are_none(dims, tmp_path):
    """As many elements as there are, but no shape; of more than 64 bits count, which are none so: these stay alone."""

    def damage(model):
        (table,) = [t for n in model.graph.node if n.op_type == "Constant" for a in n.attribute for t in a.tensors]
        table.dims[:] = dims
        table.raw_data = table.raw_data if dims[0] < 0 else b""

    stock = export_mindir(Sliced(Tensor(TABLE), corner), X, path=tmp_path / "stock")
    change(stock, damage)
    message = r"^optimize_mindir: .* damaged \(the constant .* has the dims \(-6, -8\)\)$"
    with pytest.raises(ValueError, match=message) if dims[0] < 0 else nullcontext():
        optimize_mindir(stock, tmp_path / "folded.mindir")
    assert dims[0] < 0 or "StridedSlice" in kinds(tmp_path / "folded.mindir")


class Scores(nn.Cell):
    """Attention where a head of keys serves two of queries: scaled, then reshaped."""

    def construct(self, x, mask):
        scores = (x * 0.125).reshape(1, 4, 3, 5)
        return ops.softmax(scores + mask, axis=-1)


class ScaledByElement(Scores):
    """The factor is cut out of a table, and so a constant only when slices have been folded."""

    def __init__(self):
        super().__init__()
        self.factors = Tensor(np.float32([1, 0.125]))

    def construct(self, x, mask):
        return ops.softmax((x * self.factors[1]).reshape(1, 4, 3, 5) + mask, axis=-1)


class ScaledInBranches(nn.Cell):
    """Both branches of a condition on data, which are graphs of their own, take something of one table."""

    def __init__(self):
        super().__init__()
        self.table = Tensor(np.tile(TABLE, (64, 64)))

    def construct(self, x, mask):
        if mask.sum() > 0:
            return (x * 0.5).reshape(1, 4, 3, 5) + self.table[2:4, 1:3].sum()
        return (x * 0.25).reshape(1, 4, 3, 5) * self.table[1:3, 2:4].sum()


class ScaledInUse(Scores):
    def construct(self, x, mask):
        scaled = x * 0.125
        return ops.softmax(scaled.reshape(1, 4, 3, 5) + mask, axis=-1) + scaled.sum()


class OfIntegers(nn.Cell):
    def construct(self, x, mask):
        return (x * 0.5).reshape(1, 4, 3, 5) + mask


def fused_file(cell, x, mask, tmp_path):
    stock = export_mindir(cell, x, mask, path=tmp_path / "stock")
    report = optimize_mindir(stock, tmp_path / "fused.mindir")
    fused = tmp_path / "fused.mindir"
    np.testing.assert_allclose(numpy(load(fused)(x, mask)), numpy(load(stock)(x, mask)), rtol=1e-6, atol=1e-7)
    return report, kinds(fused)


def draw_scores():
    rng = np.random.default_rng(0)
    return Tensor(rng.standard_normal((1, 2, 6, 5)).astype(np.float32)), Tensor(np.triu(np.full((3, 5), -1e4, "f"), 1))


@pytest.mark.parametrize("cell", [Scores, ScaledByElement])
def test_softmax_takes_the_factor_in_front_of_a_reshape(cell, tmp_path):
    report, left = fused_file(cell(), *draw_scores(), tmp_path)
    assert [e.text for e in report.replaced if e.pattern != "slice of a constant"] == [
        "scale 0.125; a row that is masked as a whole gives zeros"
    ]
    assert not PRODUCTS & set(left)


def test_what_no_graph_uses_any_more_is_gone(tmp_path):
    fused_file(ScaledInBranches(), *draw_scores(), tmp_path)
    assert (tmp_path / "fused.mindir").stat().st_size < TABLE.nbytes * 64


def test_a_product_that_is_used_elsewhere_keeps_its_place(tmp_path):
    report, left = fused_file(ScaledInUse(), *draw_scores(), tmp_path)
    assert [e.text.partition(";")[0] for e in report.replaced] == ["scale 1"]
    assert PRODUCTS & set(left)


def test_a_product_that_changes_the_dtype_keeps_its_place(tmp_path):
    """A reshape of the integers would be described as one of floats."""
    numbers = Tensor(np.arange(60, dtype=np.int32).reshape(1, 2, 6, 5))
    _, left = fused_file(OfIntegers(), numbers, draw_scores()[1], tmp_path)
    assert [k in PRODUCTS for k in left if k in {"Reshape", *PRODUCTS}] == [True, False]
