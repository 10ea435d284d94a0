/*!
 * Implements ACL's memory of devices and of the host.
 */
#include "runtime/acl_api.h"
#include "runtime/host_memory.h"

using namespace ms_ascend_ops::device;

namespace {

struct PhysicalMemoryProperties {  // aclrtPhysicalMemProp
    int32_t handleType;
    int32_t allocationType;
    int32_t attribute;
    uint32_t device;
    int32_t location;
    uint64_t reserved;
};

struct PointerAttributes {  // aclrtPtrAttributes
    uint32_t device;
    int32_t location;
    uint32_t pageBytes;
    uint32_t reserved[4];
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

aclError MemoryOfAddress(const char* function, void* address, DeviceMemory** memory)
{
    const auto number = reinterpret_cast<uint64_t>(address);
    if (!IsDeviceAddress(number) || DeviceOfAddress(number) >= TheDevices().Count()) {
        return Fail(RT_PARAM_INVALID, std::string(function) + ": " + Hex(number) + " is not a device's address");
    }
    *memory = &TheDevices().Memory(DeviceOfAddress(number));
    return SUCCESS;
}

// The device is part of a handle (DeviceMemory::CreatePhysical).
aclError MemoryOfHandle(const char* function, void* handle, DeviceMemory** memory)
{
    const uint64_t device = (reinterpret_cast<uint64_t>(handle) >> 40) - 1;
    if (device >= TheDevices().Count()) {
        return Fail(RT_INVALID_HANDLE, std::string(function) + ": the handle was not given by aclrtMallocPhysical");
    }
    *memory = &TheDevices().Memory(static_cast<uint32_t>(device));
    return SUCCESS;
}

}  // namespace

#define ALLOCATES(name, ...)                                         \
    ACL_API aclError name(void** address, size_t bytes, __VA_ARGS__) \
    {                                                                \
        return Allocate(#name, address, bytes);                      \
    }
ALLOCATES(aclrtMalloc, int32_t)
ALLOCATES(aclrtMallocAlign32, int32_t)
ALLOCATES(aclrtMallocCached, int32_t)
ALLOCATES(aclrtMallocWithCfg, int32_t, void*)
ALLOCATES(aclrtMallocForTaskScheduler, int32_t, void*)

ACL_API aclError aclrtFree(void* address)
{
    RETURN_IF_ERROR(CheckPointer("aclrtFree", "devPtr", address));
    DeviceMemory* memory = nullptr;
    RETURN_IF_ERROR(MemoryOfAddress("aclrtFree", address, &memory));
    return memory->Free(address);
}

ACL_API aclError aclrtFreeWithDevSync(void* address)
{
    uint32_t device = 0;
    RETURN_IF_ERROR(CurrentDevice(&device));
    RETURN_IF_ERROR(SynchronizeDevice(device));
    return aclrtFree(address);
}

ACL_API aclError aclrtMallocHost(void** address, size_t bytes)
{
    RETURN_IF_ERROR(CheckPointer("aclrtMallocHost", "hostPtr", address));
    return AllocateHost(address, bytes);
}

ACL_API aclError aclrtMallocHostWithCfg(void** address, uint64_t bytes, void*)
{
    return aclrtMallocHost(address, bytes);
}

ACL_API aclError aclrtFreeHost(void* address)
{
    RETURN_IF_ERROR(CheckPointer("aclrtFreeHost", "hostPtr", address));
    return FreeHost(address);
}

ACL_API aclError aclrtFreeHostWithDevSync(void* address)
{
    uint32_t device = 0;
    RETURN_IF_ERROR(CurrentDevice(&device));
    RETURN_IF_ERROR(SynchronizeDevice(device));
    return aclrtFreeHost(address);
}

ACL_API aclError aclrtHostRegister(void* host, uint64_t bytes, int32_t, void** address)
{
    RETURN_IF_ERROR(CheckPointer("aclrtHostRegister", "devPtr", address));
    uint32_t device = 0;
    RETURN_IF_ERROR(CurrentDevice(&device));
    return RegisterHost(device, host, bytes, address);
}

ACL_API aclError aclrtHostUnregister(void* host)
{
    return UnregisterHost(host);
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

ACL_API aclError aclrtPointerGetAttributes(const void* address, PointerAttributes* attributes)
{
    RETURN_IF_ERROR(CheckPointer("aclrtPointerGetAttributes", "ptr", address));
    RETURN_IF_ERROR(CheckPointer("aclrtPointerGetAttributes", "attributes", attributes));
    const auto number = reinterpret_cast<uint64_t>(address);
    constexpr int32_t UNREGISTERED = 2;
    *attributes = PointerAttributes{};
    if (IsDeviceAddress(number)) {
        attributes->device = DeviceOfAddress(number);
        attributes->location = 1;
        attributes->pageBytes = 4096;
    } else {
        attributes->location = IsPinned(number) ? 0 : UNREGISTERED;
    }
    return SUCCESS;
}

ACL_API aclError aclrtReserveMemAddress(void** address, size_t bytes, size_t alignment, void* wanted, uint64_t)
{
    RETURN_IF_ERROR(CheckPointer("aclrtReserveMemAddress", "virPtr", address));
    if (bytes == 0) {
        return Fail(INVALID_PARAM, "aclrtReserveMemAddress: size must not be 0");
    }
    if (wanted != nullptr) {
        return Fail(RT_FEATURE_NOT_SUPPORT, "aclrtReserveMemAddress: expectPtr must be null");
    }
    uint32_t device = 0;
    RETURN_IF_ERROR(CurrentDevice(&device));
    return TheDevices().Memory(device).Reserve(address, bytes, alignment);
}

ACL_API aclError aclrtReleaseMemAddress(void* address)
{
    DeviceMemory* memory = nullptr;
    RETURN_IF_ERROR(MemoryOfAddress("aclrtReleaseMemAddress", address, &memory));
    return memory->Release(address);
}

ACL_API aclError aclrtMemGetAllocationGranularity(const PhysicalMemoryProperties*, int32_t, size_t* granularity)
{
    RETURN_IF_ERROR(CheckPointer("aclrtMemGetAllocationGranularity", "granularity", granularity));
    *granularity = 2U << 20;
    return SUCCESS;
}

ACL_API aclError aclrtMallocPhysical(void** handle, size_t bytes, const PhysicalMemoryProperties* properties, uint64_t)
{
    RETURN_IF_ERROR(CheckPointer("aclrtMallocPhysical", "handle", handle));
    RETURN_IF_ERROR(CheckPointer("aclrtMallocPhysical", "prop", properties));
    RETURN_IF_ERROR(TheDevices().Open());
    if (bytes == 0) {
        return Fail(INVALID_PARAM, "aclrtMallocPhysical: size must not be 0");
    }
    if (properties->location != 1) {
        return Fail(RT_FEATURE_NOT_SUPPORT, "aclrtMallocPhysical: prop.location.type must be a device");
    }
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
    DeviceMemory* owner = nullptr;
    RETURN_IF_ERROR(MemoryOfAddress("aclrtMapMem", address, &memory));
    RETURN_IF_ERROR(MemoryOfHandle("aclrtMapMem", handle, &owner));
    if (memory != owner) {
        return Fail(RT_FEATURE_NOT_SUPPORT, "aclrtMapMem: the addresses and the physical memory must be of one device");
    }
    return memory->Map(address, bytes, offset, handle);
}

ACL_API aclError aclrtUnmapMem(void* address)
{
    DeviceMemory* memory = nullptr;
    RETURN_IF_ERROR(MemoryOfAddress("aclrtUnmapMem", address, &memory));
    return memory->Unmap(address);
}
