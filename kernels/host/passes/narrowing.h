/*!
 * Narrowing: where a kernel casts 16-bit values to floats and calculates with those, an instruction can read the 16-bit
 * values instead and cast them in a register. That is half the bytes; if all readers do, the floats are dead stores.
 */
#ifndef ASCENDC_HOST_PASSES_NARROWING_H
#define ASCENDC_HOST_PASSES_NARROWING_H

#include <array>
#include <vector>

#include "ir/instruction.h"
#include "ir/memory.h"

namespace AscendC {
namespace host {

// The 16-bit operand that a source of floats was cast from; FLOAT: there is none any more.
struct NarrowSource {
    ElementType type = ElementType::FLOAT;
    Operand operand;
};

using NarrowSources = std::array<NarrowSource, MAX_OPERANDS>;

// Bytes of the Unified Buffer that instructions from `number` on do not need.
struct Killed {
    uint32_t number;
    Span span;
};

// Of each of the instructions, which are in the order of the program, as `killed` is.
std::vector<NarrowSources> FindNarrowSources(const std::vector<Instruction>& instructions,
                                             const std::vector<Killed>& killed);

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_PASSES_NARROWING_H
