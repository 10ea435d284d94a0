/*!
 * An instruction on few elements, as straight-line code (passes/straight_line.h) has it.
 */
#ifndef ASCENDC_HOST_IR_SMALL_STEP_H
#define ASCENDC_HOST_IR_SMALL_STEP_H

#include "base/types.h"
#include "ir/instruction.h"

namespace AscendC {
namespace host {

constexpr uint32_t REPEAT_FLOATS = ONE_REPEAT_BYTE_SIZE / sizeof(float);

// An instruction of a straight-line piece. No padding: forms are compared as bytes.
struct SmallStep {
    Opcode opcode;
    uint8_t operands;
    uint16_t index;  // of the first operand among those of the straight-line piece
    uint32_t units;
    uint32_t extent;  // bytes that a unit writes
    int32_t strides[CALLED_OPERANDS];
    uint32_t option;
    float scalar;
};

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_IR_SMALL_STEP_H
