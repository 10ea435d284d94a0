/*!
 * Fused loops: steps of a group that compiled code carries out in one pass, with every value in a register.
 *
 * A fused sequence (fused_sequences.h) keeps one value in registers, and reads the results of other sequences from
 * memory. A fused loop takes all sequences that depend on each other, and likewise instructions on the same short rows,
 * which are in no sequence. Here loops are found, and brought into a form without addresses (loop_form.h).
 */
#ifndef ASCENDC_HOST_PASSES_FUSED_LOOPS_H
#define ASCENDC_HOST_PASSES_FUSED_LOOPS_H

#include <cstdint>
#include <vector>

#include "api/types.h"
#include "ir/loop_form.h"
#include "ir/memory.h"
#include "passes/groups.h"
#include "passes/steps.h"

namespace AscendC {
namespace host {

// A loop over elements takes so many at a time, and leaves the rest to the fused sequences.
constexpr uint32_t LOOP_ELEMENTS = 128;

// A loop over rows: the code of a row has no inner loop.
constexpr uint32_t MAX_ROW_ELEMENTS = 256;

// Does a DataBlock that all rows of so many elements share begin anew with each of them?
constexpr bool BlocksFit(uint32_t elements)
{
    return elements % (ONE_BLK_SIZE / sizeof(float)) == 0;
}

struct FusedLoop {
    std::vector<uint32_t> steps;
    std::vector<std::vector<SequenceNode>> items;  // of each step; none: an instruction that no code can be made of
    LoopForm form;                                 // no nodes: it cannot be compiled, or would gain nothing
    bool alone;                                    // it needs nothing of the other loops of the group, nor they of it
};

// Every step that is not left out, in the order in which they may run. `needed`: as for Steps::EliminateDeadStores,
// which has run.
std::vector<FusedLoop> FindFusedLoops(const Steps& steps, const Groups& groups,
                                      const std::vector<Instruction>& instructions, const Ranges& needed);

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_PASSES_FUSED_LOOPS_H
