/*!
 * Where a kernel casts 16-bit values to floats and calculates with those, an instruction can read the 16-bit values
 * instead and cast them in a register: half the bytes, and if all do, nobody needs the floats in memory.
 */
#ifndef ASCENDC_HOST_NARROW_H
#define ASCENDC_HOST_NARROW_H

#include <array>
#include <vector>

#include "instruction.h"
#include "ranges.h"

namespace AscendC {
namespace host {

// What a source operand of floats was cast from; FLOAT: nothing that is still there.
struct NarrowSource {
    ElementType type = ElementType::FLOAT;
    Operand operand;
};

using NarrowSources = std::array<NarrowSource, MAX_OPERANDS>;

// Bytes of the Unified Buffer that instructions from `number` on do not need.
struct Forgotten {
    uint32_t number;
    Span span;
};

// Of each of the instructions, which are in the order of the program, as what was forgotten is.
std::vector<NarrowSources> FindNarrowSources(const std::vector<Instruction>& instructions,
                                             const std::vector<Forgotten>& forgotten);

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_NARROW_H
