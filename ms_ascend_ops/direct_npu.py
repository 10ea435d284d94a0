"""A call in PyNative on an NPU: from the tensors to the aclnn function of the CANN package, past `ops.Custom`.

In PyNative MindSpore's `ops.Custom` takes nothing but tensors there; our operators have attributes, and inputs that may
be absent. So the function is called here, through `aclnn.py`, on device memory that MindSpore allocates, in its current
stream. Gradients are recorded as on a CPU (direct.py). In graphs `ops.Custom` does what is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import mindspore as ms
from mindspore import Tensor

from ms_ascend_ops import aclnn
from ms_ascend_ops.inference import infer_shapes, infer_types
from ms_ascend_ops.registry import Signature, TensorSpec

__all__ = ["no_gradient", "on_npu"]

_REMEMBERED = 256  # combinations of shapes and dtypes, of one operator with its attributes


def on_npu(
    signature: Signature, given: tuple[TensorSpec, ...], attributes: Mapping[str, Any], soc: Callable[[], str]
) -> Callable[..., Any]:
    """The operator as a function of the given tensors, which have been checked."""
    places = [given.index(tensor) if tensor in given else None for tensor in signature.inputs]
    constants = signature.cann_constants(attributes)
    known: dict[tuple[Any, ...], list[tuple[tuple[int, ...], str, tuple[int, ...]]]] = {}

    def results(tensors: Sequence[Tensor]) -> list[tuple[tuple[int, ...], str, tuple[int, ...]]]:
        form = tuple((tensor.shape, tensor.dtype) for tensor in tensors)
        if form not in known:
            if len(known) >= _REMEMBERED:
                known.clear()
            shapes = [None if place is None else form[place][0] for place in places]
            dtypes = [None if place is None else _name(form[place][1]) for place in places]
            inferred = zip(infer_shapes(signature, shapes, attributes), infer_types(signature, dtypes), strict=True)
            known[form] = [(shape, dtype, _strides(shape)) for shape, dtype in inferred]
        return known[form]

    def call(*tensors: Tensor) -> Tensor | tuple[Tensor, ...]:
        stream = int(ms.runtime.current_stream().stream_ptr())
        # A view is on the device: MindSpore moves its tensor there, or, where an MsDispatchMode watches, a copy of it.
        tensors = tuple(tensor.view(tensor.shape) if tensor.device == "CPU" else tensor for tensor in tensors)
        forms = results(tensors)
        made = [ms.mint.empty(shape, dtype=getattr(ms, dtype)) for shape, dtype, _ in forms]
        # The address of the last new tensor is there when MindSpore has put all operators into the stream that came
        # before. Each question for something that is not known yet waits for threads of MindSpore's, so it comes first.
        made[-1].data_ptr()
        outputs = [
            aclnn.DeviceTensor(dtype, shape, strides, tensor.data_ptr())
            for tensor, (shape, dtype, strides) in zip(made, forms, strict=True)
        ]
        inputs = [None if place is None else _described(tensors[place]) for place in places]
        _operator(signature, soc())(inputs, constants, outputs, lambda size: _workspace(stream, size), lambda: stream)
        return made[0] if len(made) == 1 else tuple(made)

    return call


def no_gradient(operator: str) -> Callable[..., Any]:
    """The bprop of an operator that has none."""

    def bprop(*_: Any) -> Any:
        raise RuntimeError(f"{operator}: it has no gradient")

    return bprop


@cache
def _operator(signature: Signature, soc: str) -> aclnn.Operator:
    return aclnn.Operator(signature, soc)


def _described(tensor: Tensor) -> aclnn.DeviceTensor:
    return aclnn.DeviceTensor(_name(tensor.dtype), tensor.shape, tensor.stride(), tensor.data_ptr())


@cache
def _name(dtype: Any) -> str:
    return str(dtype).lower()


def _strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides = [1] * len(shape)
    for axis in reversed(range(len(shape) - 1)):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    return tuple(strides)


_workspaces: dict[int, Tensor] = {}  # of streams: what is in one runs in order, so that all may use the same memory
_replaced: list[Tensor] = []  # what is in a stream may still use them


def _workspace(stream: int, size: int) -> int:
    held = _workspaces.get(stream)
    if held is None or held.nbytes < size:
        if held is not None:
            _replaced.append(held)
            if len(_replaced) > 4:
                ms.runtime.synchronize()
                _replaced.clear()
        held = _workspaces[stream] = ms.mint.empty((size,), dtype=ms.int8)
    return int(held.data_ptr())
