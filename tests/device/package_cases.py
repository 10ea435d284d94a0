"""Operators of packages on an emulated device, through their aclnn functions: test_package.py runs this file in an
environment with such a device, in which one process calls all of them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from ctypes import byref, c_size_t, c_uint64, c_void_p
from pathlib import Path
from typing import Any

import mindspore
import numpy as np
import pytest

from ms_ascend_ops import _C, aclnn, ascend, registry
from ms_ascend_ops.registry import Signature
from ms_ascend_ops.version import __version__
from tests.device.acl import Acl
from tests.device.installation import copy
from tests.device.package import SOC, Device, Placed
from tests.kernels.ascend.cases import numpy_type, poisoned, random_call

SIGNATURES = [signature for name in registry.names() for signature in registry.op_spec(name).signatures]
LARGEST = 20_000  # elements of a tensor
KERNEL_UB_BYTES, VECTOR_CORES = 188160, 48
REQUIRED, INVALID, SHAPES, TILING, NO_KERNEL = 161001, 161002, 561001, 561002, 561003


@pytest.fixture(scope="module")
def device() -> Iterator[Device]:
    acl = Acl()
    acl.aclInit(None)
    acl.SetDevice(0)
    _C.set_ub_bytes(KERNEL_UB_BYTES)
    _C.set_thread_num(VECTOR_CORES)
    yield Device(acl)
    _C.set_thread_num(0)
    _C.set_ub_bytes(0)
    acl.ResetDevice(0)
    acl.aclFinalize()


def forward(name: str) -> Signature:
    return registry.op_spec(name).forward


def test_a_package_without_the_kernel(device: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nnopbase looks for the operator by its type, whatever library the aclnn function is from. It looks once."""
    operator = aclnn.Operator(forward("gelu"), SOC)
    folder = copy(tmp_path / "package", operators=["MsAscendOpsAdd"])
    monkeypatch.setenv("ASCEND_CUSTOM_OPP_PATH", str(folder))
    monkeypatch.setenv("ASCEND_OPP_PATH", str(tmp_path))
    tensors = [device.put(np.zeros(8, np.float32), "float32") for _ in range(2)]
    with pytest.raises(RuntimeError, match=f"returned {NO_KERNEL}: MsAscendOpsGelu: no package has it for {SOC}"):
        device.call(forward("gelu"), tensors[:1], {}, tensors[1:], operator=operator)
    device.release()


@pytest.mark.parametrize("signature", SIGNATURES, ids=lambda signature: signature.name)
def test_results_are_those_of_the_host_library(signature: Signature, device: Device) -> None:
    """With the Unified Buffer of the chip, to the bit, for every combination of dtypes."""
    rng = np.random.default_rng(len(signature.name))
    for row in range(len(signature.types)):
        call = random_call(rng, signature, row, LARGEST)
        inputs = [
            None if array is None else device.put(array, dtype)
            for array, dtype in zip(call.inputs, call.dtypes, strict=True)
        ]
        outputs = [device.put(array, dtype) for array, dtype in zip(call.outputs, call.output_types, strict=True)]
        device.call(signature, inputs, call.attributes, outputs)
        device.wait()
        changed = [i for i, tensor in enumerate(signature.inputs) if tensor.name in signature.writes]
        results = [device.get(inputs[i], call.inputs[i]) for i in changed]
        results += [device.get(tensor, array) for tensor, array in zip(outputs, call.outputs, strict=True)]
        expected = [np.empty_like(output) for output in call.outputs]
        if not call.is_empty:
            _C.launch(signature.name, call.inputs, expected, call.attributes)
        expected = [call.inputs[i] for i in changed] + expected
        for result, reference in zip(results, expected, strict=True):
            assert result.tobytes() == reference.tobytes(), f"{call.shapes} {call.dtypes} {call.attributes}"
        device.release()


def test_check_package_takes_it() -> None:
    for signature in SIGNATURES:
        assert ascend.check_package(signature, SOC).version(signature.cann_type) == __version__


