"""Before and after `optimize_mindir`: rounding alone differs, and a fused operator that is wrong comes first."""

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn, ops
from mindspore.train.mind_ir_pb2 import AttributeProto, NodeProto, PrimitiveProto, TensorProto

from ms_ascend_ops import debug, export_mindir, optimize_mindir
from ms_ascend_ops.debug.pairs import pairs
from tests.export import equivalent_forms
from tests.export.mindir import change


class Decoder(nn.Cell):
    """A block that writes its mask in place, as mindone's networks do; the mask has -inf."""

    def __init__(self):
        super().__init__()
        self.block = equivalent_forms.Tables(equivalent_forms.Attention())
        self.norm = equivalent_forms.PowMeanNorm()
        self.positions = Tensor(np.arange(5), ms.float32)

    def construct(self, x):
        mask = ops.full((5, 5), 1.0, dtype=ms.float32)
        mask *= ops.expand_dims(self.positions, 0) > ops.expand_dims(self.positions, 1)
        hidden = ops.masked_fill(ops.zeros((5, 5), ms.float32), mask > 0, Tensor(-np.inf, ms.float32))
        return self.norm(self.block(x, self.positions, hidden))


class Residual(nn.Cell):
    def __init__(self, channels, out):
        super().__init__()
        self.norms = nn.CellList([nn.GroupNorm(2, channels), nn.GroupNorm(2, out)])
        self.convs = nn.CellList([nn.Conv2d(channels, out, 3), nn.Conv2d(out, out, 3)])
        self.shortcut = nn.Conv2d(channels, out, 1)

    def construct(self, x):
        y = self.convs[0](ops.silu(self.norms[0](x)))
        return self.shortcut(x) + self.convs[1](ops.silu(self.norms[1](y)))


class UNet(nn.Cell):
    """Down, through the middle and up again, with what was seen on the way down."""

    def __init__(self):
        super().__init__()
        self.down, self.middle, self.up = Residual(4, 8), Residual(8, 8), Residual(16, 4)
        self.smaller, self.larger = nn.Conv2d(8, 8, 3, 2), nn.Conv2dTranspose(8, 8, 3, 2)

    def construct(self, x):
        seen = self.down(x)
        y = self.larger(self.middle(self.smaller(seen)))
        return self.up(ops.cat((y, seen), 1))


NETWORKS = {"decoder": (Decoder, (2, 5, equivalent_forms.HIDDEN)), "unet": (UNet, (1, 4, 8, 8))}


@pytest.fixture(scope="module", params=NETWORKS)
def files(request, tmp_path_factory):
    """The files of a network, its input and the record of the first of them."""
    make, shape = NETWORKS[request.param]
    folder = tmp_path_factory.mktemp(request.param)
    random = np.random.default_rng(0)
    x = Tensor(random.standard_normal(shape).astype(np.float32))
    net = make().set_train(False)
    for parameter in net.get_parameters():
        parameter.set_data(Tensor(random.uniform(-0.5, 1, parameter.shape).astype(np.float32)))
    stock = export_mindir(net, x, path=folder / "stock")
    optimize_mindir(stock, folder / "optimized.mindir")
    return folder / "optimized.mindir", x, debug.of_mindir(stock, [x])


def seed(path, which):
    """Let a fused operator take a value, of norms the weight, that is 1 % too large; returns what it gives."""
    given = []

    def function(model):
        entries = {
            f"REF::{primitive.name}": attribute.s.decode()
            for primitive in model.primitives
            for attribute in primitive.attribute
            if attribute.name == "reg_op_name"
        }
        nodes = list(model.graph.node)
        node = [node for node in nodes if node.op_type in entries][which]
        given.extend(n.output[0] for n in nodes if n is node or n.input[:1] == node.output)
        taken = 1 if entries[node.op_type].endswith("Norm") else 0
        made = number("seed:factor", 1.01), product("seed:product", node, node.input[taken], "seed:factor")
        model.primitives.add(name="Mul:seed", op_type="Mul", prim_type=PrimitiveProto.PRIMITIVE_FUNCTION)
        node.input[taken] = "seed:product"
        place = nodes.index(node)
        copies = [NodeProto.FromString(one.SerializeToString()) for one in (*nodes[:place], *made, *nodes[place:])]
        del model.graph.node[:]
        model.graph.node.extend(copies)

    change(path, function)
    return given


def number(name, value):
    made = NodeProto(op_type="Constant", name=name, output=[name])
    tensor = made.attribute.add(name="value", type=AttributeProto.TENSORS).tensors.add()
    tensor.data_type, tensor.name, tensor.raw_data = TensorProto.FLOAT, name, np.float32(value).tobytes()
    return made


def product(name, like, *factors):
    return NodeProto(op_type="REF::Mul:seed", name=name, input=factors, output=[name], domain=like.domain)


def test_rounding_alone_differs(files):
    path, x, stock = files
    found = debug.compare(debug.of_mindir(path, [x]), stock)
    assert found.equal, found.first or found.first_overflow
    assert sum("/" in place.kind for place in found.places) >= 4
    assert max(place.difference for place in found.places) < 1e-5


@pytest.mark.parametrize("which", [0, -1])
def test_the_fused_operator_that_is_wrong_comes_first(files, which, tmp_path):
    path, x, stock = files
    wrong = tmp_path / "wrong.mindir"
    wrong.write_bytes(path.read_bytes())
    given = seed(wrong, which)
    record = debug.of_mindir(wrong, [x])
    found = debug.compare(record, stock)
    first = list(pairs(record, stock))[found.places.index(found.first)][0]
    assert first.node.name in given, found.first
    assert found.first.difference > 1e-3
