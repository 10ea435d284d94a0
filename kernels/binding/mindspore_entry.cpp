#include "binding/mindspore_entry.h"

#include <algorithm>
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

AttributeValue ReadAttribute(const Op& op, const AttributeDef& attribute, AotExtra* extra)
{
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
    return value;
}

std::vector<AttributeValue> ReadAttributes(const Op& op, AotExtra* extra)
{
    std::vector<AttributeValue> values;
    for (const AttributeDef& attribute : op.Def().attributes) {
        values.push_back(ReadAttribute(op, attribute, extra));
    }
    return values;
}

// What an inference of shapes depends on: the operator, the shapes and the attributes that its rules name.
struct ShapeQuestion {
    static constexpr size_t MOST = 96;

    const Op* op = nullptr;
    size_t size = 0;
    std::array<int64_t, MOST> values{};

    void Add(int64_t value)
    {
        if (size < MOST) {
            values[size] = value;
        }
        ++size;
    }
    bool Fits() const { return size <= MOST; }
    bool operator==(const ShapeQuestion& other) const
    {
        return op == other.op && size == other.size &&
               std::equal(values.begin(), values.begin() + size, other.values.begin());
    }
    size_t Hash() const
    {
        auto hash = reinterpret_cast<uintptr_t>(op);
        for (size_t i = 0; i < size; ++i) {
            hash = (hash ^ static_cast<uint64_t>(values[i])) * 0x9E3779B97F4A7C15U;
        }
        return hash >> 32U;
    }
};

// A graph of dynamic shapes asks at every call, for every node, and mostly what it asked before. The rules take as long
// as a small kernel.
struct KnownShapes {
    ShapeQuestion question;
    std::vector<Shape> answer;
};
KnownShapes& KnownFor(const ShapeQuestion& question)
{
    thread_local std::vector<KnownShapes> known(64);  // a later question takes the place of one with the same index
    return known[question.Hash() % known.size()];
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
    const size_t count = op.Def().inputs.size();
    const std::vector<AttributeDef>& attributes = op.Def().attributes;
    ShapeQuestion question;
    question.op = &op;
    for (size_t i = 0; i < count; ++i) {
        question.Add(ndims[i]);
        std::for_each_n(shapes[i], ndims[i], [&](int64_t size) { question.Add(size); });
    }
    std::vector<AttributeValue> values(attributes.size());
    for (size_t i = 0; i < attributes.size(); ++i) {
        if (op.ShapesDependOn(i)) {
            values[i] = ReadAttribute(op, attributes[i], extra);
            question.Add(values[i].integer);
        }
    }
    KnownShapes* known = question.Fits() ? &KnownFor(question) : nullptr;
    if (known != nullptr && known->question == question) {
        return known->answer;
    }
    std::vector<Shape> inputs;
    for (size_t i = 0; i < count; ++i) {
        inputs.emplace_back(shapes[i], shapes[i] + ndims[i]);
    }
    std::vector<Shape> outputs = op.InferShapes(inputs, values);
    if (known != nullptr) {
        *known = {question, outputs};
    }
    return outputs;
}

std::vector<TypeId> InferType(const Op& op, const std::vector<TypeId>& types, AotExtra* extra)
{
    ReadAttributes(op, extra);  // checks them all: MindSpore infers dtypes once, shapes at every call
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
