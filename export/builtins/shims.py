"""Replaces what MindSpore has for an NPU only by our operators: models written with it run on any machine.

Functions: one row each; a row whose operator is not there is left out. Primitives: `primitives.py`.
"""

from __future__ import annotations

import gc
import inspect
import linecache
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import mindspore as ms
from mindspore import Tensor, mint, nn
from mindspore import ops as ms_ops
from mindspore.ops.auto_generate import gen_ops_def, gen_ops_prim
from mindspore.ops.operations import _infer_ops, math_ops, other_ops
from ms_ascend_ops.export.builtins import attention
from ms_ascend_ops.export.builtins.custom_ops import CUSTOM_OPS, custom_ops_shim
from ms_ascend_ops.export.builtins.primitives import (
    SHIMS,
    Shim,
    conv2d_padding,
    rotary_position_embedding,
    shim_for,
)
from ms_ascend_ops.export.builtins.quantized_primitives import quantized_product

from ms_ascend_ops import ops, registry

__all__ = ["BY_PRIMITIVE", "MissingOperatorError", "cpu_builtins", "device_is_cpu"]


class MissingOperatorError(RuntimeError):
    """Reports an operator that has no kernel on a CPU and no shim: its name, the line that called it, and what
    there is.
    """


def rms_norm(x: Tensor, gamma: Tensor, epsilon: float = 1e-6) -> Any:
    """Replaces `mindspore.ops.rms_norm`."""
    return ops.rms_norm(x, gamma, epsilon)


def add_rms_norm(x1: Tensor, x2: Tensor, gamma: Tensor, epsilon: float = 1e-6) -> Any:
    """Replaces `mindspore.ops.add_rms_norm`."""
    return ops.add_rms_norm(x1, x2, gamma, epsilon)


def swiglu(input: Tensor, dim: int = -1) -> Tensor:  # the name that MindSpore has
    """Replaces `mindspore.ops.swiglu`."""
    return ops.swiglu(input, dim)


def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """Replaces `mindspore.mint.nn.functional.gelu`."""
    return ops.gelu(input, approximate)


