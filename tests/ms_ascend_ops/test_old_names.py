"""Names of release 0.1: calls by them warn, and give the same; files with them load without a word."""

import mindspore as ms
import numpy as np
import onnxruntime
import pytest
from click.testing import CliRunner
from mindspore import Tensor, nn
from onnx import checker, helper

from ms_ascend_ops import _C, AddRMSNorm, RMSNorm, export_mindir, load, onnx, ops, optimize_mindir
from ms_ascend_ops.__main__ import main
from tests.export.mindir import change
from tests.modes import Caller
from tests.onnx.models import model
from tests.reference import rms_norm, rotary_embedding

RANDOM = np.random.default_rng(0)
X, COS, SIN = (RANDOM.standard_normal(shape).astype(np.float32) for shape in ((2, 3, 4, 8), (3, 8), (3, 8)))
ROWS, GAMMA = (RANDOM.standard_normal(shape).astype(np.float32) for shape in ((3, 8), (8,)))
ROTATED = rotary_embedding.forward(X.astype(np.float64), COS, SIN, separate_halves=True)
NORMED = rms_norm.forward(ROWS.astype(np.float64), GAMMA, 1e-6, "one_plus_gamma")[0]


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


class Rotation(nn.Cell):
    def construct(self, x, cos, sin):
        return ops.rotary_embedding(x, cos, sin, own_angles=True)


class NewRotation(nn.Cell):
    def construct(self, x, cos, sin):
        return ops.rotary_embedding(x, cos, sin, separate_halves=True)


class NewNorm(nn.Cell):
    def construct(self, x, gamma):
        return ops.rms_norm(x, gamma, 1e-6, "one_plus_gamma")[0]


@pytest.mark.parametrize("mode", [ms.PYNATIVE_MODE, ms.GRAPH_MODE], ids=["pynative", "graph"])
def test_own_angles(mode):
    before = ms.get_context("mode")
    ms.set_context(mode=mode)
    try:
        with pytest.warns(DeprecationWarning, match="rotary_embedding: own_angles is now called separate_halves"):
            close(Rotation()(Tensor(X), Tensor(COS), Tensor(SIN)).asnumpy(), ROTATED)
    finally:
        ms.set_context(mode=before)


def test_products_are_joined_by_load(tmp_path):
    file = export_mindir(RMSNorm(8), Tensor(ROWS), path=tmp_path / "norm")
    with pytest.warns(DeprecationWarning, match="join_products has no effect"):
        optimize_mindir(file, tmp_path / "fused.mindir", join_products=True)
    close(load(tmp_path / "fused.mindir")(ROWS), rms_norm.forward(ROWS.astype(np.float64), np.ones(8), 1e-6)[0])
    run = CliRunner().invoke(main, ["optimize", str(file), "--join-products"])
    assert run.exit_code == 0
    assert "--join-products has no effect" in run.stderr


def test_own_angles_of_the_other_functions():
    tables = Tensor(COS), Tensor(SIN)
    with pytest.warns(DeprecationWarning, match="apply_rotary_pos_emb: own_angles"):
        q, k = ops.apply_rotary_pos_emb(Tensor(X), Tensor(X), *tables, own_angles=True)
    close(q.asnumpy(), ROTATED)
    close(k.asnumpy(), ROTATED)
    with pytest.warns(DeprecationWarning, match="qkv_rotary_embedding: own_angles"):
        q, _, v = ops.qkv_rotary_embedding(Tensor(X), *tables, 2, 1, 1, layout="BSND", own_angles=True)
    close(q.asnumpy(), ROTATED[:, :, :2])
    assert np.array_equal(v.asnumpy(), X[:, :, 3:])


@pytest.mark.parametrize("mode", [ms.PYNATIVE_MODE, ms.GRAPH_MODE], ids=["pynative", "graph"])
def test_scheme(mode):
    before = ms.get_context("mode")
    ms.set_context(mode=mode)
    try:
        # A selector remembers what it has made of its attributes, and the warning with it.
        epsilon = 1e-6 + mode * 1e-12
        with pytest.warns(DeprecationWarning, match="rms_norm: scheme='gemma' is now called 'one_plus_gamma'"):
            close(Caller(ops.rms_norm, epsilon, "gemma")(Tensor(ROWS), Tensor(GAMMA))[0].asnumpy(), NORMED)
    finally:
        ms.set_context(mode=before)


@pytest.mark.parametrize("layer", [RMSNorm, AddRMSNorm])
def test_scheme_of_layers(layer):
    with pytest.warns(DeprecationWarning, match=f"{layer.__name__}: scheme='llama' is now called 'round_then_scale'"):
        assert layer(8, scheme="llama").scheme == "round_then_scale"


def test_kernels_on_arrays():
    y, rstd, rotated = np.empty_like(ROWS), np.empty((3, 1), np.float32), np.empty_like(X)
    _C.launch("rms_norm", [ROWS, GAMMA], [y, rstd], {"epsilon": 1e-6, "scheme": "gemma"})
    close(y, NORMED)
    _C.launch("rotary_embedding", [X, COS, SIN], [rotated], {"own_angles": True})
    close(rotated, ROTATED)


def as_before(mindir):
    """The names that release 0.1 wrote."""
    changed = 0
    for primitive in mindir.primitives:
        for attribute in primitive.attribute:
            if attribute.name == "separate_halves":
                attribute.name, changed = "own_angles", changed + 1
            elif attribute.name == "scheme":
                assert attribute.s == b"one_plus_gamma"
                attribute.s, changed = b"gemma", changed + 1
    assert changed == 1


@pytest.mark.parametrize("through", ["load", "mindspore"])
def test_files(tmp_path, through):
    """By `load`, and by MindSpore alone, which hands the attributes of the file to the library."""
    for net, arrays, expected in ((NewNorm(), (ROWS, GAMMA), NORMED), (NewRotation(), (X, COS, SIN), ROTATED)):
        path = export_mindir(net, *map(Tensor, arrays), path=tmp_path / type(net).__name__)
        change(path, as_before)
        network = load(path) if through == "load" else nn.GraphCell(ms.load(str(path)))
        close(network(*map(Tensor, arrays)).asnumpy(), expected)


def test_onnx_nodes():
    float32 = {name: ("float32", array.shape) for name, array in (("x", X), ("cos", COS), ("sin", SIN))}
    node = helper.make_node("rotary_embedding", ["x", "cos", "sin"], ["y"], domain=onnx.DOMAIN, own_angles=1)
    made = model([node], float32, {"y": ("float32", X.shape)})
    checker.check_model(made, full_check=True)
    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(onnx.library_path())
    session = onnxruntime.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])
    close(session.run(None, {"x": X, "cos": COS, "sin": SIN})[0], ROTATED)
    node = helper.make_node("rms_norm", ["x", "gamma"], ["y"], domain=onnx.DOMAIN, scheme="gemma")
    made = model([node], {"x": ("float32", ROWS.shape), "gamma": ("float32", [8])}, {"y": ("float32", ROWS.shape)})
    checker.check_model(made, full_check=True)
    session = onnxruntime.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])
    close(session.run(None, {"x": ROWS, "gamma": GAMMA})[0], NORMED)
