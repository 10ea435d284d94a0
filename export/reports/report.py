"""Reports what a substitution did, as an object that prints as a table."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from ms_ascend_ops.export.graphs.graph import Graph
from ms_ascend_ops.export.matching.find import Found

__all__ = ["REMOVED", "Difference", "Entry", "Report"]


@dataclass(frozen=True)
class Entry:
    """Describes one place that was recognised.

    Args:
        place: the name of the cell.
        pattern: what was recognised.
        engine: who put the operator in: cell, rewrite, or mindir.
        replaced: whether the place holds the operator now.
        text: how it was replaced, or why not.
    """

    place: str
    pattern: str
    engine: str
    replaced: bool
    text: str


@dataclass(frozen=True)
class Difference:
    """Holds the largest difference between the network before and after, and the same as a share of the largest
    magnitude.

    Args:
        absolute: the largest difference of two elements.
        relative: that difference beside the largest magnitude.
    """

    absolute: float
    relative: float

    def __str__(self) -> str:
        return f"{self.absolute:.2e} ({self.relative:.2e} of the largest magnitude)"


def _changes(before: Counter[str], after: Counter[str]) -> str:
    """Return how many primitives run, and of which fewer run than before: the first of them."""
    fewer = sorted(((before[name] - after[name], name) for name in before if after[name] < before[name]), reverse=True)
    texts = [f"{name} {before[name]} to {after[name]}" for _, name in fewer]
    more = f", and {len(texts) - _LISTED} others" if len(texts) > _LISTED else ""
    names = f" ({', '.join(texts[:_LISTED])}{more})" if texts else ""
    return f"{before.total()} before, {after.total()} after{names}"


_LISTED = 12

REMOVED = "removed: it hands on what it takes"  # the text of a node in whose place nothing comes

_WIDTH = 80  # of a terminal
_LEAST = 20  # characters for the last column


def _table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Return lines of a table that fit a terminal as long as the names in it do.

    The last column goes on below itself.
    """
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    room = _WIDTH - sum(width + 2 for width in widths)
    lines = []
    for row in rows:
        if room >= _LEAST:
            first = "  ".join([*(text.ljust(width) for text, width in zip(row, widths, strict=False)), ""])
            text, indent = row[-1], " " * (_WIDTH - room)
        else:  # long names stand alone
            lines.append(row[0])
            text, first = "  ".join(row[1:]), "    "
            indent = first
        lines += textwrap.wrap(text, _WIDTH, initial_indent=first, subsequent_indent=indent, break_on_hyphens=False)
    lines.insert(1 if room >= _LEAST else 2, "-" * min(_WIDTH, max(map(len, lines))))
    return lines


@dataclass
class Report:
    """Reports the result of `optimize`: what was replaced, what was recognised but left, and what that changed.

    Args:
        level: the level that `optimize` was called with.
        entries: the places that were recognised.
        outputs: how far outputs differ from those before; None: they were not compared.
        gradients: the same of gradients.
        modes: in which modes outputs and gradients were compared.
        primitives: how often each primitive ran before and after, in PyNative mode.
        rolled_back: why everything was undone; empty: it was not.
        undone: whether `restore` was called.
        undo: what gives each cell its construct back, in the order in which it was changed.
        graphs: place, graph and what was found in it, for the page.
    """

    level: str = "O2"
    entries: list[Entry] = field(default_factory=list)
    outputs: Difference | None = None
    gradients: Difference | None = None
    modes: str = ""
    primitives: tuple[Counter[str], Counter[str]] | None = None
    rolled_back: str = ""
    undone: bool = False
    undo: list[Callable[[], None]] = field(default_factory=list, repr=False)
    graphs: list[tuple[str, Graph, list[Found]]] = field(default_factory=list, repr=False)

    @property
    def replaced(self) -> list[Entry]:
        """Return the places that hold a fused cell now."""
        return [] if self.undone else [entry for entry in self.entries if entry.replaced]

    @property
    def skipped(self) -> list[Entry]:
        """Return the places that were recognised and left, each with the reason."""
        return [entry for entry in self.entries if not entry.replaced]

    def add_graph(self, place: str, graph: Graph | None, found: list[Found]) -> None:
        """Keep the graph of a place, and what was replaced in it, for the page.

        Args:
            place: the name of the cell.
            graph: its graph; None: there is none to show.
            found: what was replaced in it.
        """
        if graph is not None:
            self.graphs.append((place, graph, found))

    def restore(self) -> None:
        """Give every cell its own construct back. Trained parameters stay as they are."""
        for step in reversed(self.undo):
            step()
        self.undo.clear()
        self.undone = True

    def roll_back(self, reason: str) -> None:
        """Undo everything for a reason that the report then tells.

        Args:
            reason: as the report tells it.
        """
        self.rolled_back = reason
        self.restore()

    def __str__(self) -> str:
        header = ("place", "pattern", "engine", "result")
        rows = [header, *((e.place, e.pattern, e.engine, self.result(e)) for e in self.grouped())]
        lines = _table(rows)
        if not self.entries:
            lines.append("nothing recognised")
        if self.outputs:
            lines.append(f"largest difference of an output: {self.outputs}")
        if self.gradients:
            lines.append(f"largest difference of a gradient: {self.gradients}")
        if self.modes:
            lines.append(f"compared {self.modes}")
        if self.primitives and not self.undone:
            lines.append(f"primitives that run: {_changes(*self.primitives)}")
        if self.rolled_back:
            lines.append(f"rolled back: {self.rolled_back}")
        return "\n".join(lines)

    def result(self, entry: Entry) -> str:
        """Return what became of a place, in words.

        Args:
            entry: one of `entries`.
        """
        if not entry.replaced:
            return f"left: {entry.text}"
        if entry.text == REMOVED:
            return REMOVED
        word = "replaced, then restored" if self.undone else "replaced"
        return f"{word} ({entry.text})" if entry.text else word

    def grouped(self) -> Iterator[Entry]:
        """Join places that differ in a number only, as the layers of a decoder do: layers.*.mlp x4."""
        groups: dict[tuple[str, str, str, bool, str], list[Entry]] = {}
        for entry in self.entries:
            place = re.sub(r"\b\d+\b", "*", entry.place)
            groups.setdefault((place, entry.pattern, entry.engine, entry.replaced, entry.text), []).append(entry)
        for (place, *rest), members in groups.items():
            yield members[0] if len(members) == 1 else Entry(f"{place} x{len(members)}", *rest)  # type: ignore[arg-type]
