"""The implementations of an operator: what each is, and which calls it can answer.

Every operator has these from the start, as far as they exist:

    kernel       this library's, on a CPU or on Ascend
    cann         CANN's own operator, on Ascend (`cann` of the definition)
    composition  stock operators of MindSpore (compositions.py)

Others are registered: a library built from another state of the kernels, or a function. Needs no MindSpore.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

from ms_ascend_ops import registry

__all__ = ["DEVICES", "Form", "Implementation", "built_in"]

DEVICES = ("CPU", "Ascend")
_PLACE = re.compile(r"(\w+)(?:\[(-?\d+)\]|\.size)")

Range = tuple[int, int | None]  # least and most, both included; None: no bound


@dataclass(frozen=True)
class Form:
    """Shapes and dtypes of the inputs of a call. Unknown dims are -1; of absent inputs both are None."""

    shapes: tuple[tuple[int, ...] | None, ...]
    dtypes: tuple[str | None, ...]

    @cached_property
    def bucket(self) -> str:
        """Its name with every dim rounded up to a power of two: calls of one bucket are measured once."""
        return " ".join(
            "-" if shape is None else f"{dtype}[{','.join(map(_rounded, shape))}]"
            for shape, dtype in zip(self.shapes, self.dtypes, strict=True)
        )

    def __str__(self) -> str:
        return " ".join(
            "-" if shape is None else f"{dtype}[{','.join(str(d) if d >= 0 else '?' for d in shape)}]"
            for shape, dtype in zip(self.shapes, self.dtypes, strict=True)
        )


def _rounded(size: int) -> str:
    return "?" if size < 0 else str(1 << (size - 1).bit_length() if size else 0)


@dataclass(frozen=True, eq=False)
class Implementation:
    """One implementation of an operator. `register` says what the fields mean.

    Args:
        operator: the operator that it implements.
        version: its name.
        devices: where it runs: "CPU", "Ascend".
        sizes: bounds of dims, by `x.shape[-1]`.
    """

    operator: str
    version: str
    function: Callable[..., Any] | None = None  # takes the inputs, then the attributes, in the definition's order
    library: Path | None = None  # another kernel library
    devices: tuple[str, ...] = DEVICES
    dtypes: tuple[str, ...] = ()  # of the first input; none: all
    sizes: Mapping[str, Range] = field(default_factory=dict)
    when: Mapping[str, Any] = field(default_factory=dict)  # values that attributes must have

    @property
    def has_limits(self) -> bool:
        """Tell whether shapes or dtypes say if it can answer a call."""
        return bool(self.dtypes or self.sizes)

    @property
    def is_kernel(self) -> bool:
        """Tell whether it is a kernel of this library, or of another one."""
        return self.library is not None or self.version == "kernel"

    @cached_property
    def identity(self) -> str:
        """Its name for what is kept on disk: another build of a library is another implementation."""
        if self.library is None:
            return self.version
        return f"{self.version}@{hashlib.sha256(self.library.read_bytes()).hexdigest()[:12]}"

    @property
    def what(self) -> str:
        """Return where it comes from."""
        if self.library is not None:
            return f"library {self.library}"
        if self.function is not None:
            return f"function {getattr(self.function, '__module__', '')}.{getattr(self.function, '__name__', '')}"
        return {"kernel": "this library's kernel", "cann": "CANN's operator"}[self.version]

    def why_not(self, form: Form) -> str:
        """Say why it cannot answer a call with such inputs; empty: it can.

        Args:
            form: shapes and dtypes of a call.
        """
        if self.dtypes and form.dtypes[0] not in self.dtypes:
            return f"it is for {', '.join(self.dtypes)}"
        for name, (index, axis), (least, most) in self._ranges:
            shape = form.shapes[index]
            if shape is None:
                continue
            size = _size_of(shape, axis)
            if size is None:
                return f"{name} is not known"
            if size < least or (most is not None and size > most):
                return f"{name} must be {least} to {'any' if most is None else most}"
        return ""

    @cached_property
    def _ranges(self) -> tuple[tuple[str, tuple[int, int | None], Range], ...]:
        return tuple((text, _place(self.operator, text), limits) for text, limits in self.sizes.items())

    def check(self) -> None:
        """Check what a user said of it.

        Raises:
            ValueError: a name, a device, a dtype, a place or a range is wrong.
        """
        spec = registry.op_spec(self.operator)
        subject = f"register: {self.operator} {self.version!r}"
        if (self.function is None) == (self.library is None):
            raise ValueError(f"{subject}: either function or library must be given")
        _among(f"{subject}: devices", self.devices, DEVICES)
        _among(f"{subject}: dtypes", self.dtypes, registry.DTYPES)
        _among(f"{subject}: when", self.when, [attribute.name for attribute in spec.forward.attributes])
        for name, value in self.when.items():
            spec.forward.attribute(name).check(self.operator, value)
        for text, (least, most) in self.sizes.items():
            _place(self.operator, text)
            if least < 0 or (most is not None and most < least):
                raise ValueError(f"{subject}: {text} must have a range (least, most), got {(least, most)}")
        if self.library is not None and not self.library.is_file():
            raise ValueError(f"{subject}: there is no library {self.library}")


def _among(subject: str, given: Iterable[str], known: Sequence[str]) -> None:
    if wrong := [value for value in given if value not in known]:
        raise ValueError(f"{subject} must be of {', '.join(known)}, got {', '.join(map(repr, wrong))}")


def _size_of(shape: tuple[int, ...], axis: int | None) -> int | None:
    """A dim, or the number of elements; None: it is not known. A dim that is not there counts as 1."""
    if axis is not None:
        known = shape != (-2,) and -len(shape) <= axis < len(shape)
        size = shape[axis] if known else (None if shape == (-2,) else 1)
        return None if size == -1 else size
    if any(size < 0 for size in shape):
        return None
    return math.prod(shape)


def _place(operator: str, text: str) -> tuple[int, int | None]:
    """`x[-1]` or `x.size`: which input, and which axis."""
    names = [tensor.name for tensor in registry.op_spec(operator).forward.inputs]
    match = _PLACE.fullmatch(text)
    if match is None or match[1] not in names:
        raise ValueError(f"{operator}: a size must be like '{names[0]}[-1]' or '{names[0]}.size', got {text!r}")
    return names.index(match[1]), None if match[2] is None else int(match[2])


@cache
def built_in(operator: str) -> tuple[Implementation, ...]:
    """The implementations that an operator has from the start, best first."""
    spec = registry.op_spec(operator)
    found = [Implementation(operator, "kernel")]
    if spec.counterpart is not None:
        found.append(Implementation(operator, "cann", devices=("Ascend",), when=spec.counterpart.when))
    composition = _composition(operator)
    if composition is not None:
        found.append(Implementation(operator, "composition", composition))
    return tuple(found)


def _composition(operator: str) -> Callable[..., Any] | None:
    # The module of an operator, which needs MindSpore; `ops.rms_norm` is the function.
    module = import_module(f"ms_ascend_ops.ops.{operator}")
    return getattr(module, "composition", None)
