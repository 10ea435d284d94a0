"""Writes bprops: MindSpore counts the parameters of a bprop and reads its source, so each has to be written out."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Sequence
from typing import Any

import mindspore as ms

from ms_ascend_ops import registry
from ms_ascend_ops.definitions.backward import backward
from ms_ascend_ops.mindspore_versions import zeros_like

__all__ = ["by_names", "of_node", "refusing"]

_WRITTEN: dict[str, int] = {}  # sources of functions that are written here, numbered


# Runs in Python, also while a graph is compiled.
@ms.constexpr(check=False)  # type: ignore[untyped-decorator]
def _refuse_gradient(op: str) -> None:
    """Refuse, from the bprop of an operator that has no gradient.

    Raises:
        RuntimeError: always.
    """
    raise RuntimeError(f"{op}: {registry.op_spec(op).no_gradient}")


def by_names(spec: registry.OpSpec, kernel: Callable[..., Any], absent: Sequence[str] = ()) -> Callable[..., Any]:
    """Return the bprop that calls the gradient kernel, whose inputs and outputs have names that say what they are."""
    found = backward(spec)
    inputs = [f"x{i}" for i in range(len(spec.forward.inputs))]
    of_outputs = "[{}]" if len(spec.forward.outputs) > 1 else ""
    sources = {"input": "x{}", "output": f"out{of_outputs}", "dout": f"dout{of_outputs}"}
    takes = [sources[kind].format(i) for kind, i in found.takes]
    result = "dx" if len(spec.gradient.outputs) == 1 else "dx[{}]"  # type: ignore[union-attr]
    gradients = []
    for name, tensor, place in zip(inputs, spec.forward.inputs, found.gives, strict=True):
        nothing = name if tensor.name in absent else f"zeros_like({name})"
        gradients.append(nothing if place is None else result.format(place))
    source = (
        "def make(kernel, zeros_like):\n"
        f"    def bprop({', '.join([*inputs, 'out', 'dout'])}):\n"
        f"        dx = kernel({', '.join(takes)})\n"
        f"        return ({', '.join(gradients)},)\n"
        "    return bprop\n"
    )
    return _made(source, kernel, zeros_like)


def refusing(spec: registry.OpSpec) -> Callable[..., Any]:
    """Return the bprop of an operator that has no gradient: it says so."""
    inputs = [f"x{i}" for i in range(len(spec.forward.inputs))]
    source = (
        "def make(refuse_gradient, operator):\n"
        f"    def bprop({', '.join([*inputs, 'out', 'dout'])}):\n"
        "        refuse_gradient(operator)\n"
        f"        return ({', '.join(inputs)},)\n"
        "    return bprop\n"
    )
    return _made(source, _refuse_gradient, spec.name)


def of_node(
    bprop: Callable[..., Any],
    signature: registry.Signature,
    given: tuple[registry.TensorSpec, ...],
    takes: tuple[registry.TensorSpec, ...],
    constants: int,
) -> Callable[..., Any]:
    """Return a bprop of all inputs for a node that `takes` others, or some twice, and constants without a gradient."""
    if takes == signature.inputs and not constants:
        return bprop
    names = [f"x{i}" for i in range(len(takes))]
    parameters = [*names, *[f"c{i}" for i in range(constants)], "out", "dout"]
    passed = [names[takes.index(tensor)] if tensor in given else "None" for tensor in signature.inputs]
    gradients = [f"dx[{passed.index(name)}]" if name in passed else "0" for name in names]
    source = (
        "def make(original):\n"
        f"    def bprop({', '.join(parameters)}):\n"
        f"        dx = original({', '.join([*passed, 'out', 'dout'])})\n"
        f"        return ({', '.join([*gradients, *['0'] * constants])},)\n"
        "    return bprop\n"
    )
    return _made(source, bprop)


def _made(source: str, *values: Any) -> Callable[..., Any]:
    """Return what the function `make` of this source makes of the values."""
    # MindSpore logs an error at each call for a name that is no path. So it is this file, each time by another path.
    folder, _, file = __file__.rpartition("/")
    name = folder + "/." * (1 + _WRITTEN.setdefault(source, len(_WRITTEN))) + f"/{file}"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    scope: dict[str, Any] = {"__name__": __name__}
    exec(compile(source, name, "exec"), scope)
    made: Callable[..., Any] = scope["make"](*values)
    return made
