"""Spells a definition's names and types in C++."""

from __future__ import annotations

import json

from ms_ascend_ops.registry import AttributeSpec, OpSpec, Signature

__all__ = [
    "KERNEL_TYPES",
    "arguments",
    "attribute_type",
    "banner",
    "enum_name",
    "enumerator",
    "guard",
    "pascal",
    "quote",
]

# Element types of Ascend C.
KERNEL_TYPES = {
    "float16": "half",
    "bfloat16": "bfloat16_t",
    "float32": "float",
    "int32": "int32_t",
    "int64": "int64_t",
    "int8": "int8_t",
}

_ATTRIBUTE_TYPES = {"int": "int64_t", "float": "float", "bool": "bool"}


def banner(spec: OpSpec) -> str:
    return f"// Generated from ms_ascend_ops/ops/{spec.name}.yaml by kernels/codegen. Changes here are lost.\n"


def guard(spec: OpSpec) -> str:
    return f"MS_ASCEND_OPS_GENERATED_{spec.name.upper()}_PARAMS_H"


def pascal(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


def enum_name(spec: OpSpec, attribute: AttributeSpec) -> str:
    return pascal(spec.name) + pascal(attribute.name)


def enumerator(choice: str) -> str:
    return choice.upper().replace("-", "_")


def attribute_type(spec: OpSpec, attribute: AttributeSpec) -> str:
    return enum_name(spec, attribute) if attribute.choices else _ATTRIBUTE_TYPES[attribute.type]


def quote(text: str) -> str:
    return json.dumps(text)


def arguments(signature: Signature) -> list[str]:
    """The tensors a kernel takes, in order."""
    return [tensor.name for tensor in signature.inputs + signature.outputs]
