"""Slices of constants are calculated when the file is written."""

import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, Tensor, nn
from ms_ascend_ops.export.folding import fold_slices
from ms_ascend_ops.export.mindir_graph import graphs_of

from ms_ascend_ops import export_mindir, load, optimize_mindir
from tests.export.test_mindir_engine import model_of
from tests.tensors import numpy

X = Tensor(np.float32([1, 2]))
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


def optimized(cell, tmp_path, level="O1"):
    stock = export_mindir(cell, X, path=tmp_path / "stock")
    report = optimize_mindir(stock, tmp_path / "folded.mindir", level=level)
    entries = [e for e in report.replaced if e.pattern == "slice of a constant"]
    return entries, stock, tmp_path / "folded.mindir"


def assert_same(file, stock):
    for mine, theirs in zip(load(file)(X), load(stock)(X), strict=True):
        assert mine.dtype == theirs.dtype
        np.testing.assert_array_equal(numpy(mine), numpy(theirs))


@pytest.mark.parametrize("cut", SLICES)
def test_slices(cut, tmp_path):
    entries, stock, folded = optimized(Sliced(Tensor(TABLE), cut), tmp_path)
    assert "StridedSlice" in kinds(stock)
    assert len(entries) == 1
    assert "StridedSlice" not in kinds(folded)
    assert_same(folded, stock)


@pytest.mark.parametrize("dtype", [ms.float16, ms.bfloat16, ms.int32, ms.float64])
def test_dtypes(dtype, tmp_path):
    """MindSpore has no kernel for slices of bfloat16 on a CPU: with the file before, this would not run."""
    entries, _, folded = optimized(Sliced(Tensor(TABLE).astype(dtype), corner), tmp_path)
    assert [e.text for e in entries] == ["6x8 to 3x3, a constant"]
    total, doubled = load(folded)(X)
    assert doubled.dtype == dtype
    np.testing.assert_array_equal(numpy(doubled.astype(ms.float32)), 2 * TABLE[:3, :3])
    np.testing.assert_array_equal(numpy(total), numpy(X) + TABLE[:3, :3].sum())


def test_what_is_not_used_any_more_is_gone(tmp_path):
    large = Tensor(np.tile(TABLE, (64, 64)))
    _, stock, folded = optimized(Sliced(large, corner), tmp_path)
    assert_same(folded, stock)
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


def test_level_0_changes_nothing(tmp_path):
    entries, _, folded = optimized(Sliced(Tensor(TABLE), corner), tmp_path, level="O0")
    assert entries == []
    assert "StridedSlice" in kinds(folded)


@pytest.mark.parametrize("cut", [{"begin": (9, 0)}, {"strides": (0, 1)}, {"begin": (0,)}, {"ellipsis": 1}])
def test_indices_that_do_not_fit_stay(cut, tmp_path):
    """A file is input from outside."""
    stock = export_mindir(Sliced(Tensor(TABLE), one_row), Tensor(np.float32([1])), path=tmp_path / "stock")
    (graph,) = graphs_of(model_of(stock))
    (node,) = [node for node in graph.graph.nodes if node.kind == "StridedSlice"]
    begin, end, strides = node.inputs[1:4]
    begin.value = cut.get("begin", (3, 0))
    end.value, strides.value = (4, 8), cut.get("strides", (1, 1))
    if "ellipsis" in cut:
        node.inputs[6].value = cut["ellipsis"]
    assert fold_slices(graph) == []
