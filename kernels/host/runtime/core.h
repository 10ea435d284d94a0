/*!
 * Plays one AI core of a launch in a worker thread: it has a Unified Buffer, and the instructions that are recorded but
 * not yet carried out.
 *
 * Deferred execution. Vector instructions and copies are recorded in order; a run of them is a program. A program ends
 * where a result is needed (a scalar read, a barrier between cores, the end of the kernel) and between two tiles:
 * before the first copy in after a copy out. Then it is compiled to a schedule (scheduler.h), which runs (schedule.h).
 *
 * A kernel's loop records the same program again and again, with other addresses in global memory. A core keeps its
 * last programs and compares each instruction with that of the same program before: as long as nothing differs, nothing
 * is recorded or scheduled again.
 *
 * Between two tiles no result is needed, so a program that ends there waits until the next one is complete. Most of its
 * results in the Unified Buffer are overwritten by the next tile: they are not even written (liveness.h).
 */
#ifndef ASCENDC_HOST_RUNTIME_CORE_H
#define ASCENDC_HOST_RUNTIME_CORE_H

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/types.h"
#include "cube/product.h"
#include "ir/instruction.h"
#include "passes/scheduler.h"
#include "runtime/prefetch.h"
#include "runtime/schedule.h"
#include "runtime/trace_cache.h"

namespace AscendC {
namespace host {

// A kernel broke a rule that makes going on impossible: throws Trapped, which ends the launch with this message.
[[noreturn]] void Fail(const char* format, ...) __attribute__((format(printf, 1, 2)));

// A kernel may use this Unified Buffer of one A2 vector core: 192 KiB less the 8 KiB and 256 B CANN keeps.
constexpr uint32_t CHIP_UB_BYTES = 192 * 1024 - 8 * 1024 - 256;

// A core here has such a Unified Buffer. A tile costs some microseconds besides its elements, so twice as much is
// faster (up to a sixth for tiles of one row); four times is not, where tiles no longer fit a cache of 1 MiB.
#if defined(ASCENDC_HOST_OBSERVED)
constexpr uint32_t UB_BYTES = CHIP_UB_BYTES;
#else
constexpr uint32_t UB_BYTES = 2 * CHIP_UB_BYTES;
#endif

// A DataCopy has this shape: `rows` pieces of `rowBytes`, with a stride from one start to the next on either side.
struct CopyShape {
    uint32_t rows;
    uint32_t rowBytes;
    int64_t dstStride;
    int64_t srcStride;
    uint32_t elementBytes;
};

struct MaskState {
    MaskMode mode = MaskMode::NORMAL;
    uint32_t count = 0;  // active lanes (normal) or elements (counter)
};

// A launch has vector cores, some of which share a cube core.
struct Cores {
    uint32_t count = 1;
    uint32_t group = 1;
};

class Core {
public:
    Core();
    ~Core();
    Core(const Core&) = delete;
    Core& operator=(const Core&) = delete;

    // Returns the core that runs on this thread.
    static Core& Current()
    {
        Core* current = t_current;
        return __builtin_expect(current != nullptr, 1) ? *current : Create();
    }

    void Begin(uint32_t blockIdx, Cores cores, bool large, LoopVariant variant);
    // Replays a recorded launch instead of the kernel (trace_cache.h), if there is one. Null: no such launch.
    bool Replay(const LaunchForm* launch) { return launch != nullptr && traceCache_.Replay(*launch, blockIdx_); }
    // Returns the place for the next instruction, as if new: fill it in, then record it with Issue().
    Instruction& Next();
    void Issue() { Take(); }
    // A new tile begins if the last one was written.
    void BeforeCopyIn();
    void CopyIn(char* ub, const char* gm, const CopyShape& shape, Stream* stream);
    void CopyOut(char* gm, const char* ub, const CopyShape& shape);
    // Carries out everything recorded, before a scalar read.
    void Flush();
    // Flushes at the end of a block: the Unified Buffer is not needed any more.
    void Finish();
    // Flushes, and makes every view a copy of its own, so that other cores may change the source.
    void Fence();
    // Fences, and waits for the other cores.
    void Synchronize();
    // Returns where the bytes at this UB address are now; everything recorded has run.
    const char* Read(const char* ub);
    // The bytes of this UB range are not needed any more.
    void Discard(const char* ub, uint32_t bytes);
    // Multiplies matrices in global memory, after everything recorded.
    void Multiply(const Product& product);
    // Says that a scalar write touches this UB range.
    void Write(char* ub, const void* value, uint32_t bytes);

