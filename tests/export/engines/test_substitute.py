from collections import Counter
from contextlib import contextmanager, nullcontext
from dataclasses import replace

import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, Tensor, nn
from mindspore.common.initializer import Normal
from ms_ascend_ops.export.engines import cell_engine, proof, substitute
from ms_ascend_ops.export.matching.patterns import PATTERNS
from ms_ascend_ops.export.reports.measure import Measured, loses_gradients, measure
from ms_ascend_ops.export.reports.report import REMOVED, Entry, Report

from ms_ascend_ops import optimize
from tests.acceptance import assert_close
from tests.export import equivalent_forms
from tests.export.equivalent_forms import HIDDEN, Holder
from tests.inputs import draw
from tests.modes import MODES, Together, graph_mode, run
from tests.tensors import numpy, tensor
from tests.versions import BFLOAT16

# Cells, whether they are replaced (None: no pattern), and what the report says of them.
CELLS = [
    (equivalent_forms.PowMeanNorm, True, "eps 1e-05, round_then_scale"),
    (equivalent_forms.SquareDivideNorm, True, "eps 1e-05, round_then_scale"),
    (equivalent_forms.CastingNorm, True, "eps 1e-05, round_then_scale"),
    (equivalent_forms.CastLastNorm, True, "eps 1e-05, round_then_scale"),
    (equivalent_forms.GemmaNorm, True, "eps 1e-05, one_plus_gamma"),
    (equivalent_forms.PrimitiveNorm, True, "eps 3e-06, round_then_scale"),  # an epsilon that is no attribute
    (equivalent_forms.JitNorm, True, "eps 1e-05, round_then_scale"),
    (equivalent_forms.ResidualNorm, True, "eps 1e-05, round_then_scale"),  # without its second input
    (equivalent_forms.SquaredWeightNorm, True, "eps 1e-05, round_then_scale"),  # and another product
    (equivalent_forms.LlamaStyleMLP, True, "float16 within"),
    (equivalent_forms.UpFirstMLP, True, "float16 within"),
    (equivalent_forms.SigmoidMLP, True, "float16 within"),  # all matrices square: only the data flow tells them apart
    (equivalent_forms.ChunkMLP, True, "float16 within"),
    (equivalent_forms.ChunkUpFirstMLP, True, "float16 within"),
    (equivalent_forms.AlternatingMLP, True, "float16 within"),
    (equivalent_forms.ResidualMLP, True, "float16 within"),
    (equivalent_forms.LayerNormNoBias, False, "also executes ReduceMean"),
    (equivalent_forms.EpsilonOutsideNorm, False, "other than sqrt"),
    (equivalent_forms.NoEpsilonNorm, False, "no epsilon"),
    (equivalent_forms.SumNorm, False, "other than sqrt"),
    (equivalent_forms.PartialNorm, False, "a part of the features"),
    (equivalent_forms.ChannelsFirstNorm, False, "for inputs of another shape"),
    (equivalent_forms.WholeTensorNorm, False, "another axis"),
    (equivalent_forms.DropoutMLP, False, "in training"),
    (equivalent_forms.LayerScale, None, ""),
    (equivalent_forms.LearnedBias, None, ""),
    (equivalent_forms.UngatedMLP, None, ""),
]


@pytest.fixture
def x():
    return tensor(draw(np.random.default_rng(0), (2, 3, HIDDEN)), "float32")


def only_entry(report):
    (entry,) = report.entries
    return entry


def test_cells(x):
    net = Together([make() for make, *_ in CELLS])
    inputs = [x.swapaxes(1, 2) if make is equivalent_forms.ChannelsFirstNorm else x for make, *_ in CELLS]
    expected = net(*inputs)
    entries = {entry.place: entry for entry in optimize(net).entries}
    for index, (make, replaced, text) in enumerate(CELLS):
        entry = entries.pop(f"parts.{index}", None)
        assert (entry and entry.replaced) is replaced, (make, entry)
        assert entry is None or text in entry.text, (make, entry)
        assert (type(net.parts[index]) is make) is not replaced
    assert not entries
    for mode in MODES:
        for (make, *_), result, wanted in zip(CELLS, run(mode, net, inputs), expected, strict=True):
            # The sum of a row in another order, the last roundings of an activation, and a matmul that adds them up.
            tolerance = 1e-5 if "MLP" in make.__name__ else 2e-6
            assert_close(numpy(result), numpy(wanted), rtol=tolerance, atol=tolerance, err_msg=f"{make} {mode}")


