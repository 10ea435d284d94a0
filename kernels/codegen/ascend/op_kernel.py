"""op_kernel/<operator>.cpp: the entry that CANN compiles for each combination of dtypes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from codegen import cpp
from codegen.ascend import names
from codegen.tiling_header import cann_name, cann_type
from ms_ascend_ops.registry import OpSpec, Signature, TensorSpec

__all__ = ["generate", "macros", "tiling_struct"]


def generate(
    spec: OpSpec,
    signature: Signature,
    kernels: list[str],
    fields: list[tuple[str, str]],
    synchronizes: bool,
    multiplies: bool,
) -> str:
    """C++ of one entry. `synchronizes`: its cores meet at a barrier; `multiplies`: it has products of matrices."""
    parameters, arguments = _parameters(signature)
    # A barrier of vector cores only: MIX_AIV_1_0, by the constraints of SyncAll.
    kind = "KERNEL_TYPE_MIX_AIV_1_0" if synchronizes else "KERNEL_TYPE_AIV_ONLY"
    cube = '#include "lib/matmul_intf.h"\n' if multiplies else ""
    if multiplies:  # groups of a cube core and two vector cores; SyncAll is one of the vector cores there, too
        kind = "KERNEL_TYPE_MIX_AIC_1_2"
    dtypes = [_dtype(signature, variable) for variable in signature.variables]
    copies = "".join(f"    tilingData.{name} = data.{cann_name(name)};\n" for _, name in fields)
    return f"""{cpp.banner(spec)}#include "kernel_operator.h"
{cube}{"".join(f'#include "{kernel}"{chr(10)}' for kernel in kernels)}{_absent(signature)}
extern "C" __global__ __aicore__ void {names.snake(signature.cann_type)}(
    {", ".join(f"GM_ADDR {name}" for name in parameters)}, GM_ADDR workspace, GM_ADDR tiling)
{{
    KERNEL_TASK_TYPE_DEFAULT({kind});
    GET_TILING_DATA(data, tiling);
    ms_ascend_ops::{signature.entry}TilingData tilingData;
{copies}    if (TILING_KEY_IS({names.TILING_KEY})) {{
        ms_ascend_ops::{signature.entry}Kernel<{", ".join(dtypes)}>(
            {", ".join(arguments)}, AscendC::GetUserWorkspace(workspace), tilingData);
    }}
}}
"""


def tiling_struct(signature: Signature, fields: Sequence[tuple[str, str]], multiplies: bool) -> str:
    """The struct of its tiling data that CANN's build puts in front of an entry."""
    cube = '#include "lib/matmul_intf.h"\n' if multiplies else ""
    members = "".join(f"    {cann_type(kind)} {cann_name(name)};\n" for kind, name in fields)
    return f"{cube}struct {_struct(signature)} {{\n{members}}};\n"


def macros(signature: Signature, row: Mapping[str, str]) -> dict[str, str]:
    """The macros that CANN's build defines for an entry and a row of its types."""
    data = f"{_struct(signature)} data; std::memcpy(&data, (const void*)(tiling), sizeof(data))"
    defined = {"GET_TILING_DATA(data, tiling)": data}
    for tensor in signature.inputs:
        defined[f"DTYPE_{tensor.name.upper()}"] = cpp.KERNEL_TYPES[row.get(tensor.dtype, tensor.dtype)]
    return defined


def _struct(signature: Signature) -> str:
    return f"{signature.cann_type}TilingData"


def _parameters(signature: Signature) -> tuple[list[str], list[str]]:
    """The tensors that CANN passes to the entry, and those that the entry passes to the kernel.

    For an input that is changed in place CANN passes two: the same memory, of which the kernel gets the output.
    """
    outputs = {tensor.name: f"{tensor.name}_out" for tensor in signature.inputs if tensor.name in signature.writes}
    inputs = [tensor.name for tensor in signature.inputs]
    own = [tensor.name for tensor in signature.outputs]
    return [*inputs, *own, *outputs.values()], [*(outputs.get(name, name) for name in inputs), *own]


def _dtype(signature: Signature, variable: str) -> str:
    """CANN's macro for the dtype that stands for a dtype variable: that of an input that is always there, if any is."""
    of = [tensor for tensor in signature.inputs if tensor.dtype == variable]
    return _macro(min(of, key=lambda tensor: tensor.optional))


def _macro(tensor: TensorSpec) -> str:
    return f"DTYPE_{tensor.name.upper()}"


def _absent(signature: Signature) -> str:
    """C++ for the macros that CANN does not define when an optional input is absent: its dtype is the main one."""
    main = signature.variables[0]
    optional = {_macro(tensor) for tensor in signature.inputs if tensor.optional}
    variables = [variable for variable in signature.variables if _dtype(signature, variable) in optional]
    assert all({**row, variable: row[main]} in signature.types for row in signature.types for variable in variables)
    guarded = sorted(_dtype(signature, variable) for variable in variables)
    lines = [f"#ifndef {macro}\n#define {macro} {_dtype(signature, main)}\n#endif\n" for macro in guarded]
    return "\n// CANN defines none for an input that is absent.\n" + "".join(lines) if lines else ""
