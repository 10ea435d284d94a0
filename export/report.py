"""What a substitution did, as an object that prints as a table."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from ms_ascend_ops.export.find import Found
from ms_ascend_ops.export.graph import Graph

__all__ = ["Difference", "Entry", "Report"]


@dataclass(frozen=True)
class Entry:
    """One place that was recognised."""

    place: str
    pattern: str
    engine: str
    replaced: bool
    text: str  # how it was replaced, or why not


@dataclass(frozen=True)
class Difference:
    """Largest difference between the network before and after, and the same as a share of the largest magnitude."""

    absolute: float
    relative: float

    def __str__(self) -> str:
        return f"{self.absolute:.2e} ({self.relative:.2e} of the largest magnitude)"


@dataclass
class Report:
    """The result of `optimize`: what was replaced, what was recognised but left, and what that changed."""

    level: str = "O2"
    entries: list[Entry] = field(default_factory=list)
    outputs: Difference | None = None
    gradients: Difference | None = None
    rolled_back: str = ""
    undo: list[Callable[[], None]] = field(default_factory=list, repr=False)
    graphs: list[tuple[str, Graph, list[Found]]] = field(default_factory=list, repr=False)

    @property
    def replaced(self) -> list[Entry]:
        """The places that hold a fused cell now."""
        return [entry for entry in self.entries if entry.replaced] if self.undo else []

    @property
    def skipped(self) -> list[Entry]:
        """The places that were recognised and left, each with the reason."""
        return [entry for entry in self.entries if not entry.replaced]

    def add_graph(self, place: str, graph: Graph | None, found: list[Found]) -> None:
        """Keep the graph of a place, and what was replaced in it, for the page."""
        if graph is not None:
            self.graphs.append((place, graph, found))

    def restore(self) -> None:
        """Give every cell its own construct back. Trained parameters stay as they are."""
        for step in reversed(self.undo):
            step()
        self.undo.clear()

    def __str__(self) -> str:
        header = ("place", "pattern", "engine", "result")
        rows = [header, *((e.place, e.pattern, e.engine, self._result(e)) for e in _grouped(self.entries))]
        widths = [max(len(row[column]) for row in rows) for column in range(3)]
        lines = ["  ".join([*(text.ljust(w) for text, w in zip(row, widths, strict=False)), row[3]]) for row in rows]
        lines.insert(1, "-" * max(map(len, lines)))
        if not self.entries:
            lines.append("nothing recognised")
        if self.outputs:
            lines.append(f"largest difference of an output: {self.outputs}")
        if self.gradients:
            lines.append(f"largest difference of a gradient: {self.gradients}")
        if self.rolled_back:
            lines.append(f"rolled back: {self.rolled_back}")
        return "\n".join(lines)

    def _result(self, entry: Entry) -> str:
        if not entry.replaced:
            return f"left: {entry.text}"
        word = "replaced" if self.undo else "replaced, then restored"
        return f"{word} ({entry.text})" if entry.text else word


def _grouped(entries: list[Entry]) -> Iterator[Entry]:
    """Places that differ in a number only, as the layers of a decoder do, become one: layers.*.mlp x4."""
    groups: dict[tuple[str, str, str, bool, str], list[Entry]] = {}
    for entry in entries:
        place = re.sub(r"\b\d+\b", "*", entry.place)
        groups.setdefault((place, entry.pattern, entry.engine, entry.replaced, entry.text), []).append(entry)
    for (place, *rest), members in groups.items():
        yield members[0] if len(members) == 1 else Entry(f"{place} x{len(members)}", *rest)  # type: ignore[arg-type]
