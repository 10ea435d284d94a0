"""Implements the fast path of a call in PyNative on a CPU: from the tensors to the kernel library, past `ops.Custom`.

MindSpore takes a call of an `ops.Custom` through the compilation of a graph of one node, shape inference in the library
included. Here the library runs on the memory of the tensors, once MindSpore has computed what they hold; the results
are there when the call returns. Where a gradient is recorded, MindSpore gets the bprop by its own interface for
functions written in Python.

What the fast path cannot do goes MindSpore's way: a trace (`ms.jit` with capture_mode="trace") has to see the
primitive, and a primitive without bprop has to say so when it is differentiated. In a cell with `to_float`, where
MindSpore casts what it passes to a primitive, whoever calls has cast the tensors.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Tensor

from ms_ascend_ops.library import native
from ms_ascend_ops.mindspore_versions import dtype_name, has_fault, numpy_bfloat16, private, traced
from ms_ascend_ops.registry import Signature, TensorSpec

__all__ = ["casting", "direct", "recorded", "recording", "usable"]

_EXECUTOR = private("_pynative_executor")
_FUNCTION = private("_Function")
# Without one of these the fast path could not return a tensor, record a gradient or cast as MindSpore does.
_NEEDED = ("_Function", "TensorPy", "MixedPrecisionType", "get_curr_amp_strategy")


def _always() -> bool:
    return True


# Says whether the calls of this moment are differentiated.
recording: Callable[[], bool] = getattr(getattr(_EXECUTOR, "_executor", None), "requires_grad", _always)


def usable() -> bool:
    """Tell whether calls may take the fast path now: nothing but the kernel has to see them."""
    return not traced()


def casting() -> Any:
    """Return the kind of mixed precision of the cell that is being called; None without."""
    return _casting[-1] if _casting else None


def direct(
    signature: Signature,
    given: tuple[TensorSpec, ...],
    attributes: Mapping[str, Any],
    check: Callable[..., None] | None,
    library: Any = None,
) -> Callable[..., Any] | None:
    """Return the kernel as a function of the given tensors, which checks them; None: there is no fast path.

    The function returns None where only MindSpore can call the kernel. `library`: the module of another version.
    `check` gets the shapes and the attributes once for each combination of shapes and dtypes, and raises.
    """
    known = not (_casting is None or recording is _always or any(private(name) is None for name in _NEEDED))
    if not known or has_fault("memory of tensors"):
        return None
    names = [tensor.name for tensor in signature.inputs]
    absent = set(names) - {tensor.name for tensor in given}
    make = native().tensor_function
    function: Callable[..., Any] = make(
        _framework(), signature.name, attributes, names, set(signature.writes), absent, check, library
    )
    if has_fault("float16 in tuples on a CPU"):
        return _rounding(function, {i for i, tensor in enumerate(given) if tensor.name in signature.writes})
    return function


def _rounding(function: Callable[..., Any], written: set[int]) -> Callable[..., Any]:
    """Return the function for tensors whose memory may hold float32 where they are float16.

    A view of half of a tensor cannot be told from these: its values are copied, and one that is written stays.
    """

    def rounded(tensor: Any) -> Any:
        narrow = isinstance(tensor, Tensor) and tensor.dtype == ms.float16
        if not narrow or tensor.untyped_storage().size() != 2 * tensor.nbytes:
            return tensor
        return Tensor.from_numpy(np.array(tensor.asnumpy()))

    def call(*tensors: Any) -> Any:
        return function(*(t if i in written else rounded(t) for i, t in enumerate(tensors)))

    return call


def recorded(op: str, function: Callable[..., Any], bprop: Callable[..., Any], tensors: tuple[Any, ...]) -> Any:
    """Call the function, and have MindSpore record the call with its bprop. `op` is for errors."""
    return _Recorded.apply(op, function, bprop, *tensors)


class _Recorded(_FUNCTION or object):  # type: ignore[misc]
    """Records a call that is to be differentiated."""

    @staticmethod
    def forward(ctx: Any, op: str, function: Callable[..., Any], bprop: Callable[..., Any], *tensors: Any) -> Any:
        results = function(*tensors)
        ctx.set_materialize_grads(False)
        ctx.op = op
        ctx.bprop = bprop
        ctx.several = isinstance(results, tuple)
        ctx.save_for_backward(*tensors, *(results if ctx.several else (results,)))
        ctx.count = len(tensors)
        return results

    @staticmethod
    def backward(ctx: Any, *douts: Any) -> tuple[Any, ...]:
        saved = ctx.saved_tensors
        tensors, results = saved[: ctx.count], saved[ctx.count :]
        # None stands for a result without a gradient. MindSpore would launch operators to make its zeros.
        douts = tuple(_zeros(result) if dout is None else dout for dout, result in zip(douts, results, strict=True))
        gradients = ctx.bprop(*tensors, results, douts) if ctx.several else ctx.bprop(*tensors, results[0], douts[0])
        gradients = gradients if isinstance(gradients, tuple) else (gradients,)
        if len(gradients) != ctx.count:
            raise ValueError(
                f"{ctx.op}: its bprop must return a gradient for each of the {ctx.count} inputs, got {len(gradients)}"
            )
        return (None, None, None, *gradients)


def _zeros(like: Tensor) -> Tensor:
    return Tensor.from_numpy(np.zeros(like.shape, _dtypes()[dtype_name(like.dtype)]))


@cache
def _dtypes() -> dict[str, np.dtype[Any]]:
    names = ("float16", "float32", "int32", "int64", "int8")
    return {name: np.dtype(name) for name in names} | {"bfloat16": np.dtype(numpy_bfloat16())}


@cache
def _framework() -> Any:
    return native().Framework(Tensor, private("TensorPy").from_numpy, _dtypes(), "_data_ptr")


def _overhear_casts() -> list[Any] | None:
    """Return the dtypes that the cells being called are to compute in, the innermost last.

    None: they cannot be told.
    """
    # A cell with `to_float` hands its dtype to this private method, MindSpore keeps it in C++ and tells nobody, and the
    # fast path, which goes past MindSpore, must cast as MindSpore would. So the method is replaced by one that takes
    # the dtype down and hands it on. Where a MindSpore has no such method there is no fast path: see `direct`.
    announce = getattr(_EXECUTOR, "set_mixed_precision_type", None)
    if announce is None:
        _log.warning("this MindSpore does not say what to_float asks for: operators are called by MindSpore, slower")
        return None
    dtypes: list[Any] = []

    def set_mixed_precision_type(mixed_precision_type: Any, is_push: bool = True) -> Any:
        if is_push:
            dtypes.append(mixed_precision_type)
        elif dtypes:
            dtypes.pop()
        return announce(mixed_precision_type, is_push)

    _EXECUTOR.set_mixed_precision_type = set_mixed_precision_type
    return dtypes


_log = logging.getLogger("ms_ascend_ops")
_casting = _overhear_casts()
