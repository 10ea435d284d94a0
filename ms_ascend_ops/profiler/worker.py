"""Runs kernels in the traced library in a process that record.py starts; a kernel that ends it ends only itself.

    python -m ms_ascend_ops.profiler.worker LIBRARY

Requests come pickled on the standard input, answers go pickled to the standard output.
"""

from __future__ import annotations

import ctypes
import json
import os
import pickle
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ms_ascend_ops.profiler.trace import EVENT, Argument, Array, Kind, Trace

__all__ = ["Request", "difference", "last_trace", "main"]

_STORAGE = {
    "float16": np.float16,
    "bfloat16": np.uint16,
    "float32": np.float32,
    "int32": np.int32,
    "int64": np.int64,
    "int8": np.int8,
}
_PATTERN = 65537  # values before they repeat: prime, so that no two rows of a usual length are equal


@dataclass
class Request:
    """Describes one launch."""

    kernel: str
    shapes: list[tuple[int, ...] | None]  # inputs, then outputs; None: an optional input that is absent
    dtypes: list[str]
    input_count: int
    attributes: dict[str, Any]
    cores: int
    ub_bytes: int
    min_bytes_per_core: int = 0  # 0: the chip's
    buffers: int = 0  # of every queue, at most; 0: as the kernel says
    tiling: dict[str, int] = field(default_factory=dict)  # fields that are overruled
    # By position, of integers: "7", "count", a .npy file, or the values.
    fill: dict[int, str | Array] = field(default_factory=dict)
    executes: bool = False  # calculate; else the kernel's calls are only counted, unless it reads what it calculates
    is_reference: bool = False  # its outputs are what those of later launches are compared with


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("dtype", ctypes.c_char_p),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("rank", ctypes.c_int32),
    )


class _Attribute(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("kind", ctypes.c_int32),
        ("integer", ctypes.c_int64),
        ("real", ctypes.c_double),
        ("text", ctypes.c_char_p),
    )


class _Call(ctypes.Structure):
    """Mirrors MsAscendCall of kernels/binding/c_api.h."""

    _fields_ = (
        ("op", ctypes.c_char_p),
        ("tensors", ctypes.POINTER(_Tensor)),
        ("tensor_count", ctypes.c_int32),
        ("attributes", ctypes.POINTER(_Attribute)),
        ("attribute_count", ctypes.c_int32),
        ("error", ctypes.c_char_p),
        ("error_bytes", ctypes.c_size_t),
    )


_VISITOR = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int32, ctypes.c_int64, ctypes.c_double)


def _attribute(name: str, value: Any) -> _Attribute:
    key = name.encode()
    if isinstance(value, bool):
        return _Attribute(key, 2, int(value), 0.0, None)
    if isinstance(value, int):
        return _Attribute(key, 0, value, 0.0, None)
    if isinstance(value, float):
        return _Attribute(key, 1, 0, value, None)
    return _Attribute(key, 3, 0, 0.0, str(value).encode())


def _values(shape: tuple[int, ...], dtype: str, seed: int, fill: str | Array) -> Array:
    """Draw an input: normal numbers.

    Integers are 0, so that they are valid as indices, unless `fill` says what they are.
    """
    if dtype.startswith("int"):
        if not isinstance(fill, str):
            return np.ascontiguousarray(fill, _STORAGE[dtype])
        if fill == "count":
            return np.arange(np.prod(shape, dtype=np.int64), dtype=_STORAGE[dtype]).reshape(shape)
        if fill.endswith(".npy"):
            return np.ascontiguousarray(np.load(fill), _STORAGE[dtype])
        return np.full(shape, int(fill), _STORAGE[dtype])
    pattern = np.random.default_rng(seed).standard_normal(_PATTERN, np.float32)
    if dtype == "bfloat16":
        stored = (pattern.view(np.uint32) >> 16).astype(np.uint16)
    else:
        stored = pattern.astype(_STORAGE[dtype])
    return np.resize(stored, shape)


def _decoded(values: Array, dtype: str) -> Array:
    if dtype == "bfloat16":
        return (values.astype(np.uint32) << 16).view(np.float32)
    return values.astype(np.float32)


def difference(first: Array, second: Array, dtype: str) -> float:
    """Return the largest difference, in roundings of the dtype at the size of the values; infinite where one is NaN."""
    if first.tobytes() == second.tobytes():
        return 0.0
    if dtype.startswith("int"):
        return float("inf")
    a, b = _decoded(first, dtype), _decoded(second, dtype)
    scale = np.sqrt(np.mean(np.square(a, dtype=np.float64))) + 1e-30
    largest = float(np.abs(a - b).max() / scale)
    rounding = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23}[dtype]
    return largest / rounding if np.isfinite(largest) else float("inf")


def _reads_values(trace: Trace) -> bool:
    """Tell whether a kernel reads what is only there if it calculates. Inputs of integers are there anyway."""
    given = [i for i, a in enumerate(trace.arguments) if not a.output and a.dtype.startswith("int")]
    return any(
        ((events["kind"] == Kind.SCALAR) & (events["written"] == 0) & ~np.isin(events["argument"], given)).any()
        for events in trace.cores
    )


