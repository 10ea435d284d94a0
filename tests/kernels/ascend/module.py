"""Builds the generated op_host and op_kernel files against the stand-in for CANN, and calls them.

Two units: all op_host files with the stand-in of the registration and tiling interfaces, and all op_kernel files, for
one combination of dtypes each, with the host layer.
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
from codegen import cpp
from codegen.ascend import names, project
from codegen.ascend.chips import CHIPS
from codegen.tiling_header import CUBE_TILING, cann_name, cann_type

from ms_ascend_ops import registry
from tests.kernels.host.module import BUILD, ROOT, host_objects

HERE = Path(__file__).parent
FOLDER = BUILD / "ascend_stand_in"
SOURCE = project.Source(ROOT / "ms_ascend_ops" / "ops", ROOT / "kernels")
LIBRARY_WORKSPACE = 512  # stand_in::LIBRARY_WORKSPACE
UB_BYTES = 192 * 1024 - 256  # what CANN reports for Atlas A2
KERNEL_UB_BYTES = UB_BYTES - 8 * 1024  # what it leaves to kernels
CANN_DTYPES = {"float32": 0, "float16": 1, "int8": 2, "int32": 3, "int64": 9, "bfloat16": 27}
OPTIONAL, REQUIRED = 1, 2
# Of the stand-in for TCubeTiling.
CUBE_FIELDS = ("M", "N", "Ka", "Kb", "singleCoreM", "singleCoreN", "singleCoreK", "baseM", "baseN", "baseK", "isBias")

# As the host layer's objects are compiled, which are linked in; nothing here needs to be fast.
FLAGS = ["-std=c++17", "-O0", "-w", "-fPIC", "-D_GLIBCXX_USE_CXX11_ABI=0", "-ffp-contract=off"]


class _Inputs(ctypes.Structure):
    _fields_ = (
        ("count", ctypes.c_int32),
        ("ranks", ctypes.POINTER(ctypes.c_int32)),
        ("shapes", ctypes.POINTER(ctypes.POINTER(ctypes.c_int64))),
        ("dtypes", ctypes.POINTER(ctypes.c_int32)),
        ("integers", ctypes.POINTER(ctypes.c_int64)),
        ("reals", ctypes.POINTER(ctypes.c_double)),
    )


class _TilingResult(ctypes.Structure):
    _fields_ = (
        ("block_dim", ctypes.c_uint32),
        ("schedule_mode", ctypes.c_uint32),
        ("tiling_key", ctypes.c_uint64),
        ("workspace_bytes", ctypes.c_uint64),
        ("data_bytes", ctypes.c_uint64),
        ("data", ctypes.c_uint8 * 2048),
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


def run_types(name):
    """The combination of dtypes that the kernel entry was compiled for: the last."""
    return kernels()[name].signature.types[-1]


@functools.cache
def library():
    """The module, brought up to date by one process at a time."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return ctypes.CDLL(str(_build()))


def _build():
    out = FOLDER / "project"
    fresh = FOLDER / "fresh"
    project.write(list(kernels().values()), SOURCE, fresh, None, own_cmake=True, onnx=False)
    (fresh / "op_host_all.cpp").write_text(_host_unit(fresh), encoding="utf-8")
    (fresh / "op_kernel_all.cpp").write_text(_kernel_unit(), encoding="utf-8")
    objects = host_objects()
    digest = hashlib.sha256()
    sources = [*fresh.rglob("*.*"), *HERE.rglob("*.h"), *HERE.glob("*.cpp"), *(ROOT / "kernels/host").rglob("*.h")]
    for path in [*sorted(sources), *objects]:
        digest.update(path.read_bytes())
    target = FOLDER / f"stand_in_{digest.hexdigest()[:16]}.so"
    if target.exists():
        return target
    shutil.rmtree(out, ignore_errors=True)
    fresh.rename(out)
    kernels_folder = ROOT / "kernels"
    host = [f"-I{HERE / 'cann'}", f"-I{kernels_folder}", f"-I{kernels_folder / 'host'}"]
    device = [f"-I{HERE / 'device'}", f"-I{HERE / 'cann'}", f"-I{kernels_folder}", f"-I{kernels_folder / 'host'}"]
    units = [
        (out / "op_host_all.cpp", host),
        (out / "op_kernel_all.cpp", device),
    ]
    running = [
        subprocess.Popen(
            ["g++", *FLAGS, *includes, "-c", str(unit), "-o", str(unit.with_suffix(".o"))],
            stderr=subprocess.PIPE,
            text=True,
        )
        for unit, includes in units
    ]
    for process in running:
        _, errors = process.communicate()
        assert process.returncode == 0, f"the generated code does not compile:\n{errors[:3000]}"
    for old in FOLDER.glob("stand_in_*.so"):
        old.unlink()
    linked = [str(unit.with_suffix(".o")) for unit, _ in units] + [str(path) for path in objects]
    subprocess.run(["g++", "-shared", "-o", str(target), *linked, "-lpthread"], check=True)
    return target