@pytest.mark.parametrize("dtype", ["float16", BFLOAT16])
@pytest.mark.parametrize("norm", [equivalent_forms.CastingNorm, equivalent_forms.GemmaNorm])
def test_half_precision_norms_keep_their_rounding(norm, dtype):
    x = tensor(draw(np.random.default_rng(0), (64, HIDDEN)), dtype)
    net = Holder(norm(dtype=getattr(ms, dtype)))
    expected = numpy(net(x))
    assert only_entry(optimize(net)).replaced
    # float32 sums in another order may meet a rounding boundary once in a while
    assert np.mean(numpy(net(x)) == expected) > 0.999


@pytest.mark.parametrize("mode", MODES)
def test_a_dtype_that_the_stock_cell_promotes_keeps_the_stock_construct(mode, x):
    net = Holder(equivalent_forms.CastingNorm())  # a float32 weight makes the result float32 for float16 input
    half = x.astype(ms.float16)
    expected = numpy(net(half))
    assert "float16 and bfloat16 input keeps the stock construct" in only_entry(optimize(net)).text
    result = run(mode, net, (half,))
    assert result.dtype == ms.float32
    np.testing.assert_allclose(numpy(result), expected, rtol=1e-6)


@pytest.mark.parametrize("mode", MODES)
def test_an_input_that_was_not_there_goes_to_the_stock_construct(mode, x):
    class Pair(Holder):
        def construct(self, x):
            return self.part(x, x)

    net = Pair(equivalent_forms.ResidualNorm())
    expected = numpy(net(x))
    assert only_entry(optimize(net)).replaced
    np.testing.assert_allclose(numpy(run(mode, net, (x,))), expected, rtol=1e-6)


class Block(nn.Cell):
    """A decoder block without attention, whose norm calls its weight gamma."""

    def __init__(self):
        super().__init__()
        self.norm = equivalent_forms.PrimitiveNorm()
        self.mlp = equivalent_forms.LlamaStyleMLP()
        self.last = nn.SequentialCell(equivalent_forms.PowMeanNorm(), nn.ReLU())

    def construct(self, x):
        return self.last(x + self.mlp(self.norm(x)))


def test_parameters_stay_the_same_objects_under_the_same_names(x):
    net = Block()
    before = [(path, p.name, id(p)) for path, p in net.parameters_and_names()]
    report = optimize(net)
    assert [entry.place for entry in report.replaced] == ["norm", "mlp", "last.0"]
    assert [(path, p.name, id(p)) for path, p in net.parameters_and_names()] == before
    assert net.mlp.gate_proj.weight.name == "mlp.gate_proj.weight"
    report.restore()
    assert report.replaced == []
    assert "then restored" in str(report)
    assert [(path, p.name, id(p)) for path, p in net.parameters_and_names()] == before


@pytest.fixture
def wrong(monkeypatch):
    """A row of the table that builds something else, past the comparison that would refuse it."""

    def build(match):
        fused = PATTERNS[1].build(match)
        return fused and replace(fused, attributes={**fused.attributes, "epsilon": 0.5})

    monkeypatch.setattr(cell_engine, "error_of", lambda *_: 0.0)
    return replace(PATTERNS[1], name="wrong epsilon", build=build)