    char* UnifiedBuffer() const { return ub_; }
    uint32_t BlockIdx() const { return blockIdx_; }
    Cores LaunchedCores() const { return cores_; }
    MaskState mask;
    bool atomicAdd = false;  // copies to global memory add floats instead of replacing them

private:
    static constexpr uint32_t MAX_INSTRUCTIONS = 256;  // of a program
    static_assert(Scheduler::MAX_VIEWS + MAX_INSTRUCTIONS <= MAX_ORIGINS, "each may have memory of its own");
    static constexpr uint32_t LONG_PROGRAM = 48;   // ends before the next copy in
    static constexpr uint32_t MAX_PROGRAMS = 256;  // cross entropy of long rows and its gradient take 200
    static constexpr uint32_t MAX_VARIANTS = 4;    // of a program
    static constexpr uint64_t NOBODY = 0;          // the next program is not known
    static constexpr uint64_t END = 1;             // nothing follows
    static constexpr uint64_t FIRST_NUMBER = 2;

    // Says how to run a program if `follower` comes next.
    struct Variant {
        uint64_t follower = NOBODY;
        std::shared_ptr<Schedule> schedule;
    };

    struct Program {
        uint64_t number = NOBODY;
        std::vector<Instruction> instructions;
        std::vector<View> views;  // at its start
        Ranges writtenFirst;      // UB that it writes before it reads it
        std::vector<Variant> variants;
        std::vector<uint64_t> followers;  // programs that came next once
    };

    static Core& Create();
    void Take();
    void Record();
    bool Follow();
    bool SameViews(const Program& program) const;
    bool Starts(const Program& program) const;
    bool Rejoin(const Instruction* next);
    void Leave();
    void CheckOperands() const;
    void Learn();
    const std::shared_ptr<Schedule>& ScheduleFor(Program& program, uint64_t number, const Program* follower);
    void Complete();
    void EndProgram(uint64_t follower);
    void RunWaiting(uint64_t number, const Program* follower);

    char* const ub_;
    uint32_t blockIdx_ = 0;
    Cores cores_;
    bool large_ = false;        // the launch moves more than the caches hold
    LoopVariant variant_;       // of its loops
    bool wrote_ = false;        // the current program has a copy out
    bool goesOn_ = false;       // it goes on with one that was too long
    uint32_t count_ = 0;        // of the instructions of the current program
    Program* known_ = nullptr;  // the known program whose instructions these have been so far; else they are in log_
    uint32_t last_ = 0;         // the last program
    uint32_t beforeLast_ = 0;   // and the one before
    uint8_t next_[MAX_PROGRAMS][MAX_PROGRAMS] =
        {};                // the program that followed these two, [beforeLast_][last_], the last time
    uint32_t oldest_ = 0;  // the program to be replaced next
    uint64_t number_ = FIRST_NUMBER;
    static thread_local Core* t_current;
    Prefetcher prefetcher_;
    Scheduler scheduler_;
    std::vector<View> views_;
    std::vector<Program> programs_;
    Instruction incoming_;
    const char* gm_[MAX_ORIGINS];
    // This program is complete but has not run; with it go the places of its global memory, and the next needs of its
    // tiles.
    Program* waiting_ = nullptr;
    const char* waitingGm_[MAX_ORIGINS];
    Prefetcher waitingPrefetcher_;
    TraceCache traceCache_;
    Instruction log_[MAX_INSTRUCTIONS];
};

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_RUNTIME_CORE_H
