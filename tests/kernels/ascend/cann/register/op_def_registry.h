/*!
 * A stand-in for CANN's registration and tiling interfaces, for tests on machines without CANN: the part that generated
 * op_host files use, with CANN's names and signatures, and a context that a test fills. Written for this project; it
 * holds nothing of CANN's sources.
 */
#ifndef STAND_IN_REGISTER_OP_DEF_REGISTRY_H
#define STAND_IN_REGISTER_OP_DEF_REGISTRY_H

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace ge {

using graphStatus = uint32_t;
constexpr graphStatus GRAPH_SUCCESS = 0;
constexpr graphStatus GRAPH_FAILED = 0xFFFFFFFF;

enum DataType {
    DT_FLOAT = 0,
    DT_FLOAT16 = 1,
    DT_INT8 = 2,
    DT_INT32 = 3,
    DT_INT64 = 9,
    DT_BF16 = 27,
    DT_UNDEFINED = 28
};
enum Format { FORMAT_ND = 2 };

}  // namespace ge

namespace fe {

// The chip of a test.
class PlatFormInfos {
public:
    uint32_t vectorCores = 0;
    uint64_t ubBytes = 0;
    uint32_t libraryWorkspace = 0;
};

}  // namespace fe

namespace gert {

class Shape {
public:
    size_t GetDimNum() const { return dims_.size(); }
    void SetDimNum(size_t count) { dims_.resize(count); }
    int64_t GetDim(size_t index) const { return dims_.at(index); }
    void SetDim(size_t index, int64_t size) { dims_.at(index) = size; }

private:
    std::vector<int64_t> dims_;
};

class StorageShape {
public:
    Shape& MutableStorageShape() { return shape_; }
    const Shape& GetStorageShape() const { return shape_; }

private:
    Shape shape_;
};

class CompileTimeTensorDesc {
public:
    explicit CompileTimeTensorDesc(ge::DataType dtype) : dtype_(dtype) {}
    ge::DataType GetDataType() const { return dtype_; }

private:
    ge::DataType dtype_;
};

// One attribute, of the type that the OpDef declares. Reading it as another type gives nothing.
struct AttributeStandIn {
    std::string type;
    int64_t integer = 0;
    float real = 0.0f;
    bool flag = false;
};

class RuntimeAttrs {
public:
    std::vector<AttributeStandIn> values;

    const int64_t* GetInt(size_t index) const { return Is(index, "int") ? &values[index].integer : nullptr; }
    const float* GetFloat(size_t index) const { return Is(index, "float") ? &values[index].real : nullptr; }
    const bool* GetBool(size_t index) const { return Is(index, "bool") ? &values[index].flag : nullptr; }

private:
    bool Is(size_t index, const char* type) const { return index < values.size() && values[index].type == type; }
};

class TilingData {
public:
    std::vector<uint8_t> bytes = std::vector<uint8_t>(2048);
    size_t size = 0;

    void* GetData() { return bytes.data(); }
    size_t GetCapacity() const { return bytes.size(); }
    void SetDataSize(size_t value) { size = value; }
};

// An input that is absent has no descriptor.
struct InputStandIn {
    bool present = true;
    StorageShape shape;
    ge::DataType dtype = ge::DT_UNDEFINED;
};

// What the contexts of tiling and of inference share.
class ContextStandIn {
public:
    std::vector<InputStandIn> inputs;
    RuntimeAttrs attributes;

    const RuntimeAttrs* GetAttrs() const { return &attributes; }
};

class TilingContext : public ContextStandIn {
public:
    std::vector<CompileTimeTensorDesc> descs;
    fe::PlatFormInfos platform;
    TilingData data;
    uint32_t blockDim = 0;
    uint64_t tilingKey = 0;
    uint32_t scheduleMode = 0;
    std::vector<size_t> workspaces;

    const StorageShape* GetInputShape(size_t index) const
    {
        return index < inputs.size() && inputs[index].present ? &inputs[index].shape : nullptr;
    }
    const StorageShape* GetRequiredInputShape(size_t index) const { return GetInputShape(index); }
    const StorageShape* GetOptionalInputShape(size_t index) const { return GetInputShape(index); }
    const CompileTimeTensorDesc* GetInputDesc(size_t index) const
    {
        return index < inputs.size() && inputs[index].present ? &descs[index] : nullptr;
    }
    const CompileTimeTensorDesc* GetRequiredInputDesc(size_t index) const { return GetInputDesc(index); }
    const CompileTimeTensorDesc* GetOptionalInputDesc(size_t index) const { return GetInputDesc(index); }
    fe::PlatFormInfos* GetPlatformInfo() const { return const_cast<fe::PlatFormInfos*>(&platform); }
    TilingData* GetRawTilingData() { return &data; }
    size_t* GetWorkspaceSizes(size_t count)
    {
        workspaces.resize(count);
        return workspaces.data();
    }
    ge::graphStatus SetBlockDim(uint32_t value)
    {
        blockDim = value;
        return ge::GRAPH_SUCCESS;
    }
    ge::graphStatus SetTilingKey(uint64_t value)
    {
        tilingKey = value;
        return ge::GRAPH_SUCCESS;
    }
    ge::graphStatus SetScheduleMode(uint32_t value)
    {
        scheduleMode = value;
        return ge::GRAPH_SUCCESS;
    }
};

class InferShapeContext : public ContextStandIn {
public:
    std::vector<Shape> outputs;