def test_graphs_that_were_compiled_before_are_compiled_again(wrong, x):
    """MindSpore would go on running the old constructs."""
    net = Block()

    def total(x):
        return net(x).sum()

    function, gradient = ms.jit(total), ms.value_and_grad(total, None, net.trainable_params())
    with graph_mode():
        before = float(function(x)), float(net(x).sum()), float(gradient(x)[0])
        report = optimize(net, patterns=(wrong,))
        after = float(function(x)), float(net(x).sum()), float(gradient(x)[0])
        assert all(abs(b - a) > 0.1 for a, b in zip(before, after, strict=True))
        report.restore()
        assert (float(function(x)), float(net(x).sum()), float(gradient(x)[0])) == before


def test_what_computes_something_else_is_not_put_in(wrong, monkeypatch):
    monkeypatch.undo()
    entry = only_entry(optimize(Holder(equivalent_forms.PowMeanNorm()), patterns=(wrong,)))
    assert not entry.replaced
    assert "away from the fused operator's" in entry.text


def test_training_goes_on_as_before(x):
    def losses(substitute):
        ms.set_seed(1)
        net = Block()
        optimizer = nn.Adam(net.trainable_params(), 1e-2)
        gradient = ms.value_and_grad(lambda x: ((net(x) - 1) ** 2).mean(), None, optimizer.parameters)
        values = []
        for step in range(6):
            if substitute and step == 3:
                assert optimize(net).replaced
            loss, gradients = gradient(x)
            optimizer(gradients)
            values.append(float(loss))
        return values

    stock = losses(substitute=False)
    assert stock[-1] < stock[0]
    np.testing.assert_allclose(losses(substitute=True), stock, rtol=1e-4)


@pytest.mark.parametrize(("graph", "recompute"), [(False, False), (False, True), (True, True)])
def test_verify_measures_outputs_and_gradients(graph, recompute, x):
    net = Holder(Block())
    if recompute:
        net.part.recompute()
    with graph_mode() if graph else nullcontext():
        report = optimize(net, verify=[x], gradients=True)
    assert report.rolled_back == ""
    assert [entry.place for entry in report.replaced] == ["part.norm", "part.mlp", "part.last.0"]
    assert 0 <= report.outputs.relative < 1e-5
    assert 0 <= report.gradients.relative < 1e-5
    assert "largest difference of a gradient" in str(report)


def test_beyond_the_tolerance_everything_is_put_back(wrong, x):
    net = Holder(equivalent_forms.PowMeanNorm())
    report = optimize(net, verify=[x], patterns=(wrong,))
    assert type(net.part) is equivalent_forms.PowMeanNorm
    assert report.replaced == []
    assert "the outputs differ by" in report.rolled_back
    assert report.rolled_back in str(report)


def test_a_network_that_fails_with_the_fused_operators_is_put_back(x):
    class Reader(Holder):
        def construct(self, x):
            if type(self.part) is not equivalent_forms.PowMeanNorm:
                raise ValueError("another class")
            return self.part(x)

    net = Reader(equivalent_forms.PowMeanNorm())
    report = optimize(net, verify=[x])
    assert type(net.part) is equivalent_forms.PowMeanNorm
    assert "fails" in report.rolled_back


def test_one_cell_in_two_places(x):
    class Twice(nn.Cell):
        def __init__(self):
            super().__init__()
            self.first = equivalent_forms.PowMeanNorm()
            self.second = self.first
            self.both = [self.first, self.second]

        def construct(self, x):
            return self.first(x) + self.second(x)

    net = Twice()
    expected = numpy(net(x))
    assert [entry.place for entry in optimize(net).replaced] == ["first", "second"]
    assert net.first is net.second is net.both[0] is net.both[1]
    assert type(net.first) is not equivalent_forms.PowMeanNorm
    assert_close(numpy(net(x)), expected, rtol=2e-6, atol=1e-6)


def test_a_second_call_finds_nothing_more():
    net = Block()
    assert len(optimize(net).replaced) == 3
    assert optimize(net).entries == []


def with_hook(cell):
    cell.register_forward_hook(lambda cell, inputs, output: output)


def with_cast(cell):
    cell.to_float(ms.float16)


def with_recompute(cell):
    cell.recompute()


