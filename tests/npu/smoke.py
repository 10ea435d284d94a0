"""The checks of `python -m tests.npu`: for any operator of the registry, on the device that MindSpore has set.

The inputs come from the table of the benchmark, the float64 references from tests/reference, whose functions name their
arguments as the definitions do.
"""

from __future__ import annotations

import inspect
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from itertools import zip_longest
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn
from ms_ascend_ops.samples.operators import DTYPES, Draw, Operator, operator

from ms_ascend_ops import ascend, export_mindir, load, registry
from ms_ascend_ops.version import __version__
from tests.acceptance import assert_accurate

ROWS_COLS = (65, 4097)  # of the accuracy checks: tails everywhere
TIMED = (2048, 4096)
WARM_UP = 10
DIFFERENCE = 2e-2  # of the largest magnitude, of results in bfloat16


@dataclass(frozen=True)
class Result:
    """One line of the report. `status` is ok, FAILED, skipped or a time."""

    what: str
    status: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.status:<10} {self.what}{f': {self.detail}' if self.detail else ''}"


class _Network(nn.Cell):
    """A network of one operator."""

    def __init__(self, function: Callable[..., Any], attributes: Mapping[str, Any]):
        super().__init__()
        self.function = function
        self.attributes = dict(attributes)

    def construct(self, *tensors):  # type: ignore[no-untyped-def]
        return self.function(*tensors, **self.attributes)


def environment(device: str) -> list[str]:
    """What a bug report needs to know of the machine."""
    lines = [
        f"ms_ascend_ops {__version__}, MindSpore {ms.__version__}, NumPy {np.__version__}",
        f"Python {platform.python_version()}, {platform.platform()}",
        f"device {device}, MS_ASCEND_OPS_PREFER={os.environ.get('MS_ASCEND_OPS_PREFER', '')}",
    ]
    if device == "Ascend":
        home = os.environ.get("ASCEND_HOME_PATH", "")
        lines.append(f"CANN {home}; packages: {', '.join(str(p.folder) for p in ascend.packages()) or 'none'}")
    lines += [str(ascend.chosen_implementation(name, device_target=device)) for name in registry.names()]
    return lines


def check(name: str, dtype: str, folder: Path, rounds: int, small: bool = False) -> Iterator[Result]:
    """Every check of one operator in one dtype. `small`: the timed calls have inputs of a few elements."""
    try:
        table = operator(name)
    except (ImportError, ValueError) as error:
        yield Result(f"{name} {dtype}", "skipped", f"no row in the benchmark's table: {error}")
        return
    # Experts are fewer than columns.
    is_rows = len(table.shapes[0]) == len(ROWS_COLS) and "experts" not in registry.op_spec(name).limits
    shape = ROWS_COLS if is_rows else table.shapes[0]
    for variant, own in table.variants.items():
        attributes = {**table.attributes(*shape), **own}
        title = f"{name}{f'[{variant}]' if variant else ''} {dtype}"
        arrays = table.inputs(Draw(dtype), *shape)
        tensors = [_tensor(array) for array in arrays]
        yield _guarded(f"{title} forward", lambda: _forward(name, table, arrays, tensors, attributes))  # noqa: B023
        if table.gradient:
            yield _guarded(f"{title} gradient", lambda: _gradient(name, table, arrays, tensors, attributes))  # noqa: B023
        path = folder / f"{name}-{variant}-{dtype}"
        yield _guarded(f"{title} MindIR", lambda: _round_trip(table, tensors, attributes, path))  # noqa: B023
    if rounds:
        yield from _times(name, table, dtype, rounds, small)


def _guarded(what: str, body: Callable[[], str]) -> Result:
    try:
        detail = body()
    except Exception as error:
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        return Result(what, "FAILED", first)
    return Result(what, "skipped" if detail.startswith("no ") else "ok", detail)


