/*!
 * Implements op_host_api.h for a library of op_host sources: it is compiled behind them, in the same translation unit.
 */
#include "op_host_api.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "ascend_op_host.h"
#include "register/op_def_registry.h"

#pragma GCC visibility push(default)

namespace {

ops::OpDef* Find(const char* type)
{
    const auto found = ops::Registered().find(type);
    return found == ops::Registered().end() ? nullptr : &found->second;
}

template <typename CONTEXT>
void Fill(CONTEXT& context, const ops::OpDef& op, const MsAscendHostCall& call)
{
    for (size_t i = 0; i < call.inputCount; ++i) {
        const MsAscendHostTensor& tensor = call.inputs[i];
        gert::Input input;
        input.present = tensor.rank >= 0;
        input.dtype = static_cast<ge::DataType>(tensor.dtype);
        gert::Shape& shape = input.shape.MutableStorageShape();
        shape.SetDimNum(static_cast<size_t>(std::max(0, tensor.rank)));
        for (int32_t axis = 0; axis < tensor.rank; ++axis) {
            shape.SetDim(static_cast<size_t>(axis), tensor.shape[axis]);
        }
        context.inputs.push_back(input);
    }
    for (size_t i = 0; i < std::min(op.attributes.size(), call.attributeCount); ++i) {
        const MsAscendHostAttribute& value = call.attributes[i];
        context.attributes.values.push_back(
            {op.attributes[i].type, value.integer, static_cast<float>(value.real), value.integer != 0});
    }
}

std::string Quote(const std::string& text)
{
    return "\"" + text + "\"";
}

template <typename T>
std::string List(const std::vector<T>& values)
{
    std::string text;
    for (const T& value : values) {
        text += (text.empty() ? "" : ", ") + std::to_string(static_cast<int>(value));
    }
    return "[" + text + "]";
}

std::string Describe(const std::vector<ops::OpParamDef>& parameters)
{
    std::string text;
    for (const ops::OpParamDef& parameter : parameters) {
        text += (text.empty() ? "" : ", ") + ("{\"name\": " + Quote(parameter.name)) +
                ", \"kind\": " + std::to_string(parameter.paramType) + ", \"dtypes\": " + List(parameter.dtypes) +
                ", \"formats\": " + List(parameter.formats) +
                ", \"contiguous\": " + (parameter.contiguous ? "true" : "false") + "}";
    }
    return "[" + text + "]";
}

ge::graphStatus NoOperator(const char* type)
{
    ms_ascend_ops::cann::lastRefusal = std::string("the package has no op_host code for ") + type;
    return ge::GRAPH_FAILED;
}

}  // namespace

extern "C" {

const char* MsAscendHostReason()
{
    return ms_ascend_ops::cann::lastRefusal.c_str();
}

const char* MsAscendHostDescribe(const char* type)
{
    static thread_local std::string text;
    ops::OpDef* const def = Find(type);
    if (def == nullptr) {
        return nullptr;
    }
    std::string attributes;
    for (const ops::OpAttrDef& attribute : def->attributes) {
        attributes += (attributes.empty() ? "" : ", ") + ("{\"name\": " + Quote(attribute.name)) +
                      ", \"type\": " + Quote(attribute.type) + ", \"kind\": " + std::to_string(attribute.attrType) +
                      "}";
    }
    std::string configs;
    for (const auto& config : def->AICore().configs) {
        configs += (configs.empty() ? "" : ", ") + Quote(config.first) + ": " + Describe(config.second.inputs);
    }
    text = "{\"inputs\": " + Describe(def->inputs) + ", \"outputs\": " + Describe(def->outputs) +
           ", \"attributes\": [" + attributes + "], \"chips\": {" + configs + "}}";
    return text.c_str();
}

uint32_t MsAscendHostTile(const MsAscendHostCall* call, const MsAscendHostChip* chip, MsAscendHostTiling* tiling)
{
    ops::OpDef* const def = Find(call->type);
    if (def == nullptr) {
        return NoOperator(call->type);
    }
    gert::TilingContext context(tiling->data, sizeof(tiling->data));
    Fill(context, *def, *call);
    for (const gert::Input& input : context.inputs) {
        context.descs.emplace_back(input.dtype);
    }
    context.platform = {chip->vectorCores, chip->ubBytes};
    const ge::graphStatus status = def->AICore().tiling(&context);
    tiling->blockDim = context.blockDim;
    tiling->scheduleMode = context.scheduleMode;
    tiling->tilingKey = context.tilingKey;
    tiling->workspaceBytes = context.workspaces.empty() ? 0 : context.workspaces[0];
    tiling->dataBytes = context.data.size;
    return status;
}

uint32_t MsAscendHostInferShape(const MsAscendHostCall* call, MsAscendHostShape* shapes)
{
    const ops::OpDef* const def = Find(call->type);
    if (def == nullptr) {
        return NoOperator(call->type);
    }
    gert::InferShapeContext context;
    Fill(context, *def, *call);
    context.outputs.resize(def->outputs.size());
    const ge::graphStatus status = def->inferShape(&context);
    for (size_t i = 0; i < context.outputs.size(); ++i) {
        shapes[i].rank = static_cast<int32_t>(context.outputs[i].GetDimNum());
        for (int32_t axis = 0; axis < shapes[i].rank; ++axis) {
            shapes[i].sizes[axis] = context.outputs[i].GetDim(static_cast<size_t>(axis));
        }
    }
    return status;
}

uint32_t MsAscendHostInferDataType(const MsAscendHostCall* call, int32_t* dtypes)
{
    const ops::OpDef* const def = Find(call->type);
    if (def == nullptr) {
        return NoOperator(call->type);
    }
    gert::InferDataTypeContext context;
    Fill(context, *def, *call);
    context.outputs.assign(def->outputs.size(), ge::DT_UNDEFINED);
    const ge::graphStatus status = def->inferDataType(&context);
    std::copy(context.outputs.begin(), context.outputs.end(), dtypes);
    return status;
}

}  // extern "C"

#pragma GCC visibility pop