def layer_norm(
    input: Tensor, normalized_shape: Any, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """Replaces `mindspore.mint.nn.functional.layer_norm`."""
    gamma = ms_ops.ones(tuple(normalized_shape), input.dtype) if weight is None else weight
    beta = ms_ops.zeros(tuple(normalized_shape), input.dtype) if bias is None else bias
    return ops.layer_norm(input, gamma, beta, eps)[0]


def _gelu_ext(x: Tensor, approximate: int = 0) -> Tensor:
    return ops.gelu(x, "tanh" if approximate == 1 else "none")


def _layer_norm_ext(x: Tensor, shape: Any, gamma: Tensor, beta: Tensor, epsilon: float = 1e-5) -> Any:
    return ops.layer_norm(x, gamma, beta, epsilon)


def quant_batch_matmul(
    x1: Tensor,
    x2: Tensor,
    scale: Tensor,
    offset: Any = None,
    bias: Any = None,
    pertokenScaleOptional: Any = None,  # noqa: N803  (the name that MindSpore has)
    transpose_x1: bool = False,
    transpose_x2: bool = False,
    dtype: Any = ms.float16,
) -> Tensor:
    """Replaces `mindspore.ops.auto_generate.quant_batch_matmul`."""
    return quantized_product(
        "quant_batch_matmul",
        x1,
        x2,
        scale,
        offset,
        bias,
        pertokenScaleOptional,
        transpose_x1,
        transpose_x2,
        dtype,
    )


# Operator, MindSpore's function, the one in its place, MindSpore's primitive, and what computes that, if anything does.
_ROWS: tuple[tuple[str, Any, Callable[..., Any], str, Callable[..., Any] | None], ...] = (
    ("rms_norm", ms_ops.rms_norm, rms_norm, "RmsNorm", rms_norm),
    ("add_rms_norm", ms_ops.add_rms_norm, add_rms_norm, "AddRmsNorm", add_rms_norm),
    ("swiglu", ms_ops.swiglu, swiglu, "Swiglu", swiglu),
    (
        "rotary_embedding",
        ms_ops.rotary_position_embedding,
        rotary_position_embedding,
        "RotaryPositionEmbedding",
        rotary_position_embedding,
    ),
    ("gelu", mint.nn.functional.gelu, gelu, "GeluExt", _gelu_ext),
    ("layer_norm", mint.nn.functional.layer_norm, layer_norm, "LayerNormExt", _layer_norm_ext),
    (
        "flash_attention",
        ms_ops.flash_attention_score,
        attention.flash_attention_score,
        "FlashAttentionScore",
        None,
    ),
    (
        "flash_attention",
        ms_ops.prompt_flash_attention,
        attention.prompt_flash_attention,
        "PromptFlashAttention",
        None,
    ),
    (
        "quant_matmul",
        gen_ops_def.quant_batch_matmul,
        quant_batch_matmul,
        "QuantBatchMatmul",
        None,
    ),
    ("flash_attention", ms_ops.incre_flash_attention, attention.incre_flash_attention, "IncreFlashAttention", None),
)

_PRESENT = [row for row in _ROWS if row[0] in registry.names()]

# A shim computes a primitive that has no kernel here.
BY_PRIMITIVE = {primitive: compute for _, _, _, primitive, compute in _PRESENT if compute is not None}
BY_PRIMITIVE |= {"Conv2DExt": ops.conv2d, "Conv2DPadding": conv2d_padding}


@contextmanager
def cpu_builtins() -> Iterator[None]:
    """Replace, within the block, what MindSpore has for an NPU only by ours: `ops.rms_norm`, `ops.swiglu`,
    `RmsNorm` and others.

    `import ms_custom_ops` finds the functions that MindFormers calls, where the package is not installed.

    Models that use them run, train and export on a CPU, in PyNative and in graph mode; a graph must be compiled inside
    the block, and goes on working outside. Every module that has imported such a function sees ours; a function that
    was stored in an attribute of an object before is not seen. Primitives are cells that compute the same: those in
    modules, those that cells hold, and those that are made within the block. On another target than a CPU nothing
    changes.

    Raises:
        RuntimeError: something within the block used a primitive that has no kernel here and no shim: it is named,
            with the line that called it and what there is.
    """
    if ms.get_context("device_target") != "CPU":
        yield
        return
    with _Shims(), custom_ops_shim():
        try:
            yield
        except (RuntimeError, AttributeError, ImportError) as error:
            name = _without_kernel(str(error))
            if not name or isinstance(error, MissingOperatorError):
                raise
            there = ", ".join(sorted({*SHIMS, *(row[3] for row in _PRESENT)}))
            raise MissingOperatorError(
                f"cpu_builtins: {name} has no kernel on a CPU and no shim, called at {_caller(error, name)}. "
                f"There are shims for {there}; in ms_custom_ops for {', '.join(CUSTOM_OPS)}"
            ) from error


def _without_kernel(message: str) -> str:
    """Return the operator that there is no kernel for on a CPU, if that is what an error says."""
    found = _NO_KERNEL.search(message)
    if found is None:
        return ""
    custom = found["custom"] or found["imported"]
    return f"ms_custom_ops.{custom}" if custom else next(part for part in found.groups() if part)


_NO_KERNEL = re.compile(
    r"Unsupported op \[(\w+)\]|The kernel (\w+) unregistered|user defined function path '(\w+)' is illegal"
    r"|ms_custom_ops\.(?P<custom>\w+) has no shim|cannot import name '(?P<imported>\w+)' from 'ms_custom_ops'"
)


def _caller(error: BaseException, name: str) -> str:
    """Return the line that used an operator: the innermost that is neither MindSpore's nor ours."""
    compiled = re.findall(r"In file ([^\s:]+):(\d+)", str(error))
    called = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)][::-1]
    # A graph does not always say where an operator comes from; then say which cell holds it.
    for file, line in [*compiled, *(_holders(name) if _IN_GRAPH.search(str(error)) else ()), *called]:
        if not _LIBRARIES.search(str(Path(file).resolve())):
            code = linecache.getline(file, int(line)).strip()
            return f"{file}:{line} ({code})" if code else f"{file}:{line}"
    return "a line that is not known"


_IN_GRAPH = re.compile(r"Kernel select failed")


def _holders(name: str) -> Iterator[tuple[str, int]]:
    """Yield the lines of cells that call a primitive that they hold."""
    for cell in [o for o in gc.get_objects() if issubclass(type(o), nn.Cell)]:
        for attribute, primitive in list(cell._primitives.items()):
            if getattr(primitive, "name", None) != name:
                continue
            try:
                lines, first = inspect.getsourcelines(type(cell))
            except (OSError, TypeError):
                continue
            file = inspect.getsourcefile(type(cell)) or ""
            yield from ((file, first + i) for i, line in enumerate(lines) if f"self.{attribute}(" in line)


