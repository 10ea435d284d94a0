"""A MindIR with our operators, or with their gradients, runs in a process that imports MindSpore only."""

import subprocess
import sys

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn
from ms_ascend_ops.samples.network import flat

from ms_ascend_ops import RMSNorm, SwiGLU
from tests.acceptance import assert_accurate
from tests.every_operator import examples
from tests.modes import graph_mode
from tests.reference import rms_norm, swiglu

# One process for all: to import MindSpore takes longer than to run them. What happens to a graph stands in its log.
RUN = """
import pathlib, sys, traceback
import mindspore as ms
import numpy as np

ms.set_context(mode=ms.GRAPH_MODE)
for path in sorted(pathlib.Path(sys.argv[1]).glob("*.mindir")):
    try:
        network = ms.nn.GraphCell(ms.load(str(path)))
        for inputs in sorted(path.parent.glob(f"{path.stem}.x*.npz")):
            with np.load(inputs) as arrays:
                results = network(*(ms.Tensor(arrays[name]) for name in arrays.files))
            results = results if isinstance(results, tuple) else (results,)
            np.savez(inputs.with_suffix(".y.npz"), *(value.asnumpy() for value in results))
    except Exception:
        path.with_suffix(".log").write_text(traceback.format_exc())
assert "ms_ascend_ops" not in sys.modules
"""


def export(network, like, path):
    with graph_mode():
        ms.export(network, *like, file_name=str(path), file_format="MINDIR")


def save(path, arrays):
    np.savez(path, *arrays)


def load(path):
    with np.load(path) as arrays:
        return [arrays[name] for name in arrays.files]


def cases(thorough):
    """(operator, whether dims are known) of what is exported.

    A file holds every attribute that PyNative has (tests/ops/test_dynamic_shapes.py runs all their variants in graphs):
    of each operator the last, whose attributes are not the defaults. What a gradient gets is what its forward gets: of
    every sixth operator. With known dims tests/npu exports some.
    """
    first = {(example.name, example.gradient): example for example in reversed(examples())}
    last = {example.name: example for example in examples() if not example.gradient}
    few = [*last.values(), *[example for example in first.values() if example.gradient][::6]]
    static = [(example, "static") for example in first.values()] if thorough else []
    return static + [(example, "dynamic") for example in examples() if thorough or example in few]


@pytest.fixture(scope="module")
def ran(tmp_path_factory, request):
    """Exported with the first of its small shapes, or with unknown dims and run with both shapes."""
    folder = tmp_path_factory.mktemp("mindir")
    for example, form in cases(request.config.getoption("cases") == "all"):
        inputs = [example.tensors(shape=shape) for shape in example.operator.small_shapes]
        like = inputs[0]
        if form == "static":
            inputs = inputs[:1]
        else:
            like = example.unknown(lambda ndim: (None,) * ndim)
        export(example.network(), like, folder / f"{example}.{form}")
        for i, each in enumerate(inputs):
            save(folder / f"{example}.{form}.x{i}.npz", [tensor.asnumpy() for tensor in each])
    of_layers = export_layers(folder)
    subprocess.run([sys.executable, "-c", RUN, str(folder)], check=True)
    return folder, of_layers


@pytest.mark.parametrize(
    ("example", "form"),
    [case if case in cases(False) else pytest.param(*case, marks=pytest.mark.thorough) for case in cases(True)],
    ids=str,
)
def test_every_operator(example, form, ran):
    """The bits that PyNative gives."""
    ran, _ = ran
    log = ran / f"{example}.{form}.log"
    assert not log.exists(), log.read_text()
    for i, shape in enumerate(example.operator.small_shapes[: 1 if form == "static" else None]):
        expected = flat(example.network()(*example.tensors(shape=shape)))
        results = load(ran / f"{example}.{form}.x{i}.y.npz")
        for result, value in zip(results, expected, strict=True):
            assert np.array_equal(result, value.asnumpy())


class Network(nn.Cell):
    def __init__(self):
        super().__init__()
        self.norm = RMSNorm(8, param_init=Tensor(np.linspace(0.5, 2, 8, dtype=np.float32)))
        self.swiglu = SwiGLU()

    def construct(self, x):
        return self.swiglu(self.norm(x))


def export_layers(folder):
    """Every dim known, the features, or none. Returns what has to come out."""
    network, rng, expected = Network(), np.random.default_rng(0), {}
    weight = network.norm.weight.asnumpy().astype(np.float64)
    for i, shape in enumerate([(3, 8), (None, 8), (None, None)]):
        init = {} if None in shape else {"init": "zeros"}
        export(network, [Tensor(shape=shape, dtype=ms.float32, **init)], folder / f"network{i}")
        for j, rows in enumerate((3, 3) if shape[0] else (2, 5)):
            x = rng.normal(size=(rows, 8)).astype(np.float32)
            save(folder / f"network{i}.x{j}.npz", [x])
            expected[f"network{i}.x{j}.y.npz"] = swiglu.forward(rms_norm.forward(x.astype(np.float64), weight)[0])
    return expected


def test_a_network_with_layers(ran):
    folder, expected = ran
    for name, golden in expected.items():
        assert_accurate(load(folder / name)[0], golden, "float32")
