"""Writes super kernels: lists of kernels that the library launches one behind the other by one call.

This is what writes the text that kernels/binding/super_kernel.h describes and the library reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

__all__ = ["CAST", "LAST_ROW", "TRANSPOSE", "VIEW", "Step", "Value", "as_text"]

_FORMAT = 1

# Steps that are no kernels.
VIEW, LAST_ROW, TRANSPOSE, CAST = "view", "last_row", "transpose", "cast"


class Value(NamedTuple):
    """Names an output of a step, by its number; with the step -1 an input of the list."""

    step: int
    output: int = 0


@dataclass(frozen=True)
class Step:
    """Describes a kernel with its inputs, of which None is absent, a view with the dims that it gives, or a
    cast to a dtype.

    A dim is a number, or that of a value along an axis: a pair of the two.
    """

    name: str
    inputs: Sequence[Value | None]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    dims: Sequence[int | tuple[Value, int]] = ()
    outputs: int = 1
    dtype: str = ""  # of a cast


def as_text(inputs: int, steps: Sequence[Step], results: Iterable[Value]) -> str:
    """Return the list as the library reads it. `inputs` is how many there are."""
    first, count = [], inputs
    for step in steps:
        first.append(count)
        count += step.outputs

    def place(value: Value) -> int:
        return value.output if value.step < 0 else first[value.step] + value.output

    lines = [f"super_kernel {_FORMAT} inputs {inputs} results {_joined(place(value) for value in results)}"]
    for step in steps:
        given = _joined("-" if value is None else place(value) for value in step.inputs)
        dims = [dim if isinstance(dim, int) else f"{place(dim[0])}:{dim[1]}" for dim in step.dims]
        attributes = [f"{name}={_text(value)}" for name, value in step.attributes.items()]
        lines.append(f"{step.name} {given} ; {_joined([*attributes, *dims, *filter(None, [step.dtype])])}")
    return "\n".join(lines)


def _joined(parts: Iterable[Any]) -> str:
    return " ".join(map(str, parts))


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(int(value))
    return repr(value) if isinstance(value, float) else str(value)
