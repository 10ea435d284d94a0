"""The process of an emulated device: libascendcl (kernels/device/runtime) starts one for each device of a program.

Kernels of this library run in C++ (kernels/device/engine); CANN's own operators are computed here, with NumPy. This
process does not import MindSpore.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import traceback
from pathlib import Path
from typing import Any

__all__ = ["main"]

_LIBRARIES = Path(__file__).resolve().parent.parent / "lib"
_OPERATOR = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_size_t)


def main(arguments: list[str]) -> int:
    """Be the device whose number is the first argument until the program ends."""
    device, kernels = int(arguments[0]), arguments[1]
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the program's, which ends this process
    engine = ctypes.CDLL(str(_LIBRARIES / "libms_ascend_device.so"))
    run = _OPERATOR(_run_operator)
    error = ctypes.create_string_buffer(2048)
    if engine.MsAscendEngineStart(device, kernels.encode(), run, error, ctypes.sizeof(error)):
        sys.stderr.write(f"ms_ascend_ops: device {device} cannot start: {error.value.decode(errors='replace')}\n")
        return 1
    while (stream := engine.MsAscendEngineNext()) >= 0:
        threading.Thread(target=engine.MsAscendEngineRunStream, args=(stream,), daemon=True).start()
    sys.stdout.flush()
    os._exit(0)  # streams may still be running


def _run_operator(call: int, size: int, error: int, error_bytes: int) -> int:
    """Compute a call that is no kernel of this library; not 0: it failed, and `error` has the reason."""
    text: Any
    try:
        from ms_ascend_ops.device import operators

        text = operators.run(ctypes.string_at(call, size))
    except BaseException as fault:  # the thread of a stream is not ended by an operator
        last = traceback.extract_tb(fault.__traceback__)[-1]
        text = f"{type(fault).__name__}: {fault} ({Path(last.filename).name}:{last.lineno})"
    if text is None:
        return 0
    data = str(text).encode(errors="replace")[: error_bytes - 1] + b"\0"
    ctypes.memmove(error, data, len(data))
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
