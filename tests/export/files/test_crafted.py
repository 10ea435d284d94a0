"""Files that no network exports to: `optimize_mindir` comes to an end with them, and changes nothing that they say."""

import sys

import numpy as np
import pytest
from mindspore import Tensor, nn, ops
from mindspore.train.mind_ir_pb2 import AttributeProto, ModelProto, NodeProto

from ms_ascend_ops import export_mindir, load, optimize_mindir
from tests.acceptance import assert_close
from tests.export.mindir import change
from tests.tensors import numpy

ANY = (-1, -1, 8)
RECURSION = 600  # of Python, of which a test takes less than 200 where it begins
DEEP = RECURSION + 50


def draw(*shape):
    return Tensor(np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32))


class Rows(nn.Cell):
    """All that is done to sizes."""

    def construct(self, x):
        rows = x.shape[0] * x.shape[1]
        y = ops.sin(ops.tanh(x).reshape(rows, -1))
        return y.reshape(x.shape[0], x.shape[1], 8) + x * 1.0


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    path = tmp_path_factory.mktemp("exported") / "rows"
    return export_mindir(Rows(), draw(2, 3, 8), path=path, dynamic={0: (0, 1)}).read_bytes()


class File:
    """A model to which nodes are added, in front of the others; the last one becomes an output."""

    def __init__(self, content):
        self.model = ModelProto()
        self.model.ParseFromString(content)
        self.x = self.model.graph.input[0].name
        self.nodes = []

    def constant(self, value):
        node = NodeProto(op_type="Constant", name=f"new_{len(self.nodes)}")
        node.output.append(node.name)
        if isinstance(value, int):
            node.attribute.add(name="value", type=AttributeProto.INT64, i=value)
        elif isinstance(value, str):
            node.attribute.add(name="value", type=AttributeProto.STRING, s=value.encode())
        elif isinstance(value, np.ndarray):
            tensors = node.attribute.add(name="value", type=AttributeProto.TENSORS).tensors
            tensors.add(dims=value.shape, data_type=1, raw_data=value.astype(np.float32).tobytes())
        else:
            _put(node.attribute.add(name="value", type=AttributeProto.TUPLE), value)
        self.nodes.append(node)
        return node.name

    def operator(self, kind, *inputs, shape=None):
        if not any(p.op_type == kind and not p.attribute for p in self.model.primitives):
            self.model.primitives.add(name=f"{kind}:new", op_type=kind, prim_type=1, instance_name="")
        (primitive, *_) = [p.name for p in self.model.primitives if p.op_type == kind and not p.attribute]
        return self.call(primitive, *inputs, shape=shape)

    def call(self, name, *inputs, shape=None):
        node = NodeProto(op_type=f"REF::{name}", name=f"new_{len(self.nodes)}", input=inputs)
        node.output.append(node.name)
        if shape is not None:
            described = node.attribute.add(name="shape", type=AttributeProto.TENSORS)
            described.tensors.add(dims=shape, data_type=1)
        self.nodes.append(node)
        return node.name

    def written(self, path):
        output = self.model.graph.output.add()
        output.CopyFrom(self.model.graph.output[0])
        output.name = self.nodes[-1].output[0]
        old = list(self.model.graph.node)
        nodes = [NodeProto.FromString(node.SerializeToString()) for node in (*self.nodes, *old)]
        del self.model.graph.node[:]
        self.model.graph.node.extend(nodes)
        path.write_bytes(self.model.SerializeToString())
        return path


def _put(attribute, numbers):
    for number in numbers:
        if isinstance(number, tuple):
            _put(attribute.values.add(type=AttributeProto.TUPLE), number)
        else:
            attribute.values.add(type=AttributeProto.INT64).ints.append(number)


def squares(file):
    """A number of 2 ** 60 digits."""
    value = file.constant(3)
    for _ in range(60):
        value = file.operator("ScalarMul", value, value)


def pairs_of_pairs(file):
    """A tuple with 2 ** 60 numbers in it."""
    value = file.constant(3)
    for _ in range(60):
        value = file.operator("MakeTuple", value, value)


def tuples_in_tuples(file):
    value = file.constant(3)
    for _ in range(DEEP):
        value = file.operator("MakeTuple", value)


def products_with_one(file):
    one, value = file.constant(1), file.x
    for _ in range(DEEP):
        value = file.operator("Muls", value, one, shape=ANY)
    file.operator("Tanh", value, shape=ANY)


def a_product_that_is_called(file):
    one = file.constant(1)
    file.call(file.operator("Muls", file.x, one, shape=ANY), one)


def an_array_for_a_number(file):
    axis, batch = file.constant(0), file.constant(np.zeros(2))
    file.operator("Gather", file.x, file.x, axis, batch, shape=ANY)


def a_text_for_a_number(file):
    file.operator("Muls", file.x, file.constant("one"), shape=ANY)


def a_ragged_tuple_for_a_number(file):
    file.operator("Mul", file.x, file.constant((1, (1, 1))), shape=ANY)


def numbers_beyond_all_axes(file):
    begin, end, step = (file.constant(v) for v in ((0, 0), (2**62, -(2**62)), (1, -1)))
    mask = file.constant(-5)
    file.operator("StridedSlice", file.x, begin, end, step, mask, mask, mask, mask, mask, shape=ANY)


KINDS = (
    "Reshape", "Gather", "Stack", "Concat", "StridedSlice", "BroadcastTo", "Tile", "ExpandDims", "Transpose",
    "MatMulExt", "BatchMatMul", "ReduceSum", "Mul", "Muls", "Tanh", "Dense", "Shape", "TupleGetItem", "MakeTuple",
    "ScalarAdd", "Load", "Assign", "InplaceAddExt",
)  # fmt: skip


