"""Parses the grammar of symbolic shape rules.

A rule is a blank-separated list of tokens, one definition of which serves Python, C++ and CANN:

    *b        any number of dims, also none          d        one dim
    ~b        dims that broadcast to those of *b     1        one dim of that size
    2*d       one dim, twice the size of d           =groups  one dim, whose size is the integer attribute `groups`
    ones(b)   as many dims of size 1 as *b has dims  =a+b     one dim, whose size is the sum of these attributes
    ?d        one dim that broadcasts to d: 1, or the size of d
    window(h,kh,dilation,before,after,stride)
              of an output: the places of a window of kh elements, `dilation` apart, along h with `before` and `after`
              added to its ends, `stride` apart; the latter four are integer attributes
    2*d@axis  the dim that the attribute `axis` names: an integer (negative counts from the end), or a string or bool
              whose values the definition gives an axis each. The single dims at the end of a rule, which are all of
              one without * or ~, stand around it in their order: `*b m k@transpose` is `*b k m` where it is at -2

The same symbol stands for the same size(s) everywhere in a signature. A rule may have several tokens of any length next
to each other, as `*b *d` has, if other inputs tell the lengths of all but one. Dims broadcast as in NumPy: aligned at
the end, each the same or 1, and there may be fewer; an earlier input must have the *b, or the b, which is one dim. A
dim that is not known yet is -1, and a tensor of unknown rank has the shape (-2,), as MindSpore writes them.

Code generation writes the parsed tokens into the library, and `inference.py` hands them to `ms_ascend_ops._C`:
`kernels/binding/shape_rule.cpp` interprets them for both.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

__all__ = ["ShapeRule", "Token", "window_count"]

_TOKEN = re.compile(
    r"(?:(?P<kind>[*~?])|(?P<factor>[1-9]\d*)\*)?(?P<symbol>[a-z]\w*)(?:@(?P<attribute>[a-z]\w*))?"
    r"|(?P<literal>\d+)|=(?P<sizes>[a-z]\w*(?:\+[a-z]\w*)*)|ones\((?P<ones>[a-z]\w*)\)"
    r"|window\((?P<window>[a-z]\w*(?:,[a-z]\w*){5})\)"
)


@dataclass(frozen=True)
class Token:
    """Describes one token of a rule. A literal has no symbol, and its size as factor; `=a+b` has neither.

    A window has the symbol of what it moves along, and the other five names in `window`.
    """

    symbol: str
    factor: int = 1
    star: bool = False  # any number of dims
    attribute: str = ""
    ones: bool = False  # with star: dims of size 1
    sizes: tuple[str, ...] = ()  # attributes whose sum is the size
    broadcasts: bool = False
    window: tuple[str, ...] = ()  # symbol of its length; attributes: dilation, before, after, stride

    @property
    def binds(self) -> bool:
        """Tell whether a tensor's shape tells what the symbol stands for."""
        return bool(self.symbol) and not self.ones and not self.broadcasts and not self.window


@dataclass(frozen=True)
class ShapeRule:
    """Holds a parsed rule: the tokens before the anchored one, the anchored one, and those after it.

    Without an anchored token, `before` holds all of them.
    """

    text: str
    before: tuple[Token, ...]
    anchor: Token | None
    after: tuple[Token, ...]

    @classmethod
    def parse(cls, text: str) -> ShapeRule:
        tokens = []
        for word in text.split():
            match = _TOKEN.fullmatch(word)
            if match is None or (match["kind"] and match["attribute"]):
                raise ValueError(f"shape rule '{text}': cannot read the token '{word}'")
            factor = int(match["literal"] or match["factor"] or 1)
            symbol, star, ones = (
                match["symbol"] or match["ones"] or "",
                match["kind"] in ("*", "~"),
                bool(match["ones"]),
            )
            attribute, broadcasts = match["attribute"] or "", match["kind"] in ("~", "?")
            sizes = tuple(match["sizes"].split("+")) if match["sizes"] else ()
            window = tuple(match["window"].split(",")) if match["window"] else ()
            symbol = window[0] if window else symbol
            tokens.append(Token(symbol, factor, star or ones, attribute, ones, sizes, broadcasts, window[1:]))
        anchors = [i for i, token in enumerate(tokens) if token.attribute]
        if len(anchors) > 1:
            raise ValueError(f"shape rule '{text}': at most one token may stand at an attribute")
        split = anchors[0] if anchors else len(tokens)
        return cls(text, tuple(tokens[:split]), tokens[split] if anchors else None, tuple(tokens[split + 1 :]))

    @property
    def tokens(self) -> tuple[Token, ...]:
        return self.before + ((self.anchor,) if self.anchor else ()) + self.after

    @property
    def tail(self) -> int:
        """Return how many single dims the rule ends with."""
        stars = [i for i, token in enumerate(self.tokens) if token.star]
        return len(self.tokens) - 1 - (stars[-1] if stars else -1)

    @property
    def moves(self) -> bool:
        """Tell whether the anchored token is one of those, and stands where its attribute says among them."""
        return self.anchor is not None and not any(token.star for token in self.after)

    @property
    def fixed(self) -> bool:
        """Tell whether every token is one dim."""
        return self.tail == len(self.tokens)

    def in_order(self, axis: int) -> tuple[Token, ...]:
        """Return the tokens as the dims stand, if the anchored one `moves` to an axis of the tail, or of a
        fixed rule.
        """
        others = self.before + self.after
        position = axis + len(self.tokens) if axis < 0 else axis
        return others[:position] + ((self.anchor,) if self.anchor else ()) + others[position:]

    @property
    def plain(self) -> bool:
        """Tell whether the lengths of all tokens follow from the shape alone."""
        return all(sum(token.star for token in side) <= 1 for side in (self.before, self.after))


def window_count(along: Any, size: Any, dilation: int, before: int, after: int, stride: int) -> Any:
    """Count the positions of a window of `size` elements, `dilation` apart, along so many elements, padded `before` and
    `after`; all may be symbols. In C++ it is WindowCount (kernels/interface/launch_config.h).
    """
    return (along + before + after - (size - 1) * dilation - 1) // stride + 1
