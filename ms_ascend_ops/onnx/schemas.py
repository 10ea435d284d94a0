"""Describes the operators as ONNX knows them: a schema for each forward kernel, made of its definition.

An input that a kernel changes in place is an output of the node, too, and the first one, as in CANN: ONNX has no
memory that changes. Outputs behind the first one may be left out. Shapes and dtypes follow from the rules of the
definition, also where dims are open.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import onnx
from onnx import TensorProto, defs
from onnx.defs import OpSchema

from ms_ascend_ops import registry
from ms_ascend_ops.checks import CHECKS
from ms_ascend_ops.definitions.inference import UNKNOWN_RANK, infer_shapes, infer_types
from ms_ascend_ops.definitions.sizes import known, output_shapes
from ms_ascend_ops.registry import AttributeSpec, Signature, TensorSpec

__all__ = ["DOMAIN", "DTYPES", "ORT_DOMAIN", "VERSION", "attributes_of", "register"]

DOMAIN = "ms_ascend_ops"  # of the nodes of these operators
ORT_DOMAIN = "com.microsoft"  # ONNX Runtime's own operators

# ONNX's numbers for the dtypes of the definitions.
DTYPES = {name: getattr(TensorProto, "FLOAT" if name == "float32" else name.upper()) for name in registry.DTYPES}
NAMES = {number: name for name, number in DTYPES.items()}
_TYPE_NAMES = {name: "tensor(float)" if name == "float32" else f"tensor({name})" for name in registry.DTYPES}
_KINDS = {"int": "INT", "bool": "INT", "float": "FLOAT", "string": "STRING"}
_NAMES_OF_KINDS = {1: "a float", 2: "an int", 3: "a string"}


def _version() -> int:
    return max(registry.op_spec(name).version for name in registry.names())


# The domain has the version of its newest operator.
VERSION = _version()


@cache
def register() -> None:
    """Register the schema of every operator with `onnx`, once."""
    for name in registry.names():
        defs.register_schema(_schema(registry.op_spec(name)))


def attributes_of(node: onnx.NodeProto) -> dict[str, Any]:
    """Return every attribute of a node of this domain by its name, checked.

    Raises:
        TypeError: an attribute has another type, or there is no such attribute.
        ValueError: its value is not allowed.
    """
    signature = registry.signature(node.op_type)
    specs = {name: spec for spec in signature.attributes for name in (spec.name, spec.formerly) if name}
    given = {}
    for attribute in node.attribute:
        spec = specs.get(attribute.name)
        if spec is None:
            raise TypeError(f"{node.op_type}: there is no attribute {attribute.name}")
        given[spec.name] = _value(signature, spec, attribute)
    return signature.check_attributes(given)


def _value(signature: Signature, spec: AttributeSpec, attribute: onnx.AttributeProto) -> Any:
    kind = _KINDS[spec.type]
    if attribute.type != getattr(onnx.AttributeProto, kind):
        raise TypeError(
            f"{signature.name}: {spec.name} must be a {kind.lower()}, got "
            f"{_NAMES_OF_KINDS.get(attribute.type, 'a list')}"
        )
    value = onnx.helper.get_attribute_value(attribute)
    if spec.type == "bool":
        if value not in (0, 1):
            raise ValueError(f"{signature.name}: {spec.name} must be 0 or 1, got {value}")
        return bool(value)
    return spec.current(value.decode() if isinstance(value, bytes) else value)


def _schema(spec: registry.OpSpec) -> OpSchema:
    signature = spec.forward
    variables = {v: sorted({_TYPE_NAMES[row[v]] for row in signature.types}) for v in signature.variables}
    schema = OpSchema(
        signature.name,
        DOMAIN,
        signature.version,
        spec.summary,
        inputs=[_parameter(signature, t, optional=t.optional) for t in signature.inputs],
        outputs=[_parameter(signature, t, optional=i > 0) for i, t in enumerate(signature.cann_outputs)],
        type_constraints=[(v, types, f"The dtype {v} of the operator.") for v, types in variables.items()],
        attributes=[_attribute(a, name) for a in signature.attributes for name in (a.name, a.formerly) if name],
        node_determinism=OpSchema.NodeDeterminism.Deterministic,  # type: ignore[call-arg]
    )
    schema.set_type_and_shape_inference_function(_inference(signature))
    return schema


def _parameter(signature: Signature, tensor: TensorSpec, *, optional: bool) -> OpSchema.FormalParameter:
    options = OpSchema.FormalParameterOption
    dtype = tensor.dtype if tensor.dtype in signature.variables else _TYPE_NAMES[tensor.dtype]
    option = options.Optional if optional else options.Single
    return OpSchema.FormalParameter(tensor.name, dtype, f"Shape ({tensor.rule.text}).", param_option=option)


def _attribute(attribute: AttributeSpec, name: str) -> OpSchema.Attribute:
    if name == attribute.formerly:  # without a default, so that a node has one of both
        kind = getattr(OpSchema.AttrType, _KINDS[attribute.type])
        return OpSchema.Attribute(name, kind, f"The old name of {attribute.name}.", required=False)
    default = int(attribute.default) if attribute.type == "bool" else attribute.default
    value = onnx.helper.make_attribute(name, default)
    return OpSchema.Attribute(name, value, ", ".join(attribute.choices))


def _inference(signature: Signature) -> Any:
    def infer(context: Any) -> None:
        try:
            _infer(signature, context)
        except (TypeError, ValueError) as error:
            raise onnx.shape_inference.InferenceError(str(error)) from error

    return infer


def _infer(signature: Signature, context: Any) -> None:
    count = context.get_num_inputs()
    types = [
        context.get_input_type(i) if i < count and context.has_input(i) else None for i in range(len(signature.inputs))
    ]
    if any(t is None and not spec.optional for t, spec in zip(types, signature.inputs, strict=True)):
        return  # the type of an input is not known
    given: dict[str, Any] = {}
    for spec in signature.attributes:
        attribute = context.get_attribute(spec.name)
        if spec.formerly and (attribute is None or not attribute.name):
            attribute = context.get_attribute(spec.formerly)
        if attribute is not None and attribute.name:
            given[spec.name] = _value(signature, spec, attribute)
    attributes = signature.check_attributes(given)
    dtypes = [None if t is None else NAMES.get(t.tensor_type.elem_type, "another dtype") for t in types]
    results = infer_types(signature, dtypes) + [_dtype_in(signature, name, dtypes) for name in signature.writes]
    shapes = [_shape(t) for t in types]
    plain = [
        UNKNOWN_RANK if shape is None and t is not None else known(shape)
        for shape, t in zip(shapes, types, strict=True)
    ]
    check = CHECKS.get(signature.name)
    if check is not None:
        check(list(plain), attributes)
    if UNKNOWN_RANK in plain:
        sizes: list[tuple[Any, ...]] = list(infer_shapes(signature, plain, attributes))
    else:
        sizes = output_shapes(signature, shapes, attributes)
    written = [shapes[i] for i, tensor in enumerate(signature.inputs) if tensor.name in signature.writes]
    for i, (dtype, shape) in enumerate(zip(results, [*sizes, *written], strict=True)):
        if i < context.get_num_outputs():
            dims = None if shape is None or shape == UNKNOWN_RANK else [_text(size) for size in shape]
            context.set_output_type(i, onnx.helper.make_tensor_type_proto(DTYPES[dtype], dims))


class _Open:
    """Stands for an open dim, which may have a name; what is calculated of it has none."""

    def __init__(self, name: str = "") -> None:
        self.name = name

    def __mul__(self, factor: int) -> _Open:
        return self if factor == 1 else _Open()

    def __floordiv__(self, factor: int) -> _Open:
        return self if factor == 1 else _Open()

    def __add__(self, other: int | _Open) -> _Open:
        return self if other == 0 else _Open()

    __radd__ = __sub__ = __add__

    def __rsub__(self, other: int | _Open) -> _Open:
        return _Open()


def _text(size: Any) -> int | str | None:
    if isinstance(size, _Open):
        return size.name or None
    return size if size >= 0 else None


def _dtype_in(signature: Signature, name: str, dtypes: Sequence[str | None]) -> str:
    found = dtypes[[tensor.name for tensor in signature.inputs].index(name)]
    assert found is not None
    return found


def _shape(proto: Any) -> tuple[Any, ...] | None:
    """Return the dims, of which open ones are an object each; None: the tensor is absent, or of unknown rank."""
    if proto is None or not proto.tensor_type.HasField("shape"):
        return None
    return tuple(
        dim.dim_value if dim.HasField("dim_value") else _Open(dim.dim_param) for dim in proto.tensor_type.shape.dim
    )
