"""Where two networks begin to differ, and who is to blame."""

import json

import mindspore as ms
import numpy as np
import pytest
from click.testing import CliRunner
from mindspore import Tensor, nn

from ms_ascend_ops import debug, dispatch, export_mindir
from ms_ascend_ops.__main__ import main
from tests.browser import check_in_browser
from tests.ms_ascend_ops.debug import networks
from tests.pages import check_page


@pytest.fixture(autouse=True)
def _no_policies():
    yield
    dispatch.reset()


def record(net):
    return debug.of_cell(net, networks.inputs())


def run(*arguments):
    return CliRunner().invoke(main, ["debug", "compare", *map(str, arguments)], catch_exceptions=False)


def test_rounding_is_no_difference():
    found = debug.compare(record(networks.fused()), record(networks.stock()))
    assert found.equal
    assert len(found.places) == 21  # four blocks of five cells, and the network
    assert 0 < max(place.difference for place in found.places) < 1e-6


def test_half_precision_is_explained_by_its_own_rounding():
    net = networks.fused()
    net.to_float(ms.float16)
    found = debug.compare(record(net), record(networks.stock()))
    assert found.equal
    assert max(place.difference for place in found.places) > 1e-4


def test_the_first_place_is_found():
    found = debug.compare(record(networks.wrong()), record(networks.stock()))
    assert not found.equal
    assert found.first.name == "blocks.2.norm"
    # Of what follows nothing is blamed that only passes it on.
    assert [place.name for place in found.places if not place.explained and "norm" in place.name] == ["blocks.2.norm"]
    worst = found.first.worst
    inputs = networks.inputs()[0].asnumpy()
    assert len(worst.index) == inputs.ndim
    assert worst.ulps > 1000
    assert worst.relative == pytest.approx(abs(worst.a - worst.b) / abs(worst.b))
    assert found.first.isolated == pytest.approx(found.first.difference, rel=0.5)


class _Cancels(nn.Cell):
    """Enlarges what comes in by a million, and is not to blame."""

    def __init__(self, off):
        super().__init__()
        self.first = nn.Identity()
        self.off = off
        self.second = _Minus()

    def construct(self, x):
        return self.second(self.first(x) * (1 + self.off))


class _Minus(nn.Cell):
    def construct(self, x):
        return x - 1.0


def test_a_cancellation_is_not_blamed():
    x = ms.Tensor(1 + 1e-5 * np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32))
    a, b = (debug.of_cell(_Cancels(off), [x]) for off in (2e-7, 0.0))
    found = debug.compare(a, b)
    second = next(place for place in found.places if place.name == "second")
    assert second.difference > 1e-3
    assert second.explained


def test_overflow():
    net = networks.large()
    net.to_float(ms.float16)
    found = debug.compare(record(net), record(networks.large()))
    assert not found.equal
    assert found.first_overflow is not None
    assert found.first_overflow.overflow.startswith("A: output 0 ")


def test_the_operator_to_blame(monkeypatch):
    golden = record(networks.stock())
    net = networks.fused()
    assert debug.blame(net, networks.inputs(), golden)[0] == []

    def broken(x, axis, interleaved):
        gate, up = ms.ops.chunk(x, 2, axis)
        return gate * ms.ops.sigmoid(1.01 * gate) * up

    dispatch.register("swiglu", "broken", function=broken)
    try:
        dispatch.use(dispatch.Fixed("broken"), "swiglu")
        found, text = debug.blame(net, networks.inputs(), golden)
        assert found == ["swiglu"]
        assert "of 2 operators" in text
        assert not debug.compare(record(net), golden).equal, "the policy is as it was"
    finally:
        dispatch.reset()
        dispatch.unregister("swiglu", "broken")


def test_a_dump_comes_back_as_it_was(tmp_path):
    before = record(networks.wrong())
    debug.write_dump(before, tmp_path / "wrong")
    after = debug.read_dump(tmp_path / "wrong")
    assert [layer.full_name for layer in after.layers] == [layer.full_name for layer in before.layers]
    for one, other in zip(before.layers, after.layers, strict=True):
        for mine, theirs in zip(one.inputs + one.outputs, other.inputs + other.outputs, strict=True):
            assert (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape)
            assert np.array_equal(mine.values, theirs.values)
            assert mine.statistics == pytest.approx(theirs.statistics)
    found = debug.compare(after, record(networks.stock()))
    assert found.first.name == "blocks.2.norm"


def test_a_dump_of_statistics(tmp_path):
    """As msprobe writes them by default: no tensors."""
    for name, net in (("a", networks.wrong()), ("b", networks.stock())):
        file = debug.write_dump(record(net), tmp_path / name)
        content = json.loads(file.read_text())
        content["task"] = "statistics"
        for layer in content["data"].values():
            for tensor in layer["input_args"] + layer["output"]:
                del tensor["data_name"]
        file.write_text(json.dumps(content))
    found = debug.compare(debug.read_dump(tmp_path / "a"), debug.read_dump(tmp_path / "b"))
    assert found.first.name == "blocks.2.norm"
    assert not found.first.values


def test_the_layout_is_that_of_msprobe(tmp_path):
    file = debug.write_dump(record(networks.stock()), tmp_path)
    assert file == tmp_path / "step0" / "rank0" / "dump.json"
    content = json.loads(file.read_text())
    assert {"task", "level", "framework", "dump_data_dir", "data"} <= set(content)
    layer = content["data"]["Cell.blocks.2.norm.StockNorm.forward.0"]
    (tensor,) = layer["output"]
    assert tensor["type"] == "mindspore.Tensor"
    assert (tensor["dtype"], tensor["shape"]) == ("Float32", [3, 5, 16])
    assert {"Max", "Min", "Mean", "Norm"} <= set(tensor)
    values = np.load(file.parent / "dump_tensor_data" / tensor["data_name"])
    assert tensor["data_name"] == "Cell.blocks.2.norm.StockNorm.forward.0.output.0.npy"
    assert tensor["Norm"] == pytest.approx(np.linalg.norm(values))
    parents = json.loads((file.parent / "construct.json").read_text())
    assert parents["Cell.blocks.2.norm.StockNorm.forward.0"] == "Cell.blocks.2.Block.forward.0"