def _forward(
    name: str, table: Operator, arrays: list[Any], tensors: list[Tensor], attributes: Mapping[str, Any]
) -> str:
    # Some references round a sum on the way, as the operator does.
    known = _named(name, arrays) | _all_attributes(name, attributes) | {"dtype": _dtype(tensors[0])}
    forward, terms = _bound(name, "forward", known), _bound(name, "forward_terms", known)
    if forward is None:
        return "no float64 reference in tests/reference"
    bounds = [terms() if terms is not None else None]  # those of the first output
    outputs = _flat(table.ours(*tensors, **attributes))
    for output, golden, bound in zip_longest(outputs, _flat(forward())[: len(outputs)], bounds):
        assert_accurate(_float64(output), golden, _dtype(output), bound)
    return ""


def _gradient(
    name: str, table: Operator, arrays: list[Any], tensors: list[Tensor], attributes: Mapping[str, Any]
) -> str:
    def run(*inputs):  # type: ignore[no-untyped-def]
        return _first(table.ours(*inputs, **attributes))

    known = _named(name, arrays) | _all_attributes(name, attributes)
    forward, y = _bound(name, "forward", known), run(*tensors)
    if forward is None:
        return "no float64 reference in tests/reference"
    dy = Tensor(np.random.default_rng(1).normal(size=y.shape).astype(np.float32)).astype(y.dtype)
    # Of several outputs only the first has a gradient.
    for output, golden in zip(registry.signature(name).outputs, _flat(forward()), strict=False):
        known[f"d{output.name}"] = np.zeros(np.shape(golden))
    first = registry.signature(name).outputs[0].name
    known |= {f"d{first}": _float64(dy), first: _float64(y)}
    backward, terms = _bound(name, "backward", known), _bound(name, "backward_terms", known)
    if backward is None:
        return "no float64 reference in tests/reference"
    _, pull = ms.vjp(run, *tensors)
    # Of numbers of experts and the like references give no gradient.
    floats = [tensor for tensor in tensors if not _dtype(tensor).startswith("int")]
    found = [
        _float64(value)
        for value, tensor in zip(_flat(pull(dy)), tensors, strict=False)
        if not _dtype(tensor).startswith("int")
    ]
    goldens = _flat(backward())
    bounds = _flat(terms()) if terms is not None else [None] * len(goldens)
    for value, golden, bound, tensor in zip(found, goldens, bounds, floats, strict=False):
        assert_accurate(value, golden, _dtype(tensor), bound)
    return ""


def _round_trip(table: Operator, tensors: list[Tensor], attributes: Mapping[str, Any], path: Path) -> str:
    network = _Network(table.ours, attributes)
    loaded = load(export_mindir(network, *tensors, path=path))
    direct, again = _flat(table.ours(*tensors, **attributes)), _flat(loaded(*tensors))
    for one, other in zip(direct, again, strict=True):
        assert np.array_equal(_float64(one), _float64(other), equal_nan=True), "the loaded network gives other results"
    return ""


def _times(name: str, table: Operator, dtype: str, rounds: int, small: bool = False) -> Iterator[Result]:
    """Ours, then what CANN has for the operator's defaults: its counterpart, or what the samples name.

    Of the latter, whose arguments are others, the result is compared, too.
    """
    shape = table.cann_shape or (TIMED if len(table.shapes[0]) == len(TIMED) else table.shapes[-1])
    if small:
        shape = table.small_shapes[-1]
    variant, own = next(iter(table.variants.items()))
    attributes = {**table.attributes(*shape), **own}
    tensors = [_tensor(array) for array in table.inputs(Draw(dtype), *shape)]
    runs = {"ours": lambda: table.ours(*tensors, **attributes)}
    counterpart = registry.op_spec(name).counterpart
    values = _all_attributes(name, attributes)
    is_same = counterpart and all(values[k] == v for k, v in counterpart.when.items())
    if is_same and ms.get_context("device_target") == "Ascend":
        module, _, function = counterpart.function.rpartition(".")
        builtin, constants = getattr(import_module(module), function), [values[a] for a in counterpart.arguments]
        runs[f"CANN {counterpart.operator}"] = lambda: builtin(*tensors, *constants)
    if ms.get_context("device_target") == "Ascend":
        for label, function in table.cann.items():
            runs[f"CANN {label}"] = lambda function=function: function(*tensors, **attributes)
    where = f"{name}{f'[{variant}]' if variant else ''} {dtype} {'x'.join(map(str, shape))}"
    for label, run in runs.items():
        try:
            result = run()
            if label.removeprefix("CANN ") in table.cann:
                _assert_alike(result, table.ours(*tensors, **attributes), _tolerance(table, dtype, result))
            seconds, moved = _median_seconds(run, rounds), sum(t.nbytes for t in [*tensors, *_flat(result)])
        except Exception as error:
            yield Result(f"{where} {label}", "FAILED", str(error).strip().splitlines()[0])
            continue
        yield Result(f"{where} {label}", f"{seconds * 1e6:.1f} us", f"{moved / seconds / 1e9:.1f} GB/s")