def _host_unit(folder):
    """All files of op_host, behind what they include of the system: no cast of that is checked."""
    files = sorted((folder / "op_host").glob("*.*"))
    system = {name for path in files for name in re.findall(r"^#include (<\w+>)$", path.read_text(), re.MULTILINE)}
    text = "".join(f"#include {name}\n" for name in sorted(system))
    text += f'#include "{HERE / "stand_in.cpp"}"\n#include "{HERE / "checked_cast.h"}"\n'
    return text + "".join(f'#include "op_host/{path.name}"\n' for path in files if path.suffix == ".cpp")


def _kernel_unit():
    """The entries with what CANN's build puts in front of each, and a function that runs one by its name."""
    text = '#include <cstring>\n#include "kernel_operator.h"\n#include "host/runtime/launch.h"\n'
    calls = ""
    for kernel in kernels().values():
        signature, entry = kernel.signature, names.snake(kernel.signature.cann_type)
        struct = f"{signature.cann_type}TilingData"
        fields = "".join(f"    {cann_type(kind)} {cann_name(name)};\n" for kind, name in kernel.fields)
        row = run_types(signature.name)
        macros = {
            f"DTYPE_{tensor.name.upper()}": cpp.KERNEL_TYPES[row.get(tensor.dtype, tensor.dtype)]
            for tensor in signature.inputs
        }
        text += f"struct {struct} {{\n{fields}}};\n"
        text += f"#define GET_TILING_DATA(data, tiling) {struct} data; std::memcpy(&data, tiling, sizeof(data))\n"
        text += "".join(f"#define {name} {value}\n" for name, value in macros.items())
        text += f'#include "op_kernel/{entry}.cpp"\n'
        tensors = len(signature.inputs) + len(signature.cann_outputs)
        arguments = ", ".join(f"static_cast<GM_ADDR>(params[{i}])" for i in range(tensors))
        optional = [i for i, tensor in enumerate(signature.inputs) if tensor.optional]
        if optional:  # as CANN compiles it for a call without them
            text += "".join(f"#undef DTYPE_{signature.inputs[i].name.upper()}\n" for i in optional)
            text += f'#define {entry} {entry}_without_optional\n#include "op_kernel/{entry}.cpp"\n#undef {entry}\n'
            absent = " && ".join(f"params[{i}] == nullptr" for i in optional)
            calls += f"""            if (std::strcmp(op, "{signature.cann_type}") == 0 && {absent}) {{
                {entry}_without_optional({arguments}, workspace, tiling);
                return;
            }}
"""
        text += "".join(f"#undef {name}\n" for name in ["GET_TILING_DATA", *macros])
        calls += f"""            if (std::strcmp(op, "{signature.cann_type}") == 0) {{
                {entry}({arguments}, workspace, tiling);
            }}
"""
    return (
        text
        + f"""
// Runs block `only` of the launch, or all if it is negative; returns the kernel's type.
extern "C" int StandInRun(const char* op, uint32_t blockDim, uint32_t kernelType, int32_t only, uint64_t tilingKey,
    uint64_t workspaceBytes, void** params, uint8_t* tiling)
{{
    ms_ascend_ops::LaunchConfig config;
    config.blockDim = blockDim;
    config.workspaceBytes = workspaceBytes;
    AscendC::host::Launch(config, {{}}, {{}}, [&](GM_ADDR workspace) {{
        if (only < 0 || AscendC::GetBlockIdx() == only) {{
            stand_in::tilingKey = tilingKey;
{calls}        }}
    }}, static_cast<AscendC::host::KernelType>(kernelType));
    return stand_in::kernelType;
}}
"""
    )


