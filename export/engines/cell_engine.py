"""Implements engine 1: exchanges in place cells whose whole `construct` is a pattern, or a pattern between sub-cells.

The cell stays the object that it is, with its parameters and sub-cells, and gets a class with another construct. What
that construct must be follows from watching the cell: in several shapes, in training and evaluation, in each dtype.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from mindspore import nn
from ms_ascend_ops.export.engines.emit import NotPortableError, emit, path_to
from ms_ascend_ops.export.engines.generated import load_source, subclass
from ms_ascend_ops.export.engines.timing import slower
from ms_ascend_ops.export.graphs.graph import BATCH_NORMS, Graph
from ms_ascend_ops.export.graphs.layers import is_small, matrix_of, operator_of
from ms_ascend_ops.export.graphs.observe import helpers
from ms_ascend_ops.export.graphs.probe import dtype_name, sub_cells
from ms_ascend_ops.export.graphs.specs import OWNER, Spec
from ms_ascend_ops.export.graphs.state import State
from ms_ascend_ops.export.graphs.trace import Trace, trace
from ms_ascend_ops.export.matching.find import Found, Place, find
from ms_ascend_ops.export.matching.patterns import Row

from ms_ascend_ops.mindspore_versions import has_fault

__all__ = [
    "TOLERANCES", "Analysis", "Swap", "Target", "absent", "analyse", "conditions_of", "drawn", "error_of",
    "normalizes_batches", "of_one_sub_cell", "outside_training", "smaller",
]  # fmt: skip

_FLOATS = ("float32", "float16", "bfloat16")

# Bounds on the difference of the fused construct from the stock one, as a share of the largest magnitude of a row.
# Stock formulas with tanh are off by 1e-4 themselves; GELU's two forms, say, are 5e-4 apart.
TOLERANCES = {"float32": 2e-4, "float16": 4e-3, "bfloat16": 3e-2}


@dataclass
class Swap:
    """Hold what is in another construct for a cell, and how to make a class with it of the one that the cell has."""

    make: Callable[[type], type]
    found: list[Found]
    notes: list[str]
    without: frozenset[tuple[str, str]] = frozenset()  # linear layers that are called without their activations
    unread: bool = False  # whether a result that nobody has read is None
    in_place: bool = False  # whether the source has statements as `x += y`, which modes take differently


@dataclass
class Analysis:
    """Holds what an engine says about a cell: another construct for it, or places that stay, or nothing."""

    swap: Swap | None = None
    left: list[tuple[str, str]] = field(default_factory=list)  # pattern, reason
    graph: Graph | None = None
    found: list[Found] = field(default_factory=list)


@dataclass(frozen=True)
class Target:
    """Names a cell that an engine looks at, and what it is looked at for: its construct, or a part of that."""

    cell: nn.Cell
    patterns: Sequence[Row]
    level: str
    returns: Mapping[int, Any]  # of the sub-cells, as far as that was observed
    method: str = "construct"
    function: Any = None  # or a function that its construct calls
    unread: frozenset[int] = frozenset()  # the items of what that returns which nobody reads
    split: bool = False  # whether linear layers are called without their activations
    evaluation: bool = False  # what is found holds only where batch normalizations take given statistics
    form: Any = None  # equal for cells that differ in sizes and other numbers alone; None: like no other
    errors: dict[Any, Mapping[str, float]] = field(default_factory=dict)  # of such cells, by dtype: `_errors`
    watched: dict[str, Trace | str] = field(default_factory=dict)  # the cell itself, by inputs: `stock`
    state: State | None = None  # of the network, from which it is watched

    @cached_property
    def stored(self) -> str:
        """Return the dtype in which the cell works: that of its first parameter."""
        dtypes = [dtype_name(p.dtype) for p in self.cell.get_parameters()]
        return next((d for d in dtypes if d in _FLOATS), "float32")

    @cached_property
    def layers(self) -> frozenset[str]:
        """Return the operators whose layers are of interest themselves."""
        return frozenset({"matmul", "conv2d"} & {row.op for row in self.patterns if row.level <= self.level})

    def trace(self, cell: nn.Cell, inputs: Mapping[str, Any], *, dtype: str = "", **options: Any) -> Trace | str:
        """Watch the cell, or a copy of it; `dtype`: that of its inputs, where it is another than its own.

        Where it does not take that, its parameters are cast, too, as mixed precision does with all tensors.
        """
        if self.state is not None:
            self.state.restore()
        if self.method != "construct":
            others = helpers(self.cell)
            options.setdefault("construct", others.pop(self.method))
            options["methods"] = others
        if self.function is not None:
            options["construct"] = partial(self._called, options.get("construct", self.function))
        options |= {"returns": self.returns, "layers": self.layers, "split": self.split}
        seen = trace(cell, inputs, dtype=dtype, **options)
        return trace(cell, inputs, dtype=dtype, whole=True, **options) if dtype and isinstance(seen, str) else seen

    def _called(self, function: Callable[..., Any], cell: nn.Cell, **inputs: Any) -> Any:
        """Return what a function gives that the construct calls."""
        result = function(**{name: cell if value is OWNER else value for name, value in inputs.items()})
        if self.unread:
            return tuple(None if index in self.unread else value for index, value in enumerate(result))
        return result

    def stock(self, inputs: Mapping[str, Any]) -> Trace | str:
        """Return what the cell does with such inputs in the dtype in which it works; watched once."""
        key = repr(inputs)
        if key not in self.watched:
            self.watched[key] = self.trace(self.cell, drawn(inputs, self.stored, self.stored))
        return self.watched[key]

    @property
    def signature(self) -> inspect.Signature:
        """Return what the method takes."""
        return inspect.signature(self.function or inspect.unwrap(getattr(type(self.cell), self.method)))


@dataclass
class _Version:
    """Hold what a cell does in one dtype: the statements with fused operators."""

    statements: tuple[str, ...]
    found: list[Found]
    left: list[Place]
    seen: Trace


def analyse(target: Target, calls: Sequence[Any]) -> Analysis:
    """Look for the patterns in one cell. `calls` describe the inputs that it was called with, if they are known."""
    names = _inputs(target)
    if names is None or not names:
        return Analysis()
    best = Analysis()
    candidates = list(calls) or (list(_guesses(target.cell, names, target.stored)) if not target.split else [])
    versions: list[tuple[Mapping[str, Any], _Version]] = []
    trials: list[tuple[Target, Mapping[str, Any]]] = []
    for inputs in candidates:
        trial = smaller(target, inputs)
        first = "" if trial is None else _version(*trial)
        if isinstance(first, Analysis) and not first.left:
            continue  # nothing, whatever the sizes
        version = _version(target, inputs)
        if isinstance(version, _Version):
            versions.append((inputs, version))
            alike = isinstance(first, _Version) and first.statements == version.statements
            trials.append(trial if trial is not None and alike else (target, inputs))
        elif isinstance(version, Analysis) and not best.left:
            best = version
    if not versions:
        return best
    inputs, version = versions[0]
    reason = _varies(trials[0], versions, best)
    if reason:
        # The rewrite engine may find smaller places where there is a dropout inside.
        dropouts = [f for f in version.found if f.fused.dropout]
        return Analysis(left=[(f.row.name, reason) for f in version.found], graph=version.seen.graph, found=dropouts)
    return _in_every_dtype(target, inputs, version, trials[0])


def _inputs(target: Target) -> list[str] | None:
    parameters = target.signature.parameters.values()
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters):
        return None
    return [p.name for p in parameters][1:]


def _guesses(cell: nn.Cell, names: list[str], dtype: str) -> Iterator[dict[str, Any]]:
    """Yield inputs that the cell may take, from the shapes of its parameters."""
    if any(
        not is_small(c) and matrix_of(c) is None and not isinstance(c, nn.CellList) for c in sub_cells(cell).values()
    ):
        return  # sub-cells whose results are unknown
    required = [
        p.name
        for p in inspect.signature(inspect.unwrap(type(cell).construct)).parameters.values()
        if p.default is p.empty and p.name != "self"
    ]
    sizes = {p.shape[0] for p in cell.get_parameters() if p.ndim == 1}
    sizes |= {size for c in sub_cells(cell).values() if (w := matrix_of(c)) is not None for size in w.shape}
    if operator_of(cell) == "conv2d":
        shape, dilation = cell._params["weight"].shape, max(cell.dilation)
        # Try more than the kernel sees, and sizes that the weight does not have.
        least = dilation * max(shape[2:]) + 3
        rows, cols = [size for size in range(least, least + 8) if size not in shape][:2]
        yield {name: Spec((2, cell.in_channels, rows, cols), dtype) for name in required}
    if any(p.ndim > 1 for p in cell._params.values() if p is not None):
        return
    for size in sorted(sizes or {8}):
        for shape in ((2, 3, size), (6, size), (1, 2, 3, size), (2, size, 4, 6), (2, size, 5)):
            yield {name: Spec(shape, dtype) for name in required}
    if len(required) == 3 and not sizes:  # x, cos, sin
        for tables in ((5, 8), (1, 1, 5, 8), (5, 4)):
            yield {required[0]: Spec((2, 3, 5, 8), dtype), **{n: Spec(tables, dtype) for n in required[1:]}}


def drawn(inputs: Mapping[str, Any], dtype: str, stored: str, seed: int = 1) -> dict[str, Any]:
    """Draw values for described inputs, with `dtype` where the description has the dtype of the cell."""

    def value(spec: Any, number: int) -> Any:
        if isinstance(spec, Spec):
            return replace(spec, dtype=dtype if spec.dtype == stored else spec.dtype).draw(number)
        return tuple(value(s, number + 1 + i) for i, s in enumerate(spec)) if isinstance(spec, tuple) else spec

    return {name: value(spec, 100 * seed + 10 * i) for i, (name, spec) in enumerate(inputs.items())}


def _version(
    target: Target, inputs: Mapping[str, Any], dtype: str = "", training: bool = False
) -> _Version | Analysis | str:
    """Return what the cell does with such inputs: fused, recognised but left, or (a text) not to be seen."""
    if training or dtype:
        values = drawn(inputs, dtype or target.stored, target.stored)
        trained = (lambda cell: not normalizes_batches(cell)) if training and target.evaluation else training
        seen = target.trace(target.cell, values, training=trained, dtype=dtype)
    else:
        seen = target.stock(inputs)
    if isinstance(seen, str):
        return seen
    found, left = find(seen.graph, target.patterns, target.level, slower)
    own = [f for f in found if not of_one_sub_cell(f)]
    reasons = [(p.row.name, p.reason) for p in left if p.root.origin is None]
    if not own:
        return Analysis(left=reasons, graph=seen.graph)
    try:
        statements = tuple(emit(target.cell, seen, own))
    except NotPortableError as error:
        return Analysis(left=[*((f.row.name, str(error)) for f in own), *reasons], graph=seen.graph, found=own)
    return _Version(statements, own, left, seen)


def normalizes_batches(cell: nn.Cell) -> bool:
    """Tell whether a cell takes statistics of a batch in training, and given ones otherwise."""
    return "BatchNorm" in type(cell).__name__


def outside_training(cell: nn.Cell, found: Sequence[Found]) -> list[str]:
    """Return conditions for places that fit only where their batch normalizations take given statistics."""
    nodes = [n for item in found if item.row.evaluation for n in item.inside if n.kind in BATCH_NORMS]
    owners = ["self" if n.origin is None else path_to(cell, n.origin.name) for n in nodes]
    return [f"not {owner}.training" for owner in dict.fromkeys(owners)]


def of_one_sub_cell(found: Found) -> bool:
    """Tell whether the place lies in one sub-cell as a whole: then it is replaced there."""
    return found.root.origin is not None and all(n.origin is found.root.origin for n in found.inside)


def smaller(target: Target, inputs: Mapping[str, Any]) -> tuple[Target, dict[str, Any]] | None:
    """Return the cell with inputs, and results of its sub-cells, of the same form that hold less.

    None where there are none.

    Images and sequences shrink, each size by the same factor; what a parameter has as a size stays. A cell that does
    not take that fails, and whoever asks takes the real sizes.
    """
    returns = {id(cell): target.returns.get(id(cell)) for _, cell in target.cell.cells_and_names()}
    specs = [spec for value in (*inputs.values(), *returns.values()) for spec in _specs(value)]
    if not any(math.prod(spec.shape) >= _LARGE for spec in specs) or any(s.repeats or s.rotates for s in specs):
        return None
    fixed = {size for parameter in target.cell.get_parameters() for size in parameter.shape}
    sizes = {size for spec in specs for size in spec.shape}
    open_sizes = {size for size in sizes if size > _FEW and size not in fixed}
    common = math.gcd(*open_sizes)
    taken = fixed | (sizes - open_sizes)
    for factor in range(common, 1, -1):
        shrunk = {size: size // factor for size in open_sizes}
        # A size must not become that of another axis: which is which would be open.
        if common % factor == 0 and min(shrunk.values()) > 2 and taken.isdisjoint(shrunk.values()):
            break
    else:
        return None

    def resized(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(resized, value))
        if not isinstance(value, Spec):
            return value
        return replace(value, shape=tuple(shrunk.get(size, size) for size in value.shape))

    changed = {key: resized(value) for key, value in returns.items() if value is not None}
    return replace(target, returns=changed, watched={}), {name: resized(value) for name, value in inputs.items()}


_LARGE, _FEW = 2**14, 4


def _specs(value: Any) -> Iterator[Spec]:
    if isinstance(value, Spec):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from _specs(item)


def _varies(
    trial: tuple[Target, Mapping[str, Any]], versions: list[tuple[Mapping[str, Any], _Version]], other: Analysis
) -> str:
    """Return why one construct does not do for all inputs, if so. `trial`: with what it is tried."""
    target, inputs = trial
    version = versions[0][1]
    if any(v.statements != version.statements for _, v in versions):
        return "it does something else for inputs of another shape"
    if other.left:
        return f"for inputs of another shape {other.left[0][1]}"
    batch = next((s.shape[:1] for s in inputs.values() if isinstance(s, Spec) and s.shape), ())

    def grown(spec: Any) -> Any:
        if isinstance(spec, tuple):
            return tuple(map(grown, spec))
        if not isinstance(spec, Spec) or spec.shape[:1] != batch or len(spec.shape) < 2 or spec.rotates:
            return spec
        return replace(spec, shape=(spec.shape[0] + 1, *spec.shape[1:]))

    again = _version(target, {name: grown(spec) for name, spec in inputs.items()})
    if isinstance(again, _Version) and again.statements != version.statements:
        return "it does something else for another batch"
    trained = _version(target, inputs, training=True)
    if not isinstance(trained, _Version) or trained.statements != version.statements:
        return "it does something else in training (dropout?)"
    return ""


def _in_every_dtype(
    target: Target, inputs: Mapping[str, Any], version: _Version, trial: tuple[Target, Mapping[str, Any]]
) -> Analysis:
    """Return the class for the cell, after comparing it with the stock one in every dtype.

    Others keep the stock construct.

    `trial`: with what it is tried in other dtypes than its own.
    """
    stored = target.stored
    construct = load_source(
        type(target.cell).__name__,
        f"def construct(self, {', '.join(inputs)}):\n    " + "\n    ".join(version.statements) + "\n",
    ).construct
    made = bypassed(version.seen.graph)
    error = error_of(target, inputs, stored, version.seen, construct)
    if not error <= TOLERANCES[stored]:
        text = f"its {stored} result is {error:.1e} away from the fused operator's"
        return Analysis(left=[(f.row.name, text) for f in version.found], graph=version.seen.graph)
    errors = {stored: error, **_errors(trial, version.statements, construct)}
    accepted = [dtype for dtype, error in errors.items() if error <= TOLERANCES[dtype]]
    notes = [f"{d} within {errors[d]:.0e}" for d in accepted if d != "float32" and errors[d] > 0]
    conditions = [*conditions_of(target, inputs, accepted), *outside_training(target.cell, version.found)]
    if len(accepted) < len(_FLOATS):
        refused = " and ".join(d for d in _FLOATS if d not in accepted)
        notes.append(f"{refused} input keeps the stock construct")
    make = partial(subclass, statements=version.statements, conditions=conditions, method=target.method)
    return Analysis(Swap(make, version.found, notes, made), graph=version.seen.graph, found=version.found)


def _errors(
    trial: tuple[Target, Mapping[str, Any]], statements: tuple[str, ...], construct: Callable[..., Any]
) -> Mapping[str, float]:
    """Return how far the construct is from the stock one in the dtypes that are not its own, as far as it takes them.

    Cells that differ in sizes alone, and become the same statements, are tried once.
    """
    target, inputs = trial
    kinds = [(n, (len(v.shape), v.dtype) if isinstance(v, Spec) else type(v)) for n, v in inputs.items()]
    key = target.form, target.method, target.split, statements, repr(kinds)
    if target.form is not None and key in target.errors:
        return target.errors[key]
    errors = {}
    for dtype in _FLOATS:
        if dtype == target.stored or (dtype == "bfloat16" and has_fault("bfloat16 on a CPU")):
            continue
        same = _version(target, inputs, dtype)
        if isinstance(same, _Version) and same.statements == statements:
            errors[dtype] = error_of(target, inputs, dtype, same.seen, construct)
    target.errors[key] = errors
    return errors


def bypassed(graph: Graph) -> frozenset[tuple[str, str]]:
    """Return the linear layers that a graph calls without their activations, with the names of those."""
    return frozenset((n.name, n.attributes["without"]) for n in graph.nodes if "without" in n.attributes)


def error_of(
    target: Target, inputs: Mapping[str, Any], dtype: str, seen: Trace, construct: Callable[..., Any]
) -> float:
    """Return the largest difference between the two constructs on random inputs, relative to the magnitude of its row.

    What a convolution makes has channels beside places, of which there may be one: its row is a sample.
    """
    values = drawn(inputs, dtype, target.stored)
    cast = "" if dtype == target.stored else dtype
    fused = target.trace(target.cell, values, construct=construct, dtype=cast)
    if isinstance(fused, str):
        return float("inf")
    if [n.dtype for n in seen.graph.outputs] != [n.dtype for n in fused.graph.outputs]:
        return float("inf")
    samples = any(node.kind in _CONVOLUTIONS or node.attributes.get("layer") == "conv2d" for node in seen.graph.nodes)
    worst = 0.0
    pairs = [(seen.values, fused.values), *((old, fused.passed.get(key)) for key, old in seen.passed.items())]
    for old, new in ((a, b) for before, after in pairs for a, b in zip(_flat(before), _flat(after), strict=True)):
        if not isinstance(old, np.ndarray):
            continue
        if not isinstance(new, np.ndarray) or old.shape != new.shape:
            return float("inf")
        axes = tuple(range(1, old.ndim)) if samples and old.ndim > 2 else -1
        scale = np.abs(old).max(axes, keepdims=True) if old.ndim else np.abs(old)
        error = np.abs(new - old) / np.where(scale > 0, scale, 1.0)
        worst = max(worst, float(error.max(initial=0.0)) if np.isfinite(error).all() else float("inf"))
    return worst


_CONVOLUTIONS = frozenset({"Conv2D", "Conv2DExt", "Conv2DPadding"})


def _flat(values: Any) -> list[Any]:
    return [leaf for v in values for leaf in _flat(v)] if isinstance(values, tuple) else [values]


def absent(target: Target, inputs: Mapping[str, Any]) -> dict[str, bool]:
    """Tell which of the arguments that conditions ask for are None."""
    known = {}
    for name, parameter in target.signature.parameters.items():
        value = inputs.get(name, parameter.default)
        if value is None or (isinstance(value, Spec) and _may_be_none(target, parameter)):
            known[name] = value is None
    return known


def _may_be_none(target: Target, parameter: inspect.Parameter) -> bool:
    return parameter.default is None or target.function is not None


def conditions_of(target: Target, inputs: Mapping[str, Any], accepted: Sequence[str]) -> list[str]:
    """Return what must hold of the inputs for the construct that was derived from watching."""
    conditions = []
    defaults = target.signature.parameters
    for name, parameter in defaults.items():
        value = inputs.get(name, parameter.default)
        if name == "self" or value is OWNER:
            continue
        if isinstance(value, Spec):
            if _may_be_none(target, parameter):
                conditions.append(f"{name} is not None")
            if value.dtype == target.stored and len(accepted) < len(_FLOATS):
                dtypes = " or ".join(f"{name}.dtype == mindspore.{d}" for d in accepted)
                conditions.append(f"({dtypes})" if len(accepted) > 1 else dtypes)
        elif value is None:
            conditions.append(f"{name} is None")
        elif isinstance(value, tuple):
            conditions.append(f"isinstance({name}, tuple) and len({name}) == {len(value)}")
        elif value is not parameter.empty:
            conditions.append(f"{name} == {value!r}")
    return conditions
