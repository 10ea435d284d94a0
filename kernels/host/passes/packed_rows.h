/*!
 * Sums of packed integers (packed_dots.h) that are scaled and added up, a row at a time, as one instruction on the
 * integers.
 */
#ifndef ASCENDC_HOST_PASSES_PACKED_ROWS_H
#define ASCENDC_HOST_PASSES_PACKED_ROWS_H

#include <cstdint>
#include <vector>

#include "ir/instruction.h"
#include "ir/memory.h"

namespace AscendC {
namespace host {

// Is it that instruction of the vector unit?
bool Does(const Instruction& instruction, Opcode opcode);

// The latest instruction in (after, before) that writes to `span`.
constexpr uint32_t NO_WRITER = UINT32_MAX;
uint32_t WriterOf(const Instruction* instructions, const Span& span, int64_t after, uint32_t before);

// What is done to the sums of which instruction `sum` is the last, as one instruction. `found`: the program with sums
// of packed integers in it. False: that is something else.
bool FindPackedRows(const Instruction* instructions, const std::vector<Instruction>& found, uint32_t sum,
                    Instruction& rows);

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_PASSES_PACKED_ROWS_H
