"""<op>_host.cpp: instantiates the kernels for the host, registers them and exports MindSpore's entry points."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import product

from codegen import cpp
from codegen.ascend import names, op_kernel
from codegen.ascend.kernel import Kernel
from codegen.tiling_header import CUBE_TILING
from ms_ascend_ops.definitions.shapes import Token
from ms_ascend_ops.registry import ACLNN_TYPES, AttributeSpec, OpSpec, Signature, TensorSpec

__all__ = ["definition", "generate", "make_params", "signature_definition"]

_ATTRIBUTE_KINDS = ("int", "float", "bool", "string")  # as binding::AttributeKind

# Behind the tiling, which says what is wrong with sizes.
_RUN_IN_LIBRARY = """
#if !defined(ASCENDC_HOST_OBSERVED)
    if (RunInLibrary(arguments, params)) {
        return;
    }
#endif"""

Fields = dict[str, list[tuple[str, str]]]


def generate(
    spec: OpSpec,
    kernels: list[str],
    fields: Fields,
    packaged: Mapping[str, Kernel] | None = None,
    library: str | None = None,
) -> str:
    """C++ for one operator. `library` is the header by which a library of the host answers in the place of its kernels.

    `kernels` are the headers of its kernels. `fields` holds, for every signature by name, the (type, name) of the
    fields of its tiling data, `packaged` its kernel in the CANN package: with them the library has the entries of the
    package, too, from the files of op_kernel/.
    """
    packaged = packaged or {}
    entries = "".join(_package_entries(packaged[s.name]) for s in spec.signatures if s.name in packaged)
    answers = (
        f"""#if !defined(ASCENDC_HOST_OBSERVED)
#include "{library}"
#endif
"""
        if library
        else ""
    )
    table = {s.name: _table(packaged[s.name]) if s.name in packaged else "{}" for s in spec.signatures}
    return f"""{cpp.banner(spec)}{"".join(f'#include "{kernel}"{chr(10)}' for kernel in kernels)}
#include "{spec.name}_tiling.h"
#include "binding/entry.h"
#include "binding/mindspore_entry.h"
#include "binding/op.h"
#include "host/runtime/launch.h"
{answers}
{entries}namespace ms_ascend_ops {{
namespace {{

using binding::AttributeValue;
using binding::KernelDef;
using binding::MakeTilingField;
using binding::Op;
using binding::TilingField;

{"".join(_internal(spec, s, fields[s.name], table[s.name], library is not None) for s in spec.signatures)}
}}  // namespace
}}  // namespace ms_ascend_ops

{"".join(_entries(signature) for signature in spec.signatures)}"""


def _package_entries(kernel: Kernel) -> str:
    """The entries of the CANN package, one for each row of types, from the one source that CANN compiles."""
    name = names.snake(kernel.signature.cann_type)
    # An entry does not use the inputs that are outputs, too.
    include = f"""#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include "op_kernel/{name}.cpp"
#pragma GCC diagnostic pop
"""
    return op_kernel.tiling_struct(kernel.signature, kernel.fields, kernel.multiplies) + "".join(
        _with_macros(op_kernel.macros(kernel.signature, row) | {name: f"{name}_{i}"}, include)
        for i, row in enumerate(kernel.signature.types)
    )


def _with_macros(macros: dict[str, str], text: str) -> str:
    defined = "".join(f"#define {name} {value}\n" for name, value in macros.items())
    return defined + text + "".join(f"#undef {name.partition('(')[0]}\n" for name in macros)


def _table(kernel: Kernel) -> str:
    """C++ of binding::PackageEntries."""
    name = names.snake(kernel.signature.cann_type)
    rows = ", ".join(f"&binding::RunEntry<&::{name}_{i}>" for i in range(len(kernel.signature.types)))
    return f"{{{{{rows}}}, {str(kernel.multiplies).lower()}, {str(kernel.synchronizes).lower()}}}"


