/*!
 * Finds fused loops: instructions of a group that compiled code carries out in one pass, with every value in a
 * register.
 *
 * A loop takes all instructions that depend on each other, and those that read the same. Loops are brought into a form
 * without addresses (loop_form.h).
 */
#ifndef ASCENDC_HOST_PASSES_FUSED_LOOPS_H
#define ASCENDC_HOST_PASSES_FUSED_LOOPS_H

#include <cstdint>
#include <vector>

#include "base/types.h"
#include "ir/loop_form.h"
#include "ir/memory.h"
#include "passes/groups.h"
#include "passes/program_order.h"

namespace AscendC {
namespace host {

// A loop over rows: the code of a row has no inner loop.
constexpr uint32_t MAX_ROW_ELEMENTS = 256;

// Does a DataBlock that all rows of so many elements share begin anew with each of them?
constexpr bool BlocksFit(uint32_t elements)
{
    return elements % (ONE_BLK_SIZE / sizeof(float)) == 0;
}

struct LoopOperand {
    Operand memory;
    bool isWritten;
};

struct FusedLoop {
    uint32_t group;
    std::vector<uint32_t> instructions;  // in an order in which they may also run one by one
    std::vector<LoopOperand> operands;
    LoopForm form;  // no values: it cannot be compiled, or would gain nothing
    bool alone;     // it needs nothing of the other loops of the group, nor they of it
};

// Returns every instruction of the groups, in loops, in the order in which they may run. `needed` is the part of the
// Unified Buffer that is read when all has run.
std::vector<FusedLoop> FindFusedLoops(const std::vector<Group>& groups, const std::vector<Instruction>& instructions,
                                      const ProgramOrder& order, const Ranges& needed);

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_PASSES_FUSED_LOOPS_H
