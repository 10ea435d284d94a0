"""<op>_params.h: what a tiling function gets."""

from __future__ import annotations

from codegen import cpp
from ms_ascend_ops.registry import OpSpec, Signature

__all__ = ["generate"]


def generate(spec: OpSpec) -> str:
    enums = [
        f"enum class {cpp.enum_name(spec, attribute)} : int32_t "
        f"{{ {', '.join(cpp.enumerator(choice) for choice in attribute.choices)} }};\n"
        for attribute in spec.forward.attributes
        if attribute.choices
    ]
    structs = [_limits(spec)] if spec.limits else []
    structs += [_struct(spec, signature) for signature in spec.signatures]
    return f"""{cpp.banner(spec)}#ifndef {cpp.guard(spec)}
#define {cpp.guard(spec)}

#include <cstdint>

#include "interface/launch_config.h"

namespace ms_ascend_ops {{

{"".join(part + chr(10) for part in enums + structs)}}}  // namespace ms_ascend_ops

#endif  // {cpp.guard(spec)}
"""


def _limits(spec: OpSpec) -> str:
    fields = [f"    static constexpr uint64_t {name.upper()} = {most};\n" for name, most in spec.limits.items()]
    return f"struct {cpp.pascal(spec.name)}Limits {{\n{''.join(fields)}}};\n"


def _struct(spec: OpSpec, signature: Signature) -> str:
    fields = [f"    TensorDesc {tensor.name};\n" for tensor in signature.inputs]
    fields += [f"    {cpp.attribute_type(spec, attribute)} {attribute.name};\n" for attribute in signature.attributes]
    return f"struct {signature.entry}Params {{\n{''.join(fields)}}};\n"
