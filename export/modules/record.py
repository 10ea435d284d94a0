"""Record what the modules of a network of MindNLP compute in a run, each as a graph.

Every operation of `mindtorch` passes its dispatcher under the name that PyTorch has for it. Modules without matrices
are looked into; any other one is a call for the module that calls it. Functions of a model's file that a `forward`
calls by name, as that of a rotary embedding, have a graph of their own.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from types import FunctionType
from typing import Any

from mindspore import Tensor
from ms_ascend_ops.export.graphs.graph import CALL, CONSTANT, INPUT, PARAMETER, Graph, Node, constant
from ms_ascend_ops.export.graphs.torch_functions import READERS, Reader

from ms_ascend_ops.mindspore_versions import dtype_name

__all__ = ["Frame", "Recording", "functions_of", "recorded", "tensors_of"]

# Dispatcher names that no PyTorch function has.
_NAMES = {
    "cast": "to",
    "concat": "cat",
    "expand_dims": "unsqueeze",
    "pow_scalar_tensor": "pow",
    "pow_tensor_scalar": "pow",
    "split_tensor": "split",
    "split_with_size": "split",
    "unstack_view": "unbind",
}


@dataclass
class _Call:
    target: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)


class Frame(Reader):
    """Records one call of a module or function: what was computed in it. `emit` writes a construct from it, too."""

    def __init__(
        self, owner: Any, path: str, function: FunctionType, bound: Mapping[str, Any], names: Mapping[int, str]
    ):
        super().__init__()
        self.owner, self.path, self.function, self.bound, self._names = owner, path, function, bound, names
        self.calls: dict[int, tuple[Node, int | None]] = {}
        self.changed = False  # whether something is written in place
        self.result: Any = None
        self._known: dict[int, Node] = {}
        for name, value in bound.items():
            self._enter(value, name)

    @property
    def graph(self) -> Graph:
        """Return the graph of all of it."""
        return Graph(self.nodes, list(_leaves(self.result)))

    def _enter(self, value: Any, name: str) -> None:
        if isinstance(value, Tensor):
            self._known[id(value)] = _described(Node(INPUT, (), name), value)
        elif isinstance(value, (tuple, list)):
            for index, item in enumerate(value):
                self._enter(item, f"{name}[{index}]")

    def is_value(self, argument: Any) -> bool:
        return isinstance(argument, Tensor)

    is_tensor = is_value

    def node(self, argument: Any) -> Node:
        if id(argument) not in self._known:
            prefix = f"{self.path}." if self.path else ""
            name = self._names.get(id(argument), "")
            known = (
                Node(PARAMETER, (), name.removeprefix(prefix)) if name.startswith(prefix) and name else Node(CONSTANT)
            )
            self._known[id(argument)] = _described(known, argument)
        return self._known[id(argument)]

    def operation(self, name: str, args: tuple[Any, ...], result: Any) -> None:
        """Enter one operation."""
        self.changed = self.changed or name.startswith("inplace")
        if id(result) in self._known:
            return
        try:
            made = self._made(name, args)
        except (IndexError, KeyError, TypeError, ValueError):  # arguments in another way than any of the known ones
            made = None
        if made is None:
            made = Node(f"torch.{name}", tuple(self.node(one) for one in tensors_of(args)))
        if isinstance(result, Tensor):
            self._keep(made, result)
        elif isinstance(result, (tuple, list)):
            first = made.kind == "TupleGetItem"  # of a norm: what else it gives is not looked at
            if first:
                self._keep(made, result[0])
            else:
                self.nodes.append(made)
                for index, item in enumerate(result):
                    self._keep(Node("TupleGetItem", (made, constant(index))), item)

    def _made(self, name: str, args: tuple[Any, ...]) -> Node | None:
        if name == "slice":
            x, axis, *bounds = args
            return Node("getitem", (self.value(x),), attributes={"index": _at(x, axis, slice(*bounds))})
        if name == "select_ext_view":
            return Node("getitem", (self.value(args[0]),), attributes={"index": _at(*args)})
        if name == "rms_norm":
            x, gamma, epsilon = args
            norm = self.inner("RmsNorm", self.value(x), self.value(gamma), constant(epsilon))
            return Node("TupleGetItem", (norm, constant(0)))
        if name == "repeat_interleave_int":
            args = args[:3]
        if name == "transpose_view":
            axes = list(range(args[0].ndim))
            axes[args[1]], axes[args[2]] = axes[args[2]], axes[args[1]]
            return Node("Transpose", (self.value(args[0]), constant(tuple(axes))))
        read = READERS.get(_NAMES.get(name, name))
        return read(self, _Call(name, args)) if read else None

    def module(self, path: str, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> None:
        """Enter a call of a module that is not looked into."""
        inputs = tuple(self._argument(one) for one in (*args, *kwargs.values()))
        relative = path.removeprefix(f"{self.path}." if self.path else "")
        call = Node(CALL, inputs, relative, attributes={"keywords": tuple(kwargs), "positional": len(args)})
        self.nodes.append(call)
        several = isinstance(result, (tuple, list))
        for index, item in enumerate(result if several else (result,)):
            if isinstance(item, Tensor) and id(item) not in self._known:
                made = Node("TupleGetItem", (call, constant(index))) if several else Node("call_result", (call,))
                self._keep(made, item)
                self.calls[id(made)] = (call, index if several else None)

    def _argument(self, value: Any) -> Node:
        if isinstance(value, (tuple, list)) and next(tensors_of(value), None) is not None:
            return Node("MakeTuple", tuple(map(self._argument, value)))
        return self.value(value)

    def _keep(self, node: Node, result: Any) -> None:
        self.nodes.append(node)
        if isinstance(result, Tensor):
            self._known[id(result)] = _described(node, result)

    def end(self, result: Any) -> bool:
        """Enter what the call has given; tell whether that can be written: a tensor, or a tuple of them."""
        if isinstance(result, Tensor):
            self.result = self.node(result)
        elif type(result) is tuple and all(isinstance(one, Tensor) or one is None for one in result):
            self.result = tuple(map(self.value, result))
        else:
            return False
        return True


def _described(node: Node, value: Tensor) -> Node:
    node.shape, node.dtype = tuple(value.shape), dtype_name(value.dtype)
    return node


def _at(x: Tensor, axis: int, index: Any) -> tuple[Any, ...]:
    return (*[slice(None)] * (axis % x.ndim), index)


def _leaves(value: Any) -> Iterator[Node]:
    yield from value if isinstance(value, tuple) else (value,)


def tensors_of(value: Any) -> Iterator[Tensor]:
    """Yield all tensors in a structure."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (tuple, list, Mapping)):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from tensors_of(item)


