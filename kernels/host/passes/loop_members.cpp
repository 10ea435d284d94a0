#include "passes/loop_members.h"

#include "ir/operation.h"
#include "passes/fused_loops.h"
#include "passes/fused_sequences.h"

namespace AscendC {
namespace host {

namespace {

// The nodes of an instruction for a row of so many elements; empty: there are none.
std::vector<SequenceNode> RowItems(const Instruction& instruction, uint32_t elements)
{
    Instruction byElement = instruction;
    if (instruction.lanes > 1) {
        byElement.operation = ByElement(instruction.operation);
    }
    const Operation& operation = byElement.operation;
    const OperationKind kind = KindOf(byElement);
    const Operand* const operands = instruction.operands;
    const bool byRow = instruction.lanes > 1;
    if (operation.layout == Layout::ACCUMULATE && kind == OperationKind::BINARY) {
        const bool repeat = byRow && operands[0].base == operands[2].base && operands[0].stride == operands[2].stride &&
                            operands[0].stride >= static_cast<int64_t>(ONE_REPEAT_BYTE_SIZE);
        return repeat ? std::vector<SequenceNode>{{LoadNode(ElementType::FLOAT), 0.0f, &operands[1]},
                                                  {CollectNode(operation.opcode), 0.0f, &operands[0]}}
                      : std::vector<SequenceNode>{};
    }
    const bool blocks = operation.layout != Layout::CONTIGUOUS;
    if (blocks && (kind != OperationKind::BINARY || !(byRow || BlocksFit(elements)))) {
        return {};
    }
    const SequenceNode store{StoreNode(operation.to), 0.0f, &operands[0]};
    switch (kind) {
        case OperationKind::BINARY: {
            const bool swapped = operation.layout == Layout::BROADCAST0;
            const Operand& first = operands[swapped ? 2 : 1];
            const Operand& second = operands[swapped ? 1 : 2];
            const Other other = blocks ? Other::BLOCK : Other::STREAM;
            return {{LoadNode(operation.from), 0.0f, &first},
                    {BinaryNode(operation.opcode, other, swapped), 0.0f, &second},
                    store};
        }
        case OperationKind::SCALAR:
        case OperationKind::UNARY:
            return {{LoadNode(operation.from), 0.0f, &operands[1]},
                    {NodeOf(operation.opcode), instruction.scalar, nullptr},
                    store};
        case OperationKind::CAST:
            if (operation.to == ElementType::BFLOAT16) {
                return {{LoadNode(operation.from), 0.0f, &operands[1]}, {NodeKind::CAST_BFLOAT16, 0.0f, &operands[0]}};
            }
            return {{LoadNode(operation.from), 0.0f, &operands[1]}, store};  // which rounds to half
        default:
            return {};
    }
}

// Is all that the step touches the same memory or apart? Vectors are all that a loop can take from one node to another,
// and a step that shifts columns may see some of its own.
bool IsSound(const MemoryAccesses& accesses)
{
    return std::all_of(accesses.begin(), accesses.end(), [&accesses](const MemoryAccess& a) {
        return std::all_of(accesses.begin(), accesses.end(),
                           [&a](const MemoryAccess& b) { return &a == &b || a.MayFollow(b); });
    });
}

// Does every row that is written lie behind the one before?
bool RowsAreApart(const MemoryAccesses& accesses)
{
    return std::all_of(accesses.begin(), accesses.end(),
                       [](const MemoryAccess& access) { return !access.writes || access.stride >= access.Bytes(); });
}

// The nodes of a copy of elements of a type.
std::vector<SequenceNode> CopyItems(const Instruction& copy, NodeAccess access)
{
    const Operand* const operands = copy.operands;
    if (operands[0].extent != operands[1].extent || operands[0].extent % SizeOf(access) != 0) {
        return {};
    }
    const ElementType type = TypeOf(access);
    return {{LoadNode(type), 0.0f, &operands[1]}, {StoreNode(type), 0.0f, &operands[0]}};
}

// May a fused sequence go over rows of so many elements, each anew?
bool MayGoByRow(const std::vector<SequenceNode>& sequence, uint32_t elements)
{
    return elements <= MAX_ROW_ELEMENTS &&
           std::all_of(sequence.begin(), sequence.end(), [elements](const SequenceNode& item) {
               const NodeAccess access = AccessOf(item.kind);
               return access != NodeAccess::LANES && (access != NodeAccess::BLOCK || BlocksFit(elements));
           });
}

}  // namespace

LoopMember MemberOf(uint32_t index, const Step& step, const Group& group, const std::vector<Instruction>& instructions,
                    NodeAccess copied)
{
    const Instruction& instruction = instructions[step.parts[0]];
    const uint32_t ratio = instruction.units / group.units;
    LoopMember member{index, group.units, 0, step.items, {}, false};
    if (!step.items.empty() && ratio > 1 && MayGoByRow(step.items, ratio)) {
        member.rowElements = ratio;
    }
    if (step.items.empty()) {
        const bool copies = copied != NodeAccess::NONE;
        const uint32_t lanes = copies ? instruction.operands[0].extent / SizeOf(copied) : instruction.lanes;
        const bool byElement = copies ? group.elements == 1 : lanes == 1 && ratio == 1;
        member.rowElements = byElement ? 0 : (lanes > 1 ? lanes : ratio);
        const bool fits = member.rowElements <= MAX_ROW_ELEMENTS && (lanes == 1 || ratio == 1);
        member.items = !fits    ? std::vector<SequenceNode>{}
                       : copies ? CopyItems(instruction, copied)
                                : RowItems(instruction, member.rowElements);
    }
    for (const SequenceNode& item : member.items) {
        if (item.operand != nullptr) {
            const bool stores = Stores(item.kind);
            const bool writes = stores || Collects(item.kind);
            member.accesses.push_back(
                {item.operand, item.operand->stride * ratio, member.rowElements, AccessOf(item.kind), !stores, writes});
        }
    }
    if (member.rowElements > 0 && !RowsAreApart(member.accesses)) {
        member.items.clear();
    }
    if (member.items.empty()) {
        member.accesses.clear();
        for (uint32_t i = 0; i < instruction.operandCount; ++i) {
            member.accesses.push_back({&instruction.operands[i], 0, 0, NodeAccess::NONE, i > 0, i == 0});
        }
    }
    member.compiles = !member.items.empty() && IsSound(member.accesses);
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