class _Library:
    def __init__(self, path: str):
        self.c = ctypes.CDLL(path)
        self.reference: tuple[Any, list[Array]] | None = None  # a call and its outputs

    def run(self, request: Request) -> tuple[Trace, float]:
        """Returns the trace, and how far the outputs are from those of the reference (difference())."""
        if request.executes:
            return self.launch(request, True)
        try:
            trace, difference = self.launch(request, False)
        except ValueError:  # it may have read what was not calculated, and stopped itself
            return self.launch(request, True)
        return self.launch(request, True) if _reads_values(trace) else (trace, difference)

    def launch(self, request: Request, executes: bool) -> tuple[Trace, float]:
        error = ctypes.create_string_buffer(1024)
        tensors = (_Tensor * len(request.shapes))()
        arrays: list[Array] = []
        dims: list[Any] = []
        for i, (shape, dtype) in enumerate(zip(request.shapes, request.dtypes, strict=True)):
            if shape is None:
                continue  # all of it stays null
            is_input = i < request.input_count and (executes or dtype.startswith("int"))
            fill = request.fill.get(i, "0")
            arrays.append(_values(shape, dtype, i, fill) if is_input else np.zeros(shape, _STORAGE[dtype]))
            dims.append((ctypes.c_int64 * max(1, len(shape)))(*shape))
            tensors[i] = _Tensor(arrays[-1].ctypes.data, dtype.encode(), dims[-1], len(shape))
        outputs = arrays[len(arrays) - (len(request.shapes) - request.input_count) :]
        attributes = (_Attribute * max(1, len(request.attributes)))(
            *[_attribute(name, value) for name, value in request.attributes.items()]
        )
        call = _Call(
            request.kernel.encode(),
            tensors,
            len(tensors),
            attributes,
            len(request.attributes),
            ctypes.cast(error, ctypes.c_char_p),
            len(error),
        )
        self.c.MsAscendTraceSetPlatform(request.cores, request.ub_bytes, request.min_bytes_per_core, request.buffers)
        self.c.MsAscendTraceSetExecutes(int(executes))
        for name, value in request.tiling.items():
            self.c.MsAscendTraceSetTiling(name.encode(), ctypes.c_int64(value))
        if self.c.MsAscendOpsLaunch(ctypes.byref(call)):
            raise ValueError(error.value.decode())
        return last_trace(self.c, self.tiling(call, request)), self.compare(request, outputs) if executes else 0.0

    def compare(self, request: Request, outputs: list[Array]) -> float:
        key = (request.kernel, request.shapes, request.dtypes, request.attributes)
        if request.is_reference:
            self.reference = (key, outputs)
        if self.reference is None or self.reference[0] != key:
            return 0.0
        dtypes = request.dtypes[request.input_count :]
        pairs = zip(self.reference[1], outputs, dtypes, strict=True)
        return max((difference(first, second, dtype) for first, second, dtype in pairs), default=0.0)

    def tiling(self, call: _Call, request: Request) -> dict[str, float]:
        fields: dict[str, float] = {}

        def visit(_: Any, name: bytes, is_real: int, integer: int, real: float) -> None:
            fields[name.decode()] = real if is_real else integer

        call.tensor_count = request.input_count
        if self.c.MsAscendOpsTiling(
            ctypes.byref(call), request.cores, request.ub_bytes, request.min_bytes_per_core, _VISITOR(visit), None
        ):
            raise ValueError(call.error.decode())
        return fields | {name: value for name, value in request.tiling.items() if name in fields}


def last_trace(library: ctypes.CDLL, tiling: dict[str, float] | None = None) -> Trace:
    """Return the last launch of a library with the traced host layer in it."""
    library.MsAscendTraceRecords.restype = ctypes.c_void_p
    library.MsAscendTraceJson.restype = ctypes.c_char_p
    count = ctypes.c_uint64()
    cores = []
    for core in range(library.MsAscendTraceCoreCount()):
        address = library.MsAscendTraceRecords(core, ctypes.byref(count))
        data = ctypes.string_at(address, count.value * EVENT.itemsize) if count.value else b""
        cores.append(np.frombuffer(data, EVENT))
    found = json.loads(library.MsAscendTraceJson().decode())
    return Trace(
        kernel=found["kernel"],
        cores=cores,
        arguments=[Argument(**argument) for argument in found["arguments"]],
        workspace_bytes=found["workspace_bytes"],
        names=found["names"],
        places=found["places"],
        ub_used_bytes=found["ub_used_bytes"],
        tiling=tiling or {},
    )


def main() -> None:
    """Answer requests until the input ends."""
    requests = sys.stdin.buffer
    # What the library prints must not come between the answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    library = _Library(str(Path(sys.argv[1]).resolve()))
    while True:
        try:
            request = pickle.load(requests)
        except EOFError:
            return
        try:
            answer: Any = library.run(request)
        except (ValueError, MemoryError) as error:
            answer = error
        pickle.dump(answer, answers)
        answers.flush()


if __name__ == "__main__":
    main()
