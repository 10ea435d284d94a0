"""Private names of MindSpore: one module has them, and where one is gone something is slower, not broken."""

import ast
import logging
from importlib import import_module
from pathlib import Path

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn, ops
from ms_ascend_ops.export.graphs.modes import synchronous

import ms_ascend_ops
from ms_ascend_ops import direct, registry
from ms_ascend_ops import mindspore_versions as versions
from ms_ascend_ops.ops import layer_norm
from tests.modes import run

PACKAGE = Path(ms_ascend_ops.__file__).parent
FOLDERS = [PACKAGE, *(PACKAGE.parent / name for name in ("cells", "export", "samples"))]
# What these are for is in MindSpore under the same name in each version.
ALLOWED = {"shims.py": {"_infer_ops"}}


def imported(file):
    """The names of MindSpore that a file imports, with the modules that they are in."""
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        module = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from (n for a in node.names if (n := module + a.name).partition(".")[0] == "mindspore")


def test_no_other_file_imports_a_private_name():
    found = {}
    for file in (file for folder in FOLDERS if folder.is_dir() for file in folder.rglob("*.py")):
        if file.name == "mindspore_versions.py" or "lib" in file.relative_to(PACKAGE.parent).parts:
            continue
        private = [n for n in imported(file) if any(p.startswith("_") for p in n.split("."))]
        found[file] = {n.rpartition(".")[2] for n in private} - ALLOWED.get(file.name, set())
    assert {str(file): names for file, names in found.items() if names} == {}


def test_each_private_name_is_there():
    """In the MindSpore of this environment: one that is gone with another version is to be looked at."""
    gone = [entry.name for entry in versions.PRIVATE if versions.private(entry.name) is None]
    assert gone == ([] if versions.version() >= (2, 9) else ["MsDispatchMode"])


def test_a_name_that_is_gone(monkeypatch, caplog):
    entry = versions.Private("_gone", ("mindspore.graph.api",), "operators are called by MindSpore, slower")
    monkeypatch.setattr(versions, "PRIVATE", (entry,))
    monkeypatch.setattr(versions.ms, "__version__", "2.99.0")
    versions.private.cache_clear()
    with caplog.at_level(logging.WARNING, "ms_ascend_ops"):
        assert versions.private("_gone") is None
        assert versions.private("_gone") is None
    versions.private.cache_clear()
    (record,) = caplog.records
    assert record.message == (
        "MindSpore 2.99.0 has no mindspore.graph.api._gone: operators are called by MindSpore, slower"
    )


@pytest.mark.parametrize(("version", "said"), [
    ("2.99.0", ["MindSpore 2.99.0 was not tried with this library; 2.7.0, 2.7.1, 2.7.2, 2.8.0, 2.9.0, 2.10.0 were"]),
    ("2.10.1", []),
])  # fmt: skip
def test_a_version_that_was_not_tried(monkeypatch, caplog, version, said):
    monkeypatch.setattr(versions.ms, "__version__", version)
    with caplog.at_level(logging.WARNING, "ms_ascend_ops"):
        versions.say_if_not_tried()
    assert [record.message for record in caplog.records] == said


@pytest.mark.parametrize(("version", "device", "expected"), [
    ("2.8.0", "CPU", True), ("2.8.0", "Ascend", False), ("2.9.0", "CPU", False), ("2.10.0", "CPU", False),
])  # fmt: skip
def test_faults_of_a_version_and_a_device(monkeypatch, version, device, expected):
    monkeypatch.setattr(versions.ms, "__version__", version)
    monkeypatch.setattr(versions, "device_target", lambda: device)
    assert versions.has_fault("bfloat16 on a CPU") is expected


def test_no_primitive_is_missed_beside_the_threads_of_pynative():
    """MindSpore's own `MsDispatchMode` does not see that of a tensor which an operator has made in another thread."""
    from ms_ascend_ops.export.graphs.dispatch_mode import DispatchMode  # noqa: PLC0415

    class Names(DispatchMode):
        def __ms_dispatch__(self, func, args, kwargs=None):
            names.append(func.name)
            return func(*args)

    names = []
    x = Tensor(np.ones((2, 3, 8), np.float32)) * 2
    with Names():
        y = -x
    assert names == ["Neg"]
    np.testing.assert_array_equal((y * 2).asnumpy(), -4)
    assert names == ["Neg"]


def test_a_built_in_without_a_kernel_is_found_beside_the_threads_of_pynative():
    """Before 2.9 MindSpore reports a missing kernel at a later call, once an operator has run in another thread."""
    from ms_ascend_ops.export.graphs.trace import trace  # noqa: PLC0415

    class Norm(nn.Cell):
        def construct(self, x):
            return ops.rms_norm(x, Tensor(np.ones(8, np.float32)), 1e-5)[0]

    x = Tensor(np.linspace(0.5, 1.5, 16, dtype=np.float32).reshape(2, 8))
    (x * 2).asnumpy()
    with synchronous():
        seen = trace(Norm(), {"x": x})
    assert [node.kind for node in seen.graph.nodes if node.kind != "TupleGetItem"] == ["RmsNorm"]


