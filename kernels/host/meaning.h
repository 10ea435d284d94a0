/*!
 * What a recorded instruction does, told by its loop.
 */
#ifndef ASCENDC_HOST_MEANING_H
#define ASCENDC_HOST_MEANING_H

#include "instruction.h"

namespace AscendC {
namespace host {

// Element-wise instructions on floats, casts between them and 16 bits, and copies, where a unit is an element; all
// others are opaque. What type a copy is of is not known.
struct Meaning {
    enum Kind { OPAQUE, BINARY, SCALAR, UNARY, AXPY, CAST, COPY } kind = OPAQUE;
    Opcode opcode = Opcode::ADD;
    Layout layout = Layout::CONTIGUOUS;
    ElementType from = ElementType::FLOAT;
    ElementType to = ElementType::FLOAT;
};

Meaning MeaningOf(const Instruction& instruction);

// The loop that does to the elements of one repeat what `run`, an instruction by repeats, does to many repeats; null:
// there is none.
RunFn ElementRunOf(RunFn run);
// The other way round, for element-wise instructions.
RunFn RepeatRunOf(RunFn run);

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_MEANING_H
