"""Measures the accuracy of the kernels against `tests/reference/` in float64, beside that of stock operators."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import asdict
from functools import cache
from importlib import import_module
from typing import Any

import mindspore as ms
import numpy as np
from numpy.typing import NDArray

from ms_ascend_ops import registry
from ms_ascend_ops.acceptance import EPSILON, RULES, accuracy
from ms_ascend_ops.certificate.finding import Finding
from ms_ascend_ops.library import native
from ms_ascend_ops.samples import network
from ms_ascend_ops.samples.cases import Case
from ms_ascend_ops.samples.operators import operator

__all__ = ["accuracy_findings", "cases_of", "forward_in_float64", "launched"]

Arrays = list[NDArray[Any]]
_MOST_BYTES = 16 * 2**20  # of a case: the reference in float64 takes its time
_STEP = 1e-5  # of central differences
_MOST_DIFFERENCES = 128  # elements of a gradient
_DRAWS, _FACTOR = 8, 8.0


@cache
def reference(name: str) -> Any:
    """Load `tests/reference/<name>.py`.

    Raises:
        RuntimeError: there is none.
    """
    try:
        return import_module(f"tests.reference.{name}")
    except ImportError as error:
        raise RuntimeError(f"{name}: it has no reference: write tests/reference/{name}.py, with forward()") from error


def cases_of(name: str, dtypes: list[str], quick: bool) -> Iterator[Case]:
    """Yield small shapes with the gradient, and without it those of the benchmark that are not too large."""
    op = operator(name)
    gradients = (False, True) if op.gradient else (False,)
    for variant in op.variants:
        for dtype in dtypes:
            for gradient in gradients:
                yield from (Case(name, gradient, tuple(shape), dtype, variant) for shape in op.small_shapes)
            if not quick:
                large = (Case(name, False, tuple(shape), dtype, variant) for shape in op.shapes)
                yield from (case for case in large if case.bytes <= _MOST_BYTES)


def launched(case: Case) -> Arrays:
    """Return the functions' results, or with `gradient` their gradients, by the kernels of the library, in float64."""
    for launch in case.launches:
        native().launch(launch.kernel, launch.inputs, launch.outputs, launch.attributes)
    results = case.results[len(case.output_names) :] if case.gradient else case.results
    return [np.array(result, np.float64) for result in results]


def forward_in_float64(case: Case, inputs: Arrays, rounded: bool = True) -> Arrays:
    """Return those outputs by the reference. `rounded`: intermediate results are rounded where the kernel rounds."""
    forward = reference(case.operator_name).forward
    extra = {"dtype": case.dtype} if rounded and "dtype" in inspect.signature(forward).parameters else {}
    with np.errstate(all="ignore"):
        outputs = forward(*inputs, **extra, **case.attributes)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    return [np.asarray(output, np.float64) for output in outputs[: len(case.output_names)]]


def _exact(case: Case) -> Arrays:
    return [np.array(array, np.float64) for array in case.inputs]


def _gradients(case: Case) -> Arrays:
    """Return central differences of the reference: nothing of ours is in them. NaN where none was formed."""
    inputs, dys, rng = _exact(case), [np.array(dy, np.float64) for dy in case.dys], np.random.default_rng(0)
    found = []
    for place in case.differentiable:
        gradient = np.full(inputs[place].shape, np.nan)
        chosen = rng.permutation(gradient.size)[:_MOST_DIFFERENCES]
        for i in zip(*np.unravel_index(chosen, gradient.shape), strict=True):
            sums = []
            for moved in (_STEP, -_STEP):
                changed = [value.copy() if n == place else value for n, value in enumerate(inputs)]
                changed[place][i] += moved
                outputs = forward_in_float64(case, changed, rounded=False)
                sums.append(sum(float(np.sum(dy * y)) for dy, y in zip(dys, outputs, strict=True)))
            gradient[i] = (sums[0] - sums[1]) / (2 * _STEP)
        found.append(gradient)
    return found


def _explained(case: Case, golden: Arrays) -> Arrays:
    """Return how far results move if inputs move by a rounding to float32: what cancels moves far."""
    rng, inputs = np.random.default_rng(0), _exact(case)
    floats = [not array.dtype.name.startswith("int") for array in case.inputs]
    moved = [np.zeros(values.shape) for values in golden]
    for _ in range(_DRAWS):
        changed = [
            values * (1 + rng.choice((-1, 1), values.shape) * EPSILON["float32"] / 2) if is_float else values
            for values, is_float in zip(inputs, floats, strict=True)
        ]
        for most, values, exact in zip(moved, forward_in_float64(case, changed, rounded=False), golden, strict=True):
            with np.errstate(invalid="ignore"):
                np.fmax(most, np.abs(values - exact), out=most)
    return [_FACTOR * most for most in moved]


