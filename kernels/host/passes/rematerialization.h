/*!
 * Rematerialization: where a kernel keeps floats that take an instruction or a few to calculate, a later group can
 * calculate them again, in registers. That takes less time than to store and load floats, which are more bytes and,
 * between two groups, leave the L1 data cache. If all readers do, the floats are dead.
 *
 * Two kinds of values are: floats that were cast from 16 bits, wherever those are, and results of a few cheap
 * instructions on global memory.
 */
#ifndef ASCENDC_HOST_PASSES_REMATERIALIZATION_H
#define ASCENDC_HOST_PASSES_REMATERIALIZATION_H

#include <vector>

#include "ir/instruction.h"
#include "ir/memory.h"
#include "passes/groups.h"
#include "passes/program_order.h"

namespace AscendC {
namespace host {

// Readers get the instructions that make such a value for themselves, with the result in `scratch`, which nothing else
// uses.
void Rematerialize(std::vector<Group>& groups, std::vector<Instruction>& instructions, ProgramOrder& order,
                   const Span& scratch);

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_PASSES_REMATERIALIZATION_H
