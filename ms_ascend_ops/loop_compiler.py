"""Compiles the hot loops of the host library with LLVM, while it runs.

The library requests a loop when it has run long enough to be worth it (kernels/host/jit/loop_code.h). A thread compiles
it; until it is done, or where llvmlite is missing, the library interprets. Results are the same to the bit.

The environment variable `MS_ASCEND_OPS_COMPILE=0` keeps it from compiling; 1 is the default.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from functools import cache
from importlib.util import find_spec
from typing import Any

__all__ = ["VARIABLE", "LoopCompiler", "is_wrong", "start", "wait", "why_not"]

VARIABLE = "MS_ASCEND_OPS_COMPILE"

_engines: list[Any] = []  # for ever: what they compiled may run at any time
_log = logging.getLogger(__name__)


def is_wrong(value: str) -> str:
    """Return what is wrong with a value of the variable; empty: nothing."""
    return "" if value in ("0", "1") else "it must be 0 or 1; it is ignored, and loops are compiled"


def why_not() -> str:
    """Say why loops are not compiled in this process; empty: they are."""
    if os.environ.get(VARIABLE) == "0":
        return f"{VARIABLE}=0"
    return "" if find_spec("llvmlite") else "llvmlite is not installed"


class LoopCompiler:
    """Compiles the loops that `module` requests.

    Args:
        module: what has `next_loop` and `set_loop`: `ms_ascend_ops._C`.
    """

    def __init__(self, module: Any) -> None:
        self._module = module
        self._engine: Any = None
        self._failed = False

    def compile_waiting(self) -> int:
        """Compiles the loops that were requested so far, and returns how many."""
        count = 0
        while (loop := self._module.next_loop(False)) is not None:
            self._compile(*loop)
            count += 1
        return count

    def serve(self) -> None:
        """Compiles loops as they are requested, until `stop_loops` is called."""
        while (loop := self._module.next_loop(True)) is not None:
            try:
                self._compile(*loop)
            except Exception as error:  # whatever LLVM says: the library goes on without this loop
                self._module.set_loop(loop[0], 0)
                # Where one fails, others will: one warning is enough.
                level = logging.DEBUG if self._failed else logging.WARNING
                _log.log(level, "ms_ascend_ops: a loop could not be compiled, and goes on interpreted: %s", error)
                self._failed = True

    def _compile(self, number: int, name: str, text: str) -> None:
        from llvmlite import binding as llvm  # noqa: PLC0415 - only when there is something to compile

        if self._engine is None:
            llvm.initialize_native_target()
            llvm.initialize_native_asmprinter()
            machine = llvm.Target.from_default_triple().create_target_machine(
                cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=2
            )
            self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
            _engines.append(self._engine)
        loop = llvm.parse_assembly(text)
        loop.verify()
        self._engine.add_module(loop)
        self._engine.finalize_object()
        address = self._engine.get_function_address(name)
        self._engine.remove_module(loop)  # the code stays
        self._module.set_loop(number, address)


@cache
def start(module: Any) -> None:
    """Starts the thread that compiles for `module`, if this process compiles. Once: a second call does nothing."""
    value = os.environ.get(VARIABLE)
    if value is not None and (reason := is_wrong(value)):
        _log.warning("ms_ascend_ops: %s=%s: %s", VARIABLE, value, reason)
    if why_not():
        module.stop_loops()
        return
    thread = threading.Thread(target=LoopCompiler(module).serve, name="ms_ascend_ops loops", daemon=True)

    def stop() -> None:
        while thread.is_alive():  # again: just before it waits, it would not hear of it
            module.stop_loops()
            thread.join(0.1)

    atexit.register(stop)
    os.register_at_fork(after_in_child=module.stop_loops)  # the thread is not in the child
    thread.start()


def wait(module: Any, seconds: float = 10.0) -> bool:
    """Waits until all loops that `module` has requested are compiled; False: that took too long. For benchmarks."""
    end = time.monotonic() + seconds
    while module.pending_loops() > 0 and time.monotonic() < end:
        time.sleep(0.002)
    return bool(module.pending_loops() == 0)
