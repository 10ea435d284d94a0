"""The program of test_mindspore.py, for `emulate`: what it asks of MindSpore's Ascend backend, in one process.

Every operator runs in PyNative, where every kernel's results have to be those of the host library to the bit; then in
one of the other modes, in turn, which have to give what PyNative gave. FILE gets a line of JSON for each. What
MindSpore's own operators give goes into a pickle beside it.
"""

from __future__ import annotations

import json
import pickle
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import mindspore as ms
import ml_dtypes
import numpy as np
import pytest
from mindspore import Tensor, nn, ops
from ms_ascend_ops.samples.network import flat

from examples import llama
from ms_ascend_ops import (
    _C,
    AddRMSNorm,
    GroupNorm,
    LayerNorm,
    RMSNorm,
    SwiGLU,
    aclnn,
    direct_npu,
    export_mindir,
    load,
    optimize,
    registry,
)
from ms_ascend_ops.registry import Signature
from tests.acceptance import assert_close
from tests.device import stock_operators
from tests.every_operator import Example, examples
from tests.modes import graph_mode
from tests.tensors import numpy

DTYPES = ("float32", "float16", "bfloat16")
UB_BYTES = 188160  # what kernels have of a 910B's
CORES = 48
FUNCTION = direct_npu._function
FLOAT32 = direct_npu._TYPES["float32"]


class Watched:
    """An operator whose launches in PyNative are repeated by the host library: the same bits have to come out."""

    launches = 0

    def __init__(self, signature: Signature, given: Any, attributes: Mapping[str, Any], soc: str):
        self.function = FUNCTION(signature, given, attributes, soc)
        self.signature = signature
        self.places = [given.index(spec) if spec in given else None for spec in signature.inputs]
        self.attributes = {spec.name: attributes[spec.name] for spec in signature.attributes}

    def __call__(self, tensors: tuple[Tensor, ...], forms: direct_npu.Forms) -> list[Tensor]:
        name = self.signature.name
        given = [None if place is None else held(tensors[place]) for place in self.places]
        results = self.function(tensors, forms)
        changed = [i for i, spec in enumerate(self.signature.inputs) if spec.name in self.signature.writes]
        found = [held(tensors[self.places[i]]) for i in changed] + [held(result) for result in results]
        expected = [np.empty_like(array) for array in found[len(changed) :]]
        if all(array.size for array in expected):
            _C.launch(name, given, expected, self.attributes)
        for one, other in zip(found, [*(given[i] for i in changed), *expected], strict=True):
            assert one.tobytes() == other.tobytes(), f"{name}{self.attributes}: not the bits of the host library"
        Watched.launches += 1
        return results


def held(tensor: Tensor) -> Any:
    """What is in the tensor, in its own dtype."""
    array = np.array(tensor.asnumpy())
    return array.view(ml_dtypes.bfloat16) if tensor.dtype == ms.bfloat16 else array


def pynative(example: Example, dtype: str, folder: Path) -> list[Any]:
    """What the example gives."""
    before = Watched.launches
    results = values(example.network()(*example.tensors(dtype)))
    assert Watched.launches > before, "no kernel of the package was launched"
    return results


def jit(example: Example, dtype: str, folder: Path) -> list[Any]:
    network = example.network()

    @ms.jit(jit_level="O0")
    def run(*tensors):  # type: ignore[no-untyped-def]
        return network(*tensors)

    return values(run(*example.tensors(dtype)))


def graph(example: Example, dtype: str, folder: Path) -> list[Any]:
    with graph_mode():
        return values(example.network()(*example.tensors(dtype)))


def dynamic(example: Example, dtype: str, folder: Path) -> list[Any]:
    """With every size unknown to the graph."""
    with graph_mode():
        network = example.network()
        network.set_inputs(*example.unknown(lambda rank: [None] * rank))
        return values(network(*example.tensors(dtype)))


def mindir(example: Example, dtype: str, folder: Path) -> list[Any]:
    """Exported for this device, and loaded for it."""
    path = export_mindir(example.network(), *example.tensors(dtype), path=folder / str(example))
    return values(load(path)(*example.tensors(dtype)))


