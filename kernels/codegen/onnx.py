"""onnx_operators.cpp: the operators as the library for ONNX Runtime registers them."""

from __future__ import annotations

from collections.abc import Sequence

from codegen import host
from ms_ascend_ops.registry import OpSpec, Signature

__all__ = ["generate"]


def generate(specs: Sequence[OpSpec]) -> str:
    """C++ for all operators; ONNX has no gradients."""
    operators = ",\n".join(_operator(spec.forward) for spec in specs)
    return f"""// Generated from ms_ascend_ops/ops by kernels/codegen. Changes here are lost.
#include "binding/onnx/onnx_operator.h"

namespace ms_ascend_ops::binding {{

std::vector<OnnxOperator> OnnxOperators()
{{
    return {{{operators}}};
}}

}}  // namespace ms_ascend_ops::binding
"""


def _operator(signature: Signature) -> str:
    inputs = [tensor.name for tensor in signature.inputs]
    # It is as in CANN: what is changed in place is an output, too, and comes last.
    writes = [str(inputs.index(tensor.name)) for tensor in signature.cann_outputs if tensor.name in signature.writes]
    inplace = f"&MayInplace<{', '.join([str(len(signature.outputs)), *writes])}>" if writes else "nullptr"
    return f"{{{host.signature_definition(signature)}, {signature.version}, {{{', '.join(writes)}}}, {inplace}}}"