def is_small(module: Any) -> bool:
    """Tell whether a module is looked into: it has no matrices, and few modules in it."""
    return all(p.ndim <= 1 for p in module.parameters()) and len(list(module.modules())) <= 4


def functions_of(forward: FunctionType) -> dict[str, FunctionType]:
    """Return the functions of its own file, or one beside it, that a `forward` calls by name."""
    package = forward.__module__.rpartition(".")[0]
    names = {name: forward.__globals__.get(name) for name in forward.__code__.co_names}
    return {
        name: value
        for name, value in names.items()
        if isinstance(value, FunctionType) and package and (value.__module__ or "").startswith(package)
    }


class Recording:
    """Holds the frames of a run, the first of each module and each of its functions."""

    def __init__(self, network: Any) -> None:
        self.frames: dict[tuple[int, str], Frame] = {}
        self._stack: list[tuple[Any, Frame | None]] = []
        self._paths = {id(module): path for path, module in network.named_modules()}
        tensors = (*network.named_parameters(), *network.named_buffers())
        self._names = {id(value): name for name, value in tensors}
        self._kept: list[Any] = []  # ids are used again where a tensor is gone
        self._paused = 0

    def _seen_by(self) -> Iterator[Frame]:
        """Yield the frames that look into what runs now."""
        for owner, frame in reversed(self._stack):
            if frame is not None:
                yield frame
            if owner is not None and not is_small(owner):
                return

    def operation(self, name: str, args: tuple[Any, ...], run: Callable[[], Any]) -> Any:
        """Run an operation of mindtorch; what it runs itself is not entered."""
        if self._paused or not self._stack:
            return run()
        self._paused += 1
        try:
            result = run()
        finally:
            self._paused -= 1
        values = result[0] if isinstance(result, _Dispatched) else result
        self._kept.append((args, values))
        for frame in self._seen_by():
            frame.operation(name, args, values)
        return result

    def module(self, module: Any, args: Any, kwargs: Any, run: Callable[..., Any]) -> Any:
        """Run a module."""
        if self._paused or id(module) not in self._paths:
            return run(module, *args, **kwargs)
        path = self._paths[id(module)]
        forward = inspect.unwrap(type(module).forward)
        result = self._framed(module, path, forward, (module, *args), kwargs, lambda: run(module, *args, **kwargs), "")
        if not is_small(module):
            for frame in self._seen_by():
                frame.module(path, args, kwargs, result)
        return result

    def function(self, name: str, function: FunctionType, args: Any, kwargs: Any) -> Any:
        """Run a function that the `forward` of the module calls which runs now."""
        owner = next((owner for owner, _ in reversed(self._stack) if owner is not None), None)
        if self._paused or owner is None:
            return function(*args, **kwargs)
        run = lambda: function(*args, **kwargs)  # noqa: E731
        return self._framed(None, self._paths[id(owner)], function, args, kwargs, run, name, id(owner))

    def _framed(
        self, owner: Any, path: str, function: FunctionType, args: Any, kwargs: Any, run: Any, name: str, key: int = 0
    ) -> Any:
        self._kept.append((args, kwargs))
        key = key or id(owner)
        frame = None
        if (key, name) not in self.frames and (bound := _bound(function, args, kwargs, owner)) is not None:
            frame = Frame(owner, path, function, bound, self._names)
        self._stack.append((owner, frame))
        try:
            result = run()
        finally:
            self._stack.pop()
        self._kept.append(result)
        if frame is not None and frame.end(result) and not frame.changed:
            self.frames[key, name] = frame
        return result


