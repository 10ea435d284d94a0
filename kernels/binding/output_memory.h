/*!
 * Allocates memory for results. All but small blocks are kept when their tensor dies, for the next result of that size:
 * a page that is fresh from the system costs about as much as moving its bytes, and malloc takes its time for what is
 * aligned.
 */
#ifndef MS_ASCEND_OPS_BINDING_OUTPUT_MEMORY_H
#define MS_ASCEND_OPS_BINDING_OUTPUT_MEMORY_H

#include <sys/mman.h>

#include <cstdlib>
#include <new>
#include <unordered_map>
#include <vector>

namespace ms_ascend_ops::binding {

// The interpreter's lock guards it: blocks are taken and given back by Python's objects.
class OutputMemory {
public:
    static OutputMemory& Get()
    {
        static auto* memory = new OutputMemory;  // never destroyed: tensors may outlive the module
        return *memory;
    }

    void* Take(size_t bytes)
    {
        const auto found = free_.find(Rounded(bytes));
        if (found != free_.end() && !found->second.empty()) {
            void* block = found->second.back();
            found->second.pop_back();
            kept_ -= found->first;
            return block;
        }
        void* block = std::aligned_alloc(bytes >= HUGE_PAGE ? HUGE_PAGE : CACHE_LINE, Rounded(bytes));
        if (block == nullptr) {
            throw std::bad_alloc();
        }
        if (bytes >= HUGE_PAGE) {
            madvise(block, Rounded(bytes), MADV_HUGEPAGE);  // a wish
        }
        return block;
    }

    void GiveBack(void* block, size_t bytes)
    {
        const size_t size = Rounded(bytes);
        if (size < SMALLEST_KEPT || kept_ + size > MOST_KEPT) {
            std::free(block);
            return;
        }
        free_[size].push_back(block);
        kept_ += size;
    }

private:
    static constexpr size_t CACHE_LINE = 64;
    static constexpr size_t HUGE_PAGE = 2 << 20;
    static constexpr size_t COARSE = 64 << 10;
    static constexpr size_t SMALLEST_KEPT = 1 << 10;  // malloc keeps smaller ones itself
    static constexpr size_t MOST_KEPT = 512 << 20;

    // Sizes are rounded up to a cache line, 64 KiB or 2 MiB, so that sizes that differ little share their blocks.
    static size_t Rounded(size_t bytes)
    {
        const size_t step = bytes < COARSE ? CACHE_LINE : (bytes < HUGE_PAGE ? COARSE : HUGE_PAGE);
        return (bytes + step - 1) / step * step;
    }

    std::unordered_map<size_t, std::vector<void*>> free_;
    size_t kept_ = 0;
};

}  // namespace ms_ascend_ops::binding

#endif  // MS_ASCEND_OPS_BINDING_OUTPUT_MEMORY_H
