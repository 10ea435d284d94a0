"""Lists the operators for a terminal, and as the table in docs/operators.md, made of functions and definitions."""

from __future__ import annotations

import inspect
import textwrap
from importlib import import_module

from ms_ascend_ops import registry

__all__ = ["BEGIN", "END", "listing", "markdown", "replace_table"]

BEGIN = "<!-- operators: made by `python -m ms_ascend_ops operators --write docs/operators.md` -->"
END = "<!-- end of operators -->"

_HEADINGS = ("Operator", "Does", "Layer", "Inputs", "Dtypes", "Gradient", "Replaces")


_WIDTH = 80


def listing() -> str:
    """Return every operator with a sentence, in 80 columns."""
    names = registry.names()
    place = max(map(len, names)) + 2
    lines = []
    for name in names:
        spec = registry.op_spec(name)
        gradient = "" if spec.differentiable else "; no gradient"
        text = f"{name:<{place}}{spec.summary.rstrip('.')}{gradient}"
        lines += textwrap.wrap(text, _WIDTH, subsequent_indent=" " * place, drop_whitespace=True)
    return "\n".join(lines)


def markdown() -> str:
    """Return a row for every operator."""
    rows = [_HEADINGS, ("---",) * len(_HEADINGS), *map(_row, map(registry.op_spec, registry.names()))]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def replace_table(text: str) -> str:
    """Return the text with a new table between the two marks.

    Raises:
        ValueError: the marks are not there.
    """
    before, begin, rest = text.partition(f"{BEGIN}\n")
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"there is no table to write: the lines '{BEGIN}' and '{END}' have to stand around it")
    return f"{before}{begin}\n{markdown()}\n{end}{after}"


def _row(spec: registry.OpSpec) -> tuple[str, ...]:
    signature = spec.forward
    inputs = ", ".join(f"`{tensor.name}[{tensor.rule.text}]`" for tensor in signature.inputs)
    layer = f"`{spec.layer}`" if spec.layer else ""
    gradient = ", ".join(f"`{name}`" for name in spec.differentiable) or "none"
    return (
        f"`{_call(spec.name)}`",
        spec.summary.rstrip("."),
        layer,
        inputs,
        _dtypes(signature),
        gradient,
        spec.replaces,
    )


def _call(name: str) -> str:
    """Return the public function as it is called: rms_norm(x, gamma, epsilon=1e-6, scheme="round_then_scale")."""
    function = getattr(import_module(f"ms_ascend_ops.ops.{name}"), name)
    old = {attribute.formerly for attribute in registry.signature(name).attributes}
    parameters = [one for one in inspect.signature(function).parameters.values() if one.name not in old]
    return f"{name}({', '.join(map(_parameter, parameters))})"


def _parameter(parameter: inspect.Parameter) -> str:
    default = parameter.default
    if default is parameter.empty:
        return parameter.name
    text = f'"{default}"' if isinstance(default, str) else f"{default}".replace("e-0", "e-")
    return f"{parameter.name}={text}"


def _dtypes(signature: registry.Signature) -> str:
    """Return those of the first variable; the further variables' beside the tensors that have them; fixed dtypes."""
    parts = []
    for variable in signature.variables:
        names = ", ".join(dict.fromkeys(row[variable] for row in signature.types))
        tensors = [f"`{tensor.name}`" for tensor in signature.inputs if tensor.dtype == variable]
        parts.append(names if len(signature.variables) == 1 else f"{', '.join(tensors)}: {names}")
    fixed = [f"`{tensor.name}`: {tensor.dtype}" for tensor in signature.inputs if tensor.dtype in registry.DTYPES]
    return "; ".join(parts + fixed)