NO_DUMPS = ["", "[]", "{}", '{"data": 3}']
NO_DUMPS.append('{"data": {"Cell.a.B.forward.0": {"output": [{"type": "Tensor", "shape": 3}]}}}')


@pytest.mark.parametrize("content", NO_DUMPS)
def test_what_is_no_dump_is_refused(tmp_path, content):
    (tmp_path / "dump.json").write_text(content)
    with pytest.raises(ValueError, match="is no dump of msprobe"):
        debug.read_dump(tmp_path)


def test_a_dump_does_not_read_elsewhere(tmp_path):
    np.save(tmp_path / "secret.npy", np.ones(3))
    file = debug.write_dump(record(networks.stock()), tmp_path / "dump")
    name = "Cell.blocks.2.norm.StockNorm.forward.0.output.0.npy"
    file.write_text(file.read_text().replace(name, "../../../../secret.npy"))
    layer = next(one for one in debug.read_dump(tmp_path / "dump").layers if one.name == "blocks.2.norm")
    assert layer.outputs[0].values is None


def test_mindirs(tmp_path):
    x = networks.inputs()[0]
    made = {"stock": networks.stock(), "wrong": networks.wrong()}
    paths = {name: export_mindir(net, x, path=str(tmp_path / name)) for name, net in made.items()}
    found = debug.compare(*(debug.of_mindir(paths[name], [x]) for name in ("wrong", "stock")))
    assert not found.equal
    assert found.first.name.startswith(("Add", "Rsqrt"))
    assert debug.compare(*(debug.of_mindir(paths["stock"], [x]) for _ in range(2))).equal


def test_a_fused_operator_means_the_last_node_that_it_replaces(tmp_path):
    """In files whose names have nothing to do with each other; test_optimized.py has those of `optimize_mindir`."""
    x = networks.inputs()[0]
    paths = [
        export_mindir(net, x, path=tmp_path / str(i)) for i, net in enumerate((networks.fused(), networks.stock()))
    ]
    found = debug.compare(*(debug.of_mindir(path, [x]) for path in paths))
    assert found.equal, str(found.first)
    assert not found.only_a
    kinds = [place.kind for place in found.places]
    assert kinds.count("RmsNorm / Mul") == kinds.count("Swiglu / Mul") == 4
    assert any("MatMul(blocks.3.down.weight)" in place.name for place in found.places)
    assert max(place.difference for place in found.places) < 1e-6


class _Masked(nn.Cell):
    def __init__(self, size=8, scale=1.0):
        super().__init__()
        self.mask = Tensor(np.triu(np.full((size, size), -np.inf, np.float32), 1))
        self.softmax = nn.Softmax()
        self.scale = scale
        self.hide = nn.Identity()

    def construct(self, x):
        return self.softmax(self.hide(x @ x.T * self.scale + self.mask))


def test_an_overflow_that_both_have_is_no_news():
    x = Tensor(np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32))
    stock = debug.of_cell(_Masked(), [x])
    assert debug.compare(stock, stock).equal
    with np.errstate(over="ignore"):
        found = debug.compare(debug.of_cell(_Masked(scale=1e38), [x]), debug.of_cell(_Masked(scale=1e37), [x]))
    assert not found.equal


def test_the_command(tmp_path):
    place = networks.__file__
    np.save(tmp_path / "x.npy", networks.inputs()[0].asnumpy())
    inputs = ["--inputs", tmp_path / "x.npy"]
    written = ["--page", tmp_path / "p.html", "--json", tmp_path / "p.json", "--dump", tmp_path / "dumps"]
    done = run(f"{place}:wrong", f"{place}:stock", *inputs, *written, "--blame")
    assert done.exit_code == 1
    assert "first: blocks.2.norm (StockNorm): differs by" in done.output
    assert "to blame: no fused operator" in done.output
    content = json.loads((tmp_path / "p.json").read_text())
    assert content["first"] == "blocks.2.norm"
    assert len(content["layers"]) == 21
    page = check_page(tmp_path / "p.html")
    assert page.count("polyline") == 2
    assert page.count("tr") == 22
    check_in_browser(tmp_path / "p.html", tables=1, plots=1, search="norm")
    again = run(tmp_path / "dumps/a", tmp_path / "dumps/b")
    assert again.exit_code == 1
    assert "first: blocks.2.norm" in again.output
    assert run(f"{place}:fused", f"{place}:stock", *inputs).exit_code == 0
    half = run(f"{place}:fused", f"{place}:stock", "--inputs", "2x16", "--dtype-a", "float16")
    assert half.exit_code == 0, half.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.mindir", "nowhere.mindir"], "there is no nowhere.mindir"),
        (["nowhere.py:net", "nowhere.py:net"], "there is no file nowhere.py"),
        ([f"{networks.__file__}:nothing", "b"], "has no function nothing"),
        ([f"{networks.__file__}:stock", "b", "--inputs", "large"], "must be a file .npy or .npz"),
        ([f"{networks.__file__}:stock", "b", "--inputs", "2x16", "--dtype-a", "float8"], "must be float16"),
    ],
)
def test_the_command_says_what_is_wrong(arguments, message):
    done = run(*arguments)
    assert done.exit_code in (1, 2)
    assert message in done.output
