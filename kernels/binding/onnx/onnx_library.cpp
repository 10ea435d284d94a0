/*!
 * Brings the operators to ONNX Runtime on a CPU by RegisterCustomOps, which it calls for a library that is registered
 * with its session options. Kernels run on ONNX Runtime's own memory, in the calling thread and the threads of the host
 * layer.
 */
#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "binding/c_api.h"
#include "binding/onnx/onnx_operator.h"
#include "binding/onnx/ort_api.h"

namespace ms_ascend_ops::binding {
namespace {

constexpr const char* DOMAIN_NAME = "ms_ascend_ops";
constexpr size_t ERROR_BYTES = 2048;
constexpr size_t ALIGNMENT = 64;
// A node remembers so many combinations of shapes.
constexpr size_t MOST_PREPARED = 1024;

struct DtypeEntry {
    const char* name;
    ort::ElementType type;
    size_t bytes;
};
constexpr DtypeEntry DTYPES[] = {{"float16", ort::FLOAT16, 2}, {"bfloat16", ort::BFLOAT16, 2},
                                 {"float32", ort::FLOAT, 4},   {"int32", ort::INT32, 4},
                                 {"int64", ort::INT64, 8},     {"int8", ort::INT8, 1}};

const DtypeEntry& DtypeOf(const std::string& name)
{
    return *std::find_if(std::begin(DTYPES), std::end(DTYPES), [&](const DtypeEntry& e) { return name == e.name; });
}

const char* NameOf(ort::ElementType type)
{
    const auto* found =
        std::find_if(std::begin(DTYPES), std::end(DTYPES), [type](const DtypeEntry& e) { return type == e.type; });
    return found == std::end(DTYPES) ? "of another kind" : found->name;
}

// Holds a Status that ONNX Runtime has made, on its way through our functions.
struct OrtError {
    ort::Status* status;
};

void Check(ort::Status* status)
{
    if (status != nullptr) {
        throw OrtError{status};
    }
}

// Runs `body`; whatever it throws becomes a Status.
template <typename F>
ort::Status* Guard(const ort::Api& api, F&& body)
{
    try {
        body();
        return nullptr;
    } catch (const OrtError& error) {
        return error.status;
    } catch (const TypeError& error) {
        return api.CreateStatus(ort::INVALID_ARGUMENT, error.what());
    } catch (const std::invalid_argument& error) {
        return api.CreateStatus(ort::INVALID_ARGUMENT, error.what());
    } catch (const std::exception& error) {
        return api.CreateStatus(ort::FAIL, error.what());
    } catch (...) {
        return api.CreateStatus(ort::FAIL, "unknown error");
    }
}

// An attribute of a node has a value, and for a string the text.
struct GivenAttribute {
    AttributeValue value;
    std::string text;
    bool isGiven = false;  // by the node
};

class Operator;

// ONNX Runtime calls one row of dtypes of an operator a custom operator.
struct TypedOperator : ort::CustomOp {
    const Operator* owner = nullptr;
    std::vector<ort::ElementType> inputs;
    std::vector<ort::ElementType> outputs;
};

class Operator {
public:
    explicit Operator(OnnxOperator definition)
        : signature_(std::move(definition.signature)),
          version_(definition.version),
          writes_(std::move(definition.writes)),
          mayInplace_(definition.mayInplace)
    {
        for (const auto& row : signature_.Def().types) {
            rows_.push_back(MakeRow(row));
        }
    }
    Operator(const Operator&) = delete;
    Operator& operator=(const Operator&) = delete;

    const Signature& Rules() const { return signature_; }
    const SignatureDef& Def() const { return signature_.Def(); }
    const std::vector<size_t>& Writes() const { return writes_; }
    const std::vector<std::unique_ptr<TypedOperator>>& Rows() const { return rows_; }

private:
    std::unique_ptr<TypedOperator> MakeRow(const std::map<std::string, std::string>& row) const;

    Signature signature_;
    int version_;
    std::vector<size_t> writes_;
    size_t (*mayInplace_)(int** inputs, int** outputs);
    std::vector<std::unique_ptr<TypedOperator>> rows_;
};

const TypedOperator& Typed(const ort::CustomOp* op)
{
    return *static_cast<const TypedOperator*>(op);
}

// --- Attributes ----------------------------------------------------------------------------------------------------

const char* NameOf(AttributeKind kind)
{
    constexpr std::array<const char*, 4> names = {"an int", "a float", "an int (0 or 1)", "a string"};
    return names[static_cast<size_t>(kind)];
}

class Attributes {
public:
    Attributes(const ort::Api& api, const ort::KernelInfo* info) : api_(api), info_(info) {}

