"""Operators of the vendor package on an emulated device, called through their aclnn functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ctypes import c_size_t, c_void_p
from dataclasses import dataclass
from typing import Any

import numpy as np

from ms_ascend_ops import aclnn
from ms_ascend_ops.registry import Signature
from tests.device.acl import Acl

SOC = "ascend910b"


@dataclass(frozen=True)
class Placed:
    """A tensor in device memory: `address` is that of the first element."""

    layout: aclnn.Layout
    address: int

    def create(self) -> int:
        """What CANN's functions take."""
        return aclnn._create(aclnn._description(self.layout), self.address)


class Device:
    """A device with one stream, and the package that the environment names."""

    def __init__(self, acl: Acl):
        self.acl, self.handle = acl, acl.stream()
        self.held: list[int] = []

    def allocate(self, size: int) -> int:
        self.held.append(self.acl.malloc(size))
        return self.held[-1]

    def put(self, array: np.ndarray, dtype: str) -> Placed:
        """A copy on the device, with the strides of the array."""
        storage = array if array.base is None or array.flags.c_contiguous else array.base
        address = self.allocate(max(1, storage.nbytes))
        if storage.nbytes:
            self.acl.copy(address, np.ascontiguousarray(storage), storage.nbytes)
        offset = array.__array_interface__["data"][0] - storage.__array_interface__["data"][0]
        strides = tuple(stride // array.itemsize for stride in array.strides)
        return Placed(aclnn.Layout(dtype, array.shape, strides), address + offset)

    def get(self, tensor: Placed, like: np.ndarray) -> np.ndarray:
        """What is there now, one element after the other."""
        result = np.empty(like.shape, like.dtype)
        if result.nbytes:
            self.acl.copy(result, tensor.address, result.nbytes)
        return result

    def call(
        self,
        signature: Signature,
        inputs: Sequence[Placed | None],
        attributes: dict[str, Any],
        outputs: Sequence[Placed],
        allocate: Callable[[int], int] | None = None,
        operator: aclnn.Operator | None = None,
    ) -> None:
        """Put a call into the stream, of the package that the environment names or of an operator that is loaded."""
        constants = signature.cann_constants(signature.check_attributes(attributes))
        launch = aclnn.Launch(
            operator or aclnn.Operator(signature, SOC),
            [None if tensor is None else tensor.layout for tensor in inputs],
            constants,
            [tensor.layout for tensor in outputs],
        )
        addresses = [0 if tensor is None else tensor.address for tensor in (*inputs, *outputs)]
        launch(addresses, allocate or self.allocate, lambda: self.handle.value or 0)

    def wait(self) -> None:
        self.acl.SynchronizeStream(self.handle)

    def release(self) -> None:
        self.wait()
        for address in self.held:
            self.acl.Free(c_void_p(address))
        self.held.clear()

    def fill(self, address: int, size: int, byte: int) -> None:
        self.acl.Memset(c_void_p(address), c_size_t(size), byte, c_size_t(size))
