"""Puts the operators into an ONNX file: `optimize`."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, NodeProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from ms_ascend_ops import registry
from ms_ascend_ops.export.matching.find import Found, check_level, find
from ms_ascend_ops.export.matching.patterns import PATTERNS, Row
from ms_ascend_ops.export.matching.rows import Mask
from ms_ascend_ops.export.matching.scores import mask_kind
from ms_ascend_ops.export.reports.report import Entry, Report
from ms_ascend_ops.onnx.builtins import replace_builtins
from ms_ascend_ops.onnx.files import (
    DAMAGE,
    ONNX_DOMAIN,
    check_model,
    constants_of,
    damaged,
    lacks_shape,
    name_domain,
    read_model,
    write_model,
)
from ms_ascend_ops.onnx.graphs import Vector, captured, read, shape_of
from ms_ascend_ops.onnx.schemas import DOMAIN, VERSION

__all__ = ["optimize"]

ENGINE = "onnx"

# A number that takes the place of a score, or is added to it, hides the key from here on, whatever the scores are.
_HIDDEN = -1e30

# Operators of which masks are made.
_ELEMENTWISE = frozenset(
    {
        *("Add", "And", "Cast", "Equal", "Greater", "GreaterOrEqual", "Identity", "Less", "LessOrEqual", "Mul", "Not"),
        *("Or", "Reshape", "Squeeze", "Sub", "Unsqueeze", "Where"),
    }
)

# A mask of more elements is not looked at.
_MOST_OF_A_MASK = 1 << 26

# ONNX Runtime's own operators do these faster: it packs weights once (docs/onnx.md, Speed).
_SLOWER = frozenset({"matmul"})


def optimize(
    source: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    level: str = "O2",
    patterns: Sequence[Row] = PATTERNS,
    verify: bool | None = None,
    atc: bool = False,
) -> Report:
    """Write a copy of an ONNX file in which operators of this package stand where their formulas stood.

    Places are found by what the graph computes, with the patterns of `ms_ascend_ops.optimize`; operators that ONNX
    Runtime or ONNX itself has fused already (RMSNormalization, RotaryEmbedding, Attention, SkipLayerNormalization, ...)
    are replaced, too. The nodes are of the domain "ms_ascend_ops": ONNX Runtime runs them with `library_path()`.

    Args:
        source: an ONNX file. It is not changed.
        output: where to write, not `source` itself. If `source` has its tensors in files beside it, `output` gets one.
        level: O0 nothing; O1 exact replacements; O2 those too that round in other places in half precision; O3 one
            operator in place of several layers, as residual add and norm; without `atc` no products of matrices, which
            ONNX Runtime calculates faster.
        patterns: what to look for.
        verify: run both files on the same random inputs in ONNX Runtime, and delete `output` if theirs differ by more
            than rounding. None: where ONNX Runtime is installed.
        atc: for CANN's `atc --framework=5`: every node of ONNX's own says its domain, "ai.onnx", by name. ATC knows the
            empty name only in a model of one domain. `verify` is of the same file before that.

    Returns:
        A report that prints as a table.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is no ONNX file, or a damaged one; `level` is none; or `output` is `source`.
        RuntimeError: `verify`, and ONNX Runtime is missing or cannot run the file.
    """
    check_level(level, "optimize")
    path, target = Path(source), Path(output)
    if not path.is_file():
        raise FileNotFoundError(f"optimize: there is no file {path}")
    if target.exists() and target.samefile(path):
        raise ValueError(f"optimize: output must be another file than source, got {target} for both")
    if not target.absolute().parent.is_dir():
        raise ValueError(f"optimize: output must be in a folder that exists, got {target}")
    model, beside = read_model(path, "optimize")
    report = Report(level=level)
    try:
        if level != "O0":
            _optimize(model, report, [row for row in patterns if atc or row.op not in _SLOWER])
        check_model(model)
    except DAMAGE as error:  # what the checker lets pass
        raise damaged("optimize", path, error) from error
    write_model(model, target, beside)
    from ms_ascend_ops.onnx import runtime  # noqa: PLC0415  (which may have no ONNX Runtime)

    has_shapes = all(not lacks_shape(value) for value in model.graph.input)  # else inputs cannot be drawn
    if verify or (verify is None and runtime.is_installed() and report.replaced and has_shapes):
        runtime.verify(path, target, report)
    if (
        atc and not report.rolled_back
    ):  # last: no checker, and in subgraphs no ONNX Runtime, knows operators by that name
        written = onnx.load(target, load_external_data=False)
        name_domain(written)
        onnx.save_model(written, target)
    return report


def _optimize(model: ModelProto, report: Report, patterns: Sequence[Row]) -> None:
    opset = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 1)
    _infer_shapes(model)
    while True:  # behind each of them the shapes may be known then
        builtins = replace_builtins(model.graph, opset)
        replaced = [entry for entry in builtins if entry.replaced]
        report.entries += replaced or builtins
        if not replaced:
            break
        _ask_for_domain(model)
        _infer_shapes(model)
    while True:  # what was put in may be part of something larger
        graph = read(model.graph, opset)
        found, left = find(graph, patterns, report.level)
        entries = _Substitution(model.graph, opset).replace(found)
        report.entries += entries
        if not any(entry.replaced for entry in entries):
            break
        _ask_for_domain(model)
        _infer_shapes(model)
    for place in left:
        if place.root.origin is not None:
            report.entries.append(Entry(str(place.root.origin), place.row.name, ENGINE, False, place.reason))
    if any(entry.replaced for entry in report.entries):
        _ask_for_domain(model)
        _drop_unused(model.graph)
        _infer_shapes(model)
    report.add_graph(model.graph.name or "the network", graph, [])


def _ask_for_domain(model: ModelProto) -> None:
    if all(o.domain != DOMAIN for o in model.opset_import):
        model.opset_import.append(helper.make_opsetid(DOMAIN, VERSION))


def _infer_shapes(model: ModelProto) -> None:
    """Note the shapes of all values in the graph; without its tensors, which may be large."""
    held = [(tensor, tensor.raw_data) for tensor in model.graph.initializer if len(tensor.raw_data) > 1 << 16]
    for tensor, _ in held:
        tensor.ClearField("raw_data")
    try:
        inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
    finally:
        for tensor, data in held:
            tensor.raw_data = data
    del model.graph.value_info[:]
    model.graph.value_info.extend(inferred.graph.value_info)
    for mine, other in zip(model.graph.output, inferred.graph.output, strict=True):
        mine.CopyFrom(other)


def _drop_unused(graph: GraphProto) -> None:
    """Remove nodes and constants that nothing needs any more."""
    while True:
        used = {value.name for value in graph.output}
        for node in graph.node:
            used.update(node.input)
            used.update(captured(node))
        dead = [node for node in graph.node if not any(name in used for name in node.output)]
        if not dead:
            break
        for node in dead:
            graph.node.remove(node)
    inputs = {value.name for value in graph.input}
    for tensor in [t for t in graph.initializer if t.name not in used and t.name not in inputs]:
        graph.initializer.remove(tensor)


class _Substitution:
    """Puts what was found in a graph into it."""

    def __init__(self, graph: GraphProto, opset: int) -> None:
        self._graph = graph
        self._opset = opset
        self._position = {name: i for i, node in enumerate(graph.node) for name in node.output if name}
        self._tensors = constants_of(graph)
        self._names = {*self._position, *self._tensors, *(value.name for value in graph.input)}
        self._names |= {name for node in graph.node for name in captured(node)}
        self._numbers = count()
        self._vectors: dict[str, str] = {}
        self._made: dict[int, list[NodeProto]] = {}  # in front of which node of the graph
        self._gone: dict[str, str] = {}  # values that a new node makes, and the name that the old node keeps

    def replace(self, found: Sequence[Found]) -> list[Entry]:
        """Replace them all; the places, those too that must stay."""
        entries = []
        for one in found:
            root = one.root.origin
            if root is None:  # between two nodes of ONNX: a part of something else
                continue
            reason = self._blocked(one)
            if not reason:
                self._put(one)
            place = self._graph.node[self._position[root]].name or str(root)
            entries.append(Entry(place, one.row.name, ENGINE, not reason, reason or one.fused.note))
        self._rebuild()
        return entries

    def _blocked(self, found: Found) -> str:
        inputs, outputs = [n.origin for n in found.inputs], [n.origin for n in found.outputs.values()]
        if None in inputs or None in outputs:
            return "a node of ONNX does more than is replaced"
        first = min(self._position[name] for name in outputs)
        if any(self._position.get(str(name), -1) >= first for name in inputs):
            return "one of its results is used before all of its inputs are there"
        return ""

    def _put(self, found: Found) -> None:
        fused = found.fused
        signature = registry.signature(fused.op)
        outputs = {index: str(node.origin) for index, node in found.outputs.items()}
        first = min(self._position[name] for name in outputs.values())
        made = self._made.setdefault(first, [])
        inputs = [self._input(node.origin) for node in found.inputs]
        values = dict(fused.attributes)
        for place in fused.lifts():
            inputs[place] = self._unsqueezed(inputs[place], 1, made)
        for place, mask in fused.masks.items():
            source = found.inputs[place]
            known = "" if mask.negative else self._known_mask(source.origin, mask.hidden)
            if known and fused.op == "flash_attention":  # a constant that hides nothing, or the keys behind a query
                del inputs[place]
                values["causal"] = bool(values["causal"]) or known == "causal"
                continue
            rank = len(source.shape or ())
            inputs[place] = self._mask(inputs[place], rank, mask, made)
        width = (fused.inputs[0].shape or (1,))[-1]
        inputs += [self._constant(fused.op, np.full(width, value, np.float32)) for value in fused.filled]
        results = [outputs.get(i, "") for i in range(len(signature.outputs))]
        while not results[-1]:
            results.pop()
        if not results[0]:  # it may not be left out
            results[0] = self._name(fused.op)
        attributes: dict[str, Any] = {
            name: int(value) if isinstance(value, bool) else value
            for name, value in signature.check_attributes(values).items()
        }
        name = self._name(f"{fused.op}_{self._graph.node[first].name or outputs[min(outputs)]}")
        final = results[0]
        if fused.lifted:
            results[0] = self._name(fused.op)
        made.append(helper.make_node(fused.op, inputs, results, name, domain=DOMAIN, **attributes))
        if fused.lifted:
            made.append(helper.make_node("Squeeze", [results[0], self._constant("axes", np.arange(1))], [final]))
        for value in outputs.values():
            self._gone[value] = self._name(f"{value}_replaced")

    def _name(self, stem: str) -> str:
        while (name := f"{stem}_{next(self._numbers)}") in self._names:
            pass
        self._names.add(name)
        return name

    def _input(self, origin: Any) -> str:
        if not isinstance(origin, Vector):
            return str(origin)
        if origin.name not in self._vectors:
            name = self._vectors[origin.name] = self._name(f"{origin.name}_vector")
            values = numpy_helper.to_array(self._tensors[origin.name]).reshape(-1)
            tensor = self._graph.initializer.add()
            tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return self._vectors[origin.name]

    def _constant(self, stem: str, values: np.ndarray[Any, Any]) -> str:
        name = self._name(stem)
        self._graph.initializer.add().CopyFrom(numpy_helper.from_array(values, name))
        return name

    def _known_mask(self, origin: Any, hidden: bool | None) -> str:
        """Tell whether a mask is a constant that hides no key, or as a causal attention does; nothing: neither."""
        values = self._evaluated(origin) if isinstance(origin, str) else None
        return "" if values is None else mask_kind(values, hidden, _HIDDEN)

    def _evaluated(self, name: str) -> np.ndarray[Any, Any] | None:
        """Return a value that follows from constants by element-wise operators, as exporters write masks of
        fixed sizes.
        """
        positions: set[int] = set()
        tensors: dict[str, onnx.TensorProto] = {}
        wanted = [name]
        while wanted:
            value = wanted.pop()
            position = self._position.get(value)
            if value in self._tensors:
                tensors[value] = self._tensors[value]
            elif position is not None and self._is_elementwise(self._graph.node[position]):
                if position not in positions:
                    positions.add(position)
                    wanted += [operand for operand in self._graph.node[position].input if operand]
            else:
                return None
        result = helper.make_value_info(name, onnx.TypeProto())
        nodes = [self._graph.node[i] for i in sorted(positions)]
        made = helper.make_graph(nodes, "mask", [], [result], list(tensors.values()))
        model = helper.make_model(made, opset_imports=[helper.make_opsetid("", self._opset)])
        inferred = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
        sizes = [shape_of(value)[0] for value in (*inferred.value_info, *inferred.output)]
        if any(size is None or not 0 <= math.prod(size) <= _MOST_OF_A_MASK for size in sizes):
            return None
        evaluator: Any = ReferenceEvaluator(model)
        found = evaluator.run(None, {})[0] if nodes else numpy_helper.to_array(tensors[name])
        return found if isinstance(found, np.ndarray) else None

    @staticmethod
    def _is_elementwise(node: NodeProto) -> bool:
        return node.domain in ("", ONNX_DOMAIN) and node.op_type in _ELEMENTWISE

    def _mask(self, value: str, rank: int, mask: Mask, made: list[NodeProto]) -> str:
        """Return a mask as the kernel takes it: numbers in the place of bools, and ones in front."""
        if mask.negative:
            made.append(helper.make_node("Neg", [value], [value := self._name("mask")]))
        if mask.hidden is not None:
            low = self._constant("masked", np.array(-np.inf, np.float32))
            zero = self._constant("seen", np.array(0, np.float32))
            added = self._name("mask")
            made.append(helper.make_node("Where", [value, *((low, zero) if mask.hidden else (zero, low))], [added]))
            value = added
        return self._unsqueezed(value, mask.rank - rank, made)

    def _unsqueezed(self, value: str, axes: int, made: list[NodeProto]) -> str:
        """Return a value with so many axes of one element in front."""
        if axes <= 0:
            return value
        wide = self._name(f"{value}_unsqueezed")
        made.append(helper.make_node("Unsqueeze", [value, self._constant("axes", np.arange(axes))], [wide]))
        return wide

    def _rebuild(self) -> None:
        """Rebuild the list of nodes in their order, without those whose results are not needed any more."""
        nodes: list[NodeProto] = []
        for i, node in enumerate(self._graph.node):
            nodes += self._made.get(i, ())
            for j, name in enumerate(node.output):
                if name in self._gone:
                    node.output[j] = self._gone[name]
            nodes.append(node)
        copies = [NodeProto.FromString(node.SerializeToString()) for node in nodes]
        del self._graph.node[:]
        self._graph.node.extend(copies)
        _drop_unused(self._graph)