    // Reads the value of the node, checked, or the default.
    GivenAttribute Read(const Operator& op, const AttributeDef& def) const
    {
        const GivenAttribute found = Read(op, def, def.name.c_str());
        return found.isGiven || def.formerly.empty() ? found : Read(op, def, def.formerly.c_str());
    }

private:
    GivenAttribute Read(const Operator& op, const AttributeDef& def, const char* name) const
    {
        GivenAttribute given;
        int64_t integer = 0;
        float real = 0;
        size_t size = 0;
        const bool isInteger = Has(api_.KernelInfoGetAttributeInt64(info_, name, &integer));
        const bool isReal = !isInteger && Has(api_.KernelInfoGetAttributeFloat(info_, name, &real));
        const bool isText =
            !isInteger && !isReal && Has(api_.KernelInfoGetAttributeString(info_, name, nullptr, &size));
        const bool isWanted = def.kind == AttributeKind::FLOAT    ? isReal
                              : def.kind == AttributeKind::STRING ? isText
                                                                  : isInteger;
        if (!isWanted) {
            if (isInteger || isReal || isText) {
                throw TypeError(op.Def().name + ": " + def.name + " must be " + NameOf(def.kind) + ", got " +
                                (isInteger ? "an int"
                                 : isReal  ? "a float"
                                           : "a string"));
            }
            given.value = def.defaultValue;
            if (def.kind == AttributeKind::STRING) {
                given.text = def.choices[static_cast<size_t>(given.value.integer)];
            }
            return given;
        }
        given.isGiven = true;
        if (isText) {
            given.text.resize(size);
            Check(api_.KernelInfoGetAttributeString(info_, name, given.text.data(), &size));
            given.text.resize(std::strlen(given.text.c_str()));
            given.value = op.Rules().ParseChoice(def, given.text);
            return given;
        }
        if (def.kind == AttributeKind::BOOL && integer != 0 && integer != 1) {
            throw std::invalid_argument(op.Def().name + ": " + def.name + " must be 0 or 1, got " +
                                        std::to_string(integer));
        }
        given.value = {integer, real};
        op.Rules().CheckAttribute(def, given.value);
        return given;
    }

    bool Has(ort::Status* status) const
    {
        if (status != nullptr) {
            api_.ReleaseStatus(status);
        }
        return status == nullptr;
    }

    const ort::Api& api_;
    const ort::KernelInfo* info_;
};

// --- Tensors -------------------------------------------------------------------------------------------------------

struct Description {
    ort::ElementType type = ort::UNDEFINED;
    Shape shape;
};

class TypeAndShape {
public:
    TypeAndShape(const ort::Api& api, const ort::Value* value) : api_(api)
    {
        Check(api.GetTensorTypeAndShape(value, &info_));
    }
    TypeAndShape(const ort::Api& api, ort::TensorTypeAndShapeInfo* info) : api_(api), info_(info) {}
    TypeAndShape(const TypeAndShape&) = delete;
    TypeAndShape& operator=(const TypeAndShape&) = delete;
    ~TypeAndShape() { api_.ReleaseTensorTypeAndShapeInfo(info_); }

    Description Read() const
    {
        Description description;
        size_t rank = 0;
        Check(api_.GetTensorElementType(info_, &description.type));
        Check(api_.GetDimensionsCount(info_, &rank));
        description.shape.resize(rank);
        Check(api_.GetDimensions(info_, description.shape.data(), rank));
        return description;
    }

private:
    const ort::Api& api_;
    ort::TensorTypeAndShapeInfo* info_ = nullptr;
};

size_t BytesOf(const Shape& shape, const char* dtype)
{
    size_t bytes = DtypeOf(dtype).bytes;
    for (const int64_t size : shape) {
        bytes *= static_cast<size_t>(size);
    }
    return bytes;
}

// Results that a node does not want go to this memory. The thread keeps it, for its next run.
void* Unwanted(size_t index, size_t bytes)
{
    struct Free {
        void operator()(void* block) const { std::free(block); }
    };
    struct Block {
        std::unique_ptr<void, Free> memory;
        size_t bytes = 0;
    };
    thread_local std::vector<Block> blocks;
    blocks.resize(std::max(blocks.size(), index + 1));
    Block& block = blocks[index];
    if (block.bytes < bytes) {
        const size_t rounded = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        block.bytes = 0;
        block.memory.reset(std::aligned_alloc(ALIGNMENT, rounded));
        if (!block.memory) {
            throw std::bad_alloc();
        }
        block.bytes = rounded;
    }
    return block.memory.get();
}

// --- A node --------------------------------------------------------------------------------------------------------

struct Output {
    std::string dtype;
    Shape shape;
    size_t bytes;
};

struct FreePrepared {
    void operator()(MsAscendPrepared* prepared) const { MsAscendOpsFreePrepared(prepared); }
};

// A node keeps its kernel for inputs of certain shapes.
struct Prepared {
    std::unique_ptr<MsAscendPrepared, FreePrepared> launch;
    std::vector<Output> outputs;
};

class Node {
public:
    Node(const TypedOperator& op, const ort::Api& api, const ort::KernelInfo* info) : op_(*op.owner), api_(api)
    {
        const Attributes attributes(api, info);
        for (const AttributeDef& def : op_.Def().attributes) {
            attributes_.push_back(attributes.Read(op_, def));
        }
    }

