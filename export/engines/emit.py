"""Writes a watched cell with fused operators as the source of a new `construct`.

Only what holds for any batch and sequence is written: sub-cells, fused operators, sums, products, conversions and
halves. A cell that does more of its own (reshapes to given sizes, say) has no place here: `NotPortableError` says what.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mindspore import nn
from ms_ascend_ops.export.graphs.bypass import name_without
from ms_ascend_ops.export.graphs.graph import CALL, CONSTANT, INPUT, PARAMETER, Node
from ms_ascend_ops.export.graphs.sizes import permutation
from ms_ascend_ops.export.graphs.trace import Trace, unobserved
from ms_ascend_ops.export.matching.expressions import Expressions
from ms_ascend_ops.export.matching.find import Found

__all__ = ["NotPortableError", "Writer", "emit", "moved_texts", "path_to"]

_OPERATORS = {
    **dict.fromkeys(("Add", "Adds", "AddExt", "AddScalar"), "+"),
    **dict.fromkeys(("Sub", "Subs", "SubExt", "SubScalar"), "-"),
    **dict.fromkeys(("Mul", "Muls"), "*"),
    **dict.fromkeys(("Div", "Divs", "RealDiv"), "/"),
}
_HALVES = {"first": "ops.chunk({}, 2, {})[0]", "second": "ops.chunk({}, 2, {})[1]", "even": "{}[..., 0::2]",
           "odd": "{}[..., 1::2]"}  # fmt: skip


class NotPortableError(Exception):
    """Refuses a cell that does something which cannot be written for all sizes."""


def emit(cell: nn.Cell, seen: Trace, found: Sequence[Found]) -> list[str]:
    """Write the statements of a construct that does what was watched, with fused operators where they were found."""
    return Writer(cell, seen, found).statements()


def moved_texts(found: Found, texts: Sequence[str]) -> list[str]:
    """Return the inputs of an operator; those whose views were applied behind them have them applied to them now.

    A reshape gives an input the shape that another one has: sizes are not written.
    """
    made = list(texts)
    for place, via in found.moved.items():
        order = permutation(via)
        others = [i for i in range(len(texts)) if i not in found.moved and found.inputs[i].shape == via.shape]
        if order is not None:
            made[place] = f"{texts[place]}.permute({tuple(order)!r})"
        elif others:
            made[place] = f"{texts[place]}.reshape({texts[others[0]]}.shape)"
        else:
            raise NotPortableError(f"it also executes {via.kind}, which is left to the engine for MindIR")
    return made


class Writer:
    """Writes the statements of `emit`. `path` and `is_trained` are about MindSpore's cells."""

    def __init__(self, cell: Any, seen: Trace, found: Sequence[Found]) -> None:
        self.cell, self.seen = cell, seen
        self.lines: list[str] = []
        self._texts: dict[int, str] = {}
        self._fused = {id(node): (item, index) for item in found for index, node in item.outputs.items()}
        self._expressions = Expressions()
        self._count = 0
        self.needed = self._needed()

    def statements(self) -> list[str]:
        """Return all statements."""
        for node in self.seen.graph.nodes:  # sub-cells in the order in which they were called
            if node.kind == CALL and id(node) in self.needed:
                self.text(node)
        result = self.structure(self.seen.result)
        return [*self.lines, f"return {result}"]

    def path(self, name: str) -> str:
        """Return how a sub-cell or a parameter is reached."""
        return path_to(self.cell, name)

    def is_trained(self, name: str) -> bool:
        """Tell whether a parameter gets a gradient."""
        *path, last = name.split(".")
        owner = self.cell
        for part in path:
            owner = owner._cells[part]
        return bool(owner._params[last].requires_grad)

    def cast(self, text: str, dtype: str) -> str:
        """Write a conversion."""
        return f"{text}.astype(mindspore.{dtype})"

    def _needed(self) -> set[int]:
        seen: set[int] = set()
        stack = list(self.seen.graph.outputs)
        while stack:
            node = stack.pop()
            if id(node) in seen:
                continue
            seen.add(id(node))
            stack.extend(self._sources(node))
        return seen

    def _sources(self, node: Node) -> Sequence[Node]:
        if id(node) in self._fused:
            return list(self._fused[id(node)][0].inputs)
        if id(node) in self.seen.calls:
            return (self.seen.calls[id(node)][0],)
        return list(node.inputs)

    def structure(self, result: Any) -> str:
        if isinstance(result, tuple):
            items = [self.structure(item) for item in result]
            return f"({', '.join(items)}{',' if len(items) == 1 else ''})"
        return self.text(result)

    def text(self, node: Node) -> str:
        """Return what stands for a value, after the lines that compute it."""
        if id(node) not in self._texts:
            self._texts[id(node)] = self._write(node)
        return self._texts[id(node)]

    def _assigned(self, expression: str) -> str:
        self._count += 1
        self.lines.append(f"t{self._count} = {expression}")
        return f"t{self._count}"

    def _write(self, node: Node) -> str:  # noqa: PLR0911
        if node.kind == INPUT:
            return str(node.name)
        if node.kind == PARAMETER:
            return self.path(node.name)
        if id(node) in self._fused:
            return self._write_fused(*self._fused[id(node)])
        if id(node) in self.seen.calls:
            call, index = self.seen.calls[id(node)]
            return self.text(call) if index is None else f"{self.text(call)}[{index}]"
        if node.kind == CALL:
            return self._write_call(node)
        if node.kind == CONSTANT:
            return self._write_constant(node)
        return self._write_other(node)

    def _write_fused(self, found: Found, index: int) -> str:
        key = id(found)
        if key not in self._texts:
            for i in found.inputs:
                if i.kind == CONSTANT and not i.name:
                    raise NotPortableError("a tensor that is no parameter goes into the operator")
            texts = moved_texts(found, [self.text(i) for i in found.inputs])
            if any(not self._is_constant(found.inputs[i]) for i in found.fused.constant):
                raise NotPortableError("a gradient may be needed that the operator does not give")
            self._texts[key] = self._assigned(found.fused.call(texts))
        return found.fused.result(self._texts[key], index)

    def _is_constant(self, node: Node) -> bool:
        """Tell whether no parameter needs a gradient through a value; what comes from outside counts as such."""
        if node.kind != PARAMETER:
            return node.kind in (INPUT, CONSTANT)
        return not self.is_trained(node.name)

    def _write_call(self, node: Node) -> str:
        positional = node.attributes["positional"]
        count = positional + len(node.attributes["keywords"])  # behind them are the parameters of a linear layer
        arguments = [self.text(i) for i in node.inputs[:count]]
        named = zip(node.attributes["keywords"], arguments[positional:], strict=True)
        arguments = [*arguments[:positional], *(f"{name}={value}" for name, value in named)]
        path = self.path(node.name)
        if "without" in node.attributes:
            path += f".{name_without(node.attributes['without'])}"
        return self._assigned(f"{path}({', '.join(arguments)})")

    def _write_constant(self, node: Node) -> str:
        if node.name:
            return self.path(node.name)
        if node.shape is not None:
            if unobserved(node) or node.value.size != 1 or node.dtype not in ("float32", "float16", "bfloat16"):
                raise NotPortableError("it uses a tensor that is no parameter")
            return repr(float(node.value.reshape(()))) if node.shape == () else f"Tensor({node.value.tolist()})"
        if node.value is None or isinstance(node.value, (bool, int, float, str)):
            return repr(node.value)
        raise NotPortableError(f"it uses {node.value!r}")

    def _write_other(self, node: Node) -> str:
        if node.kind == "TupleGetItem":
            source = node.inputs[0]
            if source.kind == CALL:
                return f"{self.text(source)}[{node.inputs[1].value}]"
        expr = self._expressions(node)
        if expr.op == "half" and expr.inputs[0].node is not None and expr.attributes["axis"] == -1:
            return _HALVES[expr.attributes["which"]].format(self.text(expr.inputs[0].node), -1)
        if node.kind in _OPERATORS:
            a, b = (self.text(i) for i in node.inputs[:2])
            return self._assigned(f"{a} {_OPERATORS[node.kind]} {b}")
        if node.kind == "Neg":
            return self._assigned(f"-{self.text(node.inputs[0])}")
        if node.kind == "Cast":
            return self._assigned(self.cast(self.text(node.inputs[0]), node.dtype))
        if node.kind == "MakeTuple":
            return self.structure(tuple(node.inputs))
        raise NotPortableError(f"it also executes {node.kind}, which is left to the rewrite engine")


def path_to(cell: nn.Cell, path: str, name: str = "self") -> str:
    """Return how a sub-cell or a parameter is reached from a cell that is called `name`."""
    text, owner = name, cell
    for part in path.split("."):
        if isinstance(owner, nn.SequentialCell):
            text += f".cell_list[{list(owner._cells).index(part)}]"
        elif isinstance(owner, nn.CellList):
            text += f"[{list(owner._cells).index(part)}]"
        else:
            text += f".{part}"
        owner = owner._cells.get(part, owner)
    return text
