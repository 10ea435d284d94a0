/*!
 * ACL: memory, copies and sets.
 */
#include <sys/mman.h>

#include <cstdlib>

#include "runtime/acl_api.h"

using namespace ms_ascend_ops::device;

namespace {

enum CopyKind : int32_t {
    HOST_TO_HOST,
    HOST_TO_DEVICE,
    DEVICE_TO_HOST,
    DEVICE_TO_DEVICE,
    ANY_COPY,
    BUFFERED,
    INNER,
    INTER
};

aclError Allocate(const char* function, void** address, size_t bytes)
{
    RETURN_IF_ERROR(CheckPointer(function, "devPtr", address));
    if (bytes == 0) {
        return Fail(INVALID_PARAM, std::string(function) + ": size must not be 0");
    }
    uint32_t device = 0;
    RETURN_IF_ERROR(CurrentDevice(&device));
    return TheDevices().Memory(device).Allocate(address, bytes, 1, function);
}

// A copy of `rows` rows, with each end where its kind says it is.
aclError CheckCopy(const char* function, const CopyCommand& command, uint64_t room, int32_t kind)
{
    const std::string name(function);
    if (command.bytes > room) {
        return Fail(INVALID_PARAM, name + ": " + std::to_string(command.bytes) + " bytes do not fit into the " +
                                       std::to_string(room) + " of the destination");
    }
    RETURN_IF_ERROR(CheckPointer(function, "dst", reinterpret_cast<const void*>(command.destination)));
    RETURN_IF_ERROR(CheckPointer(function, "src", reinterpret_cast<const void*>(command.source)));
    const bool toDevice = IsDeviceAddress(command.destination);
    const bool fromDevice = IsDeviceAddress(command.source);
    const bool wantsToDevice = kind == HOST_TO_DEVICE || kind == DEVICE_TO_DEVICE || kind >= BUFFERED;
    const bool wantsFromDevice = kind == DEVICE_TO_HOST || kind == DEVICE_TO_DEVICE || kind == INNER || kind == INTER;
    if (kind < HOST_TO_HOST || kind > INTER) {
        return Fail(INVALID_PARAM, name + ": kind must be an aclrtMemcpyKind, got " + std::to_string(kind));
    }
    if (kind != ANY_COPY && (toDevice != wantsToDevice || fromDevice != wantsFromDevice)) {
        return Fail(INVALID_PARAM, name + ": kind " + std::to_string(kind) + " copies from " +
                                       (wantsFromDevice ? "device" : "host") + " to " +
                                       (wantsToDevice ? "device" : "host") + ", but the addresses are those of " +
                                       (fromDevice ? "device" : "host") + " and " + (toDevice ? "device" : "host"));
    }
    for (uint64_t row = 0; row < command.rows; ++row) {
        RETURN_IF_ERROR(CheckRange(function, command.destination + row * command.destinationPitch, command.bytes));
        RETURN_IF_ERROR(CheckRange(function, command.source + row * command.sourcePitch, command.bytes));
    }
    return SUCCESS;
}

CopyCommand MakeCopy(void* destination, const void* source, size_t bytes)
{
    CopyCommand command{};
    command.header.kind = CommandKind::COPY;
    command.destination = reinterpret_cast<uint64_t>(destination);
    command.source = reinterpret_cast<uint64_t>(source);
    command.bytes = bytes;
    command.rows = 1;
    return command;
}

aclError RunNow(const CopyCommand& command)
{
    for (uint64_t row = 0; row < command.rows; ++row) {
        RETURN_IF_ERROR(CopyNow(command.destination + row * command.destinationPitch,
                                command.source + row * command.sourcePitch, command.bytes));
    }
    return SUCCESS;
}

aclError Enqueue(CopyCommand command, void* handle)
{
    Stream* stream = nullptr;
    RETURN_IF_ERROR(FindStream(handle, &stream));
    return Submit(stream, &command.header, sizeof(command));
}

CopyCommand MakeCopy2d(void* destination, size_t destinationPitch, const void* source, size_t sourcePitch, size_t width,
                       size_t height)
{
    CopyCommand command = MakeCopy(destination, source, width);
    command.rows = height;
    command.destinationPitch = destinationPitch;
    command.sourcePitch = sourcePitch;
    return command;
}

}  // namespace

ACL_API aclError aclrtMalloc(void** address, size_t bytes, int32_t)
{
    return Allocate("aclrtMalloc", address, bytes);
}

