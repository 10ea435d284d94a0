#include "chains.h"

#include <unordered_map>

#include "types.h"

namespace AscendC {
namespace host {

namespace {

// What an instruction does, told by its loop.
struct Meaning {
    enum Kind { OPAQUE, BINARY, SCALAR, UNARY, CAST } kind = OPAQUE;
    Opcode opcode = Opcode::ADD;
    Layout layout = Layout::CONTIGUOUS;
    ElementType from = ElementType::FLOAT;
    ElementType to = ElementType::FLOAT;
};

Meaning::Kind KindOf(Opcode opcode)
{
    if (static_cast<uint32_t>(opcode) < BINARY_OPCODES) {
        return Meaning::BINARY;
    }
    return opcode < Opcode::EXP ? Meaning::SCALAR : Meaning::UNARY;
}

using Meanings = std::unordered_map<RunFn, Meaning>;

Meanings AllMeanings()
{
    Meanings meanings;
    const auto add = [&](RunFn run, const Meaning& meaning) {
        if (run != nullptr) {
            meanings.emplace(run, meaning);
        }
    };
    for (uint32_t op = 0; op < OPCODES; ++op) {
        for (const Layout layout : {Layout::CONTIGUOUS, Layout::BROADCAST0, Layout::BROADCAST1, Layout::ACCUMULATE}) {
            const Opcode opcode = static_cast<Opcode>(op);
            const bool collects = opcode == Opcode::ADD || opcode == Opcode::MAX || opcode == Opcode::MIN;
            if (layout == Layout::ACCUMULATE && !collects) {
                continue;
            }
            add(g_vectorUnit->arithmetic[op][static_cast<uint32_t>(ElementType::FLOAT)][static_cast<uint32_t>(layout)],
                {KindOf(opcode), opcode, layout, ElementType::FLOAT, ElementType::FLOAT});
        }
    }
    for (const ElementType narrow : {ElementType::HALF, ElementType::BFLOAT16}) {
        const uint32_t type = static_cast<uint32_t>(narrow);
        const uint32_t floats = static_cast<uint32_t>(ElementType::FLOAT);
        add(g_vectorUnit->cast[type][floats][0],
            {Meaning::CAST, Opcode::ADD, Layout::CONTIGUOUS, narrow, ElementType::FLOAT});
        add(g_vectorUnit->cast[floats][type][0],
            {Meaning::CAST, Opcode::ADD, Layout::CONTIGUOUS, ElementType::FLOAT, narrow});
    }
    return meanings;
}

Meaning MeaningOf(const Instruction& instruction)
{
    static const Meanings meanings = AllMeanings();
    const auto found = meanings.find(instruction.run);
    if (found == meanings.end()) {
        return {};
    }
    const RoundMode mode = static_cast<RoundMode>(instruction.option);
    const bool directed = mode != RoundMode::CAST_NONE && mode != RoundMode::CAST_RINT;
    if (found->second.kind == Meaning::CAST && found->second.from == ElementType::FLOAT && directed) {
        return {};
    }
    return found->second;
}

bool Same(const Operand& a, const Operand& b)
{
    return a.base == b.base && a.stride == b.stride;
}

Link ByType(ElementType type, Link ofFloat, Link ofHalf, Link ofBFloat16)
{
    return type == ElementType::FLOAT ? ofFloat : (type == ElementType::HALF ? ofHalf : ofBFloat16);
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

}  // namespace

void Chain::Clear()
{
    parts_.clear();
    items_.clear();
    value_ = nullptr;
    ended_ = false;
}

bool Chain::Meets(const Operand& operand) const
{
    return value_ == nullptr || Same(operand, *value_);
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
        }
        break;
    }
    items_.push_back({ByType(type, Link::STORE_FLOAT, Link::STORE_HALF, Link::STORE_BFLOAT16), 0.0f, &to});
    value_ = &to;
    type_ = type;
}

bool Chain::Extend(const Instruction& instruction)
{
    const Meaning meaning = MeaningOf(instruction);
    if (meaning.kind == Meaning::OPAQUE || ended_ || items_.size() + 4 > MAX_LINKS ||
        (!parts_.empty() && (instruction.units != parts_[0]->units || type_ != meaning.from)) ||
        !Aligned(instruction)) {
        return false;
    }
    const Operand* const operands = instruction.operands;
    const bool binary = meaning.kind == Meaning::BINARY;
    // Which operand is the chain's value.
    const bool swapped = binary && (meaning.layout == Layout::BROADCAST0 ||
                                    (meaning.layout == Layout::CONTIGUOUS && !Meets(operands[1])));
    const Operand& source = operands[swapped ? 2 : 1];
    if (!Meets(source)) {
        return false;
    }
    if (value_ == nullptr) {
        items_.push_back({ByType(meaning.from, Link::LOAD_FLOAT, Link::LOAD_HALF, Link::LOAD_BFLOAT16), 0.0f, &source});
    }
    parts_.push_back(&instruction);
    if (binary && meaning.layout == Layout::ACCUMULATE) {
        items_.push_back({CollectLink(meaning.opcode), 0.0f, &operands[0]});
        ended_ = true;
        return true;
    }
    if (binary) {
        const Operand& second = operands[swapped ? 1 : 2];
        const Other other = meaning.layout != Layout::CONTIGUOUS ? Other::BLOCK
                            : Same(second, source)               ? Other::SELF
                                                                 : Other::STREAM;
        items_.push_back({BinaryLink(meaning.opcode, other, swapped), 0.0f, other == Other::SELF ? nullptr : &second});
    } else if (meaning.kind == Meaning::CAST) {
        if (meaning.to != ElementType::FLOAT) {
            items_.push_back(
                {meaning.to == ElementType::HALF ? Link::ROUND_HALF : Link::ROUND_BFLOAT16, 0.0f, nullptr});
        }
    } else {
        items_.push_back({LinkOf(meaning.opcode), instruction.scalar, nullptr});
    }
    Store(operands[0], meaning.to);
    return true;
}

}  // namespace host
}  // namespace AscendC
