"""Runs ONNX Runtime with the operators of this package: the library of custom operators, and runs of files."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from ms_ascend_ops import library
from ms_ascend_ops.export.reports.report import Difference, Report
from ms_ascend_ops.onnx.schemas import DTYPES

__all__ = ["difference", "is_installed", "library_path", "run", "session", "verify"]


@cache
def library_path() -> str:
    """Return the path of the library for `SessionOptions.register_custom_ops_library`.

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


def is_installed() -> bool:
    """Tell whether ONNX Runtime is there."""
    return find_spec("onnxruntime") is not None


def session(path: str | Path, *, threads: int = 0, options: Any = None) -> Any:
    """Open an `InferenceSession` of a file, on a CPU, with the operators of this package.

    Raises:
        RuntimeError: ONNX Runtime is not installed.
    """
    if not is_installed():
        raise RuntimeError("ms_ascend_ops.onnx: ONNX Runtime is missing; pip install 'ms_ascend_ops[onnx]'")
    import onnxruntime  # noqa: PLC0415  (which may be missing)

    options = options or onnxruntime.SessionOptions()
    options.register_custom_ops_library(library_path())
    options.intra_op_num_threads = threads or options.intra_op_num_threads
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def run(session: Any, inputs: Mapping[str, np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
    """Run a session on these inputs, also on bfloat16 of ml_dtypes, which ONNX Runtime's `run` does not take."""
    import onnxruntime  # noqa: PLC0415

    binding = session.io_binding()
    for name, array in inputs.items():
        values = np.asarray(array, order="C")
        if values.dtype.name == "bfloat16":
            value = onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(values.view(np.uint16), DTYPES["bfloat16"])
        else:
            value = onnxruntime.OrtValue.ortvalue_from_numpy(values)
        binding.bind_ortvalue_input(name, value)
    for output in session.get_outputs():
        binding.bind_output(output.name)
    session.run_with_iobinding(binding)
    return [_array(value) for value in binding.get_outputs()]


def _array(value: Any) -> np.ndarray[Any, Any]:
    if value.data_type() != "tensor(bfloat16)":
        return np.asarray(value.numpy())
    import ml_dtypes  # noqa: PLC0415

    shape = tuple(value.shape())
    count = int(np.prod(shape))
    content = ctypes.string_at(value.data_ptr(), 2 * count) if count else b""
    bits: np.ndarray[Any, Any] = np.frombuffer(content, np.uint16).copy()
    return np.asarray(bits.view(ml_dtypes.bfloat16).reshape(shape))


# The largest difference of an output, as a share of the largest magnitude.
_TOLERANCES = {"float16": 2e-2, "bfloat16": 1e-1}
_TOLERANCE = 1e-4
_OPEN = 3  # the size of an open dim


def verify(source: Path, output: Path, report: Report) -> None:
    """Run both files on the same random inputs, and enter the difference in the report.

    An open dim is 3, the same name the same size. Beyond the tolerance for the dtypes of the outputs, `output` is
    deleted and the report says so.

    Raises:
        RuntimeError: ONNX Runtime is missing, or cannot run `source` on such inputs.
    """
    try:
        before = session(source)
        inputs = {value.name: _random(value, seed) for seed, value in enumerate(before.get_inputs())}
        stock = run(before, inputs)
    except Exception as error:
        if not is_installed():
            raise
        raise RuntimeError(f"optimize: ONNX Runtime does not run {source} on random inputs: {error}") from error
    try:
        fused = run(session(output), inputs)
    except Exception as error:
        output.unlink()
        report.roll_back(f"the network fails with the fused operators: {error}")
        return
    report.outputs = difference(stock, fused)
    allowed = max((_TOLERANCES.get(value.dtype.name, _TOLERANCE) for value in stock), default=_TOLERANCE)
    if not report.outputs.relative <= allowed:
        output.unlink()
        report.roll_back(f"the outputs differ by {report.outputs.relative:.2e}, more than {allowed:g}")


def _random(value: Any, seed: int) -> np.ndarray[Any, Any]:
    shape = tuple(size if isinstance(size, int) and size >= 0 else _size(size) for size in value.shape)
    random = np.random.default_rng(seed)
    kind = value.type.removeprefix("tensor(").removesuffix(")")
    dtype = {"float": "float32", "double": "float64"}.get(kind, kind)
    if dtype == "bfloat16":
        import ml_dtypes  # noqa: PLC0415

        return random.standard_normal(shape).astype(ml_dtypes.bfloat16)
    if dtype.startswith("float"):
        return random.standard_normal(shape).astype(dtype)
    if dtype == "bool" or "mask" in value.name:  # a row that is masked as a whole has no defined result
        return np.ones(shape, dtype)
    return random.integers(0, 2, shape).astype(dtype)


def _size(name: Any) -> int:
    """Return the size of an open dim; a sum of names has that of its parts."""
    parts = [part.strip() for part in name.split("+")] if isinstance(name, str) else [""]
    return sum(int(part) if part.isdigit() else _OPEN for part in parts)


def difference(before: Sequence[np.ndarray[Any, Any]], after: Sequence[np.ndarray[Any, Any]]) -> Difference:
    """Return the largest difference of the outputs. What is not finite must be the same."""
    if [(a.shape, a.dtype) for a in before] != [(b.shape, b.dtype) for b in after]:
        return Difference(float("inf"), float("inf"))
    absolute = relative = 0.0
    for one, other in zip(before, after, strict=True):
        if not one.size or one.dtype.kind in "OSU":
            continue
        old, new = one.astype(np.float64), other.astype(np.float64)
        same = (old == new) | (np.isnan(old) & np.isnan(new))
        error = float(np.nan_to_num(np.where(same, 0.0, np.abs(old - new)), nan=np.inf).max())
        largest = float(np.abs(old[np.isfinite(old)]).max(initial=0.0))
        absolute = max(absolute, error)
        if error > 0:
            relative = max(relative, error / largest if largest else float("inf"))
    return Difference(absolute, relative)