def _internal(spec: OpSpec, signature: Signature, fields: list[tuple[str, str]], entries: str, in_library: bool) -> str:
    entry = signature.entry
    parameters = ", ".join(f"typename {variable}" for variable in signature.variables)
    instances = ",\n        ".join(
        f"&Run{entry}<{', '.join(cpp.KERNEL_TYPES[dtype] for dtype in row.values())}>" for row in signature.types
    )
    tensors = [f"static_cast<GM_ADDR>(params[{i}])" for i in range(len(cpp.arguments(signature)))]
    plain = [name for kind, name in fields if kind != CUBE_TILING]
    # op_kernel says the same of its entry: vector cores whose kernel has products share cube cores.
    kind = "AIV_ONLY" if len(plain) == len(fields) else "MIX_AIC_1_2"
    shown = [name for kind, field in fields for name in (_cube_fields(field) if kind == CUBE_TILING else [field])]
    tiling_fields = "".join(f'    fields.push_back(MakeTilingField("{name}", tiling.{name}));\n' for name in shown)
    overrules = "".join(f'AscendC::host::Overrule("{name}", tiling.{name}); ' for name in plain)
    overrules += 'AscendC::host::Overrule("block_dim", config.blockDim); '
    call = f"runners[row](params, Make{entry}Params(inputs, attributes), memory);"
    library = f"&LibraryOf{entry}" if in_library else "nullptr"
    registered = definition(signature, f"&Launch{entry}", f"&Tile{entry}", entries, library)
    if rules := _value_rules(signature):
        call = f"AscendC::host::WithValueRules({cpp.quote(rules)}, [&] {{ {call} }});"
    return f"""static_assert({len(cpp.arguments(signature))} <= MAX_TENSORS);

{make_params(spec, signature)}
template <{parameters}>
void Run{entry}(void* const* params, const {entry}Params& arguments, const LaunchMemory& memory)
{{
    {entry}TilingData tiling{{}};
    [[maybe_unused]] LaunchConfig config = binding::Tiled({cpp.quote(signature.name)}, [&] {{
        return {entry}Tiling(arguments, AscendC::host::TheExecutor().Platform(), tiling);
    }});
    HOST_OBSERVED({overrules}AscendC::host::ObserveTiling(tiling);){_RUN_IN_LIBRARY if in_library else ""}
    AscendC::host::Launch(config, memory, AscendC::host::BytesOf(tiling), [&](GM_ADDR workspace) {{
        {entry}Kernel<{", ".join(signature.variables)}>(
            {(", ".join(tensors))}, workspace, tiling);
    }}, AscendC::host::KernelType::{kind});
}}

void Launch{entry}(size_t row, void* const* params, const TensorDesc* inputs, const AttributeValue* attributes,
    const LaunchMemory& memory)
{{
    using Runner = void (*)(void* const*, const {entry}Params&, const LaunchMemory&);
    constexpr Runner runners[] = {{
        {instances},
    }};
    {call}
}}

LaunchConfig Tile{entry}(const TensorDesc* inputs, const AttributeValue* attributes, const Platform& platform,
    std::vector<TilingField>& fields)
{{
    {entry}TilingData tiling{{}};
    const LaunchConfig config = binding::Tiled({cpp.quote(signature.name)}, [&] {{
        return {entry}Tiling(Make{entry}Params(inputs, attributes), platform, tiling);
    }});
{tiling_fields}    return config;
}}

{_library_of(entry) if in_library else ""}const Op& {_constant(signature)} = binding::Register({registered});

"""


def _library_of(entry: str) -> str:
    """C++ of the function that says which library answers."""
    return f"""std::string LibraryOf{entry}([[maybe_unused]] const TensorDesc* inputs,
    [[maybe_unused]] const AttributeValue* attributes)
{{
#if defined(ASCENDC_HOST_OBSERVED)
    return "";
#else
    return AnsweringLibrary(Make{entry}Params(inputs, attributes));
#endif
}}

"""


def _value_rules(signature: Signature) -> str:
    return "; ".join(f"{name} must be {rule}" for name, rule in signature.values.items())


def _cube_fields(field: str) -> list[str]:
    return [f"{field}.{part}{axis}" for part in ("singleCore", "base") for axis in "MNK"]