Mode = Callable[[Example, str, Path], list[Any]]
MODES: tuple[Mode, ...] = (jit, graph, dynamic, mindir)


def values(results: Any) -> list[Any]:
    return [numpy(result) for result in flat(results)]


class Block(nn.Cell):  # type: ignore[misc]
    """Layers of this library, between some of MindSpore's."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.dense, self.up = RMSNorm(16), nn.Dense(16, 16), nn.Dense(16, 32)
        self.second, self.swiglu, self.last = AddRMSNorm(16), SwiGLU(), LayerNorm([16])
        self.groups = GroupNorm(4, 16)

    def construct(self, x):  # type: ignore[no-untyped-def]
        y, x = self.second(self.dense(self.first(x)), x)
        y = self.last(x + self.swiglu(self.up(y)))
        return self.groups(y.reshape(2, 16, 3, 2)).mean()


def layers() -> str:
    """A step of training: the loss and every gradient, in PyNative and in a graph."""
    ms.set_seed(1)
    block, x = Block(), Tensor(np.random.default_rng(0).normal(size=(2, 6, 16)).astype(np.float32))
    step = ms.value_and_grad(block, None, block.trainable_params())
    loss, gradients = step(x)
    with graph_mode():
        other_loss, others = ms.jit(step, jit_level="O0")(x)
    assert np.isfinite(float(loss)), loss
    for one, other in zip([loss, *gradients], [other_loss, *others], strict=True):
        np.testing.assert_allclose(numpy(one), numpy(other), rtol=1e-5, atol=1e-7)
    assert len(gradients) == 10, len(gradients)
    return "ok"


def not_emulated() -> str:
    """What compiles for an NPU ends in one message that says what to use instead."""
    for options, function in (
        ({"jit_level": "O1"}, "rtDevBinaryRegister"),
        ({"backend": "GE"}, "ge::Session::Session"),
    ):

        @ms.jit(**options)
        def run(x):  # type: ignore[no-untyped-def]
            return ms.ops.relu(x + x) * 2

        try:
            run(Tensor(np.ones(8, np.float32)))
        except RuntimeError as error:
            text = str(error)
        else:
            raise AssertionError(f"{options}: there is a result")
        assert f"emulated device: it does not have {function} (called by libmindspore_" in text, text
        assert 'use PyNative, or ms.jit(jit_level="O0")' in text, text
    return "ok"


def refused() -> str:
    """What CANN refuses is told where the program waits, and the device goes on."""
    x, known = Tensor(np.ones(3, np.float32)), dict(aclnn.VALUES)
    aclnn.VALUES["float32"] = ("a dtype that CANN does not have", 999)
    direct_npu._cann.cache_clear()
    try:
        function = unwatched("gelu")
    finally:
        aclnn.VALUES.update(known)
        direct_npu._cann.cache_clear()
    with pytest.raises(RuntimeError, match="gelu: aclnnMsAscendOpsGeluGetWorkspaceSize returned 161002: "):
        function((x,), [(FLOAT32, (3,))])[0].asnumpy()
    assert (x + x).asnumpy().tolist() == [2, 2, 2]
    return "ok"


def in_order() -> str:
    """A call comes behind those of MindSpore's own operators that change its input in place."""
    x, swiglu, results = Tensor(np.zeros((4, 8), np.float32)), unwatched("swiglu"), []
    for _ in range(50):
        x.add_(1.0)
        results += swiglu((x,), [(FLOAT32, (4, 4))])
    for count, result in enumerate(results, 1):
        # Another order would give the value of another count, at least 2 % away; 1e-5 is float32 with an exp.
        np.testing.assert_allclose(result.asnumpy(), count * count / (1 + np.exp(-count)), rtol=1e-5)
    return "ok"


def unwatched(name: str) -> Callable[..., list[Tensor]]:
    signature = registry.signature(name)
    return FUNCTION(signature, signature.inputs, signature.check_attributes({}), "ascend910b")


