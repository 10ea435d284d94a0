"""The speed of an operator as bars, from the tables of figures in docs/; nothing is measured here."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

DOCS = Path(__file__).parents[1]

# Tables of docs/ in which a column is an operator: the page, how the heading of the table begins, the columns of this
# library and of the others, the unit. The columns before them say what was measured.
_COLUMNS = {
    "conv2d": ("convolution.md", "Samples, channels, output channels", "conv2d", ("stock",), "ms"),
    "sparse_matmul": ("sparse.md", "values", "direct", ("dense", "SciPy", "PyTorch"), "ms"),
    "block_sparse_matmul": ("sparse.md", "values", "blocks", ("direct", "dense", "SciPy", "PyTorch"), "ms"),
    "moe_gating_top_k": ("moe.md", "Tokens, size", "layer", ("MindSpore", "PyTorch"), "ms"),
    "moe_token_permute": ("moe.md", "Tokens, size", "layer", ("MindSpore", "PyTorch"), "ms"),
    "moe_token_unpermute": ("moe.md", "Tokens, size", "layer", ("MindSpore", "PyTorch"), "ms"),
    "grouped_matmul": ("moe.md", "Tokens, size", "layer", ("MindSpore", "PyTorch"), "ms"),
    "grouped_quant_matmul": ("moe.md", "Tokens, size", "8 bits", ("MindSpore", "PyTorch"), "ms"),
}
_OTHERS = ("stock MindSpore", "PyTorch eager", "torch.compile", "ONNX Runtime")
_MOST = 4  # cases of a figure


@dataclass(frozen=True)
class Case:
    """Holds what was measured, and the times of each implementation, in `unit`."""

    name: str
    ours: float
    others: dict[str, float]
    unit: str


def cases(operator: str) -> tuple[str, list[Case]]:
    """The page whose figures these are, and the cases; none where no table has the operator."""
    if operator in _COLUMNS:
        page, heading, ours, others, unit = _COLUMNS[operator]
        rows = next(rows for title, rows in _tables(page) if title.startswith(heading))
        found = [_of_columns(row, ours, others, unit) for row in rows]
    else:
        page = "performance_operators.md"
        rows = [row for _, rows in _tables(page) for row in rows if re.match(rf"{operator}[ \[]", row.get("case", ""))]
        found = [_of_multiples(row) for row in rows]
    known = [case for case in found if case is not None and case.others]
    step = max(1, len(known) // _MOST)
    return page, known[step - 1 :: step][:_MOST]


def sections(operator: str, layer: str = "") -> list[tuple[str, str]]:
    """Page and heading of the sections with figures that speak of an operator or its layer."""
    names = [f"`{operator}`", f"`{layer}`" if layer else f"`{operator}`", f"`ops.{operator}`"]
    found = []
    for page in ("performance.md", "performance_operators.md", "convolution.md", "sparse.md", "moe.md", "llm.md"):
        parts = re.split(r"^## (.*)$", (DOCS / page).read_text(encoding="utf-8"), flags=re.MULTILINE)
        for heading, text in zip(parts[1::2], parts[2::2], strict=True):
            if any(name in text for name in names) and re.search(r"^\| .*\d", text, re.MULTILINE):
                found.append((page, heading))
    return found


def bars(found: list[Case]) -> str:
    """HTML: a group of bars for each case, one for each who took a time, as long as the logarithm of the time."""
    return "".join(f'<div class="bars"><p>{html.escape(case.name)}</p>{_group(case)}</div>\n' for case in found)


def _group(case: Case) -> str:
    times = {"ms_ascend_ops": case.ours, **case.others}
    least, most = min(times.values()) / 2, max(times.values())
    rows = []
    for name, time in times.items():
        share = _log(time / least) / _log(most / least)
        text = f"{_number(time)} {case.unit}" + ("" if name == "ms_ascend_ops" else f", {time / case.ours:.2g}x")
        kind = "ours" if name == "ms_ascend_ops" else "other"
        rows.append(
            f'<span class="who">{html.escape(name)}</span><span class="track"><span class="bar {kind}" '
            f'style="width:{share * 100:.0f}%"></span></span><span class="time">{text}</span>'
        )
    return "".join(rows)


def _log(value: float) -> float:
    return math.log2(max(value, 1.01))


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _of_columns(row: dict[str, str], ours: str, others: tuple[str, ...], unit: str) -> Case | None:
    columns = list(row)
    first = min(columns.index(name) for name in (ours, *others))
    label = f"{', '.join(columns[:first])}: {', '.join(row[name] for name in columns[:first])}"
    times = {name: time for name in others if (time := _time(row[name])) is not None}
    time = _time(row[ours])
    return None if time is None else Case(label, time, times, unit)


def _of_multiples(row: dict[str, str]) -> Case | None:
    time = _time(row["us"])
    if time is None:
        return None
    others = {name: factor * time for name in _OTHERS if (factor := _time(row.get(name, "-"))) is not None}
    return Case(f"{row['case']}, {row['dtype']}", time, others, "us")


def _time(text: str) -> float | None:
    text = text.strip("* ").replace(",", "")
    return float(text) if re.fullmatch(r"\d+(\.\d+)?", text) else None


def _tables(page: str) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """The tables of a page: the first heading, and the rows by their headings; an empty first cell is that above it."""
    for block in re.findall(r"(?:^\|.*\n)+", (DOCS / page).read_text(encoding="utf-8"), re.MULTILINE):
        lines = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in block.splitlines()]
        for above, line in pairwise(lines[2:]):
            line[0] = line[0] or above[0]
        yield lines[0][0], [dict(zip(lines[0], line, strict=False)) for line in lines[2:]]
