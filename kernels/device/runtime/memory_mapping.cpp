/*!
 * Reserves addresses, maps physical memory to them, and registers memory of the host.
 */
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "runtime/copies.h"
#include "runtime/devices.h"
#include "runtime/memory.h"

namespace ms_ascend_ops {
namespace device {

aclError DeviceMemory::Reserve(void** address, uint64_t bytes, uint64_t alignment)
{
    std::lock_guard<std::mutex> lock(mutex_);
    constexpr uint64_t GRANULARITY = 2U << 20;
    const uint64_t begin = addresses_.Take(RoundUp(bytes, PAGE) + PAGE, std::max(alignment, GRANULARITY));
    if (begin == 0) {
        return Fail(RT_MEMORY_ALLOCATION, "aclrtReserveMemAddress: device " + std::to_string(device_) + " has no " +
                                              Bytes(bytes) + " of addresses left");
    }
    reserved_[begin] = begin + RoundUp(bytes, PAGE);
    *address = reinterpret_cast<void*>(begin);
    return SUCCESS;
}

aclError DeviceMemory::Release(void* address)
{
    std::lock_guard<std::mutex> lock(mutex_);
    const auto begin = reinterpret_cast<uint64_t>(address);
    const auto found = reserved_.find(begin);
    if (found == reserved_.end()) {
        return Fail(RT_PARAM_INVALID,
                    "aclrtReleaseMemAddress: " + Hex(begin) + " was not given by aclrtReserveMemAddress");
    }
    const auto mapped = allocations_.lower_bound(begin);
    if (mapped != allocations_.end() && mapped->first < found->second) {
        return Fail(RT_PARAM_INVALID, "aclrtReleaseMemAddress: memory is still mapped to " + Hex(mapped->first));
    }
    reserved_.erase(found);
    addresses_.Give(begin);
    return SUCCESS;
}

aclError DeviceMemory::CreatePhysical(void** handle, uint64_t bytes)
{
    std::lock_guard<std::mutex> lock(mutex_);
    const uint64_t whole = RoundUp(bytes, PAGE);
    const uint64_t offset = bytes > limit_ || used_ + whole > limit_ ? 0 : physical_.Take(whole, PAGE);
    if (offset == 0) {
        return OutOfMemory("aclrtMallocPhysical", bytes);
    }
    used_ += whole;
    *handle = reinterpret_cast<void*>((static_cast<uintptr_t>(device_ + 1) << 40) + 64 * nextHandle_++);
    handles_[*handle] = {device_, whole, offset};
    return SUCCESS;
}

aclError DeviceMemory::FreePhysical(void* handle)
{
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = handles_.find(handle);
    if (found == handles_.end() || found->second.freed) {
        return Fail(RT_INVALID_HANDLE,
                    "aclrtFreePhysical: the handle was not given by aclrtMallocPhysical, or is freed");
    }
    found->second.freed = true;
    if (found->second.maps == 0) {
        Discard(found->second.offset, found->second.bytes);
        used_ -= found->second.bytes;
        physical_.Give(found->second.offset);
        handles_.erase(found);
    }
    return SUCCESS;
}

aclError DeviceMemory::Map(void* address, uint64_t bytes, uint64_t offset, void* handle)
{
    const auto begin = reinterpret_cast<uint64_t>(address);
    ControlRequest request{ControlKind::MAP, 0, 0, device_, begin, RoundUp(bytes, PAGE), 0};
    {
        std::lock_guard<std::mutex> lock(mutex_);
        const auto found = handles_.find(handle);
        const auto range = FindBelow(reserved_, begin);
        if (found == handles_.end() || found->second.freed) {
            return Fail(RT_INVALID_HANDLE, "aclrtMapMem: the handle was not given by aclrtMallocPhysical, or is freed");
        }
        if (range == reserved_.end() || begin + request.bytes > range->second || begin % PAGE != 0) {
            return Fail(RT_PARAM_INVALID, "aclrtMapMem: " + Bytes(bytes) + " at " + Hex(begin) +
                                              " are not inside a range of aclrtReserveMemAddress, in pages of 4096");
        }
        if (offset % PAGE != 0 || offset + request.bytes > found->second.bytes) {
            return Fail(RT_PARAM_INVALID, "aclrtMapMem: " + Bytes(bytes) + " from " + std::to_string(offset) +
                                              " on are not inside the " + Bytes(found->second.bytes) +
                                              " of the physical memory");
        }
        const auto next = allocations_.lower_bound(begin);
        const auto before = FindBelow(allocations_, begin);
        if ((next != allocations_.end() && next->first < begin + request.bytes) ||
            (before != allocations_.end() && before->first + before->second.mapped > begin)) {
            return Fail(RT_PARAM_INVALID, "aclrtMapMem: memory is already mapped to " + Hex(begin));
        }
        ++found->second.maps;
        request.offset = found->second.offset + offset;
        allocations_[begin] = {request.bytes, request.bytes, request.offset, "aclrtMapMem", handle};
    }
    return TheDevices().Control(device_, request);
}

aclError DeviceMemory::Unmap(void* address)
{
    const auto begin = reinterpret_cast<uint64_t>(address);
    uint64_t bytes = 0;
    void* handle = nullptr;
    {
        std::lock_guard<std::mutex> lock(mutex_);
        const auto found = allocations_.find(begin);
        if (found == allocations_.end() || found->second.handle == nullptr) {
            return Fail(RT_PARAM_INVALID, "aclrtUnmapMem: nothing was mapped to " + Hex(begin));
        }
        bytes = found->second.mapped;
        handle = found->second.handle;
        allocations_.erase(found);
    }
    const aclError error = TheDevices().Control(device_, {ControlKind::UNMAP, 0, 0, device_, begin, bytes, 0});
    std::lock_guard<std::mutex> lock(mutex_);
    PhysicalMemory& memory = handles_[handle];
    if (--memory.maps == 0 && memory.freed) {
        Discard(memory.offset, memory.bytes);
        used_ -= memory.bytes;
        physical_.Give(memory.offset);
        handles_.erase(handle);
    }
    return error;
}

aclError DeviceMemory::Register(void* host, uint64_t bytes, void** address)
{
    const uint64_t mapped = RoundUp(bytes, PAGE);
    uint64_t begin = 0;
    uint64_t offset = 0;
    {
        std::lock_guard<std::mutex> lock(mutex_);
        begin = addresses_.Take(mapped + PAGE, PAGE);
        offset = physical_.Take(mapped, PAGE);
        if (begin == 0 || offset == 0) {
            return OutOfMemory("aclrtHostRegister", bytes);
        }
        allocations_[begin] = {bytes, mapped, offset, "aclrtHostRegister", nullptr, host};
    }
    if (const aclError error =
            TheDevices().Control(device_, {ControlKind::MAP, 0, 0, device_, begin, mapped, offset})) {
        return error;
    }
    if (const aclError error = CopyNow(begin, reinterpret_cast<uint64_t>(host), bytes)) {
        return error;
    }
    std::memcpy(view_ + offset + bytes, static_cast<uint8_t*>(host) + bytes, mapped - bytes);  // the rest of its page
    const int flags = MAP_SHARED | MAP_FIXED | MAP_NORESERVE;
    if (mmap(host, mapped, PROT_READ | PROT_WRITE, flags, file_, static_cast<off_t>(offset)) != host) {
        return Fail(RT_INTERNAL_ERROR, std::string("aclrtHostRegister: ") + std::strerror(errno));
    }
    *address = reinterpret_cast<void*>(begin);
    return SUCCESS;
}

// Gives the host pages of its own again, with what the registered ones hold.
void DeviceMemory::GiveBack(const Allocation& allocation)
{
    const uint64_t mapped = allocation.mapped;
    void* const own = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (own != MAP_FAILED) {
        std::memcpy(own, view_ + allocation.offset, mapped);
        mremap(own, mapped, mapped, MREMAP_MAYMOVE | MREMAP_FIXED, allocation.host);
    }
}

aclError DeviceMemory::Unregister(void* host)
{
    uint64_t begin = 0;
    Allocation allocation;
    {
        std::lock_guard<std::mutex> lock(mutex_);
        for (const auto& entry : allocations_) {
            if (entry.second.host == host) {
                begin = entry.first;
                allocation = entry.second;
            }
        }
        if (begin == 0) {
            return Fail(RT_PARAM_INVALID, "aclrtHostUnregister: the memory was not registered (aclrtHostRegister)");
        }
        allocations_.erase(begin);
        freed_[begin] = allocation;
    }
    const uint64_t mapped = allocation.mapped;
    const aclError error = TheDevices().Control(device_, {ControlKind::UNMAP, 0, 0, device_, begin, mapped, 0});
    GiveBack(allocation);
    std::lock_guard<std::mutex> lock(mutex_);
    Discard(allocation.offset, mapped);
    physical_.Give(allocation.offset);
    addresses_.Give(begin);
    return error;
}

}  // namespace device
}  // namespace ms_ascend_ops
