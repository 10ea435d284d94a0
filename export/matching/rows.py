"""Define what a row of the table of patterns is made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any as Object

import numpy as np
from ms_ascend_ops.export.graphs.sizes import Sizes
from ms_ascend_ops.export.matching.expr import Expr, number
from ms_ascend_ops.export.matching.match import Bindings, Pattern

from ms_ascend_ops import registry

__all__ = ["LEVELS", "Fused", "Mask", "Match", "Row", "Skip", "same_shape", "typed"]

# Each level adds these; they mean the same in every engine.
LEVELS = {
    "O0": "nothing",
    "O1": "exact replacements: the fused operator rounds where the network rounds",
    "O2": "half precision may round in other places, as a rule fewer",
    "O3": "one operator in place of several layers, as residual add and norm, and in place of convolutions",
}


@dataclass(frozen=True)
class Mask:
    """Makes the additive mask of four dims that attention takes of an input: ones in front, and numbers of a bool.

    The Python function does so itself, where True is a key that is seen.
    """

    rank: int = 4
    hidden: bool | None = None  # of a bool: whether True hides a key
    negative: bool = False  # of numbers: the scores less them are taken

    def shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of the mask that is made of an input of this shape."""
        return (1,) * (self.rank - len(shape)) + shape

    def dtype(self, dtype: str) -> str:
        """Return the dtype of the mask that is made of an input of this dtype."""
        return dtype if self.hidden is None else "float32"


@dataclass(frozen=True)
class Fused:
    """Puts an operator of this package in place of a part of a network.

    `outputs` says which values its outputs replace.
    """

    op: str
    inputs: tuple[Expr, ...]  # the last ones may be left out where they are optional
    outputs: dict[int, Expr]
    attributes: dict[str, Object] = field(default_factory=dict)
    exact: bool = True  # rounds as the network does, in half precision too
    note: str = ""
    keywords: dict[str, Object] | None = None  # of the Python function, where they are not the attributes
    constant: tuple[int, ...] = ()  # inputs to which the operator does not give the gradient of the formula
    masks: dict[int, Mask] = field(default_factory=dict)  # inputs that are made into a mask
    dropout: bool = False  # in training there may be a dropout inside, which the operator has not
    cast: tuple[int, ...] = ()  # inputs that mixed precision casts to the dtype of the first one, as MindSpore's own do
    filled: tuple[float, ...] = ()  # for the last inputs a number each, which a tensor holds everywhere
    filled_axes: int = 1  # how many axes these tensors have: the last ones of the first input
    lifted: bool = False  # all but masks get an axis of one element in front, and the one result loses it

    def taken(self) -> tuple[list[tuple[int, ...]], list[str]]:
        """Return shapes and dtypes of what the operator takes; of all inputs they must be known."""
        shapes = [e.shape or () for e in self.inputs]
        dtypes = [e.dtype for e in self.inputs]
        for place in self.lifts():
            shapes[place] = (1, *shapes[place])
        for place, mask in self.masks.items():
            shapes[place], dtypes[place] = mask.shape(shapes[place]), mask.dtype(dtypes[place])
        shapes += [shapes[0][-self.filled_axes :] for _ in self.filled]
        dtypes += ["float32" for _ in self.filled]
        return shapes, dtypes

    def lifts(self) -> list[int]:
        """Return the inputs that get an axis in front."""
        return [place for place in range(len(self.inputs)) if self.lifted and place not in self.masks]

    def call(self, texts: Sequence[str]) -> str:
        """Return the call of the Python function, from the texts of the inputs."""
        keywords = self.attributes if self.keywords is None else self.keywords
        arguments = [*self._arguments(texts), *(f"{name}={value!r}" for name, value in keywords.items())]
        return f"fused.{self.op}({', '.join(arguments)})"

    def result(self, text: str, index: int) -> str:
        """Return one result, where `text` is what the Python function has returned."""
        one = f"{text}[{index}]" if self.has_several else text
        return f"{one}.squeeze(0)" if self.lifted else one

    @property
    def has_several(self) -> bool:
        """Tell whether the operator returns a tuple."""
        return len(registry.signature(self.op).outputs) > 1

    def _arguments(self, texts: Sequence[str]) -> list[str]:
        """Return the tensors that the Python function is given.

        Those that are filled with a number are its defaults.
        """
        given = list(texts)
        for place in self.lifts():
            given[place] += ".expand_dims(0)"
        for place, mask in self.masks.items():
            given[place] = f"-{given[place]}" if mask.negative else given[place]
            if mask.hidden is None:
                # Its gradient takes all scores and is slower than with other operators. Stop it: where one is needed,
                # the comparison of the network with itself finds it missing.
                given[place] = f"mindspore.ops.stop_gradient({given[place]})"
            elif mask.hidden:
                given[place] += ".logical_not()"  # True is a key that is seen
        for place in self.cast:
            x, text = given[0], given[place]
            given[place] = f"{text} if {text}.dtype == {x}.dtype else {text}.astype({x}.dtype)"
        return given


@dataclass(frozen=True)
class Skip:
    """Says that the place is of the pattern's kind, and must stay as it is."""

    reason: str


def typed(value: float) -> float:
    """Return a number as it was typed: the shortest decimal that is the same in float32."""
    with np.errstate(over="ignore"):
        return float(str(np.float32(value)))


def same_shape(a: Expr, b: Expr) -> bool:
    """Return whether shapes are known to be the same.

    A dim that is unknown in both counts as the same where the others agree.
    """
    return bool(a.shape == b.shape)


class Match:
    """Describes a place that a pattern fits: its expressions by their names in the pattern, and the value that
    it gives.
    """

    def __init__(self, root: Expr, bound: Bindings, sizes: Callable[[], Sizes]) -> None:
        self.root = root
        self.sizes = sizes  # of the graph's values: found out when they are first needed
        self._bound = bound

    def __contains__(self, name: str) -> bool:
        return name in self._bound

    def __getitem__(self, name: str) -> Expr:
        return self._bound[name]

    def number(self, name: str) -> float:
        """Return a bound number."""
        value = number(self._bound[name])
        assert value is not None
        return typed(value)


@dataclass(frozen=True)
class Row:
    """Describes one pattern.

    `build` says what goes there, why nothing may, or None if this is something else after all.
    """

    name: str
    op: str
    pattern: Pattern
    build: Callable[[Match], Fused | Skip | None]
    level: str = "O1"
    evaluation: bool = False  # fits a network only where it is not trained: the fused construct requires that
