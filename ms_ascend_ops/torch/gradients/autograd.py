"""Makes what `torch.library.register_autograd` takes of an operator, composed or by the names in its definition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ms_ascend_ops import registry
from ms_ascend_ops.registry import Signature
from ms_ascend_ops.torch.gradients.composed import COMPOSED, Call, Gradients, kernel

__all__ = ["formula"]


def formula(signature: Signature) -> tuple[Callable[..., Any], Callable[..., None]]:
    """Return what `torch.library.register_autograd` takes: the backward function, and what keeps tensors for it."""
    inputs = [tensor.name for tensor in signature.inputs]
    outputs = [tensor.name for tensor in signature.outputs]
    attributes = [attribute.name for attribute in signature.attributes]
    spec = None if signature.name.endswith("_grad") else registry.op_spec(signature.name)
    gradient = None if spec is None else spec.gradient
    compose: Callable[[Call], Gradients] | None
    kept: Sequence[str]
    if signature.name in COMPOSED:
        compose, kept = COMPOSED[signature.name]
        fixed = set()
    else:
        compose = None if gradient is None else _by_names(signature, gradient)
        kept, fixed = _kept(signature, gradient), _fixed(signature, gradient)

    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        results = output if isinstance(output, tuple) else (output,)
        values = dict(zip((*names, *outputs), (*inputs[: len(names)], *results), strict=True))
        ctx.mark_non_differentiable(*(values[name] for name in fixed))
        ctx.save_for_backward(*(values[name] for name in kept))
        ctx.attributes = dict(zip(attributes, inputs[len(names) :], strict=True))

    def backward(ctx: Any, *douts: Any) -> tuple[Any, ...]:
        if compose is None:
            raise RuntimeError(f"{signature.name}: {'it has no gradient' if spec is None else spec.no_gradient}")
        needs = {name for name, needed in zip(names, ctx.needs_input_grad, strict=False) if needed}
        given = {name: dout for name, dout in zip(outputs, douts, strict=True) if name not in fixed}
        call = Call(dict(zip(kept, ctx.saved_tensors, strict=True)), ctx.attributes, given, needs)
        found = compose(call)
        return (*(found.get(name) if name in needs else None for name in names), *[None] * len(attributes))

    names = inputs
    return backward, setup_context


def _kept(signature: Signature, gradient: Signature | None) -> list[str]:
    """The tensors that the gradient kernel takes."""
    names = [tensor.name for tensor in signature.inputs + signature.outputs]
    return [tensor.name for tensor in gradient.inputs if tensor.name in names] if gradient else []


def _fixed(signature: Signature, gradient: Signature | None) -> set[str]:
    """The outputs that no gradient goes through."""
    if gradient is None:
        return set()
    known = {tensor.name for tensor in gradient.inputs}
    through = known | ({"dx"} if "dresidual" in known else set())
    return {tensor.name for tensor in signature.outputs if f"d{tensor.name}" not in through}


def _by_names(signature: Signature, gradient: Signature) -> Callable[[Call], Gradients]:
    takes = [tensor.name for tensor in gradient.inputs]
    douts = {f"d{tensor.name}": tensor.name for tensor in signature.outputs}
    given = [tensor.name for tensor in gradient.outputs]
    if "dresidual" in takes:  # through the sum x, which is an output, too
        douts["dresidual"] = "x"

    def compose(call: Call) -> Gradients:
        tensors = [call.douts[douts[name]] if name in douts else call[name] for name in takes]
        results = kernel(gradient.name)(*tensors, *call.attributes.values())
        found = dict(zip(given, results if isinstance(results, (tuple, list)) else (results,), strict=True))
        found = {name.removeprefix("d"): value for name, value in found.items()}
        if "dresidual" in takes:
            found["x1"] = found["x2"] = found.pop("x")
        return found

    return compose
