"""Makes Python functions of an operator that try the kernel first, past PyTorch's dispatcher, and go to it
otherwise.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any

from ms_ascend_ops.registry import Signature

__all__ = ["direct_first"]


def direct_first(
    signature: Signature,
    direct: Callable[..., Any],
    dispatched: Callable[..., Any],
    compiling: Callable[[], bool] | None = None,
) -> Callable[..., Any]:
    """Return a function whose parameters are the inputs and attributes of the definition.

    It returns what `direct` does, or, where that is NotImplemented or `compiling()`, what `dispatched` does.
    """
    name = signature.name
    parameters = [f"{t.name}=None" if t.optional else t.name for t in signature.inputs]
    parameters += [f"{a.name}={a.default!r}" for a in signature.attributes]
    values = ", ".join([t.name for t in signature.inputs] + [a.name for a in signature.attributes])
    # In a closure: what the compiler sees of it is not looked up in this module.
    source = (
        "def make(direct, dispatched, compiling):\n"
        f"    def {name}({', '.join(parameters)}):\n"
        f"        result = direct({values}){' if not compiling() else NotImplemented' if compiling else ''}\n"
        f"        return dispatched({values}) if result is NotImplemented else result\n"
        f"    return {name}\n"
    )
    file = f"<{__name__}.{name}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    scope: dict[str, Any] = {"__name__": __name__}
    exec(compile(source, file, "exec"), scope)
    function: Callable[..., Any] = scope["make"](direct, dispatched, compiling)
    function.__qualname__ = name  # as errors call it
    return function