    const Shape* GetInputShape(size_t index) const
    {
        return index < inputs.size() && inputs[index].present ? &inputs[index].shape.GetStorageShape() : nullptr;
    }
    const Shape* GetRequiredInputShape(size_t index) const { return GetInputShape(index); }
    const Shape* GetOptionalInputShape(size_t index) const { return GetInputShape(index); }
    Shape* GetOutputShape(size_t index) { return index < outputs.size() ? &outputs[index] : nullptr; }
};

class InferDataTypeContext : public ContextStandIn {
public:
    std::vector<ge::DataType> outputs;

    ge::DataType GetInputDataType(size_t index) const
    {
        return index < inputs.size() && inputs[index].present ? inputs[index].dtype : ge::DT_UNDEFINED;
    }
    ge::DataType GetRequiredInputDataType(size_t index) const { return GetInputDataType(index); }
    ge::DataType GetOptionalInputDataType(size_t index) const { return GetInputDataType(index); }
    ge::graphStatus SetOutputDataType(size_t index, ge::DataType dtype)
    {
        outputs.at(index) = dtype;
        return ge::GRAPH_SUCCESS;
    }
};

using TilingFunction = ge::graphStatus (*)(TilingContext*);
using InferShapeFunction = ge::graphStatus (*)(InferShapeContext*);
using InferDataTypeFunction = ge::graphStatus (*)(InferDataTypeContext*);

}  // namespace gert

namespace ops {

enum Option { IGNORE = 0, OPTIONAL = 1, REQUIRED = 2 };

class OpParamDef {
public:
    std::string name;
    Option paramType = IGNORE;
    std::vector<ge::DataType> dtypes;
    std::vector<ge::Format> formats;
    bool contiguous = false;

    OpParamDef& ParamType(Option value)
    {
        paramType = value;
        return *this;
    }
    OpParamDef& DataType(std::vector<ge::DataType> values)
    {
        dtypes = std::move(values);
        return *this;
    }
    OpParamDef& Format(std::vector<ge::Format> values)
    {
        formats = std::move(values);
        return *this;
    }
    OpParamDef& AutoContiguous()
    {
        contiguous = true;
        return *this;
    }
};

class OpAttrDef {
public:
    std::string name;
    std::string type;
    Option attrType = IGNORE;

    OpAttrDef& AttrType(Option value)
    {
        attrType = value;
        return *this;
    }
    OpAttrDef& Int() { return Type("int"); }
    OpAttrDef& Float() { return Type("float"); }
    OpAttrDef& Bool() { return Type("bool"); }

private:
    OpAttrDef& Type(const char* value)
    {
        type = value;
        return *this;
    }
};

// A parameter of a name is made once; asked for again it is the same, as in CANN.
class ParametersStandIn {
public:
    std::vector<OpParamDef> inputs;
    std::vector<OpParamDef> outputs;

    OpParamDef& Input(const char* name) { return Find(inputs, name); }
    OpParamDef& Output(const char* name) { return Find(outputs, name); }

private:
    static OpParamDef& Find(std::vector<OpParamDef>& list, const char* name)
    {
        for (OpParamDef& parameter : list) {
            if (parameter.name == name) {
                return parameter;
            }
        }
        list.emplace_back();
        list.back().name = name;
        return list.back();
    }
};

class OpAICoreConfig : public ParametersStandIn {
public:
    OpAICoreConfig& DynamicCompileStaticFlag(bool) { return *this; }
    OpAICoreConfig& DynamicRankSupportFlag(bool) { return *this; }
    OpAICoreConfig& DynamicShapeSupportFlag(bool) { return *this; }
};

class OpAICoreDef {
public:
    gert::TilingFunction tiling = nullptr;
    std::map<std::string, OpAICoreConfig> configs;

    OpAICoreDef& SetTiling(gert::TilingFunction function)
    {
        tiling = function;
        return *this;
    }
    OpAICoreDef& AddConfig(const char* soc) { return AddConfig(soc, OpAICoreConfig()); }
    OpAICoreDef& AddConfig(const char* soc, const OpAICoreConfig& config)
    {
        configs[soc] = config;
        return *this;
    }
};

class OpDef : public ParametersStandIn {
public:
    explicit OpDef(const char* type) : type(type) {}

    std::string type;
    std::vector<OpAttrDef> attributes;
    gert::InferShapeFunction inferShape = nullptr;
    gert::InferDataTypeFunction inferDataType = nullptr;

    OpAttrDef& Attr(const char* name)
    {
        attributes.emplace_back();
        attributes.back().name = name;
        return attributes.back();
    }
    OpDef& SetInferShape(gert::InferShapeFunction function)
    {
        inferShape = function;
        return *this;
    }
    OpDef& SetInferDataType(gert::InferDataTypeFunction function)
    {
        inferDataType = function;
        return *this;
    }
    OpAICoreDef& AICore() { return aiCore_; }

private:
    OpAICoreDef aiCore_;
};

inline std::map<std::string, OpDef>& Registered()
{
    static std::map<std::string, OpDef> registered;
    return registered;
}

}  // namespace ops

#define OP_ADD(type) static const bool g_##type##Added = ::ops::Registered().emplace(#type, ::ops::type(#type)).second

#endif  // STAND_IN_REGISTER_OP_DEF_REGISTRY_H
