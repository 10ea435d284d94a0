"""What reads memory that a network writes stays in its place in the order of reads and writes."""

from collections import Counter

import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, Tensor, mint, nn, ops
from ms_ascend_ops.export.graphs.writes import Writes

from ms_ascend_ops import KVCache, export_mindir, load, optimize_mindir
from tests.acceptance import assert_close
from tests.export.engines.test_mindir_engine import model_of
from tests.tensors import numpy
from tests.versions import without

VIEWS = without("TransposeExtView on a CPU")


def draw(*shape):
    return Tensor(np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32))


def results(file, inputs, calls=3):
    """What a network gives when it is called again and again, as what it has written is there the next time."""
    network = load(file)
    answers = []
    for _ in range(calls):
        answer = network(*inputs)
        answers += [numpy(t) for t in ([answer] if isinstance(answer, Tensor) else answer)]
    return answers


def simplified(cell, inputs, tmp_path):
    """What was done; both files give the same."""
    stock = export_mindir(cell, *inputs, path=tmp_path / "stock")
    report = optimize_mindir(stock, tmp_path / "simple.mindir", level="O1")
    for mine, theirs in zip(results(tmp_path / "simple.mindir", inputs), results(stock, inputs), strict=True):
        assert_close(mine, theirs, rtol=1e-5, atol=1e-5)
    return Counter(e.pattern for e in report.replaced)


def nodes(file):
    """Operation, inputs and output of each."""
    model = model_of(file)
    kinds = {f"REF::{p.name}": p.op_type for p in model.primitives}
    return [(kinds.get(n.op_type, n.op_type), list(n.input), list(n.output)) for n in model.graph.node]


# Functions of x and of a parameter of its shape, as MindSpore reads their source.
def transposed(x, p):
    return x @ p.swapaxes(0, 1)


def transposed_view(x, p):
    return x @ mint.transpose(p, 0, 1)


def scaled(x, p):
    return x @ (p.swapaxes(0, 1) * 0.5)


def product_with_one(x, p):
    return x * (p * 1.0)


def there_and_back(x, p):
    return x * p.swapaxes(0, 1).swapaxes(0, 1)


def slice_of_everything(x, p):
    return x * p[:, :]


def scaled_behind_reshape(x, p):
    return x + ops.softmax((p * 0.5).reshape(2, 16), -1).sum()


def behind_a_reshape(x, p):
    return x * (p.reshape(8, 4) * 1.0).reshape(4, 8)


FUNCTIONS = (
    transposed,
    transposed_view,
    scaled,
    product_with_one,
    there_and_back,
    slice_of_everything,
    scaled_behind_reshape,
    behind_a_reshape,
)


class Reads(nn.Cell):
    def __init__(self, function):
        super().__init__()
        self.function = function
        self.p = Parameter(Tensor(np.ones((4, 8), np.float32)), name="p")

    def construct(self, x):
        return self.function(x, self.p)


class ReadsAndWrites(Reads):
    def construct(self, x):
        y = self.function(x, self.p)
        self.p += x
        return y


class ReadsInABranch(Reads):
    """The branch gets the parameter as an input, and somebody else writes it."""

    def construct(self, x):
        y = self.function(x, self.p) if x.sum() > 0 else x.sum()
        self.p += x
        return y


class Several(nn.Cell):
    """One for each function, with a parameter of its own: one graph takes less time than many."""

    def __init__(self, kind, functions):
        super().__init__()
        self.parts = nn.CellList([kind(function) for function in functions])

    def construct(self, x):
        results = ()
        for part in self.parts:
            results += (part(x),)
        return results


class WritesInABranch(nn.Cell):
    def __init__(self):
        super().__init__()
        self.p = Parameter(Tensor(np.ones((4, 8), np.float32)), name="p")

    def construct(self, x):
        y = x @ self.p.swapaxes(0, 1)
        if x.sum() > 0:
            ops.assign_add(self.p, x)
        return y


@VIEWS
def test_nothing_is_written(tmp_path):
    """Of a scale behind a reshape the report says that it became part of the softmax."""
    assert simplified(Several(Reads, FUNCTIONS), [draw(4, 8)], tmp_path) == {
        "transpose in front of a product": 3, "product with 1": 2, "transpose and back": 1,
        "slice of everything": 1, "softmax": 1}  # fmt: skip


@VIEWS
@pytest.mark.parametrize("kind", [ReadsAndWrites, ReadsInABranch])
def test_a_parameter_is_written_afterwards(kind, tmp_path):
    functions = [f for f in FUNCTIONS if f is not slice_of_everything]  # MindSpore gives no order to that
    found = simplified(Several(kind, functions), [ops.abs(draw(4, 8))], tmp_path)
    assert set(found) <= {"softmax"}  # which reads a copy


def test_a_branch_writes_a_parameter(tmp_path):
    assert not simplified(WritesInABranch(), [ops.abs(draw(4, 8))], tmp_path)


class HeadsOfACache(nn.Cell):
    def __init__(self):
        super().__init__()
        self.cache = Parameter(Tensor(np.ones((2, 2, 3, 3), np.float32)), name="cache")

    def construct(self, x):
        shared = self.cache.expand_dims(2).broadcast_to((2, 2, 3, 3, 3)).reshape(2, 6, 3, 3)
        y = x @ shared
        self.cache += x[:, :2]
        return y


