"""Holds what differs between the versions of MindSpore that this library runs with, and MindSpore's private names.

No other file imports a private name of MindSpore or compares its version. `PRIVATE` says of each private name what
happens where a MindSpore has it no more; `FAULTS` says which versions are at fault in what, and what is done about it.
"""

from __future__ import annotations

import ctypes
import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import mindspore as ms

__all__ = [
    "FAULTS",
    "PRIVATE",
    "TRIED",
    "Fault",
    "Private",
    "RecordingContext",
    "current_amp_strategy",
    "device_target",
    "dtype_name",
    "glog_level",
    "has_fault",
    "numpy_bfloat16",
    "ones_like",
    "private",
    "recording_context",
    "soc_version",
    "traced",
    "version",
    "wait",
    "without_pipeline",
    "zeros_like",
]

# docs/ascend.md says what was run with each of them.
TRIED = ("2.7.0", "2.7.1", "2.7.2", "2.8.0", "2.9.0", "2.10.0")

_log = logging.getLogger("ms_ascend_ops")


@dataclass(frozen=True)
class Private:
    """Describes a private name: the modules that may have it, the newest first, and what happens where none of
    them has it.
    """

    name: str
    modules: tuple[str, ...]
    without: str


@dataclass(frozen=True)
class Fault:
    """Says what MindSpore does wrong in the versions from `first` to `last`, and what this library does about it."""

    name: str
    first: tuple[int, ...]
    last: tuple[int, ...]
    remedy: str


_EXPRESSION = ("mindspore._c_expression",)
_API = ("mindspore.graph.api", "mindspore.common.api")  # 2.9 moved it
_CONTEXT = ("mindspore.graph.jit_context", "mindspore.common.jit_context")
_NO_DISPATCH = "optimize cannot look into networks before MindSpore 2.9"
_SLOWER = "operators are called by MindSpore, slower"
_BY_CONTEXT = "ms.get_context is asked, slower"

PRIVATE = (
    Private("jit_context", _CONTEXT, _SLOWER),
    Private("JitContext", _CONTEXT, _NO_DISPATCH),
    Private("set_jit_context", _CONTEXT, _NO_DISPATCH),
    Private("_pynative_executor", _API, _SLOWER),
    Private("_Function", ("mindspore.common._grad_function",), _SLOWER),
    Private("TensorPy", _EXPRESSION, _SLOWER),
    Private("MixedPrecisionType", _EXPRESSION, _SLOWER),
    Private("get_curr_amp_strategy", ("mindspore._c_expression.amp",), _SLOWER),
    Private("np_dtypes", _EXPRESSION, "bfloat16 arrays of NumPy are those of ml_dtypes"),
    Private("MSContext", _EXPRESSION, _BY_CONTEXT),
    Private("ms_ctx_param", _EXPRESSION, _BY_CONTEXT),
    Private("_JitExecutor", _API, "graphs that write to a view are not refused"),
    Private("_real_phase", _API, "graphs that write to a view are not refused"),
    Private("_CellGraphExecutor", _API, "graphs that write to a view are not refused"),
    Private("namespace", ("mindspore.rewrite.common",), "ms.amp at O1 rewrites what is within our layers, slower"),
    Private("MsDispatchMode", ("mindspore",), "export/graphs/dispatch_mode.py stands in for it"),
    Private("AscendEnvChecker", ("mindspore.run_check._check_version",), "doctor does not name the CANN that fits"),
)

