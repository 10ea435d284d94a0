/*!
 * A plan: how the instructions of a program are carried out. Groups of instructions run one after the other; a group
 * runs strip by strip, all its instructions on one strip before the next strip, so that what one writes is still in
 * the L1 cache when another reads it. A plan is made once (planner.h) and run for every tile of the same form, wherever
 * in global memory it lies.
 */
#ifndef ASCENDC_HOST_PLAN_H
#define ASCENDC_HOST_PLAN_H

#include <array>
#include <cstdint>
#include <vector>

#include "instruction.h"
#include "loop_code.h"
#include "prefetch.h"
#include "ranges.h"

namespace AscendC {
namespace host {

// A copy from global memory that was not made: instructions read the source in place, until somebody writes into the
// copy.
struct View {
    Span ub;  // from the first byte to the last valid one
    const char* gm;
    Rows rows;  // in UB
    int64_t gmStride;
    int32_t origin;

    const char* GmEnd() const { return gm + gmStride * (rows.rows - 1) + rows.rowBytes; }
};

class Plan {
public:
    Plan() = default;
    Plan(const Plan&) = delete;  // relocations point into it
    Plan& operator=(const Plan&) = delete;
    Plan(Plan&&) = default;
    Plan& operator=(Plan&&) = default;

    // The origins that addresses of the plan are in.
    const std::vector<int32_t>& Origins() const { return origins_; }
    uint64_t Bytes() const;
    // `gm`: where the memory of each origin is now. `ways`: of its loops.
    void Run(const char* const* gm, Prefetcher& prefetcher, LoopWays ways);
    // Is the plan right for memory that lies there? Nothing may be written that it assumes to be separate.
    bool Fits(const char* const* gm) const;
    // What of `views` was there at the end, for memory that lies there.
    void EndViews(const char* const* gm, std::vector<View>& views) const;

private:
    friend class Planner;

    struct Step {
        bool chain;
        uint32_t first;  // its instruction, or the first of its links_
        uint32_t ratio;  // units of this step in a unit of the group
        // Of the first step of a loop, or a sequence, that could be compiled: its code, the first of its links_, and
        // how many steps it takes the place of. A loop over elements leaves to those what is left at the end.
        LoopCode* code;
        uint32_t links;
        uint32_t length;
        bool byElement;
        uint32_t most;  // units that it does at all
        uint32_t cost;  // of a unit of that loop
    };

    struct StepGroup {
        uint32_t first;  // of its steps
        uint32_t count;
        uint32_t units;
        uint32_t strip;
        // Long rows that are read from memory take turns, and so are read in several places at once: this group and
        // those behind it, so many in all, which have nothing to do with each other.
        uint32_t turns;
        // Bytes that the steps without code touch of a unit that is a row, and the strip where all other steps have
        // code, which keeps what it makes in registers: strips need be short only for what lies between steps.
        uint32_t bytes;
        uint32_t wide;
    };

    // An address in the memory of an origin.
    struct Relocation {
        char** place;  // in instructions_ or links_
        int32_t origin;
        int64_t offset;
    };

    // Rows of global memory.
    struct GmRows {
        int32_t origin;  // where the first one is
        Rows rows;
    };

    // What its loops are to ask for while it runs: the next tile, and the lines that it will write. Returns how many
    // stretches.
    uint32_t LookAhead(const char* const* gm, const Prefetcher& prefetcher, bool streams, LoopAhead& ahead) const;
    void RequestLoops(LoopWays ways);
    LoopFunction FunctionOf(const Step& step, LoopWays ways) const;
    void RunStep(const Step& step, uint32_t begin, uint32_t end) const;
    void RunGroup(const StepGroup& group, uint32_t count, LoopWays ways, LoopAhead& ahead, Prefetcher* between);
    void RunLoop(LoopFunction loop, const Step* steps, uint32_t begin, uint32_t end, LoopWays ways,
                 LoopAhead& ahead) const;
    bool IsWide(const StepGroup& group, uint32_t count) const;
    static void AskFor(const Step& step, uint32_t units, LoopWays ways, LoopAhead& ahead);
    bool SplitsLines(const char* const* gm) const;
    static bool Meet(const GmRows& a, const GmRows& b, const char* const* gm);

    std::vector<Instruction> instructions_;  // in the order of the groups
    std::vector<ChainLink> links_;
    std::vector<Step> steps_;
    std::vector<StepGroup> groups_;
    std::vector<LoopFunction> functions_;  // of the steps of the group that is running
    std::vector<Relocation> relocations_;
    std::vector<int32_t> origins_;  // of relocations_
    std::vector<View> endViews_;
    std::vector<GmRows> reads_;
    std::vector<GmRows> writes_;
    uint64_t cost_ = 0;      // of all loops that code may be there for
    uint32_t turns_ = 0;     // steps of all strips
    uint32_t work_ = 0;      // instructions on STRIP_ELEMENTS
    bool reduces_ = false;   // so it passes over its data again, with the result
    uint64_t workDone_ = 0;  // as long as the code of loops was not asked for
    bool hasLoops_ = false;
    std::array<bool, LoopWays::COUNT> requested_{};  // by ways
};

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_PLAN_H
