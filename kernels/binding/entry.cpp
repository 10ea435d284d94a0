#include <algorithm>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "binding/c_api.h"
#include "binding/c_call.h"
#include "binding/op.h"
#include "host/observed/observe.h"
#include "host/runtime/launch.h"
#include "interface/package.h"

namespace ms_ascend_ops::binding {
namespace {

// Finds an operator by the type that CANN has for it, as MsAscendOpsRmsNorm.
const Op& FindPackageOp(const std::string& type)
{
    constexpr std::string_view PREFIX = "MsAscendOps";
    static const std::map<std::string, const Op*> ops = [PREFIX] {
        std::map<std::string, const Op*> found;
        for (const auto& [name, op] : Registry()) {
            if (!op.Kernel().entries.rows.empty()) {
                found.emplace(std::string(PREFIX) + op.Kernel().entry, &op);
            }
        }
        return found;
    }();
    const auto found = ops.find(type);
    if (found == ops.end()) {
        throw std::invalid_argument("the library has no kernel " + type);
    }
    return *found->second;
}

// The kernel takes the tensors of a launch in this order: inputs, then outputs. CANN passes an input that is changed in
// place twice, and the kernel gets the output.
struct KernelTensors {
    std::vector<void*> params;
    std::vector<TensorDesc> descs;
};

KernelTensors OfKernel(const Op& op, size_t row, const MsAscendTensor* tensors, size_t count)
{
    const SignatureDef& def = op.Def();
    const size_t inputs = def.inputs.size();
    if (count != inputs + op.Kernel().writes.size() + def.outputs.size()) {
        throw TypeError(def.name + ": the kernel entry takes " +
                        std::to_string(inputs + op.Kernel().writes.size() + def.outputs.size()) + " tensors, got " +
                        std::to_string(count));
    }
    KernelTensors result;
    const auto add = [&](const TensorDef& tensor, const MsAscendTensor& given) {
        const TensorDesc desc = DescribeTensor(given);
        const DataType expected = ParseDataType(Resolve(def.types[row], tensor.dtype));
        if (desc.IsGiven() && desc.dtype != expected) {
            throw TypeError(def.name + ": the kernel entry for " + NameOf(expected) + " " + tensor.name + " got " +
                            given.dtype);
        }
        result.params.push_back(given.data);
        result.descs.push_back(desc);
    };
    size_t changed = inputs + def.outputs.size();
    for (size_t i = 0; i < inputs; ++i) {
        const bool inPlace = op.Kernel().writes.count(def.inputs[i].name) > 0;
        add(def.inputs[i], tensors[inPlace ? changed++ : i]);
    }
    for (size_t i = 0; i < def.outputs.size(); ++i) {
        add(def.outputs[i], tensors[inputs + i]);
    }
    return result;
}

LaunchMemory MemoryOf(const Op& op, const KernelTensors& tensors)
{
    LaunchMemory memory;
    for (size_t i = 0; i < tensors.descs.size(); ++i) {
        const TensorDesc& desc = tensors.descs[i];
        const uint64_t bytes = static_cast<uint64_t>(desc.Size()) * SizeOf(desc.dtype);
        const char* const begin = static_cast<const char*>(tensors.params[i]);
        memory.tensors[memory.tensorCount++] = {begin, begin + bytes};
        memory.outputBytes += i < op.Def().inputs.size() ? 0 : bytes;
    }
    return memory;
}

}  // namespace
}  // namespace ms_ascend_ops::binding

extern "C" __attribute__((visibility("default"))) MsAscendStatus
MsAscendOpsRunEntry(const char* type, uint32_t row, uint32_t blockDim, uint64_t tilingKey, const void* tiling,
                    size_t tilingBytes, const MsAscendTensor* tensors, int32_t count, void* workspace,
                    size_t workspaceBytes, char* error, size_t errorBytes)
{
    using namespace ms_ascend_ops;
    using namespace ms_ascend_ops::binding;
    return ms_ascend_ops::binding::Guard(error, errorBytes, [&] {
        const Op& op = FindPackageOp(type);
        const PackageEntries& entries = op.Kernel().entries;
        if (row >= entries.rows.size() || tilingKey != TILING_KEY || blockDim == 0) {
            throw std::invalid_argument(std::string(type) + ": there is no kernel for row " + std::to_string(row) +
                                        " of its types, tiling key " + std::to_string(tilingKey) + " and " +
                                        std::to_string(blockDim) + " blocks");
        }
        if (workspaceBytes < LIBRARY_WORKSPACE_BYTES) {
            throw std::invalid_argument(std::string(type) + ": the workspace has " + std::to_string(workspaceBytes) +
                                        " bytes, of which CANN keeps " + std::to_string(LIBRARY_WORKSPACE_BYTES));
        }
        const KernelTensors used = OfKernel(op, row, tensors, static_cast<size_t>(count));
        LaunchMemory memory = MemoryOf(op, used);
        LaunchConfig config;
        config.blockDim = entries.paired ? 2 * blockDim : blockDim;
        config.coresMeet = entries.meet;
        config.workspaceBytes = workspaceBytes - LIBRARY_WORKSPACE_BYTES;
        memory.workspace = static_cast<char*>(workspace) + LIBRARY_WORKSPACE_BYTES;
        std::vector<void*> params;
        std::transform(tensors, tensors + count, std::back_inserter(params),
                       [](const MsAscendTensor& tensor) { return tensor.data; });
        EntryLaunch launch{params.data(), workspace, const_cast<void*>(tiling)};
        op.Describe(used.params.data(), used.descs.data());
        HOST_OBSERVED(AscendC::host::DescribeTiling(tiling, tilingBytes);)
        try {
            AscendC::host::WithValueRules(op.Kernel().rules.c_str(), [&] {
                AscendC::host::TheExecutor().Launch(
                    config, memory, {static_cast<const char*>(tiling), tilingBytes}, entries.rows[row], &launch,
                    entries.paired ? AscendC::host::KernelType::MIX_AIC_1_2 : AscendC::host::KernelType::AIV_ONLY);
            });
        } catch (const std::runtime_error& failure) {
            throw std::runtime_error(op.Def().name + ": " + failure.what());
        }
    });
}
