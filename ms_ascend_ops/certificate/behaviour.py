"""Tests what an operator does beside computing accurately: equal bits in every run, wrong inputs, special values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Tensor

from ms_ascend_ops import loop_compiler, registry
from ms_ascend_ops.certificate.accuracy import forward_in_float64, launched
from ms_ascend_ops.certificate.finding import Finding
from ms_ascend_ops.custom import Selector
from ms_ascend_ops.library import get_num_threads, native, set_num_threads
from ms_ascend_ops.samples import network
from ms_ascend_ops.samples.cases import Case

__all__ = ["determinism", "special_values", "wrong_inputs"]

_RUNS = 6  # the third one replays a recorded launch

# Attention goes over whole tiles: a key that a query does not see has the probability 0 there, and 0 * NaN is NaN.
# weight_quant_matmul: scale and offset meet sums.
# moe_gating_top_k: a NaN, or a bias of +inf, makes all weights of a token NaN, also of an expert that is not picked.
_MORE_THAN_FLOAT64 = (
    "flash_attention", "flash_attention_varlen", "moe_gating_top_k", "paged_attention", "weight_quant_matmul",
)  # fmt: skip


def determinism(case: Case) -> Finding:
    """Runs with one thread and with as many as are set, early ones interpreted, later ones compiled and replayed."""
    before = get_num_threads()
    first: list[Any] | None = None
    different = []
    try:
        for threads in sorted({1, 2, before}):
            set_num_threads(threads)
            for run in range(_RUNS):
                if run == _RUNS - 1:
                    loop_compiler.wait(native())
                results = launched(case)
                if case.written:  # launches go on from what they wrote
                    results = results[: len(case.output_names)]
                if first is None:
                    first = results
                if not all(np.array_equal(a, b, equal_nan=True) for a, b in zip(first, results, strict=True)):
                    different.append(f"run {run + 1} with {threads} threads")
    finally:
        set_num_threads(before)
    text = f"differs: {', '.join(different)}" if different else f"{_RUNS} runs with 1 thread and with more are equal"
    return Finding("determinism", case.name, not different, text)


def wrong_inputs(name: str, case: Case) -> Iterator[Finding]:
    """Yield the table of bad input, from the definition: each input and attribute made wrong in every way it can be."""
    signature = registry.signature(name)
    select = Selector(name)
    tensors: list[Any] = [network.tensor(array) for array in case.own_inputs()]
    tensors += [None] * (len(signature.inputs) - len(tensors))
    values = [case.attributes.get(a.name, a.default) for a in signature.attributes]

    def finding(what: str, wanted: tuple[type[Exception], ...], arguments: list[Any]) -> Finding:
        return _refusal(name, what, wanted, lambda: select(*arguments)(*arguments[: len(tensors)]))

    for i, spec in enumerate(signature.inputs):
        if tensors[i] is None:
            continue

        def with_input(value: Any, i: int = i) -> list[Any]:
            return [*tensors[:i], value, *tensors[i + 1 :], *values]

        for label, value in (("a NumPy array", case.inputs[i]), ("a number", 1.5), ("a text", "x")):
            yield finding(f"{spec.name} is {label}", (TypeError,), with_input(value))
        if not spec.optional:
            yield finding(f"{spec.name} is None", (TypeError,), with_input(None))
        wide = Tensor(np.zeros(tensors[i].shape, np.float64))
        yield finding(f"{spec.name} is float64", (TypeError,), with_input(wide))
        high = Tensor(np.zeros((1,) * 9, np.float32)).astype(tensors[i].dtype)
        yield finding(f"{spec.name} has nine dims", (ValueError,), with_input(high))
    for i, attribute in enumerate(signature.attributes):
        for label, value, wanted in _wrong_values(attribute):
            arguments = [*tensors, *values[:i], value, *values[i + 1 :]]
            yield finding(f"{attribute.name} = {label}", wanted, arguments)


def _wrong_values(attribute: registry.AttributeSpec) -> Iterator[tuple[str, Any, tuple[type[Exception], ...]]]:
    yield "None", None, (TypeError,)
    yield "a list", [1], (TypeError,)
    if attribute.type == "string":
        yield "an unknown text", "no such choice", (ValueError,)
        yield "a number", 3, (TypeError,)
    else:
        yield "a text", "x", (TypeError,)
    if attribute.type == "float":
        yield "NaN", float("nan"), (ValueError,)
        yield "infinite", float("inf"), (ValueError,)
        yield "True", True, (TypeError,)
        if attribute.exclusive_minimum is not None:
            yield "its least value", attribute.exclusive_minimum, (ValueError,)
    if attribute.type == "int":
        yield "2^64", 2**64, (ValueError,)
        yield "a fraction", 1.5, (TypeError,)
        yield "True", True, (TypeError,)


def _refusal(name: str, what: str, wanted: tuple[type[Exception], ...], call: Callable[[], Any]) -> Finding:
    names = " or ".join(kind.__name__ for kind in wanted)
    try:
        call()
    except wanted as error:
        says_so = str(error).startswith(f"{name}: ")
        return Finding("inputs", f"{name}: {what}", says_so, f"{type(error).__name__}: {str(error)[:200]}")
    except Exception as error:
        text = f"{names} was expected, got {type(error).__name__}: {str(error)[:200]}"
        return Finding("inputs", f"{name}: {what}", False, text)
    return Finding("inputs", f"{name}: {what}", False, f"{names} was expected, and it was accepted")


def special_values(case: Case) -> Iterator[Finding]:
    """Test one NaN or infinity in each float input, against float64; and no rows."""
    for name, array in zip(case.input_names, case.inputs, strict=True):
        if array.dtype.name.startswith("int") or name in registry.signature(case.operator_name).writes:
            continue
        for value in (np.nan, np.inf, -np.inf):
            changed = Case(case.operator_name, False, case.shape, case.dtype, case.variant)
            inputs = changed.arrays[name]
            inputs[np.unravel_index(2 * inputs.size // 3, inputs.shape)] = value
            ours = launched(changed)
            exact = [np.array(changed.arrays[key], np.float64) for key in changed.input_names]
            golden = forward_in_float64(changed, exact, rounded=False)
            place = f"{case.name}, {value} in {name}"
            if case.operator_name in _MORE_THAN_FLOAT64:
                missed = any(np.any(np.isfinite(m) & ~np.isfinite(g)) for m, g in zip(ours, golden, strict=True))
            else:
                missed = any(
                    not np.array_equal(np.isfinite(m), np.isfinite(g)) for m, g in zip(ours, golden, strict=True)
                )
            text = "finite elsewhere than float64" if missed else "finite where float64 is"
            yield Finding("special", place, not missed, text)
    empty = Case(case.operator_name, False, (0, *case.shape[1:]), case.dtype, case.variant)
    try:
        results = launched(empty)
    except Exception as error:
        yield Finding("special", f"{case.name}, no rows", False, f"{type(error).__name__}: {error}")
        return
    clean = not any(np.isnan(result).any() for result in results)
    yield Finding("special", f"{case.name}, no rows", clean, "results are empty" if clean else "results hold NaN")


def synchronous() -> None:
    """Run stock operators on this thread: their errors belong to the call."""
    ms.set_context(mode=ms.PYNATIVE_MODE, pynative_synchronize=True)