_LIBRARIES = re.compile(
    f"^({re.escape(str(Path(ms.__file__).parent))}|{re.escape(str(Path(__file__).resolve().parents[1]))}|.*/contextlib.py)"
)


@contextmanager
def device_is_cpu() -> Iterator[None]:
    """Give a script that asks MindSpore for an Ascend the CPU, within the block."""
    ms.set_device("CPU")

    def set_device(device_target: str, device_id: Any = None) -> None:
        real_device("CPU")

    def set_context(**settings: Any) -> None:
        if "device_target" in settings:
            settings["device_target"] = "CPU"
        settings.pop("device_id", None)
        real_context(**settings)

    real_device, real_context = ms.set_device, ms.set_context
    _rename({id(real_device): set_device, id(real_context): set_context})
    try:
        yield
    finally:
        _rename({id(set_device): real_device, id(set_context): real_context})


def _rename(
    instead: dict[int, Any], kinds: tuple[type, ...] = (), made: Callable[[Any], Any] | None = None
) -> list[tuple[dict[str, Any], str, Any]]:
    """Let every module have other objects for some, by their id; and for those of some classes what is `made` of them.

    Returns what was where. One pass: there are several hundred thousand names.
    """
    changed = []
    of_kinds: dict[type, bool] = {}
    for module in list(sys.modules.values()):
        names = getattr(module, "__dict__", None)
        if not isinstance(names, dict) or getattr(module, "__name__", "").startswith("ms_ascend_ops"):
            continue
        for name, value in list(names.items()):
            if id(value) in instead:
                names[name] = instead[id(value)]
                changed.append((names, name, value))
            elif kinds and made is not None:
                kind = type(value)
                if kind not in of_kinds:
                    of_kinds[kind] = issubclass(kind, kinds)
                if of_kinds[kind] and (ours := made(value)) is not None:
                    names[name] = ours
                    changed.append((names, name, value))
    return changed


_HOMES = (gen_ops_prim, math_ops, other_ops, _infer_ops, ms_ops)  # where MindSpore defines primitives


class _Shims:
    """Puts our functions in place of MindSpore's within the block, wherever a module has them.

    Primitives that a CPU lacks become cells: classes, objects in modules, and those in cells.
    """

    def __init__(self) -> None:
        self.kinds = {vars(m)[name]: ours for name, ours in SHIMS.items() for m in _HOMES if name in vars(m)}
        self.cells: list[tuple[nn.Cell, str, Any]] = []
        self.objects: dict[int, tuple[Any, Shim]] = {}
        self.names: list[tuple[dict[str, Any], str, Any]] = []

    def __enter__(self) -> None:
        kinds = tuple(self.kinds)
        functions = {id(function): ours for _, function, ours, _, _ in _PRESENT}
        classes = {id(kind): ours for kind, ours in self.kinds.items()}
        self.names = _rename(functions | classes, kinds, self._made)
        for cell in [o for o in gc.get_objects() if issubclass(type(o), nn.Cell) and not issubclass(type(o), Shim)]:
            for name, value in list(cell.__dict__.items()):
                if isinstance(value, kinds) and (made := _shim(value)) is not None:
                    del cell.__dict__[name]
                    cell._primitives.pop(name, None)
                    cell._cells[name] = made
                    self.cells.append((cell, name, value))

    def __exit__(self, *_: Any) -> None:
        for cell, name, value in self.cells:
            del cell._cells[name]
            cell._primitives[name] = cell.__dict__[name] = value
        for names, name, value in self.names:
            names[name] = value
        # Modules that were imported within the block have ours, too.
        functions = {id(ours): function for _, function, ours, _, _ in _PRESENT}
        classes = {id(ours): kind for kind, ours in self.kinds.items()}
        _rename(functions | classes | {id(ours): stock for stock, ours in self.objects.values()})

    def _made(self, value: Any) -> Shim | None:
        """Return the shim of an object in a module. MindSpore's own functions use BatchMatMul as a CPU has it."""
        if isinstance(value, ms_ops.BatchMatMul):
            return None
        if id(value) not in self.objects and (made := _shim(value)) is not None:
            self.objects[id(value)] = value, made
        return self.objects[id(value)][1] if id(value) in self.objects else None


def _shim(primitive: Any) -> Shim | None:
    """Return the cell for a primitive object; None if it was made in a way that the cell cannot serve."""
    try:
        return shim_for(primitive)
    except ValueError:
        return None