def test_primitives_are_recorded_where_mindspore_has_no_dispatch_mode():
    """As 2.7 and 2.8 run it; the other way is what `optimize` uses here."""
    from ms_ascend_ops.export.graphs.dispatch_mode import _EarlyDispatchMode  # noqa: PLC0415

    class Names(_EarlyDispatchMode):
        def __ms_dispatch__(self, func, args, kwargs=None):
            names.append(func.name)
            return func(*args)

    names = []
    x = Tensor(np.ones((2, 3), np.float32))
    with Names():
        (x + x).mean(-1)
    assert names == ["AddExt", "MeanExt"]
    names.clear()
    _ = x + x
    assert names == []


def test_a_primitive_is_run_by_what_records_it():
    """It may answer itself: a CPU has no kernel of this one. With MindSpore 2.7 and 2.8, as above."""
    from ms_ascend_ops.export.graphs.dispatch_mode import _EarlyDispatchMode  # noqa: PLC0415

    class Answers(_EarlyDispatchMode):
        def __ms_dispatch__(self, func, args, kwargs=None):
            names.append(func.name)
            return (x * 2, x) if func.name == "RmsNorm" else func(*args)

    names = []
    x = Tensor(np.ones((2, 3), np.float32))
    with Answers():
        y, _ = ops.rms_norm(x, x[0], 1e-5)
    assert names.count("RmsNorm") == 1
    assert "Mul" not in names  # what the answer is computed by is not recorded
    np.testing.assert_array_equal(y.asnumpy(), 2)


def test_another_numpy_is_named(monkeypatch):
    """NumPy 2, for which MindSpore registers no bfloat16, and fails at `x + 1.0` with a SystemError."""
    monkeypatch.setattr(versions, "private", lambda name: object())
    versions.numpy_bfloat16.cache_clear()
    message = rf"does not work with NumPy {np.__version__}: pip install 'numpy>=1\.25,<2'"
    with pytest.raises(RuntimeError, match=message):
        versions.numpy_bfloat16()


@pytest.mark.parametrize("dtype", [ms.bfloat16, ms.float32, ms.int32])
def test_what_gradients_take_where_bfloat16_has_no_zeros(dtype):
    x = Tensor(np.array([[1, 2], [3, np.inf]], np.float32))[: 2 if dtype != ms.int32 else 1].astype(dtype)
    for make, value in ((versions._zeros_like, 0), (versions._ones_like, 1)):
        made = ms.jit(make)(x)
        assert (made.shape, made.dtype) == (x.shape, dtype)
        np.testing.assert_array_equal(made.astype(ms.float32).asnumpy(), value)
        np.testing.assert_array_equal(make(x).astype(ms.float32).asnumpy(), value)


@pytest.mark.parametrize("name", direct._NEEDED)
def test_no_fast_path_without_what_it_needs(monkeypatch, name):
    """It would return no tensor, record no gradient, or not cast as MindSpore does."""
    signature = registry.signature("gelu")
    attributes = {attribute.name: attribute.default for attribute in signature.attributes}
    assert direct.direct(signature, signature.inputs, attributes, None) is not None
    monkeypatch.setattr(direct, "private", lambda asked: None if asked == name else versions.private(asked))
    assert direct.direct(signature, signature.inputs, attributes, None) is None


def test_selectors_are_asked_with_parameters():
    """Of the function that asks: what else it has may come from a call with an effect, by which the node would stay."""
    found = {}
    for file in sorted((PACKAGE / "ops").glob("*.py")):
        for function in (node for node in ast.walk(ast.parse(file.read_text("utf-8"))) if _asks(node)):
            changed = {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
            fixed = {argument.arg for argument in function.args.args} - changed
            for call in filter(_is_selection, ast.walk(function)):
                computed = [a for a in call.args if not isinstance(a, ast.Constant) and ast.unparse(a) not in fixed]
                found[file.name] = found.get(file.name, []) + [ast.unparse(a) for a in computed]
    assert len(found) > 30
    assert {name: computed for name, computed in found.items() if computed} == {}


def _is_selection(node):
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "_select"


def _asks(node):
    return isinstance(node, ast.FunctionDef) and any(map(_is_selection, ast.walk(node)))


def _printed(x, gamma, beta, _):
    print("rows", x.sum())
    return gamma, beta


@pytest.mark.parametrize("mode", ["graph", "jit"])
def test_a_gradient_behind_a_call_with_an_effect(mode, monkeypatch):
    monkeypatch.setattr(import_module("ms_ascend_ops.ops.layer_norm"), "scale_and_shift", _printed)
    x, gamma = Tensor(np.random.default_rng(0).normal(size=(4, 33)), ms.float32), Tensor(np.ones(33), ms.float32)

    def loss(x, gamma):
        return (layer_norm(x, gamma, gamma)[0] * x).sum()

    expected = ms.grad(loss, (0, 1))(x, gamma)
    for result, value in zip(run(mode, ms.grad(loss, (0, 1)), (x, gamma)), expected, strict=True):
        np.testing.assert_allclose(result.asnumpy(), value.asnumpy(), rtol=1e-6, atol=1e-6)
