"""The library of custom operators for ONNX Runtime."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from ms_ascend_ops import library

__all__ = ["library_path"]


@cache
def library_path() -> str:
    """Path of the library for `SessionOptions.register_custom_ops_library`.

    The kernels run in the thread that calls `InferenceSession.run` and in threads of their own, of which
    `ms_ascend_ops.set_num_threads` sets how many. Loops are compiled while this process runs.

    Raises:
        RuntimeError: a library is missing, or has another version than the package.
    """
    path = Path(library.library_path()).with_name("libms_ascend_ops_onnx.so")
    if not path.is_file():
        raise RuntimeError(
            f"ms_ascend_ops.onnx: the library for ONNX Runtime is missing: {path}. Build it with `pip install .` (or "
            "`bash build.sh host`) in the source tree of ms_ascend_ops."
        )
    library.load_products()
    return str(path)
