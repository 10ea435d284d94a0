"""Provides `DispatchMode`: every primitive that runs within a block passes `__ms_dispatch__`, as in
`ms.MsDispatchMode`.

MindSpore has that from 2.9 on. Before, it hands primitives that Python calls to whatever traces a graph (`ms.jit` with
capture_mode="trace"), whose place this takes. A method of Tensor that is C++ runs some of them without that: where
nothing was recorded during its call, the call itself is, under the name that 2.10 gives its primitive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import Any

from mindspore import Tensor

from ms_ascend_ops.mindspore_versions import RecordingContext, private, recording_context, without_pipeline

__all__ = ["DispatchMode"]


class _Function:
    """Wraps a primitive as `MsDispatchMode` hands it over: its name, and what to call for its result."""

    def __init__(self, name: str, run: Callable[..., Any]):
        self.name = name
        self._run = run

    def __call__(self, *arguments: Any) -> Any:
        return self._run(*arguments)


class _Recording(RecordingContext):
    """Passes each primitive that Python has called on to a mode."""

    def __init__(self, mode: _EarlyDispatchMode):
        super().__init__()
        self.mode = mode
        self.count = 0
        self.pausing = False
        self.passed_on: Any = self  # what `_dispatched_run` gave last

    def run_op(self, primitive: Any, result: Any, *inputs: Any) -> Any:
        if result is self.passed_on:
            self.passed_on = self  # a later one may write in place, and so have the same result
            return result
        self.count += 1
        arguments = inputs if _is_generated(primitive) else (primitive, primitive.name, inputs)
        return self.record(primitive.name, result, arguments)

    def record(self, name: str, result: Any, arguments: tuple[Any, ...]) -> Any:
        """Pass on a primitive that has run."""
        return result if self.pausing else self.dispatch(name, lambda *_: result, arguments)

    def dispatch(self, name: str, run: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        self.pausing = True
        try:
            return self.mode.__ms_dispatch__(_Function(name, run), arguments)
        finally:
            self.pausing = False


class _EarlyDispatchMode:
    """Stands in for `MsDispatchMode`."""

    def __enter__(self) -> Any:
        self._alone = without_pipeline()
        self._alone.__enter__()
        self._context = _Recording(self)
        self._active = _active(self._context)
        self._active.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._active.__exit__(*error)
        self._alone.__exit__(*error)

    def __ms_dispatch__(self, func: Any, args: Any, kwargs: Any = None) -> Any:
        raise NotImplementedError


class _LateDispatchMode(private("MsDispatchMode") or object):  # type: ignore[misc]
    """Extends `MsDispatchMode` to miss no primitive."""

    def __enter__(self) -> Any:
        self._alone = without_pipeline()
        self._alone.__enter__()
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._alone.__exit__(*error)


DispatchMode: Any = _EarlyDispatchMode if private("MsDispatchMode") is None else _LateDispatchMode


@contextmanager
def _active(context: _Recording) -> Iterator[None]:
    """Have all primitives within the block recorded."""
    places = [(owner, name, _recorded(context, d, getattr(owner, name))) for owner, name, d in _described()]
    places += [(kind, "__call__", _dispatched(context, name, kind.__call__)) for kind, name in _inner_primitives()]
    places += [(module, name, _dispatched_run(context, run)) for module, name, run in _compiled_runs()]
    before = [(owner, name, vars(owner).get(name)) for owner, name, _ in places]
    for owner, name, replacement in places:
        setattr(owner, name, replacement)
    try:
        with recording_context(context):
            yield
    finally:
        for owner, name, own in before:
            if own is not None:
                setattr(owner, name, own)
            else:
                delattr(owner, name)


# Handles a place where MindSpore runs primitives in C++; returns the primitive of a call with its arguments, None if it
# ran none.
_Described = tuple[str, tuple[Any, ...]]
_Place = tuple[Any, str, Callable[..., _Described | None]]


def _described() -> Iterator[_Place]:
    yield from _methods()
    yield from _overloads()


def _methods() -> Iterator[_Place]:
    for name, method in vars(private("TensorPy")).items():
        plain = name.strip("_")
        computes = name in _OPERATORS or name in _IN_PLACE or (name == plain and name not in _NO_PRIMITIVES)
        if computes and type(method).__name__ in _COMPILED:
            yield Tensor, name, _IN_PLACE.get(name) or _OPERATORS.get(name) or _describer(plain)


def _overloads() -> Iterator[_Place]:
    """Yield functions of `mint` that choose a primitive by their arguments."""
    module = import_module("mindspore.ops.functional_overload")
    for name in vars(module):
        if name.endswith("_instance"):
            yield module, name, _describer(name.removeprefix("_").removesuffix("_instance"))


def _inner_primitives() -> Iterator[tuple[Any, str]]:
    """Yield classes of primitives, each with its name."""
    module = import_module("mindspore.ops.auto_generate.pyboost_inner_prim")
    for kind in vars(module).values():
        if isinstance(kind, type) and kind.__name__.startswith("_Pyboost") and "__call__" in vars(kind):
            yield kind, kind.__name__.removeprefix("_Pyboost").removesuffix("Prim")


def _compiled_runs() -> Iterator[tuple[Any, str, Callable[..., Any]]]:
    """Yield the functions that generated primitives call to run."""
    module = import_module("mindspore.ops.auto_generate.gen_ops_prim")
    yield from ((module, name, run) for name, run in vars(module).items() if name.startswith("pyboost_"))


def _describer(name: str) -> Callable[..., _Described | None]:
    known = _METHODS.get(name)
    primitive = "".join(part.capitalize() for part in name.split("_"))
    return known or (lambda *given, **named: (primitive, (*given, *named.values())))


def _recorded(
    context: _Recording, describe: Callable[..., _Described | None], original: Callable[..., Any]
) -> Callable[..., Any]:
    """Wrap the function so that it is recorded; where nothing is recorded while it runs, the call itself is."""
    writes = describe in _IN_PLACE.values()

    def call(*arguments: Any, **keywords: Any) -> Any:
        before = context.count
        given = tuple(map(_copied, arguments)) if writes and not context.pausing else arguments
        result = original(*arguments, **keywords)
        if context.count != before or context.pausing or not _has_tensor(result):
            return result
        context.count += 1
        described = describe(*given, **keywords)
        return result if described is None else context.record(described[0], result, described[1])

    return call


def _dispatched(context: _Recording, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a primitive that the mode runs itself: it may have a shim where MindSpore has no kernel."""

    def call(primitive: Any, *arguments: Any) -> Any:
        if context.pausing:
            return original(primitive, *arguments)
        context.count += 1
        return context.dispatch(name, partial(original, primitive), arguments)

    return call


