"""Finds the operators by their names. Needs no MindSpore: `kernels/codegen` uses it at build time."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from ms_ascend_ops.definitions.reader import load
from ms_ascend_ops.definitions.signature import (
    ACLNN_TYPES,
    DTYPES,
    AttributeSpec,
    CounterpartSpec,
    OpSpec,
    Signature,
    TensorSpec,
)
from ms_ascend_ops.suggestions import suggestion

__all__ = [
    "ACLNN_TYPES",
    "DTYPES",
    "AttributeSpec",
    "CounterpartSpec",
    "OpSpec",
    "Signature",
    "TensorSpec",
    "definition",
    "load",
    "names",
    "op_spec",
    "signature",
]

_DEFINITIONS = Path(__file__).parent / "ops"


@cache
def names() -> tuple[str, ...]:
    """Return the names of all operators."""
    return tuple(sorted(path.stem for path in _DEFINITIONS.glob("*.yaml")))


@cache
def op_spec(name: str) -> OpSpec:
    """Return the definition of one operator.

    Raises:
        ValueError: there is no such operator.
    """
    if name not in names():
        near = suggestion(name, names()) or f"; the operators are {', '.join(names())}"
        raise ValueError(f"there is no operator '{name}'{near}")
    return load(_DEFINITIONS / f"{name}.yaml")


@cache
def signature(name: str) -> Signature:
    """Return the signature of a kernel: `rms_norm` or `rms_norm_grad`.

    Raises:
        ValueError: there is no such operator, or it has no gradient.
    """
    if not name.endswith("_grad"):
        return op_spec(name).forward
    gradient = op_spec(name.removesuffix("_grad")).gradient
    if gradient is None:
        raise ValueError(f"the operator '{name.removesuffix('_grad')}' has no gradient")
    return gradient


def definition(name: str) -> Path:
    """Return the file that defines an operator."""
    return _DEFINITIONS / f"{op_spec(name).name}.yaml"
