/*!
 * Computes the liveness of instructions, and of stores of a loop (fused_loops.h): which of them make data that is read
 * later.
 */
#ifndef ASCENDC_HOST_PASSES_LIVENESS_H
#define ASCENDC_HOST_PASSES_LIVENESS_H

#include <cstdint>
#include <vector>

#include "passes/fused_loops.h"
#include "passes/groups.h"
#include "passes/program_order.h"

namespace AscendC {
namespace host {

// Returns the bytes of the Unified Buffer that these instructions write before they read them: instructions before them
// need not write those.
Ranges WrittenFirst(const Instruction* instructions, uint32_t count);

// Takes instructions out of the groups that write to bytes of the Unified Buffer which no instruction reads; `needed`:
// those that are read later.
void EliminateDeadInstructions(std::vector<Group>& groups, const std::vector<Instruction>& instructions,
                               const ProgramOrder& order, Ranges needed);

// Goes backwards through the loops of a program, and knows the live bytes of the Unified Buffer.
class Liveness {
public:
    // `needed`: when all has run.
    Liveness(const std::vector<Instruction>& instructions, const ProgramOrder& order, const Ranges& needed)
        : instructions_(instructions), order_(order), needed_(needed), killed_(order.killed.size())
    {}

    // Marks the stores that something behind the loop needs, and leaves out what they do not depend on; reads within it
    // are from registers.
    void Pass(FusedLoop& loop);

private:
    void Kill(const FusedLoop& loop);
    void MarkNeeded(FusedLoop& loop) const;

    const std::vector<Instruction>& instructions_;
    const ProgramOrder& order_;
    Ranges needed_;
    size_t killed_;
    uint32_t lowest_ = UINT32_MAX;  // number of an instruction that was passed
};

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_PASSES_LIVENESS_H