FAULTS = (
    Fault(
        "bfloat16 on a CPU",
        (2, 7),
        (2, 8),
        "most stock operators have no kernel, and some say so at a later call: layers that optimize replaces keep the"
        " stock construct for bfloat16, and gradients take zeros_like and ones_like of this module",
    ),
    Fault(
        "SoftplusExt on a CPU",
        (2, 7),
        (2, 9),
        "none: mint.nn.functional.softplus has no kernel; ops.Softplus has",
    ),
    Fault(
        "SplitWithSize on a CPU",
        (2, 7),
        (2, 7),
        "there is no kernel in graphs: optimize_mindir joins no linear layers whose heads it would part by it",
    ),
    Fault(
        "TransposeExtView on a CPU",
        (2, 7),
        (2, 7),
        "none: a file in which a transpose of a parameter that is written stays a view does not run",
    ),
    Fault(
        "memory of tensors",
        (2, 7, 0),
        (2, 7, 0),
        "_data_ptr of a tensor that NumPy made is null until MindSpore has computed with it: operators are called by"
        " MindSpore, slower",
    ),
    Fault(
        "float16 in tuples on a CPU",
        (2, 7),
        (2, 7),
        "a product, sum or mean that a graph gives in a tuple lies in memory as float32, and MindSpore's own operators"
        " refuse it: ours round it when they read it (direct.py)",
    ),
    Fault(
        "MsDispatchMode beside threads",
        (2, 9),
        (2, 10),
        "where PyNative prepares operators in a thread of its own, primitives of a tensor that another one made pass no"
        " __ms_dispatch__ (`-x[..., n:]` on an NPU, say): export/graphs/dispatch_mode.py has them prepared in the"
        " thread that calls",
    ),
    Fault(
        "errors of other threads",
        (2, 7),
        (2, 8),
        "with pynative_synchronize, but after an operator that ran without it, a missing kernel is the error of a later"
        " call: optimize reads what it may have to compute itself, and has operators prepared where they are called",
    ),
    Fault(
        "constants behind an effect",
        (2, 7),
        (2, 8),
        "a node that gives a constant stays in the graph if what it takes comes from a call that prints or writes, and"
        " gradients fail (TupleGetItem ... should be Sequence). Once such a call was an indexing, every `x[...]` of the"
        " process counts as one. Functions of operators ask their Selector with parameters alone, which are never"
        " marked",
    ),
    Fault(
        "oneDNN 2 on a CPU",
        (2, 7),
        (2, 8),
        "convolutions are not its: the kernels compute them, slower",
    ),
    Fault(
        "searchsorted",
        (2, 7),
        (2, 9),
        "a kernel that was made for one value of `right` answers for the other, too: ops/sparse_matmul.py asks so that"
        " both give the same",
    ),
)


def version() -> tuple[int, ...]:
    """Return the numbers of MindSpore's version."""
    return _numbers(ms.__version__)


def dtype_name(dtype: Any) -> str:
    """Return the name of a dtype of MindSpore, as the definitions write it.

    MindNLP puts `mindspore.` in front of it.
    """
    return str(dtype).lower().rsplit(".", 1)[-1]


def has_fault(name: str) -> bool:
    """Tell whether this MindSpore has one of `FAULTS`, on the device of this moment."""
    concerned = not name.endswith("on a CPU") or device_target() == "CPU"
    return concerned and _is_in_this_version(name)


def _is_in_this_version(name: str) -> bool:
    (fault,) = (fault for fault in FAULTS if fault.name == name)
    return fault.first <= version()[: len(fault.first)] <= fault.last


@cache
def private(name: str) -> Any:
    """Return one of `PRIVATE`; None where this MindSpore has it no more, which is said once."""
    (entry,) = (entry for entry in PRIVATE if entry.name == name)
    for module in entry.modules:
        try:
            return getattr(import_module(module), name)
        except (ImportError, AttributeError):
            continue
    if not _was_tried():
        _log.warning("MindSpore %s has no %s.%s: %s", ms.__version__, entry.modules[0], name, entry.without)
    return None


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])


def _was_tried() -> bool:
    return version()[:2] in [_numbers(tried)[:2] for tried in TRIED]


def say_if_not_tried() -> None:
    """Log one line for a version that nobody has run this library with."""
    if not _was_tried():
        _log.warning("MindSpore %s was not tried with this library; %s were", ms.__version__, ", ".join(TRIED))


say_if_not_tried()


def _zeros_like(tensor: Any) -> Any:
    return ms.ops.zeros_like(tensor.astype(ms.float32)).astype(tensor.dtype)


def _ones_like(tensor: Any) -> Any:
    return ms.ops.ones_like(tensor.astype(ms.float32)).astype(tensor.dtype)


