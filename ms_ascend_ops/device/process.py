"""Runs the process of an emulated device: libascendcl (kernels/device/runtime) starts one for each device of a program.

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
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ms_ascend_ops import library

if TYPE_CHECKING:
    from ms_ascend_ops.device.clock import Clock

__all__ = ["main"]

_LIBRARIES = Path(__file__).resolve().parent.parent / "lib"
_OPERATORS = "MS_ASCEND_EMULATED_OPERATORS"
_OPERATOR = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_size_t)
_PREDICTOR = ctypes.CFUNCTYPE(
    ctypes.c_uint64, ctypes.c_uint32, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint64
)
_RECALL = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t)


def main(arguments: list[str]) -> int:
    """Be the device whose number is the first argument until the program ends."""
    device, kernels = int(arguments[0]), Path(arguments[1])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the program's, which ends this process
    trace = os.environ.get("MS_ASCEND_EMULATED_TRACE", "")
    clock = _clock(device, kernels) if trace else None
    # The traced build counts instructions, which takes time: run what is known already in the fast build.
    fast = library.LIBRARY if clock is not None and clock.has_predictions and library.LIBRARY.is_file() else None
    if library.LIBRARY in (kernels.resolve(), fast):
        library.load_products()  # the same that a CPU has
    engine = ctypes.CDLL(str(_LIBRARIES / "libms_ascend_device.so"))
    run, predict = _OPERATOR(_run_operator), _PREDICTOR(_predictor(clock)) if clock else _PREDICTOR()
    recall = _RECALL(_recall(clock)) if clock else _RECALL()
    error = ctypes.create_string_buffer(2048)
    names = str(kernels).encode(), None if fast is None else str(fast).encode()
    if engine.MsAscendEngineStart(device, *names, run, predict, recall, error, ctypes.sizeof(error)):
        sys.stderr.write(f"ms_ascend_ops: device {device} cannot start: {error.value.decode(errors='replace')}\n")
        return 1
    _watch_memory(engine)
    threading.Thread(target=_prepare, args=(kernels,), daemon=True).start()
    while (stream := engine.MsAscendEngineNext()) >= 0:
        threading.Thread(target=engine.MsAscendEngineRunStream, args=(stream,), daemon=True).start()
    if clock:
        path = _trace_path(Path(trace), device)
        clock.write(path)
        sys.stderr.write(f"{clock.report()}\ntimeline: {path}, for chrome://tracing or ui.perfetto.dev\n")
        sys.stderr.flush()
    sys.stdout.flush()
    os._exit(0)  # streams may still be running


def _prepare(kernels: Path) -> None:
    """Do what the first calls would wait for."""
    _operators()
    if kernels.resolve() == library.LIBRARY and not os.environ.get(_OPERATORS):
        library.native()  # compiles its loops


def _operators() -> Any:
    return import_module(os.environ.get(_OPERATORS) or "ms_ascend_ops.device.operators")


def _run_operator(call: int, size: int, error: int, error_bytes: int) -> int:
    """Compute a call that is no kernel of this library; not 0: it failed, and `error` has the reason."""
    try:
        text = _operators().run(ctypes.string_at(call, size))
    except BaseException as fault:  # the thread of a stream is not ended by an operator
        last = traceback.extract_tb(fault.__traceback__)[-1]
        text = f"{type(fault).__name__}: {fault} ({Path(last.filename).name}:{last.lineno})"
    if text is None:
        return 0
    data = str(text).encode(errors="replace")[: error_bytes - 1] + b"\0"
    ctypes.memmove(error, data, len(data))
    return 1


def _watch_memory(engine: ctypes.CDLL) -> None:
    """Switch --check on: a read of memory that was not written is a fault."""
    engine.MsAscendEngineShadowShift.restype = ctypes.c_uint64
    if shift := engine.MsAscendEngineShadowShift():
        from ms_ascend_ops.device import shadow

        shadow.watch(shift)


def _clock(device: int, kernels: Path) -> Clock:
    from ms_ascend_ops.device.clock import Clock, chip_of

    values = dict(part.partition("=")[::2] for part in os.environ.get("MS_ASCEND_EMULATED_CHIP", "").split(";"))
    return Clock(device, chip_of(values.get("soc", "Ascend910B2")), kernels)


def _predictor(clock: Clock) -> Callable[[int, bytes, int | None, int, int], int]:
    def predict(stream: int, what: bytes, call: int | None, size: int, begin: int) -> int:
        try:
            return clock.spend(stream, what.decode(), ctypes.string_at(call, size) if call else b"", size, begin)
        except Exception as fault:  # a time that is missing is no reason to end a program
            sys.stderr.write(f"ms_ascend_ops: no predicted time: {type(fault).__name__}: {fault}\n")
            return 0

    return predict


def _recall(clock: Clock) -> Callable[[int, int], int]:
    return lambda call, size: int(clock.is_known(ctypes.string_at(call, size)))


def _trace_path(path: Path, device: int) -> Path:
    """Return where the trace of a device goes: of the only one there, else with its number in the name."""
    several = int(os.environ.get("MS_ASCEND_EMULATED_DEVICES") or 1) > 1
    return path.with_name(f"{path.stem}.device{device}{path.suffix}") if several else path


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