def any_number_of_inputs(file):
    for kind in KINDS:
        for count in range(5):
            for shape in (ANY, (), (-1,), (0,), (-7, 3)):
                file.operator(kind, *[file.x] * count, shape=shape)
    file.operator("MakeTuple", *(node.name for node in file.nodes))  # or nobody would need them


def many_that_write(file):
    """Each what the one before has written, and each something of its own."""
    value = file.operator("Tanh", file.x, shape=ANY)
    made = []
    for _ in range(DEEP):
        made.append(file.operator("InplaceAddExt", file.operator("Sin", file.x, shape=ANY), value, shape=ANY))
        value = file.operator("InplaceAddExt", value, file.x, shape=ANY)
    scaled = file.operator("Muls", value, file.constant(1), shape=ANY)
    file.operator("MakeTuple", scaled, *made)


def rows_of_nothing(file):
    """A transpose and a factor that are described as a number."""
    axes = file.constant((1, 0))
    scaled = file.operator("Muls", file.operator("Transpose", file.x, axes, shape=(-1, 8)), file.constant(2), shape=())
    file.nodes[-1].attribute[0].tensors[0].data_type = 1
    file.operator("MatMulExt", file.x, scaled, shape=ANY)


@pytest.mark.parametrize(
    "build",
    [
        squares,
        pairs_of_pairs,
        tuples_in_tuples,
        products_with_one,
        a_product_that_is_called,
        an_array_for_a_number,
        a_text_for_a_number,
        a_ragged_tuple_for_a_number,
        numbers_beyond_all_axes,
        any_number_of_inputs,
        many_that_write,
        rows_of_nothing,
    ],
)
def test_it_comes_to_an_end(build, exported, tmp_path):
    limit, file = sys.getrecursionlimit(), File(exported)
    build(file)
    path = file.written(tmp_path / "crafted.mindir")
    sys.setrecursionlimit(RECURSION)
    try:
        optimize_mindir(path, tmp_path / "simple.mindir", level="O3")
    finally:
        sys.setrecursionlimit(limit)
    assert (tmp_path / "simple.mindir").stat().st_size > 0


def a_circle(file):
    one = file.operator("Tanh", "new_1", shape=ANY)
    file.operator("Tanh", one, shape=ANY)


def a_node_without_output(file):
    file.operator("Tanh", file.x, shape=ANY)
    file.operator("Tanh", file.x, shape=ANY)
    del file.nodes[0].output[:]


@pytest.mark.parametrize(("build", "message"), [(a_circle, "needs itself"), (a_node_without_output, "has no output")])
def test_it_is_refused(build, message, exported, tmp_path):
    file = File(exported)
    build(file)
    crafted = file.written(tmp_path / "crafted.mindir")
    with pytest.raises(ValueError, match=rf"^optimize_mindir: .*{message}"):
        optimize_mindir(crafted, tmp_path / "simple.mindir")
    assert not (tmp_path / "simple.mindir").exists()


def test_what_nobody_needs_says_nothing_of_sizes(tmp_path):
    """A Concat that is never run, of inputs that do not fit each other."""

    class Two(nn.Cell):
        def construct(self, x, y):
            one = ops.sin(x).reshape(x.shape[0], x.shape[1], 2, 4)
            return one + 1.5, ops.sin(y).reshape(y.shape[0], y.shape[1], 2, 4) + 2.5

    dynamic = {0: (0, 1), 1: (0, 1)}
    content = export_mindir(Two(), draw(2, 3, 8), draw(2, 4, 8), path=tmp_path / "two", dynamic=dynamic).read_bytes()
    file = File(content)
    both = file.operator("MakeTuple", *(i.name for i in file.model.graph.input))
    file.operator("Concat", both, file.constant(2), shape=(-1, -1, 16))
    file.operator("Tanh", file.x, shape=ANY)
    crafted = file.written(tmp_path / "crafted.mindir")
    change(crafted, lambda model: model.graph.output.pop())
    optimize_mindir(crafted, tmp_path / "simple.mindir", level="O1")
    inputs = draw(2, 3, 8), draw(5, 6, 8)
    for mine, theirs in zip(load(tmp_path / "simple.mindir")(*inputs), load(crafted)(*inputs), strict=True):
        np.testing.assert_array_equal(numpy(mine), numpy(theirs))


@pytest.mark.parametrize("suffix", [":True", ":False"])
def test_names_that_are_taken(suffix, tmp_path):
    """A value has the name that a constant of ours would get."""

    class Net(nn.Cell):
        def construct(self, x, y):
            return ops.tanh(x) @ y.swapaxes(0, 1), ops.tanh(x) * 2

    stock = export_mindir(Net(), draw(3, 8), draw(5, 8), path=tmp_path / "stock")

    def rename(model):
        (old,) = [n.output[0] for n in model.graph.node if n.op_type.startswith("REF::Tanh")]
        for node in model.graph.node:
            for names in (node.input, node.output):
                names[:] = [model.graph.name + suffix if name == old else name for name in names]

    inputs = draw(3, 8), draw(5, 8)
    expected = load(stock)(*inputs)
    change(stock, rename)
    report = optimize_mindir(stock, tmp_path / "simple.mindir", level="O1")
    assert [e.pattern for e in report.replaced] == ["transpose in front of a product"]
    for mine, theirs in zip(load(tmp_path / "simple.mindir")(*inputs), expected, strict=True):
        assert_close(numpy(mine), numpy(theirs), rtol=1e-6, atol=1e-6)
