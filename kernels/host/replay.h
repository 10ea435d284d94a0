/*!
 * Replays launches. What a kernel asks for follows from its tiling and its block, unless it looks at values (scalar
 * reads). So when a core gets the same block of the same launch for the second time, it notes down which plans it runs
 * (plan.h) and where in the tensors; from the third time on it runs these plans without the kernel: no call of the
 * Ascend C API is made, no request recorded or compared.
 *
 * Launches are the same if all but the addresses of their tensors is. The tensors must not overlap: an address then
 * belongs to one of them, and what plans assume to be separate is.
 */
#ifndef ASCENDC_HOST_REPLAY_H
#define ASCENDC_HOST_REPLAY_H

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "plan.h"
#include "prefetch.h"
#include "ranges.h"

namespace AscendC {
namespace host {

constexpr uint32_t MAX_ORIGINS = 288;  // of a plan

// A launch, as far as it matters to what its cores run.
struct LaunchForm {
    std::string_view key;  // all but addresses
    const Span* tensors;   // all memory that is read or written
    uint32_t tensorCount;
    LoopWays ways;  // see Plan::Run

    bool TensorsOverlap() const;
};

// What one core ran.
class Recording {
public:
    explicit Recording(const LaunchForm& launch) : launch_(launch) {}

    void Ran(const std::shared_ptr<Plan>& plan, const char* const* gm, const Prefetcher& prefetcher);
    void Wrote(char* ub, const void* value, uint32_t bytes);
    void Waited() { Add({Kind::WAIT, 0, 0}); }
    // What follows depends on values.
    void Spoil() { good_ = false; }
    bool IsGood() const { return good_; }
    uint64_t Bytes() const { return bytes_; }

    void Replay(const Span* tensors, LoopWays ways) const;

private:
    static constexpr size_t MAX_PLANS = 64;
    static constexpr uint64_t MAX_BYTES = 1 << 20;

    enum class Kind : uint8_t { PLAN, WRITE, WAIT };

    struct Step {
        Kind kind;
        uint8_t aheads;  // of the plan's prefetcher
        uint16_t plan;
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

    void Add(const Step& step);
    bool Find(const char* address, Place& place) const;

    const LaunchForm launch_;  // while it is made
    bool good_ = true;
    uint64_t bytes_ = 0;
    std::vector<Step> steps_;
    // What steps need, in their order.
    std::vector<std::shared_ptr<Plan>> plans_;
    std::vector<Place> places_;  // of a plan's origins
    std::vector<Ahead> aheads_;
    std::vector<Write> writes_;
};

// The launches of one core.
class Replays {
public:
    // Replays the launch on this block if that has been noted down. If not, begins to do so the second time it comes.
    bool Replay(const LaunchForm& launch, uint32_t blockIdx);
    // What is being noted down now, or null.
    Recording* Current() { return current_.get(); }
    // The block has ended well, or not.
    void Keep();
    void Drop() { current_.reset(); }

private:
    static constexpr size_t MAX_LAUNCHES = 256;
    static constexpr uint64_t MAX_BYTES = 4 << 20;

    struct Known {
        std::string key;  // never empty
        uint32_t blockIdx = 0;
        uint64_t used = 0;     // when, the last time
        bool replays = false;  // if not and `recording` is null, it never will
        std::unique_ptr<Recording> recording;
    };

    void Forget();

    std::unordered_map<uint64_t, Known> known_;  // by a hash of key and block
    uint64_t now_ = 0;
    uint64_t bytes_ = 0;  // of the recordings
    std::unique_ptr<Recording> current_;
    uint64_t currentHash_ = 0;
};

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_REPLAY_H
