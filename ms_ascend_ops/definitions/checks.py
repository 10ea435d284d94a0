"""Checks whether the shapes and dtypes of a definition make sense together."""

from __future__ import annotations

from ms_ascend_ops.definitions.shapes import Token
from ms_ascend_ops.definitions.signature import Signature, TensorSpec

__all__ = ["check_signature"]


def _check_sizes(signature: Signature) -> None:
    """Check multiples, and rules with several '*' tokens next to each other."""
    telling = [tensor for tensor in signature.inputs if tensor.rule.plain and not tensor.optional]
    told = {token.symbol for tensor in telling for token in tensor.rule.tokens if token.binds}
    positive = {a.name for a in signature.attributes if a.type == "int" and a.exclusive_minimum == 0}
    tokens = [token for tensor in signature.inputs for token in tensor.rule.tokens]
    single = {token.symbol for token in tokens if token.symbol and not token.star}
    for symbol, divisor in signature.multiples.items():
        if symbol not in single or divisor not in positive | single:
            raise ValueError(
                f"{signature.name}: multiples: '{divisor}' must be an int attribute > 0 or one dim, '{symbol}' one dim"
            )
    for tensor in signature.inputs:
        for side in (tensor.rule.before, tensor.rule.after):
            runs = [token for token in side if token.star]
            if len(runs) > 1 and sum(token.symbol not in told for token in runs) > 1:
                raise ValueError(
                    f"{signature.name}: no other input tells the lengths of the '*' tokens of {tensor.name}"
                )


def check_signature(signature: Signature) -> None:
    """Refuse a signature whose shapes or dtypes do not follow from its inputs and attributes.

    Raises:
        ValueError: it does not make sense; the message names the signature and the symbol.
    """
    tokens = [token for tensor in signature.inputs for token in tensor.rule.tokens]
    bound = {token.symbol for token in tokens if token.binds}
    required = [tensor for tensor in signature.inputs if not tensor.optional]
    always = {token.symbol for tensor in required for token in tensor.rule.tokens if token.binds}
    stars = {token.symbol for token in tokens if token.star and not token.broadcasts}
    integers = {attribute.name for attribute in signature.attributes if attribute.type == "int"}
    axes = integers | {attribute.name for attribute in signature.attributes if attribute.axes}
    _check_sizes(signature)
    earlier: set[str] = set()
    for tensor in signature.inputs + signature.outputs:
        for token in tensor.rule.tokens:
            if token.broadcasts and (tensor in signature.outputs or token.symbol not in earlier):
                mark, needed = ("~", f"'*{token.symbol}' or ") if token.star else ("?", "")
                raise ValueError(
                    f"{signature.name}: '{mark}{token.symbol}' of {tensor.name} needs an earlier input's "
                    f"{needed}'{token.symbol}'"
                )
            if token.window:
                _check_window(signature, tensor, token, always - stars)
            if token.symbol and token.symbol not in bound:
                raise ValueError(f"{signature.name}: '{token.symbol}' of {tensor.name} stands in no input")
            if token.symbol and tensor in signature.outputs and token.symbol not in always:
                raise ValueError(f"{signature.name}: '{token.symbol}' of {tensor.name} stands in optional inputs only")
            both = token.broadcasts and token.star  # what ~ broadcasts to may be one dim
            if token.symbol and not both and token.star != (token.symbol in stars):
                raise ValueError(f"{signature.name}: '{token.symbol}' is used with and without '*'")
            if token.attribute and token.attribute not in axes:
                raise ValueError(f"{signature.name}: '@{token.attribute}' must name an int attribute")
            if set(token.sizes) - integers:
                raise ValueError(f"{signature.name}: '={'+'.join(token.sizes)}' must name an int attribute")
        earlier |= {token.symbol for token in tensor.rule.tokens if token.binds}
        if tensor in signature.outputs:
            _check_place(signature, tensor)
    free = set(signature.variables) - {tensor.dtype for tensor in signature.inputs}
    if free:
        raise ValueError(f"{signature.name}: dtype variables {sorted(free)} stand in no input")
    free = {t.dtype for t in signature.outputs if t.dtype in signature.variables} - {t.dtype for t in required}
    if free:
        raise ValueError(f"{signature.name}: dtype variables {sorted(free)} of outputs stand in optional inputs only")


def _check_window(signature: Signature, tensor: TensorSpec, token: Token, dims: set[str]) -> None:
    """Check a window. `dims`: symbols that an input always tells."""
    integers = {attribute.name for attribute in signature.attributes if attribute.type == "int"}
    if tensor in signature.inputs or set(token.window[1:]) - integers:
        raise ValueError(
            f"{signature.name}: a window of {tensor.name} must be of an output, and name four int attributes"
        )
    if not {token.symbol, token.window[0]} <= dims:
        raise ValueError(
            f"{signature.name}: '{token.symbol}' and '{token.window[0]}' of {tensor.name} must be dims of inputs"
        )


def _check_place(signature: Signature, tensor: TensorSpec) -> None:
    """Check that every choice of an axis fits: no input says whether a dim can stand where an attribute puts it."""
    rule = tensor.rule
    if rule.anchor is None or not rule.moves:
        return
    axes, tail = signature.attribute(rule.anchor.attribute).axes, rule.tail
    last = tail - 1 if rule.fixed else -1
    if not axes or any(not -tail <= axis <= last for axis in axes):
        raise ValueError(
            f"{signature.name}: '@{rule.anchor.attribute}' of {tensor.name} must name a string or bool attribute with "
            f"axes in [-{tail}, {last}]"
        )
