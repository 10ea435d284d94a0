#include "binding/mindspore_entry.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "binding/super_kernel.h"

namespace ms_ascend_ops::binding {
namespace {

using mindspore::AotExtra;
using mindspore::TypeId;

// Holds what the attributes of a node say.
struct Node {
    std::vector<AttributeValue> values;
    std::vector<bool> given;  // for every input, whether the node has it
};

// Holds the signature of one kernel, read once.
class KernelState : public mindspore::AotKernelData {
public:
    explicit KernelState(Node node) : node_(std::move(node)) {}
    const Node& Get() const { return node_; }

private:
    Node node_;
};

// Does what AttributeSpec.node_name of ms_ascend_ops/definitions/signature.py does.
const std::string& NodeName(const std::string& name)
{
    static const std::string dataFormat = "data_format_";
    return name == "data_format" ? dataFormat : name;
}

void Require(const Op& op, const std::string& attribute, AotExtra* extra)
{
    if (extra == nullptr || !extra->HasAttr(attribute)) {
        throw std::invalid_argument(op.Def().name + ": the attribute " + attribute + " is missing");
    }
}

AttributeValue ReadAttribute(const Op& op, const AttributeDef& attribute, AotExtra* extra)
{
    std::string name = NodeName(attribute.name);
    if (!attribute.formerly.empty() && extra != nullptr && !extra->HasAttr(name) &&
        extra->HasAttr(attribute.formerly)) {
        name = attribute.formerly;
    }
    Require(op, name, extra);
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
            value = op.ParseChoice(attribute, extra->GetAttrStr(name));
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

// Does what Signature.presence of ms_ascend_ops/definitions/signature.py does.
std::vector<bool> ReadPresence(const Op& op, AotExtra* extra)
{
    std::vector<bool> given;
    for (const TensorDef& input : op.Def().inputs) {
        const std::string name = "has_" + input.name;
        if (input.optional) {
            Require(op, name, extra);
        }
        given.push_back(!input.optional || extra->GetAttrBool(name));
    }
    return given;
}

// Returns where each input stands among those that MindSpore passes.
std::vector<size_t> PlacesOf(const std::vector<bool>& given, Absent absent)
{
    std::vector<size_t> places;
    size_t place = 0;
    for (const bool isGiven : given) {
        places.push_back(place);
        place += isGiven || absent == Absent::REPLACED ? 1 : 0;
    }
    places.push_back(place);  // the number of them
    return places;
}

Node ReadNode(const Op& op, AotExtra* extra)
{
    return {ReadAttributes(op, extra), ReadPresence(op, extra)};
}

// Holds what an inference of shapes depends on: operator, shapes, and the attributes that its rules name.
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
int Guard(const std::string& name, F&& body)
{
    try {
        body();
        return 0;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "ms_ascend_ops: %s failed: %s\n", name.c_str(), error.what());
    } catch (...) {
        std::fprintf(stderr, "ms_ascend_ops: %s failed\n", name.c_str());
    }
    return 1;
}

const std::array<std::pair<TypeId, const char*>, 6> TYPE_NAMES = {{{mindspore::kNumberTypeFloat16, "float16"},
                                                                   {mindspore::kNumberTypeBFloat16, "bfloat16"},
                                                                   {mindspore::kNumberTypeFloat32, "float32"},
                                                                   {mindspore::kNumberTypeInt32, "int32"},
                                                                   {mindspore::kNumberTypeInt64, "int64"},
                                                                   {mindspore::kNumberTypeInt8, "int8"}}};

TypeId TypeOf(const std::string& name)
{
    const auto found = std::find_if(TYPE_NAMES.begin(), TYPE_NAMES.end(),
                                    [&](const std::pair<TypeId, const char*>& known) { return name == known.second; });
    if (found == TYPE_NAMES.end()) {
        throw TypeError("no operator gives the dtype " + name);
    }
    return found->first;
}

std::string NameOf(TypeId type)
{
    for (const auto& [id, name] : TYPE_NAMES) {
        if (id == type) {
            return name;
        }
    }
    return "MindSpore's TypeId " + std::to_string(static_cast<int>(type));
}

// Keeps the list of a super kernel, with the plans for the shapes that came.
class SuperKernelState : public mindspore::AotKernelData {
public:
    explicit SuperKernelState(std::shared_ptr<const SuperKernel> kernel)
        : plans_(std::make_unique<SuperKernelPlans>(std::move(kernel)))
    {}
    SuperKernelPlans& Plans() const { return *plans_; }

private:
    std::unique_ptr<SuperKernelPlans> plans_;
};

std::shared_ptr<const SuperKernel> ReadSuperKernel(AotExtra* extra)
{
    if (extra == nullptr || !extra->HasAttr("kernels")) {
        throw std::invalid_argument("super_kernel: the attribute kernels is missing");
    }
    return SuperKernel::Find(extra->GetAttrStr("kernels"));
}

TensorDesc Describe(int rank, const int64_t* dims, const char* dtype)
{
    if (rank < 0 || rank > MAX_RANK) {
        throw std::invalid_argument("a tensor has " + std::to_string(rank) + " dims");
    }
    TensorDesc desc;
    desc.dtype = ParseDataType(dtype);
    desc.rank = rank;
    std::copy_n(dims, rank, desc.dims);
    return desc;
}

void RunSuperKernel(int nparam, void** params, int* ndims, int64_t** shapes, const char** dtypes, AotExtra* extra)
{
    const auto* state = extra == nullptr ? nullptr : static_cast<const SuperKernelState*>(extra->KernelData());
    if (state == nullptr) {
        throw std::invalid_argument("super_kernel: it was not initialised");
    }
    SuperKernelPlans& plans = state->Plans();
    const size_t inputs = plans.Kernel().InputCount();
    const size_t count = inputs + plans.Kernel().ResultCount();
    if (nparam < 0 || static_cast<size_t>(nparam) < count) {
        throw std::invalid_argument("super_kernel: expects " + std::to_string(count) + " tensors, got " +
                                    std::to_string(nparam));
    }
    std::vector<TensorDesc> descs;
    descs.reserve(inputs);
    for (size_t i = 0; i < inputs; ++i) {
        descs.push_back(Describe(ndims[i], shapes[i], dtypes[i]));
    }
    const std::shared_ptr<const SuperKernelPlan> plan = plans.Find(descs);
    std::vector<TensorDesc> results;
    for (size_t i = inputs; i < count; ++i) {
        results.push_back(Describe(ndims[i], shapes[i], dtypes[i]));
    }
    plan->CheckResults(results.data());
    plan->Run(params);
}

}  // namespace

int Run(const Op& op, int nparam, void** params, int* ndims, int64_t** shapes, const char** dtypes, void* extra)
{
    return Guard(op.Kernel().entry, [&] {
        auto* aotExtra = static_cast<AotExtra*>(extra);
        const auto* state = aotExtra == nullptr ? nullptr : static_cast<const KernelState*>(aotExtra->KernelData());
        const Node& node = state == nullptr ? ReadNode(op, aotExtra) : state->Get();
        const size_t inputs = op.Def().inputs.size();
        const size_t count = inputs + op.Def().outputs.size();
        const size_t expected = count - std::count(node.given.begin(), node.given.end(), false);
        if (nparam < 0 || static_cast<size_t>(nparam) < expected) {
            throw std::invalid_argument("expects " + std::to_string(expected) + " tensors, got " +
                                        std::to_string(nparam));
        }
        std::array<TensorDesc, MAX_TENSORS> descs;
        std::array<void*, MAX_TENSORS> data{};
        for (size_t i = 0, from = 0; i < count; ++i) {
            if (i < inputs && !node.given[i]) {
                descs[i].rank = -1;
                continue;
            }
            if (ndims[from] > MAX_RANK) {
                throw std::invalid_argument("a tensor has " + std::to_string(ndims[from]) + " dims");
            }
            descs[i].dtype = ParseDataType(dtypes[from]);
            descs[i].rank = ndims[from];
            std::copy_n(shapes[from], ndims[from], descs[i].dims);
            data[i] = params[from++];
        }
        op.Launch(data.data(), descs.data(), node.values);
    });
}

int Init(const Op& op, AotExtra* extra)
{
    return Guard(op.Kernel().entry, [&] {
        if (extra->KernelData() == nullptr) {
            extra->SetKernelData(new KernelState(ReadNode(op, extra)));  // MindSpore deletes it
        }
    });
}

std::vector<std::vector<int64_t>> InferShape(const Op& op, Absent absent, int* ndims, int64_t** shapes, AotExtra* extra)
{
    const std::vector<AttributeDef>& attributes = op.Def().attributes;
    const std::vector<bool> given = ReadPresence(op, extra);
    const std::vector<size_t> places = PlacesOf(given, absent);
    ShapeQuestion question;
    question.op = &op;
    for (size_t i = 0; i < given.size(); ++i) {
        question.Add(given[i] ? ndims[places[i]] : ABSENT);
        if (given[i]) {
            std::for_each_n(shapes[places[i]], ndims[places[i]], [&](int64_t size) { question.Add(size); });
        }
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
    for (size_t i = 0; i < given.size(); ++i) {
        const size_t place = places[i];
        inputs.push_back(given[i] ? Shape(shapes[place], shapes[place] + ndims[place]) : Shape{ABSENT});
    }
    std::vector<Shape> outputs = op.InferShapes(inputs, values);
    if (known != nullptr) {
        *known = {question, outputs};
    }
    return outputs;
}

std::vector<TypeId> InferType(const Op& op, Absent absent, const std::vector<TypeId>& types, AotExtra* extra)
{
    const Node node = ReadNode(op, extra);  // checks them all: MindSpore infers dtypes once, shapes at every call
    const std::vector<size_t> places = PlacesOf(node.given, absent);
    if (types.size() != places.back()) {
        throw std::invalid_argument(op.Def().name + ": expects " + std::to_string(places.back()) + " tensors, got " +
                                    std::to_string(types.size()));
    }
    std::vector<std::string> names;
    for (size_t i = 0; i < node.given.size(); ++i) {
        names.push_back(node.given[i] ? NameOf(types[places[i]]) : "");
    }
    std::vector<TypeId> outputs;
    for (const std::string& name : op.InferTypes(names)) {
        outputs.push_back(TypeOf(name));
    }
    return outputs;
}

}  // namespace ms_ascend_ops::binding

MS_ASCEND_OPS_EXPORT int SuperKernel(int nparam, void** params, int* ndims, int64_t** shapes, const char** dtypes,
                                     void*, void* extra)
{
    using namespace ms_ascend_ops::binding;
    return Guard("SuperKernel", [&] {
        RunSuperKernel(nparam, params, ndims, shapes, dtypes, static_cast<mindspore::AotExtra*>(extra));
    });
}

MS_ASCEND_OPS_EXPORT int SuperKernelInit(int*, int64_t**, const char**, mindspore::AotExtra* extra)
{
    using namespace ms_ascend_ops::binding;
    return Guard("SuperKernel", [&] {
        if (extra->KernelData() == nullptr) {
            extra->SetKernelData(new SuperKernelState(ReadSuperKernel(extra)));  // MindSpore deletes it
        }
    });
}

MS_ASCEND_OPS_EXPORT std::vector<std::vector<int64_t>> SuperKernelInferShape(int* ndims, int64_t** shapes,
                                                                             mindspore::AotExtra* extra)
{
    using namespace ms_ascend_ops::binding;
    const auto kernel = ReadSuperKernel(extra);
    std::vector<Shape> inputs;
    for (size_t i = 0; i < kernel->InputCount(); ++i) {
        inputs.emplace_back(shapes[i], shapes[i] + ndims[i]);
    }
    return kernel->InferShapes(inputs);
}

MS_ASCEND_OPS_EXPORT std::vector<mindspore::TypeId> SuperKernelInferType(std::vector<mindspore::TypeId> types,
                                                                         mindspore::AotExtra* extra)
{
    using namespace ms_ascend_ops::binding;
    std::vector<std::string> names;
    for (const mindspore::TypeId type : types) {
        names.push_back(NameOf(type));
    }
    std::vector<mindspore::TypeId> results;
    for (const std::string& name : ReadSuperKernel(extra)->InferTypes(names)) {
        results.push_back(TypeOf(name));
    }
    return results;
}
