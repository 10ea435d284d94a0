#include "passes/loop_members.h"

#include "ir/loop_form.h"
#include "ir/operation.h"
#include "passes/fused_loops.h"

namespace AscendC {
namespace host {

namespace {

// Returns the operation of an instruction on the elements of a row of so many (0: of all iterations), or NONE if loops
// have none.
Operation OperationOf(const Instruction& instruction, uint32_t elements)
{
    const bool byRow = instruction.lanes > 1;
    Instruction byElement = instruction;
    byElement.operation = byRow ? ByElement(instruction.operation) : instruction.operation;
    const Operation& operation = byElement.operation;
    const Operand* const operands = instruction.operands;
    const OperationKind kind = KindOf(byElement);
    if (kind == OperationKind::OPAQUE || kind == OperationKind::COPY) {
        return {};
    }
    if (operation.layout == Layout::ACCUMULATE) {
        const bool repeat = operands[0].base == operands[2].base && operands[0].stride == operands[2].stride &&
                            (elements == 0 || (byRow && operands[0].stride >= int64_t{ONE_REPEAT_BYTE_SIZE}));
        return repeat ? operation : Operation{};
    }
    const bool blocks = operation.layout != Layout::CONTIGUOUS;
    return !blocks || (kind == OperationKind::BINARY && (byRow || BlocksFit(elements))) ? operation : Operation{};
}

// Returns the operation of a copy of elements of a type.
Operation OperationOf(const Instruction& copy, Access access)
{
    const Operand* const operands = copy.operands;
    const bool whole = operands[0].extent == operands[1].extent && operands[0].extent % SizeOf(TypeOf(access)) == 0;
    return whole ? OperationOn(TypeOf(access), Opcode::COPY) : Operation{};
}

// Returns how the operation accesses its operands.
Access AccessOf(const Operation& operation, uint32_t operand)
{
    const bool block = (operation.layout == Layout::BROADCAST0 && operand == 1) ||
                       (operation.layout == Layout::BROADCAST1 && operand == 2);
    const bool lanes = operation.layout == Layout::ACCUMULATE && operand != 1;
    return block ? Access::BLOCK : (lanes ? Access::LANES : AccessTo(operand == 0 ? operation.to : operation.from));
}

// Is all that the instruction touches the same memory or apart? Vectors are all that a loop can take from one value to
// another, and an instruction that shifts columns may see some of its own.
bool IsSound(const MemoryAccesses& accesses)
{
    for (size_t a = 0; a < accesses.size(); ++a) {
        for (size_t b = 0; b < a; ++b) {
            if (!accesses[a].MayFollow(accesses[b])) {
                return false;
            }
        }
    }
    return true;
}

// Does every row that is written lie behind the one before?
bool RowsAreApart(const MemoryAccesses& accesses)
{
    return std::all_of(accesses.begin(), accesses.end(),
                       [](const MemoryAccess& access) { return !access.writes || access.stride >= access.Bytes(); });
}

}  // namespace

Access AccessTo(ElementType type)
{
    return type == ElementType::FLOAT ? Access::FLOAT : type == ElementType::HALF ? Access::HALF : Access::BFLOAT16;
}

ElementType TypeOf(Access access)
{
    return access == Access::HALF       ? ElementType::HALF
           : access == Access::BFLOAT16 ? ElementType::BFLOAT16
                                        : ElementType::FLOAT;
}

LoopMember MemberOf(uint32_t index, const Group& group, const std::vector<Instruction>& instructions, Access copied)
{
    const Instruction& instruction = instructions[index];
    const uint32_t ratio = instruction.iterations / group.iterations;
    const bool copies = copied != Access::OTHER;
    const uint32_t lanes = copies ? instruction.operands[0].extent / SizeOf(TypeOf(copied)) : instruction.lanes;
    const bool byElement = copies ? group.elements == 1 : lanes == 1 && ratio == 1;
    LoopMember member{
        index, group.iterations, byElement ? 0 : (lanes > 1 ? lanes : ratio), false, {}, instruction.scalar, {}};
    if (member.rowElements <= MAX_ROW_ELEMENTS && (lanes == 1 || ratio == 1)) {
        member.operation = copies ? OperationOf(instruction, copied) : OperationOf(instruction, member.rowElements);
    }
    // Only operands 0 and 2 collect.
    const uint32_t count = member.operation.layout == Layout::ACCUMULATE ? 2 : instruction.operandCount;
    for (uint32_t i = 0; i < count && member.operation != Operation{}; ++i) {
        const Operand& operand = instruction.operands[i];
        const Access access = AccessOf(member.operation, i);
        member.accesses.push_back(
            {&operand, operand.stride * ratio, member.rowElements, access, i > 0 || access == Access::LANES, i == 0});
    }
    // Strips of elements begin where DataBlocks and repeats do.
    const bool strips = STRIP_ELEMENTS % (group.elements * REPEAT_FLOATS) == 0;
    member.compiles = !member.accesses.empty() && IsSound(member.accesses) &&
                      (member.rowElements == 0 ? strips : RowsAreApart(member.accesses));
    if (!member.compiles) {
        member.accesses.clear();
        for (uint32_t i = 0; i < instruction.operandCount; ++i) {
            member.accesses.push_back({&instruction.operands[i], 0, 0, Access::OTHER, i > 0, i == 0});
        }
    }
    return member;
}

bool Conflict(const MemoryAccesses& a, const MemoryAccesses& b)
{
    return std::any_of(a.begin(), a.end(), [&b](const MemoryAccess& x) {
        return std::any_of(b.begin(), b.end(), [&x](const MemoryAccess& y) { return x.Conflicts(y); });
    });
}

bool Shift(const MemoryAccesses& a, const MemoryAccesses& b)
{
    return std::any_of(a.begin(), a.end(), [&b](const MemoryAccess& x) {
        return std::any_of(b.begin(), b.end(),
                           [&x](const MemoryAccess& y) { return x.SharesRows(y) && !x.SameMemory(y); });
    });
}

}  // namespace host
}  // namespace AscendC
