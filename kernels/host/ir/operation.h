/*!
 * Passes ask this about the operation of an instruction.
 */
#ifndef ASCENDC_HOST_IR_OPERATION_H
#define ASCENDC_HOST_IR_OPERATION_H

#include "ir/instruction.h"

namespace AscendC {
namespace host {

// Says how passes treat an instruction: element-wise on floats, a cast between them and 16 bits, or a copy, where a
// iteration is an element; all others are opaque.
enum class OperationKind : uint8_t { OPAQUE, BINARY, SCALAR, UNARY, AXPY, CAST, COPY };
OperationKind KindOf(const Instruction& instruction);
// Returns the kind of arithmetic.
OperationKind KindOf(Opcode arithmetic);

// Returns the operation on elements that calculates the same for one repeat as this one for many; NONE: there is none.
Operation ByElement(const Operation& operation);

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_IR_OPERATION_H