def test_views_are_copied_first(device: Device) -> None:
    signature = forward("rms_norm")
    whole = np.random.default_rng(0).normal(size=(7, 3, 65)).astype(np.float32)
    x, gamma = whole.transpose(1, 0, 2)[:, ::2, 1:], whole[0, 0, ::-1][1:].copy()
    y, rstd = poisoned(x.shape, "float32"), poisoned((*x.shape[:2], 1), "float32")
    outputs = [device.put(y, "float32"), device.put(rstd, "float32")]
    device.call(signature, [device.put(x, "float32"), device.put(gamma, "float32")], {}, outputs)
    device.wait()
    _C.launch("rms_norm", [x.copy(), gamma], [y, rstd], signature.check_attributes({}))
    assert device.get(outputs[0], y).tobytes() == y.tobytes()
    assert device.get(outputs[1], rstd).tobytes() == rstd.tobytes()
    device.release()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_views_that_are_changed_are_copied_back(device: Device, dtype: str) -> None:
    """And what lies between their elements stays."""
    rng = np.random.default_rng(0)
    key, value = (rng.normal(size=(3, 2, size)).astype(numpy_type(dtype)) for size in (24, 40))
    whole = rng.normal(size=(2, 5, 4, 2, 64)).astype(numpy_type(dtype))
    slots = np.array([11, -1, 2], np.int32)
    before = whole.copy()
    inputs = [device.put(key, dtype), device.put(value, dtype)]
    storage = device.put(whole, dtype)
    size = whole.itemsize
    views = [whole[0, 1:4, :, :, :24], whole[0, 1:4, :, :, 24:]]
    for view in views:
        offset = view.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
        strides = tuple(stride // size for stride in view.strides)
        inputs.append(Placed(aclnn.Layout(dtype, view.shape, strides), storage.address + offset))
    inputs.append(device.put(slots, "int32"))
    device.call(forward("kv_cache_update"), inputs, {}, [device.put(poisoned((1,), "int32"), "int32")])
    device.wait()
    result = device.get(storage, whole)
    for slot, row in ((11, 0), (2, 2)):
        before[0, 1 + slot // 4, slot % 4, :, :24] = key[row]
        before[0, 1 + slot // 4, slot % 4, :, 24:] = value[row]
    assert result.tobytes() == before.tobytes()
    device.release()


def test_an_empty_output_launches_nothing(device: Device) -> None:
    signature, sizes = forward("silu_mul"), (4, 0)
    x = np.empty(sizes, np.float32)
    asked = []
    tensors = [device.put(x, "float32") for _ in range(3)]
    device.call(signature, tensors[:2], {}, tensors[2:], asked.append)  # type: ignore[arg-type]
    device.wait()
    assert asked == []  # no workspace


def refusal(device: Device, name: str, inputs: list[Any], outputs: list[Any], **attributes: Any) -> tuple[int, str]:
    """The status and the text of a call. Tensors are (shape, dtype), or None."""
    tensors = [None if t is None else device.put(np.zeros(t[0], numpy_type(t[1])), t[1]) for t in (*inputs, *outputs)]
    signature = forward(name)
    with pytest.raises(RuntimeError, match=r"returned \d+") as failure:
        device.call(signature, tensors[: len(inputs)], attributes, tensors[len(inputs) :])  # type: ignore[arg-type]
    device.release()
    text = str(failure.value).partition(" returned ")[2]
    return int(text[:6]), text[8:]


def test_wrong_tensors(device: Device, capfd: pytest.CaptureFixture[str]) -> None:
    x, y, rstd, gamma = ((4, 8), "float32"), ((4, 8), "float32"), ((4, 1), "float32"), ((8,), "float32")
    status, text = refusal(device, "rms_norm", [x, ((7,), "float32")], [y, rstd])
    assert status == TILING
    reason = "rms_norm: gamma.shape[0] must equal x.shape[-1] (8), got (7,)"
    assert reason in text
    assert f"ms_ascend_ops: {reason}" in capfd.readouterr().err
    status, text = refusal(device, "rms_norm", [x, gamma], [((4, 9), "float32"), rstd])
    assert (status, "yOut.shape must be (4, 8), got (4, 9)" in text) == (INVALID, True)
    status, text = refusal(device, "rms_norm", [((0, 8), "float32"), ((7,), "float32")], [((0, 8), "float32")] * 2)
    assert status == SHAPES
    status, text = refusal(device, "rms_norm", [x, ((8,), "float16")], [y, rstd])
    assert status == INVALID
    assert "MsAscendOpsRmsNorm: none of the combinations of dtypes" in text
    assert "x float32, gamma float16, yOut float32, rstdOut float32" in text
    status, text = refusal(device, "rms_norm", [x, None], [y, rstd])
    assert (status, "must not be a null pointer: gamma" in text) == (REQUIRED, True)


class Raw:
    """The two functions of an operator, with their executor between them."""

    def __init__(self, device: Device, name: str):
        self.device, self.operator = device, aclnn.Operator(forward(name), SOC)
        self.size, self.executor = c_uint64(), c_void_p()

    def prepare(self, tensors: list[Any], constants: tuple[Any, ...], count: int) -> int:
        status = self.operator.prepare(
            *tensors[:count], *constants, *tensors[count:], byref(self.size), byref(self.executor)
        )
        return int(status)

    def launch(self, workspace: int | None, size: int) -> int:
        return int(self.operator.launch(workspace, size, self.executor, self.device.handle))


def library(name: str) -> ctypes.CDLL:
    return aclnn._open(name)


def test_a_workspace_that_is_too_small(device: Device) -> None:
    raw, signature = Raw(device, "rms_norm"), forward("rms_norm")
    arrays = [np.zeros(shape, np.float32) for shape in ((4, 8), (8,), (4, 8), (4, 1))]
    tensors = [device.put(array, "float32").create() for array in arrays]
    constants = signature.cann_constants(signature.check_attributes({}))
    assert raw.prepare(tensors, constants, 2) == 0
    assert raw.size.value >= 16 << 20  # what CANN keeps for itself
    workspace = device.allocate(raw.size.value)
    assert raw.launch(workspace, 16) == INVALID
    assert raw.prepare(tensors, constants, 2) == 0
    assert raw.launch(None, raw.size.value) == REQUIRED


def test_an_executor_that_is_used_again(device: Device) -> None:
    """As MindSpore's graphs do: prepared without addresses, which come before each launch by the argument's number."""
    raw, signature, base = Raw(device, "kv_cache_update"), forward("kv_cache_update"), library("libnnopbase.so")
    rng, dtype = np.random.default_rng(0), "float16"
    arrays = [rng.normal(size=shape).astype(dtype) for shape in ((3, 2, 24), (3, 2, 40), (3, 4, 2, 24), (3, 4, 2, 40))]
    arrays += [np.array([11, -1, 2], np.int32), poisoned((1,), "int32")]
    types = [*[dtype] * 4, "int32", "int32"]
    empty = [device.put(array, one) for array, one in zip(arrays, types, strict=True)]
    tensors = [Placed(tensor.layout, 0).create() for tensor in empty]
    assert raw.prepare(tensors, (), len(signature.inputs)) == 0
    assert base.aclSetAclOpExecutorRepeatable(raw.executor) == 0
    workspace = device.allocate(raw.size.value)
    for turn in range(2):
        arrays[0] = (arrays[0] + turn).astype(dtype)
        placed = [device.put(array, one) for array, one in zip(arrays, types, strict=True)]
        for i, tensor in enumerate(placed):
            assert base.aclSetTensorAddr(raw.executor, c_size_t(i), c_void_p(tensors[i]), c_void_p(tensor.address)) == 0
        assert raw.launch(workspace, raw.size.value) == 0
        device.wait()
        cache = arrays[2].copy().reshape(12, 2, 24)
        cache[[11, 2]] = arrays[0][[0, 2]]
        assert device.get(placed[2], arrays[2]).tobytes() == cache.tobytes()
        assert device.get(placed[5], arrays[5])[0] == 0
    assert base.aclSetTensorAddr(raw.executor, c_size_t(99), c_void_p(tensors[0]), None) == INVALID
    assert base.aclDestroyAclOpExecutor(raw.executor) == 0
    device.release()


@pytest.mark.parametrize("dtype", ["float16", "float32", "bfloat16"])
def test_an_operator_whose_package_cann_built(device: Device, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """MindSpore's AllFinite, which says where something is not finite: its aclnn functions are those of its wheel."""
    package = Path(mindspore.__file__).parent / "lib/plugin/ascend/custom_ascendc_910b"
    monkeypatch.setenv("ASCEND_CUSTOM_OPP_PATH", str(package))
    library("libnnopbase.so")
    functions = ctypes.CDLL(str(package / "op_api/lib/libcust_opapi.so"))
    for last, flag, expected in ((1, 0, 0), (np.inf, 0, 1), (np.nan, 0, 1), (1, 1, 1)):
        x = np.ones((5, 40), numpy_type(dtype))
        x[-1, -1] = last
        gradient, result = device.put(x, dtype), device.put(np.full(1, flag, np.int8), "int8")
        bits = aclnn.function("aclCreateTensor")(
            *((ctypes.c_int64 * 1)(1), 1, 12, None, 0, 2, (ctypes.c_int64 * 1)(1), 1, result.address)
        )
        size, executor = c_uint64(), c_void_p()
        tensors = c_void_p(gradient.create()), c_void_p(bits)
        assert functions.aclnnAllFiniteGetWorkspaceSize(*tensors, byref(size), byref(executor)) == 0
        workspace = device.allocate(size.value) if size.value else None
        assert functions.aclnnAllFinite(c_void_p(workspace), size, executor, device.handle) == 0
        device.wait()
        assert device.get(result, np.zeros(1, np.int8))[0] == expected
    device.release()
