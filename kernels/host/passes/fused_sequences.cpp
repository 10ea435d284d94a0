#include "passes/fused_sequences.h"

#include "ir/operation.h"

namespace AscendC {
namespace host {

namespace {

// The same memory wherever the tensors are: two of them may be one in this launch and not in the next.
bool Same(const Operand& a, const Operand& b)
{
    return a.base == b.base && a.stride == b.stride && a.origin == b.origin;
}

Other StreamOf(ElementType type)
{
    return type == ElementType::FLOAT  ? Other::STREAM
           : type == ElementType::HALF ? Other::STREAM_HALF
                                       : Other::STREAM_BFLOAT16;
}

}  // namespace

void FusedSequence::Clear()
{
    parts_.clear();
    items_.clear();
    partOf_.clear();
    value_ = nullptr;
    readsNarrow_ = false;
}

bool FusedSequence::Meets(const Operand& operand) const
{
    return value_ == nullptr || Same(operand, *value_);
}

bool FusedSequence::OnlyCasts() const
{
    return Length() == 1 && items_.size() == 2 &&
           (items_[0].kind == NodeKind::LOAD_HALF || items_[0].kind == NodeKind::LOAD_BFLOAT16);
}

bool FusedSequence::CastsItself(const Instruction& instruction)
{
    return KindOf(instruction) != OperationKind::AXPY;
}

// Block by block, all instructions on one block: the others may touch bytes that one writes as a whole only, never
// shifted.
bool FusedSequence::Aligned(const Instruction& later) const
{
    const auto aligned = [](const Operand& written, const Operand& other) {
        return !Overlap(written, other) || Same(written, other);
    };
    for (const Instruction* earlier : parts_) {
        for (uint32_t i = 0; i < earlier->operandCount; ++i) {
            if (!aligned(later.operands[0], earlier->operands[i])) {
                return false;
            }
        }
        for (uint32_t i = 0; i < later.operandCount; ++i) {
            if (!aligned(earlier->operands[0], later.operands[i])) {
                return false;
            }
        }
    }
    for (uint32_t i = 1; i < later.operandCount; ++i) {
        if (!aligned(later.operands[0], later.operands[i])) {
            return false;
        }
    }
    return true;
}

void FusedSequence::Push(const SequenceNode& item)
{
    items_.push_back(item);
    partOf_.push_back(Length() - 1);
}

// A store makes an earlier one to the same place needless, if nothing has read that since.
void FusedSequence::Store(const Operand& to, ElementType type)
{
    for (uint32_t i = static_cast<uint32_t>(items_.size()); i-- > 0;) {
        if (items_[i].operand == nullptr || !Same(*items_[i].operand, to)) {
            continue;
        }
        if (items_[i].kind == NodeKind::STORE_FLOAT || items_[i].kind == NodeKind::STORE_HALF ||
            items_[i].kind == NodeKind::STORE_BFLOAT16) {
            items_.erase(items_.begin() + i);
            partOf_.erase(partOf_.begin() + i);
        }
        break;
    }
    Push({StoreNode(type), 0.0f, &to});
    value_ = &to;
    type_ = type;
}

// Sums up the sequence's value, the present one or an earlier one. Two sums in the same lanes never meet in a group.
bool FusedSequence::Collect(const Instruction& instruction, NodeKind node)
{
    if (!Aligned(instruction)) {
        return false;
    }
    for (uint32_t i = static_cast<uint32_t>(items_.size()); i-- > 0;) {
        const bool there = items_[i].kind == NodeKind::STORE_FLOAT || items_[i].kind == NodeKind::LOAD_FLOAT;
        if (there && Same(*items_[i].operand, instruction.operands[1])) {
            parts_.push_back(&instruction);
            items_.insert(items_.begin() + i + 1, {node, 0.0f, &instruction.operands[0]});
            partOf_.insert(partOf_.begin() + i + 1, Length() - 1);
            return true;
        }
    }
    return false;
}

// Copies the sequence's value to yet another place.
bool FusedSequence::Copy(const Instruction& instruction)
{
    const uint32_t bytes = type_ == ElementType::FLOAT ? sizeof(float) : sizeof(uint16_t);
    if (parts_.empty() || !Meets(instruction.operands[1]) || instruction.operands[0].extent != bytes ||
        !Aligned(instruction)) {
        return false;
    }
    parts_.push_back(&instruction);
    Push({StoreNode(type_), 0.0f, &instruction.operands[0]});
    return true;
}

bool FusedSequence::Extend(Instruction& instruction, const NarrowSources& narrow, bool overwritten)
{
    const Operation& operation = instruction.operation;
    const OperationKind kind = KindOf(instruction);
    if (kind == OperationKind::OPAQUE || items_.size() + 4 > MAX_NODES ||
        (!parts_.empty() && instruction.units != parts_[0]->units)) {
        return false;
    }
    if (kind == OperationKind::COPY) {
        return !overwritten && Copy(instruction);
    }
    if (operation.layout == Layout::ACCUMULATE && !parts_.empty()) {
        return !overwritten && Collect(instruction, CollectNode(operation.opcode));
    }
    if (!parts_.empty() && type_ != operation.from) {
        return false;
    }
    Operand* const operands = instruction.operands;
    ElementType types[MAX_OPERANDS] = {operation.to, operation.from, operation.from};
    bool narrows = false;
    const bool axpy = kind == OperationKind::AXPY;
    for (uint32_t i = 1; i < instruction.operandCount && CastsItself(instruction); ++i) {
        if (narrow[i].type != ElementType::FLOAT && (overwritten || !Meets(operands[i]) || value_ == nullptr)) {
            operands[i] = narrow[i].operand;
            types[i] = narrow[i].type;
            narrows = true;
        }
    }
    if (!Aligned(instruction)) {
        return false;
    }
    const bool binary = kind == OperationKind::BINARY;
    // Which operand is the sequence's value.
    const bool swapped = binary && (operation.layout == Layout::BROADCAST0 ||
                                    (operation.layout == Layout::CONTIGUOUS && !Meets(operands[1])));
    const uint32_t first = swapped || axpy ? 2 : 1;
    const Operand& source = operands[first];
    if (!Meets(source)) {
        return false;
    }
    parts_.push_back(&instruction);
    readsNarrow_ = readsNarrow_ || narrows;
    if (value_ == nullptr) {
        Push({LoadNode(types[first]), 0.0f, &source});
    }
    if (operation.layout == Layout::ACCUMULATE) {
        Push({CollectNode(operation.opcode), 0.0f, &operands[0]});
        value_ = &source;
        type_ = ElementType::FLOAT;
        return true;
    }
    if (binary) {
        const Operand& second = operands[3 - first];
        const Other other = operation.layout != Layout::CONTIGUOUS ? Other::BLOCK
                            : Same(second, source)                 ? Other::SELF
                                                                   : StreamOf(types[3 - first]);
        Push({BinaryNode(operation.opcode, other, swapped), 0.0f, other == Other::SELF ? nullptr : &second});
    } else if (kind == OperationKind::CAST) {
        if (operation.to != ElementType::FLOAT) {
            Push({RoundNode(operation.to), 0.0f, nullptr});
        }
    } else {
        Push({NodeOf(operation.opcode), instruction.scalar, axpy ? &operands[1] : nullptr});
    }
    Store(operands[0], operation.to);
    return true;
}

}  // namespace host
}  // namespace AscendC
