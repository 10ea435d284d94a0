"""Pairs the layers of two records that mean the same.

Layers of networks and dumps do where their names and calls agree. In MindIRs a fused operator means what the last node
gave that it replaces:

1. A file that `optimize_mindir` wrote has its operators under the names of the values that they replace. Names tell,
   where in both files, but for a few, the same operators give what is called the same.
2. In other files nodes agree that compute the same from what agrees, beginning with inputs and parameters. What such a
   pair takes agrees as well, whatever has computed it: on one side, a fused operator.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any

from ms_ascend_ops.debug.dump import Layer, Record

__all__ = ["pairs"]

_VIEWS = frozenset({"Reshape", "Transpose", "Cast"})  # what a replacement may end with
_COMMUTE = frozenset({"Add", "Mul", "AddExt", "Maximum", "Minimum", "Equal", "LogicalAnd", "LogicalOr"})


def pairs(a: Record, b: Record) -> Iterator[tuple[Layer, Layer]]:
    """Yield pairs in the order of A."""
    nodes_a, nodes_b = ([layer for layer in record.layers if layer.node is not None] for record in (a, b))
    fused = {(layer.kind, layer.name) for layer in nodes_a if layer.node and layer.node.fused}
    if not nodes_a or not nodes_b or fused == {(i.kind, i.name) for i in nodes_b if i.node and i.node.fused}:
        yield from _by_order(a, b)
        return
    same = _by_name(nodes_a, nodes_b)
    if same is None:
        same = _Alignment(nodes_a, nodes_b).found()
    by_name = {layer.node.name: layer for layer in nodes_b if layer.node}
    for layer in nodes_a:
        if layer.node and layer.node.name in same:
            yield layer, by_name[same[layer.node.name]]
    yield a.layers[-1], b.layers[-1]  # what the networks give


def _by_order(a: Record, b: Record) -> Iterator[tuple[Layer, Layer]]:
    """Pair layers by name and call, as far as they stand in the same order."""
    keys = [[(layer.name, layer.number, _form(layer)) for layer in record.layers] for record in (a, b)]
    blocks = SequenceMatcher(None, keys[0], keys[1], autojunk=False).get_matching_blocks()
    for block in blocks:
        yield from zip(a.layers[block.a : block.a + block.size], b.layers[block.b : block.b + block.size], strict=True)


def _form(layer: Layer) -> Any:
    """Return what has to agree beside the name: nothing of cells, shapes of nodes of a MindIR, whose names repeat."""
    return _shape(layer) if layer.node is not None or (not layer.inputs and layer.kind != "MindIR") else None


def _shape(layer: Layer) -> tuple[Any, ...]:
    return tuple(value.shape for value in layer.outputs)


def _by_name(a: Sequence[Layer], b: Sequence[Layer]) -> dict[str, str] | None:
    """Return values of the same name; None: the names of the two files have nothing to do with each other."""
    others = {layer.node.name: layer for layer in b if layer.node}
    known = {layer.node.name: layer for layer in [*a, *b] if layer.node and layer.node.put_in}
    found, apart = {}, 0
    for layer in a:
        assert layer.node is not None
        other = others.get(layer.node.name)
        if other is None or _shape(layer) != _shape(other):
            continue
        if layer.kind != other.kind and not (_replaces(layer, known) or _replaces(other, known)):
            apart += 1  # a few are other passes of `optimize_mindir`, as Mul for InplaceMul
        else:
            found[layer.node.name] = layer.node.name
    return found if len(found) * 4 >= min(len(a), len(b)) and apart * 8 <= len(found) else None


def _replaces(layer: Layer, known: dict[str, Layer]) -> bool:
    """Tell whether `optimize_mindir` has put it in: an operator, or a view of what one gives."""
    node = layer.node
    return node is not None and (node.put_in or (layer.kind in _VIEWS and bool(node.taken) and node.taken[0] in known))


class _Alignment:
    """Aligns values of two graphs that agree, by what they are computed from and by what takes them."""

    def __init__(self, a: Sequence[Layer], b: Sequence[Layer]) -> None:
        self._a, self._b = a, b
        self._layers = [{layer.node.name: layer for layer in side if layer.node} for side in (a, b)]
        self._same: dict[str, str] = {}
        self._back: dict[str, str] = {}

    def found(self) -> dict[str, str]:
        self._anchors()
        before = -1
        while len(self._same) != before:
            before = len(self._same)
            self._forwards()
            self._backwards()
        return self._same

    def _pair(self, a: str, b: str) -> None:
        one, other = self._layers[0].get(a), self._layers[1].get(b)
        if one and other and a not in self._same and b not in self._back and _shape(one) == _shape(other):
            self._same[a], self._back[b] = b, a

    def _anchors(self) -> None:
        """Pair what takes the same parameters by the same operator, if it is called as often."""
        sides: list[dict[Any, list[str]]] = [defaultdict(list), defaultdict(list)]
        for layers, side in zip((self._a, self._b), sides, strict=True):
            for layer in layers:
                if layer.node and layer.node.parameters:
                    side[layer.kind, layer.node.fused, layer.node.parameters, _shape(layer)].append(layer.node.name)
        for key, names in sides[0].items():
            if len(names) == len(sides[1][key]):
                for one, other in zip(names, sides[1][key], strict=True):
                    self._pair(one, other)

    def _key(self, layer: Layer, same: dict[str, str] | None) -> Any:
        """Return the operator and what it takes, in names of B; None: some of that is not known there."""
        assert layer.node is not None
        known = self._layers[0] if same is not None else {}
        taken = [same.get(name) if same is not None and name in known else name for name in layer.node.taken]
        # A value without a layer, as the input of a network, is called differently in each file.
        names = [
            name if name in self._layers[1] or name in layer.node.parameters else ""
            for name in taken
            if name is not None
        ]
        if len(names) != len(taken) or not any(names):
            return None
        return layer.kind, layer.node.fused, tuple(names), _shape(layer)

    def _forwards(self) -> None:
        free: dict[Any, list[str]] = defaultdict(list)
        for layer in self._b:
            if layer.node and layer.node.name not in self._back and (key := self._key(layer, None)) is not None:
                free[key].append(layer.node.name)
        for layer in self._a:
            if layer.node and layer.node.name not in self._same:
                names = free.get(self._key(layer, self._same), [])
                if len(names) == 1:  # of several, constants or the parts of a tuple tell them apart
                    self._pair(layer.node.name, names[0])

    def _backwards(self) -> None:
        for a, b in list(self._same.items())[::-1]:
            one, other = self._layers[0][a], self._layers[1][b]
            assert one.node is not None
            assert other.node is not None
            if (one.kind, len(one.node.taken)) != (other.kind, len(other.node.taken)):
                continue
            free = [
                (x, y)
                for x, y in zip(one.node.taken, other.node.taken, strict=True)
                if x not in self._same and y not in self._back and x in self._layers[0] and y in self._layers[1]
            ]
            if len(free) == 1 or one.kind not in _COMMUTE:
                for x, y in free:
                    self._pair(x, y)
