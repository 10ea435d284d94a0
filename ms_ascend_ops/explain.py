"""Explains why a kernel is split as it is: its tiling for shapes on a target, and what would change it.

The tiling is computed by the C++ function that also runs before every launch, for any number of cores and any Unified
Buffer. What limits it is found by asking again with more of each.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from ms_ascend_ops import ascend, registry
from ms_ascend_ops.definitions.inference import MaybeShape, complete_shapes, given_types, infer_shapes, infer_types
from ms_ascend_ops.library import LIBRARY, check_built, native
from ms_ascend_ops.profiler.chip import chip_names, load_chip
from ms_ascend_ops.registry import Signature

__all__ = ["Explanation", "Target", "explain", "find_target"]

_OF_FAMILY = {"ascend910b": "ascend910b2"}
_MANY_CORES = 65535  # what a launch may ask for at most
_BYTES = {"float16": 2, "bfloat16": 2, "float32": 4, "int32": 4, "int64": 8, "int8": 1}


@dataclass(frozen=True)
class Target:
    """Describes where a kernel runs. `ub_bytes` is what a kernel may use of the Unified Buffer of one core."""

    name: str
    cores: int
    ub_bytes: int

    @property
    def is_host(self) -> bool:
        return self.name == "cpu"


@dataclass(frozen=True)
class Explanation:
    """Describes the tiling of one call, and on a chip who computes it: this kernel, or CANN's operator."""

    signature: Signature
    target: Target
    inputs: tuple[tuple[str, str, MaybeShape], ...]  # name, dtype, shape
    outputs: tuple[tuple[str, str, tuple[int, ...]], ...]
    attributes: Mapping[str, Any]
    tiling: Mapping[str, int | float]
    block_dim: int
    workspace_bytes: int
    reasons: tuple[str, ...]
    choice: ascend.Choice | None = None  # on a chip
    library: str = ""  # on a host: what answers in the place of the kernel

    @property
    def instance(self) -> str:
        """Return the instantiation of the kernel that runs."""
        dtypes = {tensor.dtype: found[1] for tensor, found in zip(self.signature.inputs, self.inputs, strict=True)}
        return f"{self.signature.entry}Kernel<{', '.join(dtypes[name] for name in self.signature.variables)}>"

    @property
    def bytes_in(self) -> int:
        """Return the bytes of the inputs, each read once."""
        return sum(_size(dtype, shape) for _, dtype, shape in self.inputs)

    @property
    def bytes_out(self) -> int:
        return sum(_size(dtype, shape) for _, dtype, shape in self.outputs)

    @property
    def notes(self) -> Mapping[str, Any]:
        """Return what the sources say: kernel, plan, tiling, tiling_plan and fields."""
        return dict(_notes().get(self.signature.name, {}))


def find_target(name: str) -> Target:
    """Return a chip by its name, or "cpu": the host library with its present number of threads.

    "ascend910b", as CANN calls the family, stands for its largest, the 910B2.

    Raises:
        ValueError: there is no such target.
    """
    if name.lower() == "cpu":
        return Target("cpu", native().get_thread_num(), native().get_ub_bytes())
    chips = chip_names()
    if name.lower() not in (*chips, *_OF_FAMILY):
        known = ", ".join(sorted({*chips, *_OF_FAMILY}))
        raise ValueError(f"there is no target '{name}'; the targets are cpu, {known}")
    chip = load_chip(_OF_FAMILY.get(name.lower(), name.lower()))
    return Target(name.lower(), chip.cores, chip.ub_bytes)


