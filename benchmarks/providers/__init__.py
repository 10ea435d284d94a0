"""Lists who is measured in a table. A new provider is one more row, and the function that prepares it.

A provider prepares a case once and gives a function to call. Every call does the whole work on the same inputs, in
memory that is reused from call to call.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from ms_ascend_ops.samples.cases import Case
from numpy.typing import NDArray

__all__ = ["PROVIDERS", "REFERENCE", "Prepared", "Provider"]


@dataclass(frozen=True)
class Prepared:
    """Holds what was prepared: `run` does the work.

    `results` makes arrays of what it returned: outputs, then gradients (see `Case.results`).

    No arrays at all: there is nothing to compare (a copy). Every turn is in a `turn()`, which sets what a framework
    keeps for the whole process, and puts it back.
    """

    run: Callable[[], Any]
    results: Callable[[Any], list[NDArray[Any]]]
    turn: Callable[[], AbstractContextManager[Any]] = nullcontext


@dataclass(frozen=True)
class Provider:
    """Describes one provider. `function` is `module:function` of this package, imported when it is needed."""

    label: str
    function: str
    is_copy: bool = False

    def prepare(self, case: Case, threads: int) -> Prepared:
        module, _, function = self.function.partition(":")
        prepared: Prepared = getattr(import_module(f"{__name__}.{module}"), function)(case, threads)
        return prepared


PROVIDERS = {
    "copy": Provider("memcpy, one thread", "copies:one_thread", is_copy=True),
    "copy_threads": Provider("memcpy, all threads", "copies:all_threads", is_copy=True),
    "copy_torch": Provider("torch copy_", "copies:torch_copy", is_copy=True),
    "library": Provider("ours, direct", "library:direct"),
    "mindspore": Provider("ours, graph", "mindspore:fused"),
    "pynative": Provider("ours, PyNative", "mindspore:pynative"),
    "stock": Provider("stock MindSpore", "mindspore:stock"),
    "torch": Provider("PyTorch eager", "pytorch:eager"),
    "torch_compile": Provider("torch.compile", "pytorch:compiled"),
    "torch_ours": Provider("ours, PyTorch", "pytorch:ours"),
    "scipy": Provider("SciPy", "scipy:product"),
    "onnx": Provider("ONNX Runtime", "onnx_runtime:session"),
}
REFERENCE = "library"
