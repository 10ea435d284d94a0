/*!
 * A schedule says how the instructions of a program are carried out. Groups of instructions run one after the other; a
 * group runs strip by strip, all its instructions on one strip before the next strip, so that their results are still
 * in the L1 data cache when others read them. A schedule is made once (scheduler.h) and run for every tile of the same
 * form, wherever in global memory it lies.
 */
#ifndef ASCENDC_HOST_RUNTIME_SCHEDULE_H
#define ASCENDC_HOST_RUNTIME_SCHEDULE_H

#include <array>
#include <cstdint>
#include <vector>

#include "ir/instruction.h"
#include "ir/view.h"
#include "jit/loop_code.h"
#include "runtime/prefetch.h"
#include "simd/vector_unit.h"

namespace AscendC {
namespace host {

class Schedule {
public:
    Schedule() = default;
    Schedule(const Schedule&) = delete;  // relocations point into it
    Schedule& operator=(const Schedule&) = delete;
    Schedule(Schedule&&) = default;
    Schedule& operator=(Schedule&&) = default;

    // Returns the origins that addresses of the schedule are in.
    const std::vector<int32_t>& Origins() const { return origins_; }
    uint64_t Bytes() const;
    // `gm`: where the memory of each origin is now. `variant`: of its loops.
    void Run(const char* const* gm, Prefetcher& prefetcher, LoopVariant variant);
    // Is the schedule right for memory that lies there? Nothing may be written that it assumes to be separate.
    bool Fits(const char* const* gm) const;
    // Returns the views that are left at the end, for memory that lies there.
    void EndViews(const char* const* gm, std::vector<View>& views) const;

private:
    friend class Lowering;

    struct Step {
        RunFn run;
        uint32_t instruction;
        uint32_t ratio;  // iterations of this step in an iteration of the group
        // The first step of a loop that could be compiled has these: its code, the first of its bases_, and how many
        // steps it takes the place of.
        LoopCode* code;
        uint32_t bases;
        uint32_t length;
        uint32_t cost;  // of an iteration of that loop
    };

    struct StepGroup {
        uint32_t first;  // of its steps
        uint32_t count;
        uint32_t iterations;
        uint32_t strip;
        // Long rows that are read from memory run round-robin, and so are read in several places at once: this group
        // and those behind it, so many in all, which do not depend on each other.
        uint32_t roundRobin;
        // Bytes that the steps without code touch of an iteration that is a row, and the strip where all other steps
        // have code, which keeps its results in registers: strips need be short only for results that pass between
        // steps.
        uint32_t bytes;
        uint32_t wide;
    };

    // Describes an address in the memory of an origin.
    struct Relocation {
        char** place;  // in instructions_ or bases_
        int32_t origin;
        int64_t offset;
    };

    // Returns how many stretches of memory the loops of this schedule prefetch while it runs: the next tile, and the
    // lines that it will write.
    uint32_t LookAhead(const char* const* gm, const Prefetcher& prefetcher, bool nonTemporal, LoopAhead& ahead) const;
    void RequestLoops(LoopVariant variant);
    LoopFunction FunctionOf(const Step& step, LoopVariant variant) const;
    void RunStep(const Step& step, uint32_t begin, uint32_t end) const;
    void RunGroup(const StepGroup& group, uint32_t count, LoopVariant variant, LoopAhead& ahead, Prefetcher* between);
    void RunLoop(LoopFunction loop, const Step& step, uint32_t begin, uint32_t end, LoopVariant variant,
                 LoopAhead& ahead) const;
    bool IsWide(const StepGroup& group, uint32_t count) const;
    static void PrefetchFor(const Step& step, uint32_t iterations, LoopVariant variant, LoopAhead& ahead);
    bool SplitsLines(const char* const* gm) const;
    static bool Meet(const GmRows& a, const GmRows& b, const char* const* gm);

    std::vector<Instruction> instructions_;  // in the order of the groups
    std::vector<char*> bases_;               // of the operands of loops
    std::vector<Step> steps_;
    std::vector<StepGroup> groups_;
    std::vector<LoopFunction> functions_;  // of the steps of the group that is running
    std::vector<Relocation> relocations_;
    std::vector<int32_t> origins_;  // of relocations_
    std::vector<View> endViews_;
    std::vector<GmRows> reads_;
    std::vector<GmRows> writes_;
    uint64_t cost_ = 0;        // of all loops that code may be there for
    uint32_t stripSteps_ = 0;  // steps of all strips
    uint32_t work_ = 0;        // instructions on STRIP_ELEMENTS
    bool reduces_ = false;     // so it passes over its data again, with the result
    uint64_t workDone_ = 0;    // as long as the code of loops was not requested
    bool hasLoops_ = false;
    std::array<bool, LoopVariant::COUNT> requested_{};  // by variant
};

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_RUNTIME_SCHEDULE_H
