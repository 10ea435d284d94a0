import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, Tensor, mint, nn, ops

from ms_ascend_ops import cpu_builtins, export_mindir, load, optimize, optimize_mindir
from ms_ascend_ops import ops as fused
from tests.acceptance import assert_close
from tests.inputs import draw
from tests.modes import MODES, few_modes, run
from tests.tensors import numpy, tensor


class BuiltIn(nn.Cell):
    """A layer as somebody writes it who has an NPU only."""

    def __init__(self):
        super().__init__()
        self.weight = Parameter(Tensor(np.linspace(0.5, 1.5, 8).astype(np.float32)), name="weight")

    def construct(self, x):
        y, _ = ops.rms_norm(x, self.weight, 1e-5)
        z, _, total = ops.add_rms_norm(x, y, self.weight)
        return mint.nn.functional.gelu(total) + z, ops.swiglu(z, -1)


@pytest.fixture
def x():
    return tensor(draw(np.random.default_rng(0), (2, 3, 8)), "float32")


@pytest.mark.parametrize("mode", MODES)
def test_models_written_for_the_npu_run(mode, x):
    net = BuiltIn()
    y, _ = fused.rms_norm(x, net.weight, 1e-5)
    z, _, total = fused.add_rms_norm(x, y, net.weight)
    with cpu_builtins():
        first, second = run(mode, net, (x,))
    np.testing.assert_allclose(numpy(first), numpy(fused.gelu(total) + z), rtol=1e-6)
    np.testing.assert_allclose(numpy(second), numpy(fused.swiglu(z)), rtol=1e-6)


class Mask(nn.Cell):
    """A causal mask as mindone joins it with one that is given."""

    def construct(self, mask):
        return mint.logical_or(mask, mint.triu(mint.ones_like(mask, dtype=ms.bool_), diagonal=1))


@pytest.mark.parametrize("mode", MODES)
def test_ones_like_a_mask(mode):
    given = np.zeros((2, 1, 4, 4), bool)
    given[1, :, :, 0] = True
    with cpu_builtins():
        joined = run(mode, Mask(), (Tensor(given),))
    np.testing.assert_array_equal(joined.asnumpy(), given | ~np.tri(4, dtype=bool))


class Positions(nn.Cell):
    """As decoders of mindone count them."""

    def construct(self, x):
        return mint.arange(2, 2 + x.shape[1]), mint.arange(0, 8, 2, dtype=ms.int64), mint.arange(0.0, 1.0, 0.25)


@pytest.mark.parametrize("mode", MODES)
def test_a_range(mode):
    with cpu_builtins():
        results = run(mode, Positions(), (Tensor(np.zeros((1, 5), np.float32)),))
    for made, expected in zip(results, (np.arange(2, 7), np.arange(0, 8, 2), np.arange(0, 1, 0.25)), strict=True):
        np.testing.assert_array_equal(made.asnumpy(), expected)
    assert results[1].dtype == ms.int64


def test_they_train_and_export(x, tmp_path):
    net = BuiltIn()
    with cpu_builtins():
        gradient = ms.grad(lambda x: net(x)[0].sum(), None, net.trainable_params())(x)
        path = export_mindir(net, x, path=tmp_path / "net")
        expected = numpy(net(x)[1])
    assert np.abs(numpy(gradient[0])).max() > 0
    np.testing.assert_allclose(numpy(load(path)(x)[1]), expected, rtol=1e-6)


def test_afterwards_everything_is_as_before():
    before = ops.rms_norm, ops.swiglu, mint.nn.functional.gelu
    with cpu_builtins():
        assert ops.rms_norm is not before[0]
    assert (ops.rms_norm, ops.swiglu, mint.nn.functional.gelu) == before


def test_a_cell_with_a_built_in_is_exchanged(x):
    class Norm(nn.Cell):
        def __init__(self):
            super().__init__()
            self.weight = Parameter(Tensor(np.linspace(0.5, 1.5, 8).astype(np.float32)), name="weight")

        def construct(self, x):
            return ops.rms_norm(x, self.weight, 1e-5)[0]

    net = Norm()
    (entry,) = optimize(net).replaced
    assert entry.pattern == "RMSNorm"
    np.testing.assert_allclose(numpy(net(x)), numpy(fused.rms_norm(x, net.weight, 1e-5)[0]), rtol=1e-6)


class Gated(nn.Cell):
    """GeGLU by functions that a CPU has from this package only, its halves either way round."""

    def __init__(self, approximate, first):
        super().__init__()
        self.both, self.approximate, self.first = nn.Dense(8, 12), approximate, first

    def construct(self, x):
        one, other = mint.chunk(self.both(x), 2, dim=-1)
        if self.first:
            return mint.nn.functional.gelu(one, approximate=self.approximate) * other
        return one * mint.nn.functional.gelu(other, approximate=self.approximate)


@pytest.mark.parametrize(("approximate", "first"), [("tanh", True), ("none", False)])
def test_a_gate_of_what_is_ours_already(approximate, first, x, tmp_path):
    net = Gated(approximate, first)
    with cpu_builtins():
        expected = numpy(net(x))
        file = export_mindir(net, x, path=tmp_path / "stock")
        assert [e.pattern for e in optimize_mindir(file, tmp_path / "fused.mindir").replaced] == ["GeGLU"]
        report = optimize(net, verify=[x])
        assert [e.pattern for e in report.replaced] == ["GeGLU"], report
        for mode in few_modes(
            first, (True, False)
        ):  # results of at most 4, of the same sums: float32 and the rounding of gelu
            assert_close(numpy(run(mode, net, (x,))), expected, atol=1e-6)
    assert_close(numpy(load(tmp_path / "fused.mindir")(x)), expected, atol=1e-6)


def test_a_norm_without_parameters_in_a_file(x, tmp_path):
    class Norm(nn.Cell):
        def construct(self, x):
            centred = x - x.mean(-1, keep_dims=True)
            return centred * ops.rsqrt(ops.square(centred).mean(-1, keep_dims=True) + 1e-5)

    file = export_mindir(Norm(), x, path=tmp_path / "stock")
    (entry,) = optimize_mindir(file, tmp_path / "fused.mindir").replaced
    assert (entry.pattern, entry.text) == ("LayerNorm", "eps 1e-05, no scale and shift")
    values = numpy(x).astype(np.float64)
    expected = (values - values.mean(-1, keepdims=True)) / np.sqrt(values.var(-1, keepdims=True) + 1e-5)
    assert_close(numpy(load(tmp_path / "fused.mindir")(x)), expected, atol=1e-6)