@pytest.mark.parametrize(
    ("change", "reason"), [(with_hook, "hook"), (with_cast, "casts its inputs"), (with_recompute, "recompute")]
)
def test_what_a_cell_was_told_besides_its_construct_keeps_it(change, reason):
    net = Block()
    change(net.norm)
    entries = {entry.place: entry for entry in optimize(net).entries}
    assert not entries["norm"].replaced
    assert reason in entries["norm"].text
    assert entries["last.0"].replaced


NORMS = [
    (equivalent_forms.GroupNormFormula, "GroupNorm"),
    (equivalent_forms.GroupNormFiveAxes, "GroupNorm + SiLU"),
    # An activation is part of it where nobody else takes what comes before.
    (lambda: equivalent_forms.PreActivation("normed"), "GroupNorm"),
    (lambda: equivalent_forms.PreActivation("activated"), "GroupNorm + ReLU"),
    (lambda: equivalent_forms.NormedAndActivated(False), "LayerNorm + ReLU"),
    (lambda: equivalent_forms.NormedAndActivated(True), "LayerNorm + ReLU"),
]


def test_norms_with_inputs(x):
    image = tensor(draw(np.random.default_rng(0), (2, HIDDEN, 4, 3)), "float32")
    inputs = [x if "Layer" in pattern else image for _, pattern in NORMS]
    net = Together([make() for make, _ in NORMS])
    expected = net(*inputs)
    report = optimize(net, verify=inputs, gradients=True)
    found = {entry.place: (entry.pattern, entry.engine) for entry in report.replaced}
    assert sorted(found.values()) == sorted((pattern, "cell") for _, pattern in NORMS)
    assert "parts.2.norm" in found
    # Sums in another order, in float32: accuracy itself is tested with the kernels.
    for (_, pattern), result, wanted in zip(NORMS, net(*inputs), expected, strict=True):
        assert_close(numpy(result), numpy(wanted), atol=1e-5, err_msg=pattern)


@pytest.mark.parametrize("keep", [nn.Identity, nn.Dropout])
def test_sub_cells_that_hand_their_input_on(keep, x):
    """As vision transformers have them, around layers and norms."""

    class Residual(nn.Cell):
        def __init__(self):
            super().__init__()
            self.norm, self.last = nn.LayerNorm((HIDDEN,)), nn.LayerNorm((HIDDEN,))
            self.layer = nn.Dense(HIDDEN, HIDDEN)
            self.drop = keep()

        def construct(self, x):
            x = self.drop(x + self.layer(self.drop(self.norm(x))))
            return self.last(x) + x

    net = Holder(Residual())
    expected = numpy(net(x))
    report = optimize(net, verify=[x], level="O3")
    patterns = ["add + LayerNorm", "LayerNorm"] if keep is nn.Identity else ["LayerNorm", "LayerNorm"]
    assert [e.pattern for e in report.replaced] == [*patterns, "linear layer"]
    assert_close(numpy(net(x)), expected, atol=1e-5)


def test_a_gradient_that_is_zero_but_for_rounding(x):
    """The mean takes away what is added to all features: nothing of that gradient is more than rounding errors."""

    class Shifted(Holder):
        def __init__(self):
            super().__init__(nn.LayerNorm((HIDDEN,)))
            self.shift = Parameter(tensor([0.5], "float32"), name="shift")

        def construct(self, x):
            return self.part(x + self.shift)

    report = optimize(Shifted(), verify=[x], gradients=True)
    assert report.rolled_back == ""
    assert report.gradients.relative < 1e-4


def test_a_small_gradient_that_is_wrong_counts():
    large, small = np.ones(3), np.full(3, 1e-4)
    before = Measured([], [("float32", large), ("float32", small)])
    after = Measured([], [("float32", large), ("float32", 2 * small)])
    _, gradients = before.difference(after)
    assert gradients.relative > before.tolerance