def make_params(spec: OpSpec, signature: Signature) -> str:
    """C++ of the function that fills the parameter struct of a tiling function."""
    entry = signature.entry
    descriptions = [f"inputs[{i}]" for i in range(len(signature.inputs))]
    values = [_read(spec, attribute, f"attributes[{i}]") for i, attribute in enumerate(signature.attributes)]
    return f"""{entry}Params Make{entry}Params([[maybe_unused]] const TensorDesc* inputs,
    [[maybe_unused]] const AttributeValue* attributes)
{{
    return {{{", ".join(descriptions + values)}}};
}}
"""


def definition(signature: Signature, launch: str, tiling: str, entries: str = "{}", library: str = "nullptr") -> str:
    """C++ of what binding::Register takes of a kernel. `launch`, `tiling` and `library` are the C++ of its functions,
    `entries` that of its entries in the CANN package.
    """
    return f"""{signature_definition(signature)},
KernelDef{{
    {cpp.quote(signature.entry)},
    {{{", ".join(cpp.quote(name) for name in signature.writes)}}},
    {cpp.quote(_json(signature))},
    {launch}, {tiling},
    {cpp.quote(_value_rules(signature))}, {entries}, {library}}}"""


def signature_definition(signature: Signature) -> str:
    """C++ of what a kernel takes and gives, as `binding::ParseSignature` reads it: a thing a line, tabs between fields.

    What belongs to a tensor, a token, an attribute or a row of types follows it.
    """
    lines = [["signature", signature.name]]
    for kind, tensors in (("input", signature.inputs), ("output", signature.outputs)):
        for tensor in tensors:
            lines.append([kind, tensor.name, tensor.dtype, _flag(tensor.optional)])
            for token in tensor.rule.tokens:
                lines.append(_token(token))
                lines += [["size", name] for name in token.sizes] + [["window", name] for name in token.window]
    for attribute in signature.attributes:
        lines.append(_attribute(attribute))
        lines += [["choice", choice] for choice in attribute.choices]
        lines += [["renamed", old, new] for old, new in attribute.renamed]
        lines += [["formerly", attribute.formerly]] if attribute.formerly else []
        lines += [["axis", str(axis)] for axis in attribute.axes]
    for row in signature.types:
        lines += [["types"], *(["type", variable, dtype] for variable, dtype in row.items())]
    lines += [["reason", symbol, reason] for symbol, reason in signature.reasons.items()]
    lines += [["positive", symbol] for symbol in sorted(signature.positive)]
    lines += [["multiple", symbol, of] for symbol, of in signature.multiples.items()]
    assert not any("\t" in field or "\n" in field for line in lines for field in line)
    text = [cpp.quote("\t".join(line) + "\n") for line in lines]
    return f"binding::ParseSignature(\n    {f'{chr(10)}    '.join(text)})"


def _entries(signature: Signature) -> str:
    entry, op = signature.entry, f"ms_ascend_ops::{_constant(signature)}"
    # C linkage for the name only: MindSpore looks the functions up by it and calls them as C++.
    return f"""MS_ASCEND_OPS_EXPORT int {entry}(int nparam, void** params, int* ndims, int64_t** shapes,
    const char** dtypes, void*, void* extra)
{{
    return ms_ascend_ops::binding::Run({op}, nparam, params, ndims, shapes, dtypes, extra);
}}

MS_ASCEND_OPS_EXPORT int {entry}Init(int*, int64_t**, const char**, mindspore::AotExtra* extra)
{{
    return ms_ascend_ops::binding::Init({op}, extra);
}}

{_inference(signature, entry, "LEFT_OUT")}{_inference(signature, f"aclnn{signature.cann_type}", "REPLACED")}{
        "".join(_callback(signature, presence) for presence in _presences(signature))
    }"""


