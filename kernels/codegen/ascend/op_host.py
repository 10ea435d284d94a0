"""op_host/<operator>.cpp: registration, tiling, shape and dtype inference for CANN."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from codegen import cpp, host
from codegen.ascend import names
from codegen.ascend.chips import Chip, type_rows
from codegen.tiling_header import CUBE_TILING, cann_name
from ms_ascend_ops.registry import AttributeSpec, OpSpec, Signature, TensorSpec
from ms_ascend_ops.version import __version__

__all__ = ["generate"]

# A choice travels as the index of its text.
_ATTRIBUTES = {"int": "Int", "float": "Float", "bool": "Bool", "string": "Int"}


def generate(
    spec: OpSpec,
    signature: Signature,
    fields: list[tuple[str, str]],
    chips: Sequence[Chip],
    synchronizes: bool,
    multiplies: bool,
) -> str:
    """C++ of one operator."""
    entry, operator = signature.entry, signature.cann_type
    constant = signature.name.upper()
    data = f"{operator}TilingData"
    definitions = "".join(map(_field, fields))
    setters = "".join(map(_setter, fields))
    cube = '#include "ascend_cube_tiling_host.h"\n' if multiplies else ""
    return f"""{cpp.banner(spec)}{cube}#include "ascend_op_host.h"
#include "{spec.name}_tiling.h"

// Read from the built package: which version of the operator it has.
extern "C" __attribute__((used, visibility("default"))) const char {operator}Version[] =
    "{operator}={__version__};";

namespace optiling {{

BEGIN_TILING_DATA_DEF({data})
{definitions}END_TILING_DATA_DEF
REGISTER_TILING_DATA_CLASS({operator}, {data})

}}  // namespace optiling

namespace ms_ascend_ops {{
namespace {{

using binding::AttributeValue;
using binding::KernelDef;
using binding::Op;

{host.make_params(spec, signature)}
const Op& {constant} = binding::Register({host.definition(signature, "nullptr", "nullptr")});

ge::graphStatus Tile{entry}(gert::TilingContext* context)
{{
    return cann::Tile(context, {constant}, {_cores(synchronizes, multiplies)}, [context](
        const TensorDesc* inputs, const AttributeValue* attributes, const Platform& platform, bool empty) {{
        {entry}TilingData tiling{{}};
        LaunchConfig config;
        if (!empty) {{
            config = binding::Tiled({cpp.quote(signature.name)}, [&] {{
                return {entry}Tiling(Make{entry}Params(inputs, attributes), platform, tiling);
            }});
        }}
        optiling::{data} data;
{setters}        cann::Save(context, {constant}, data);
        return config;
    }});
}}

ge::graphStatus InferShape{entry}(gert::InferShapeContext* context)
{{
    return cann::InferShape(context, {constant});
}}

ge::graphStatus InferDataType{entry}(gert::InferDataTypeContext* context)
{{
    return cann::InferDataType(context, {constant});
}}

}}  // namespace
}}  // namespace ms_ascend_ops

namespace ops {{

class {operator} : public OpDef {{
public:
    explicit {operator}(const char* name) : OpDef(name)
    {{
{_parameters(signature, signature.types, "this->")}{"".join(map(_attribute, signature.attributes))}\
        this->SetInferShape(ms_ascend_ops::InferShape{entry}).SetInferDataType(ms_ascend_ops::InferDataType{entry});
        this->AICore().SetTiling(ms_ascend_ops::Tile{entry});
{"".join(_config(signature, chip) for chip in chips)}    }}
}};

OP_ADD({operator});

}}  // namespace ops
"""


def _parameters(signature: Signature, rows: Sequence[Mapping[str, str]], target: str) -> str:
    def side(kind: str, tensors: Sequence[TensorSpec]) -> str:
        text = ""
        for tensor in tensors:
            dtypes = ", ".join(f"ge::{names.CANN_TYPES[row.get(tensor.dtype, tensor.dtype)]}" for row in rows)
            formats = ", ".join(["ge::FORMAT_ND"] * len(rows))
            # A view, as PyNative makes them, is copied by CANN before the kernel sees it, and after it if it is an
            # output, too.
            necessity = "OPTIONAL" if tensor.optional else "REQUIRED"
            contiguous = ".AutoContiguous()" if kind == "Input" else ""
            text += f"""        {target}{kind}("{tensor.name}").ParamType({necessity}).DataType({{{dtypes}}})
            .Format({{{formats}}}){contiguous};
"""
        return text

    return side("Input", signature.inputs) + side("Output", signature.cann_outputs)


def _cores(synchronizes: bool, multiplies: bool) -> str:
    if multiplies:
        return "cann::Cores::SYNCHRONIZED_WITH_CUBES" if synchronizes else "cann::Cores::WITH_CUBES"
    return "cann::Cores::SYNCHRONIZED" if synchronizes else "cann::Cores::INDEPENDENT"


def _field(field: tuple[str, str]) -> str:
    kind, name = field
    if kind == CUBE_TILING:
        return f"TILING_DATA_FIELD_DEF_STRUCT(TCubeTiling, {cann_name(name)});\n"
    return f"TILING_DATA_FIELD_DEF({kind}, {cann_name(name)});\n"


def _setter(field: tuple[str, str]) -> str:
    kind, name = field
    if kind == CUBE_TILING:
        return f"""        if (!empty) {{
            cann::ConvertCubeTiling(context, tiling.{name}, data.{cann_name(name)});
        }}
"""
    return f"        data.set_{cann_name(name)}(tiling.{name});\n"


def _attribute(attribute: AttributeSpec) -> str:
    return f'        this->Attr("{attribute.name}").AttrType(REQUIRED).{_ATTRIBUTES[attribute.type]}();\n'


def _config(signature: Signature, chip: Chip) -> str:
    rows = type_rows(signature, chip)
    if len(rows) == len(signature.types):
        return f'        this->AICore().AddConfig("{chip.name}");\n'
    config = f"{chip.name}Config"
    return f"""        OpAICoreConfig {config};
        {config}.DynamicCompileStaticFlag(true).DynamicRankSupportFlag(true).DynamicShapeSupportFlag(true);
{_parameters(signature, rows, f"{config}.")}        this->AICore().AddConfig("{chip.name}", {config});
"""