def _stock(case: Case) -> Arrays | str:
    """Compute by stock operators of MindSpore, or return why that fails."""
    try:
        tensors = [network.tensor(array) for array in case.own_inputs()]
        results = network.flat(network.Forward(case.operator.stock, case)(*tensors))
        return [np.array(result.astype(ms.float32).asnumpy(), np.float64) for result in results]
    except Exception as error:  # whatever stock MindSpore says is the reason
        return next((line for line in str(error).splitlines() if line.strip(" -")), type(error).__name__)[:160]


def accuracy_findings(case: Case) -> Iterator[Finding]:
    """Yield what the rules say of one case."""
    ours = launched(case)
    golden = _gradients(case) if case.gradient else forward_in_float64(case, _exact(case))
    names = [case.input_names[i] for i in case.differentiable] if case.gradient else case.output_names
    names = [f"d{name}" for name in names] if case.gradient else names
    dtypes = [case.arrays[name].dtype.name for name in names]
    stock = "gradients are not compared" if case.gradient else _stock(case)
    slack = None if case.gradient else _explained(case, golden)
    for i, (name, dtype) in enumerate(zip(names, dtypes, strict=True)):
        if dtype not in RULES:
            continue
        formed = ~np.isnan(golden[i]) if case.gradient else ...
        mine, exact = ours[i][formed], golden[i][formed]
        place = f"{case.name} {name}"
        found = accuracy(mine, exact, dtype)
        broken = [reason for reason in found.reasons if not reason.startswith(("MERE", "MARE"))]
        figures = asdict(found)
        yield Finding("tolerance", place, not broken, "; ".join(broken) or _text(found), figures)
        if slack is not None:
            yield _relative(place, mine, exact, dtype, slack[i])
        if isinstance(stock, str):
            yield Finding("stock", place, None, stock)
        else:
            yield _beside(place, mine, stock[i], exact, dtype)


def _text(found: Any) -> str:
    return f"{found.within:.4%} within, largest error {found.largest:.3g}, {found.ulps:.3g} ULP"


def _relative(place: str, mine: NDArray[Any], exact: NDArray[Any], dtype: str, slack: NDArray[Any]) -> Finding:
    """Return MERE and MARE of the error beyond `slack`."""
    error = mine - exact
    beyond = exact + np.sign(error) * np.maximum(np.abs(error) - slack, 0)
    found = accuracy(np.where(np.isfinite(error), beyond, mine), exact, dtype)
    rule = RULES[dtype]
    text = f"MERE {found.mere:.2e} (bound {rule.mere:.2e}), MARE {found.mare:.2e} (bound {10 * rule.mere:.2e})"
    passed = found.mere < rule.mere and found.mare < 10 * rule.mere
    figures = {"mere": found.mere, "mare": found.mare, "mere_bound": rule.mere, "mare_bound": 10 * rule.mere}
    return Finding("relative", place, passed, text, figures)


def _beside(place: str, mine: NDArray[Any], stock: NDArray[Any], exact: NDArray[Any], dtype: str) -> Finding:
    with np.errstate(invalid="ignore"):
        ours, theirs = (float(np.nanmax(np.abs(values - exact), initial=0.0)) for values in (mine, stock))
    largest = float(np.nanmax(np.abs(exact), initial=0.0))
    # The framework may have rounded the largest value by luck: count its error as at least half an ULP.
    least = 2.0 ** np.floor(np.log2(largest)) * EPSILON[dtype] / 2 if 0 < largest < np.inf else 0.0
    bound = 2 * max(theirs, least) + 1e-6
    ratio = ours / theirs if theirs > 0 else (0.0 if ours == 0 else float("inf"))
    text = f"largest error {ours:.3g}, stock operators {theirs:.3g}"
    figures = {"ours": ours, "stock": theirs, "bound": bound, "ratio": ratio if np.isfinite(ratio) else None}
    return Finding("stock", place, ours <= bound, text, figures)


def dtypes_of(name: str) -> list[str]:
    """Return the dtypes of the first variable of an operator, those with rules."""
    signature = registry.signature(name)
    variable = next(tensor.dtype for tensor in signature.inputs if tensor.dtype in signature.types[0])
    return list(dict.fromkeys(row[variable] for row in signature.types if row[variable] in RULES))
