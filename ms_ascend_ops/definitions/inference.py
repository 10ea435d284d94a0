"""Infers shapes and dtypes of a kernel's outputs from those of its inputs, by the rules of its definition.

`kernels/binding/signature.cpp` interprets the rules, for Python, MindSpore and CANN; this needs the built library.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from ms_ascend_ops.definitions.signature import Signature
from ms_ascend_ops.library import native

__all__ = ["UNKNOWN_RANK", "MaybeShape", "Shape", "complete_shapes", "given_types", "infer_shapes", "infer_types"]

Shape = tuple[int, ...]
MaybeShape = Shape | None  # None: of an optional input that is absent

UNKNOWN_RANK: Shape = (-2,)  # a dim that is not known is -1


def infer_shapes(signature: Signature, shapes: Sequence[MaybeShape], attributes: Mapping[str, Any]) -> list[Shape]:
    """Check the shapes of the inputs against each other and return those of the outputs.

    Raises:
        ValueError: a shape breaks the rule; the message names the tensor, the rule and the shape.
    """
    inferred: list[Shape] = _rules(signature).infer_shapes(shapes, _integers(signature, attributes))
    return inferred


def complete_shapes(
    signature: Signature, shapes: Sequence[MaybeShape], attributes: Mapping[str, Any]
) -> list[MaybeShape]:
    """Complete the shapes of all inputs, from those of the first ones.

    Optional inputs are absent if they are not among these.

    Raises:
        ValueError: a shape breaks the rule, or does not say enough.
    """
    complete: list[MaybeShape] = _rules(signature).complete_shapes(shapes, _integers(signature, attributes))
    return complete


def infer_types(signature: Signature, dtypes: Sequence[str | None]) -> list[str]:
    """Check the dtype names of the inputs and return those of the outputs.

    Raises:
        TypeError: the operator has no kernel for a dtype, or for this combination.
    """
    inferred: list[str] = _rules(signature).infer_types(dtypes)
    return inferred


def given_types(shapes: Sequence[MaybeShape], dtypes: Sequence[str]) -> list[str | None]:
    """Return the dtypes without those of inputs that are absent."""
    return [None if shape is None else dtype for shape, dtype in zip(shapes, dtypes, strict=True)]


def _integers(signature: Signature, attributes: Mapping[str, Any]) -> dict[str, int]:
    """Return what rules may name: attributes that are a size, or say where a dim stands."""
    specs = (spec for spec in signature.attributes if spec.axes or spec.type == "int")
    return {spec.name: spec.axis(attributes.get(spec.name, spec.default)) for spec in specs}


@lru_cache(maxsize=256)
def _rules(signature: Signature) -> Any:
    return native().Signature(signature)
