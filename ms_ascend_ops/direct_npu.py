"""Calls an aclnn function of the CANN package from tensors in PyNative on an NPU, past `ops.Custom`.

In PyNative MindSpore's `ops.Custom` takes nothing but tensors there; our operators have attributes, and inputs that may
be absent. So `_pynative` (kernels/binding/pynative_call.cpp) puts the call into the pipeline of threads in which
MindSpore's own operators are prepared and launched, and the program goes on. What CANN refuses is an error where the
program waits for the device, as with those. Gradients are recorded as on a CPU (direct.py). In graphs `ops.Custom` does
what is needed.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from mindspore import Tensor

from ms_ascend_ops import aclnn
from ms_ascend_ops.definitions.inference import infer_shapes, infer_types
from ms_ascend_ops.library import library_path
from ms_ascend_ops.registry import Signature, TensorSpec

__all__ = ["no_gradient", "on_npu"]

_REMEMBERED = 256  # combinations of shapes and dtypes, of one operator with its attributes

# TypeId of MindSpore 2.10 (mindapi/base/type_id.h).
_TYPES = {"int8": 32, "int32": 34, "int64": 35, "float16": 42, "float32": 43, "bfloat16": 45}

# Describe a result by the number of its dtype, and its shape.
Forms = list[tuple[int, tuple[int, ...]]]


def on_npu(
    signature: Signature, given: tuple[TensorSpec, ...], attributes: Mapping[str, Any], soc: Callable[[], str]
) -> Callable[..., Any]:
    """Return the operator as a function of the given tensors, which have been checked."""
    places = [given.index(tensor) if tensor in given else None for tensor in signature.inputs]
    known: dict[tuple[Any, ...], Forms] = {}
    made: list[Callable[[tuple[Tensor, ...], Forms], list[Tensor]]] = []

    def results(tensors: Sequence[Tensor]) -> Forms:
        form = tuple((tensor.shape, tensor.dtype) for tensor in tensors)
        if form not in known:
            if len(known) >= _REMEMBERED:
                known.clear()
            shapes = [None if place is None else form[place][0] for place in places]
            dtypes = [None if place is None else str(form[place][1]).lower() for place in places]
            inferred = zip(infer_types(signature, dtypes), infer_shapes(signature, shapes, attributes), strict=True)
            known[form] = [(_TYPES[dtype], tuple(shape)) for dtype, shape in inferred]
        return known[form]

    def call(*tensors: Tensor) -> Tensor | tuple[Tensor, ...]:
        if not made:
            made.append(_function(signature, given, attributes, soc()))
        found = made[0](tensors, results(tensors))
        return found[0] if len(found) == 1 else tuple(found)

    return call


def no_gradient(operator: str) -> Callable[..., Any]:
    """Return the bprop of an operator that has none."""

    def bprop(*_: Any) -> Any:
        raise RuntimeError(f"{operator}: it has no gradient")

    return bprop


def _function(
    signature: Signature, given: tuple[TensorSpec, ...], attributes: Mapping[str, Any], soc: str
) -> Callable[[tuple[Tensor, ...], Forms], list[Tensor]]:
    from ms_ascend_ops._pynative import Function  # noqa: PLC0415

    operator = aclnn.Operator(signature, soc)
    constants = [
        float(value) if attribute.type == "float" else int(value)
        for attribute, value in zip(signature.attributes, signature.cann_constants(attributes), strict=True)
    ]
    addresses = [
        aclnn.address(ctypes.CDLL(library_path())[f"{signature.aclnn_callback(attributes)}GetWorkSpaceSize"]),
        aclnn.address(operator.prepare),
        aclnn.address(operator.launch),
    ]
    is_given = [tensor in given for tensor in signature.inputs]
    function: Callable[..., list[Tensor]] = Function(
        _cann(), signature.name, f"aclnn{signature.cann_type}", addresses, is_given, tuple(constants)
    )
    return function


@cache
def _cann() -> Any:
    from ms_ascend_ops._pynative import Cann  # noqa: PLC0415

    names = ("aclCreateTensor", "aclDestroyTensor", "aclGetRecentErrMsg")
    dtypes = [(number, aclnn.VALUES[name][1]) for name, number in _TYPES.items()]
    return Cann([aclnn.address(aclnn.function(name)) for name in names], dtypes, aclnn.VALUES["ND"][1])
