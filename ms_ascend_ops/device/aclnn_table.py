"""Reads CANN's operators as data: what aclnn.txt says.

Each line is a function of CANN, its arguments in the order of C, and behind `=` the function of this package that
computes it, where its name does not follow:

    aclnnAdds(self, other scalar, alpha scalar, >out) = add

An argument is a tensor if no kind follows. `>` marks an output, `&` a tensor that is changed in place, `_` one that
makes no difference here, `?` one that may be absent, `*` an output whose shape only its values tell.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

__all__ = ["KINDS", "Parameter", "Row", "rows"]

# The kinds of arguments, and their types in C.
KINDS = {
    "tensor": "const aclTensor*",
    "tensors": "const aclTensorList*",
    "scalar": "const aclScalar*",
    "scalars": "const aclScalarList*",
    "ints": "const aclIntArray*",
    "bools": "const aclBoolArray*",
    "floats": "const aclFloatArray*",
    "text": "const char*",
    "int": "int64_t",
    "int32": "int32_t",
    "int8": "int8_t",
    "bool": "bool",
    "dtype": "int32_t",
    "double": "double",
    "float": "float",
}
_LINE = re.compile(r"(\w+)\(([^)]*)\)(?: = (\w+))?")
_PARAMETER = re.compile(r"([>&_]?)(\w+)(\??)(\*?)(?: (\w+))?")


@dataclass(frozen=True, slots=True)
class Parameter:
    """Describes an argument of a function of CANN."""

    name: str
    kind: str
    mark: str  # of the table: > & _ or nothing
    optional: bool
    dynamic: bool

    @property
    def is_input(self) -> bool:
        return self.mark in {"", "&"}

    @property
    def is_output(self) -> bool:
        return self.mark in {">", "&"}


@dataclass(frozen=True, slots=True)
class Row:
    """Describes a function of CANN."""

    function: str
    parameters: tuple[Parameter, ...]
    computation: str

    @property
    def is_dynamic(self) -> bool:
        """Tell whether the shape of an output is known only when it was computed."""
        return any(parameter.dynamic for parameter in self.parameters)


@cache
def rows() -> Mapping[str, Row]:
    """Return the rows by the name of the function; operators of aclop have GE's names."""
    path = Path(__file__).with_name("aclnn.txt")
    found: dict[str, Row] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line and not line.startswith("#"):
            try:
                row = _row(line)
            except ValueError as error:
                raise ValueError(f"{path.name}:{number}: {error}: {line}") from None
            if row.function in found:
                raise ValueError(f"{path.name}:{number}: {row.function} is there already")
            found[row.function] = row
    return found


def _row(line: str) -> Row:
    match = _LINE.fullmatch(line)
    if match is None:
        raise ValueError("it is no `function(argument, ...) = computation`")
    function, arguments, computation = match.groups()
    parameters = tuple(_parameter(text) for text in arguments.split(", ") if text)
    return Row(function, parameters, computation or _snake(function.removeprefix("aclnn").removeprefix("Inplace")))


def _parameter(text: str) -> Parameter:
    match = _PARAMETER.fullmatch(text)
    if match is None:
        raise ValueError(f"`{text}` is no argument")
    mark, name, optional, dynamic, kind = match.groups()
    if (kind or "tensor") not in KINDS:
        raise ValueError(f"{kind} is no kind of an argument; there are {', '.join(KINDS)}")
    return Parameter(name, kind or "tensor", mark, bool(optional), bool(dynamic))


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
