/*!
 * The trace cache runs launches again without their kernel. The instructions of a kernel follow from its tiling and its
 * block, unless it looks at values (scalar reads). So when a core gets the same block of the same launch for the second
 * time, it records the schedules that it runs (schedule.h) and where in the tensors; from the third time on it runs
 * these schedules without the kernel: no call of the Ascend C API is made, no instruction recorded or compared.
 *
 * Launches are the same if all but the addresses of their tensors is. The tensors must not overlap: an address then
 * belongs to one of them, and memory that schedules assume to be separate is.
 */
#ifndef ASCENDC_HOST_RUNTIME_TRACE_CACHE_H
#define ASCENDC_HOST_RUNTIME_TRACE_CACHE_H

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "cube/product.h"
#include "ir/memory.h"
#include "runtime/prefetch.h"
#include "runtime/schedule.h"

namespace AscendC {
namespace host {

constexpr uint32_t MAX_ORIGINS = 288;  // of a schedule

// The schedules of its cores depend on no more of a launch than this.
struct LaunchForm {
    std::string_view key;  // all but addresses
    const Span* tensors;   // all memory that is read or written
    uint32_t tensorCount;
    LoopVariant variant;  // see Schedule::Run

    bool TensorsOverlap() const;
};

// Holds the schedules that one core ran for a launch.
class RecordedLaunch {
public:
    explicit RecordedLaunch(const LaunchForm& launch) : launch_(launch) {}

    void Ran(const std::shared_ptr<Schedule>& schedule, const char* const* gm, const Prefetcher& prefetcher);
    void Wrote(char* ub, const void* value, uint32_t bytes);
    void Multiplied(const Product& product);
    void Waited() { Add({Kind::WAIT, 0, 0}); }
    // From here on the schedules depend on values, so the launch cannot be replayed.
    void Spoil() { good_ = false; }
    bool IsGood() const { return good_; }
    uint64_t Bytes() const { return bytes_; }

    void Replay(const Span* tensors, LoopVariant variant) const;

private:
    static constexpr size_t MAX_SCHEDULES = 64;
    static constexpr uint64_t MAX_BYTES = 1 << 20;

    enum class Kind : uint8_t { SCHEDULE, WRITE, WAIT, PRODUCT };

    struct Step {
        Kind kind;
        uint8_t aheads;  // of the schedule's prefetcher
        uint16_t schedule;
    };
    struct Place {
        uint64_t tensor : 8;
        uint64_t offset : 56;
    };
    struct Ahead {
        Place place;
        Rows rows;
        int64_t step;
    };
    struct Write {
        char* ub;
        uint32_t bytes;
        char value[8];
    };

    // Describes a product, whose matrices lie at `places`.
    struct PlacedProduct {
        Product product;
        Place places[4];  // a, b, c, bias
    };

    void Add(const Step& step);
    bool Find(const char* address, Place& place) const;

    const LaunchForm launch_;  // while it is made
    bool good_ = true;
    uint64_t bytes_ = 0;
    std::vector<Step> steps_;
    // These are operands of the steps, in their order.
    std::vector<std::shared_ptr<Schedule>> schedules_;
    std::vector<Place> places_;  // of a schedule's origins
    std::vector<Ahead> aheads_;
    std::vector<Write> writes_;
    std::vector<PlacedProduct> products_;
};

// Holds the launches of one core.
class TraceCache {
public:
    // Replays the launch on this block if it is recorded. If not, begins to record it the second time.
    bool Replay(const LaunchForm& launch, uint32_t blockIdx);
    // Returns the recording in progress, or null.
    RecordedLaunch* Current() { return current_.get(); }
    // The block has ended well, or not.
    void Keep();
    void Drop() { current_.reset(); }

private:
    static constexpr size_t MAX_LAUNCHES = 256;
    static constexpr uint64_t MAX_BYTES = 4 << 20;

    struct Known {
        std::string key;  // never empty
        uint32_t blockIdx = 0;
        uint64_t used = 0;          // when, the last time
        bool isReplayable = false;  // if not and `recording` is null, it never will
        std::unique_ptr<RecordedLaunch> recording;
    };

    void Evict();

    std::unordered_map<uint64_t, Known> known_;  // by a hash of key and block
    uint64_t now_ = 0;
    uint64_t bytes_ = 0;  // of the recordings
    std::unique_ptr<RecordedLaunch> current_;
    uint64_t currentHash_ = 0;
};

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_RUNTIME_TRACE_CACHE_H
