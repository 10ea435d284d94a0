"""A network that `optimize` has fused goes through `optimize_mindir`: together they do what the latter does alone."""

from collections import Counter

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn, ops
from ms_ascend_ops.export.mindir_graph import graphs_of
from ms_ascend_ops.export.model import read_model

from examples import llama
from ms_ascend_ops import export_mindir, load, optimize, optimize_mindir
from ms_ascend_ops import ops as fused_ops

CONFIG = llama.LlamaConfig(
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=32,
)
OPERATORS = {"AddRmsNorm": 4, "QkvRotaryEmbedding": 2, "RmsNorm": 1, "ScaledMaskedSoftmax": 2, "Swiglu": 2}


def operators(path):
    """How often the file has each operator of ours."""
    nodes = [node for graph in graphs_of(read_model(path, "test")) for node in graph.graph.nodes]
    return Counter(str(node.attributes["reg_op_name"]) for node in nodes if node.kind == "Custom")


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


@pytest.fixture(params=["optimize", "optimize_mindir"])
def fused(request, network, stock, ids, tmp_path):
    """The file with operators for single places."""
    if request.param == "optimize_mindir":
        optimize_mindir(stock, tmp_path / "fused.mindir", level="O2")
        return tmp_path / "fused.mindir"
    net = llama.LlamaForCausalLM(CONFIG)
    ms.load_param_into_net(net, network.parameters_dict())
    optimize(net, verify=[[ids]])
    return export_mindir(net, ids, path=tmp_path / "fused")


def test_the_file_gets_the_operators_of_one_step(stock, fused, ids, tmp_path):
    assert operators(fused)["RotaryEmbedding"] == 4
    report = optimize_mindir(fused, tmp_path / "joined.mindir", level="O3")
    assert operators(tmp_path / "joined.mindir") == OPERATORS
    optimize_mindir(stock, tmp_path / "one.mindir", level="O3")
    assert operators(tmp_path / "one.mindir") == OPERATORS
    # What was there and stays is not reported.
    assert {e.pattern for e in report.replaced} >= {"linear layers", "SwiGLU", "add + RMSNorm"}
    assert "rotary embedding" not in {e.pattern for e in report.entries}
    expected, output = load(stock)(ids)[0], load(tmp_path / "joined.mindir")(ids)[0]
    np.testing.assert_allclose(output.asnumpy(), expected.asnumpy(), rtol=1e-4, atol=1e-5)


def test_below_o3_they_stay(fused, tmp_path):
    before = operators(fused)
    report = optimize_mindir(fused, tmp_path / "again.mindir", level="O2")
    assert operators(tmp_path / "again.mindir") == before
    assert not {e.pattern for e in report.entries} & {"SwiGLU", "rotary embedding"}


def test_a_second_time_changes_nothing(fused, tmp_path):
    optimize_mindir(fused, tmp_path / "joined.mindir", level="O3")
    optimize_mindir(tmp_path / "joined.mindir", tmp_path / "again.mindir", level="O3")
    assert operators(tmp_path / "again.mindir") == OPERATORS


@pytest.mark.parametrize(("inner", "outer"), [(1.0, 0.25), (0.5, 3.0)])
def test_a_factor_in_front_of_a_fused_softmax_becomes_part_of_it(inner, outer, tmp_path):
    class Scores(nn.Cell):
        def construct(self, x, mask):
            return fused_ops.scaled_masked_softmax((x * outer).reshape(2, 2, 3, 5), mask, inner)

    random = np.random.default_rng(1)
    x, mask = (Tensor(random.standard_normal(shape).astype(np.float32)) for shape in ((4, 3, 5), (3, 5)))
    path = export_mindir(Scores(), x, mask, path=tmp_path / "scores")
    report = optimize_mindir(path, tmp_path / "fewer.mindir", level="O1")
    assert [e.text for e in report.replaced] == [
        f"scale {inner * outer:g}; a row that is masked as a whole gives zeros"
    ]
    (graph,) = graphs_of(read_model(tmp_path / "fewer.mindir", "test"))
    assert not {n.kind for n in graph.graph.nodes} & {"Mul", "Muls"}
    expected = ops.softmax(x.reshape(2, 2, 3, 5) * (inner * outer) + mask, -1)
    np.testing.assert_allclose(
        load(tmp_path / "fewer.mindir")(x, mask).asnumpy(), expected.asnumpy(), rtol=1e-5, atol=1e-6
    )


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
