"""Infers shapes of outputs where sizes are symbols, as `torch.compile(dynamic=True)`, `torch.export` and ONNX
have them.

The rules are those of the definitions. `inference.infer_shapes` checks what is known; here the sizes that are not
become expressions of the inputs' sizes. No size is compared, so no graph is tied to one: the kernel checks them all
when it runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ms_ascend_ops.definitions.inference import infer_shapes
from ms_ascend_ops.definitions.shapes import ShapeRule, Token, window_count
from ms_ascend_ops.definitions.signature import Signature

__all__ = ["known", "output_shapes"]

Sizes = tuple[Any, ...]  # ints, and torch.SymInts or other objects that can be multiplied and divided
Bound = dict[str, Sizes]


def known(shape: Sequence[Any] | None) -> tuple[int, ...] | None:
    """Return the shape with -1 for each size that is a symbol."""
    return None if shape is None else tuple(size if type(size) is int else -1 for size in shape)


def output_shapes(
    signature: Signature, shapes: Sequence[Sequence[Any] | None], attributes: Mapping[str, Any]
) -> list[Sizes]:
    """Check the shapes of the inputs, as far as they are known, and return those of the outputs.

    Raises:
        ValueError: a shape breaks the rule.
    """
    results: list[Sizes] = list(infer_shapes(signature, [known(shape) for shape in shapes], attributes))
    if all(-1 not in shape for shape in results):
        return results
    axes = {
        a.name: a.axis(attributes.get(a.name, a.default)) for a in signature.attributes if a.axes or a.type == "int"
    }
    bound: Bound = {}
    # First those that tell the lengths that others leave open.
    for tensor, shape in sorted(zip(signature.inputs, shapes, strict=True), key=lambda pair: not pair[0].rule.plain):
        if shape is not None:
            _bind(tensor.rule, tuple(shape), axes, bound)
    return [
        tuple(
            size if size != -1 else symbol for size, symbol in zip(shape, _sizes(tensor.rule, axes, bound), strict=True)
        )
        for tensor, shape in zip(signature.outputs, results, strict=True)
    ]


def _bind(rule: ShapeRule, shape: Sizes, axes: Mapping[str, int], bound: Bound) -> None:
    """Remember what the symbols of a rule stand for in a shape that fits it."""
    if rule.anchor is None:
        _bind_run(rule.tokens, shape, bound)
        return
    axis = axes[rule.anchor.attribute]
    position = axis + len(shape) if axis < 0 else axis
    if rule.moves:
        _bind_run(rule.in_order(position - len(shape)), shape, bound)
        return
    _bind_run(rule.before, shape[:position], bound)
    _bind_run((rule.anchor,), shape[position : position + 1], bound)
    _bind_run(rule.after, shape[position + 1 :], bound)


def _bind_run(tokens: Sequence[Token], dims: Sizes, bound: Bound) -> None:
    # One token of any length takes the remaining dims: the one that is not known yet, or else the first.
    stars = [token for token in tokens if token.star]
    elastic = next((token for token in stars if token.symbol not in bound), stars[0] if stars else None)
    left = len(dims) - sum(len(bound[t.symbol]) if t.star else 1 for t in tokens if t is not elastic)
    position = 0
    for token in tokens:
        length = 1 if not token.star else left if token is elastic else len(bound[token.symbol])
        if token.binds:
            sizes = dims[position : position + length]
            bound.setdefault(token.symbol, sizes if token.factor == 1 else (sizes[0] // token.factor,))
        position += length


def _sizes(rule: ShapeRule, axes: Mapping[str, int], bound: Bound) -> Sizes:
    tokens = rule.in_order(axes[rule.anchor.attribute]) if rule.moves and rule.anchor else rule.tokens

    def sizes() -> Iterator[Any]:
        for token in tokens:
            if token.ones:
                yield from (1 for _ in bound[token.symbol])
            elif token.star:
                yield from bound[token.symbol]
            elif token.window:
                attributes = (axes[name] for name in token.window[1:])
                yield window_count(bound[token.symbol][0], bound[token.window[0]][0], *attributes)
            elif token.symbol:
                yield bound[token.symbol][0] * token.factor
            else:
                yield sum(axes[name] for name in token.sizes) if token.sizes else token.factor

    return tuple(sizes())