def _tolerance(table: Operator, dtype: str, result: Any) -> float | None:
    """That of the coarser type: some of CANN's operators have no result of float32."""
    found = _dtype(_flat(result)[0])
    return table.tolerances.get(dtype if found == dtype or found not in DTYPES or found == "float32" else found)


def _assert_alike(found: Any, ours: Any, tolerance: float | None) -> None:
    """Of the first output, by the largest magnitude: both are rounded on the way, each in its own places."""
    one, other = (_float64(_flat(value)[0]) for value in (found, ours))
    assert one.shape == other.shape, f"the result has the shape {one.shape}, ours {other.shape}"
    difference = np.abs(one - other).max(initial=0.0)
    most = (tolerance or DIFFERENCE) * np.abs(other).max(initial=0.0)
    assert difference <= most, f"the results differ by {difference:.3g}, more than {most:.3g}"


def _median_seconds(run: Callable[[], Any], rounds: int) -> float:
    on_npu = ms.get_context("device_target") == "Ascend"

    def finish(result: Any) -> None:
        # On a CPU reading a result waits for it; there is nothing to synchronize.
        if on_npu:
            ms.runtime.synchronize()
        else:
            _flat(result)[0].asnumpy()

    for _ in range(min(WARM_UP, rounds)):
        finish(run())
    seconds = []
    for _ in range(rounds):
        start = time.perf_counter()
        finish(run())
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def _bound(name: str, function: str, values: Mapping[str, Any]) -> Callable[[], Any] | None:
    """A reference function with its arguments, if there is one and all of them are known."""
    try:
        reference = getattr(import_module(f"tests.reference.{name}"), function)
    except (ImportError, AttributeError):
        return None
    arguments = {}
    for parameter in inspect.signature(reference).parameters.values():
        if parameter.name in values:
            arguments[parameter.name] = values[parameter.name]
        elif parameter.default is inspect.Parameter.empty:
            return None
    return lambda: reference(**arguments)


def _named(name: str, arrays: list[Any]) -> dict[str, Any]:
    """The inputs by the names of the definition, as float64."""
    tensors = registry.op_spec(name).forward.inputs
    return {
        tensor.name: array if array.dtype.kind == "i" else array.astype(np.float64)
        for tensor, array in zip(tensors, arrays, strict=False)
    }


def _all_attributes(name: str, attributes: Mapping[str, Any]) -> dict[str, Any]:
    return registry.op_spec(name).forward.check_attributes(attributes)


def _tensor(array: Any) -> Tensor:
    dtype = next(text for text, kind in DTYPES.items() if kind == array.dtype)
    if array.dtype.kind == "i":
        return Tensor(array)
    return Tensor(array.astype(np.float32)).astype(getattr(ms, dtype))


def _flat(value: Any) -> list[Any]:
    return [leaf for item in value for leaf in _flat(item)] if isinstance(value, (tuple, list)) else [value]


def _first(value: Any) -> Any:
    return value[0] if isinstance(value, (tuple, list)) else value


def _float64(value: Tensor) -> np.ndarray:
    return np.asarray(value.astype(ms.float32).asnumpy(), np.float64)


def _dtype(value: Tensor) -> str:
    return str(value.dtype).lower()
