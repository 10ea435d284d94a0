#include "binding/c_api.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "binding/c_call.h"
#include "binding/launch_counts.h"
#include "binding/op.h"
#include "binding/super_kernel.h"
#include "host/cube/product.h"
#include "host/jit/loop_code.h"
#include "host/runtime/launch.h"
#include "simd/vector_unit.h"

#pragma GCC visibility push(default)

namespace {

using ms_ascend_ops::LaunchConfig;
using ms_ascend_ops::MAX_RANK;
using ms_ascend_ops::MAX_TENSORS;
using ms_ascend_ops::Platform;
using ms_ascend_ops::TensorDesc;
using namespace ms_ascend_ops::binding;

template <typename F>
MsAscendStatus Guard(const MsAscendCall* call, F&& body)
{
    return ms_ascend_ops::binding::Guard(call->error, call->errorBytes, std::forward<F>(body));
}

const char* NameOf(AttributeKind kind)
{
    constexpr std::array<const char*, 4> names = {"an int", "a float", "a bool", "a string"};
    return names[static_cast<size_t>(kind)];
}

std::vector<AttributeValue> ReadAttributes(const Op& op, const MsAscendCall* call)
{
    const std::vector<AttributeDef>& defs = op.Def().attributes;
    std::vector<AttributeValue> values;
    for (const AttributeDef& def : defs) {
        values.push_back(def.defaultValue);
    }
    for (int32_t i = 0; i < call->attributeCount; ++i) {
        const MsAscendAttribute& given = call->attributes[i];
        const auto def = std::find_if(defs.begin(), defs.end(),
                                      [&](const AttributeDef& candidate) { return candidate.IsCalled(given.name); });
        if (def == defs.end()) {
            throw TypeError(op.Def().name + ": there is no attribute " + given.name);
        }
        const auto kind = static_cast<AttributeKind>(given.kind);
        const bool intForFloat = def->kind == AttributeKind::FLOAT && kind == AttributeKind::INT;
        if (kind != def->kind && !intForFloat) {
            throw TypeError(op.Def().name + ": " + def->name + " must be " + NameOf(def->kind) + ", got " +
                            NameOf(kind));
        }
        AttributeValue value{given.integer, intForFloat ? static_cast<double>(given.integer) : given.real};
        if (kind == AttributeKind::STRING) {
            value = op.ParseChoice(*def, given.text);
        }
        op.CheckAttribute(*def, value);
        values[def - defs.begin()] = value;
    }
    return values;
}

struct Inputs {
    std::vector<Shape> shapes;
    std::vector<std::string> dtypes;
};

Inputs ReadInputs(const Op& op, const MsAscendCall* call, size_t expected)
{
    if (call->tensorCount < 0 || static_cast<size_t>(call->tensorCount) != expected) {
        throw TypeError(op.Def().name + ": expects " + std::to_string(expected) + " tensors, got " +
                        std::to_string(call->tensorCount));
    }
    Inputs inputs;
    for (size_t i = 0; i < op.Def().inputs.size(); ++i) {
        const MsAscendTensor& tensor = call->tensors[i];
        const bool absent = tensor.dtype == nullptr;
        inputs.shapes.push_back(absent ? Shape{ABSENT} : Shape(tensor.shape, tensor.shape + tensor.rank));
        inputs.dtypes.emplace_back(absent ? "" : tensor.dtype);
    }
    return inputs;
}

// The rules were matched before: no rank is above MAX_RANK.
std::vector<TensorDesc> DescribeAll(const MsAscendCall* call)
{
    std::vector<TensorDesc> descs;
    for (int32_t i = 0; i < call->tensorCount; ++i) {
        for (int32_t j = 0; j < call->tensors[i].rank; ++j) {
            if (call->tensors[i].shape[j] < 0) {
                throw std::invalid_argument(std::string(call->op) + ": every shape must be known");
            }
        }
        descs.push_back(DescribeTensor(call->tensors[i]));
    }
    return descs;
}

// Prepares a launch with inputs and outputs, all of which are checked.
PreparedLaunch PrepareAll(const MsAscendCall* call)
{
    const Op& op = FindOp(call->op);
    const SignatureDef& def = op.Def();
    const Inputs inputs = ReadInputs(op, call, def.inputs.size() + def.outputs.size());
    std::vector<AttributeValue> values = ReadAttributes(op, call);
    const std::vector<std::string> dtypes = op.InferTypes(inputs.dtypes);
    const std::vector<Shape> shapes = op.InferShapes(inputs.shapes, values);
    for (size_t i = 0; i < def.outputs.size(); ++i) {
        const MsAscendTensor& tensor = call->tensors[def.inputs.size() + i];
        const Shape shape(tensor.shape, tensor.shape + tensor.rank);
        const std::string dtype = tensor.dtype == nullptr ? "none" : tensor.dtype;
        if (dtypes[i] != dtype) {
            throw TypeError(def.name + ": " + def.outputs[i].name + ".dtype must be " + dtypes[i] + ", got " + dtype);
        }
        if (shapes[i] != shape) {
            throw std::invalid_argument(def.name + ": " + def.outputs[i].name + ".shape must be " +
                                        ToString(shapes[i]) + ", got " + ToString(shape));
        }
    }
    return {op, DescribeAll(call), std::move(values)};
}

void Run(const PreparedLaunch& launch, void* const* params)
{
    try {
        launch.Run(params);
    } catch (const std::runtime_error& failure) {
        throw std::runtime_error(launch.Name() + ": " + failure.what());
    }
}

// Prepares a launch of a list of kernels, its only attribute.
SuperKernelPlan PrepareSuperKernel(const MsAscendCall* call)
{
    if (call->attributeCount != 1 || std::string(call->attributes[0].name) != "kernels" ||
        static_cast<AttributeKind>(call->attributes[0].kind) != AttributeKind::STRING) {
        throw TypeError("super_kernel: takes the attribute kernels, a string");
    }
    auto kernel = SuperKernel::Find(call->attributes[0].text);
    const size_t inputs = kernel->InputCount();
    const size_t count = inputs + kernel->ResultCount();
    if (call->tensorCount < 0 || static_cast<size_t>(call->tensorCount) != count) {
        throw TypeError("super_kernel: expects " + std::to_string(count) + " tensors, got " +
                        std::to_string(call->tensorCount));
    }
    for (int32_t i = 0; i < call->tensorCount; ++i) {
        if (call->tensors[i].dtype == nullptr || call->tensors[i].rank > MAX_RANK) {
            throw std::invalid_argument("super_kernel: tensor " + std::to_string(i) + " is missing, or has " +
                                        std::to_string(call->tensors[i].rank) + " dims");
        }
    }
    const std::vector<TensorDesc> descs = DescribeAll(call);
    SuperKernelPlan plan(std::move(kernel), {descs.begin(), descs.begin() + static_cast<int64_t>(inputs)});
    plan.CheckResults(descs.data() + inputs);
    return plan;
}

}  // namespace

