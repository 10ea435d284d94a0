"""python -m tests.kernels.checked.entry LIBRARY [FIELD=VALUE]

Runs rms_norm's entry of the CANN package in a kernel library, with a tiling of which one field may be wrong.
"""

import ctypes
import os
import sys
from pathlib import Path

import numpy as np

from ms_ascend_ops import _C

SHAPES = ((4, 300), (300,), (4, 300), (4, 1))
FLOAT32 = 4  # the row of the definition's types
LIBRARY_WORKSPACE = 16 << 20  # LIBRARY_WORKSPACE_BYTES of kernels/interface/package.h
TYPES = {"uint64_t": np.uint64, "uint32_t": np.uint32, "float": np.float32}


class Tensor(ctypes.Structure):
    """MsAscendTensor."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("dtype", ctypes.c_char_p),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("rank", ctypes.c_int32),
    )


def serialized(values):
    """The tiling data as CANN's classes lay it out."""
    source = Path(os.environ["MS_ASCEND_OPS_SOURCE"], "kernels")
    sys.path.append(str(source))
    from codegen.tiling_header import read_fields  # noqa: PLC0415

    fields = read_fields(source / "rms_norm/rms_norm_tiling.h", "RmsNormTilingData")
    data = np.zeros(1, np.dtype([(name, TYPES[kind]) for kind, name in fields], align=True))
    for _, name in fields:
        data[name] = values[name]
    return data.tobytes()


def main(library, *wrong):
    attributes = {"epsilon": 1e-6, "scheme": "round_then_scale"}
    values = _C.tiling("rms_norm", list(SHAPES[:2]), ["float32"] * 2, attributes, core_num=48, ub_bytes=188160)
    values |= {name: int(value) for name, _, value in (text.partition("=") for text in wrong)}
    arrays = [np.ones(shape, np.float32) for shape in SHAPES]
    sizes = [(ctypes.c_int64 * array.ndim)(*array.shape) for array in arrays]
    pairs = zip(arrays, sizes, strict=True)
    tensors = (Tensor * 4)(*[Tensor(array.ctypes.data, b"float32", size, array.ndim) for array, size in pairs])
    workspace, error = np.empty(LIBRARY_WORKSPACE, np.uint8), ctypes.create_string_buffer(1024)
    tiling = serialized(values)
    status = ctypes.CDLL(library).MsAscendOpsRunEntry(
        *(b"MsAscendOpsRmsNorm", FLOAT32, values["block_dim"], ctypes.c_uint64(1)),
        *(tiling, ctypes.c_size_t(len(tiling)), tensors, len(tensors)),
        *(ctypes.c_void_p(workspace.ctypes.data), ctypes.c_size_t(workspace.size)),
        *(error, ctypes.c_size_t(len(error))),
    )
    assert status == 0, error.value.decode()
    np.testing.assert_allclose(arrays[2], 1, rtol=1e-5)


if __name__ == "__main__":
    main(*sys.argv[1:])
