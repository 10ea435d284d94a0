#include "runtime/host_memory.h"

#include <cstdlib>
#include <map>
#include <shared_mutex>

#include "runtime/devices.h"

namespace ms_ascend_ops {
namespace device {
namespace {

constexpr uint64_t ALIGNMENT = 64;
auto& mutex = *new std::shared_mutex;
auto& pinned = *new std::map<uint64_t, uint64_t>;      // begin to end
auto& registered = *new std::map<uint64_t, uint32_t>;  // begin to device

}  // namespace

aclError AllocateHost(void** address, uint64_t bytes)
{
    if (bytes == 0) {
        return Fail(INVALID_PARAM, "aclrtMallocHost: size must not be 0");
    }
    void* const made = bytes > SIZE_MAX - ALIGNMENT
                           ? nullptr
                           : std::aligned_alloc(ALIGNMENT, (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
    if (made == nullptr) {
        return Fail(RT_MEMORY_ALLOCATION,
                    "aclrtMallocHost: the machine has no " + std::to_string(bytes) + " bytes of memory left");
    }
    const auto begin = reinterpret_cast<uint64_t>(made);
    std::lock_guard<std::shared_mutex> lock(mutex);
    pinned[begin] = begin + bytes;
    *address = made;
    return SUCCESS;
}

aclError FreeHost(void* address)
{
    {
        std::lock_guard<std::shared_mutex> lock(mutex);
        if (pinned.erase(reinterpret_cast<uint64_t>(address)) == 0) {
            return Fail(RT_PARAM_INVALID, "aclrtFreeHost: " + Hex(reinterpret_cast<uint64_t>(address)) +
                                              " was not given by aclrtMallocHost, or is freed");
        }
    }
    std::free(address);
    return SUCCESS;
}

bool IsPinned(uint64_t address)
{
    std::shared_lock<std::shared_mutex> lock(mutex);
    const auto next = pinned.upper_bound(address);
    return next != pinned.begin() && address < std::prev(next)->second;
}

aclError RegisterHost(uint32_t device, void* host, uint64_t bytes, void** address)
{
    constexpr uint64_t PAGE = 4096;
    const auto begin = reinterpret_cast<uint64_t>(host);
    if (begin % PAGE != 0 || bytes == 0 || IsDeviceAddress(begin)) {
        return Fail(RT_PARAM_INVALID,
                    "aclrtHostRegister: ptr must be host memory from the beginning of a page of 4096 "
                    "bytes on, and size not 0; got " +
                        std::to_string(bytes) + " bytes at " + Hex(begin));
    }
    if (const aclError error = TheDevices().Memory(device).Register(host, bytes, address)) {
        return error;
    }
    std::lock_guard<std::shared_mutex> lock(mutex);
    registered[begin] = device;
    return SUCCESS;
}

aclError UnregisterHost(void* host)
{
    uint32_t device = 0;
    {
        std::lock_guard<std::shared_mutex> lock(mutex);
        const auto found = registered.find(reinterpret_cast<uint64_t>(host));
        if (found == registered.end()) {
            return Fail(RT_PARAM_INVALID, "aclrtHostUnregister: the memory was not registered (aclrtHostRegister)");
        }
        device = found->second;
        registered.erase(found);
    }
    return TheDevices().Memory(device).Unregister(host);
}

}  // namespace device
}  // namespace ms_ascend_ops
