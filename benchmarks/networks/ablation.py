"""Measures the ceiling: a network without the operators that are replaced.

Where a fused operator would stand, its first input of the right shape is handed on. What the other inputs are computed
from stays: a projection whose result only a product used is still calculated. A place none of whose inputs has the
shape of the result stays, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ms_ascend_ops.export.files.model import parameter_files, read_model, write_file
from ms_ascend_ops.export.graphs.graph import Node
from ms_ascend_ops.export.graphs.mindir_graph import MindIRGraph, graphs_of
from ms_ascend_ops.export.matching.find import Found, find
from ms_ascend_ops.export.matching.patterns import PATTERNS, Row

from ms_ascend_ops import ops as fused

__all__ = ["ablate_mindir", "without_operators"]


def ablate_mindir(source: Path, output: Path, patterns: Sequence[Row] = PATTERNS) -> int:
    """Write a copy of a MindIR, in the same folder, in which what level O2 replaces does nothing.

    Returns:
        How many places there were.
    """
    if source.parent != output.parent:
        raise ValueError(f"ablate_mindir: {output} must be in the folder of {source}, where its parameters may be")
    model = read_model(source, "ablate_mindir")
    parameter_files(model, source, "ablate_mindir")
    count = 0
    for graph in graphs_of(model):
        found, _ = find(graph.graph, patterns, "O2")
        made = [_bypass(graph, item, value) for item in found for value in item.outputs.values()]
        graph.put(node for nodes in made for node in nodes)
        count += sum(map(bool, made))
    write_file(output, model.SerializeToString())
    return count


def _bypass(graph: MindIRGraph, found: Found, value: Node) -> list[Any]:
    """Return what hands an input on under the name of a value. The other inputs still come before it."""
    kept = next((i for i in found.inputs if i.dtype == value.dtype and i.shape == value.shape), None)
    if kept is None:
        return []
    return graph.depend(value, kept, [i for i in found.inputs if i is not kept])


# MindSpore compiles these functions: with their names for the inputs, and without annotations.
def _first(x, *rest, **attributes):  # type: ignore[no-untyped-def]
    return x


def _twice(x, *rest, **attributes):  # type: ignore[no-untyped-def]
    return x, x


def _three_times(x, *rest, **attributes):  # type: ignore[no-untyped-def]
    return x, x, x


def _sum(a, b, *rest, **attributes):  # type: ignore[no-untyped-def]
    return a + b  # both are needed, in both directions


def _half(x, *rest, **attributes):  # type: ignore[no-untyped-def]
    return x[..., : x.shape[-1] // 2]


# Maps a function to its replacement, which returns as many tensors.
_BYPASSES: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("gelu", "softmax", "scaled_masked_softmax", "rotary_embedding"), _first),
    **dict.fromkeys(("rms_norm", "flash_attention"), _twice),
    **dict.fromkeys(("layer_norm", "group_norm"), _three_times),
    **dict.fromkeys(("silu_mul", "gelu_mul"), _sum),
    **dict.fromkeys(("swiglu", "geglu"), _half),
}


@contextmanager
def without_operators() -> Iterator[None]:
    """Turn the functions that `optimize` puts into a network into no-ops within the block, for graphs compiled
    in it.
    """
    before = {name: getattr(fused, name) for name in _BYPASSES}
    try:
        for name, bypass in _BYPASSES.items():
            setattr(fused, name, bypass)
        yield
    finally:
        for name, function in before.items():
            setattr(fused, name, function)
