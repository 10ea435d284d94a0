/*!
 * Declares CANN's registration and tiling interfaces on the emulated device: the part that generated op_host files use,
 * with CANN's names and signatures, and contexts that ../../op_host_library.cpp fills. Written for this project; it
 * holds nothing of CANN's sources.
 */
#ifndef MS_ASCEND_OPS_DEVICE_REGISTER_OP_DEF_REGISTRY_H
#define MS_ASCEND_OPS_DEVICE_REGISTER_OP_DEF_REGISTRY_H

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

struct PlatFormInfos {
    uint32_t vectorCores = 0;
    uint64_t ubBytes = 0;
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
struct Attribute {
    std::string type;
    int64_t integer = 0;
    float real = 0.0f;
    bool flag = false;
};

class RuntimeAttrs {
public:
    std::vector<Attribute> values;

    const int64_t* GetInt(size_t index) const { return Is(index, "int") ? &values[index].integer : nullptr; }
    const float* GetFloat(size_t index) const { return Is(index, "float") ? &values[index].real : nullptr; }
    const bool* GetBool(size_t index) const { return Is(index, "bool") ? &values[index].flag : nullptr; }

private:
    bool Is(size_t index, const char* type) const { return index < values.size() && values[index].type == type; }
};

class TilingData {
public:
    TilingData(void* data, size_t capacity) : data_(data), capacity_(capacity) {}
    size_t size = 0;

    void* GetData() { return data_; }
    size_t GetCapacity() const { return capacity_; }
    void SetDataSize(size_t value) { size = value; }

private:
    void* const data_;
    const size_t capacity_;
};

// An input that is absent has no descriptor.
struct Input {
    bool present = true;
    StorageShape shape;
    ge::DataType dtype = ge::DT_UNDEFINED;
};

// The contexts of tiling and of inference share this.
class Context {
public:
    std::vector<Input> inputs;
    RuntimeAttrs attributes;

    const RuntimeAttrs* GetAttrs() const { return &attributes; }
};

class TilingContext : public Context {
public:
    TilingContext(void* tiling, size_t capacity) : data(tiling, capacity) {}

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

class InferShapeContext : public Context {
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

class InferDataTypeContext : public Context {
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
class Parameters {
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

class OpAICoreConfig : public Parameters {
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

class OpDef : public Parameters {
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

#endif  // MS_ASCEND_OPS_DEVICE_REGISTER_OP_DEF_REGISTRY_H
