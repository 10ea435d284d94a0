#include "binding/mindspore_entry.h"

#include <array>
#include <cstdio>
#include <exception>
#include <string>
#include <utility>

namespace ms_ascend_ops::binding {
namespace {

using mindspore::AotExtra;
using mindspore::TypeId;

// The attributes of one kernel, read once.
class KernelState : public mindspore::AotKernelData {
public:
    explicit KernelState(std::vector<AttributeValue> values) : values_(std::move(values)) {}
    const std::vector<AttributeValue>& Values() const { return values_; }

private:
    std::vector<AttributeValue> values_;
};

// As AttributeSpec.node_name of ms_ascend_ops/registry.py.
const std::string& NodeName(const std::string& name)
{
    static const std::string dataFormat = "data_format_";
    return name == "data_format" ? dataFormat : name;
}

std::vector<AttributeValue> ReadAttributes(const Op& op, AotExtra* extra)
{
    std::vector<AttributeValue> values;
    for (const AttributeDef& attribute : op.Def().attributes) {
        const std::string& name = NodeName(attribute.name);
        if (extra == nullptr || !extra->HasAttr(name)) {
            throw std::invalid_argument(op.Def().name + ": the attribute " + attribute.name + " is missing");
        }
        AttributeValue value;
        switch (attribute.kind) {
            case AttributeKind::INT:
                value.integer = extra->GetAttrInt(name);
                break;
            case AttributeKind::FLOAT:
                value.real = extra->GetAttrFloat(name);
                break;
            case AttributeKind::BOOL:
                value.integer = extra->GetAttrBool(name) ? 1 : 0;
                break;
            case AttributeKind::STRING:
                value = ParseChoice(op.Def().name, attribute, extra->GetAttrStr(name));
                break;
        }
        op.CheckAttribute(attribute, value);
        values.push_back(value);
    }
    return values;
}

// MindSpore reports a failed F by its number only: the reason has to be printed.
template <typename F>
int Guard(const Op& op, F&& body)
{
    try {
        body();
        return 0;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "ms_ascend_ops: %s failed: %s\n", op.Def().entry.c_str(), error.what());
    } catch (...) {
        std::fprintf(stderr, "ms_ascend_ops: %s failed\n", op.Def().entry.c_str());
    }
    return 1;
}

const std::array<std::pair<TypeId, const char*>, 5> TYPE_NAMES = {{{mindspore::kNumberTypeFloat16, "float16"},
                                                                   {mindspore::kNumberTypeBFloat16, "bfloat16"},
                                                                   {mindspore::kNumberTypeFloat32, "float32"},
                                                                   {mindspore::kNumberTypeInt32, "int32"},
                                                                   {mindspore::kNumberTypeInt64, "int64"}}};

std::string NameOf(TypeId type)
{
    for (const auto& [id, name] : TYPE_NAMES) {
        if (id == type) {
            return name;
        }
    }
    return "MindSpore's TypeId " + std::to_string(static_cast<int>(type));
}

}  // namespace

int Run(const Op& op, int nparam, void** params, int* ndims, int64_t** shapes, const char** dtypes, void* extra)
{
    return Guard(op, [&] {
        const size_t count = op.Def().inputs.size() + op.Def().outputs.size();
        if (nparam < 0 || static_cast<size_t>(nparam) < count) {
            throw std::invalid_argument("expects " + std::to_string(count) + " tensors, got " + std::to_string(nparam));
        }
        std::array<TensorDesc, MAX_TENSORS> descs;
        for (size_t i = 0; i < count; ++i) {
            if (ndims[i] > MAX_RANK) {
                throw std::invalid_argument("a tensor has " + std::to_string(ndims[i]) + " dims");
            }
            descs[i].dtype = ParseDataType(dtypes[i]);
            descs[i].rank = ndims[i];
            std::copy_n(shapes[i], ndims[i], descs[i].dims);
        }
        auto* aotExtra = static_cast<AotExtra*>(extra);
        const auto* state = aotExtra == nullptr ? nullptr : static_cast<const KernelState*>(aotExtra->KernelData());
        op.Launch(params, descs.data(), state == nullptr ? ReadAttributes(op, aotExtra) : state->Values());
    });
}

int Init(const Op& op, AotExtra* extra)
{
    return Guard(op, [&] {
        if (extra->KernelData() == nullptr) {
            extra->SetKernelData(new KernelState(ReadAttributes(op, extra)));  // MindSpore deletes it
        }
    });
}

std::vector<std::vector<int64_t>> InferShape(const Op& op, int* ndims, int64_t** shapes, AotExtra* extra)
{
    std::vector<Shape> inputs;
    for (size_t i = 0; i < op.Def().inputs.size(); ++i) {
        inputs.emplace_back(shapes[i], shapes[i] + ndims[i]);
    }
    return op.InferShapes(inputs, ReadAttributes(op, extra));
}

std::vector<TypeId> InferType(const Op& op, const std::vector<TypeId>& types)
{
    const size_t count = op.Def().inputs.size();
    if (types.size() != count) {
        throw std::invalid_argument(op.Def().name + ": expects " + std::to_string(count) + " tensors, got " +
                                    std::to_string(types.size()));
    }
    std::vector<std::string> names;
    for (const TypeId type : types) {
        names.push_back(NameOf(type));
    }
    std::vector<TypeId> outputs;
    for (const std::string& name : op.InferTypes(names)) {
        for (const auto& [id, text] : TYPE_NAMES) {
            if (name == text) {
                outputs.push_back(id);
            }
        }
    }
    return outputs;
}

}  // namespace ms_ascend_ops::binding
