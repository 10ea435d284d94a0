"""A network that `optimize` has fused goes through `optimize_mindir`: together they do what the latter does alone."""

from collections import Counter

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn, ops
from mindspore.train.mind_ir_pb2 import AttributeProto
from ms_ascend_ops.export.files.model import read_model
from ms_ascend_ops.export.graphs.mindir_graph import graphs_of

from examples import llama
from ms_ascend_ops import export_mindir, load, optimize, optimize_mindir
from ms_ascend_ops import ops as fused_ops
from tests.acceptance import assert_close
from tests.small_llama import CONFIG

OPERATORS = {"AddRmsNorm": 4, "FlashAttention": 2, "QkvRotaryEmbedding": 2, "RmsNorm": 1, "Swiglu": 2}


def assert_same_scores(path, stock, ids):
    """The whole network, of which a joined product may sum in another order: as for the network itself (test_llama.py).

    A wrong weight or head is off by whole units.
    """
    expected, output = load(stock)(ids)[0], load(path)(ids)[0]
    assert_close(output.asnumpy(), expected.asnumpy(), rtol=1e-4, atol=1e-5)


def operators(path):
    """How often the file has each operator of ours."""
    nodes = [node for graph in graphs_of(read_model(path, "test")) for node in graph.graph.nodes]
    return Counter(node.attributes["reg_op_name"] for node in nodes if "reg_op_name" in node.attributes)


@pytest.fixture(scope="module")
def network():
    ms.set_seed(0)
    return llama.LlamaForCausalLM(CONFIG)


@pytest.fixture(scope="module")
def ids():
    return Tensor(np.random.default_rng(0).integers(0, CONFIG.vocab_size, (2, 12)).astype(np.int32))


@pytest.fixture(scope="module")
def stock(network, ids, tmp_path_factory):
    return export_mindir(network, ids, path=tmp_path_factory.mktemp("stock") / "stock")


@pytest.fixture(scope="module", params=["optimize", "optimize_mindir"])
def fused(request, network, stock, ids, tmp_path_factory):
    """The file with operators for single places. Read it only."""
    path = tmp_path_factory.mktemp("fused") / "fused.mindir"
    if request.param == "optimize_mindir":
        optimize_mindir(stock, path, level="O2")
        return path
    net = llama.LlamaForCausalLM(CONFIG)
    ms.load_param_into_net(net, network.parameters_dict())
    optimize(net, verify=[[ids]])
    return export_mindir(net, ids, path=path.with_suffix(""))


def test_the_file_gets_the_operators_of_one_step(stock, fused, ids, tmp_path):
    assert operators(fused)["RotaryEmbedding"] == 4
    report = optimize_mindir(fused, tmp_path / "joined.mindir", level="O3")
    assert operators(tmp_path / "joined.mindir") == OPERATORS
    optimize_mindir(stock, tmp_path / "one.mindir", level="O3")
    assert operators(tmp_path / "one.mindir") == OPERATORS
    # What was there and stays is not reported.
    assert {e.pattern for e in report.replaced} >= {"linear layers", "SwiGLU", "add + RMSNorm"}
    assert "rotary embedding" not in {e.pattern for e in report.entries}
    assert_same_scores(tmp_path / "joined.mindir", stock, ids)


def test_below_o3_they_stay(fused, tmp_path):
    before = operators(fused)
    report = optimize_mindir(fused, tmp_path / "again.mindir", level="O2")
    assert operators(tmp_path / "again.mindir") == before
    assert not {e.pattern for e in report.entries} & {"SwiGLU", "rotary embedding"}


def test_a_second_time_changes_nothing(fused, tmp_path):
    optimize_mindir(fused, tmp_path / "joined.mindir", level="O3")
    report = optimize_mindir(tmp_path / "joined.mindir", tmp_path / "again.mindir", level="O3")
    assert not report.entries
    assert operators(tmp_path / "again.mindir") == OPERATORS


class Scores(nn.Cell):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def construct(self, x, mask):
        return fused_ops.scaled_masked_softmax((x * 0.3).reshape(2, 2, 3, 5), mask, self.scale)


def scores(scale, folder):
    random = np.random.default_rng(1)
    inputs = [Tensor(random.standard_normal(shape).astype(np.float32)) for shape in ((4, 3, 5), (3, 5))]
    return export_mindir(Scores(scale), *inputs, path=folder / "scores"), inputs


def test_a_factor_in_front_of_a_fused_softmax_becomes_part_of_it(tmp_path):
    path, (x, mask) = scores(1.0, tmp_path)
    report = optimize_mindir(path, tmp_path / "fewer.mindir", level="O1")
    assert [e.text for e in report.replaced] == ["scale 0.3; a row that is masked as a whole gives zeros"]
    (graph,) = graphs_of(read_model(tmp_path / "fewer.mindir", "test"))
    assert not {n.kind for n in graph.graph.nodes} & {"Mul", "Muls"}
    expected = ops.softmax(x.reshape(2, 2, 3, 5) * 0.3 + mask, -1)
    output = load(tmp_path / "fewer.mindir")(x, mask)
    # Stock and ours have exponentials of their own, of a few ULP; with another scale probabilities differ by tenths.
    assert_close(output.asnumpy(), expected.asnumpy(), rtol=1e-5, atol=1e-6)