struct MsAscendPrepared {
    std::variant<PreparedLaunch, SuperKernelPlan> launch;
};

extern "C" {

const char* MsAscendOpsVersion(void)
{
    return MS_ASCEND_OPS_VERSION;
}

const char* MsAscendOpsPath(void)
{
    static const std::string path = [] {
        Dl_info info;
        return std::string(dladdr(reinterpret_cast<void*>(&MsAscendOpsPath), &info) != 0 ? info.dli_fname : "");
    }();
    return path.c_str();
}

const char* MsAscendOpsVectorUnit(void)
{
    return AscendC::host::VectorUnitName();
}

const char* MsAscendOpsProductLibrary(void)
{
    return AscendC::host::ProductLibrary();
}

const char* MsAscendOpsProductLibraryPath(void)
{
    return AscendC::host::ProductLibraryPath();
}

const char* MsAscendOpsSignatures(void)
{
    static const std::string json = [] {
        std::string text;
        for (const auto& [name, op] : Registry()) {
            text += (text.empty() ? "[" : ",") + op.Kernel().json;
        }
        return (text.empty() ? "[" : text) + "]";
    }();
    return json.c_str();
}

uint32_t MsAscendOpsGetThreadNum(void)
{
    return AscendC::host::TheExecutor().ThreadNum();
}

void MsAscendOpsSetThreadNum(uint32_t threads)
{
    AscendC::host::TheExecutor().SetThreadNum(threads);
}

void MsAscendOpsSetParallelForOfCaller(MsAscendParallelFor parallelFor, void* context)
{
    AscendC::host::TheExecutor().SetParallelForOfCaller(parallelFor, context);
}

void MsAscendOpsSetThreadNumOfCaller(uint32_t threads)
{
    AscendC::host::TheExecutor().SetThreadNumOfCaller(threads);
}

uint32_t MsAscendOpsGetUbBytes(void)
{
    return AscendC::host::TheExecutor().Platform().ubBytes;
}

void MsAscendOpsSetUbBytes(uint32_t bytes)
{
    AscendC::host::TheExecutor().SetUbBytes(bytes);
}

int32_t MsAscendOpsNextLoop(int32_t wait, MsAscendLoopVisitor visit, void* context)
{
    return AscendC::host::NextLoop(wait != 0, visit, context) ? 1 : 0;
}

void MsAscendOpsSetLoop(uint32_t number, void* function)
{
    AscendC::host::SetLoop(number, reinterpret_cast<AscendC::host::LoopFunction>(function));
}

uint32_t MsAscendOpsPendingLoops(void)
{
    return AscendC::host::PendingLoops();
}

void MsAscendOpsStopLoops(void)
{
    AscendC::host::StopLoops();
}

void MsAscendOpsSetLoopThreshold(uint64_t strips)
{
    AscendC::host::SetLoopThreshold(strips);
}

void MsAscendOpsSetCounting(int32_t on)
{
    launchesAreCounted.store(on != 0, std::memory_order_relaxed);
}

int32_t MsAscendOpsCountBounds(const uint64_t** nanoseconds)
{
    *nanoseconds = LAUNCH_BOUNDS_NS.data();
    return static_cast<int32_t>(LAUNCH_BOUNDS_NS.size());
}

void MsAscendOpsVisitCounts(MsAscendCountVisitor visit, void* context)
{
    VisitLaunchCounts([&](const Op& op, const std::string& bucket, const LaunchCounts& counts) {
        visit(context, op.Def().name.c_str(), bucket.c_str(), counts.calls.data(), counts.nanoseconds, counts.bytes,
              counts.failures);
    });
}

MsAscendStatus MsAscendOpsLaunch(const MsAscendCall* call)
{
    return Guard(call, [&] {
        const PreparedLaunch launch = PrepareAll(call);
        std::array<void*, MAX_TENSORS> params{};
        std::transform(call->tensors, call->tensors + call->tensorCount, params.begin(),
                       [](const MsAscendTensor& tensor) { return tensor.data; });
        Run(launch, params.data());
    });
}

MsAscendStatus MsAscendOpsPrepare(const MsAscendCall* call, MsAscendOutputVisitor visit, void* context,
                                  MsAscendPrepared** prepared)
{
    return Guard(call, [&] {
        const Op& op = FindOp(call->op);
        const Inputs inputs = ReadInputs(op, call, op.Def().inputs.size());
        std::vector<AttributeValue> values = ReadAttributes(op, call);
        const std::vector<std::string> dtypes = op.InferTypes(inputs.dtypes);
        const std::vector<Shape> shapes = op.InferShapes(inputs.shapes, values);
        std::vector<TensorDesc> descs = DescribeAll(call);
        for (size_t i = 0; i < shapes.size(); ++i) {
            const auto rank = static_cast<int32_t>(shapes[i].size());
            descs.push_back(DescribeTensor({nullptr, dtypes[i].c_str(), shapes[i].data(), rank}));
            visit(context, dtypes[i].c_str(), shapes[i].data(), rank);
        }
        *prepared = new MsAscendPrepared{PreparedLaunch(op, std::move(descs), std::move(values))};
    });
}

MsAscendStatus MsAscendOpsPrepareAll(const MsAscendCall* call, MsAscendPrepared** prepared)
{
    return Guard(call, [&] {
        *prepared = std::string(call->op) == "super_kernel" ? new MsAscendPrepared{PrepareSuperKernel(call)}
                                                            : new MsAscendPrepared{PrepareAll(call)};
    });
}

MsAscendStatus MsAscendOpsRun(const MsAscendPrepared* prepared, void* const* data, char* error, size_t errorBytes)
{
    return ms_ascend_ops::binding::Guard(error, errorBytes, [&] {
        if (const auto* list = std::get_if<SuperKernelPlan>(&prepared->launch)) {
            list->Run(data);
        } else {
            Run(std::get<PreparedLaunch>(prepared->launch), data);
        }
    });
}

int32_t MsAscendOpsWrites(const char* op, int32_t input)
{
    const auto found = Registry().find(op);
    if (found == Registry().end() || static_cast<size_t>(input) >= found->second.Def().inputs.size()) {
        return 0;
    }
    return static_cast<int32_t>(found->second.Kernel().writes.count(found->second.Def().inputs[input].name));
}

void MsAscendOpsFreePrepared(MsAscendPrepared* prepared)
{
    delete prepared;
}

MsAscendStatus MsAscendOpsLibrary(const MsAscendCall* call, MsAscendNameVisitor visit, void* context)
{
    return Guard(call, [&] {
        const Op& op = FindOp(call->op);
        ReadInputs(op, call, op.Def().inputs.size());
        const std::vector<AttributeValue> values = ReadAttributes(op, call);
        const auto library = op.Kernel().library;
        visit(context, library == nullptr ? "" : library(DescribeAll(call).data(), values.data()).c_str());
    });
}

MsAscendStatus MsAscendOpsTiling(const MsAscendCall* call, uint32_t coreNum, uint32_t ubBytes, uint32_t minBytesPerCore,
                                 MsAscendFieldVisitor visit, void* context)
{
    return Guard(call, [&] {
        const Op& op = FindOp(call->op);
        const Inputs inputs = ReadInputs(op, call, op.Def().inputs.size());
        const std::vector<AttributeValue> values = ReadAttributes(op, call);
        op.MatchTypes(inputs.dtypes);
        const std::vector<Shape> outputs = op.InferShapes(inputs.shapes, values);
        if (std::all_of(outputs.begin(), outputs.end(),
                        [](const Shape& shape) { return std::find(shape.begin(), shape.end(), 0) != shape.end(); })) {
            throw std::invalid_argument(op.Def().name + ": every output is empty, nothing is launched");
        }
        const std::vector<TensorDesc> descs = DescribeAll(call);
        const Platform host = AscendC::host::TheExecutor().Platform();
        Platform platform = host;
        if (coreNum != 0) {  // a chip: a further core costs less than a further thread
            platform = Platform{};
            platform.coreNum = coreNum;
        }
        platform.ubBytes = ubBytes == 0 ? host.ubBytes : ubBytes;
        platform.minBytesPerCore = minBytesPerCore == 0 ? platform.minBytesPerCore : minBytesPerCore;
        std::vector<TilingField> fields;
        const LaunchConfig config = op.Kernel().tiling(descs.data(), values.data(), platform, fields);
        fields.push_back(MakeTilingField("block_dim", config.blockDim));
        fields.push_back(MakeTilingField("workspace_bytes", config.workspaceBytes));
        for (const TilingField& field : fields) {
            visit(context, field.name, field.isReal ? 1 : 0, field.integer, field.real);
        }
    });
}

}  // extern "C"

#pragma GCC visibility pop
