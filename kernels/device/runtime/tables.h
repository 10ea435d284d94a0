/*!
 * Keeps tables of the objects that handles stand for. A handle is the address of an entry, and entries never go away,
 * so that a handle that is no longer good is found to be that.
 */
#ifndef MS_ASCEND_OPS_DEVICE_RUNTIME_TABLES_H
#define MS_ASCEND_OPS_DEVICE_RUNTIME_TABLES_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace ms_ascend_ops {
namespace device {

template <typename T, size_t COUNT>
class Table {
public:
    // Returns null if the handle is no entry, or none in use.
    T* Find(void* handle)
    {
        const auto offset = static_cast<size_t>(static_cast<char*>(handle) - reinterpret_cast<char*>(entries_.data()));
        const bool inside = offset < sizeof(entries_) && offset % sizeof(T) == 0;
        return inside && entries_[offset / sizeof(T)].used ? &entries_[offset / sizeof(T)] : nullptr;
    }
    // Null: all are in use. An entry that was freed comes again as late as possible.
    T* Take()
    {
        std::lock_guard<std::mutex> lock(mutex_);
        for (size_t tried = 0; tried < COUNT; ++tried) {
            T& entry = entries_[next_++ % COUNT];
            if (!entry.used) {
                entry.used = true;
                return &entry;
            }
        }
        return nullptr;
    }
    uint32_t NumberOf(const T* entry) const { return static_cast<uint32_t>(entry - entries_.data()); }
    std::array<T, COUNT>& Entries() { return entries_; }

private:
    std::array<T, COUNT> entries_;
    size_t next_ = 0;
    std::mutex mutex_;
};

}  // namespace device
}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_DEVICE_RUNTIME_TABLES_H
