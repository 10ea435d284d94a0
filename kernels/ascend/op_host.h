/*!
 * The generated op_host files share this: reading a CANN context into the arguments of a tiling function, and checking
 * it by the operator's definition. The interfaces are those that CANN 8.1 and 9.x have in common.
 */
#ifndef MS_ASCEND_OPS_ASCEND_OP_HOST_H
#define MS_ASCEND_OPS_ASCEND_OP_HOST_H

#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "binding/op.h"
#include "interface/package.h"
#include "register/op_def_registry.h"
#include "register/tilingdata_base.h"
#include "tiling/platform/platform_ascendc.h"

namespace ms_ascend_ops {
namespace cann {

using binding::ABSENT;
using binding::AttributeDef;
using binding::AttributeKind;
using binding::AttributeValue;
using binding::Op;
using binding::Shape;

// A kernel may use these: CANN keeps 256 bytes of the Unified Buffer of Atlas A2, and 8 KiB for some instructions (NPU
// architecture 2201 in the Ascend C guide). An older toolkit reports the whole 192 KiB.
constexpr uint64_t UB_BYTES = 192 * 1024 - 256;
constexpr uint64_t RESERVED_UB_BYTES = 8 * 1024;
constexpr uint32_t BATCH_MODE = 1;  // all cores start together, which a barrier between them needs

// Says how the vector cores of a launch belong together: not at all, all meet at a barrier, or each two share a cube
// core, whose groups a launch counts then; or both.
enum class Cores { INDEPENDENT, SYNCHRONIZED, WITH_CUBES, SYNCHRONIZED_WITH_CUBES };

inline std::string DataTypeName(ge::DataType dtype)
{
    switch (dtype) {
        case ge::DT_FLOAT16:
            return "float16";
        case ge::DT_BF16:
            return "bfloat16";
        case ge::DT_FLOAT:
            return "float32";
        case ge::DT_INT32:
            return "int32";
        case ge::DT_INT64:
            return "int64";
        case ge::DT_INT8:
            return "int8";
        default:
            return "another dtype";
    }
}

inline ge::DataType CannDataType(const std::string& name)
{
    switch (binding::ParseDataType(name)) {
        case DataType::FLOAT16:
            return ge::DT_FLOAT16;
        case DataType::BFLOAT16:
            return ge::DT_BF16;
        case DataType::FLOAT32:
            return ge::DT_FLOAT;
        case DataType::INT32:
            return ge::DT_INT32;
        case DataType::INT64:
            return ge::DT_INT64;
        case DataType::INT8:
            return ge::DT_INT8;
    }
    return ge::DT_UNDEFINED;
}

inline Shape ToShape(const gert::Shape& shape)
{
    Shape dims(shape.GetDimNum());
    for (size_t i = 0; i < dims.size(); ++i) {
        dims[i] = shape.GetDim(i);
    }
    return dims;
}

// This says why the last call of this thread was refused.
inline thread_local std::string lastRefusal;

// CANN logs a failure by its status only: the reason is printed.
template <typename BODY>
ge::graphStatus Guard(BODY&& body)
{
    try {
        body();
        return ge::GRAPH_SUCCESS;
    } catch (const std::exception& error) {
        lastRefusal = error.what();
        std::fprintf(stderr, "ms_ascend_ops: %s\n", error.what());
    }
    return ge::GRAPH_FAILED;
}

template <typename T>
T* Required(T* pointer, const Op& op, const char* what)
{
    if (pointer == nullptr) {
        throw std::invalid_argument(op.Def().name + ": CANN gave no " + what);
    }
    return pointer;
}

// CANN's functions for optional inputs take the position in the OpDef, for others, too; an absent one is null.
template <typename T>
bool IsAbsent(const Op& op, size_t input, const T* shape)
{
    return op.Def().inputs[input].optional ? shape == nullptr : Required(shape, op, "input shape") == nullptr;
}

// In the order of the definition, which is that of the OpDef. A choice is the index of the text.
template <typename CONTEXT>
std::vector<AttributeValue> ReadAttributes(const CONTEXT* context, const Op& op)
{
    std::vector<AttributeValue> values;
    const gert::RuntimeAttrs* attributes = Required(context->GetAttrs(), op, "attributes");
    for (size_t i = 0; i < op.Def().attributes.size(); ++i) {
        const AttributeDef& attribute = op.Def().attributes[i];
        AttributeValue value;
        switch (attribute.kind) {
            case AttributeKind::INT:
                value.integer = *Required(attributes->GetInt(i), op, attribute.name.c_str());
                break;
            case AttributeKind::FLOAT:
                value.real = *Required(attributes->GetFloat(i), op, attribute.name.c_str());
                break;
            case AttributeKind::BOOL:
                value.integer = *Required(attributes->GetBool(i), op, attribute.name.c_str()) ? 1 : 0;
                break;
            case AttributeKind::STRING:
                value.integer = *Required(attributes->GetInt(i), op, attribute.name.c_str());
                if (value.integer < 0 || value.integer >= static_cast<int64_t>(attribute.choices.size())) {
                    throw std::invalid_argument(op.Def().name + ": " + attribute.name + " must be 0 to " +
                                                std::to_string(attribute.choices.size() - 1) + ", got " +
                                                std::to_string(value.integer));
                }
                break;
        }
        op.CheckAttribute(attribute, value);
        values.push_back(value);
    }
    return values;
}

// Returns the shapes or dtypes of the outputs of CANN's operator: inputs that the kernel changes are outputs, too, and
// come last.
template <typename T>
std::vector<T> WithChanged(const Op& op, const std::vector<T>& inputs, const std::vector<T>& outputs)
{
    std::vector<T> all = outputs;
    for (size_t i = 0; i < inputs.size(); ++i) {
        if (op.Kernel().writes.count(op.Def().inputs[i].name) > 0) {
            all.push_back(inputs[i]);
        }
    }
    return all;
}

inline ge::graphStatus InferShape(gert::InferShapeContext* context, const Op& op)
{
    return Guard([&] {
        std::vector<Shape> inputs;
        for (size_t i = 0; i < op.Def().inputs.size(); ++i) {
            const gert::Shape* shape = context->GetOptionalInputShape(i);
            inputs.push_back(IsAbsent(op, i, shape) ? Shape{ABSENT} : ToShape(*shape));
        }
        const std::vector<Shape> outputs = WithChanged(op, inputs, op.InferShapes(inputs, ReadAttributes(context, op)));
        for (size_t i = 0; i < outputs.size(); ++i) {
            gert::Shape* shape = Required(context->GetOutputShape(i), op, "output shape");
            shape->SetDimNum(outputs[i].size());
            for (size_t axis = 0; axis < outputs[i].size(); ++axis) {
                shape->SetDim(axis, outputs[i][axis]);
            }
        }
    });
}

inline ge::graphStatus InferDataType(gert::InferDataTypeContext* context, const Op& op)
{
    return Guard([&] {
        std::vector<std::string> inputs;
        for (size_t i = 0; i < op.Def().inputs.size(); ++i) {
            const ge::DataType dtype = context->GetOptionalInputDataType(i);
            inputs.push_back(op.Def().inputs[i].optional && dtype == ge::DT_UNDEFINED ? "" : DataTypeName(dtype));
        }
        const std::vector<std::string> outputs = WithChanged(op, inputs, op.InferTypes(inputs));
        for (size_t i = 0; i < outputs.size(); ++i) {
            context->SetOutputDataType(i, CannDataType(outputs[i]));
        }
    });
}

inline Platform ReadPlatform(const platform_ascendc::PlatformAscendC& ascend)
{
    uint64_t ubBytes = 0;
    ascend.GetCoreMemSize(platform_ascendc::CoreMemType::UB, ubBytes);
    Platform platform;
    platform.coreNum = ascend.GetCoreNumAiv();
    platform.ubBytes = static_cast<uint32_t>(std::min(ubBytes, UB_BYTES) - RESERVED_UB_BYTES);
    return platform;
}

// `plan` fills the tiling data and returns the launch configuration; when every output is empty, no tiling function is
// asked and the data is zero: CANN launches nothing then.
template <typename PLAN>
ge::graphStatus Tile(gert::TilingContext* context, const Op& op, Cores cores, PLAN&& plan)
{
    return Guard([&] {
        std::vector<TensorDesc> descs;
        std::vector<Shape> shapes;
        std::vector<std::string> dtypes;
        for (size_t i = 0; i < op.Def().inputs.size(); ++i) {
            const gert::StorageShape* shape = context->GetOptionalInputShape(i);
            const bool absent = IsAbsent(op, i, shape);
            shapes.push_back(absent ? Shape{ABSENT} : ToShape(shape->GetStorageShape()));
            dtypes.push_back(
                absent ? "" : DataTypeName(Required(context->GetOptionalInputDesc(i), op, "input")->GetDataType()));
        }
        const std::vector<AttributeValue> values = ReadAttributes(context, op);
        op.MatchTypes(dtypes);
        const std::vector<Shape> outputs = op.InferShapes(shapes, values);
        for (size_t i = 0; i < shapes.size(); ++i) {
            TensorDesc desc;
            desc.rank = -1;
            if (!dtypes[i].empty()) {
                desc.dtype = binding::ParseDataType(dtypes[i]);
                desc.rank = static_cast<int32_t>(shapes[i].size());
                std::copy(shapes[i].begin(), shapes[i].end(), desc.dims);
            }
            descs.push_back(desc);
        }
        const platform_ascendc::PlatformAscendC ascend(context->GetPlatformInfo());
        const bool empty = std::all_of(outputs.begin(), outputs.end(), [](const Shape& shape) {
            return std::find(shape.begin(), shape.end(), 0) != shape.end();
        });
        const LaunchConfig config = plan(descs.data(), values.data(), ReadPlatform(ascend), empty);
        const bool grouped = cores == Cores::WITH_CUBES || cores == Cores::SYNCHRONIZED_WITH_CUBES;
        context->SetBlockDim(grouped ? (config.blockDim + 1) / 2 : config.blockDim);
        context->SetTilingKey(TILING_KEY);
        const bool meet = cores == Cores::SYNCHRONIZED || cores == Cores::SYNCHRONIZED_WITH_CUBES;
        if (meet && config.workspaceBytes > 0) {  // cores meet to read what others have left there
            context->SetScheduleMode(BATCH_MODE);
        }
        size_t* workspaces = Required(context->GetWorkspaceSizes(1), op, "workspace");
        workspaces[0] = config.workspaceBytes + ascend.GetLibApiWorkSpaceSize();
    });
}

// Writes the tiling data where CANN takes it from.
template <typename DATA>
void Save(gert::TilingContext* context, const Op& op, DATA& data)
{
    gert::TilingData* raw = Required(context->GetRawTilingData(), op, "tiling data");
    data.SaveToBuffer(raw->GetData(), raw->GetCapacity());
    raw->SetDataSize(data.GetDataSize());
}

}  // namespace cann
}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_ASCEND_OP_HOST_H