@pytest.mark.parametrize(
    ("stock_weight", "lost"),
    [
        (lambda weight: weight * 1.002, False),  # the rounding errors of a deep network
        (lambda weight: weight * 1.02, True),  # a part of the gradient is missing
        (lambda weight: weight + weight.mean(), True),
    ],
)
def test_rounding_is_no_lost_gradient(stock_weight, lost, x):
    class Scaled(Holder):
        def __init__(self):
            super().__init__(None)
            self.weight = Parameter(tensor(np.linspace(0.5, 1.5, HIDDEN), "float32"), name="weight")
            self.change = None

        def construct(self, x):
            return x * (self.weight if self.change is None else self.change(self.weight))

    @contextmanager
    def stock():
        net.change = stock_weight
        yield
        net.change = None

    net = Scaled()
    assert loses_gradients(net, [[x]], stock) is lost


def test_a_construct_for_each_choice_of_inputs(x):
    class Pair(Holder):
        def construct(self, x, other=None):
            return self.part(x) if other is None else self.part(x, other)

    net = Pair(equivalent_forms.ResidualNorm())
    calls = [[x], [x, x * 2]]
    expected = [numpy(net(*call)) for call in calls]
    report = optimize(net, verify=calls, gradients=True, level="O3")
    assert sorted(e.pattern for e in report.replaced) == ["RMSNorm", "add + RMSNorm"]
    for mode in MODES[:2]:
        for call, values in zip(calls, expected, strict=True):
            assert_close(numpy(run(mode, net, call)), values, atol=1e-5)
    report.restore()
    assert type(net.part) is equivalent_forms.ResidualNorm


@pytest.mark.parametrize(
    ("verify", "error", "got"),
    [
        ([], ValueError, "an empty one"),
        (tensor(np.ones((300, 5)), "float32"), TypeError, "a Tensor of shape (300, 5)"),
        (3, TypeError, "int"),
    ],
    ids=["empty", "tensor", "int"],
)
def test_verify_must_be_inputs(verify, error, got):
    with pytest.raises(error) as raised:
        optimize(Block(), verify=verify)
    assert str(raised.value) == f"optimize: verify must be a list of the inputs of net, got {got}"


def test_inputs_that_do_not_fit_are_named():
    message = r"^optimize: the network fails on verify, x: a Tensor of shape \(2, 7\): .*MatMul"
    wrong = tensor(np.ones((2, 7)), "float32")
    with pytest.raises(ValueError, match=message) as raised:
        optimize(nn.Dense(8, 8), verify=[wrong])
    assert "C++" not in str(raised.value)
    with pytest.raises(TypeError, match=r"verify, x: a Tensor of shape \(2, 7\), int: .*takes 2 positional arguments"):
        optimize(nn.Dense(8, 8), verify=[wrong, 3])


def test_a_table_fits_a_terminal():
    report = Report(entries=[Entry("layers.0.mlp", "SwiGLU", "cell", True, "gate first, " * 12)])
    lines = str(report).splitlines()
    assert max(map(len, lines)) <= 80
    assert " ".join(str(report).split()).endswith(f"replaced ({report.entries[0].text.strip()} )")
    report = Report(entries=[Entry("a.very.long.name." * 5, "SwiGLU", "cell", True, REMOVED)])
    assert str(report).splitlines()[-1] == f"    SwiGLU  cell  {REMOVED}"


