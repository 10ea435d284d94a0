/*!
 * Rematerialization: where a kernel keeps a value that takes a few instructions to calculate from global memory, a
 * later group can calculate it again. That takes less time than to store and load floats, which are more bytes and,
 * between two groups, leave the L1 data cache. If all readers do, the floats are dead stores.
 */
#ifndef ASCENDC_HOST_PASSES_REMATERIALIZATION_H
#define ASCENDC_HOST_PASSES_REMATERIALIZATION_H

#include <cstdint>
#include <vector>

#include "ir/instruction.h"
#include "passes/narrowing.h"
#include "passes/steps.h"

namespace AscendC {
namespace host {

// `numbers`: where each instruction stood in the program, as in `killed`.
void Rematerialize(std::vector<Step>& steps, const std::vector<Instruction>& instructions,
                   const std::vector<uint32_t>& numbers, const std::vector<Killed>& killed);

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_PASSES_REMATERIALIZATION_H
