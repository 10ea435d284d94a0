"""Makes what `torch.library.register_autograd` takes of an operator, composed or by the names in its definition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ms_ascend_ops import registry
from ms_ascend_ops.definitions.backward import backward
from ms_ascend_ops.registry import Signature
from ms_ascend_ops.torch.gradients.composed import COMPOSED, Call, Gradients, kernel

__all__ = ["formula"]


def formula(signature: Signature) -> tuple[Callable[..., Any], Callable[..., None]]:
    """Return what `torch.library.register_autograd` takes: the backward function, and what keeps tensors for it."""
    inputs = [tensor.name for tensor in signature.inputs]
    outputs = [tensor.name for tensor in signature.outputs]
    attributes = [attribute.name for attribute in signature.attributes]
    spec = None if signature.name.endswith("_grad") else registry.op_spec(signature.name)
    compose: Callable[[Call], Gradients] | None = None
    kept: Sequence[str] = ()
    fixed: set[str] = set()
    if signature.name in COMPOSED:
        compose, kept = COMPOSED[signature.name]
    elif spec is not None and spec.gradient is not None:
        compose, kept, fixed = _by_names(spec)

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


def _by_names(spec: registry.OpSpec) -> tuple[Callable[[Call], Gradients], list[str], set[str]]:
    """Return the gradient that calls the gradient kernel, the tensors that it keeps, and outputs without a gradient."""
    found, inputs = backward(spec), [tensor.name for tensor in spec.forward.inputs]
    outputs = [tensor.name for tensor in spec.forward.outputs]
    names = {"input": inputs, "output": outputs, "dout": outputs}
    grad = spec.gradient
    assert grad is not None

    def compose(call: Call) -> Gradients:
        tensors = [(call.douts if kind == "dout" else call)[names[kind][i]] for kind, i in found.takes]
        results = kernel(grad.name)(*tensors, *call.attributes.values())
        results = results if isinstance(results, (tuple, list)) else (results,)
        return {name: results[i] for name, i in zip(inputs, found.gives, strict=True) if i is not None}

    fixed = {name for i, name in enumerate(outputs) if not found.takes_gradient_of(i)}
    return compose, [names[kind][i] for kind, i in found.kept], fixed