    // Many threads may be here at once.
    void Run(ort::KernelContext* context)
    {
        const size_t inputCount = op_.Def().inputs.size();
        size_t given = 0;
        size_t wanted = 0;
        Check(api_.KernelContextGetInputCount(context, &given));
        Check(api_.KernelContextGetOutputCount(context, &wanted));
        std::vector<Description> descriptions(inputCount);
        std::vector<void*> data(inputCount);
        std::string key;
        for (size_t i = 0; i < std::min(given, inputCount); ++i) {
            const ort::Value* value = nullptr;
            Check(api_.KernelContextGetInput(context, i, &value));
            if (value != nullptr) {
                descriptions[i] = TypeAndShape(api_, value).Read();
                Check(api_.GetTensorMutableData(const_cast<ort::Value*>(value), &data[i]));
            }
            AppendTo(key, descriptions[i]);
        }
        const std::shared_ptr<const Prepared> prepared = Find(key, descriptions);
        for (size_t i = 0; i < op_.Writes().size(); ++i) {
            TakeOver(context, prepared->outputs.size() + i, wanted, descriptions[op_.Writes()[i]],
                     data[op_.Writes()[i]]);
        }
        for (size_t i = 0; i < prepared->outputs.size(); ++i) {
            const Output& output = prepared->outputs[i];
            void* memory = ResultMemory(context, i, wanted, output.shape);
            data.push_back(memory != nullptr ? memory : Unwanted(i, output.bytes));
        }
        char error[ERROR_BYTES] = "";
        const SessionThreads threads(api_, context);
        Throw(MsAscendOpsRun(prepared->launch.get(), data.data(), error, sizeof(error)), error);
    }

private:
    // While it lives, the cores of a kernel run on the threads of the session.
    class SessionThreads {
    public:
        SessionThreads(const ort::Api& api, const ort::KernelContext* context) : api_(api), context_(context)
        {
            const auto parallelFor = [](void* self, void (*task)(void*, size_t), void* data, size_t count) {
                const auto& threads = *static_cast<SessionThreads*>(self);
                if (ort::Status* status =
                        threads.api_.KernelContextParallelFor(threads.context_, task, count, 0, data)) {
                    threads.api_.ReleaseStatus(status);  // it has done nothing
                    for (size_t i = 0; i < count; ++i) {
                        task(data, i);
                    }
                }
            };
            MsAscendOpsSetParallelForOfCaller(parallelFor, this);
        }
        SessionThreads(const SessionThreads&) = delete;
        SessionThreads& operator=(const SessionThreads&) = delete;
        ~SessionThreads() { MsAscendOpsSetParallelForOfCaller(nullptr, nullptr); }

    private:
        const ort::Api& api_;
        const ort::KernelContext* context_;
    };

    static void AppendTo(std::string& key, const Description& description)
    {
        const auto append = [&key](int64_t value) { key.append(reinterpret_cast<const char*>(&value), sizeof(value)); };
        append(description.type);
        append(static_cast<int64_t>(description.shape.size()));
        for (const int64_t size : description.shape) {
            append(size);
        }
    }

    static void Throw(MsAscendStatus status, const char* error)
    {
        switch (status) {
            case MS_ASCEND_OK:
                return;
            case MS_ASCEND_TYPE_ERROR:
                throw TypeError(error);
            case MS_ASCEND_VALUE_ERROR:
                throw std::invalid_argument(error);
            default:
                throw std::runtime_error(error);
        }
    }

