"""Calls operators of the CANN package as functions of device memory: CANN's aclnn interface through ctypes.

An operator has two functions, which CANN generates from its registration: `aclnnXGetWorkspaceSize` takes tensors,
attributes and outputs in the order of the definition, and prepares a launch; `aclnnX` puts it into a stream. What is
used of CANN's own functions and values stands in `FUNCTIONS` and `VALUES`, which `build.sh check-cann` compares with
CANN's headers.

It has run on the emulated device, not on an NPU.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ms_ascend_ops import ascend
from ms_ascend_ops.library import library_path, native
from ms_ascend_ops.registry import Signature

__all__ = ["FUNCTIONS", "HEADERS", "VALUES", "Launch", "Layout", "Operator", "address", "function"]

HEADERS = ("acl/acl.h", "aclnn/acl_meta.h")  # which of those behind acl.h has a function differs by version

# Maps a name to the library, the result and the parameters in C.
FUNCTIONS = {
    "aclCreateTensor": (
        "libnnopbase.so",
        "aclTensor*",
        (
            *("const int64_t*", "uint64_t", "aclDataType"),  # the sizes of the tensor, their number, its dtype
            *("const int64_t*", "int64_t", "aclFormat"),  # its strides, an offset, its layout
            *("const int64_t*", "uint64_t", "void*"),  # the sizes of the memory, their number, its address
        ),
    ),
    "aclDestroyTensor": ("libnnopbase.so", "aclnnStatus", ("const aclTensor*",)),
    "aclGetRecentErrMsg": ("libascendcl.so", "const char*", ()),
}

# These are of CANN's enumerations: dtypes by our names, and the only layout of tensors that operators of this library
# have.
VALUES = {
    "float32": ("ACL_FLOAT", 0),
    "float16": ("ACL_FLOAT16", 1),
    "bfloat16": ("ACL_BF16", 27),
    "int8": ("ACL_INT8", 2),
    "int32": ("ACL_INT32", 3),
    "int64": ("ACL_INT64", 9),
    "ND": ("ACL_FORMAT_ND", 2),
}

_TYPES: dict[str, Any] = {
    "const int64_t*": ctypes.POINTER(ctypes.c_int64),
    "int64_t": ctypes.c_int64,
    "uint64_t": ctypes.c_uint64,
    "aclDataType": ctypes.c_int32,
    "aclFormat": ctypes.c_int32,
    "aclnnStatus": ctypes.c_int32,
    "void*": ctypes.c_void_p,
    "aclTensor*": ctypes.c_void_p,
    "const aclTensor*": ctypes.c_void_p,
    "const char*": ctypes.c_char_p,
}

# A choice is passed as the index of its text.
_ATTRIBUTES: dict[str, Any] = {
    "int": ctypes.c_int64,
    "float": ctypes.c_double,
    "bool": ctypes.c_bool,
    "string": ctypes.c_int64,
}


@dataclass(frozen=True)
class Layout:
    """Describes how a tensor lies in its memory: `strides` count elements, from the first one."""

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def reach(self) -> int:
        """Returns how much of the memory the tensor reaches, in elements."""
        sizes = zip(self.shape, self.strides, strict=True)
        return 1 + sum((size - 1) * stride for size, stride in sizes) if all(self.shape) else 0


class Operator:
    """Describes one operator of the installed package for one chip.

    Raises:
        RuntimeError: the package, or a library of CANN, is missing or another version; the message says what to do.
    """

    def __init__(self, signature: Signature, soc: str):
        self.signature = signature
        file = ascend.check_package(signature, soc).folder / "op_api/lib/libcust_opapi.so"
        name = f"aclnn{signature.cann_type}"
        changed = {tensor.name for tensor in signature.inputs if tensor.name in signature.writes}
        self._outputs = [tensor.name for tensor in signature.cann_outputs if tensor.name not in changed]
        library = _open(str(file))
        try:
            self.prepare, self.launch = library[f"{name}GetWorkspaceSize"], library[name]
        except AttributeError as error:
            raise RuntimeError(f"{signature.name}: {file} has no {name}; build the package again") from error
        pointers: list[Any] = [ctypes.c_void_p] * len(signature.inputs)
        attributes = [_ATTRIBUTES[attribute.type] for attribute in signature.attributes]
        results: list[Any] = [ctypes.c_void_p] * len(self._outputs)
        sizes: list[Any] = [ctypes.POINTER(ctypes.c_uint64), ctypes.POINTER(ctypes.c_void_p)]
        self.prepare.argtypes = [*pointers, *attributes, *results, *sizes]
        self.launch.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_void_p]

    def check(self, part: str, status: int) -> None:
        """Raise RuntimeError where CANN refused a call; the message has its number and reason."""
        if status != 0:
            reason = (function("aclGetRecentErrMsg")() or b"").decode(errors="replace").strip()
            raise RuntimeError(
                f"{self.signature.name}: aclnn{self.signature.cann_type}{part} returned {status}"
                f"{f': {reason}' if reason else ''}"
            )


class Launch:
    """Calls an operator on tensors of given layouts: what is the same from call to call is made once.

    Args:
        operator: which.
        inputs: in the definition's order; None where an optional one is absent.
        constants: the attributes as `Signature.cann_constants` gives them.
        outputs: what the kernel is to write.
    """

    def __init__(
        self, operator: Operator, inputs: Sequence[Layout | None], constants: Sequence[Any], outputs: Sequence[Layout]
    ):
        self._operator, self._constants, self._inputs = operator, tuple(constants), len(inputs)
        self._layouts = (*inputs, *outputs)
        self._descriptions = [None if layout is None else _description(layout) for layout in self._layouts]
        self._workspace_bytes = 0  # of the last call

    def queued(self) -> Any:
        """Return it as a `_C.QueuedLaunch`, which runs without Python. It has run: the workspace is known."""
        signature = self._operator.signature
        presence = {f"has_{t.name}": self._layouts[i] is not None for i, t in enumerate(signature.inputs)}
        callback = ctypes.CDLL(library_path())[f"{signature.aclnn_callback(presence)}GetWorkSpaceSize"]
        functions = [
            *(function("aclCreateTensor"), function("aclDestroyTensor"), callback),
            *(self._operator.prepare, self._operator.launch),
        ]
        constants = zip(signature.attributes, self._constants, strict=True)
        return native().QueuedLaunch(
            name=f"aclnn{signature.cann_type}",
            functions=[address(one) for one in functions],
            tensors=[t and (VALUES[t.dtype][1], t.shape, t.strides, t.reach) for t in self._layouts],
            inputs=self._inputs,
            attributes=tuple(float(value) if a.type == "float" else int(value) for a, value in constants),
            workspace_bytes=self._workspace_bytes,
            layout=VALUES["ND"][1],
        )

    def __call__(self, addresses: Sequence[int], allocate: Callable[[int], int], stream: Callable[[], int]) -> None:
        """Put one launch into a stream.

        Args:
            addresses: of the first elements of the tensors, those of `outputs` last; any number where one is absent.
                Inputs that the kernel writes to are changed.
            allocate: gives the address of so many bytes of device memory, which no earlier work in the stream uses.
            stream: gives the stream (`aclrtStream`); it is called last, when all else is ready.

        Raises:
            RuntimeError: CANN refuses the call; the message has its number and reason.
        """
        operator, tensors = self._operator, []
        try:
            for description, address in zip(self._descriptions, addresses, strict=True):
                tensors.append(None if description is None else _create(description, address))
            bytes_needed, executor = ctypes.c_uint64(), ctypes.c_void_p()
            given, results = tensors[: self._inputs], tensors[self._inputs :]
            sizes = ctypes.byref(bytes_needed), ctypes.byref(executor)
            operator.check("GetWorkspaceSize", operator.prepare(*given, *self._constants, *results, *sizes))
            size = self._workspace_bytes = bytes_needed.value
            workspace = allocate(size) if size else None
            operator.check("", operator.launch(workspace, size, executor, stream()))
        finally:
            destroy = function("aclDestroyTensor")
            for tensor in tensors:
                if tensor is not None:
                    destroy(tensor)


def address(function: Any) -> int:
    """Returns the address of a function of a library."""
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def _description(layout: Layout) -> tuple[Any, ...]:
    """Return the arguments of aclCreateTensor but the address."""
    rank, sizes, strides = len(layout.shape), layout.shape, layout.strides
    dims = ctypes.c_int64 * rank
    return (
        *(dims(*sizes), rank, VALUES[layout.dtype][1]),
        *(dims(*strides), 0, VALUES["ND"][1]),
        *((ctypes.c_int64 * 1)(layout.reach), 1),
    )


def _create(description: tuple[Any, ...], address: int) -> int:
    made = function("aclCreateTensor")(*description, address)
    if not made:
        raise RuntimeError(f"aclCreateTensor: CANN makes no tensor of the sizes {tuple(description[0])}")
    return int(made)


@cache
def function(name: str) -> Any:
    """Return one of `FUNCTIONS`.

    Raises:
        RuntimeError: CANN's library does not load.
    """
    library, result, parameters = FUNCTIONS[name]
    found = _open(library)[name]
    found.restype = _TYPES[result]
    found.argtypes = [_TYPES[parameter] for parameter in parameters]
    return found


@cache
def _open(name: str) -> ctypes.CDLL:
    """Open a library by its path; one of CANN by its name, in the toolkit that the environment names."""
    home = Path(os.environ.get("ASCEND_HOME_PATH", ""), "lib64", name)
    try:
        return ctypes.CDLL(str(home) if home.is_file() else name)
    except OSError as error:
        raise RuntimeError(f"{error}: `source <CANN>/set_env.sh`") from error
