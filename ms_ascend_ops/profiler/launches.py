"""Makes a launch in the traced library of what a user says (an operator, a shape, a dtype)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ms_ascend_ops import registry
from ms_ascend_ops.definitions.inference import MaybeShape, complete_shapes, given_types, infer_shapes, infer_types
from ms_ascend_ops.profiler.chip import Chip, load_chip
from ms_ascend_ops.profiler.prediction import Prediction, predict
from ms_ascend_ops.profiler.record import Recorder, request
from ms_ascend_ops.profiler.simulator import Run
from ms_ascend_ops.profiler.trace import Trace
from ms_ascend_ops.profiler.worker import Request

__all__ = ["Case", "Profile", "profile"]

Shape = tuple[int, ...]


def _check_file(name: str, path: str, shape: MaybeShape) -> None:
    try:
        array = np.load(path, mmap_mode="r")
    except (OSError, ValueError) as error:
        raise ValueError(f"{name} cannot be filled from {path}: {error}") from None
    if array.dtype.kind not in "iu" or array.shape != shape:
        raise ValueError(f"{name} must be integers of shape {shape}, got {array.dtype} of {array.shape} in {path}")


@dataclass(frozen=True)
class Case:
    """Says what to profile. Shapes and dtypes are those of the forward's inputs, also for the gradient."""

    operator: str
    shape: Shape  # of the first input
    dtype: str = "float32"
    gradient: bool = False
    chip: str = "ascend910b2"
    shapes: Mapping[str, Shape] = field(default_factory=dict)  # of other inputs, where they do not follow
    dtypes: Mapping[str, str] = field(default_factory=dict)
    attributes: Mapping[str, Any] = field(default_factory=dict)
    # Changes to the launch; 0: none.
    cores: int = 0
    ub_bytes: int = 0
    buffers: int = 0  # of every queue, at most
    tiling: Mapping[str, int] = field(default_factory=dict)
    warm: bool = False
    hf32: bool = False  # products of floats
    # Values of inputs of integers, by name: a number, "count", or a file that NumPy saved (.npy).
    fill: Mapping[str, str] = field(default_factory=dict)

    @property
    def kernel(self) -> str:
        return f"{self.operator}_grad" if self.gradient else self.operator

    @property
    def changes(self) -> str:
        """Return what is not as the kernel has it, as text."""
        parts = [f"{name}={getattr(self, name)}" for name in ("cores", "ub_bytes", "buffers") if getattr(self, name)]
        parts += [f"{name}={value}" for name, value in self.tiling.items()]
        parts += [f"{name}={value}" for name, value in self.fill.items()]
        return ", ".join([*parts, *(["warm L2"] if self.warm else []), *(["HF32"] if self.hf32 else [])])

    def __str__(self) -> str:
        text = f"{self.kernel} {self.dtype} {'x'.join(map(str, self.shape))}"
        return f"{text} ({self.changes})" if self.changes else text

    def changed(self, **values: Any) -> Case:
        """Return the launch with other values."""
        return replace(self, **values)

    def request(self, chip: Chip) -> Request:
        """Return the launch.

        Raises:
            ValueError, TypeError: the operator cannot be called so; the message says why.
        """
        shapes, dtypes, values = self._inputs()
        return request(
            self.kernel,
            shapes,
            dtypes,
            values,
            self.cores or chip.cores,
            self.ub_bytes or chip.ub_bytes,
            buffers=self.buffers,
            tiling=dict(self.tiling),
            fill=self._fill(shapes, dtypes),
        )

    def _fill(self, shapes: list[MaybeShape], dtypes: list[str]) -> dict[int, str]:
        names = [tensor.name for tensor in registry.signature(self.kernel).inputs]
        found = {}
        for name, value in self.fill.items():
            if name not in names:
                raise ValueError(f"{self.kernel}: there is no input {name}; the inputs are {', '.join(names)}")
            position = names.index(name)
            if not dtypes[position].startswith("int"):
                raise TypeError(f"{self.kernel}: only inputs of integers can be filled; {name} is {dtypes[position]}")
            if value.endswith(".npy"):
                _check_file(f"{self.kernel}: {name}", value, shapes[position])
            elif value != "count" and not value.isdecimal():
                raise ValueError(
                    f"{self.kernel}: {name} can be filled with a number, 'count' or a .npy file, got {value!r}"
                )
            found[position] = value
        return found

    def _inputs(self) -> tuple[list[MaybeShape], list[str], dict[str, Any]]:
        spec = registry.op_spec(self.operator)
        forward = spec.forward
        values = forward.check_attributes(self.attributes)
        names = [tensor.name for tensor in forward.inputs]
        if unknown := sorted({*self.shapes, *self.dtypes} - set(names)):
            raise ValueError(f"{self.operator}: there is no input {unknown[0]}; the inputs are {', '.join(names)}")
        shapes: list[MaybeShape] = [self.shape]
        for tensor in forward.inputs[1:]:
            given = self.shapes.get(tensor.name)
            # What stands before a given one has to be known as well.
            shapes.append(
                given if given is not None else complete_shapes(_first(forward, len(shapes) + 1), shapes, values)[-1]
            )
        dtypes = self._dtypes(forward)
        known_shapes = dict(zip(names, shapes, strict=True))
        known_dtypes = dict(zip(names, dtypes, strict=True))
        types = infer_types(forward, given_types(shapes, dtypes))
        outputs = zip(forward.outputs, infer_shapes(forward, shapes, values), types, strict=True)
        for tensor, shape, dtype in outputs:
            for name in (tensor.name, f"d{tensor.name}"):
                known_shapes.setdefault(name, shape)
                known_dtypes.setdefault(name, dtype)
        if not self.gradient:
            return shapes, dtypes, values
        return *_gradient_inputs(registry.signature(self.kernel), known_shapes, known_dtypes, values), values

    def _dtypes(self, forward: registry.Signature) -> list[str]:
        """Return the dtypes: all inputs have the dtype, as far as the operator takes them so."""
        rows = [[row.get(t.dtype, t.dtype) for t in forward.inputs] for row in forward.types]
        asked = [self.dtypes.get(t.name, self.dtype if i == 0 else None) for i, t in enumerate(forward.inputs)]
        fitting = [row for row in rows if all(want in (None, got) for want, got in zip(asked, row, strict=True))]
        if not fitting:
            fallback = [want or self.dtype for want in asked]
            infer_types(forward, fallback)  # says what is wrong
            raise TypeError(f"{self.operator}: there is no kernel for {', '.join(fallback)}")
        return max(fitting, key=lambda row: row.count(self.dtype))