ACL_API aclError aclrtMallocAlign32(void** address, size_t bytes, int32_t)
{
    return Allocate("aclrtMallocAlign32", address, bytes);
}

ACL_API aclError aclrtMallocCached(void** address, size_t bytes, int32_t)
{
    return Allocate("aclrtMallocCached", address, bytes);
}

ACL_API aclError aclrtMallocWithCfg(void** address, size_t bytes, int32_t, void*)
{
    return Allocate("aclrtMallocWithCfg", address, bytes);
}

ACL_API aclError aclrtFree(void* address)
{
    RETURN_IF_ERROR(CheckPointer("aclrtFree", "devPtr", address));
    const auto number = reinterpret_cast<uint64_t>(address);
    if (!IsDeviceAddress(number) || !TheDevices().IsOpen() || DeviceOfAddress(number) >= TheDevices().Count()) {
        return Fail(RT_PARAM_INVALID, "aclrtFree: the address is not a device's");
    }
    return TheDevices().Memory(DeviceOfAddress(number)).Free(address);
}

ACL_API aclError aclrtMallocHost(void** address, size_t bytes)
{
    RETURN_IF_ERROR(CheckPointer("aclrtMallocHost", "hostPtr", address));
    if (bytes == 0) {
        return Fail(INVALID_PARAM, "aclrtMallocHost: size must not be 0");
    }
    constexpr size_t ALIGNMENT = 64;
    *address = bytes > SIZE_MAX - ALIGNMENT
                   ? nullptr
                   : std::aligned_alloc(ALIGNMENT, (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
    return *address != nullptr ? static_cast<aclError>(SUCCESS)
                               : Fail(RT_MEMORY_ALLOCATION, "aclrtMallocHost: no " + std::to_string(bytes) + " bytes");
}

ACL_API aclError aclrtFreeHost(void* address)
{
    RETURN_IF_ERROR(CheckPointer("aclrtFreeHost", "hostPtr", address));
    std::free(address);
    return SUCCESS;
}

ACL_API aclError aclrtGetMemInfo(int32_t, size_t* freeBytes, size_t* totalBytes)
{
    RETURN_IF_ERROR(CheckPointer("aclrtGetMemInfo", "free", freeBytes));
    RETURN_IF_ERROR(CheckPointer("aclrtGetMemInfo", "total", totalBytes));
    uint32_t device = 0;
    RETURN_IF_ERROR(CurrentDevice(&device));
    *freeBytes = TheDevices().Memory(device).FreeBytes();
    *totalBytes = TheDevices().Memory(device).Limit();
    return SUCCESS;
}

ACL_API aclError aclrtMemcpy(void* destination, size_t room, const void* source, size_t bytes, int32_t kind)
{
    const CopyCommand command = MakeCopy(destination, source, bytes);
    RETURN_IF_ERROR(CheckCopy("aclrtMemcpy", command, room, kind));
    return RunNow(command);
}

ACL_API aclError aclrtMemcpyAsync(void* destination, size_t room, const void* source, size_t bytes, int32_t kind,
                                  void* stream)
{
    const CopyCommand command = MakeCopy(destination, source, bytes);
    RETURN_IF_ERROR(CheckCopy("aclrtMemcpyAsync", command, room, kind));
    return Enqueue(command, stream);
}

ACL_API aclError aclrtMemcpy2d(void* destination, size_t destinationPitch, const void* source, size_t sourcePitch,
                               size_t width, size_t height, int32_t kind)
{
    const CopyCommand command = MakeCopy2d(destination, destinationPitch, source, sourcePitch, width, height);
    RETURN_IF_ERROR(CheckCopy("aclrtMemcpy2d", command, destinationPitch, kind));
    return RunNow(command);
}

ACL_API aclError aclrtMemcpy2dAsync(void* destination, size_t destinationPitch, const void* source, size_t sourcePitch,
                                    size_t width, size_t height, int32_t kind, void* stream)
{
    const CopyCommand command = MakeCopy2d(destination, destinationPitch, source, sourcePitch, width, height);
    RETURN_IF_ERROR(CheckCopy("aclrtMemcpy2dAsync", command, destinationPitch, kind));
    return Enqueue(command, stream);
}

ACL_API aclError aclrtMemset(void* address, size_t room, int32_t value, size_t bytes)
{
    const auto number = reinterpret_cast<uint64_t>(address);
    if (bytes > room) {
        return Fail(INVALID_PARAM,
                    "aclrtMemset: " + std::to_string(bytes) + " bytes do not fit into " + std::to_string(room));
    }
    RETURN_IF_ERROR(CheckPointer("aclrtMemset", "devPtr", address));
    RETURN_IF_ERROR(CheckRange("aclrtMemset", number, bytes));
    return FillNow(number, value, bytes);
}

ACL_API aclError aclrtMemsetAsync(void* address, size_t room, int32_t value, size_t bytes, void* handle)
{
    const auto number = reinterpret_cast<uint64_t>(address);
    if (bytes > room) {
        return Fail(INVALID_PARAM,
                    "aclrtMemsetAsync: " + std::to_string(bytes) + " bytes do not fit into " + std::to_string(room));
    }
    RETURN_IF_ERROR(CheckPointer("aclrtMemsetAsync", "devPtr", address));
    if (!IsDeviceAddress(number)) {
        return Fail(INVALID_PARAM, "aclrtMemsetAsync: the address is not a device's");
    }
    RETURN_IF_ERROR(CheckRange("aclrtMemsetAsync", number, bytes));
    Stream* stream = nullptr;
    RETURN_IF_ERROR(FindStream(handle, &stream));
    FillCommand command{{0, CommandKind::FILL, 0, 0}, number, bytes, static_cast<uint64_t>(value)};
    return Submit(stream, &command.header, sizeof(command));
}

ACL_API aclError aclrtReserveMemAddress(void** address, size_t bytes, size_t alignment, void*, uint64_t)
{
    RETURN_IF_ERROR(CheckPointer("aclrtReserveMemAddress", "virPtr", address));
    uint32_t device = 0;
    RETURN_IF_ERROR(CurrentDevice(&device));
    return TheDevices().Memory(device).Reserve(address, bytes, alignment);
}

ACL_API aclError aclrtReleaseMemAddress(void* address)
{
    const auto number = reinterpret_cast<uint64_t>(address);
    if (!IsDeviceAddress(number) || DeviceOfAddress(number) >= TheDevices().Count()) {
        return Fail(RT_PARAM_INVALID, "aclrtReleaseMemAddress: the address is not a device's");
    }
    return TheDevices().Memory(DeviceOfAddress(number)).Release(address);
}

// The device is part of a handle (DeviceMemory::CreatePhysical).
static aclError MemoryOfHandle(const char* function, void* handle, DeviceMemory** memory)
{
    const uint64_t device = (reinterpret_cast<uint64_t>(handle) >> 40) - 1;
    if (device >= TheDevices().Count()) {
        return Fail(RT_INVALID_HANDLE, std::string(function) + ": the handle was not given by aclrtMallocPhysical");
    }
    *memory = &TheDevices().Memory(static_cast<uint32_t>(device));
    return SUCCESS;
}

struct PhysicalMemoryProperties {
    int32_t handleType;
    int32_t allocationType;
    int32_t attribute;
    uint32_t device;
    int32_t location;
    uint64_t reserved;
};

ACL_API aclError aclrtMallocPhysical(void** handle, size_t bytes, const PhysicalMemoryProperties* properties, uint64_t)
{
    RETURN_IF_ERROR(CheckPointer("aclrtMallocPhysical", "handle", handle));
    RETURN_IF_ERROR(CheckPointer("aclrtMallocPhysical", "prop", properties));
    RETURN_IF_ERROR(TheDevices().CheckNumber(properties->device));
    return TheDevices().Memory(properties->device).CreatePhysical(handle, bytes);
}

ACL_API aclError aclrtFreePhysical(void* handle)
{
    DeviceMemory* memory = nullptr;
    RETURN_IF_ERROR(MemoryOfHandle("aclrtFreePhysical", handle, &memory));
    return memory->FreePhysical(handle);
}

ACL_API aclError aclrtMapMem(void* address, size_t bytes, size_t offset, void* handle, uint64_t)
{
    DeviceMemory* memory = nullptr;
    RETURN_IF_ERROR(MemoryOfHandle("aclrtMapMem", handle, &memory));
    return memory->Map(address, bytes, offset, handle);
}

ACL_API aclError aclrtUnmapMem(void* address)
{
    const auto number = reinterpret_cast<uint64_t>(address);
    if (!IsDeviceAddress(number) || DeviceOfAddress(number) >= TheDevices().Count()) {
        return Fail(RT_PARAM_INVALID, "aclrtUnmapMem: the address is not a device's");
    }
    return TheDevices().Memory(DeviceOfAddress(number)).Unmap(address);
}
