"""Builds the generated op_host files against the headers of the emulated device, and calls them; runs kernel entries.

All op_host files are one unit, with its C interface (kernels/device/nnopbase/op_host_api.h), and with casts that are
checked. The entries are those of the installed library.
"""

import ctypes
import fcntl
import functools
import hashlib
import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from codegen.ascend import project
from codegen.ascend.chips import CHIPS
from codegen.ascend.emulated import host_unit
from codegen.tiling_header import CUBE_TILING

from ms_ascend_ops import aclnn, registry
from ms_ascend_ops.library import library_path
from tests.kernels.host.module import BUILD, ROOT

HERE = Path(__file__).parent
DEVICE = ROOT / "kernels" / "device" / "nnopbase"
FOLDER = BUILD / "op_host"
SOURCE = project.Source(ROOT / "ms_ascend_ops" / "ops", ROOT / "kernels")
LIBRARY_WORKSPACE = 16 << 20  # LIBRARY_WORKSPACE_BYTES of kernels/interface/package.h
UB_BYTES = 192 * 1024 - 256  # what CANN reports for Atlas A2
KERNEL_UB_BYTES = UB_BYTES - 8 * 1024  # what it leaves to kernels
CANN_DTYPES = {name: value for name, (_, value) in aclnn.VALUES.items() if name != "ND"}
OPTIONAL, REQUIRED = 1, 2
MAX_RANK = 8
# Of TCubeTiling, as far as kernels read it.
CUBE_FIELDS = ("M", "N", "Ka", "Kb", "singleCoreM", "singleCoreN", "singleCoreK", "baseM", "baseN", "baseK", "isBias")

FLAGS = ["-std=c++17", "-O0", "-w", "-fPIC", "-D_GLIBCXX_USE_CXX11_ABI=0"]


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("dtype", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
    )


class _Attribute(ctypes.Structure):
    _fields_ = (("integer", ctypes.c_int64), ("real", ctypes.c_double))


class _Call(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_char_p),
        ("inputs", ctypes.POINTER(_Tensor)),
        ("input_count", ctypes.c_size_t),
        ("attributes", ctypes.POINTER(_Attribute)),
        ("attribute_count", ctypes.c_size_t),
    )


class _Chip(ctypes.Structure):
    _fields_ = (("vector_cores", ctypes.c_uint32), ("ub_bytes", ctypes.c_uint64))


class _TilingResult(ctypes.Structure):
    _fields_ = (
        ("block_dim", ctypes.c_uint32),
        ("schedule_mode", ctypes.c_uint32),
        ("tiling_key", ctypes.c_uint64),
        ("workspace_bytes", ctypes.c_uint64),
        ("data_bytes", ctypes.c_uint64),
        ("data", ctypes.c_uint8 * 4096),
    )


class _Shape(ctypes.Structure):
    _fields_ = (("rank", ctypes.c_int32), ("sizes", ctypes.c_int64 * MAX_RANK))


class _KernelTensor(ctypes.Structure):
    """MsAscendTensor."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("dtype", ctypes.c_char_p),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("rank", ctypes.c_int32),
    )


@dataclass(frozen=True)
class Tiling:
    """What a tiling function gave CANN."""

    ok: bool
    block_dim: int
    schedule_mode: int
    tiling_key: int
    workspace_bytes: int
    data: bytes
    fields: dict


@functools.cache
def kernels():
    """Every kernel of the registry that the package for Atlas A2 has, by name."""
    found, refused = project.collect(SOURCE, [CHIPS["ascend910b"]])
    assert not refused
    return {kernel.signature.name: kernel for kernel in found}


def signatures():
    """The signatures of all operators, forward and gradient."""
    return [signature for name in registry.names() for signature in registry.op_spec(name).signatures]


@functools.cache
def library():
    """The module, brought up to date by one process at a time."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        module = ctypes.CDLL(str(_build()))
    module.MsAscendHostDescribe.restype = module.MsAscendHostReason.restype = ctypes.c_char_p
    return module


