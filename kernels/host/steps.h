/*!
 * From groups of instructions to what a plan runs: chains are found, and what nobody will read is left out.
 */
#ifndef ASCENDC_HOST_STEPS_H
#define ASCENDC_HOST_STEPS_H

#include <cstdint>
#include <vector>

#include "chains.h"
#include "groups.h"
#include "narrow.h"
#include "ranges.h"

namespace AscendC {
namespace host {

// Instructions of a group that run together: one, or a chain.
struct Step {
    uint32_t group;
    std::vector<uint32_t> parts;   // the instructions; none: left out
    std::vector<ChainItem> items;  // of a chain; none: an instruction that cannot be one
    std::vector<uint32_t> partOf;  // of each item: which of the parts
    bool mustChain;                // or it could run as the one instruction that it is
    uint32_t units = UINT32_MAX;   // of the instruction, as long as it is not part of a loop: nobody reads more
};

inline bool Loads(Link link)
{
    return link == Link::LOAD_FLOAT || link == Link::LOAD_HALF || link == Link::LOAD_BFLOAT16;
}

inline bool Stores(Link link)
{
    return link == Link::STORE_FLOAT || link == Link::STORE_HALF || link == Link::STORE_BFLOAT16 ||
           link == Link::CAST_BFLOAT16;
}

inline bool Collects(Link link)
{
    return link == Link::SUM || link == Link::LARGEST || link == Link::SMALLEST;
}

// The bytes of the Unified Buffer that these requests write before they read them: whatever ran before need not.
Ranges WrittenFirst(const Instruction* requests, uint32_t count);

class Steps {
public:
    // The instructions of the groups go to `instructions`, where chains point into. A chain goes on behind steps that
    // have nothing to do with what it goes on with.
    void Find(const Groups& groups, std::vector<Instruction>& instructions);
    // Instructions from `number` on, counted as in the groups, do not need what these bytes held before.
    void Forget(uint32_t number, const Span& span) { forgotten_.push_back({number, span}); }
    // Leaves out what is written to bytes of the Unified Buffer that nobody reads, `needed` those that somebody will
    // read when all has run.
    void LeaveOut(Ranges needed, const std::vector<Instruction>& instructions);
    void Clear();

    const std::vector<Step>& List() const { return steps_; }

    // What Forget was told, in order, and where an instruction stood in the groups.
    uint32_t ForgottenCount() const { return static_cast<uint32_t>(forgotten_.size()); }
    const Forgotten& ForgottenAt(uint32_t i) const { return forgotten_[i]; }
    uint32_t NumberOf(uint32_t instruction) const { return numbers_[instruction]; }

private:
    // A step of the group at hand, and its chain, if it is one.
    struct Open {
        std::vector<uint32_t> parts;
        Chain chain;
    };

    bool ExtendOpen(Instruction& instruction, uint32_t index, const NarrowSources& narrow,
                    const std::vector<Instruction>& instructions);
    bool ExtendOpen(Instruction& instruction, uint32_t index, const NarrowSources& narrow,
                    const std::vector<Instruction>& instructions, bool casts);
    void Close(uint32_t group);
    void LeaveOutItem(Step& step, uint32_t number, const Instruction& first, std::vector<bool>& kept,
                      Ranges& needed) const;
    void LeaveOutInstruction(Step& step, const Instruction& instruction, Ranges& needed) const;
    void Pass(uint32_t number, Ranges& needed);

    std::vector<Step> steps_;
    std::vector<uint32_t> numbers_;  // of the instructions, in the groups
    std::vector<Forgotten> forgotten_;
    uint32_t passed_ = 0;  // of forgotten_, from its end
    std::vector<Open> open_;
};

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_STEPS_H
