#include "runtime/memory.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "runtime/copies.h"
#include "runtime/devices.h"
#include "runtime/settings.h"

namespace ms_ascend_ops {
namespace device {

constexpr uint64_t MAX_FREED = 4096;  // that are remembered for messages

uint64_t Extents::Take(uint64_t bytes, uint64_t alignment)
{
    uint64_t begin = TakeFrom(cursor_, bytes, alignment);
    if (begin == 0) {
        begin = TakeFrom(begin_, bytes, alignment);
    }
    if (begin != 0) {
        used_[begin] = begin + bytes;
        cursor_ = begin + bytes;
    }
    return begin;
}

uint64_t Extents::TakeFrom(uint64_t from, uint64_t bytes, uint64_t alignment)
{
    const auto below = FindBelow(used_, from);
    uint64_t at = RoundUp(below == used_.end() ? from : std::max(from, below->second), alignment);
    for (auto next = used_.lower_bound(at); next != used_.end() && next->first < at + bytes; ++next) {
        at = RoundUp(next->second, alignment);
    }
    return at + bytes <= end_ && at + bytes >= at ? at : 0;
}

// A page between allocations stays without memory.
DeviceMemory::DeviceMemory(uint32_t device, uint64_t limit)
    : device_(device),
      limit_(limit),
      addresses_(MemoryBase(device) + PAGE, MemoryBase(device) + MEMORY_SPAN),
      physical_(MEMORY_SPAN, 2 * MEMORY_SPAN)
{}

aclError DeviceMemory::Open()
{
    file_ = memfd_create("ascend_device_memory", MFD_CLOEXEC);
    void* const base = reinterpret_cast<void*>(MemoryBase(device_));
    const int reserve = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
    const uint64_t viewed = TheSettings().checks ? SHADOW_OFFSET + FILE_BYTES : FILE_BYTES;
    if (file_ < 0 || ftruncate(file_, static_cast<off_t>(viewed)) != 0 ||
        mmap(base, MEMORY_SPAN, PROT_NONE, reserve, -1, 0) != base) {
        return Fail(RT_DEV_SETUP_ERROR, "the addresses of device " + std::to_string(device_) +
                                            "'s memory cannot be reserved: " + std::strerror(errno));
    }
    void* const view = mmap(nullptr, viewed, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file_, 0);
    if (view == MAP_FAILED) {
        return Fail(RT_DEV_SETUP_ERROR,
                    "the memory of device " + std::to_string(device_) + " cannot be mapped: " + std::strerror(errno));
    }
    madvise(view, viewed, MADV_DONTFORK);
    madvise(view, viewed, MADV_DONTDUMP);
    view_ = static_cast<uint8_t*>(view);
    return SUCCESS;
}

aclError DeviceMemory::OutOfMemory(const char* maker, uint64_t bytes) const
{
    return Fail(RT_MEMORY_ALLOCATION, std::string(maker) + ": out of memory: device " + std::to_string(device_) +
                                          " has " + Bytes(limit_) + ", of which " + std::to_string(used_) +
                                          " are in use; " + std::to_string(bytes) + " more were requested");
}

aclError DeviceMemory::Allocate(void** address, uint64_t bytes, uint64_t alignment, const char* maker)
{
    const uint64_t mapped = RoundUp(bytes, PAGE);
    uint64_t begin = 0;
    {
        std::lock_guard<std::mutex> lock(mutex_);
        if (bytes > limit_ || used_ + mapped > limit_) {
            return OutOfMemory(maker, bytes);
        }
        begin = addresses_.Take(mapped + PAGE, std::max(alignment, PAGE));
        if (begin == 0) {
            return OutOfMemory(maker, bytes);
        }
        used_ += mapped;
        allocations_[begin] = {bytes, mapped, begin - MemoryBase(device_), maker, nullptr};
        freed_.erase(freed_.lower_bound(begin), freed_.lower_bound(begin + mapped));
    }
    *address = reinterpret_cast<void*>(begin);
    return TheDevices().Control(device_, {ControlKind::MAP, 0, 0, device_, begin, mapped, begin - MemoryBase(device_)});
}

void DeviceMemory::Discard(uint64_t offset, uint64_t bytes)
{
    const int mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
    fallocate(file_, mode, static_cast<off_t>(offset), static_cast<off_t>(bytes));
    if (TheSettings().checks) {
        fallocate(file_, mode, static_cast<off_t>(SHADOW_OFFSET + offset), static_cast<off_t>(bytes));
    }
}

aclError DeviceMemory::Free(void* address)
{
    const auto begin = reinterpret_cast<uint64_t>(address);
    Allocation allocation;
    {
        std::lock_guard<std::mutex> lock(mutex_);
        const auto found = allocations_.find(begin);
        if (found == allocations_.end() || found->second.handle != nullptr || found->second.host != nullptr) {
            return Fail(RT_PARAM_INVALID, "aclrtFree: " + Hex(begin) + " is " + DescribeLocked(begin));
        }
        allocation = found->second;
        allocations_.erase(found);
        if (freed_.size() >= MAX_FREED) {
            freed_.erase(freed_.begin());
        }
        freed_[begin] = allocation;
    }
    const aclError error =
        TheDevices().Control(device_, {ControlKind::UNMAP, 0, 0, device_, begin, allocation.mapped, 0});
    std::lock_guard<std::mutex> lock(mutex_);
    Discard(allocation.offset, allocation.mapped);
    used_ -= allocation.mapped;
    addresses_.Give(begin);
    return error;
}

uint64_t DeviceMemory::FreeBytes()
{
    std::lock_guard<std::mutex> lock(mutex_);
    return limit_ - used_;
}

uint8_t* DeviceMemory::View(uint64_t address, uint64_t bytes, uint64_t& follow, std::string& text)
{
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = FindBelow(allocations_, address);
    if (found == allocations_.end() || address - found->first >= found->second.bytes) {
        text = Hex(address) + " is " + DescribeLocked(address);
        return nullptr;
    }
    const uint64_t inside = address - found->first;
    follow = std::min(bytes, found->second.bytes - inside);
    // Neighbours may be one reserved range that was mapped piece by piece.
    if (follow < bytes && found->second.handle == nullptr) {
        text = Bytes(bytes) + " from " + Hex(address) + " on go " + Bytes(bytes - follow) + " past the " +
               Bytes(found->second.bytes) + " that " + found->second.maker + " gave at " + Hex(found->first);
        return nullptr;
    }
    return view_ + found->second.offset + inside;
}

bool DeviceMemory::WriteFresh(uint8_t* to, const uint8_t* from, uint64_t bytes) const
{
    unsigned char there = 1;
    uint8_t* const page = to - reinterpret_cast<uint64_t>(to) % PAGE;
    if (mincore(page, PAGE, &there) != 0 || there != 0) {
        return false;
    }
    for (uint64_t done = 0; done < bytes;) {
        const ssize_t written = pwrite(file_, from + done, bytes - done, to + done - view_);
        if (written <= 0) {
            return false;
        }
        done += static_cast<uint64_t>(written);
    }
    return true;
}

std::string DeviceMemory::Describe(uint64_t address, bool tries)
{
    std::unique_lock<std::mutex> lock(mutex_, std::defer_lock);
    if (tries ? !lock.try_lock() : (lock.lock(), false)) {
        return "memory of device " + std::to_string(device_);
    }
    return DescribeLocked(address);
}

std::string DeviceMemory::DescribeLocked(uint64_t address) const
{
    const std::string ofDevice = " (device " + std::to_string(device_) + ")";
    const auto found = FindBelow(allocations_, address);
    if (found != allocations_.end() && address - found->first < found->second.bytes) {
        return Bytes(address - found->first) + " into the " + Bytes(found->second.bytes) + " that " +
               found->second.maker + " gave at " + Hex(found->first) + ofDevice;
    }
    const auto freed = FindBelow(freed_, address);
    if (freed != freed_.end() && address - freed->first < freed->second.mapped) {
        return "memory that was freed: " + Bytes(address - freed->first) + " into the " + Bytes(freed->second.bytes) +
               " that " + freed->second.maker + " gave at " + Hex(freed->first) + ofDevice;
    }
    const auto range = FindBelow(reserved_, address);
    if (range != reserved_.end() && address < range->second) {
        return "an address that aclrtReserveMemAddress gave, with no memory mapped to it" + ofDevice;
    }
    if (found != allocations_.end()) {
        return Bytes(address - found->first - found->second.bytes) + " behind the end of the " +
               Bytes(found->second.bytes) + " that " + found->second.maker + " gave at " + Hex(found->first) + ofDevice;
    }
    return "no memory that was allocated" + ofDevice;
}

void DeviceMemory::Clear()
{
    std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& entry : allocations_) {
        if (entry.second.host != nullptr) {
            GiveBack(entry.second);
            physical_.Give(entry.second.offset);
        }
        freed_[entry.first] = entry.second;
        addresses_.Give(entry.first);
    }
    for (const auto& entry : reserved_) {
        addresses_.Give(entry.first);
    }
    for (const auto& entry : handles_) {
        physical_.Give(entry.second.offset);
    }
    allocations_.clear();
    reserved_.clear();
    handles_.clear();
    used_ = 0;
    Discard(0, FILE_BYTES);
}

}  // namespace device
}  // namespace ms_ascend_ops
