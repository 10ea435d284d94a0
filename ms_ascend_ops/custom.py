"""From a definition to MindSpore's `ops.Custom`. The only file that knows `ops.Custom`.

An operator function is one line, the same in PyNative, in GRAPH mode, in `ms.jit` and in `ms.export`:

    return _select(x, gamma, epsilon, scheme)(x, gamma)

`_select`, a `Selector`, checks the tensors and attributes and gives the primitive for these attributes. While a graph
is compiled MindSpore calls its `__infer__`, once, and puts the primitive into the graph as a constant: there, nothing
but the primitive is left. A dim that is not known yet passes; the same rules in C++ check it when the graph runs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import mindspore as ms
from mindspore import Tensor, ops

from ms_ascend_ops import registry
from ms_ascend_ops.library import library_path
from ms_ascend_ops.shapes import infer_shapes, infer_types

__all__ = ["FusedPrimitive", "Selector"]

# In PyNative, MindSpore 2.10 mixes up the buffers of primitives without a generated API when several Python threads
# call them at once (its own ops.Softsign shows it too). Graphs do not come through here.
_PYNATIVE_CALL = threading.RLock()

# Combinations of shapes, dtypes and attributes that need no second check.
_REMEMBERED = 4096

# Raises ValueError for shapes that the definition's rules allow and the operator does not. Unknown dims are -1, unknown
# ranks (-2,).
ShapeCheck = Callable[[list[tuple[int, ...]], dict[str, Any]], None]

# Makes the bprop of an operator from the primitive of its gradient.
BpropFactory = Callable[["FusedPrimitive"], Callable[..., Any]]


class FusedPrimitive(ops.Custom):  # type: ignore[misc]
    """One kernel of the library with fixed attributes. Made once for each set of attributes, and shared."""

    def __init__(
        self,
        signature: registry.Signature,
        attributes: dict[str, Any],
        bprop: Callable[..., Any] | None,
    ):
        target = ms.get_context("device_target")
        if target != "CPU":
            raise RuntimeError(f"{signature.name}: device_target must be CPU, got {target}")
        # Without out_shape and out_dtype MindSpore takes the library's inference, which dynamic shapes need.
        super().__init__(f"{library_path()}:{signature.entry}", func_type="aot", bprop=bprop)
        # ops.Custom derives these two from a reg_info, which a library function does not have.
        self.add_prim_attr("reg_op_name", signature.entry)
        self.multi_output = len(signature.outputs) > 1
        self.add_prim_attr("multi_output", self.multi_output)
        if signature.writes:
            self.add_prim_attr("side_effect_mem", True)  # keeps its place among reads and writes of a Parameter
        for name, value in attributes.items():
            self.add_prim_attr(name, value)

    def __call__(self, *tensors: Tensor) -> Any:
        with _PYNATIVE_CALL:
            return super().__call__(*tensors)

    def __deepcopy__(self, memo: dict[int, Any]) -> FusedPrimitive:
        return self  # never changed after construction


class Selector(ops.PrimitiveWithInfer):  # type: ignore[misc]
    """Selects the primitive for tensors and attributes, all of which it checks.

    Calling it takes the inputs of the operator, then its attributes in the order of the definition. `check` is for what
    the shape rules cannot say.

    Raises:
        TypeError: an input is no tensor, or there is no kernel for its dtype; an attribute has a wrong type.
        ValueError: a shape breaks the operator's rule; an attribute has a value that is not allowed.
    """

    def __init__(self, name: str, bprop: BpropFactory | None = None, check: ShapeCheck | None = None):
        super().__init__(f"select_{name}")
        # As ms.constexpr does: the result is a constant of the graph.
        self.set_const_prim(True)
        self.add_prim_attr("constexpr_prim", True)
        self.signature = registry.signature(name)
        self._made = lru_cache(maxsize=None, typed=True)(self._make)
        self._bprop = bprop
        self._rule = check
        self._accepted: set[tuple[Any, ...]] = set()

    def __call__(self, *arguments: Any) -> FusedPrimitive:
        count = len(self.signature.inputs)
        tensors, attributes = arguments[:count], arguments[count:]
        for tensor, spec in zip(tensors, self.signature.inputs, strict=True):
            if not isinstance(tensor, Tensor):
                raise self._not_a_tensor(spec.name, type(tensor).__name__)
        primitive = self._primitive(attributes)
        # The rules are interpreted once for each combination: this runs before every call in PyNative.
        key = (attributes, *[(tensor.shape, tensor.dtype) for tensor in tensors])
        if key not in self._accepted:
            self._check([tensor.shape for tensor in tensors], [str(tensor.dtype) for tensor in tensors], attributes)
            if len(self._accepted) >= _REMEMBERED:
                self._accepted.clear()
            self._accepted.add(key)
        return primitive

    def __infer__(self, *arguments: dict[str, Any]) -> dict[str, Any]:
        count = len(self.signature.inputs)
        tensors, attributes = arguments[:count], arguments[count:]
        for tensor, spec in zip(tensors, self.signature.inputs, strict=True):
            if not isinstance(tensor["dtype"], ms.dtype.TensorType):
                raise self._not_a_tensor(spec.name, str(tensor["dtype"]))
        values = tuple(attribute["value"] for attribute in attributes)
        primitive = self._primitive(values)
        dtypes = [str(tensor["dtype"].element_type()) for tensor in tensors]
        self._check([tuple(tensor["shape"]) for tensor in tensors], dtypes, values)
        return {"dtype": None, "shape": None, "value": primitive}

    def __deepcopy__(self, memo: dict[int, Any]) -> Selector:
        return self

    def _not_a_tensor(self, name: str, got: str) -> TypeError:
        return TypeError(f"{self.signature.name}: {name} must be a Tensor, got {got}")

    def _attributes(self, values: tuple[Any, ...]) -> dict[str, Any]:
        names = [attribute.name for attribute in self.signature.attributes]
        return self.signature.check_attributes(dict(zip(names, values, strict=True)))

    def _primitive(self, attributes: tuple[Any, ...]) -> FusedPrimitive:
        try:
            return self._made(*attributes)
        except TypeError:
            self._attributes(attributes)  # a value that cannot be hashed has a wrong type: says which
            raise

    def _make(self, *values: Any) -> FusedPrimitive:
        attributes = self._attributes(values)
        bprop = None
        if self._bprop is not None:
            gradient = registry.signature(f"{self.signature.name}_grad")
            bprop = self._bprop(FusedPrimitive(gradient, attributes, None))
        return FusedPrimitive(self.signature, attributes, bprop)

    def _check(self, shapes: list[tuple[int, ...]], dtypes: list[str], attributes: tuple[Any, ...]) -> None:
        infer_types(self.signature, [dtype.lower() for dtype in dtypes])
        values = self._attributes(attributes)
        infer_shapes(self.signature, shapes, values)
        if self._rule is not None:
            self._rule(shapes, values)
