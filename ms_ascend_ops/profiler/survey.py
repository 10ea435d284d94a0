"""Predicts every operator at the shapes of language and diffusion models, forward and gradient, in every dtype."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from rich.table import Table

from ms_ascend_ops import registry
from ms_ascend_ops.profiler.chip import load_chip
from ms_ascend_ops.profiler.launches import Case, profile
from ms_ascend_ops.profiler.prediction import Prediction
from ms_ascend_ops.profiler.record import Recorder

__all__ = ["PUBLISHED", "Row", "as_markdown", "as_table", "published", "survey", "survey_cases", "surveyed"]

DTYPES = ("float16", "bfloat16", "float32")

LARGE_BYTES = 2**25  # from here on a kernel should be bound by memory

# Times of CANN's own kernels on a 910B2 (cann-bench's published baselines), in microseconds: how they compare. The
# rotary embedding is that of q and k, two launches of ours.
PUBLISHED: tuple[tuple[Case, float], ...] = (
    (Case("rms_norm", (4096, 4096), "float16", warm=True), 75.7),
    (Case("rms_norm", (4096, 8192), "float32", warm=True), 145.8),
    (Case("rms_norm", (8168, 4099), "bfloat16", warm=True), 154.3),
    (Case("swiglu", (4096, 8192), "bfloat16", warm=True), 58.8),
    (Case("swiglu", (8192, 16384), "float16", attributes={"axis": 0}, warm=True), 288.8),
    (Case("gelu", (8192, 8192), "float16", attributes={"approximate": "tanh"}, warm=True), 232.6),
    (
        Case(
            "rotary_embedding", (16, 512, 16, 128), "float16", shapes={"cos": (512, 128), "sin": (512, 128)}, warm=True
        ),
        89.6 / 2,
    ),
    (Case("group_norm", (2, 128, 256, 256), "bfloat16", attributes={"num_groups": 32}, warm=True), 62.5),
)


@dataclass(frozen=True)
class Row:
    """Holds a case and what the model says; or why it says nothing."""

    case: Case
    prediction: Prediction | None
    problem: str = ""


def surveyed() -> list[str]:
    """Return the operators whose definition has `survey`.

    The bound of a kernel that touches a part of its tensors does not follow from their shapes, and that of products is
    the cube; docs/kernel_tools.md has some of them beside published times.
    """
    return [name for name in registry.names() if registry.op_spec(name).survey is not None]


def survey_cases(chip: str, operators: Sequence[str] | None = None) -> list[Case]:
    """Return all cases of a survey.

    Raises:
        ValueError: there is no such operator, or its definition has no `survey`.
    """
    cases = []
    for name in operators or surveyed():
        spec = registry.op_spec(name)
        calls = spec.survey
        if calls is None:
            raise ValueError(f"{name}: its definition has no `survey`")
        for gradient in (False, True) if spec.gradient else (False,):
            for shape in calls.shapes:
                shapes = {tensor: calls.shape(tensor, shape) for tensor in calls.inputs}
                cases += [Case(name, shape, dtype, gradient, chip, shapes, {}, calls.attributes) for dtype in DTYPES]
    return cases


def survey(cases: Iterable[Case], recorder: Recorder, tell: Callable[[Case], None] = lambda case: None) -> list[Row]:
    """Profile all of them. A case that an operator refuses is kept, with the reason."""
    rows = []
    for case in cases:
        try:
            rows.append(Row(case, profile(case, recorder).prediction))
        except (ValueError, TypeError, RuntimeError) as error:
            rows.append(Row(case, None, str(error)))
        tell(case)
    return rows


def published(recorder: Recorder) -> list[tuple[Case, float, Prediction]]:
    """Return our kernels at the shapes of published times, as far as we have the operator."""
    known = [(case, us) for case, us in PUBLISHED if case.operator in registry.names()]
    rows = survey([case for case, _ in known], recorder)
    return [
        (case, us, row.prediction) for (case, us), row in zip(known, rows, strict=True) if row.prediction is not None
    ]


_HEADINGS = (
    "kernel",
    "shape",
    "dtype",
    "us",
    "bound us",
    "% of HBM bound",
    "% without launch",
    "bounded by",
    "lanes %",
)


def _texts(row: Row) -> list[str]:
    case, p = row.case, row.prediction
    start = [case.kernel, "x".join(map(str, case.shape)), case.dtype]
    if p is None:
        return [*start, row.problem, *[""] * (len(_HEADINGS) - 4)]
    figures = [f"{p.us:.1f}", f"{p.bound_us:.1f}", f"{100 * p.hbm_share:.0f}", f"{100 * p.kernel_hbm_share:.0f}"]
    return [*start, *figures, p.bound_by, f"{100 * p.lane_efficiency:.0f}"]


def as_table(rows: Sequence[Row], chip: str) -> Table:
    """Return it for the terminal. What is large and below 80 % of the HBM bound stands out."""
    table = Table(title=f"predicted for {load_chip(chip).name}; nothing was measured", title_justify="left", box=None)
    for position, name in enumerate(_HEADINGS):
        table.add_column(name, justify="left" if position < 3 or name == "bounded by" else "right")
    for row in rows:
        p = row.prediction
        slow = p is not None and p.minimal_bytes >= LARGE_BYTES and p.kernel_hbm_share < 0.8
        table.add_row(*_texts(row), style="yellow" if slow else "")
    return table


def as_markdown(rows: Sequence[Row], chip: str) -> str:
    """Return the rows as a table in Markdown, a line for each kernel and shape."""
    found: dict[tuple[str, str], dict[str, Row]] = {}
    for row in rows:
        found.setdefault((row.case.kernel, "x".join(map(str, row.case.shape))), {})[row.case.dtype] = row
    dtypes = [dtype for dtype in DTYPES if any(dtype in line for line in found.values())]
    headings = ["kernel", "shape", *[f"{dtype}: us, %" for dtype in dtypes], "bounded by"]
    lines = [
        f"Predicted for {load_chip(chip).name} by the timing model; nothing was measured. For each dtype the time with "
        "the launch, and the share of the HBM bound that the kernel without the launch reaches.",
        "",
        f"| {' | '.join(headings)} |",
        f"|{'|'.join([' --- '] * len(headings))}|",
    ]
    for (kernel, shape), line in found.items():
        cells = []
        for dtype in dtypes:
            p = line[dtype].prediction if dtype in line else None
            cells.append(f"{p.us:.1f}, {100 * p.kernel_hbm_share:.0f}" if p else "-")
        bounds = [row.prediction.bound_by for row in line.values() if row.prediction]
        cells.append(", ".join(dict.fromkeys(bounds)) or next(iter(line.values())).problem)
        lines.append(f"| {kernel} | {shape} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
