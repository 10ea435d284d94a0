/*!
 * The C interface of the stand-in module, for ctypes: describes a registered operator, and runs its tiling, its shape
 * and dtype inference, and its kernel entry on the host layer.
 */
#include <cstring>
#include <string>

#include "host/runtime/launch.h"
#include "register/op_def_registry.h"

namespace {

struct Inputs {
    int32_t count;
    const int32_t* ranks;  // negative: the input is absent
    const int64_t* const* shapes;
    const int32_t* dtypes;
    const int64_t* integers;  // of the attributes
    const double* reals;
};

const ops::OpDef& Find(const char* op)
{
    return ops::Registered().at(op);
}

void Fill(gert::ContextStandIn& context, const ops::OpDef& op, const Inputs& inputs)
{
    for (int32_t i = 0; i < inputs.count; ++i) {
        gert::InputStandIn input;
        input.present = inputs.ranks[i] >= 0;
        input.dtype = static_cast<ge::DataType>(inputs.dtypes[i]);
        if (input.present) {
            gert::Shape& shape = input.shape.MutableStorageShape();
            shape.SetDimNum(inputs.ranks[i]);
            for (int32_t axis = 0; axis < inputs.ranks[i]; ++axis) {
                shape.SetDim(axis, inputs.shapes[i][axis]);
            }
        }
        context.inputs.push_back(input);
    }
    for (size_t i = 0; i < op.attributes.size(); ++i) {
        gert::AttributeStandIn value;
        value.type = op.attributes[i].type;
        value.integer = inputs.integers[i];
        value.real = static_cast<float>(inputs.reals[i]);
        value.flag = inputs.integers[i] != 0;
        context.attributes.values.push_back(value);
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

}  // namespace

extern "C" {

struct TilingResult {
    uint32_t blockDim;
    uint32_t scheduleMode;
    uint64_t tilingKey;
    uint64_t workspaceBytes;
    uint64_t dataBytes;
    uint8_t data[2048];
};

// JSON.
const char* StandInDescribe(const char* op)
{
    static std::string text;
    ops::OpDef def = Find(op);
    std::string attributes;
    for (const ops::OpAttrDef& attribute : def.attributes) {
        attributes += (attributes.empty() ? "" : ", ") + ("{\"name\": " + Quote(attribute.name)) +
                      ", \"type\": " + Quote(attribute.type) + ", \"kind\": " + std::to_string(attribute.attrType) +
                      "}";
    }
    std::string configs;
    for (const auto& config : def.AICore().configs) {
        configs += (configs.empty() ? "" : ", ") + Quote(config.first) + ": " + Describe(config.second.inputs);
    }
    text = "{\"inputs\": " + Describe(def.inputs) + ", \"outputs\": " + Describe(def.outputs) + ", \"attributes\": [" +
           attributes + "], \"chips\": {" + configs + "}}";
    return text.c_str();
}

uint32_t StandInTile(const char* op, const Inputs* inputs, uint32_t vectorCores, uint64_t ubBytes,
                     uint32_t libraryWorkspace, TilingResult* result)
{
    ops::OpDef def = Find(op);
    gert::TilingContext context;
    Fill(context, def, *inputs);
    for (const gert::InputStandIn& input : context.inputs) {
        context.descs.emplace_back(input.dtype);
    }
    context.platform.vectorCores = vectorCores;
    context.platform.ubBytes = ubBytes;
    context.platform.libraryWorkspace = libraryWorkspace;
    const ge::graphStatus status = def.AICore().tiling(&context);
    result->blockDim = context.blockDim;
    result->scheduleMode = context.scheduleMode;
    result->tilingKey = context.tilingKey;
    result->workspaceBytes = context.workspaces.empty() ? 0 : context.workspaces[0];
    result->dataBytes = context.data.size;
    std::memcpy(result->data, context.data.bytes.data(), context.data.size);
    return status;
}

// `dims` takes 8 numbers for each output, `ranks` one.
uint32_t StandInInferShape(const char* op, const Inputs* inputs, int32_t* ranks, int64_t* dims)
{
    const ops::OpDef& def = Find(op);
    gert::InferShapeContext context;
    Fill(context, def, *inputs);
    context.outputs.resize(def.outputs.size());
    const ge::graphStatus status = def.inferShape(&context);
    for (size_t i = 0; i < context.outputs.size(); ++i) {
        ranks[i] = static_cast<int32_t>(context.outputs[i].GetDimNum());
        for (int32_t axis = 0; axis < ranks[i]; ++axis) {
            dims[i * 8 + axis] = context.outputs[i].GetDim(axis);
        }
    }
    return status;
}

uint32_t StandInInferDataType(const char* op, const Inputs* inputs, int32_t* dtypes)
{
    const ops::OpDef& def = Find(op);
    gert::InferDataTypeContext context;
    Fill(context, def, *inputs);
    context.outputs.assign(def.outputs.size(), ge::DT_UNDEFINED);
    const ge::graphStatus status = def.inferDataType(&context);
    for (size_t i = 0; i < context.outputs.size(); ++i) {
        dtypes[i] = context.outputs[i];
    }
    return status;
}

}  // extern "C"
