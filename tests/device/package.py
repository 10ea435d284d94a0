"""Operators of the vendor package on an emulated device, called through their aclnn functions."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import c_size_t, c_void_p
from typing import Any

import numpy as np

from ms_ascend_ops import aclnn
from ms_ascend_ops.registry import Signature
from tests.device.acl import Acl

SOC = "ascend910b"


class Device:
    """A device with one stream, and the package that the environment names."""

    def __init__(self, acl: Acl):
        self.acl, self.handle = acl, acl.stream()
        self.held: list[int] = []

    def allocate(self, size: int) -> int:
        self.held.append(self.acl.malloc(size))
        return self.held[-1]

    def put(self, array: np.ndarray, dtype: str) -> aclnn.DeviceTensor:
        """A copy on the device, with the strides of the array."""
        storage = array if array.base is None or array.flags.c_contiguous else array.base
        address = self.allocate(max(1, storage.nbytes))
        if storage.nbytes:
            self.acl.copy(address, np.ascontiguousarray(storage), storage.nbytes)
        offset = array.__array_interface__["data"][0] - storage.__array_interface__["data"][0]
        strides = tuple(stride // array.itemsize for stride in array.strides)
        return aclnn.DeviceTensor(dtype, array.shape, strides, address + offset)

    def get(self, tensor: aclnn.DeviceTensor, like: np.ndarray) -> np.ndarray:
        """What is there now, one element after the other."""
        result = np.empty(like.shape, like.dtype)
        if result.nbytes:
            self.acl.copy(result, tensor.address, result.nbytes)
        return result

    def call(
        self,
        signature: Signature,
        inputs: Sequence[aclnn.DeviceTensor | None],
        attributes: dict[str, Any],
        outputs: Sequence[aclnn.DeviceTensor],
    ) -> None:
        """Put a call into the stream."""
        operator = aclnn.Operator(signature, SOC)
        constants = signature.cann_constants(signature.check_attributes(attributes))
        operator(inputs, constants, outputs, self.allocate, lambda: self.handle.value or 0)

    def wait(self) -> None:
        self.acl.SynchronizeStream(self.handle)

    def release(self) -> None:
        self.wait()
        for address in self.held:
            self.acl.Free(c_void_p(address))
        self.held.clear()

    def fill(self, address: int, size: int, byte: int) -> None:
        self.acl.Memset(c_void_p(address), c_size_t(size), byte, c_size_t(size))
