"""Record what the cells of a network are called with, and what they return, in one run of it."""

from __future__ import annotations

import dis
import inspect
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, wraps
from types import FunctionType
from typing import Any

from mindspore import Tensor, nn
from ms_ascend_ops.export.graphs.dispatch_mode import DispatchMode
from ms_ascend_ops.export.graphs.modes import evaluating, pynative
from ms_ascend_ops.export.graphs.probe import synchronize
from ms_ascend_ops.export.graphs.specs import OWNER, Spec, spec_of
from ms_ascend_ops.export.graphs.state import State

__all__ = ["Counting", "Observed", "functions_of", "helpers", "is_of_a_user", "observe_calls"]

_CALLS_OF_A_KIND = 3


class Counting(DispatchMode):  # type: ignore[misc]
    """Counts, by name, the primitives that run within the block in PyNative mode."""

    def __init__(self, counts: Counter[str]) -> None:
        super().__init__()
        self.counts = counts

    def __ms_dispatch__(self, func: Any, args: Any, kwargs: Any = None) -> Any:
        self.counts[func.name] += not func.name.islower()  # `make_range` and the like are numbers for others
        return func(*args)


@dataclass
class Observed:
    """Holds, by the id of a cell, descriptions of the inputs of its calls, by name, and of what it returned first.

    `methods` and `functions` are, by name, those that its construct calls; the cell itself is OWNER among the inputs of
    a function. `outputs` are those of the network, of the calls that ran to their end, and `primitives` how often each
    ran in them; each run of the network starts from its `state`.
    """

    calls: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    returns: dict[int, Any] = field(default_factory=dict)
    methods: dict[int, dict[str, list[dict[str, Any]]]] = field(default_factory=dict)
    functions: dict[int, dict[str, list[dict[str, Any]]]] = field(default_factory=dict)
    outputs: list[Any] = field(default_factory=list)
    primitives: Counter[str] = field(default_factory=Counter)
    state: State | None = None

    def kinds(self, cell: nn.Cell, method: str = "", function: str = "") -> list[list[dict[str, Any]]]:
        """Return the calls of a cell, or those by it, in groups that give the same optional inputs."""
        groups: dict[str, list[dict[str, Any]]] = {}
        calls = self.calls.get(id(cell), [])
        if method or function:
            calls = (self.methods if method else self.functions).get(id(cell), {}).get(method or function, [])
        for call in calls:
            groups.setdefault(_kind(call), []).append(call)
        return list(groups.values())


def _kind(call: Mapping[str, Any]) -> str:
    return repr([(n, "tensor" if isinstance(v, Spec) else v) for n, v in call.items() if v is not None])


def observe_calls(net: nn.Cell, calls: Sequence[Sequence[Tensor]]) -> Observed:
    """Run `net`, operator by operator, and write down how its cells are called. What it cannot run stays empty."""
    observed = Observed()
    running: list[nn.Cell] = []
    watching = (
        _watching(observed, running),
        _watching_methods(net, observed),
        _watching_functions(net, observed, running),
    )
    with pynative(), evaluating(net), watching[0], watching[1], watching[2], Counting(observed.primitives):
        for inputs in calls:
            try:
                observed.outputs.append(net(*inputs))
            except Exception:  # operators without a kernel on this machine: what ran before is known
                synchronize()
    return observed


def _enter(known: list[dict[str, Any]], bound: Mapping[str, Any]) -> None:
    """Count one more call, unless there are enough like it."""
    described = {name: spec_of(value) for name, value in list(bound.items())[1:]}
    if described not in known and sum(_kind(k) == _kind(described) for k in known) < _CALLS_OF_A_KIND:
        known.append(described)


def is_of_a_user(value: Any) -> bool:
    """Tell whether a value is a plain function that was written outside of MindSpore, NumPy and this library."""
    if not isinstance(value, FunctionType) or hasattr(value, "__wrapped__"):
        return False
    return (value.__module__ or "").partition(".")[0] not in ("mindspore", "ms_ascend_ops", "numpy", "builtins")


def functions_of(construct: Any) -> dict[str, FunctionType]:
    """Return the functions of its module that a construct names."""
    names = {name: construct.__globals__.get(name) for name in construct.__code__.co_names}
    return {name: value for name, value in names.items() if is_of_a_user(value)}


