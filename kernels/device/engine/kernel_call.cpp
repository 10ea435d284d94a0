/*!
 * Passes calls of kernels to the kernel library.
 */
#include <dlfcn.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>

#include "binding/c_api.h"
#include "engine/engine.h"
#include "protocol/call.h"

namespace ms_ascend_ops {
namespace device {
namespace {

decltype(&MsAscendOpsRunEntry) runEntry[2] = {};  // by Build
bool hasHooks = false;

// Called by the checked build: names the rule, the kernel's line and the values. The device ends, as after any fault.
void EndByViolation(const char* text)
{
    std::snprintf(TheEngine().Slot().text, TEXT_BYTES, "%s", text);
    _exit(128 + SIGABRT);
}

uint64_t CountWrittenAt(const void* address, uint64_t bytes)
{
    const auto number = reinterpret_cast<uint64_t>(address);
    return KeepsShadow() && IsDeviceAddress(number) ? CountWritten(number, bytes) : bytes;
}

void NoteWrittenAt(const void* address, uint64_t bytes)
{
    const auto number = reinterpret_cast<uint64_t>(address);
    if (KeepsShadow() && IsDeviceAddress(number)) {
        NoteWritten(number, bytes);
    }
}

struct DataType {
    const char* name;
    uint32_t bytes;
};

// By aclDataType.
const DataType* TypeOf(int32_t dtype)
{
    static const DataType types[] = {
        {"float32", 4}, {"float16", 2}, {"int8", 1},  {"int32", 4},  {"uint8", 1},   {nullptr, 0}, {"int16", 2},
        {"uint16", 2},  {"uint32", 4},  {"int64", 8}, {"uint64", 8}, {"float64", 8}, {"bool", 1},  {nullptr, 0},
        {nullptr, 0},   {nullptr, 0},   {nullptr, 0}, {nullptr, 0},  {nullptr, 0},   {nullptr, 0}, {nullptr, 0},
        {nullptr, 0},   {nullptr, 0},   {nullptr, 0}, {nullptr, 0},  {nullptr, 0},   {nullptr, 0}, {"bfloat16", 2}};
    const bool known = dtype >= 0 && dtype < static_cast<int32_t>(sizeof(types) / sizeof(types[0]));
    return known && types[dtype].name != nullptr ? &types[dtype] : nullptr;
}

uint64_t BytesOf(const TensorView& view)
{
    const DataType* const type = TypeOf(view.dtype);
    uint64_t bytes = type == nullptr ? 0 : type->bytes;
    for (const int64_t size : view.shape) {
        bytes *= static_cast<uint64_t>(size);
    }
    return bytes;
}

}  // namespace

std::string OpenKernels(const char* path, Build build)
{
    void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
        return dlerror();
    }
    auto& entry = runEntry[static_cast<int>(build)];
    entry = reinterpret_cast<decltype(&MsAscendOpsRunEntry)>(dlsym(library, "MsAscendOpsRunEntry"));
    using SetHooks = void (*)(decltype(&EndByViolation), decltype(&CountWrittenAt), decltype(&NoteWrittenAt));
    if (const auto setHooks = reinterpret_cast<SetHooks>(dlsym(library, "MsAscendCheckSetHooks"))) {
        setHooks(EndByViolation, CountWrittenAt, NoteWrittenAt);
        hasHooks = true;
    }
    return entry == nullptr ? std::string(path) + " has no kernels for the device (MsAscendOpsRunEntry)" : "";
}

Failure RunKernel(const void* call, size_t bytes, Build build)
{
    CallReader reader(call, bytes);
    const std::string opType(reader.String());
    const auto row = static_cast<uint32_t>(reader.Int());
    const auto blockDim = static_cast<uint32_t>(reader.Int());
    const auto tilingKey = static_cast<uint64_t>(reader.Int());
    const std::string_view tiling = reader.Blob();
    void* const workspace = reinterpret_cast<void*>(reader.Int());
    const auto workspaceBytes = static_cast<size_t>(reader.Int());
    constexpr uint32_t BEFORE_TENSORS = 7;
    std::vector<TensorView> views(reader.Count() - BEFORE_TENSORS);
    std::vector<MsAscendTensor> tensors(views.size());
    for (size_t i = 0; i < views.size(); ++i) {
        if (!reader.Tensor(views[i])) {
            tensors[i] = {nullptr, nullptr, nullptr, 0};
            continue;
        }
        const TensorView& view = views[i];
        const DataType* const type = TypeOf(view.dtype);
        if (type == nullptr) {
            return {AICORE_EXCEPTION, opType + ": tensor " + std::to_string(i) + " has the aclDataType " +
                                          std::to_string(view.dtype) + ", which no kernel has"};
        }
        const uint64_t address = view.address + static_cast<uint64_t>(view.offset) * type->bytes;
        tensors[i] = {reinterpret_cast<void*>(address), type->name, view.shape.data(),
                      static_cast<int32_t>(view.shape.size())};
    }
    char error[TEXT_BYTES] = "";
    const MsAscendStatus status = runEntry[static_cast<int>(build)](
        opType.c_str(), row, blockDim, tilingKey, tiling.data(), tiling.size(), tensors.data(),
        static_cast<int32_t>(tensors.size()), workspace, workspaceBytes, error, sizeof(error));
    if (status == MS_ASCEND_OK && KeepsShadow() && !hasHooks) {
        for (size_t i = 0; i < views.size(); ++i) {
            NoteWrittenAt(tensors[i].data, BytesOf(views[i]));
        }
    }
    return status == MS_ASCEND_OK ? Failure{} : Failure{VECTOR_CORE_EXCEPTION, opType + ": " + error};
}

}  // namespace device
}  // namespace ms_ascend_ops