def _inputs(signature, shapes, dtypes, values):
    count = len(shapes)
    keep = [(ctypes.c_int64 * max(1, len(shape or ())))(*(shape or ())) for shape in shapes]
    integers, reals = [], []
    for attribute in signature.attributes:
        value = values[attribute.name]
        integers.append(attribute.choices.index(value) if attribute.choices else int(value))
        reals.append(float(value) if attribute.type == "float" else 0.0)
    return _Inputs(
        count,
        (ctypes.c_int32 * count)(*[-1 if shape is None else len(shape) for shape in shapes]),
        (ctypes.POINTER(ctypes.c_int64) * count)(*[ctypes.cast(k, ctypes.POINTER(ctypes.c_int64)) for k in keep]),
        (ctypes.c_int32 * count)(*[CANN_DTYPES.get(dtype, -1) for dtype in dtypes]),
        (ctypes.c_int64 * max(1, len(integers)))(*integers),
        (ctypes.c_double * max(1, len(reals)))(*reals),
    )


def describe(name):
    """What the OpDef of a kernel registers."""
    function = library().StandInDescribe
    function.restype = ctypes.c_char_p
    return json.loads(function(kernels()[name].signature.cann_type.encode()))


def tile(name, shapes, dtypes, values, vector_cores, ub_bytes=UB_BYTES):
    """Run a tiling function of op_host."""
    kernel, result = kernels()[name], _TilingResult()
    inputs = _inputs(kernel.signature, shapes, dtypes, values)
    function = library().StandInTile
    function.argtypes = [
        ctypes.c_char_p,
        ctypes.c_void_p,
        ctypes.c_uint32,
        ctypes.c_uint64,
        ctypes.c_uint32,
        ctypes.c_void_p,
    ]
    function.restype = ctypes.c_uint32
    status = function(
        kernel.signature.cann_type.encode(),
        ctypes.addressof(inputs),
        vector_cores,
        ub_bytes,
        LIBRARY_WORKSPACE,
        ctypes.addressof(result),
    )
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
    inputs = _inputs(signature, shapes, dtypes, values)
    count = len(signature.cann_outputs)
    ranks, dims, codes = (ctypes.c_int32 * count)(), (ctypes.c_int64 * (8 * count))(), (ctypes.c_int32 * count)()
    op = signature.cann_type.encode()
    module = library()
    module.StandInInferShape.restype = module.StandInInferDataType.restype = ctypes.c_uint32
    known = {code: dtype for dtype, code in CANN_DTYPES.items()}
    inferred, inferred_types = None, None
    if module.StandInInferShape(op, ctypes.byref(inputs), ranks, dims) == 0:
        inferred = [tuple(dims[8 * i : 8 * i + rank]) for i, rank in enumerate(ranks)]
    if module.StandInInferDataType(op, ctypes.byref(inputs), codes) == 0:
        inferred_types = [known[code] for code in codes]
    return inferred, inferred_types


def run(name, tiling, arrays, only=-1):
    """Run a kernel entry on the host layer as CANN would launch it: with a serialized tiling and a workspace.

    `arrays` are inputs and outputs, None for an absent one. `only`: this block of the launch and no other. Returns the
    kernel type that the entry asked for.
    """
    params = (ctypes.c_void_p * len(arrays))(*[None if array is None else array.ctypes.data for array in arrays])
    data = (ctypes.c_uint8 * len(tiling.data)).from_buffer_copy(tiling.data)
    function = library().StandInRun
    function.argtypes = [
        ctypes.c_char_p,
        ctypes.c_uint32,
        ctypes.c_uint32,
        ctypes.c_int32,
        ctypes.c_uint64,
        ctypes.c_uint64,
        ctypes.c_void_p,
        ctypes.c_void_p,
    ]
    op = kernels()[name].signature.cann_type.encode()
    return function(
        op,
        tiling.block_dim * (2 if kernels()[name].multiplies else 1),  # a cube core has two vector cores
        int(kernels()[name].multiplies),  # as KernelType
        only,
        tiling.tiling_key,
        tiling.workspace_bytes,
        ctypes.addressof(params),
        ctypes.addressof(data),
    )
