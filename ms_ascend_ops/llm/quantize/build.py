"""Makes a checkpoint with fewer bytes from another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ms_ascend_ops.llm.checkpoints.checkpoint import Checkpoint, expected_shapes
from ms_ascend_ops.llm.quantize.divergence import Divergence, divergence_of
from ms_ascend_ops.llm.quantize.forward import Forward
from ms_ascend_ops.llm.quantize.policy import Choice, options, searched, table
from ms_ascend_ops.llm.quantize.rounding import check_group
from ms_ascend_ops.llm.quantize.scaling import calibrated, scale_units
from ms_ascend_ops.llm.quantize.units import Editable

Array = np.ndarray[Any, Any]

__all__ = ["Result", "Samples", "calibrated_checkpoint", "mixed_checkpoint"]

_MEASURED = 2  # windows on which every unit is measured


@dataclass(frozen=True)
class Samples:
    """Holds windows of tokens of one length: to choose by, and to check on."""

    calibration: Sequence[Sequence[int]]
    held_out: Sequence[Sequence[int]]

    @property
    def window(self) -> int:
        """Return the number of tokens of each."""
        return len(self.calibration[0])

    @classmethod
    def of(cls, tokens: Sequence[int], held_out: Sequence[int] | None, window: int, most: int) -> Samples:
        """Cut texts into windows, with `most` tokens of each at most. Of one text the later half is held out.

        Raises:
            ValueError: a text is too short.
        """
        given = [tokens[first : first + window] for first in range(0, len(tokens) - window + 1, window)]
        given = given[: max(1, most // window) * (2 if held_out is None else 1)]
        if held_out is None:
            half = (len(given) + 1) // 2
            given, others = given[:half], given[half:]
        else:
            others = [held_out[first : first + window] for first in range(0, len(held_out) - window + 1, window)]
            others = others[: max(1, most // window)]
        if not given or not others:
            needs = (
                "the samples, one of which is held out," if held_out is None else "the samples and the held-out text"
            )
            least = 2 * window if held_out is None else window
            count = len(tokens) if held_out is None or not given else len(held_out)
            raise ValueError(f"{needs} must have at least {least} tokens (windows of {window}), got {count}")
        return cls(given, others)


@dataclass(frozen=True)
class Result:
    """Holds a checkpoint to write, and what was found out on the way."""

    checkpoint: Checkpoint
    lines: list[str]
    measured: Divergence


def calibrated_checkpoint(
    source: Checkpoint, kind: str, embedding: str, group: int, samples: Samples,
    progress: Callable[[str], None] = lambda _: None,
) -> Result:  # fmt: skip
    """Quantize all matrices to one type, after factors were moved between layers by what the samples make of
    activations.

    Args:
        source: what to round. Its weights are in memory in float32 meanwhile.
        kind: "int4" or "int8", of the linear layers.
        embedding: the type of the embedding and of the last product.
        group: columns with one scale.
        samples: what to calibrate by, and to measure the result on.
        progress: gets what is done next.

    Raises:
        ValueError: the matrices have no such groups.
    """
    _check(source, group)
    progress("reads the model")
    editable = Editable(source)
    forward = Forward(editable.network, samples.window)
    expected = _expected(forward, samples)
    plan = {unit.name: kind if unit.layer is not None else embedding for unit in editable.units}
    progress("measures what rounding alone does")
    plain = divergence_of(editable.checkpoint(plan, group), samples.held_out, expected)
    progress("runs the samples")
    inputs, _ = calibrated(editable, forward, samples.calibration)
    progress("moves factors between layers")
    left = np.mean(list(scale_units(editable, inputs, kind, group).values()))
    checkpoint = editable.checkpoint(plan, group)
    progress("measures the result")
    measured = divergence_of(checkpoint, samples.held_out, expected)
    lines = [
        f"factors between layers leave {left:.0%} of the squared errors of outputs, by the mean of all units",
        f"rounding alone: divergence {plain.value:.3g} +- {plain.error:.2g} nats a token on the held-out text",
    ]
    return Result(checkpoint, lines, measured)


def mixed_checkpoint(
    source: Checkpoint, bound: float, group: int, samples: Samples, progress: Callable[[str], None] = lambda _: None
) -> Result:
    """Choose a type for each unit, so that predictions on held-out text diverge by at most `bound`.

    Args:
        source: what to round. Its weights are in memory in float32 meanwhile.
        bound: of the mean Kullback-Leibler divergence, nats a token.
        group: columns with one scale, of int4 and int8.
        samples: what to choose by, and to keep the bound on.
        progress: gets what is done next.

    Raises:
        ValueError: the bound is not above 0, or the matrices have no such groups.
    """
    if not bound > 0:
        raise ValueError(f"the bound on the divergence must be > 0, got {bound}")
    _check(source, group)
    progress("reads the model")
    editable = Editable(source)
    forward = Forward(editable.network, samples.window)
    expected = _expected(forward, samples)
    progress("runs the samples")
    inputs, _ = calibrated(editable, forward, samples.calibration)
    progress("moves factors between layers")
    scale_units(editable, inputs, "int4", group, powers_of_two=True)  # so that floats lose nothing
    windows = samples.calibration[:_MEASURED]
    _, states = calibrated(editable, forward, windows)
    count = len(editable.units)
    done = iter(range(1, count + 1))
    choices = options(
        editable, forward, windows, inputs, states, group,
        lambda name: progress(f"measures {name}, {next(done)} of {count}"),
    )  # fmt: skip

    def measure(plan: Mapping[str, str]) -> Divergence:
        progress("checks a choice on held-out text")
        return divergence_of(editable.checkpoint(plan, group), samples.held_out, expected)

    tried: list[Choice] = []
    best = searched(choices, bound, measure, tried.append)
    lines = table(choices, best.plan, bound)
    lines.append("")
    lines.append("choices that were checked on held-out text:")
    for choice in tried:
        size = sum(unit.nbytes(choice.plan[unit.name], group) for unit in editable.units)
        kept = "kept" if choice.measured.value <= bound else "not kept"
        lines.append(f"  {size / 2**20:.2f} MiB, divergence {choice.measured.value:.3g}: {kept}")
    return Result(editable.checkpoint(best.plan, group), lines, best.measured)


def _check(source: Checkpoint, group: int) -> None:
    """Check the options, before the model is read."""
    if source.config.experts:
        raise ValueError(
            f"{source.path}: a mixture of experts ({source.config.experts} of them) can be rounded, but not by samples"
        )
    for name, shape in expected_shapes(source.config).items():
        if len(shape) == 2:
            check_group(f"{source.path}: {name}", shape[1], group)


def _expected(forward: Forward, samples: Samples) -> list[Array]:
    """Return logits of the network as it was."""
    return [forward.logits_from(forward.embedded(tokens), 0) for tokens in samples.held_out]
