"""Symbolic shape rules: parsing, validation and inference.

A rule is a blank-separated list of tokens, one definition of which serves Python, C++ and CANN:

    *b        any number of dims, also none          d        one dim
    ~b        dims that broadcast to those of *b     1        one dim of that size
    2*d       one dim, twice the size of d           =groups  one dim, whose size is the integer attribute `groups`
    ones(b)   as many dims of size 1 as *b has dims  =a+b     one dim, whose size is the sum of these attributes
    2*d@axis  the dim that the attribute `axis` names: an integer (negative counts from the end), or a string whose
              choices the definition gives an axis each. In a rule without * or ~ the other dims stand around it in
              their order, wherever it is

The same symbol stands for the same size(s) everywhere in a signature. A rule may have several tokens of any length next
to each other, as `*b *d` has, if other inputs tell the lengths of all but one. Dims broadcast as in NumPy: aligned at
the end, each the same or 1, and there may be fewer; an earlier input must have the *b, or the b, which is one dim. A
dim that is not known yet is -1, and a tensor of unknown rank has the shape (-2,), as MindSpore writes them.
`kernels/binding/shape_rule.cpp` is the same interpreter in C++; the tests compare the two, messages included.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ms_ascend_ops.registry import Signature, TensorSpec

__all__ = ["MAX_RANK", "UNKNOWN_DIM", "UNKNOWN_RANK", "ShapeRule", "complete_shapes", "infer_shapes", "infer_types"]

Shape = tuple[int, ...]

MAX_RANK = 8  # of the kernels: MAX_RANK in kernels/primitives/launch_config.h
UNKNOWN_DIM = -1
UNKNOWN_RANK: Shape = (-2,)

_TOKEN = re.compile(
    r"(?:(?P<star>[*~])|(?P<factor>[1-9]\d*)\*)?(?P<symbol>[a-z]\w*)(?:@(?P<attribute>[a-z]\w*))?"
    r"|(?P<literal>\d+)|=(?P<sizes>[a-z]\w*(?:\+[a-z]\w*)*)|ones\((?P<ones>[a-z]\w*)\)"
)


@dataclass(frozen=True)
class Token:
    """One token of a rule. A literal has no symbol, and its size as factor; `=a+b` has neither."""

    symbol: str
    factor: int = 1
    star: bool = False  # any number of dims
    attribute: str = ""
    ones: bool = False  # with star: dims of size 1
    sizes: tuple[str, ...] = ()  # attributes whose sum is the size
    broadcasts: bool = False


@dataclass(frozen=True)
class ShapeRule:
    """A parsed rule: the tokens before the anchored one, the anchored one, and those after it.

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
            if match is None or (match["star"] and match["attribute"]):
                raise ValueError(f"shape rule '{text}': cannot read the token '{word}'")
            factor = int(match["literal"] or match["factor"] or 1)
            symbol, star, ones = match["symbol"] or match["ones"] or "", bool(match["star"]), bool(match["ones"])
            attribute, broadcasts = match["attribute"] or "", match["star"] == "~"
            sizes = tuple(match["sizes"].split("+")) if match["sizes"] else ()
            tokens.append(Token(symbol, factor, star or ones, attribute, ones, sizes, broadcasts))
        anchors = [i for i, token in enumerate(tokens) if token.attribute]
        if len(anchors) > 1:
            raise ValueError(f"shape rule '{text}': at most one token may stand at an attribute")
        split = anchors[0] if anchors else len(tokens)
        return cls(text, tuple(tokens[:split]), tokens[split] if anchors else None, tuple(tokens[split + 1 :]))

    @property
    def tokens(self) -> tuple[Token, ...]:
        return self.before + ((self.anchor,) if self.anchor else ()) + self.after

    @property
    def fixed(self) -> bool:
        """Whether every token is one dim."""
        return not any(token.star for token in self.tokens)

    def in_order(self, axis: int) -> tuple[Token, ...]:
        """The tokens of a fixed rule as the dims stand, the anchored one at `axis`, which the rank allows."""
        others = self.before + self.after
        position = axis + len(self.tokens) if axis < 0 else axis
        return others[:position] + ((self.anchor,) if self.anchor else ()) + others[position:]

    @property
    def plain(self) -> bool:
        """Whether the lengths of all tokens follow from the shape alone."""
        return all(sum(token.star for token in side) <= 1 for side in (self.before, self.after))


