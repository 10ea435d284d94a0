"""Calls of operators as the host's libraries write them (kernels/device/protocol/call.h), of NumPy arrays."""

from __future__ import annotations

import struct

import numpy as np

from ms_ascend_ops.device.aclnn_table import rows
from ms_ascend_ops.device.operators import run
from ms_ascend_ops.device.operators.memory import DTYPES

CODES = {name: code for code, (name, _) in DTYPES.items()}


class Scalar:
    """An aclScalar."""

    def __init__(self, value, dtype="float32"):
        self.value, self.dtype = value, dtype


class Memory:
    """A tensor in memory: a NumPy array, in any strides, of a dtype that the array itself need not have."""

    def __init__(self, array, dtype=None):
        self.array = array
        self.code = CODES[dtype or str(array.dtype)]


def bits(values, dtype):
    """A new array in the form in which a tensor of this dtype is stored, and its Memory."""
    if dtype == "bfloat16":
        single = np.asarray(values, np.float32)
        # Half of the last place, and 0 or 1 so that ties go to the even one.
        pattern = single.view(np.uint32).astype(np.int64)
        array = ((pattern + 0x7FFF + (pattern >> 16 & 1)) >> 16).astype(np.uint16)
        return Memory(np.asarray(array), dtype)
    return Memory(np.asarray(values).astype(dtype), dtype)


def values_of(memory):
    if memory.code == CODES["bfloat16"]:
        return (memory.array.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return memory.array


def call(name, *arguments):
    """The bytes of a call; the order of arguments is that of C."""
    kinds = [parameter.kind for parameter in rows()[name].parameters] if name in rows() else []
    kinds += [None] * (len(arguments) - len(kinds))
    return _text(name) + struct.pack("<I", len(arguments)) + b"".join(map(_value, arguments, kinds))


def execute(name, *arguments):
    fault = run(call(name, *arguments))
    if fault is not None:
        raise RuntimeError(fault)


def execute_by_name(operator, inputs, outputs, **attributes):
    """As aclopCompileAndExecute does it: bytes as an input are values that the host has, behind their tensor."""
    values = [len(inputs), len(outputs)]
    for tensor in (*inputs, *outputs):
        values += ["", *tensor] if isinstance(tensor, tuple) else ["", tensor, None]
    for name, value in attributes.items():
        values += [name, value]
    fault = run(call(f"aclop:{operator}", *values))
    if fault is not None:
        raise RuntimeError(fault)


def _text(text):
    data = text if isinstance(text, bytes) else text.encode()
    return struct.pack("<I", len(data)) + data


def _tensor(memory):
    array, width = memory.array, memory.array.itemsize
    address = array.__array_interface__["data"][0]
    strides = [stride // width for stride in array.strides]
    head = struct.pack("<QiqI", address, memory.code, 0, array.ndim)
    return head + struct.pack(f"<{2 * array.ndim}q", *array.shape, *strides) + struct.pack("<Q", array.size)


def _value(value, kind):
    if isinstance(value, np.ndarray):
        value = Memory(value)
    if isinstance(value, (list, tuple)):
        return _list(value, kind)
    if isinstance(value, Scalar):
        data = bits(value.value, value.dtype).array.tobytes()
        return b"\5" + struct.pack("<i", CODES[value.dtype]) + data.ljust(16, b"\0")
    if isinstance(value, float) or kind in ("double", "float"):
        return b"\4" + struct.pack("<d", value)
    forms = {type(None): lambda _: b"\0", Memory: lambda v: b"\1" + _tensor(v), str: lambda v: b"\10" + _text(v)}
    forms |= {bytes: lambda v: b"\11" + _text(v)}
    return forms.get(type(value), lambda v: b"\3" + struct.pack("<q", v))(value)


def _list(values, kind):
    if kind == "tensors":
        members = [one if isinstance(one, Memory) else Memory(one) for one in values]
        return b"\2" + struct.pack("<I", len(members)) + b"".join(map(_tensor, members))
    whole = kind != "floats" and all(isinstance(value, int) for value in values)
    form, number = ("q", b"\6") if whole else ("d", b"\7")
    return number + struct.pack(f"<I{len(values)}{form}", len(values), *values)