def _inference(signature: Signature, name: str, absent: str) -> str:
    """Give inference under the name of the aclnn function, too: on an NPU MindSpore infers by this library, too."""
    op = f"ms_ascend_ops::{_constant(signature)}, ms_ascend_ops::binding::Absent::{absent}"
    shape, dtype = "std::vector<int64_t>", "mindspore::TypeId"
    shapes = f"ms_ascend_ops::binding::InferShape({op}, ndims, shapes, extra)"
    types = f"ms_ascend_ops::binding::InferType({op}, types, extra)"
    if len(signature.outputs) > 1:
        shape, dtype = f"std::vector<{shape}>", f"std::vector<{dtype}>"
    else:
        shapes, types = f"{shapes}[0]", f"{types}[0]"
    return f"""MS_ASCEND_OPS_EXPORT {shape} {name}InferShape(int* ndims, int64_t** shapes, mindspore::AotExtra* extra)
{{
    return {shapes};
}}

MS_ASCEND_OPS_EXPORT {dtype} {name}InferType(std::vector<mindspore::TypeId> types, mindspore::AotExtra* extra)
{{
    return {types};
}}

"""


def _presences(signature: Signature) -> list[dict[str, bool]]:
    """Every combination of optional inputs that a node may have."""
    names = [attribute.name for attribute in signature.presence]
    return [dict(zip(names, given, strict=True)) for given in product((True, False), repeat=len(names))]


def _callback(signature: Signature, presence: dict[str, bool]) -> str:
    """Return how MindSpore calls the aclnn function on an NPU. By itself it would compile that, for each operator.

    It passes the tensors of the node, addresses of the attributes, and the outputs.
    """
    given, tensors = signature.given(presence), len(signature.npu_inputs(presence))
    inputs = [f"inputs[{i}]" if tensor in given else "nullptr" for i, tensor in enumerate(signature.inputs)]
    types = [ACLNN_TYPES[attribute.type] for attribute in signature.attributes]
    attributes = [f"*static_cast<{kind}*>(inputs[{tensors + i}])" for i, kind in enumerate(types)]
    outputs = [f"outputs[{i}]" for i in range(len(signature.outputs))]
    parameters = ", ".join([*["void*"] * len(inputs), *types, *["void*"] * len(outputs), "uint64_t*", "void**"])
    return f"""MS_ASCEND_OPS_EXPORT int {signature.aclnn_callback(presence)}GetWorkSpaceSize(void* function,
    std::vector<void*> inputs, std::vector<void*> outputs, uint64_t* workspaceBytes, void** executor)
{{
    return reinterpret_cast<int (*)({parameters})>(function)(
        {", ".join([*inputs, *attributes, *outputs])}, workspaceBytes, executor);
}}

"""


def _constant(signature: Signature) -> str:
    return signature.name.upper()


def _read(spec: OpSpec, attribute: AttributeSpec, value: str) -> str:
    cpp_type = cpp.attribute_type(spec, attribute)
    if attribute.type == "float":
        return f"static_cast<float>({value}.real)"
    if attribute.type == "bool":
        return f"{value}.integer != 0"
    return f"{value}.integer" if attribute.type == "int" else f"static_cast<{cpp_type}>({value}.integer)"


def _flag(value: bool) -> str:
    return str(int(value))


def _token(token: Token) -> list[str]:
    flags = _flag(token.star), _flag(token.broadcasts)
    return ["token", token.symbol, str(token.factor), *flags, token.attribute, _flag(token.ones)]


def _attribute(attribute: AttributeSpec) -> list[str]:
    default, kind = attribute.default, _ATTRIBUTE_KINDS.index(attribute.type)
    if attribute.type == "float":
        integer, real = 0, float(default)
    else:
        integer, real = attribute.choices.index(str(default)) if attribute.choices else int(default), 0.0
    minimum = attribute.exclusive_minimum
    limit = [_flag(minimum is not None), repr(float(minimum or 0))]
    return ["attribute", attribute.name, str(kind), str(integer), repr(real), *limit]


def _json(signature: Signature) -> str:
    def tensors(side: tuple[TensorSpec, ...]) -> list[dict[str, str]]:
        return [{"name": tensor.name, "dtype": tensor.dtype, "shape": tensor.rule.text} for tensor in side]

    return json.dumps(
        {
            "name": signature.name,
            "entry": signature.entry,
            "inputs": tensors(signature.inputs),
            "outputs": tensors(signature.outputs),
            "attributes": [
                {"name": attribute.name, "type": attribute.type, "default": attribute.default}
                for attribute in signature.attributes
            ],
            "types": [dict(row) for row in signature.types],
            "fingerprint": signature.fingerprint,
        }
    )