def _build():
    out, fresh = FOLDER / "project", FOLDER / "fresh"
    project.write(list(kernels().values()), SOURCE, fresh, None, own_cmake=True, onnx=False)
    unit = fresh / "op_host.cpp"
    unit.write_text(_checked_casts(fresh) + host_unit(fresh), encoding="utf-8")
    digest = hashlib.sha256()
    sources = [
        *(fresh / "op_host").rglob("*.*"),
        unit,
        *DEVICE.rglob("*.h"),
        *DEVICE.glob("op_host*"),
        *HERE.glob("*.h"),
    ]
    for path in sorted(sources):
        digest.update(path.read_bytes())
    target = FOLDER / f"op_host_{digest.hexdigest()[:16]}.so"
    if target.exists():
        return target
    shutil.rmtree(out, ignore_errors=True)
    fresh.rename(out)
    for old in FOLDER.glob("op_host_*.so"):
        old.unlink()
    includes = [f"-I{path}" for path in (DEVICE / "include", DEVICE, ROOT / "kernels", out / "op_host")]
    command = ["g++", *FLAGS, *includes, "-shared", str(out / unit.name), "-o", str(target)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"the generated code does not compile:\n{done.stderr[:3000]}"
    return target


def _checked_casts(folder):
    """Behind what the files of op_host include of the system: no cast of that is checked."""
    files = sorted((folder / "op_host").glob("*.*"))
    system = {name for path in files for name in re.findall(r"^#include (<\w+>)$", path.read_text(), re.MULTILINE)}
    return "".join(f"#include {name}\n" for name in sorted(system)) + f'#include "{HERE / "checked_cast.h"}"\n'


def _sizes(shape):
    return (ctypes.c_int64 * max(1, len(shape or ())))(*(shape or ()))


def _call(signature, shapes, dtypes, values):
    tensors = [
        _Tensor(CANN_DTYPES.get(dtype, -1), -1 if shape is None else len(shape), _sizes(shape))
        for shape, dtype in zip(shapes, dtypes, strict=True)
    ]
    attributes = []
    for attribute in signature.attributes:
        value = values[attribute.name]
        integer = attribute.choices.index(value) if attribute.choices else int(value)
        attributes.append(_Attribute(integer, float(value) if attribute.type == "float" else 0.0))
    return _Call(
        signature.cann_type.encode(),
        (_Tensor * len(tensors))(*tensors),
        len(tensors),
        (_Attribute * max(1, len(attributes)))(*attributes),
        len(attributes),
    )


def describe(name):
    """What the OpDef of a kernel registers."""
    return json.loads(library().MsAscendHostDescribe(kernels()[name].signature.cann_type.encode()))


def tile(name, shapes, dtypes, values, vector_cores, ub_bytes=UB_BYTES):
    """Run a tiling function of op_host."""
    kernel, result = kernels()[name], _TilingResult()
    call, chip = _call(kernel.signature, shapes, dtypes, values), _Chip(vector_cores, ub_bytes)
    status = library().MsAscendHostTile(ctypes.byref(call), ctypes.byref(chip), ctypes.byref(result))
    data = bytes(result.data[: result.data_bytes])
    types = {
        "float": np.float32,
        "uint32_t": np.uint32,
        "int32_t": np.int32,
        "uint64_t": np.uint64,
        "int64_t": np.int64,
        CUBE_TILING: np.dtype([(name, np.int32) for name in CUBE_FIELDS]),
    }
    layout = np.dtype([(field, types[kind]) for kind, field in kernel.fields], align=True)
    fields = {}
    if status == 0:
        padded = data.ljust(layout.itemsize, b"\0")
        for field, value in zip(layout.names, np.frombuffer(padded, layout, 1)[0].item(), strict=True):
            if isinstance(value, tuple):  # of a TCubeTiling, as the host library tells of its own
                parts = dict(zip(CUBE_FIELDS, value, strict=True))
                fields |= {f"{field}.{part}": parts[part] for part in parts if part.startswith(("single", "base"))}
            else:
                fields[field] = value
    return Tiling(
        status == 0,
        result.block_dim,
        result.schedule_mode,
        result.tiling_key,
        result.workspace_bytes,
        data,
        fields,
    )


def infer(name, shapes, dtypes, values):
    """Shapes and dtypes of the outputs of CANN's operator by op_host, or None where it refuses."""
    signature = kernels()[name].signature
    call, count = _call(signature, shapes, dtypes, values), len(signature.cann_outputs)
    found, codes = (_Shape * count)(), (ctypes.c_int32 * count)()
    known = {code: dtype for dtype, code in CANN_DTYPES.items()}
    inferred, inferred_types = None, None
    if library().MsAscendHostInferShape(ctypes.byref(call), found) == 0:
        inferred = [tuple(shape.sizes[: shape.rank]) for shape in found]
    if library().MsAscendHostInferDataType(ctypes.byref(call), codes) == 0:
        inferred_types = [known[code] for code in codes]
    return inferred, inferred_types


def run(name, row, tiling, arrays, dtypes, only=None):
    """Run a kernel entry of the installed library as CANN would launch it: with a serialized tiling and a workspace.

    `row`: of the combinations of dtypes; `arrays` and `dtypes` are of inputs and outputs, None for an absent one.
    `only`: this block of the launch and no other.
    """
    module, error = ctypes.CDLL(str(library_path())), ctypes.create_string_buffer(1024)
    tensors = [
        _KernelTensor(None, None, None, 0)
        if array is None
        else _KernelTensor(array.ctypes.data, dtype.encode(), _sizes(array.shape), array.ndim)
        for array, dtype in zip(arrays, dtypes, strict=True)
    ]
    workspace = np.empty(tiling.workspace_bytes, np.uint8)
    if only is not None:
        module.MsAscendOpsSetParallelForOfCaller(_ONLY, ctypes.c_void_p(only))
    try:
        status = module.MsAscendOpsRunEntry(
            kernels()[name].signature.cann_type.encode(),
            row,
            tiling.block_dim,
            ctypes.c_uint64(tiling.tiling_key),
            tiling.data,
            ctypes.c_size_t(len(tiling.data)),
            (_KernelTensor * len(tensors))(*tensors),
            len(tensors),
            ctypes.c_void_p(workspace.ctypes.data),
            ctypes.c_size_t(workspace.size),
            error,
            ctypes.c_size_t(len(error)),
        )
    finally:
        module.MsAscendOpsSetParallelForOfCaller(None, None)
    assert status == 0, error.value.decode()


_TASK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t)
_PARALLEL_FOR = ctypes.CFUNCTYPE(None, ctypes.c_void_p, _TASK, ctypes.c_void_p, ctypes.c_size_t)


@_PARALLEL_FOR
def _ONLY(only, task, data, _):  # noqa: N802
    task(data, only or 0)