@dataclass
class _Binding:
    """What a symbol stands for, and the place it was first seen at (for messages)."""

    dims: list[int]
    place: str
    factor: int = 1


class _Matcher:
    """Binds the symbols of one signature to the shapes of its inputs."""

    def __init__(self, signature: Signature, attributes: Mapping[str, Any]):
        self.signature = signature
        self.attributes = {**attributes}
        for attribute in signature.attributes:
            if attribute.axes and attribute.name in attributes:
                self.attributes[attribute.name] = attribute.axes[attribute.choices.index(attributes[attribute.name])]
        self.bindings: dict[str, _Binding] = {}

    def error(self, text: str) -> ValueError:
        return ValueError(f"{self.signature.name}: {text}")

    def match(self, tensor: TensorSpec, shape: Shape) -> None:
        rule = tensor.rule
        if shape == UNKNOWN_RANK:
            return
        rank, fixed = len(shape), sum(not token.star for token in rule.tokens)
        if rule.fixed and rank != fixed:
            raise self.error(f"{tensor.name} must have {_dims(fixed)}, got shape {shape}")
        if rank < fixed:
            raise self.error(f"{tensor.name} must have at least {_dims(fixed)}, got shape {shape}")
        if rank > MAX_RANK:
            raise self.error(f"{tensor.name} must have at most {MAX_RANK} dims, got shape {shape}")
        if rule.anchor is None:
            self._match_side(tensor, shape, rule.before, 0, rank)
            return
        axis = self.attributes[rule.anchor.attribute]
        first = sum(not token.star for token in rule.before)
        last = rank - 1 - sum(not token.star for token in rule.after)
        if rule.fixed:
            first, last = 0, rank - 1
        elif not any(token.star for token in rule.before):
            last = first
        elif not any(token.star for token in rule.after):
            first = last
        position = axis + rank if axis < 0 else axis
        if not first <= position <= last:
            allowed = f"in [{-rank}, {rank - 1}]" if last - first == rank - 1 else f"from {first} to {last}"
            subject = f"{tensor.name} of shape {shape}"
            raise self.error(f"{rule.anchor.attribute} must be {allowed} for {subject}, got {axis}")
        if rule.fixed:
            for i, token in enumerate(rule.in_order(axis)):
                self._match_dim(tensor, shape, token, i, axis if token is rule.anchor else i)
            return
        self._match_side(tensor, shape, rule.before, 0, position)
        self._match_dim(tensor, shape, rule.anchor, position, axis)
        self._match_side(tensor, shape, rule.after, position + 1, rank)

    def _match_side(self, tensor: TensorSpec, shape: Shape, tokens: Sequence[Token], begin: int, end: int) -> None:
        rank, position = len(shape), begin
        # One run of dims takes what the others leave: the one that is not known, or else the first.
        runs = [token for token in tokens if token.star]
        free = [token for token in runs if token.symbol not in self.bindings]
        if len(runs) > 1 and len(free) > 1:
            return  # a tensor of unknown rank would have told
        elastic = (free or runs)[0] if runs else None
        known = sum(len(self.bindings[token.symbol].dims) for token in runs if token is not elastic)
        left = end - begin - known - (len(tokens) - len(runs))
        if left < 0:
            raise self.error(f"{tensor.name} must have at least {_dims(rank - left)}, got shape {shape}")
        for i, token in enumerate(tokens):
            if token.star:
                stop = position + (left if token is elastic else len(self.bindings[token.symbol].dims))
                self._match_star(tensor, shape, token, position, stop)
                position = stop
            else:
                # Dims are named as a reader would: from the end, once a token of any length went before.
                from_end = any(t.star for t in tokens[:i]) and end == rank
                self._match_dim(tensor, shape, token, position, position - rank if from_end else position)
                position += 1

    def _match_dim(self, tensor: TensorSpec, shape: Shape, token: Token, position: int, index: int) -> None:
        size, place = shape[position], f"{tensor.name}.shape[{index}]"
        if not token.symbol:
            expected = self._size(token)
            if size not in (expected, UNKNOWN_DIM):
                rule = f"{' + '.join(token.sizes)} ({expected})" if token.sizes else str(expected)
                raise self.error(f"{place} must be {rule}, got {shape}")
            return
        if size == UNKNOWN_DIM:
            self.bindings.setdefault(token.symbol, _Binding([UNKNOWN_DIM], place, token.factor))
            return
        if size == 0 and token.symbol in self.signature.positive:
            raise self.error(f"{place} must be at least {token.factor}, got {shape}")
        if size % token.factor:
            rule = "even" if token.factor == 2 else f"a multiple of {token.factor}"
            reason = self.signature.reasons.get(f"{token.factor}*{token.symbol}")
            raise self.error(f"{place} must be {rule}{f' ({reason})' if reason else ''}, got {shape}")
        multiple = self.signature.multiples.get(token.symbol, "")
        if multiple and (size // token.factor) % self.attributes[multiple]:
            raise self.error(f"{place} must be a multiple of {multiple} ({self.attributes[multiple]}), got {shape}")
        known = self.bindings.get(token.symbol)
        if known is None or known.dims == [UNKNOWN_DIM]:
            self.bindings[token.symbol] = _Binding([size // token.factor], place, token.factor)
        elif known.dims != [size // token.factor]:
            relation = known.place
            if known.factor != token.factor:
                relation = f"{token.factor} * {relation}" if token.factor > 1 else relation
                relation = f"{relation} / {known.factor}" if known.factor > 1 else relation
            raise self.error(f"{place} must equal {relation} ({known.dims[0] * token.factor}), got {shape}")

    def _size(self, token: Token) -> int:
        return sum(self.attributes[name] for name in token.sizes) if token.sizes else token.factor

    def _match_star(self, tensor: TensorSpec, shape: Shape, token: Token, begin: int, end: int) -> None:
        dims, rank = list(shape[begin:end]), len(shape)
        place = f"{tensor.name}.shape"
        if (begin, end) != (0, rank):
            place += f"[{begin or ''}:{end - rank if end < rank else ''}]"
        known = self.bindings.get(token.symbol)
        if token.ones:
            count = len(dims) if known is None else len(known.dims)
            if len(dims) != count or any(size not in (1, UNKNOWN_DIM) for size in dims):
                raise self.error(f"{place} must be {(1,) * count}, got {shape}")
            return
        if 0 in dims and token.symbol in self.signature.positive:
            raise self.error(f"{place} must have no dim of size 0, got {shape}")
        if token.broadcasts:
            if known is not None and not _broadcasts(dims, known.dims):
                raise self.error(f"{place} must broadcast to {known.place} {tuple(known.dims)}, got {shape}")
            return
        if known is None:
            self.bindings[token.symbol] = _Binding(dims, place)
            return
        same = len(dims) == len(known.dims) and all(
            a == b or UNKNOWN_DIM in (a, b) for a, b in zip(dims, known.dims, strict=True)
        )
        if not same:
            raise self.error(f"{place} must equal {known.place} {tuple(known.dims)}, got {shape}")
        known.dims = [b if a == UNKNOWN_DIM else a for a, b in zip(dims, known.dims, strict=True)]

    def shape_of(self, tensor: TensorSpec) -> Shape:
        rule = tensor.rule
        moves = rule.anchor is not None and rule.fixed
        shape: list[int] = []
        for token in rule.in_order(self.attributes[rule.anchor.attribute]) if rule.anchor and moves else rule.tokens:
            if not token.symbol:
                shape.append(self._size(token))
                continue
            known = self.bindings.get(token.symbol)
            if token.star:
                if known is None:
                    return UNKNOWN_RANK
                shape.extend([1] * len(known.dims) if token.ones else known.dims)
            elif known is None or known.dims[0] == UNKNOWN_DIM:
                shape.append(UNKNOWN_DIM)
            else:
                shape.append(known.dims[0] * token.factor)
        return tuple(shape)


def infer_shapes(signature: Signature, shapes: Sequence[Shape], attributes: Mapping[str, Any]) -> list[Shape]:
    """Check the shapes of the inputs against each other and return those of the outputs.

    Raises:
        ValueError: a shape breaks the rule; the message names the tensor, the rule and the shape.
    """
    matcher = _Matcher(signature, attributes)
    given = list(zip(signature.inputs, shapes, strict=True))
    for tensor, shape in sorted(given, key=lambda pair: not pair[0].rule.plain):
        matcher.match(tensor, tuple(shape))
    return [matcher.shape_of(tensor) for tensor in signature.outputs]


def complete_shapes(signature: Signature, shapes: Sequence[Shape], attributes: Mapping[str, Any]) -> list[Shape]:
    """The shapes of all inputs, from those of the first ones.

    Raises:
        ValueError: a shape breaks the rule, or does not say enough.
    """
    matcher = _Matcher(signature, attributes)
    for tensor, shape in zip(signature.inputs, shapes, strict=False):
        matcher.match(tensor, tuple(shape))
    complete = [tuple(shape) for shape in shapes]
    for tensor in signature.inputs[len(shapes) :]:
        shape = matcher.shape_of(tensor)
        if shape == UNKNOWN_RANK or UNKNOWN_DIM in shape:
            known = ", ".join(other.name for other in signature.inputs[: len(shapes)])
            raise matcher.error(f"the shape of {tensor.name} does not follow from that of {known}")
        matcher.match(tensor, shape)
        complete.append(shape)
    return complete


def infer_types(signature: Signature, dtypes: Sequence[str]) -> list[str]:
    """Check the dtype names of the inputs and return those of the outputs.

    Raises:
        TypeError: the operator has no kernel for a dtype, or for this combination.
    """
    rows: list[Mapping[str, str]] = list(signature.types)
    for i, (tensor, dtype) in enumerate(zip(signature.inputs, dtypes, strict=True)):
        allowed = [row for row in rows if row.get(tensor.dtype, tensor.dtype) == dtype]
        if not allowed:
            possible = list(dict.fromkeys(row.get(tensor.dtype, tensor.dtype) for row in signature.types))
            condition = ""
            if dtype in possible:
                possible = list(dict.fromkeys(row.get(tensor.dtype, tensor.dtype) for row in rows))
                given = zip(signature.inputs[:i], dtypes, strict=False)
                variables = {other.dtype: f"{other.name}.dtype is {name}" for other, name in reversed(list(given))}
                relevant = [text for variable, text in reversed(variables.items()) if variable in signature.variables]
                condition = f" when {' and '.join(relevant)}"
            names = ", ".join(possible[:-1]) + " or " * (len(possible) > 1) + possible[-1]
            raise TypeError(f"{signature.name}: {tensor.name}.dtype must be {names}{condition}, got {dtype}")
        rows = allowed
    return [rows[0].get(tensor.dtype, tensor.dtype) for tensor in signature.outputs]


def _broadcasts(dims: Sequence[int], to: Sequence[int]) -> bool:
    aligned = zip(reversed(dims), reversed(to), strict=False)
    return len(dims) <= len(to) and all(a in (1, b, UNKNOWN_DIM) or b == UNKNOWN_DIM for a, b in aligned)


def _dims(count: int) -> str:
    return f"{count} dim" if count == 1 else f"{count} dims"
