"""Provides `optimize` for networks of MindNLP.

A module whose whole `forward` is found gets another one, for the inputs that it was seen with; so does a function that
a `forward` calls, for that module alone. Attention goes through the place that transformers has for it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from types import FunctionType, MethodType
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Tensor
from ms_ascend_ops.export.engines.cell_engine import TOLERANCES
from ms_ascend_ops.export.engines.emit import NotPortableError, Writer
from ms_ascend_ops.export.engines.generated import guard
from ms_ascend_ops.export.graphs.graph import Node
from ms_ascend_ops.export.matching.find import Found, check_level, find
from ms_ascend_ops.export.matching.patterns import PATTERNS, Row
from ms_ascend_ops.export.modules.attention import use_attention
from ms_ascend_ops.export.modules.record import Frame, recorded, tensors_of
from ms_ascend_ops.export.reports.report import Difference, Entry, Report

from ms_ascend_ops import ops
from ms_ascend_ops.mindspore_versions import dtype_name

__all__ = ["is_module", "optimize"]

ENGINE = "module"


def is_module(network: Any) -> bool:
    """Tell whether a network is one of MindNLP."""
    return any(
        f"{kind.__module__}.{kind.__name__}" == "mindtorch.nn.modules.module.Module" for kind in type(network).__mro__
    )


def optimize(
    network: Any,
    verify: Sequence[Any] | Mapping[str, Any] | None,
    *,
    gradients: bool = False,
    tolerance: float | None = None,
    level: str = "O2",
    patterns: Sequence[Row] = PATTERNS,
) -> Report:
    """Return what `ms_ascend_ops.optimize` does with a module of mindtorch.

    Args:
        network: the network.
        verify: its inputs, as a list, or by name as a dict; or a list of some, for each way in which it is called.
        gradients: compare also the gradients of its parameters.
        tolerance: as of `ms_ascend_ops.optimize`.
        level: as of `ms_ascend_ops.optimize`.
        patterns: what to look for.

    Returns:
        The report; `report.restore()` undoes everything.

    Raises:
        TypeError: there is no `verify`.
    """
    if not verify:
        raise TypeError("optimize: a module of MindNLP needs the inputs to look at it with (verify=inputs)")
    report = Report(level=check_level(level, "optimize"))
    if level == "O0":
        return report
    calls = _calls(verify)
    with _evaluating(network):
        before = [_arrays(_run(network, call)) for call in calls]
        slopes = [_gradients(network, call) for call in calls] if gradients else []
        try:
            _substitute(network, calls, patterns, report)
            if not report.replaced:
                return report
            after = [_arrays(_run(network, call)) for call in calls]
            slopes_now = [_gradients(network, call) for call in calls] if gradients else []
        except Exception as error:
            report.roll_back(f"the network does not run any more: {error}")
            return report
    report.modes = "PyNative"
    report.outputs = _difference(before, after)
    allowed = max(_allowed(network), 1e-4) if tolerance is None else tolerance
    if gradients:
        report.gradients = _difference(slopes, slopes_now)
    for name, found in (("an output", report.outputs), ("a gradient", report.gradients)):
        if found is not None and not found.relative <= allowed:
            report.roll_back(f"{name} differs by {found}, more than {allowed:g}")
            break
    return report


def _substitute(network: Any, calls: Sequence[Any], patterns: Sequence[Row], report: Report) -> None:
    """Put operators into the modules of a network, as calls of it tell."""
    if patterns is PATTERNS:
        use_attention(network, report)
    with recorded(network) as recording:
        for call in calls:
            _run(network, call)
    modules = {id(module): (path, module) for path, module in network.named_modules()}
    # Go from the inside outwards: a module around a replaced one is replaced if it is more than that.
    for (key, function), frame in sorted(recording.frames.items(), key=lambda one: -len(one[1].path)):
        path, module = modules[key]
        _replace(module, path, function, frame, patterns, report)


def _calls(verify: Sequence[Any] | Mapping[str, Any]) -> list[Any]:
    several = isinstance(verify, (list, tuple)) and all(isinstance(one, (list, tuple, Mapping)) for one in verify)
    return list(verify) if several else [verify]


def _run(network: Any, call: Any) -> Any:
    return network(**call) if isinstance(call, Mapping) else network(*call)


def _allowed(network: Any) -> float:
    dtypes = {dtype_name(parameter.dtype) for parameter in network.parameters()}
    return max((TOLERANCES.get(dtype, 0.0) for dtype in dtypes), default=0.0)


@contextmanager
def _evaluating(network: Any) -> Iterator[None]:
    """Run with the network in evaluation mode."""
    training = [module for module in network.modules() if module.training]
    network.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True


def _arrays(value: Any) -> list[Any]:
    return [one.asnumpy().astype(np.float64) for one in tensors_of(value)]


def _gradients(network: Any, call: Any) -> list[Any]:
    """Return those of the sum of the squares of the first output."""
    parameters = tuple(p for p in network.parameters() if p.requires_grad)

    def loss() -> Any:
        first = next(tensors_of(_run(network, call)))
        return (first * first).sum()

    return _arrays(ms.value_and_grad(loss, None, parameters)()[1])


def _difference(before: Sequence[Sequence[Any]], after: Sequence[Sequence[Any]]) -> Difference:
    """Return the largest difference; values below 1 % of the largest of all count as if they had that size."""
    pairs = list(zip((x for one in before for x in one), (x for one in after for x in one), strict=True))
    least = max((float(np.abs(a).max(initial=0.0)) for a, _ in pairs), default=0.0) / 100 or 1.0
    absolute = relative = 0.0
    for a, b in pairs:
        error = float(np.abs(a - b).max(initial=0.0)) if a.shape == b.shape else float("inf")
        error = error if np.isfinite(error) else float("inf")
        absolute, relative = max(absolute, error), max(relative, error / max(float(np.abs(a).max(initial=0.0)), least))
    return Difference(absolute, relative)


class _Writer(Writer):
    """Writes a `forward`."""

    def path(self, name: str) -> str:
        """Return how a module or a parameter is reached: numbers are those of a list."""
        return "self" + "".join(f"[{part}]" if part.isdigit() else f".{part}" for part in name.split("."))

    def is_trained(self, name: str) -> bool:
        """Tell whether a parameter gets a gradient."""
        owner = self.cell
        for part in name.split("."):
            owner = getattr(owner, part)
        return bool(owner.requires_grad)

    def cast(self, text: str, dtype: str) -> str:
        """Write a conversion."""
        return f"{text}.to(mindspore.{dtype})"

    def _write_other(self, node: Node) -> str:
        if node.kind == "ExpandDims":
            return self._assigned(f"{self.text(node.inputs[0])}.unsqueeze({node.inputs[1].value})")
        if node.kind == "Contiguous":
            return self.text(node.inputs[0])
        return super()._write_other(node)


def _replace(module: Any, path: str, function: str, frame: Frame, patterns: Sequence[Row], report: Report) -> None:
    """Give a module another forward, if there is one with operators."""
    if "forward" in vars(module) and not function:
        return
    # A PyTorch function has no place for a condition on training.
    found, _ = find(frame.graph, [row for row in patterns if not row.evaluation], report.level)
    inner = {entry.pattern for entry in report.replaced if entry.place.startswith(f"{path}.")}
    if not function and {one.row.name for one in found} <= inner:
        return
    place = path or "the network"
    try:
        fused = _written(module, frame, found) if found else None
    except NotPortableError as error:
        fused, reason = None, str(error)
        if not any(entry.place == place for entry in report.entries):
            report.entries.extend(
                Entry(place, one.row.name, ENGINE, False, reason) for one in found if _whole(frame, one)
            )
    if fused is None:
        return
    report.entries.extend(Entry(place, one.row.name, ENGINE, True, one.fused.note) for one in found)
    before = vars(module).get("forward")
    forward = _calling(module, function, fused) if function else fused
    vars(module)["forward"] = MethodType(forward, module)
    report.undo.append(lambda: vars(module).pop("forward") if before is None else vars(module).update(forward=before))


def _whole(frame: Frame, found: Found) -> bool:
    """Tell whether a place ends what a frame computes: smaller ones have frames of their own."""
    return found.root in frame.graph.outputs


def _written(module: Any, frame: Frame, found: Sequence[Found]) -> Callable[..., Any]:
    """Write the function of a frame with the operators in it; other inputs than those that were seen go to the
    stock one.
    """
    if any(one.fused.masks or one.fused.lifted or one.fused.cast or one.moved for one in found):
        raise NotPortableError("it is left to the engines of MindSpore's cells")
    seen: Any = frame
    statements = _Writer(module, seen, found).statements()
    signature = inspect.signature(frame.function)
    taken = [
        p.replace(annotation=p.empty, default=p.default if p.default is p.empty else None)
        for p in signature.parameters.values()
    ]
    others = [f"not {p.name}" for p in taken if p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    header = str(signature.replace(parameters=taken, return_annotation=signature.empty))
    conditions = [
        *_conditions(frame),
        *others,
        *([] if frame.owner is None else ["not self.training"] * _drops(module)),
    ]
    lines = [f"def forward{header}:", *guard(conditions, "stock", signature), *(f"    {line}" for line in statements)]
    names_of: dict[str, Any] = {
        "fused": _Placed(),
        "mindspore": ms,
        "ops": import_module("mindtorch"),
        "Tensor": Tensor,
        "stock": frame.function,
    }
    exec("\n".join(lines), names_of)
    forward: FunctionType = names_of["forward"]
    forward.__defaults__, forward.__kwdefaults__ = frame.function.__defaults__, frame.function.__kwdefaults__
    return forward


def _drops(module: Any) -> bool:
    """Tell whether there is a dropout in a module, which another run may have."""
    return any("dropout" in type(one).__name__.lower() and getattr(one, "p", 0) for one in module.modules())


def _conditions(frame: Frame) -> Iterator[str]:
    """Yield what the inputs must be: of these dtypes and ranks, and the same where they are no tensors."""
    for name, value in frame.bound.items():
        yield from _conditions_of(name, value)


def _conditions_of(name: str, value: Any) -> Iterator[str]:
    if isinstance(value, Tensor):
        dtype = f"mindspore.{dtype_name(value.dtype)}"
        yield f"isinstance({name}, Tensor) and {name}.dtype == {dtype} and {name}.ndim == {value.ndim}"
    elif isinstance(value, (tuple, list)):
        yield f"isinstance({name}, {type(value).__name__}) and len({name}) == {len(value)}"
        for index, item in enumerate(value):
            yield from _conditions_of(f"{name}[{index}]", item)
    elif value is None or isinstance(value, (bool, int, float, str)):
        yield f"{name} is None" if value is None else f"{name} == {value!r}"
    else:
        raise NotPortableError(f"it is given a {type(value).__name__}")


class _Placed:
    """Calls the operators, with results on the device of the first input, which mindtorch wants to know."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return _placed(name)


@cache
def _placed(name: str) -> Callable[..., Any]:
    operator = getattr(ops, name)

    def call(*tensors: Any, **attributes: Any) -> Any:
        results = operator(*tensors, **attributes)
        for result in results if isinstance(results, tuple) else (results,):
            result._device = tensors[0]._device
        return results

    return call


def _calling(module: Any, name: str, fused: Callable[..., Any]) -> FunctionType:
    """Return the forward of a module, in which a name stands for another function."""
    own = vars(module).get("forward")
    stock: FunctionType = own.__func__ if own is not None else inspect.unwrap(type(module).forward)
    names = {**stock.__globals__, name: fused}
    made = FunctionType(stock.__code__, names, stock.__name__, stock.__defaults__, stock.__closure__)
    made.__kwdefaults__ = stock.__kwdefaults__
    return made
