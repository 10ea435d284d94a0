#include "chains.h"

#include "meaning.h"

namespace AscendC {
namespace host {

namespace {

// The same memory wherever the tensors are: two of them may be one in this launch and not in the next.
bool Same(const Operand& a, const Operand& b)
{
    return a.base == b.base && a.stride == b.stride && a.origin == b.origin;
}

Link ByType(ElementType type, Link ofFloat, Link ofHalf, Link ofBFloat16)
{
    return type == ElementType::FLOAT ? ofFloat : (type == ElementType::HALF ? ofHalf : ofBFloat16);
}

Other StreamOf(ElementType type)
{
    return type == ElementType::FLOAT  ? Other::STREAM
           : type == ElementType::HALF ? Other::STREAM_HALF
                                       : Other::STREAM_BFLOAT16;
}

}  // namespace

Link LoadLink(ElementType type)
{
    return ByType(type, Link::LOAD_FLOAT, Link::LOAD_HALF, Link::LOAD_BFLOAT16);
}

Link StoreLink(ElementType type)
{
    return ByType(type, Link::STORE_FLOAT, Link::STORE_HALF, Link::STORE_BFLOAT16);
}

Link RoundLink(ElementType type)
{
    return type == ElementType::HALF ? Link::ROUND_HALF : Link::ROUND_BFLOAT16;
}

Link CollectLink(Opcode opcode)
{
    return opcode == Opcode::ADD ? Link::SUM : (opcode == Opcode::MAX ? Link::LARGEST : Link::SMALLEST);
}

Link LinkOf(Opcode opcode)
{
    return static_cast<Link>(static_cast<uint32_t>(Link::ADDS) + static_cast<uint32_t>(opcode) -
                             static_cast<uint32_t>(Opcode::ADDS));
}

void Chain::Clear()
{
    parts_.clear();
    items_.clear();
    partOf_.clear();
    value_ = nullptr;
    readsNarrow_ = false;
}

bool Chain::Meets(const Operand& operand) const
{
    return value_ == nullptr || Same(operand, *value_);
}

bool Chain::OnlyCasts() const
{
    return Length() == 1 && items_.size() == 2 &&
           (items_[0].link == Link::LOAD_HALF || items_[0].link == Link::LOAD_BFLOAT16);
}

bool Chain::CastsItself(const Instruction& instruction)
{
    return MeaningOf(instruction).kind != Meaning::AXPY;
}

// Block by block, all instructions on one block: what one writes the others may touch as a whole only, never shifted.
bool Chain::Aligned(const Instruction& later) const
{
    const auto aligned = [](const Operand& written, const Operand& other) {
        return other.base >= written.end || written.base >= other.end || Same(written, other);
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

void Chain::Push(const ChainItem& item)
{
    items_.push_back(item);
    partOf_.push_back(Length() - 1);
}

// A store makes an earlier one to the same place needless, if nothing has read that since.
void Chain::Store(const Operand& to, ElementType type)
{
    for (uint32_t i = static_cast<uint32_t>(items_.size()); i-- > 0;) {
        if (items_[i].operand == nullptr || !Same(*items_[i].operand, to)) {
            continue;
        }
        if (items_[i].link == Link::STORE_FLOAT || items_[i].link == Link::STORE_HALF ||
            items_[i].link == Link::STORE_BFLOAT16) {
            items_.erase(items_.begin() + i);
            partOf_.erase(partOf_.begin() + i);
        }
        break;
    }
    Push({StoreLink(type), 0.0f, &to});
    value_ = &to;
    type_ = type;
}

// Sums up the chain's value, the present one or an earlier one. Two sums in the same lanes never meet in a group.
bool Chain::Collect(const Instruction& instruction, Link link)
{
    if (!Aligned(instruction)) {
        return false;
    }
    for (uint32_t i = static_cast<uint32_t>(items_.size()); i-- > 0;) {
        const bool there = items_[i].link == Link::STORE_FLOAT || items_[i].link == Link::LOAD_FLOAT;
        if (there && Same(*items_[i].operand, instruction.operands[1])) {
            parts_.push_back(&instruction);
            items_.insert(items_.begin() + i + 1, {link, 0.0f, &instruction.operands[0]});
            partOf_.insert(partOf_.begin() + i + 1, Length() - 1);
            return true;
        }
    }
    return false;
}

// Copies the chain's value to yet another place.
bool Chain::Copy(const Instruction& instruction)
{
    const uint32_t bytes = type_ == ElementType::FLOAT ? sizeof(float) : sizeof(uint16_t);
    if (parts_.empty() || !Meets(instruction.operands[1]) || instruction.operands[0].extent != bytes ||
        !Aligned(instruction)) {
        return false;
    }
    parts_.push_back(&instruction);
    Push({StoreLink(type_), 0.0f, &instruction.operands[0]});
    return true;
}

bool Chain::Extend(Instruction& instruction, const NarrowSources& narrow, bool overwritten)
{
    const Meaning meaning = MeaningOf(instruction);
    if (meaning.kind == Meaning::OPAQUE || items_.size() + 4 > MAX_LINKS ||
        (!parts_.empty() && instruction.units != parts_[0]->units)) {
        return false;
    }
    if (meaning.kind == Meaning::COPY) {
        return !overwritten && Copy(instruction);
    }
    if (meaning.layout == Layout::ACCUMULATE && !parts_.empty()) {
        return !overwritten && Collect(instruction, CollectLink(meaning.opcode));
    }
    if (!parts_.empty() && type_ != meaning.from) {
        return false;
    }
    Operand* const operands = instruction.operands;
    ElementType types[MAX_OPERANDS] = {meaning.to, meaning.from, meaning.from};
    bool narrows = false;
    const bool axpy = meaning.kind == Meaning::AXPY;
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
    const bool binary = meaning.kind == Meaning::BINARY;
    // Which operand is the chain's value.
    const bool swapped = binary && (meaning.layout == Layout::BROADCAST0 ||
                                    (meaning.layout == Layout::CONTIGUOUS && !Meets(operands[1])));
    const uint32_t first = swapped || axpy ? 2 : 1;
    const Operand& source = operands[first];
    if (!Meets(source)) {
        return false;
    }
    parts_.push_back(&instruction);
    readsNarrow_ = readsNarrow_ || narrows;
    if (value_ == nullptr) {
        Push({LoadLink(types[first]), 0.0f, &source});
    }
    if (meaning.layout == Layout::ACCUMULATE) {
        Push({CollectLink(meaning.opcode), 0.0f, &operands[0]});
        value_ = &source;
        type_ = ElementType::FLOAT;
        return true;
    }
    if (binary) {
        const Operand& second = operands[3 - first];
        const Other other = meaning.layout != Layout::CONTIGUOUS ? Other::BLOCK
                            : Same(second, source)               ? Other::SELF
                                                                 : StreamOf(types[3 - first]);
        Push({BinaryLink(meaning.opcode, other, swapped), 0.0f, other == Other::SELF ? nullptr : &second});
    } else if (meaning.kind == Meaning::CAST) {
        if (meaning.to != ElementType::FLOAT) {
            Push({RoundLink(meaning.to), 0.0f, nullptr});
        }
    } else {
        Push({LinkOf(meaning.opcode), instruction.scalar, axpy ? &operands[1] : nullptr});
    }
    Store(operands[0], meaning.to);
    return true;
}

}  // namespace host
}  // namespace AscendC