def explain(
    signature: Signature,
    shapes: Sequence[tuple[int, ...]],
    dtypes: Sequence[str],
    attributes: Mapping[str, Any],
    target: Target,
) -> Explanation:
    """Tile one call of a kernel for a target.

    Args:
        signature: the kernel.
        shapes: of its inputs; those that follow from the first ones may be left out.
        dtypes: of its inputs; the first row of the definition that begins so gives the others.
        attributes: by name; the others have their default.
        target: where it would run.

    Raises:
        TypeError: there is no kernel for these dtypes.
        ValueError: a shape or an attribute breaks the operator's rule.
    """
    check_built(signature)
    values = signature.check_attributes(attributes)
    input_shapes = complete_shapes(signature, shapes, values)
    input_dtypes = _complete_dtypes(signature, dtypes)
    given = given_types(input_shapes, input_dtypes)
    output_dtypes = infer_types(signature, given)
    output_shapes = infer_shapes(signature, input_shapes, values)

    def tile(**platform: int) -> dict[str, int | float]:
        cores = 0 if target.is_host else target.cores  # a number of cores is that of a chip
        chosen = {"core_num": cores, "ub_bytes": target.ub_bytes, **platform}
        found: dict[str, int | float] = native().tiling(signature.name, input_shapes, given, values, **chosen)
        return found

    tiling = tile()
    reasons = [_why_cores(tile, tiling, target), *_why_tile(tile, tiling, target)]
    return Explanation(
        signature,
        target,
        tuple(zip((tensor.name for tensor in signature.inputs), input_dtypes, input_shapes, strict=True)),
        tuple(zip((tensor.name for tensor in signature.outputs), output_dtypes, output_shapes, strict=True)),
        values,
        {name: value for name, value in tiling.items() if name not in ("block_dim", "workspace_bytes")},
        int(tiling["block_dim"]),
        int(tiling["workspace_bytes"]),
        tuple(reasons),
        # A gradient has the implementation of its operator.
        None if target.is_host else ascend.chosen_implementation(_operator(signature), values, "Ascend"),
        native().answering_library(signature.name, input_shapes, given, values) if target.is_host else "",
    )


def _operator(signature: Signature) -> str:
    return next(name for name in registry.names() if signature in registry.op_spec(name).signatures)


def _why_cores(tile: Any, tiling: Mapping[str, int | float], target: Target) -> str:
    used = int(tiling["block_dim"])
    said = f"{used} of {target.cores} cores"
    if used == target.cores:
        return said
    if not target.is_host and tile(core_num=_MANY_CORES)["block_dim"] > used:
        return f"{said}: as many as an even split over all of them needs"
    if tile(core_num=_MANY_CORES, min_bytes_per_core=1)["block_dim"] > used:
        return f"{said}: further ones would have too little data each to be worth their start"
    return f"{said}: there are no more independent pieces of work"


def _why_tile(tile: Any, tiling: Mapping[str, int | float], target: Target) -> list[str]:
    changes = []
    for factor in (2, 0.5):
        other = tile(ub_bytes=int(target.ub_bytes * factor))
        changes.append(
            ", ".join(f"{name} {old} -> {other[name]}" for name, old in tiling.items() if other[name] != old)
        )
    said = (
        "the tile is as large as the Unified Buffer allows" if changes[0] else "the tile has room in the Unified Buffer"
    )
    return [f"{said}; with twice of it {changes[0] or 'the same'}, with half of it {changes[1] or 'the same'}"]


def _complete_dtypes(signature: Signature, dtypes: Sequence[str]) -> list[str]:
    for row in signature.types:
        complete = [row.get(tensor.dtype, tensor.dtype) for tensor in signature.inputs]
        if complete[: len(dtypes)] == list(dtypes):
            return complete
    infer_types(signature, [*dtypes, *[dtypes[-1]] * (len(signature.inputs) - len(dtypes))])  # says what is wrong
    raise TypeError(f"{signature.name}: there is no kernel for {', '.join(dtypes)}")


def _size(dtype: str, shape: MaybeShape) -> int:
    size = 0 if shape is None else _BYTES[dtype]
    for dim in shape or ():
        size *= dim
    return size


@cache
def _notes() -> dict[str, Any]:
    path = LIBRARY.with_name("kernels.json")
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return found