def _dispatched_run(context: _Recording, original: Callable[..., Any]) -> Callable[..., Any]:
    """Do as `_dispatched` for a function that a primitive calls with itself and a list of its arguments."""

    def run(primitive: Any, arguments: list[Any]) -> Any:
        if context.pausing:
            return original(primitive, arguments)
        context.count += 1
        again = lambda *given: original(primitive, list(given))  # noqa: E731
        context.passed_on = context.dispatch(primitive.name, again, tuple(arguments))
        return context.passed_on

    return run


def _copied(value: Any) -> Any:
    """Copy a tensor before a call that may write to it: the recorder knows a tensor by what it holds."""
    return Tensor(value.asnumpy().copy()) if isinstance(value, Tensor) else value


def _has_tensor(value: Any) -> bool:
    return isinstance(value, Tensor) or (isinstance(value, tuple) and any(map(_has_tensor, value)))


def _is_generated(primitive: Any) -> bool:
    """Tell whether a primitive takes all its attributes as arguments."""
    modules = [kind.__module__ for kind in type(primitive).__mro__]
    return any("auto_generate" in module or "manually_defined" in module for module in modules)


def _axes(axis: Any) -> Any:
    return (axis,) if isinstance(axis, int) else axis


def _shape(*sizes: Any) -> tuple[int, ...]:
    return tuple(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else sizes


def _transposed(x: Tensor, *axes: Any) -> _Described:
    if len(axes) == 2 and x.ndim != 2:
        return "TransposeExtView", (x, *axes)
    return "Transpose", (x, _shape(*axes) if axes else tuple(reversed(range(x.ndim))))


def _reduced(primitive: str) -> Callable[..., _Described]:
    def describe(x: Tensor, axis: Any = None, keep: bool = False, *, dtype: Any = None, **named: Any) -> _Described:
        axis, keep = named.get("dim", axis), named.get("keepdim", named.get("keep_dims", named.get("keepdims", keep)))
        return primitive, (x, _axes(axis), keep, dtype)

    return describe


def _of_two(tensors: str, scalar: str) -> Callable[..., _Described]:
    def describe(x: Any, other: Any, *more: Any, **named: Any) -> _Described:
        both = isinstance(x, Tensor) and isinstance(other, Tensor)
        return tensors if both else scalar, (x, other, *more, *named.values())

    return describe


def _matrix_product(x: Tensor, other: Tensor) -> _Described:
    return "MatMulExt", (x, other)


def _cast(x: Tensor, dtype: Any, *_: Any, **__: Any) -> _Described | None:
    return None if x.dtype == dtype else ("Cast", (x, dtype))


# By the name of a method of Tensor and of a function of mint. Any other is called as its method.
_METHODS: dict[str, Callable[..., _Described | None]] = {
    "add": _of_two("AddExt", "AddScalar"),
    "sub": _of_two("SubExt", "SubScalar"),
    "mul": _of_two("Mul", "Muls"),
    "div": _of_two("Div", "Divs"),
    "pow": _of_two("Pow", "PowTensorScalar"),
    "matmul": _matrix_product,
    "mm": _matrix_product,
    "bmm": _matrix_product,
    "mean": _reduced("MeanExt"),
    "sum": _reduced("SumExt"),
    "reshape": lambda x, *sizes, shape=(): ("Reshape", (x, _shape(*sizes) or shape)),
    "view": lambda x, *sizes: ("View", (x, _shape(*sizes))),
    "permute": lambda x, *axes: ("Transpose", (x, _shape(*axes))),
    "transpose": _transposed,
    "t": _transposed,
    "unsqueeze": lambda x, dim: ("ExpandDims", (x, dim)),
    "to": _cast,
    "silu": lambda x: ("SiLU", (x,)),
    "gelu": lambda x, *, approximate="none": ("GeluExt", (x, {"none": 0, "tanh": 1}[approximate])),
    "softmax": lambda x, dim=-1, dtype=None: ("Softmax", (x, dim)),
}

_OPERATORS: dict[str, Callable[..., _Described | None]] = {
    "__add__": _METHODS["add"],
    "__sub__": _METHODS["sub"],
    "__mul__": _METHODS["mul"],
    "__pow__": _METHODS["pow"],
}

# These methods of Tensor write to it, where MindSpore has primitives for that: on an NPU.
_IN_PLACE: dict[str, Callable[..., _Described | None]] = {
    name: _of_two(tensors, scalar)
    for names, tensors, scalar in (
        (("add_", "__iadd__"), "InplaceAddExt", "InplaceAddsExt"),
        (("sub_", "__isub__"), "InplaceSubExt", "InplaceSubScalar"),
        (("mul_", "__imul__"), "InplaceMul", "InplaceMuls"),
        (("div_", "__itruediv__"), "InplaceDiv", "InplaceDivs"),
    )
    for name in names
}

# Methods of a Tensor that concern its location.
_NO_PRIMITIVES = frozenset(
    {"asnumpy", "assign_value_cpp", "clone", "data_sync", "from_numpy", "hooks", "move_to", "offload", "pin_memory"}
)
_COMPILED = ("method_descriptor", "instancemethod", "builtin_function_or_method", "wrapper_descriptor")
