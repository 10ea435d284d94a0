"""Implements engine 3: a MindIR file in, a MindIR file with fused operators out.

Nothing is run, and the Python of the network is not needed.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import mindspore as ms
import numpy as np
from mindspore import Tensor
from mindspore.train.mind_ir_pb2 import ModelProto
from ms_ascend_ops.export.engines.timing import GRAPH, running, slower
from ms_ascend_ops.export.files.load import InputSpec, load
from ms_ascend_ops.export.files.model import MOST_BYTES, parameter_files, read_model, write_file
from ms_ascend_ops.export.graphs.mindir_graph import MindIRGraph, graphs_of
from ms_ascend_ops.export.matching.find import check_level, find
from ms_ascend_ops.export.matching.patterns import PATTERNS, PRESENT, Row
from ms_ascend_ops.export.passes.head_packing import pack_heads
from ms_ascend_ops.export.passes.packing import pack
from ms_ascend_ops.export.passes.simplify import fold_products, simplify, tidy
from ms_ascend_ops.export.reports.measure import measured
from ms_ascend_ops.export.reports.report import Entry, Report

from ms_ascend_ops.deprecation import warn_needless

__all__ = ["optimize_mindir", "verify_mindir"]


# Operators to look for before the others.
_FIRST = frozenset({"flash_attention"})

# Products of gates and heads are joined here; `load` joins those next to operators, on a CPU.
_APART = frozenset({"linear layer"})


def optimize_mindir(
    source: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    level: str = "O2",
    patterns: Sequence[Row] = PATTERNS,
    join_products: bool | None = None,
) -> Report:
    """Write a copy of a MindIR file in which fused operators stand where their formulas stood.

    Args:
        source: a file that `export_mindir` or `mindspore.export` wrote. It is not changed.
        output: where to write, not `source` itself; files with the parameters of a large network are copied beside it.
        level: as in `optimize`.
        patterns: what to look for.
        join_products: without effect, until release 0.3: `load` does so on a CPU.

    Returns:
        A report that prints as a table.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is no MindIR, it is cut short, `level` is none, or `output` is `source`.
    """
    if join_products is not None:
        warn_needless("optimize_mindir: join_products", "`load` joins products on a CPU")
    check_level(level, "optimize_mindir")
    path, target = Path(source), Path(output)
    if not path.is_file():
        raise FileNotFoundError(f"optimize_mindir: there is no file {path}")
    if target.exists() and target.samefile(path):
        raise ValueError(f"optimize_mindir: output must be another file than source, got {target} for both")
    if not target.absolute().parent.is_dir():
        raise ValueError(f"optimize_mindir: output must be in a folder that exists, got {target}")
    model = read_model(path, "optimize_mindir")
    files = parameter_files(model, path, "optimize_mindir")
    report = Report(level=level)
    if level != "O0":
        report.entries += simplify(model)
        # Heads that share keys, and transposes, are part of an attention: handle the remainder afterwards.
        attention = [row for row in patterns if row.op in _FIRST]
        for graph in graphs_of(model):
            _substitute(model, graph, attention, report)
        report.entries += fold_products(model)
        patterns = [row for row in patterns if row.op not in _FIRST and row.name not in _APART]
    for graph in graphs_of(model):
        _substitute(model, graph, patterns, report)
    if level != "O0":
        tidy(model)
    content = model.SerializeToString()
    if len(content) > MOST_BYTES:
        raise ValueError(f"optimize_mindir: {target} would have {len(content)} bytes, more than a protobuf can have")
    for location, file in files.items():
        copy = target.absolute().parent / location
        if copy.resolve() != file:
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copy)
    write_file(target.absolute(), content)
    return report


def _substitute(model: ModelProto, graph: MindIRGraph, patterns: Sequence[Row], report: Report) -> None:
    """Put fused operators into one graph."""
    with running(GRAPH):
        found, left = find(graph.graph, patterns, report.level, slower)
    first = any(row.op in _FIRST for row in patterns)
    joins = report.level == "O3" and not first
    wanted = {row.op for row in patterns}
    present, _ = find(graph.graph, [row for row in PRESENT if joins and row.op in wanted], report.level)
    places = {id(item): graph.place_of(item) for item in [*found, *present]}
    packed = pack(model, graph.proto, graph.graph, [*found, *present]) if joins else {}
    found += [item for item in present if id(item) in packed]
    for item in found:
        notes = [item.fused.note, packed[id(item)].note if id(item) in packed else ""]
        report.entries.append(Entry(places[id(item)], item.row.name, "mindir", True, "; ".join(n for n in notes if n)))
    for place in left:
        report.entries.append(Entry(graph.place_of(place), place.row.name, "mindir", False, place.reason))
    entries, done = pack_heads(graph, [*found, *present]) if joins else ([], set())
    report.entries += entries
    if found or not first:
        report.add_graph(graph.name, graph.graph, [*found, *(item for item in present if id(item) in done)])
    found = [item for item in found if id(item) not in done]
    if found:
        graph.replace(found, packed)


def verify_mindir(source: str | os.PathLike[str], output: str | os.PathLike[str], report: Report) -> None:
    """Run both files on the same random inputs, and enter the difference in the report.

    A dim that the file leaves open is 3. Beyond the tolerance for the dtypes of the outputs, `output` is deleted and
    the report says so; also where `source` does not run on this machine, with which nothing can be compared then.
    """
    try:
        before = load(source)
        inputs = [_random(spec, number) for number, spec in enumerate(before.inputs)]
        stock = measured(before(*inputs))
    except RuntimeError as error:
        Path(output).unlink()
        report.roll_back(f"it cannot be verified here, as the file itself does not run: {_reason(error)}")
        return
    try:
        fused = measured(load(output)(*inputs))
    except RuntimeError as error:
        Path(output).unlink()
        report.roll_back(f"the network fails with the fused operators: {_reason(error)}")
        return
    report.outputs, _ = stock.difference(fused)
    if not report.outputs.relative <= stock.tolerance:
        Path(output).unlink()
        report.roll_back(f"the outputs differ by {report.outputs.relative:.2e}, more than {stock.tolerance:g}")


def _reason(error: RuntimeError) -> str:
    """Return what MindSpore says, without its frames and the stack of its C++ part."""
    if missing := _UNSUPPORTED.search(str(error)):
        return f"{missing[1]} has no kernel on a device of kind {missing[2]}"
    lines = [line for line in str(error).splitlines() if line.strip(" -")]
    return lines[0] if lines else type(error).__name__


_UNSUPPORTED = re.compile(r"Unsupported op \[(\w+)\] on (\w+)")


def _random(spec: InputSpec, seed: int) -> Tensor:
    shape = tuple(3 if size < 0 else size for size in spec.shape)
    random = np.random.default_rng(seed)
    if spec.dtype in (ms.float32, ms.float16, ms.bfloat16, ms.float64):
        return Tensor(random.standard_normal(shape), spec.dtype)
    return Tensor(random.integers(0, 2, shape), spec.dtype)
