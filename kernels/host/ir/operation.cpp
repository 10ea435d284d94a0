#include "ir/operation.h"

#include "base/types.h"

namespace AscendC {
namespace host {

namespace {

bool IsOf16Bits(ElementType type)
{
    return type == ElementType::HALF || type == ElementType::BFLOAT16;
}

// NONE: passes do not know it, or it goes by elements only.
Operation InLayout(const Operation& operation, Layout layout)
{
    const auto isPacked = [](ElementType type) { return type == ElementType::INT8 || type == ElementType::INT4; };
    const bool known = operation.opcode == Opcode::CAST
                           ? !isPacked(operation.from) && !isPacked(operation.to)
                           : operation.opcode < Opcode::AXPY && operation.from == ElementType::FLOAT;
    return known ? operation.With(layout) : Operation{};
}

OperationKind KindOfCast(const Instruction& instruction)
{
    const Operation& operation = instruction.operation;
    const RoundMode mode = static_cast<RoundMode>(instruction.option);
    const bool nearest = mode == RoundMode::CAST_NONE || mode == RoundMode::CAST_RINT;
    const bool widens = IsOf16Bits(operation.from) && operation.to == ElementType::FLOAT;
    const bool narrows = operation.from == ElementType::FLOAT && IsOf16Bits(operation.to) && nearest;
    return operation.layout == Layout::CONTIGUOUS && (widens || narrows) ? OperationKind::CAST : OperationKind::OPAQUE;
}

}  // namespace

OperationKind KindOf(Opcode arithmetic)
{
    if (static_cast<uint32_t>(arithmetic) < BINARY_OPCODES) {
        return OperationKind::BINARY;
    }
    if (arithmetic == Opcode::AXPY) {
        return OperationKind::AXPY;
    }
    return arithmetic < Opcode::EXP ? OperationKind::SCALAR : OperationKind::UNARY;
}

OperationKind KindOf(const Instruction& instruction)
{
    const Operation& operation = instruction.operation;
    if (operation.opcode == Opcode::COPY) {
        const Operand& dst = instruction.operands[0];
        const bool byElement = dst.stride == dst.extent && dst.stride == instruction.operands[1].stride;
        return byElement ? OperationKind::COPY : OperationKind::OPAQUE;
    }
    if (operation.opcode == Opcode::CAST) {
        return KindOfCast(instruction);
    }
    if (operation.opcode > Opcode::AXPY || operation.from != ElementType::FLOAT) {
        return OperationKind::OPAQUE;
    }
    switch (operation.layout) {
        case Layout::CONTIGUOUS:
        case Layout::BROADCAST0:
        case Layout::BROADCAST1:
            return KindOf(operation.opcode);
        case Layout::ACCUMULATE:
            return operation.opcode == Opcode::ADD || operation.opcode == Opcode::MAX || operation.opcode == Opcode::MIN
                       ? OperationKind::BINARY
                       : OperationKind::OPAQUE;
        default:
            return OperationKind::OPAQUE;
    }
}

Operation ByElement(const Operation& operation)
{
    switch (operation.layout) {
        case Layout::REPEAT:
        case Layout::ACCUMULATE_REPEAT:
            return InLayout(operation, Layout::CONTIGUOUS);
        case Layout::REPEAT_BROADCAST0:
            return InLayout(operation, Layout::BROADCAST0);
        case Layout::REPEAT_BROADCAST1:
            return InLayout(operation, Layout::BROADCAST1);
        case Layout::FOLD:
            return InLayout(operation, Layout::ACCUMULATE);
        default:
            return {};
    }
}

}  // namespace host
}  // namespace AscendC