class _Dispatched(tuple):  # type: ignore[type-arg]
    """Holds what the dispatcher returns: a result and its device."""


def _bound(function: FunctionType, args: Any, kwargs: Any, owner: Any) -> dict[str, Any] | None:
    """Return the arguments by name; None where more are given than have a name."""
    signature = inspect.signature(function)
    others = [name for name, p in signature.parameters.items() if p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:
        return None
    if any(bound.arguments.get(name) for name in others):
        return None
    bound.apply_defaults()
    return {name: value for name, value in bound.arguments.items() if value is not owner and name not in others}


@contextmanager
def recorded(network: Any) -> Iterator[Recording]:
    """Record the runs of a network within the block."""
    recording = Recording(network)
    kind = import_module("mindtorch.nn").Module
    dispatcher = import_module("mindtorch.dispatcher").Dispatcher
    functional = import_module("mindtorch.nn.functional")
    dispatch, call, group_norm = dispatcher.dispatch, kind.__call__, functional.group_norm

    def recorded_dispatch(self: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        return tuple(recording.operation(name, args, lambda: _Dispatched(dispatch(self, name, *args, **kwargs))))

    def recorded_group_norm(*args: Any, **kwargs: Any) -> Any:
        return recording.operation("group_norm", (*args, *kwargs.values()), lambda: group_norm(*args, **kwargs))

    forwards = {inspect.unwrap(type(module).forward) for module in network.modules()}
    found = {
        (id(f.__globals__), name): (f.__globals__, name, g) for f in forwards for name, g in functions_of(f).items()
    }

    with ExitStack() as stack:
        for owner, name, new in (
            (dispatcher, "dispatch", recorded_dispatch),
            (kind, "__call__", lambda self, *args, **kwargs: recording.module(self, args, kwargs, call)),
            (functional, "group_norm", recorded_group_norm),
        ):
            stack.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, new)
        for names, name, function in found.values():
            stack.callback(names.__setitem__, name, function)
            names[name] = _watched(recording, name, function)
        yield recording


def _watched(recording: Recording, name: str, function: FunctionType) -> Callable[..., Any]:
    return lambda *args, **kwargs: recording.function(name, function, args, kwargs)
