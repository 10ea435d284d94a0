"""Runs networks of MindIRs and bundles.

MindSpore is not made for several threads: two that compile or run graphs at the same time fail. So one lock is around
all that is MindSpore's. And a graph that raised once raises for ever: it is loaded again.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ms_ascend_ops.serving.errors import BadRequest
from ms_ascend_ops.serving.settings import ModelOptions
from ms_ascend_ops.serving.tensors import DATATYPES, TensorSpec, Values, from_bfloat16, to_bfloat16

__all__ = ["GraphNetwork"]

_log = logging.getLogger(__name__)
_mindspore = threading.Lock()

_DATATYPE_OF = {
    "bool": "BOOL",
    "uint8": "UINT8",
    "uint16": "UINT16",
    "uint32": "UINT32",
    "uint64": "UINT64",
    "int8": "INT8",
    "int16": "INT16",
    "int32": "INT32",
    "int64": "INT64",
    "float16": "FP16",
    "float32": "FP32",
    "float64": "FP64",
    "bfloat16": "BF16",
}
_MOST_REFUSED = 1024


class GraphNetwork:
    """Runs a MindIR or a bundle. Outputs are `output_0`, `output_1` ..., in the order of the network.

    Raises:
        ValueError: it cannot be loaded, an option does not fit to its inputs, or it is to be batched and rows of axis 0
            have an influence on each other.
    """

    platform = "mindspore_mindir"

    def __init__(self, path: Path, options: ModelOptions):
        self._path = path
        self._options = options
        self._refused: OrderedDict[tuple[tuple[int, ...], ...], str] = OrderedDict()
        with _mindspore:
            self._load()
        self.inputs: Sequence[TensorSpec] = [_spec(spec) for spec in self._network.inputs]
        self.outputs: Sequence[TensorSpec] = [_spec(spec) for spec in self._network.outputs or ()]
        self._check_options()
        self._warm_up()
        if options.max_batch_size > 1:
            self._check_rows()

    def check(self, inputs: Sequence[Values]) -> None:
        """Compare inputs with what the network takes. Any thread may call this.

        Raises:
            BadRequest: a datatype or a size is another one.
        """
        sizes: dict[str, int] = {}
        for spec, value in zip(self.inputs, inputs, strict=True):
            shape = value.array.shape
            if value.datatype != spec.datatype:
                raise BadRequest(f"input {spec.name}: datatype must be {spec.datatype}, got {value.datatype}")
            if len(shape) != len(spec.shape) or any(a not in (-1, b) for a, b in zip(spec.shape, shape, strict=False)):
                raise BadRequest(f"input {spec.name}: shape must be {list(spec.shape)} (-1: any), got {list(shape)}")
            for name, size in zip(self._options.sizes.get(spec.name, ()), shape, strict=False):
                if isinstance(name, int) and size != name:
                    raise BadRequest(f"input {spec.name}: a size must be {name}, got {list(shape)}")
                if isinstance(name, str) and sizes.setdefault(name, size) != size:
                    raise BadRequest(f"input {spec.name}: the size {name} must be {sizes[name]}, got {list(shape)}")
        for name, most in self._options.most.items():
            if sizes.get(name, 0) > most:
                raise BadRequest(f"the size {name} must be at most {most}, got {sizes[name]}")
        if reason := self._refused.get(tuple(value.array.shape for value in inputs)):
            raise BadRequest(reason)

    def run(self, inputs: Sequence[Values]) -> list[Values]:
        """Run it.

        Raises:
            BadRequest: sizes do not fit together, as far as only the network itself can tell.
        """
        shapes = tuple(value.array.shape for value in inputs)
        if reason := self._refused.get(shapes):
            raise BadRequest(reason)
        with _mindspore:
            try:
                return self._run(inputs)
            except (IndexError, RuntimeError, TypeError, ValueError) as error:
                reason = (str(error).strip().splitlines() or ["no reason given"])[0]
                _log.warning("%s failed for inputs of %s: %s", self._path.name, list(map(list, shapes)), reason)
                reason = (
                    f"the network cannot take inputs of {', '.join(str(list(shape)) for shape in shapes)}: {reason}"
                )
                self._refused[shapes] = reason
                if len(self._refused) > _MOST_REFUSED:
                    self._refused.popitem(last=False)
                self._load()
                raise BadRequest(reason) from error

    def _load(self) -> None:
        from ms_ascend_ops.export.files.load import load  # noqa: PLC0415 - takes seconds, with MindSpore

        self._network = load(self._path)

    def _run(self, inputs: Sequence[Values]) -> list[Values]:
        from mindspore import Tensor, bfloat16, float32  # noqa: PLC0415

        tensors = [
            Tensor(from_bfloat16(value.array), bfloat16)
            if value.datatype == "BF16"
            else Tensor(np.require(value.array, requirements=["C", "A"]))  # MindSpore 2.7 refuses odd addresses
            for value in inputs
        ]
        outputs = []
        for tensor in _flat(self._network(*tensors)):
            if tensor.dtype == bfloat16:
                outputs.append(Values("BF16", to_bfloat16(tensor.astype(float32).asnumpy())))
            else:
                outputs.append(Values(_datatype(tensor.dtype), tensor.asnumpy()))
        return outputs

    def _check_options(self) -> None:
        known = {spec.name: spec for spec in self.inputs}
        for name, sizes in self._options.sizes.items():
            if name not in known:
                raise ValueError(f"sizes: the network has no input {name}; it has {', '.join(known)}")
            if len(sizes) != len(known[name].shape):
                raise ValueError(f"sizes: {name} has {len(known[name].shape)} sizes, got {list(sizes)}")
        named = {size for sizes in self._options.sizes.values() for size in sizes}
        if unknown := [name for name in self._options.most if name not in named]:
            raise ValueError(f"most: no input has a size {unknown[0]}; give it in sizes")
        if self._options.max_batch_size > 1 and not all(spec.shape[:1] == (-1,) for spec in self.inputs):
            raise ValueError(
                "max_batch_size: axis 0 of every input must be of any size, got "
                + ", ".join(f"{spec.name} {list(spec.shape)}" for spec in self.inputs)
            )

    def _warm_up(self) -> None:
        """Compile it, before the first request comes."""
        try:
            results = self.run(self._example(1, 0))
        except BadRequest as error:
            _log.warning("%s could not be tried before the first request: %s", self._path.name, error)
            return
        if len(results) != len(self.outputs):  # the file does not tell
            self.outputs = [
                TensorSpec(f"output_{index}", value.datatype, (-1,) * value.array.ndim)
                for index, value in enumerate(results)
            ]

    def _check_rows(self) -> None:
        """Check that rows have no influence on each other."""
        first, second = self._example(2, 0), self._example(1, 1)
        both = [
            Values(a.datatype, np.concatenate((a.array, b.array))) for a, b in zip(first, second, strict=True)
        ]  # fmt: skip
        try:
            alone, together = [self.run(first), self.run(second)], self.run(both)
        except BadRequest as error:
            raise ValueError(f"max_batch_size: it could not be tried whether rows are independent: {error}") from error
        for spec, a, b, c in zip(self.outputs, *alone, together, strict=True):
            if not all(value.array.ndim and value.array.shape[0] == n for value, n in ((a, 2), (b, 1), (c, 3))):
                raise ValueError(
                    f"max_batch_size: axis 0 of {spec.name} must be that of the inputs, got {c.array.shape}"
                )
            expected, got = (_floats(v) for v in (Values(a.datatype, np.concatenate((a.array, b.array))), c))
            scale = np.abs(expected[np.isfinite(expected)]).max(initial=0.0)
            tolerance = {"FP64": 1e-5, "FP32": 1e-3, "FP16": 2e-2, "BF16": 1e-1}.get(c.datatype, 0.0) * scale
            if not np.allclose(got, expected, rtol=0, atol=tolerance, equal_nan=True):
                raise ValueError(f"max_batch_size: rows of {spec.name} depend on the rows beside them")

    def _example(self, rows: int, seed: int) -> list[Values]:
        """Return random inputs; sizes that are open are 1 but for axis 0."""
        rng = np.random.default_rng(seed)
        values = []
        for spec in self.inputs:
            named = self._options.sizes.get(spec.name, spec.shape)
            shape = [
                size if size > 0 else (name if isinstance(name, int) and name > 0 else 1)
                for size, name in zip(spec.shape, named, strict=True)
            ]
            if spec.shape[:1] == (-1,):
                shape[0] = rows
            if spec.datatype in ("FP16", "FP32", "FP64", "BF16"):
                numbers = rng.standard_normal(shape).astype(np.float32)
                array = to_bfloat16(numbers) if spec.datatype == "BF16" else numbers.astype(DATATYPES[spec.datatype])
            else:
                array = rng.integers(0, 2, shape).astype(DATATYPES[spec.datatype])
            values.append(Values(spec.datatype, array))
        return values


def _spec(spec: Any) -> TensorSpec:
    return TensorSpec(spec.name, _datatype(spec.dtype), spec.shape)


def _datatype(dtype: Any) -> str:
    name = str(dtype).lower()
    if name not in _DATATYPE_OF:
        raise ValueError(f"a tensor of {name} cannot be served; there are {', '.join(_DATATYPE_OF)}")
    return _DATATYPE_OF[name]


def _floats(value: Values) -> np.ndarray[Any, Any]:
    array = from_bfloat16(value.array) if value.datatype == "BF16" else value.array
    return array.astype(np.float64)


def _flat(result: Any) -> list[Any]:
    if isinstance(result, tuple | list):
        return [tensor for part in result for tensor in _flat(part)]
    return [result]
