#include "passes/straight_line.h"

#include "base/types.h"
#include "ir/operation.h"

namespace AscendC {
namespace host {

static_assert(sizeof(SmallStep) == 32, "forms are compared as bytes: no padding");

namespace {

bool Calculates(Opcode opcode)
{
    return opcode <= Opcode::AXPY;
}

// Is there code for such instructions?
bool IsKnown(const Instruction& instruction)
{
    const Operation& operation = instruction.operation;
    if (operation.from != ElementType::FLOAT || operation.layout != Layout::CONTIGUOUS) {
        return false;
    }
    switch (operation.opcode) {
        case Opcode::COPY:
        case Opcode::FILL:
        case Opcode::BROADCAST_BLOCK:
            return true;
        case Opcode::REDUCE_SUM:
        case Opcode::REDUCE_MAX:
            return instruction.lanes == REPEAT_FLOATS;
        default:
            return operation.opcode < Opcode::AXPY;
    }
}

}  // namespace

bool StraightLine::Add(const Instruction& instruction, uint32_t units)
{
    const Operation byElement = units == 1 ? ByElement(instruction.operation) : Operation{};
    if (byElement == Operation{}) {
        return AddUnits(instruction, units);
    }
    Instruction elements = instruction;  // one repeat
    elements.operation = byElement;
    elements.lanes = 1;
    for (uint32_t i = 0; i < elements.operandCount; ++i) {
        elements.operands[i].extent /= instruction.lanes;
        elements.operands[i].stride = elements.operands[i].extent;
    }
    return AddUnits(elements, instruction.lanes);
}

bool StraightLine::AddUnits(const Instruction& instruction, uint32_t units)
{
    constexpr size_t MOST_STEPS = 32;
    constexpr int64_t MOST_BYTES = 4096;      // of an operand
    constexpr uint32_t MOST_CALCULATED = 64;  // elements
    const Opcode opcode = instruction.operation.opcode;
    if (!IsKnown(instruction) || steps_.size() == MOST_STEPS || (Calculates(opcode) && units > MOST_CALCULATED)) {
        return false;
    }
    SmallStep step{};
    step.opcode = opcode;
    step.operands = static_cast<uint8_t>(instruction.operandCount);
    step.index = operands_;
    step.units = units;
    step.extent = instruction.operands[0].extent;
    // Fields that other kinds leave unused may hold anything.
    step.option = opcode == Opcode::FILL ? instruction.option : 0;
    step.scalar = Calculates(opcode) && KindOf(opcode) == OperationKind::SCALAR ? instruction.scalar : 0.0f;
    for (uint32_t i = 0; i < instruction.operandCount; ++i) {
        const Operand& operand = instruction.operands[i];
        step.strides[i] = static_cast<int32_t>(operand.stride);
        if (step.strides[i] != operand.stride || static_cast<int64_t>(operand.extent) * units > MOST_BYTES) {
            return false;
        }
    }
    operands_ = static_cast<uint16_t>(operands_ + step.operands);
    steps_.push_back(step);
    return true;
}

}  // namespace host
}  // namespace AscendC