def unknown_operator() -> str:
    """One that the device has not: it is named, with what to use instead. MindSpore says less; the text is printed."""
    try:
        ms.ops.lgamma(Tensor(np.ones(3, np.float32))).asnumpy()
    except RuntimeError:
        return "ok"
    raise AssertionError("there is a result")


def substitution() -> str:
    """`optimize` finds what it finds on a CPU, where MindSpore has other primitives for `x + 1`, `x += y`, `x**2`."""
    ms.set_seed(1)
    norm = llama.LlamaRMSNorm(16)
    network = nn.SequentialCell(norm, nn.Dense(16, 16), Summed())
    x = Tensor(np.random.default_rng(0).normal(size=(2, 3, 16)).astype(np.float32))
    step = ms.value_and_grad(lambda x: network(x).square().mean(), 0, network.trainable_params())
    before = values(step(x))
    report = optimize(network, level="O2")
    assert sorted(entry.pattern for entry in report.replaced) == ["RMSNorm", "RMSNorm"], report
    for one, other in zip(before, values(step(x)), strict=True):
        # Sums of 96 terms of float32 in another order; the squares of values near 0 leave gradients near 0.
        assert_close(one, other, rtol=1e-4, atol=1e-6)
    return "ok"


class Summed(nn.Cell):  # type: ignore[misc]
    """A sum and a product in place in front of a norm, as decoders have it."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = ms.Parameter(np.linspace(0.5, 2, 16, dtype=np.float32), name="weight")
        self.dense = nn.Dense(16, 16)

    def construct(self, x):  # type: ignore[no-untyped-def]
        y = self.dense(x)
        y += x
        y.mul_(0.5)
        return self.weight * (y * ops.rsqrt((y**2).mean(-1, keep_dims=True) + 1e-6)) + y


def checks(folder: Path, thorough: bool) -> Iterator[tuple[str, Callable[[], str]]]:
    """Names, and what to run.

    In each dtype only if `thorough`, or else by turns: tests/device/test_package.py calls every kernel in all of them.
    Graphs, which take half a second each, of all that have one if `thorough`, or else of the operators' first variants,
    and one gradient in three.
    """
    turns, dtypes = cycle(MODES), cycle(DTYPES[1:])
    seen: set[tuple[str, bool]] = set()
    for number, example in enumerate(examples()):
        is_first = (example.name, example.gradient) not in seen
        seen.add((example.name, example.gradient))
        known: dict[str, list[Any]] = {}
        for dtype in DTYPES if thorough else (DTYPES[0], next(dtypes)) if is_first else DTYPES[:1]:
            yield f"{example} pynative {dtype}", partial(alone, example, dtype, known, folder)
        if thorough or (is_first and (not example.gradient or number % 3 == 0)):
            mode = next(turns)
            yield f"{example} {mode.__name__}", partial(compared, example, mode, known, folder)
    yield "layers", layers
    yield "refused", refused
    yield "in order", in_order
    yield "not emulated", not_emulated
    yield "unknown operator", unknown_operator
    yield "substitution", substitution


def alone(example: Example, dtype: str, known: dict[str, list[Any]], folder: Path) -> str:
    known[dtype] = pynative(example, dtype, folder)
    return "ok"


def compared(example: Example, mode: Mode, known: dict[str, list[Any]], folder: Path) -> str:
    for one, other in zip(known[DTYPES[0]], mode(example, DTYPES[0], folder), strict=True):
        np.testing.assert_array_equal(one, other)
    return "ok"


def main(file: Path, thorough: bool) -> None:
    ms.set_device("Ascend")
    _C.set_ub_bytes(UB_BYTES)
    _C.set_thread_num(CORES)
    direct_npu._function = Watched  # type: ignore[assignment]
    with file.open("w", encoding="utf-8") as out, TemporaryDirectory() as folder:
        for name, check in checks(Path(folder), thorough):
            try:
                found = check()
            except Exception:
                found = traceback.format_exc()
            out.write(json.dumps([name, found]) + "\n")
            out.flush()
    file.with_suffix(".pickle").write_bytes(pickle.dumps(dict(stock_operators.results())))


if __name__ == "__main__":
    main(Path(sys.argv[1]), "--thorough" in sys.argv)