# For graphs, too, which take no question of the version. On every device: it may change after this import.
zeros_like, ones_like = ms.ops.zeros_like, ms.ops.ones_like
if _is_in_this_version("bfloat16 on a CPU"):
    zeros_like, ones_like = _zeros_like, _ones_like

_find_jit_context = private("jit_context")


class RecordingContext(private("JitContext") or object):  # type: ignore[misc]
    """Receives each primitive that Python has called from MindSpore, in the place of its own tracing of graphs."""

    def is_nested(self) -> bool:
        return False

    def pass_trace_node(self, old: Any, new: Any) -> None:
        """Log that MindSpore has put one argument into the place of another."""


@contextmanager
def recording_context(context: RecordingContext) -> Iterator[None]:
    """Have MindSpore call the context for primitives within the block."""
    enter = private("set_jit_context")
    if None in (enter, _find_jit_context, private("JitContext")):
        raise RuntimeError(f"MindSpore {ms.__version__}: {_NO_DISPATCH}")
    before = _find_jit_context()
    enter(context)
    try:
        yield
    finally:
        enter(before)


def traced() -> bool:
    """Tell whether MindSpore traces calls for a graph (`ms.jit` with capture_mode="trace"); True if it does not say."""
    if _find_jit_context is None:
        return True
    context = _find_jit_context()
    return context is not None and not isinstance(context, RecordingContext)


def wait() -> None:
    """Return when all operators that PyNative has begun are done."""
    executor = private("_pynative_executor")
    (ms.runtime.synchronize if executor is None else executor.sync)()


@contextmanager
def without_pipeline() -> Iterator[None]:
    """Have PyNative prepare operators in the thread that calls them, within the block."""
    executor = private("_pynative_executor")
    if not hasattr(executor, "disable_frontend_and_bprop_pipeline"):  # before 2.8
        yield
        return
    before = executor.disable_frontend_and_bprop_pipeline()
    try:
        yield
    finally:
        if not before:
            executor.enable_frontend_and_bprop_pipeline()


def _no_strategy() -> None:
    return None


# The kind of mixed precision of `ms.amp` that is in force; None without.
current_amp_strategy: Callable[[], Any] = private("get_curr_amp_strategy") or _no_strategy


def _slow_device_target() -> str:
    return str(ms.get_context("device_target"))


def _make_device_target() -> Callable[[], str]:
    context, parameters = private("MSContext"), private("ms_ctx_param")
    if context is None or not hasattr(parameters, "device_target"):
        return _slow_device_target
    get, parameter = context.get_instance().get_param, parameters.device_target
    return lambda: str(get(parameter))


# `ms.get_context("device_target")`, which takes longer than all else that happens before a call.
device_target: Callable[[], str] = _make_device_target()


def soc_version() -> str:
    """Return the chip, as CANN names it: ascend910b."""
    context = private("MSContext")
    if context is None:
        raise RuntimeError(f"MindSpore {ms.__version__} does not say which chip it runs on: take a version of {TRIED}")
    return str(context.get_instance().get_ascend_soc_version())


@cache
def numpy_bfloat16() -> Any:
    """Return the bfloat16 of NumPy arrays that MindSpore takes.

    Raises:
        RuntimeError: MindSpore was compiled against NumPy 1, and this is NumPy 2.
    """
    own = private("np_dtypes")
    if own is None:
        return import_module("ml_dtypes").bfloat16
    if not hasattr(own, "bfloat16"):  # it does not register it with another NumPy, and fails elsewhere, too
        here = import_module("numpy").__version__
        raise RuntimeError(f"MindSpore {ms.__version__} does not work with NumPy {here}: pip install 'numpy>=1.25,<2'")
    return own.bfloat16


@cache
def glog_level() -> ctypes.c_int32:
    """Return the level from which MindSpore's C++ part logs, read at every message; without one, a
    level that nobody reads.
    """
    # 2.9 took the glog that is called so everywhere.
    for library in ("libglog.so.2", "libmindspore_glog.so.0"):
        path = Path(ms.__file__).parent / "lib" / library
        try:
            return ctypes.c_int32.in_dll(ctypes.CDLL(str(path)), "_ZN3fLI17FLAGS_minloglevelE")
        except (OSError, ValueError):
            continue
    return ctypes.c_int32()
