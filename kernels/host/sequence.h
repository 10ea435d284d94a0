/*!
 * Sequences: instructions on few elements that follow each other, as one piece of code. What is done once a row, as
 * with the sums of a norm, takes less time than going about it.
 */
#ifndef ASCENDC_HOST_SEQUENCE_H
#define ASCENDC_HOST_SEQUENCE_H

#include <cstdint>
#include <vector>

#include "instruction.h"

namespace AscendC {
namespace host {

// An instruction of a sequence. No padding: forms are compared as bytes.
struct SmallStep {
    enum class Kind : uint8_t { FILL, COPY, BLOCKS, SUM, LARGEST, BINARY, SCALAR, UNARY };

    Kind kind;
    uint8_t operands;
    uint16_t index;  // of the first operand in the ChainLinks of the sequence
    Opcode opcode;
    uint32_t units;
    uint32_t extent;  // of what a unit writes
    int32_t strides[MAX_OPERANDS];
    uint32_t option;
    float scalar;
};

class Sequence {
public:
    // The first units of an instruction. False: it has too many elements, or there is no code of its kind; or the
    // sequence is long enough.
    bool Add(const Instruction& instruction, uint32_t units);

    const std::vector<SmallStep>& Steps() const { return steps_; }

private:
    bool AddUnits(const Instruction& instruction, uint32_t units);

    std::vector<SmallStep> steps_;
    uint16_t operands_ = 0;
};

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_SEQUENCE_H
