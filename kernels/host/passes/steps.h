/*!
 * From groups of instructions to the steps of a schedule: fused sequences are found, dead stores eliminated.
 */
#ifndef ASCENDC_HOST_PASSES_STEPS_H
#define ASCENDC_HOST_PASSES_STEPS_H

#include <cstdint>
#include <vector>

#include "ir/memory.h"
#include "passes/fused_sequences.h"
#include "passes/groups.h"
#include "passes/narrowing.h"

namespace AscendC {
namespace host {

// Instructions of a group that run together: one, or a fused sequence.
struct Step {
    uint32_t group;
    std::vector<uint32_t> parts;      // the instructions; none: left out
    std::vector<SequenceNode> items;  // of a fused sequence; none: an instruction that cannot be one
    std::vector<uint32_t> partOf;     // of each item: which of the parts
    bool mustFuse;                    // or it could run as the one instruction that it is
};

// The bytes of the Unified Buffer that these instructions write before they read them: whatever ran before need not.
Ranges WrittenFirst(const Instruction* instructions, uint32_t count);

class Steps {
public:
    // The instructions of the groups go to `instructions`, where fused sequences point into. A fused sequence goes on
    // behind steps that do not depend on it.
    void Find(const Groups& groups, std::vector<Instruction>& instructions);
    // Instructions from `number` on, counted as in the groups, do not read the former content of these bytes.
    void Kill(uint32_t number, const Span& span) { killed_.push_back({number, span}); }
    // Eliminates stores to bytes of the Unified Buffer that no instruction reads; `needed`: those that are read later.
    void EliminateDeadStores(Ranges needed, const std::vector<Instruction>& instructions);
    void Clear();

    const std::vector<Step>& List() const { return steps_; }

    // The calls of Kill, in order, and the number of an instruction in the groups.
    uint32_t KilledCount() const { return static_cast<uint32_t>(killed_.size()); }
    const Killed& KilledAt(uint32_t i) const { return killed_[i]; }
    uint32_t NumberOf(uint32_t instruction) const { return numbers_[instruction]; }

private:
    // A step of the group at hand, and its fused sequence, if it is one.
    struct Open {
        std::vector<uint32_t> parts;
        FusedSequence sequence;
    };

    bool ExtendOpen(Instruction& instruction, uint32_t index, const NarrowSources& narrow,
                    const std::vector<Instruction>& instructions);
    bool ExtendOpen(Instruction& instruction, uint32_t index, const NarrowSources& narrow,
                    const std::vector<Instruction>& instructions, bool casts);
    void Close(uint32_t group);
    void EliminateNode(const Step& step, uint32_t number, std::vector<bool>& kept, Ranges& needed) const;
    void EliminateInstruction(Step& step, const Instruction& instruction, Ranges& needed) const;
    void Pass(uint32_t number, Ranges& needed);

    std::vector<Step> steps_;
    std::vector<uint32_t> numbers_;  // of the instructions, in the groups
    std::vector<Killed> killed_;
    uint32_t passed_ = 0;  // of killed_, from its end
    std::vector<Open> open_;
};

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_PASSES_STEPS_H
