"""ACL's functions of libascendcl, called as a C program calls them."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from ctypes import byref, c_char_p, c_float, c_int32, c_size_t, c_uint32, c_void_p
from pathlib import Path
from typing import Any

import numpy as np

import ms_ascend_ops
from tests.device.device_calls import call
from tests.waiting import wait

LIBRARY = Path(ms_ascend_ops.__file__).parent / "lib" / "cann" / "lib64" / "libascendcl.so"
ROOT = Path(__file__).resolve().parents[2]
# Of a program with a device whose calls are those of device_calls.py.
VARIABLES = {
    "MS_ASCEND_EMULATED_OPERATORS": "tests.device.device_calls",
    "MS_ASCEND_EMULATED_MEMORY": str(1 << 30),
    "MS_ASCEND_EMULATED_PYTHON": sys.executable,
    "PYTHONPATH": str(ROOT),
}
HOST_TO_HOST, HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE, ANY = range(5)


class AclError(Exception):
    """A function did not return 0; `code` is what it did return, and the message is aclGetRecentErrMsg's."""

    def __init__(self, function: str, code: int, text: str):
        super().__init__(f"{function} returned {code}: {text}")
        self.code = code


class Acl:
    """`acl.Malloc(...)` calls aclrtMalloc; Python integers are int32, what else is needed is converted here."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL(str(LIBRARY))
        self.library.aclGetRecentErrMsg.restype = c_char_p

    def __getattr__(self, name: str) -> Any:
        exact = name if name.startswith(("acl", "MsAscend")) else f"aclrt{name}"
        function = getattr(self.library, exact)

        def call(*arguments: Any) -> None:
            if code := function(*arguments):
                raise AclError(exact, code, self.library.aclGetRecentErrMsg().decode())

        return call

    def malloc(self, size: int) -> int:
        address = c_void_p()
        self.Malloc(byref(address), c_size_t(size), 0)
        return address.value or 0

    def stream(self) -> c_void_p:
        stream = c_void_p()
        self.CreateStream(byref(stream))
        return stream

    def event(self) -> c_void_p:
        event = c_void_p()
        self.CreateEvent(byref(event))
        return event

    def copy(self, destination: Any, source: Any, size: int, kind: int = ANY, stream: Any = None) -> None:
        """Copy between addresses and arrays; with a stream, in its order."""
        ends = [c_void_p(end.ctypes.data if isinstance(end, np.ndarray) else end) for end in (destination, source)]
        arguments = [ends[0], c_size_t(size), ends[1], c_size_t(size), kind]
        if stream is None:
            self.Memcpy(*arguments)
        else:
            self.MemcpyAsync(*arguments, stream)

    def call(self, stream: Any, name: str, *values: int) -> None:
        """Put a call of device_calls.py into a stream."""
        data = call(name, *values)
        self.MsAscendDeviceCall(stream, data, c_size_t(len(data)))

    def hold(self, stream: Any) -> Callable[[], None]:
        """Let what comes into a stream from now on wait, until the function that is returned is called."""
        gate, one = self.put(np.zeros(1, np.int64)), np.ones(1, np.int64)
        self.call(stream, "wait", gate)
        wait(lambda: self.get(gate, one)[0] == -1)
        return lambda: self.copy(gate, one, one.nbytes)

    def put(self, array: np.ndarray) -> int:
        address = self.malloc(array.nbytes)
        self.copy(address, array, array.nbytes)
        return address

    def get(self, address: int, like: np.ndarray) -> np.ndarray:
        array = np.full_like(like, 99)
        self.copy(array, address, array.nbytes)
        return array

    def free(self, address: int) -> None:
        self.Free(c_void_p(address))

    def free_bytes(self) -> int:
        free, total = c_size_t(), c_size_t()
        self.GetMemInfo(0, byref(free), byref(total))
        return free.value

    def elapsed_ms(self, start: c_void_p, end: c_void_p) -> float:
        time = c_float()
        self.EventElapsedTime(byref(time), start, end)
        return time.value

    def stream_status(self, stream: c_void_p) -> int:
        status = c_int32(-1)
        self.StreamQuery(stream, byref(status))
        return status.value

    def event_status(self, event: c_void_p) -> int:
        status = c_int32(-1)
        self.QueryEventStatus(event, byref(status))
        return status.value

    def pid(self) -> int:
        """The process of the only device."""
        children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
        return int(children[0])

    def device_count(self) -> int:
        count = c_uint32()
        self.GetDeviceCount(byref(count))
        return count.value


def tell(do: Callable[[], Any]) -> None:
    """Print the error that a function ends in, or that there is none."""
    try:
        do()
    except AclError as error:
        print(error)
    else:
        print("fine")


def program(code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a program of Python that has `acl`, its first device set, and what this file and NumPy have."""
    begin = """
        import os, signal, subprocess, sys, threading, time
        from ctypes import *
        import numpy as np
        from tests.device.acl import *
        acl = Acl()
        acl.aclInit(None)
        acl.SetDevice(0)
    """
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(begin) + textwrap.dedent(code)],
        env={**os.environ, **VARIABLES, **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