def helpers(cell: nn.Cell) -> dict[str, Any]:
    """Return the methods that the classes of a cell have besides what MindSpore asks for: parts of a construct,
    perhaps.
    """
    found = {}
    for kind in reversed(type(cell).__mro__):
        if kind.__module__.partition(".")[0] in ("mindspore", "ms_ascend_ops", "builtins"):
            continue
        for name, value in vars(kind).items():
            if isinstance(value, FunctionType) and name != "construct" and not name.startswith("__"):
                found[name] = value
    return found


@contextmanager
def _watching_methods(net: nn.Cell, observed: Observed) -> Iterator[None]:
    """Also write down how a cell calls its own methods with tensors."""
    cells = [cell for _, cell in net.cells_and_names()]

    def watched(cell: nn.Cell, name: str, function: Any) -> Any:
        signature = inspect.signature(function)

        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            result = function(cell, *args, **kwargs)
            if any(isinstance(value, Tensor) for value in (*args, *kwargs.values())):
                bound = signature.bind(cell, *args, **kwargs).arguments
                _enter(observed.methods.setdefault(id(cell), {}).setdefault(name, []), bound)
            return result

        return call

    put = []
    for cell in cells:
        for name, function in helpers(cell).items():
            if name not in cell.__dict__:
                cell.__dict__[name] = watched(cell, name, function)
                put.append((cell, name))
    try:
        yield
    finally:
        for cell, name in put:
            del cell.__dict__[name]


@contextmanager
def _watching_functions(net: nn.Cell, observed: Observed, running: Sequence[nn.Cell]) -> Iterator[None]:
    """Also write down how constructs call functions of their modules with tensors."""
    constructs = {inspect.unwrap(type(cell).construct) for _, cell in net.cells_and_names()}

    def watched(name: str, function: FunctionType) -> Any:
        signature = inspect.signature(function)

        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            result = function(*args, **kwargs)
            owner = running[-1] if running else None
            if owner is not None and name in inspect.unwrap(type(owner).construct).__code__.co_names:
                described = _arguments(function, signature.bind(*args, **kwargs).arguments, owner)
                if described is not None:
                    _enter(observed.functions.setdefault(id(owner), {}).setdefault(name, []), {"": None, **described})
            return result

        return call

    put = []
    for construct in constructs:
        for name, function in functions_of(construct).items():
            construct.__globals__[name] = watched(name, function)
            put.append((construct.__globals__, name, function))
    try:
        yield
    finally:
        for names, name, function in put:
            names[name] = function


def _arguments(function: FunctionType, bound: Mapping[str, Any], owner: nn.Cell) -> dict[str, Any] | None:
    """Describe what a function was called with; None without tensors, or with arguments that are nothing like them."""
    loaded = {i.argval for i in dis.get_instructions(function) if i.opname.startswith("LOAD")}
    kinds = inspect.signature(function).parameters
    arguments: dict[str, Any] = {}
    for name, value in bound.items():
        if kinds[name].kind in (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL):
            if name in loaded:
                return None
        elif value is owner:
            arguments[name] = OWNER
        elif isinstance(value, (Tensor, int, float, str, type(None))) or (
            isinstance(value, tuple) and all(isinstance(item, (Tensor, int)) for item in value)
        ):
            arguments[name] = value
        else:
            return None
    return arguments if any(isinstance(value, Tensor) for value in arguments.values()) else None


@contextmanager
def _watching(observed: Observed, running: list[nn.Cell]) -> Iterator[None]:
    original = nn.Cell.__call__
    signature: Any = cache(lambda kind: inspect.signature(inspect.unwrap(kind.construct)))

    def call(self: nn.Cell, *args: Any, **kwargs: Any) -> Any:
        running.append(self)
        try:
            result = original(self, *args, **kwargs)
        finally:
            running.pop()
        try:
            bound = signature(type(self)).bind(self, *args, **kwargs).arguments
        except (TypeError, ValueError):
            return result
        _enter(observed.calls.setdefault(id(self), []), bound)
        observed.returns.setdefault(id(self), spec_of(result))
        return result

    nn.Cell.__call__ = call
    try:
        yield
    finally:
        nn.Cell.__call__ = original
