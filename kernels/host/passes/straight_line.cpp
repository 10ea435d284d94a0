#include "passes/straight_line.h"

#include <optional>

#include "api/types.h"
#include "ir/operation.h"

namespace AscendC {
namespace host {

static_assert(sizeof(SmallStep) == 36, "forms are compared as bytes: no padding");

namespace {

using Kind = SmallStep::Kind;

// The opcode goes with it.
std::optional<Kind> KindOf(const Instruction& instruction, Opcode& opcode)
{
    const RunFn run = instruction.run;
    const VectorUnit& unit = *g_vectorUnit;
    if (run == unit.copy) {
        return Kind::COPY;
    }
    if (run == unit.fill[2]) {
        return Kind::FILL;
    }
    if (run == unit.broadcastBlock[1]) {
        return Kind::BLOCKS;
    }
    if (run == unit.reduceSum && instruction.lanes == REPEAT_FLOATS) {
        return Kind::SUM;
    }
    if (run == unit.reduceMax && instruction.lanes == REPEAT_FLOATS) {
        return Kind::LARGEST;
    }
    const Operation operation = OperationOf(instruction);
    opcode = operation.opcode;
    if (operation.layout != Layout::CONTIGUOUS) {
        return std::nullopt;
    }
    switch (operation.kind) {
        case Operation::BINARY:
            return Kind::BINARY;
        case Operation::SCALAR:
            return Kind::SCALAR;
        case Operation::UNARY:
            return Kind::UNARY;
        default:
            return std::nullopt;
    }
}

bool Calculates(Kind kind)
{
    return kind == Kind::BINARY || kind == Kind::SCALAR || kind == Kind::UNARY;
}

}  // namespace

bool StraightLine::Add(const Instruction& instruction, uint32_t units)
{
    const RunFn byElement = units == 1 ? ElementRunOf(instruction.run) : nullptr;
    if (byElement == nullptr) {
        return AddUnits(instruction, units);
    }
    Instruction elements = instruction;  // one repeat
    elements.run = byElement;
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
    Opcode opcode = Opcode::ADD;
    const std::optional<Kind> kind = KindOf(instruction, opcode);
    if (!kind.has_value() || steps_.size() == MOST_STEPS || (Calculates(*kind) && units > MOST_CALCULATED)) {
        return false;
    }
    SmallStep step{};
    step.kind = *kind;
    step.operands = static_cast<uint8_t>(instruction.operandCount);
    step.index = operands_;
    step.opcode = opcode;
    step.units = units;
    step.extent = instruction.operands[0].extent;
    // Fields that other kinds leave unused may hold anything.
    step.option = *kind == Kind::FILL ? instruction.option : 0;
    step.scalar = *kind == Kind::SCALAR ? instruction.scalar : 0.0f;
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
