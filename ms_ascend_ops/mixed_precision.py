"""Handles calls within a cell that mixed precision is put around: the dtypes that an operator computes in then.

MindSpore would cast all floats that a primitive takes. Our operators take some in float32 whatever the others are (the
scales of quantised weights), and some that they write (a cache): a row of the definition's types says which go
together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import mindspore as ms
from mindspore import Tensor

from ms_ascend_ops.mindspore_versions import dtype_name, private
from ms_ascend_ops.registry import Signature, TensorSpec

__all__ = ["caster"]

_FLOATS = ("float16", "bfloat16", "float32")
_KINDS = private("MixedPrecisionType")
_DTYPES: Mapping[Any, str] = (
    {_KINDS.FP16: "float16", _KINDS.BF16: "bfloat16", _KINDS.FP32: "float32"} if _KINDS is not None else {}
)


def caster(signature: Signature, given: Sequence[TensorSpec]) -> Callable[[Any, tuple[Any, ...]], tuple[Any, ...]]:
    """Return a function of the kind of mixed precision and the tensors of a call, which gives the tensors to
    compute with.

    With another kind than a dtype (`amp` at level "auto") it casts only what does not go together.
    """
    chosen: dict[tuple[Any, ...], tuple[str, ...] | None] = {}

    def cast(kind: Any, tensors: tuple[Any, ...]) -> tuple[Any, ...]:
        if not all(isinstance(tensor, Tensor) for tensor in tensors):
            return tensors
        dtypes = tuple(dtype_name(tensor.dtype) for tensor in tensors)
        wanted = _DTYPES.get(kind, "")
        key = wanted, dtypes
        if key not in chosen:
            chosen[key] = _row(signature, given, dtypes, wanted)
        row = chosen[key]
        if row is None:
            return tensors
        return tuple(
            tensor if old == new else tensor.astype(getattr(ms, new))
            for tensor, old, new in zip(tensors, dtypes, row, strict=True)
        )

    return cast


def _row(
    signature: Signature, given: Sequence[TensorSpec], dtypes: Sequence[str], wanted: str
) -> tuple[str, ...] | None:
    """Return the dtypes of the inputs: x in `wanted` if that is one, where casts of floats lead there.

    None if none do.
    """
    best: tuple[tuple[Any, ...], tuple[str, ...]] | None = None
    widest = next((dtype for dtype in reversed(_FLOATS) if dtype in dtypes), "")
    for types in signature.types or ({},):
        row = tuple(types.get(spec.dtype, spec.dtype) for spec in given)
        if any(
            old != new and (spec.name in signature.writes or old not in _FLOATS or new not in _FLOATS)
            for spec, old, new in zip(given, dtypes, row, strict=True)
        ):
            continue
        # Prefer x, the first one: its dtype counts most. Then cast all floats that can be cast, as MindSpore does.
        first = next((new for new in row if new in _FLOATS), "")
        casts = sum(old != new for old, new in zip(dtypes, row, strict=True))
        others = sum(new in _FLOATS and new != wanted for new in row)
        cost = (first != wanted, others, casts) if wanted else (casts > 0, first != widest, casts)
        if best is None or cost < best[0]:
            best = cost, row
    return None if best is None else best[1]
