"""Finds by names which tensors a gradient kernel takes and gives, for MindSpore and for PyTorch."""

from __future__ import annotations

from dataclasses import dataclass

from ms_ascend_ops.definitions.signature import OpSpec

__all__ = ["Backward", "backward"]

# An operator that returns a sum x of x1 and x2, too, takes the gradient of that output by this name.
_RESIDUAL, _SUM, _SUMMED = "dresidual", "x", ("x1", "x2")


@dataclass(frozen=True)
class Backward:
    """Says where a gradient kernel has its inputs from, and where its outputs go to."""

    takes: tuple[tuple[str, int], ...]  # "input", "output" or "dout" of the operator, and its index
    gives: tuple[int | None, ...]  # for each input of the operator an output of the kernel; None: it has no gradient

    @property
    def kept(self) -> tuple[tuple[str, int], ...]:
        """The inputs and outputs of the operator that are kept for the gradient."""
        return tuple(source for source in self.takes if source[0] != "dout")

    def takes_gradient_of(self, output: int) -> bool:
        """Tell whether a gradient goes through this output."""
        return ("dout", output) in self.takes


def backward(spec: OpSpec) -> Backward:
    """Find `dy` for the output y, `x` for the input or output x, and the output `dx` for the input x.

    Raises:
        ValueError: the gradient kernel takes something else, or gives no gradient of an input that has one.
    """
    assert spec.gradient is not None
    sources = {f"d{tensor.name}": ("dout", i) for i, tensor in enumerate(spec.forward.outputs)}
    sources |= {tensor.name: ("output", i) for i, tensor in enumerate(spec.forward.outputs)}
    sources |= {tensor.name: ("input", i) for i, tensor in enumerate(spec.forward.inputs)}
    names = [tensor.name for tensor in spec.gradient.inputs]
    found = {tensor.name.removeprefix("d"): i for i, tensor in enumerate(spec.gradient.outputs)}
    if _RESIDUAL in names:
        sources[_RESIDUAL] = sources[f"d{_SUM}"]
        found |= dict.fromkeys(_SUMMED, found[_SUM])
    missing = [name for name in names if name not in sources]
    missing += [name for name in spec.differentiable if name not in found]
    if missing:
        raise ValueError(f"{spec.name}: its gradient must be composed: {', '.join(missing)} does not follow from names")
    gives = [found.get(tensor.name) for tensor in spec.forward.inputs]
    return Backward(tuple(sources[name] for name in names), tuple(gives))
