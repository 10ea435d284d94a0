"""Operators on tensors of torch_npu, through the aclnn functions of the CANN package (`ms_ascend_ops.aclnn`).

Of torch_npu is used: the device and its memory through PyTorch, the name of the chip, the layout of a tensor, and the
current stream. It has run on the emulated device (tests/torch_npu), not on an NPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Protocol

import torch

from ms_ascend_ops import aclnn
from ms_ascend_ops.registry import Signature

__all__ = ["DEVICE", "run"]

DEVICE = "npu"  # the name that torch_npu gives PrivateUse1

# Of tensors whose elements lie as PyTorch says: NCHW, ND and NCDHW. In others, as FRACTAL_NZ, operators of CANN keep
# weights.
_PLAIN = (0, 2, 30)

_CHIPS = ("ascend910_93", "ascend910b")  # as packages name them; torch_npu has the model, as Ascend910B4


class Operator(Protocol):
    """What is asked of an operator (registration.py)."""

    @property
    def signature(self) -> Signature:
        """Its definition."""

    def results(
        self, tensors: Sequence[Any], values: Sequence[Any], device: torch.device
    ) -> tuple[dict[str, Any], tuple[torch.Tensor, ...]]:
        """Attributes by name, and empty tensors for the results."""

    @staticmethod
    def dtype_name(tensor: torch.Tensor) -> str:
        """As definitions name it."""

    def __hash__(self) -> int:
        """By identity."""


def run(operator: Operator, tensors: Sequence[torch.Tensor | None], values: Sequence[Any]) -> Any:
    """The results of one operator, which the current stream will write.

    Args:
        operator: that of the definition.
        tensors: in its order, on one device; None where an optional one is absent. Views are passed with their strides.
        values: attributes, in its order.

    Raises:
        RuntimeError: tensors are on several devices or in a layout of CANN's, or there is no package for the chip.
        ValueError, TypeError: those of the definition.
    """
    signature = operator.signature
    device = next(tensor.device for tensor in tensors if tensor is not None)
    for tensor, spec in zip(tensors, signature.inputs, strict=True):
        if tensor is not None:
            _check(signature.name, spec.name, tensor, device)
    attributes, results = operator.results(tensors, values, device)
    kept = []  # until the launch is in the stream; later work of it may take the memory

    def allocate(size: int) -> int:
        kept.append(torch.empty(size, dtype=torch.uint8, device=device))
        return int(kept[0].data_ptr())

    _operator(operator, _soc(device))(
        [None if tensor is None else _described(operator, tensor) for tensor in tensors],
        signature.cann_constants(attributes),
        [_described(operator, tensor) for tensor in results],
        allocate,
        lambda: _stream(device),
    )
    return results if len(results) > 1 else results[0]


def _check(name: str, what: str, tensor: torch.Tensor, device: torch.device) -> None:
    if tensor.device != device:
        raise RuntimeError(f"{name}: {what} is on {tensor.device}, other tensors are on {device}")
    layout = _layout(tensor)
    if layout not in _PLAIN:
        raise RuntimeError(
            f"{name}: {what} is in CANN's layout {layout}; torch_npu.npu_format_cast({what}, 2) gives one that "
            "the kernel can read"
        )


def _described(operator: Operator, tensor: torch.Tensor) -> aclnn.DeviceTensor:
    return aclnn.DeviceTensor(
        operator.dtype_name(tensor), tuple(tensor.shape), tuple(tensor.stride()), tensor.data_ptr()
    )


@cache
def _operator(operator: Operator, soc: str) -> aclnn.Operator:
    return aclnn.Operator(operator.signature, soc)


def _layout(tensor: torch.Tensor) -> int:
    import torch_npu  # noqa: PLC0415

    return int(torch_npu.get_npu_format(tensor))


@cache
def _soc(device: torch.device) -> str:
    """The chip, as the CANN package names it."""
    model = str(torch.get_device_module(DEVICE).get_device_name(device)).lower()
    return next((chip for chip in _CHIPS if model.startswith(chip)), model)


def _stream(device: torch.device) -> int:
    """Where PyTorch's operators go. torch_npu puts them into it from a queue: reading `npu_stream` waits for that."""
    return int(torch.get_device_module(DEVICE).current_stream(device).npu_stream)