def _gradient_inputs(
    gradient: registry.Signature,
    known_shapes: Mapping[str, MaybeShape],
    known_dtypes: Mapping[str, str],
    values: Mapping[str, Any],
) -> tuple[list[MaybeShape], list[str]]:
    """Take by name what the forward has, `d...` of its outputs, and the rest from the definition."""
    same_rule = {t.rule.text: known_shapes[t.name] for t in gradient.inputs if t.name in known_shapes}
    known_shapes = {t.name: same_rule[t.rule.text] for t in gradient.inputs if t.rule.text in same_rule} | dict(
        known_shapes
    )
    known = [tensor for tensor in gradient.inputs if tensor.name in known_shapes]
    others = [tensor for tensor in gradient.inputs if tensor.name not in known_shapes]
    reordered = replace(gradient, inputs=(*known, *others))
    names = [tensor.name for tensor in reordered.inputs]
    shapes = dict(zip(names, complete_shapes(reordered, [known_shapes[t.name] for t in known], values), strict=True))
    row = next(
        row
        for row in gradient.types
        if all(row.get(t.dtype, t.dtype) == known_dtypes.get(t.name, row.get(t.dtype, t.dtype)) for t in known)
    )
    dtypes = {t.name: row.get(t.dtype, t.dtype) for t in gradient.inputs}
    return [shapes[t.name] for t in gradient.inputs], [dtypes[t.name] for t in gradient.inputs]


def _first(signature: registry.Signature, count: int) -> registry.Signature:
    return replace(signature, inputs=signature.inputs[:count])


@dataclass
class Profile:
    """Holds a case with its prediction, and what it rests on."""

    case: Case
    chip: Chip
    trace: Trace
    runs: list[Run]
    prediction: Prediction
    difference: float  # of the outputs from those of the reference, in roundings (worker.difference)


def profile(case: Case, recorder: Recorder, executes: bool = False, is_reference: bool = False) -> Profile:
    """Record a launch and run it through the model.

    With `executes`, the kernel calculates; otherwise its calls are only counted, which is quicker and needs no memory.
    With `is_reference` as well, its outputs are what those of later cases are compared with.

    Raises:
        ChipError, RecordError, ProgramError, ValueError, TypeError: see there.
    """
    chip = load_chip(case.chip)
    trace, difference = recorder.run_compared(replace(case.request(chip), executes=executes, is_reference=is_reference))
    prediction, runs = predict(trace, chip, case.warm, case.hf32)
    return Profile(case, chip, trace, runs, prediction, difference)


def default_path(case: Case, ending: str) -> Path:
    """Return where a file of this case goes by default."""
    shape = "x".join(map(str, case.shape))
    return Path(f"{case.kernel}_{shape}_{case.dtype}_{Path(case.chip).stem}{ending}")
