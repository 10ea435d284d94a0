/*!
 * The operation of a recorded instruction: its opcode, layout and types, told by its loop.
 */
#ifndef ASCENDC_HOST_IR_OPERATION_H
#define ASCENDC_HOST_IR_OPERATION_H

#include "ir/instruction.h"

namespace AscendC {
namespace host {

// Element-wise instructions on floats, casts between them and 16 bits, and copies, where a unit is an element; all
// others are opaque. The type of a copy is not known.
struct Operation {
    enum Kind { OPAQUE, BINARY, SCALAR, UNARY, AXPY, CAST, COPY } kind = OPAQUE;
    Opcode opcode = Opcode::ADD;
    Layout layout = Layout::CONTIGUOUS;
    ElementType from = ElementType::FLOAT;
    ElementType to = ElementType::FLOAT;
};

Operation OperationOf(const Instruction& instruction);

// The loop over elements that calculates the same for one repeat as `run` for many; null: there is none.
RunFn ElementRunOf(RunFn run);
// The other way round, for element-wise instructions.
RunFn RepeatRunOf(RunFn run);

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_IR_OPERATION_H
