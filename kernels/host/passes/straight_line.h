/*!
 * Straight-line code: instructions on few elements that follow each other, compiled as one function. Their dispatch,
 * once a row as with the sums of a norm, takes longer than their arithmetic.
 */
#ifndef ASCENDC_HOST_PASSES_STRAIGHT_LINE_H
#define ASCENDC_HOST_PASSES_STRAIGHT_LINE_H

#include <cstdint>
#include <vector>

#include "api/types.h"
#include "ir/instruction.h"

namespace AscendC {
namespace host {

constexpr uint32_t REPEAT_FLOATS = ONE_REPEAT_BYTE_SIZE / sizeof(float);

// An instruction of a straight-line piece. No padding: forms are compared as bytes.
struct SmallStep {
    Opcode opcode;
    uint8_t operands;
    uint16_t index;  // of the first operand in the BoundNodes of the straight-line piece
    uint32_t units;
    uint32_t extent;  // bytes that a unit writes
    int32_t strides[CALLED_OPERANDS];
    uint32_t option;
    float scalar;
};

class StraightLine {
public:
    // The first units of an instruction. False: it has too many elements, or there is no code of its kind; or the
    // straight-line piece is long enough.
    bool Add(const Instruction& instruction, uint32_t units);

    const std::vector<SmallStep>& Steps() const { return steps_; }

private:
    bool AddUnits(const Instruction& instruction, uint32_t units);

    std::vector<SmallStep> steps_;
    uint16_t operands_ = 0;
};

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_PASSES_STRAIGHT_LINE_H