def test_heads_that_share_a_cache(tmp_path):
    assert not simplified(HeadsOfACache(), [draw(2, 6, 3, 3)], tmp_path)


class Decoder(nn.Cell):
    """A counter and a cache are written, the weight is not; the keys are read from what the cache gives."""

    def __init__(self):
        super().__init__()
        self.weight = Parameter(draw(4, 8), name="weight")
        self.calls = Parameter(Tensor(np.float32([0])), name="calls")
        self.cache = KVCache(1, 8, 2, 4, ms.float32, contiguous=True)

    def construct(self, x, position):
        self.calls += 1
        rows = ops.sin(x).reshape(1, 4, 2, 4)
        keys, _ = self.cache(rows, ops.tanh(rows), position)
        queries = rows.transpose(0, 2, 1, 3)
        return x @ self.weight.swapaxes(0, 1), queries @ (keys.transpose(0, 2, 1, 3) * 1.0).swapaxes(2, 3)


def test_what_nobody_writes_afterwards_is_free(tmp_path):
    entries = simplified(Decoder(), [draw(4, 8), Tensor(np.int32([1]))], tmp_path)
    assert entries == {"transpose in front of a product": 2, "product with 1": 1}


class Views(nn.Cell):
    """Views of a parameter before and behind a write, and of a value in one tuple of the order with a weight."""

    def __init__(self):
        super().__init__()
        self.weight = Parameter(draw(8, 8), name="weight")
        self.p = Parameter(draw(4, 8), name="p")

    def construct(self, x):
        y = mint.transpose(mint.transpose(x, 0, 1) * 2, 0, 1) @ self.weight
        before = x @ mint.transpose(self.p, 0, 1)
        self.p += x
        return y, before, x @ mint.transpose(self.p, 0, 1)


@VIEWS
def test_only_views_of_what_is_written_stay(tmp_path):
    simplified(Views(), [draw(4, 8)], tmp_path)
    kinds = Counter(kind for kind, *_ in nodes(tmp_path / "simple.mindir"))
    assert (kinds["TransposeExtView"], kinds["Transpose"]) == (2, 1)  # one is part of a product


class WritesAgain(nn.Cell):
    def __init__(self):
        super().__init__()
        self.cache = KVCache(1, 8, 2, 4, ms.float32, contiguous=True)

    def construct(self, x, position):
        rows = ops.sin(x).reshape(1, 4, 2, 4)
        keys, _ = self.cache(rows, rows, position)
        scores = rows @ keys[:, :4].swapaxes(2, 3), rows[:, :, :, :2] @ (keys.reshape(1, 4, 4, 4) * 1.0)[:, :, :2]
        again, _ = self.cache(rows * 2, rows, position + 2)
        return scores, ops.sin(again)


def test_a_cache_that_is_written_twice(tmp_path):
    stock = export_mindir(WritesAgain(), draw(4, 8), Tensor(np.int32([1])), path=tmp_path / "stock")
    report = optimize_mindir(stock, tmp_path / "simple.mindir", level="O1")
    # The first operand is a copy that nobody writes.
    assert Counter(e.pattern for e in report.replaced) == {"transpose in front of a product": 1}


class ReturnsWhatItWrote(nn.Cell):
    """MindSpore returns it behind the write; a parameter itself would be no result."""

    def __init__(self):
        super().__init__()
        self.p = Parameter(Tensor(np.ones((4, 8), np.float32)), name="p")

    def construct(self, x):
        ops.assign_add(self.p, x)
        return self.p * 1.0


def test_a_parameter_is_no_result(tmp_path):
    assert not simplified(ReturnsWhatItWrote(), [draw(4, 8)], tmp_path)


class WritesAConstant(nn.Cell):
    def __init__(self):
        super().__init__()
        self.table = Tensor(np.ones((4, 8), np.float32))

    def construct(self, x):
        self.table.add_(x)
        return self.table[:2] + 1, x * 2


def test_a_constant_that_is_written_is_none(tmp_path):
    """Nothing is changed. Results are not compared: MindSpore gives no order to a constant's write and its reads."""
    stock = export_mindir(WritesAConstant(), draw(4, 8), path=tmp_path / "stock")
    report = optimize_mindir(stock, tmp_path / "simple.mindir", level="O1")
    assert not report.replaced
    assert nodes(tmp_path / "simple.mindir") == nodes(stock)


def test_which_names(tmp_path):
    model = model_of(export_mindir(ReadsAndWrites(there_and_back), draw(4, 8), path=tmp_path / "stock"))
    kinds = {p.name: p.op_type for p in model.primitives}
    writes = Writes(model)
    (parameter,) = [p.name for p in model.graph.parameter]
    (x,) = [i.name for i in model.graph.input]
    assert parameter in writes
    assert x not in writes
    several = "InplaceAddExt" in kinds.values()  # before 2.9 `p += x` is one write
    for node in model.graph.node:
        kind = kinds.get(node.op_type.removeprefix("REF::"))
        if kind == "Load":
            assert node.output[0] in writes
        elif kind in ("Assign", "InplaceAddExt"):
            assert (node.output[0] in writes) == several  # who needs the only writer comes after it
        elif kind in ("Transpose", "Mul", "UpdateState"):
            assert node.output[0] not in writes
