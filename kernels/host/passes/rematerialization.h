/*!
 * Rematerializes casts: where a kernel keeps floats that it has cast from 16 bits, a later group casts the 16 bits
 * again, in registers. Storing and loading floats would take longer: they are more bytes and, between two groups, leave
 * the L1 data cache. If all readers cast again, the floats are dead.
 *
 * Without it, the gradient of softmax and add_layer_norm take a fifth longer. Other instructions were not worth it.
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

// Gives readers of such floats a cast of their own, with its result in `scratch`, which nothing else uses.
void Rematerialize(std::vector<Group>& groups, std::vector<Instruction>& instructions, ProgramOrder& order,
                   const Span& scratch);

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_PASSES_REMATERIALIZATION_H
