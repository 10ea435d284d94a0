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
    known: dict[tuple[Any, ...], list[tuple[tuple[int, ...], ms.Type]]] = {}

    def results(tensors: Sequence[Tensor]) -> list[Tensor]:
        form = tuple((tensor.shape, tensor.dtype) for tensor in tensors)
        if form not in known:
            if len(known) >= _REMEMBERED:
                known.clear()
            shapes = [None if place is None else form[place][0] for place in places]
            dtypes = [None if place is None else _name(form[place][1]) for place in places]
            inferred = zip(infer_shapes(signature, shapes, attributes), infer_types(signature, dtypes), strict=True)
            known[form] = [(shape, getattr(ms, dtype)) for shape, dtype in inferred]
        return [ms.mint.empty(shape, dtype=dtype) for shape, dtype in known[form]]

    def call(*tensors: Tensor) -> Tensor | tuple[Tensor, ...]:
        for tensor in tensors:
            if tensor.device == "CPU":
                tensor.view(tensor.shape)  # MindSpore moves it to the device
        made = results(tensors)
        kept = []  # until the launch is in the stream; later work of it may take the memory

        def allocate(size: int) -> int:
            kept.append(ms.mint.empty((size,), dtype=ms.int8))
            return int(kept[0].data_ptr())

        # The address of a new tensor is there when MindSpore has put all operators into the stream that came before.
        outputs = [_described(tensor) for tensor in made]
        inputs = [None if place is None else _described(tensors[place]) for place in places]
        _operator(signature, soc())(inputs, constants, outputs, allocate, _stream)
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


def _stream() -> int:
    return int(ms.runtime.current_stream().stream_ptr())
