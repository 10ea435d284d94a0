"""Runs operators on tensors of torch_npu, through the aclnn functions of the CANN package (`ms_ascend_ops.aclnn`).

Of torch_npu is used: the device and its memory through PyTorch, the name of the chip, the layout of a tensor, and the
current stream. It has run on the emulated device (tests/torch_npu), not on an NPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Protocol

import torch

from ms_ascend_ops import aclnn
from ms_ascend_ops.library import native
from ms_ascend_ops.registry import Signature

__all__ = ["DEVICE", "prepared", "run"]

DEVICE = "npu"  # the name that torch_npu gives PrivateUse1

# Tensors of these formats lie as PyTorch says: NCHW, ND and NCDHW. In others, as FRACTAL_NZ, operators of CANN keep
# weights.
_PLAIN = (0, 2, 30)

_REMEMBERED = 1024  # forms of calls

_CHIPS = ("ascend910_93", "ascend910b")  # as packages name them; torch_npu has the model, as Ascend910B4


class Operator(Protocol):
    """Says what PyTorch needs of an operator (registration.py)."""

    @property
    def signature(self) -> Signature:
        """Return its definition."""

    def results(
        self, tensors: Sequence[Any], values: Sequence[Any], device: torch.device
    ) -> tuple[dict[str, Any], tuple[torch.Tensor, ...]]:
        """Return attributes by name, and empty tensors for the results."""

    @staticmethod
    def dtype_name(tensor: torch.Tensor) -> str:
        """Return the name that definitions have for it."""

    def __hash__(self) -> int:
        """Hash by identity."""


def run(operator: Operator, tensors: Sequence[torch.Tensor | None], values: Sequence[Any]) -> Any:
    """Return the results of one operator, which the current stream will write.

    Args:
        operator: that of the definition.
        tensors: in its order, on one device; None where an optional one is absent. Views are passed with their strides.
        values: attributes, in its order.

    Raises:
        RuntimeError: tensors are on several devices or in a layout of CANN's, or there is no package for the chip.
        ValueError, TypeError: those of the definition.
    """
    key = _key(operator, tensors, values)
    try:
        call = _calls.get(key)
    except TypeError:  # it cannot be hashed
        operator.results(tensors, values, torch.device("meta"))  # says which
        raise
    if call is None:
        if len(_calls) >= _REMEMBERED:
            _calls.clear()
        call = _calls[key] = _Call(operator, tensors, values)
    for tensor, spec in zip(tensors, operator.signature.inputs, strict=True):
        if tensor is not None and tensor.dim() > 1:  # others have no layout of CANN's
            _check_layout(operator.signature.name, spec.name, tensor)
    device = call.device
    results = tuple(torch.empty(size, dtype=dtype, device=device) for size, dtype in call.results)
    kept = []  # until the launch is in the stream; later work of it may take the memory

    def allocate(size: int) -> int:
        kept.append(torch.empty(size, dtype=torch.uint8, device=device))
        return int(kept[0].data_ptr())

    addresses = [0 if tensor is None else tensor.data_ptr() for tensor in (*tensors, *results)]
    call.launch(addresses, allocate, lambda: _stream(device))
    return results if len(results) > 1 else results[0]


def prepared(operator: Operator, tensors: Sequence[torch.Tensor | None], values: Sequence[Any]) -> Any:
    """Return the `_C.NpuForm` of a call that has run: further ones go through torch_npu's queue.

    None where this torch_npu has no such queue, as 2.6 for PyTorch of the old C++ ABI.
    """
    library, call = _library(), _calls.get(_key(operator, tensors, values))
    if library is None or call is None:
        return None
    return native().NpuForm(library, call.launch.queued(), call.device.index, call.dtypes, _PLAIN)


def _key(operator: Operator, tensors: Sequence[torch.Tensor | None], values: Sequence[Any]) -> tuple[Any, ...]:
    forms = [None if t is None else (t.dtype, t.shape, t.stride(), t.device) for t in tensors]
    return (operator, tuple(values), *forms)


class _Call:
    """Holds what calls with the same attributes and forms of tensors have in common."""

    def __init__(self, operator: Operator, tensors: Sequence[torch.Tensor | None], values: Sequence[Any]):
        signature = operator.signature
        self.device = next(tensor.device for tensor in tensors if tensor is not None)
        for tensor, spec in zip(tensors, signature.inputs, strict=True):
            if tensor is not None and tensor.device != self.device:
                raise RuntimeError(
                    f"{signature.name}: {spec.name} is on {tensor.device}, other tensors are on {self.device}"
                )
        attributes, results = operator.results(tensors, values, torch.device("meta"))
        self.results = [(tuple(tensor.shape), tensor.dtype) for tensor in results]
        self.dtypes = [operator.dtype_name(tensor) for tensor in results]
        self.launch = aclnn.Launch(
            _operator(operator, _soc(self.device)),
            [None if tensor is None else _described(operator, tensor) for tensor in tensors],
            signature.cann_constants(attributes),
            [_described(operator, tensor) for tensor in results],
        )


_calls: dict[tuple[Any, ...], _Call] = {}


def _check_layout(name: str, what: str, tensor: torch.Tensor) -> None:
    layout = _layout(tensor)
    if layout not in _PLAIN:
        raise RuntimeError(
            f"{name}: {what} is in CANN's layout {layout}; torch_npu.npu_format_cast({what}, 2) gives one that "
            "the kernel can read"
        )


def _described(operator: Operator, tensor: torch.Tensor) -> aclnn.Layout:
    return aclnn.Layout(operator.dtype_name(tensor), tuple(tensor.shape), tuple(tensor.stride()))


@cache
def _operator(operator: Operator, soc: str) -> aclnn.Operator:
    return aclnn.Operator(operator.signature, soc)


def _layout(tensor: torch.Tensor) -> int:
    return int(_format()(tensor))


@cache
def _format() -> Any:
    import torch_npu  # noqa: PLC0415

    return torch_npu.get_npu_format


@cache
def _library() -> Any:
    import torch_npu  # noqa: PLC0415

    npu, aoti = torch_npu._C, torch._C._aoti
    functions = aoti.unsafe_alloc_void_ptr_from_tensor, aoti.alloc_tensors_by_stealing_from_void_ptrs
    return native().Npu.find("libtorch_cpu.so", "libtorch_npu.so", *functions, npu._npu_getDevice, npu._npu_setDevice)


@cache
def _soc(device: torch.device) -> str:
    """Return the chip, as the CANN package names it."""
    model = str(torch.get_device_module(DEVICE).get_device_name(device)).lower()
    return next((chip for chip in _CHIPS if model.startswith(chip)), model)


def _stream(device: torch.device) -> int:
    """Return PyTorch's stream. torch_npu puts operators into it from a queue: asking for the stream waits for that."""
    return int(_raw_stream()(device.index))


@cache
def _raw_stream() -> Any:
    """Return what `torch.npu.current_stream(device).npu_stream` asks, which makes an object on the way."""
    import torch_npu  # noqa: PLC0415

    return torch_npu._C._npu_getCurrentRawStream
