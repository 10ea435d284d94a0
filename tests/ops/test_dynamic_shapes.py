"""Shapes that are not known when a graph is compiled: the library's inference and checks take over.

All operators alike where no dim is known, then one where a few are: they are inferred by rules that all share.
"""

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor
from ms_ascend_ops.samples.network import flat

from ms_ascend_ops import ops, registry
from ms_ascend_ops.custom import FusedPrimitive
from tests.acceptance import assert_accurate
from tests.every_operator import examples
from tests.modes import Caller, graph_mode
from tests.reference import rms_norm as rms_norm_reference
from tests.reference import swiglu as swiglu_reference
from tests.tensors import numpy, tensor

SHAPES = [(2, 3, 8), (1, 5, 8), (4, 1, 8)]


def unknown(shape):
    return Tensor(shape=shape, dtype=ms.float32)


def network(function, input_shapes, *arguments):
    made = Caller(function, *arguments)
    made.set_inputs(*[unknown(shape) for shape in input_shapes])
    return made


def cases():
    """What a gradient gets of the attributes is what its forward gets: thoroughly with all of them. The last attributes
    of several are in tests/ops/test_export.py. A gradient of the first attributes holds their forward.
    """
    forward = [example for example in examples() if not example.gradient]
    first, last = ({example.name: example for example in some} for some in (reversed(forward), forward))
    between = [example for example in forward if example not in (first[example.name], last[example.name])]
    few = [*(first | {example.name: example for example in reversed(examples(True))}).values(), *between]
    also = [example for example in examples() if example not in few]
    return [*few, *(pytest.param(example, marks=pytest.mark.thorough) for example in also)]


@pytest.fixture(autouse=True)
def _graph_mode():
    with graph_mode():
        yield


@pytest.mark.parametrize("example", cases(), ids=str)
def test_no_dim_is_known(example):
    """Nor the rank. Two shapes, one after the other, give the bits that PyNative gives.

    Where the rank is known: tests/ops/test_export.py.
    """
    shapes = example.operator.small_shapes
    ms.set_context(mode=ms.PYNATIVE_MODE)
    expected = [values_of(example.network(), example.tensors(shape=shape)) for shape in shapes]
    ms.set_context(mode=ms.GRAPH_MODE)
    network = example.network()
    network.set_inputs(*example.unknown(lambda ndim: None))
    for shape, values in zip(shapes, expected, strict=True):
        for value, golden in zip(values_of(network, example.tensors(shape=shape)), values, strict=True):
            assert np.array_equal(value, golden)


def values_of(network, tensors):
    return [numpy(value) for value in flat(network(*tensors))]


@pytest.mark.parametrize(
    ("x_shape", "gamma_shape"),
    [((None, None, 8), (8,)), ((None, None, None), (None,)), (None, (8,)), (None, None)],
    ids=str,
)
def test_rms_norm(x_shape, gamma_shape):
    net = network(ops.rms_norm, [x_shape, gamma_shape], 1e-6, "round_then_scale")
    rng = np.random.default_rng(0)
    gamma = tensor(rng.normal(size=8), "float32")
    for shape in SHAPES:
        x = tensor(rng.normal(size=shape), "float32")
        y, rstd = net(x, gamma)
        golden_y, golden_rstd = rms_norm_reference.forward(numpy(x), numpy(gamma))
        assert_accurate(numpy(y), golden_y, "float32")
        assert_accurate(numpy(rstd), golden_rstd, "float32")


@pytest.mark.parametrize("x_shape", [(None, None), None], ids=str)
def test_a_bad_shape_is_refused_when_it_comes(x_shape):
    net = network(ops.swiglu, [x_shape], -1, False)
    net(Tensor(np.ones((2, 4), np.float32)))
    # MindSpore turns any error of C++ inference into a RuntimeError that holds its message.
    with pytest.raises(RuntimeError, match=r"swiglu: x.shape\[-1\] must be even \(it is split .*\), got \(2, 7\)"):
        net(Tensor(np.ones((2, 7), np.float32)))
    # It does not run that graph again; the process goes on.
    assert network(ops.swiglu, [x_shape], -1, False)(Tensor(np.ones((2, 4), np.float32))).shape == (2, 2)


def test_a_known_dim_is_checked_while_compiling():
    net = network(ops.rms_norm, [(None, 8), (7,)], 1e-6, "round_then_scale")
    with pytest.raises(ValueError, match=r"rms_norm: gamma.shape\[0\] must equal x.shape\[-1\] \(8\), got \(7,\)"):
        net(Tensor(np.ones((2, 8), np.float32)), Tensor(np.ones(7, np.float32)))


def test_enable_dynamic():
    @ms.enable_dynamic(x=unknown((None, 8)))
    @ms.jit
    def halve(x):
        return ops.swiglu(x)

    for rows in (1, 3):
        x = tensor(np.random.default_rng(0).normal(size=(rows, 8)), "float32")
        assert_accurate(numpy(halve(x)), swiglu_reference.forward(numpy(x)), "float32")


def test_nodes_of_one_operator_do_not_get_each_others_shapes():
    """The library remembers what it answered: here the same shapes have other answers for another axis."""

    def along_every_axis(x):
        return ops.swiglu(x, 0), ops.swiglu(x, 1), ops.swiglu(x, -1)

    net = network(along_every_axis, [(None, None, None)])
    for shape in [(2, 4, 6), (4, 2, 6), (2, 4, 6)]:
        x = tensor(np.random.default_rng(0).normal(size=shape), "float32")
        for y, axis in zip(net(x), (0, 1, -1), strict=True):
            assert_accurate(numpy(y), swiglu_reference.forward(numpy(x), axis), "float32")


def test_a_wrong_shape_is_refused_after_right_ones():
    net = network(ops.silu_mul, [(None, None), (None, None)])
    x, y = (tensor(np.ones((2, columns)), "float32") for columns in (3, 4))
    for _ in range(2):
        assert net(x, x).shape == (2, 3)
    with pytest.raises((ValueError, RuntimeError), match=r"up.shape must equal gate.shape \(2, 3\), got \(2, 4\)"):
        net(x, y).asnumpy()


@pytest.mark.parametrize(("attribute", "value"), [("epsilon", -1.0), ("scheme", "t5")])
def test_an_attribute_that_is_not_allowed(attribute, value):
    """As a MindIR of somebody else may have it; shapes do not depend on it."""
    primitive = FusedPrimitive(registry.signature("rms_norm"), {"epsilon": 1e-6, "scheme": "round_then_scale"}, None)
    primitive.add_prim_attr(attribute, value)
    net = network(primitive, [(None, 8), (8,)])
    with pytest.raises(RuntimeError, match=f"rms_norm: {attribute} must be .*, got '?{value}"):
        net(tensor(np.ones((2, 8)), "float32"), tensor(np.ones(8), "float32"))
