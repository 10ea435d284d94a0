/*!
 * Where a kernel keeps what it has calculated in a few instructions from global memory, a later group can calculate it
 * again: that takes less time than to write and read floats, which are more bytes and, between two groups, leave the
 * first cache. If all readers do, nobody needs the floats in memory.
 */
#ifndef ASCENDC_HOST_RECOMPUTE_H
#define ASCENDC_HOST_RECOMPUTE_H

#include <cstdint>
#include <vector>

#include "instruction.h"
#include "narrow.h"
#include "steps.h"

namespace AscendC {
namespace host {

// `numbers`: where each instruction stood in the program, as what was forgotten is counted.
void Recompute(std::vector<Step>& steps, const std::vector<Instruction>& instructions,
               const std::vector<uint32_t>& numbers, const std::vector<Forgotten>& forgotten);

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_RECOMPUTE_H