    // Returns the memory of an output, or null if nobody wants it.
    void* ResultMemory(ort::KernelContext* context, size_t index, size_t wanted, const Shape& shape) const
    {
        ort::Value* value = nullptr;
        if (index < wanted) {
            Check(api_.KernelContextGetOutput(context, index, shape.data(), shape.size(), &value));
        }
        void* memory = nullptr;
        if (value != nullptr) {
            Check(api_.GetTensorMutableData(value, &memory));
        }
        return memory;
    }

    // The kernel changes this input. It works on the output, which ONNX Runtime makes of the same memory if nobody else
    // needs the input. Otherwise the input stays as it is.
    void TakeOver(ort::KernelContext* context, size_t index, size_t wanted, const Description& input, void*& data) const
    {
        const size_t bytes = BytesOf(input.shape, NameOf(input.type));
        void* memory = ResultMemory(context, index, wanted, input.shape);
        if (memory == nullptr) {
            memory = Unwanted(op_.Def().outputs.size() + index, bytes);
        }
        if (memory != data) {
            std::memcpy(memory, data, bytes);
            data = memory;
        }
    }

    std::shared_ptr<const Prepared> Find(const std::string& key, const std::vector<Description>& inputs)
    {
        {
            const std::shared_lock<std::shared_mutex> reading(mutex_);
            const auto found = prepared_.find(key);
            if (found != prepared_.end()) {
                return found->second;
            }
        }
        std::shared_ptr<const Prepared> made = Prepare(inputs);
        const std::unique_lock<std::shared_mutex> writing(mutex_);
        if (prepared_.size() >= MOST_PREPARED) {
            prepared_.clear();
        }
        prepared_[key] = made;
        return made;
    }

    std::shared_ptr<const Prepared> Prepare(const std::vector<Description>& inputs) const
    {
        std::vector<MsAscendTensor> tensors;
        for (const Description& input : inputs) {
            const bool isAbsent = input.type == ort::UNDEFINED;
            tensors.push_back({nullptr, isAbsent ? nullptr : NameOf(input.type), input.shape.data(),
                               static_cast<int32_t>(input.shape.size())});
        }
        std::vector<MsAscendAttribute> attributes;
        for (size_t i = 0; i < attributes_.size(); ++i) {
            const AttributeDef& def = op_.Def().attributes[i];
            const GivenAttribute& given = attributes_[i];
            attributes.push_back({def.name.c_str(), static_cast<int32_t>(def.kind), given.value.integer,
                                  given.value.real, given.text.c_str()});
        }
        char error[ERROR_BYTES] = "";
        const MsAscendCall call = {op_.Def().name.c_str(),
                                   tensors.data(),
                                   static_cast<int32_t>(tensors.size()),
                                   attributes.data(),
                                   static_cast<int32_t>(attributes.size()),
                                   error,
                                   sizeof(error)};
        auto made = std::make_shared<Prepared>();
        const auto visit = [](void* outputs, const char* dtype, const int64_t* shape, int32_t rank) {
            const Shape sizes(shape, shape + rank);
            static_cast<std::vector<Output>*>(outputs)->push_back({dtype, sizes, BytesOf(sizes, dtype)});
        };
        MsAscendPrepared* launch = nullptr;
        Throw(MsAscendOpsPrepare(&call, visit, &made->outputs, &launch), error);
        made->launch.reset(launch);
        return made;
    }