@pytest.mark.parametrize("mode", MODES)
def test_the_network_itself(mode, x):
    net = equivalent_forms.PowMeanNorm()
    expected = numpy(net(x))
    entry = only_entry(optimize(net, verify=[x]))
    assert entry.replaced
    assert entry.place == "the network"
    assert_close(numpy(run(mode, net, (x,))), expected, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("graph", [False, True])
def test_looking_changes_nothing(graph, x):
    """Neither parameters, nor training flags, nor the mode."""
    net = Block()
    net.set_train()
    net.last.set_train(False)
    values = [(p.name, numpy(p)) for p in net.get_parameters()]
    flags = {name: cell.training for name, cell in net.cells_and_names()}
    mode = ms.GRAPH_MODE if graph else ms.PYNATIVE_MODE
    ms.set_context(mode=mode)
    try:
        optimize(net, verify=[x])
        assert ms.get_context("mode") == mode
    finally:
        ms.set_context(mode=ms.PYNATIVE_MODE)
    for (name, value), parameter in zip(values, net.get_parameters(), strict=True):
        assert name == parameter.name
        np.testing.assert_array_equal(numpy(parameter), value)
    assert {name: cell.training for name, cell in net.cells_and_names() if name in flags} == flags


def test_the_report_groups_layers():
    class Stack(nn.Cell):
        def __init__(self):
            super().__init__()
            self.layers = nn.CellList([Block() for _ in range(3)])

    text = str(optimize(Stack()))
    assert "layers.*.norm x3" in text
    assert "replaced (eps 3e-06, round_then_scale" in text


def test_bad_arguments():
    with pytest.raises(TypeError, match=r"optimize: net must be a mindspore\.nn.Cell, got int"):
        optimize(3)
    with pytest.raises(TypeError, match="gradients=True needs the inputs"):
        optimize(Block(), gradients=True)
    with pytest.raises(ValueError, match="level must be one of O0, O1, O2, O3, got 'O4'"):
        optimize(Block(), level="O4")
    with pytest.raises(ValueError, match="engines must be of cell, rewrite, got 'cells'"):
        optimize(Block(), engines=["cells"])
    with pytest.raises(TypeError, match="'rewrite' needs inputs"):
        optimize(Block(), engines=["rewrite"])


def test_parameters_that_look_like_norms_but_are_none():
    class Table(nn.Cell):
        """Its only input is a tensor of indices."""

        def __init__(self):
            super().__init__()
            self.table = Parameter(Tensor(np.ones(8, np.float32)), name="table")

        def construct(self, index):
            return self.table[index]

    assert optimize(Holder(Table())).entries == []


def test_cells_that_differ_in_how_they_were_made_are_judged_once(monkeypatch):
    """Seeds of dropout, and initializers, say nothing of what a cell computes; tensors do by their values."""
    judged = []

    def counted(target, calls):
        judged.append(type(target.cell).__name__)
        return cell_engine.analyse(target, calls)

    monkeypatch.setattr(substitute, "analyse", counted)

    class Block(nn.Cell):
        def __init__(self, last=2.0):
            super().__init__()
            self.table = Tensor(np.array([0.0, 1.0, last], np.float32))
            self.layer = nn.Conv2d(HIDDEN, HIDDEN, 1, has_bias=True, weight_init=Normal(0.1), bias_init=Normal(0.1))
            self.norm, self.drop = nn.GroupNorm(4, HIDDEN), nn.Dropout(p=0.5)

        def construct(self, x):
            return x + self.drop(self.norm(self.layer(x))) * self.table.sum()

    image = tensor(draw(np.random.default_rng(0), (2, HIDDEN, 4, 3)), "float32")
    report = optimize(nn.SequentialCell(Block(), Block(), Block(3.0)), verify=[image])
    assert len(report.replaced) == 3
    # Conv2d and Dropout, of which a block is made, are no pattern and not judged by themselves.
    assert Counter(judged) == {"SequentialCell": 1, "Block": 2, "GroupNorm": 1}


@pytest.mark.parametrize("mode", ["pynative", "graph"])
def test_the_run_that_is_watched_is_the_one_to_compare_with(monkeypatch, mode):
    """In PyNative mode; a graph is another program, and runs of its own are compared."""
    runs = []

    def counted(*args):
        runs.append(args)
        return measure(*args)

    monkeypatch.setattr(proof, "measure", counted)
    x = tensor(draw(np.random.default_rng(0), (2, HIDDEN)), "float32")
    with graph_mode() if mode == "graph" else nullcontext():
        report = optimize(Holder(nn.LayerNorm((HIDDEN,))), verify=[x])
    assert len(report.replaced) == 1
    assert report.outputs.relative < 1e-5
    assert len(runs) == (1 if mode == "pynative" else 2)