def test_two_factors_stay(tmp_path):
    """Their product would be rounded, and large scores with it."""
    path, _ = scores(0.7, tmp_path)
    assert not optimize_mindir(path, tmp_path / "same.mindir", level="O3").entries


def other_version(attribute):
    if attribute.name == "op_version":
        attribute.i = 99


def other_library(attribute):
    if attribute.name == "func_name":
        attribute.s = b"/elsewhere/libtheirs.so:" + attribute.s.rpartition(b":")[2]


def no_number(attribute):
    if attribute.name in ("scale", "rotary_dim"):
        attribute.type, attribute.s = AttributeProto.STRING, b"1"


def no_name(attribute):
    if attribute.name in ("scale", "mode"):
        attribute.name = "somebody's"


def calls_of(primitives, model):
    """How often the nodes of a file call each of these primitives."""
    return Counter(name for node in model.graph.node if (name := node.op_type.removeprefix("REF::")) in primitives)


@pytest.mark.parametrize("change", [other_version, other_library, no_number, no_name])
def test_operators_that_load_would_refuse_stay(fused, change, tmp_path):
    model = read_model(fused, "test")
    ours = [primitive for primitive in model.primitives if primitive.op_type == "Custom"]
    before = [primitive.SerializeToString() for primitive in ours]
    for primitive in ours:
        for attribute in primitive.attribute:
            change(attribute)
    changed = {p.name for p, old in zip(ours, before, strict=True) if p.SerializeToString() != old}
    assert changed
    (tmp_path / "changed.mindir").write_bytes(model.SerializeToString())
    optimize_mindir(tmp_path / "changed.mindir", tmp_path / "same.mindir", level="O3")
    assert calls_of(changed, read_model(tmp_path / "same.mindir", "test")) == calls_of(changed, model)


def test_places_that_stay_are_reported_behind_our_operators(tmp_path):
    class Norm(nn.Cell):
        def construct(self, gate, up):
            y = fused_ops.silu_mul(gate, up)
            return y * ops.rsqrt((y * y).mean(-1, keep_dims=True))

    x = Tensor(np.random.default_rng(3).standard_normal((3, 8)).astype(np.float32))
    path = export_mindir(Norm(), x, x, path=tmp_path / "norm")
    for level in ("O2", "O3"):
        report = optimize_mindir(path, tmp_path / "same.mindir", level=level)
        assert [(e.pattern, e.replaced) for e in report.entries] == [("RMSNorm", False)]


def test_tables_of_each_sequence(tmp_path):
    class Heads(nn.Cell):
        def __init__(self):
            super().__init__()
            self.q, self.k, self.v = (nn.Dense(16, 16, has_bias=False) for _ in range(3))

        def construct(self, x, cos, sin):
            q, k, v = (layer(x).reshape(2, 3, 4, 4).swapaxes(1, 2) for layer in (self.q, self.k, self.v))
            q, k = fused_ops.apply_rotary_pos_emb(q, k, cos, sin, layout="BNSD")
            return q, k, v

    random = np.random.default_rng(4)
    inputs = [Tensor(random.standard_normal(shape).astype(np.float32)) for shape in ((2, 3, 16), (2, 3, 4), (2, 3, 4))]
    net = Heads()
    path = export_mindir(net, *inputs, path=tmp_path / "heads")
    optimize_mindir(path, tmp_path / "joined.mindir", level="O3")
    assert operators(tmp_path / "joined.mindir") == {"QkvRotaryEmbedding": 1}
    # A wider product may sum in another order; a wrong weight, head or table is off by whole units.
    for output, expected in zip(load(tmp_path / "joined.mindir")(*inputs), net(*inputs), strict=True):
        assert_close(output.asnumpy(), expected.asnumpy(), rtol=1e-5, atol=1e-5)


def test_a_gate_of_half_the_layers_stays(tmp_path):
    """Gate and up of different inputs: no product gives both."""

    class Gate(nn.Cell):
        def __init__(self):
            super().__init__()
            self.gate, self.up = nn.Dense(8, 6, has_bias=False), nn.Dense(8, 6, has_bias=False)

        def construct(self, x):
            return fused_ops.silu_mul(self.gate(x), self.up(x + 1))

    x = Tensor(np.random.default_rng(2).standard_normal((3, 8)).astype(np.float32))
    path = export_mindir(Gate(), x, path=tmp_path / "gate")
    report = optimize_mindir(path, tmp_path / "same.mindir", level="O3")
    assert operators(tmp_path / "same.mindir") == {"SiluMul": 1}
    assert not report.entries


def test_where_shapes_are_not_known_nothing_is_reported(fused, tmp_path):
    """What is in the file already is no place that somebody could want to be replaced."""
    model = read_model(fused, "test")
    for node in model.graph.node:
        for attribute in [a for a in node.attribute if a.name == "shape"]:
            node.attribute.remove(attribute)
    (tmp_path / "bare.mindir").write_bytes(model.SerializeToString())
    before = operators(tmp_path / "bare.mindir")
    report = optimize_mindir(tmp_path / "bare.mindir", tmp_path / "same.mindir", level="O3")
    assert operators(tmp_path / "same.mindir") == before
    assert not {e.pattern for e in report.entries} & {"SwiGLU", "rotary embedding"}