    const Operator& op_;
    const ort::Api& api_;
    std::vector<GivenAttribute> attributes_;  // in the order of the definition
    std::shared_mutex mutex_;
    std::unordered_map<std::string, std::shared_ptr<const Prepared>> prepared_;
};

struct NodeState {
    const ort::Api& api;
    Node node;
};

// --- What a node gives, before it runs -----------------------------------------------------------------------------

const ort::Api* theApi = nullptr;  // the same in the whole process: a table of ONNX Runtime's library

AttributeValue ReadForShapes(const Operator& op, const AttributeDef& def, const ort::ShapeInferContext* context)
{
    const ort::OpAttr* attribute = nullptr;
    for (const std::string& name : {def.name, def.formerly}) {
        if (attribute == nullptr && !name.empty()) {
            if (ort::Status* status = theApi->ShapeInferContextGetAttribute(context, name.c_str(), &attribute)) {
                theApi->ReleaseStatus(status);
                attribute = nullptr;
            }
        }
    }
    if (attribute == nullptr) {
        return def.defaultValue;
    }
    AttributeValue value = def.defaultValue;
    size_t written = 0;
    if (def.kind == AttributeKind::STRING) {
        char text[256] = "";
        Check(theApi->ReadOpAttr(attribute, ort::ATTRIBUTE_STRING, text, sizeof(text) - 1, &written));
        return op.Rules().ParseChoice(def, std::string(text, std::min(written, std::strlen(text))));
    }
    if (def.kind == AttributeKind::FLOAT) {
        return value;  // no shape depends on one
    }
    Check(theApi->ReadOpAttr(attribute, ort::ATTRIBUTE_INT, &value.integer, sizeof(value.integer), &written));
    op.Rules().CheckAttribute(def, value);
    return value;
}

// Infers from inputs whose shapes are known. Others are left to the shapes that the model notes: ONNX Runtime would
// take an unknown dim for one of that size.
void InferShapes(const Operator& op, const ort::ShapeInferContext* context)
{
    const SignatureDef& def = op.Def();
    size_t given = 0;
    Check(theApi->ShapeInferContextGetInputCount(context, &given));
    std::vector<Shape> shapes(def.inputs.size(), Shape{ABSENT});
    std::vector<std::string> dtypes(def.inputs.size());
    for (size_t i = 0; i < std::min(given, shapes.size()); ++i) {
        ort::TensorTypeAndShapeInfo* info = nullptr;
        Check(theApi->ShapeInferContextGetInputTypeShape(context, i, &info));
        if (info == nullptr) {
            continue;
        }
        // It is the context's own.
        Description description;
        size_t rank = 0;
        Check(theApi->GetTensorElementType(info, &description.type));
        Check(theApi->GetDimensionsCount(info, &rank));
        shapes[i].resize(rank);
        Check(theApi->GetDimensions(info, shapes[i].data(), rank));
        if (description.type == ort::UNDEFINED) {
            shapes[i] = {ABSENT};
        } else if (std::any_of(shapes[i].begin(), shapes[i].end(), [](int64_t size) { return size < 0; })) {
            return;
        } else {
            dtypes[i] = NameOf(description.type);
        }
    }
    std::vector<AttributeValue> values;
    for (const AttributeDef& attribute : def.attributes) {
        values.push_back(ReadForShapes(op, attribute, context));
    }
    std::vector<Shape> results = op.Rules().InferShapes(shapes, values);
    std::vector<std::string> types = op.Rules().InferTypes(dtypes);
    for (const size_t input : op.Writes()) {
        results.push_back(shapes[input]);
        types.push_back(dtypes[input]);
    }
    for (size_t i = 0; i < results.size(); ++i) {
        ort::TensorTypeAndShapeInfo* info = nullptr;
        Check(theApi->CreateTensorTypeAndShapeInfo(&info));
        const TypeAndShape owner(*theApi, info);
        Check(theApi->SetTensorElementType(info, DtypeOf(types[i]).type));
        Check(theApi->SetDimensions(info, results[i].data(), results[i].size()));
        std::vector<const char*> names(results[i].size(), "");
        Check(theApi->SetSymbolicDimensions(info, names.data(), names.size()));
        if (ort::Status* status = theApi->ShapeInferContextSetOutputTypeShape(context, i, info)) {
            theApi->ReleaseStatus(status);  // the node has fewer outputs
        }
    }
}

// --- The operators as ONNX Runtime calls them ------------------------------------------------------------------------

std::unique_ptr<TypedOperator> Operator::MakeRow(const std::map<std::string, std::string>& row) const
{
    auto made = std::make_unique<TypedOperator>();
    made->owner = this;
    const auto add = [&row](std::vector<ort::ElementType>& types, const TensorDef& tensor) {
        types.push_back(DtypeOf(Resolve(row, tensor.dtype)).type);
    };
    for (const TensorDef& tensor : Def().inputs) {
        add(made->inputs, tensor);
    }
    for (const TensorDef& tensor : Def().outputs) {
        add(made->outputs, tensor);
    }
    for (const size_t input : writes_) {
        add(made->outputs, Def().inputs[input]);
    }
    made->GetName = [](const ort::CustomOp* op) { return Typed(op).owner->Def().name.c_str(); };
    made->GetExecutionProviderType = [](const ort::CustomOp*) -> const char* { return nullptr; };  // a CPU
    made->GetInputTypeCount = [](const ort::CustomOp* op) { return Typed(op).inputs.size(); };
    made->GetInputType = [](const ort::CustomOp* op, size_t index) { return Typed(op).inputs[index]; };
    made->GetOutputTypeCount = [](const ort::CustomOp* op) { return Typed(op).outputs.size(); };
    made->GetOutputType = [](const ort::CustomOp* op, size_t index) { return Typed(op).outputs[index]; };
    made->GetInputCharacteristic = [](const ort::CustomOp* op, size_t index) {
        return Typed(op).owner->Def().inputs[index].optional ? ort::OPTIONAL : ort::REQUIRED;
    };
    made->GetOutputCharacteristic = [](const ort::CustomOp*, size_t index) {
        return index == 0 ? ort::REQUIRED : ort::OPTIONAL;
    };
    made->GetInputMemoryType = [](const ort::CustomOp*, size_t) { return ort::DEFAULT_MEMORY; };
    made->GetVariadicInputMinArity = [](const ort::CustomOp*) { return 0; };
    made->GetVariadicInputHomogeneity = [](const ort::CustomOp*) { return 0; };
    made->GetVariadicOutputMinArity = [](const ort::CustomOp*) { return 0; };
    made->GetVariadicOutputHomogeneity = [](const ort::CustomOp*) { return 0; };
    made->CreateKernelV2 = [](const ort::CustomOp* op, const ort::Api* api, const ort::KernelInfo* info,
                              void** kernel) {
        return Guard(*api, [&] { *kernel = new NodeState{*api, {Typed(op), *api, info}}; });
    };
    made->KernelComputeV2 = [](void* kernel, ort::KernelContext* context) {
        auto& state = *static_cast<NodeState*>(kernel);
        return Guard(state.api, [&] { state.node.Run(context); });
    };
    made->KernelDestroy = [](void* kernel) { delete static_cast<NodeState*>(kernel); };
    made->InferOutputShapeFn = [](const ort::CustomOp* op, ort::ShapeInferContext* context) -> ort::Status* {
        // Nobody would look at a Status: the error is reported when the node runs.
        if (ort::Status* status = Guard(*theApi, [&] { InferShapes(*Typed(op).owner, context); })) {
            theApi->ReleaseStatus(status);
        }
        return nullptr;
    };
    made->GetStartVersion = [](const ort::CustomOp* op) { return Typed(op).owner->version_; };
    made->GetEndVersion = [](const ort::CustomOp*) { return 0x7fffffff; };
    made->GetMayInplace = mayInplace_;
    made->ReleaseMayInplace = [](int* inputs, int* outputs) {
        delete[] inputs;
        delete[] outputs;
    };
    return made;
}

// Returns all operators, in the domain that sessions share. They stay until the process ends, as sessions may.
ort::CustomOpDomain* Domain(const ort::Api& api)
{
    static std::mutex mutex;
    static ort::CustomOpDomain* domain = nullptr;
    const std::lock_guard<std::mutex> guard(mutex);
    if (domain == nullptr) {
        static auto* operators = new std::vector<std::unique_ptr<Operator>>;
        theApi = &api;
        ort::CustomOpDomain* made = nullptr;
        Check(api.CreateCustomOpDomain(DOMAIN_NAME, &made));
        for (OnnxOperator& definition : OnnxOperators()) {
            operators->push_back(std::make_unique<Operator>(std::move(definition)));
            for (const auto& row : operators->back()->Rows()) {
                Check(api.CustomOpDomainAdd(made, row.get()));
            }
        }
        domain = made;
    }
    return domain;
}

}  // namespace
}  // namespace ms_ascend_ops::binding

// ONNX Runtime looks this up in the library.
extern "C" __attribute__((visibility("default"))) ms_ascend_ops::ort::Status* RegisterCustomOps(
    ms_ascend_ops::ort::SessionOptions* options, const ms_ascend_ops::ort::ApiBase* base)
{
    namespace ort = ms_ascend_ops::ort;
    using namespace ms_ascend_ops::binding;
    const ort::Api* api = base->GetApi(ort::VERSION);
    if (api == nullptr) {
        const std::string message = std::string("ms_ascend_ops: ONNX Runtime 1.") + std::to_string(ort::VERSION) +
                                    " or newer is needed, got " + base->GetVersionString();
        return base->GetApi(1)->CreateStatus(ort::FAIL, message.c_str());
    }
    return Guard(*api, [&] { Check(api->AddCustomOpDomain(options, Domain(*api))); });
}
