/*!
 * Sums over products of floats that were cast from integers of 8 or 4 bits read the integers: the casts and the
 * product are then dead, unless something else reads them.
 */
#ifndef ASCENDC_HOST_PASSES_PACKED_DOTS_H
#define ASCENDC_HOST_PASSES_PACKED_DOTS_H

#include <cstdint>
#include <vector>

#include "ir/instruction.h"

namespace AscendC {
namespace host {

// In a program: WholeReduceSum of a Mul of such floats becomes an instruction on the integers, and those of rows that
// follow each other one. An instruction that became a part of the one before has no units. Where such sums of integers
// are then scaled and added up, a row at a time, that sum becomes an instruction on the integers, too.
std::vector<Instruction> FindPackedDots(const Instruction* instructions, uint32_t count);

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_PASSES_PACKED_DOTS_H
