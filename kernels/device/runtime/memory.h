/*!
 * The host keeps books of the memory of a device: which addresses are allocated, where in the device's file they are,
 * and the host's own view of that file. The addresses themselves have no rights in the host's process.
 */
#ifndef MS_ASCEND_OPS_DEVICE_RUNTIME_MEMORY_H
#define MS_ASCEND_OPS_DEVICE_RUNTIME_MEMORY_H

#include <cstddef>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "protocol/session.h"
#include "runtime/errors.h"

namespace ms_ascend_ops {
namespace device {

// The files of DeviceMemory share this.
constexpr uint64_t PAGE = 4096;

inline uint64_t RoundUp(uint64_t value, uint64_t step)
{
    return (value + step - 1) / step * step;
}

inline std::string Bytes(uint64_t bytes)
{
    return std::to_string(bytes) + (bytes == 1 ? " byte" : " bytes");
}

template <typename Map>
auto FindBelow(Map& map, uint64_t address)
{
    auto next = map.upper_bound(address);
    return next == map.begin() ? map.end() : std::prev(next);
}

// Extents of a range of numbers that are in use. Freed ones come again as late as possible.
class Extents {
public:
    Extents(uint64_t begin, uint64_t end) : begin_(begin), end_(end), cursor_(begin) {}

    // 0: there is no room.
    uint64_t Take(uint64_t bytes, uint64_t alignment);
    void Give(uint64_t begin) { used_.erase(begin); }

private:
    uint64_t TakeFrom(uint64_t from, uint64_t bytes, uint64_t alignment);

    uint64_t begin_;
    uint64_t end_;
    uint64_t cursor_;
    std::map<uint64_t, uint64_t> used_;  // begin to end
};

struct Allocation {
    uint64_t bytes = 0;   // as requested
    uint64_t mapped = 0;  // in pages
    uint64_t offset = 0;  // in the file
    const char* maker = "";
    void* handle = nullptr;  // the physical memory that is mapped here
    void* host = nullptr;    // the host's memory that is registered here
};

struct PhysicalMemory {
    uint32_t device;
    uint64_t bytes;
    uint64_t offset;
    uint32_t maps = 0;
    bool freed = false;
};

class DeviceMemory {
public:
    DeviceMemory(uint32_t device, uint64_t limit);

    int File() const { return file_; }
    aclError Open();

    aclError Allocate(void** address, uint64_t bytes, uint64_t alignment, const char* maker);
    aclError Free(void* address);
    aclError Reserve(void** address, uint64_t bytes, uint64_t alignment);
    aclError Release(void* address);
    aclError CreatePhysical(void** handle, uint64_t bytes);
    aclError FreePhysical(void* handle);
    aclError Map(void* address, uint64_t bytes, uint64_t offset, void* handle);
    aclError Unmap(void* address);

    // aclrtHostRegister: from now on whole pages of the host are shared with the device, at an address of its own.
    aclError Register(void* host, uint64_t bytes, void** address);
    aclError Unregister(void* host);

    uint64_t Limit() const { return limit_; }
    uint64_t FreeBytes();
    // Returns where the host sees the bytes from `address` on, and how many of `bytes` follow there. Null: `text` says
    // what is wrong with the address.
    uint8_t* View(uint64_t address, uint64_t bytes, uint64_t& follow, std::string& text);
    // Writes to pages of the view that have no memory yet, which is quicker by the file. False: they have, or it
    // failed.
    bool WriteFresh(uint8_t* to, const uint8_t* from, uint64_t bytes) const;
    // "17 bytes behind the 64 bytes of aclrtMalloc at 0x12..."; `tries` does not wait for a lock (in signal handlers).
    std::string Describe(uint64_t address, bool tries = false);
    // Forgets everything; the addresses come again. All contents are lost.
    void Clear();

private:
    std::string DescribeLocked(uint64_t address) const;
    aclError OutOfMemory(const char* maker, uint64_t bytes) const;
    void GiveBack(const Allocation& allocation);
    void Discard(uint64_t offset, uint64_t bytes);

    uint32_t device_;
    uint64_t limit_;
    int file_ = -1;
    uint8_t* view_ = nullptr;
    std::mutex mutex_;
    uint64_t used_ = 0;
    Extents addresses_;
    Extents physical_;
    std::map<uint64_t, Allocation> allocations_;  // that hold memory, by address
    std::map<uint64_t, uint64_t> reserved_;
    std::map<uint64_t, Allocation> freed_;  // the last ones, for messages
    std::map<void*, PhysicalMemory> handles_;
    uintptr_t nextHandle_ = 1;
};

}  // namespace device
}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_DEVICE_RUNTIME_MEMORY_H
