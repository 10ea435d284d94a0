#include "passes/rematerialization.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/types.h"
#include "ir/operation.h"
#include "simd/vector_unit.h"

namespace AscendC {
namespace host {

namespace {

// So many cheap instructions take no longer than reading floats from the L2 cache.
constexpr uint32_t MOST_CHEAP = 3;
// Shorter rows stay in the L1 data cache; loops over 16 bits also convert before and behind.
constexpr int64_t LEAST_BYTES = 2048;
constexpr int64_t LEAST_BYTES_OF_NARROW = 8192;

// A node of a value's graph: an instruction, and its operand that the node before it makes; the first one's is in
// memory.
struct Node {
    uint32_t instruction;
    uint32_t input;
};

// A value in the Unified Buffer, and the instructions that make it.
struct Known {
    Operand to;
    std::vector<Node> nodes;
    std::vector<Span> sources;  // what they read
    uint32_t number;            // of the last one
    uint32_t cheap;             // how many of them are no casts

    bool IsOf(const Span& span) const
    {
        return std::any_of(sources.begin(), sources.end(), [&](const Span& source) { return source.Overlaps(span); });
    }
    bool EndsAt(const Span& span) const { return SpanOf(to).Overlaps(span) || IsOf(span); }
};

bool IsRowOfFloats(const Operand& operand)
{
    return operand.stride == sizeof(float) && operand.extent == sizeof(float);
}

bool IsWidening(const Instruction& instruction)
{
    const Operation& operation = instruction.operation;
    return KindOf(instruction) == OperationKind::CAST && operation.to == ElementType::FLOAT &&
           (operation.from == ElementType::BFLOAT16 || g_vectorUnit->convertsHalf);
}

bool IsCheap(const Instruction& instruction)
{
    const Opcode opcode = instruction.operation.opcode;
    const Layout layout = instruction.operation.layout;
    const OperationKind kind = KindOf(instruction);
    const bool block = layout == Layout::BROADCAST0 || layout == Layout::BROADCAST1;
    return (kind == OperationKind::SCALAR && (opcode == Opcode::ADDS || opcode == Opcode::MULS)) ||
           (kind == OperationKind::BINARY && block &&
            (opcode == Opcode::ADD || opcode == Opcode::SUB || opcode == Opcode::MUL));
}

bool MayReadAnew(const Instruction& instruction)
{
    const OperationKind kind = KindOf(instruction);
    return kind != OperationKind::OPAQUE && kind != OperationKind::COPY && kind != OperationKind::AXPY;
}

class Rematerialization {
public:
    Rematerialization(std::vector<Instruction>& instructions, ProgramOrder& order, const Span& scratch)
        : instructions_(instructions), order_(order), scratch_(scratch)
    {}

    void Pass(Group& group)
    {
        std::vector<Known> made;
        std::vector<uint32_t> members;
        free_ = scratch_.begin;
        copies_.clear();
        for (const uint32_t member : group.members) {
            Learn(member, made);
            if (group.elements == 1 && MayReadAnew(instructions_[member])) {
                Replace(member, group, members);
            }
            Forget(SpanOf(instructions_[member].operands[0]), known_);
            members.push_back(member);
        }
        std::move(made.begin(), made.end(), std::back_inserter(known_));
        group.granular = group.granular || granular_;
        granular_ = false;
        group.members = std::move(members);
    }

private:
    // Floats in scratch memory that members of the group read.
    struct Copy {
        Operand of;
        Operand in;
    };

    static void Forget(const Span& written, std::vector<Known>& list)
    {
        list.erase(std::remove_if(list.begin(), list.end(), [&](const Known& known) { return known.EndsAt(written); }),
                   list.end());
    }
    // What the instruction makes, if it is worth making again; and what it overwrites.
    void Learn(uint32_t member, std::vector<Known>& made) const
    {
        const Instruction& instruction = instructions_[member];
        const Operand& to = instruction.operands[0];
        Known known{to, {}, {}, order_.numbers[member], 0};
        if (IsRowOfFloats(to) && to.origin == NO_ORIGIN) {
            if (IsWidening(instruction) && !IsOutput(instruction.operands[1])) {
                known.nodes.push_back({member, 1});
                known.sources.push_back(SpanOf(instruction.operands[1]));
            } else if (IsCheap(instruction)) {
                Extend(instruction, member, made, known);
            }
        }
        Forget(SpanOf(to), made);
        if (!known.nodes.empty() && !known.IsOf(SpanOf(to))) {
            made.push_back(std::move(known));
        }
    }
    void Extend(const Instruction& instruction, uint32_t member, const std::vector<Known>& made, Known& known) const
    {
        const uint32_t input = instruction.operation.layout == Layout::BROADCAST0 ? 2 : 1;
        const Operand& from = instruction.operands[input];
        int64_t least = LEAST_BYTES;
        if (from.origin != NO_ORIGIN) {
            if (IsOutput(from)) {
                return;
            }
            known.sources.push_back(SpanOf(from));
        } else {
            const Known* const source = Find(from, made);
            const auto inGm = [this](const Node& node) {
                return instructions_[node.instruction].operands[node.input].origin != NO_ORIGIN;
            };
            if (source == nullptr || source->cheap == MOST_CHEAP || !inGm(source->nodes.front()) ||
                source->to.base != from.base || source->to.end != from.end) {
                return;
            }
            known.nodes = source->nodes;
            known.sources = source->sources;
            known.cheap = source->cheap;
            least = source->cheap < source->nodes.size() ? LEAST_BYTES_OF_NARROW : LEAST_BYTES;
        }
        if (instruction.operandCount == 3) {
            known.sources.push_back(SpanOf(instruction.operands[3 - input]));
        }
        known.nodes.push_back({member, input});
        known.cheap += 1;
        if (known.to.end - known.to.base < least) {
            known.nodes.clear();
        }
    }
    const Known* Find(const Operand& operand, const std::vector<Known>& made) const
    {
        for (const std::vector<Known>* list : {&made, &known_}) {
            for (const Known& known : *list) {
                if (SpanOf(known.to).Covers(SpanOf(operand))) {
                    return &known;
                }
            }
        }
        return nullptr;
    }

    // Operands of the member that earlier groups have made are made again in front of it.
    void Replace(uint32_t member, const Group& group, std::vector<uint32_t>& members)
    {
        for (uint32_t i = 1; i < instructions_[member].operandCount; ++i) {
            const Operand from = instructions_[member].operands[i];
            const Known* const known = IsRowOfFloats(from) && from.origin == NO_ORIGIN ? Find(from, {}) : nullptr;
            if (known == nullptr || !Stays(*known, member, group)) {
                continue;
            }
            if (const Operand* const copy = CopyOf(*known, from, member, members)) {
                instructions_[member].operands[i] = *copy;
            }
        }
    }
    // Is it an output? What went past the caches is not read again.
    bool IsOutput(const Operand& source) const
    {
        return source.origin != NO_ORIGIN &&
               std::any_of(instructions_.begin(), instructions_.end(),
                           [&](const Instruction& other) { return Overlap(other.operands[0], source); });
    }
    // Are the sources there when the member runs? The group goes strip by strip, so none of it may write to them; and
    // stores to bytes that were given up in between may have been eliminated.
    bool Stays(const Known& known, uint32_t member, const Group& group) const
    {
        const uint32_t number = order_.numbers[member];
        return std::none_of(group.members.begin(), group.members.end(),
                            [&](uint32_t other) { return known.IsOf(SpanOf(instructions_[other].operands[0])); }) &&
               std::none_of(order_.killed.begin(), order_.killed.end(), [&](const Killed& killed) {
                   return killed.number > known.number && killed.number <= number && known.IsOf(killed.span);
               });
    }
    // Null: only a part of what takes more than a cast, or there is no room.
    const Operand* CopyOf(const Known& known, const Operand& from, uint32_t member, std::vector<uint32_t>& members)
    {
        const auto made = std::find_if(copies_.begin(), copies_.end(), [&](const Copy& copy) {
            return copy.of.base == from.base && copy.of.end == from.end;
        });
        if (made != copies_.end()) {
            return &made->in;
        }
        const int64_t bytes = from.end - from.base;
        const bool whole = from.base == known.to.base && from.end == known.to.end;
        if ((known.cheap > 0 && !whole) || scratch_.end - free_ < bytes) {
            return nullptr;
        }
        Operand in = from;
        in.base = const_cast<char*>(free_);
        in.end = in.base + bytes;
        free_ += (bytes + ONE_REPEAT_BYTE_SIZE - 1) / ONE_REPEAT_BYTE_SIZE * ONE_REPEAT_BYTE_SIZE;
        const int64_t first = (from.base - known.to.base) / int64_t{sizeof(float)};
        for (size_t k = 0; k < known.nodes.size(); ++k) {
            Instruction again = instructions_[known.nodes[k].instruction];
            Operand& input = again.operands[known.nodes[k].input];
            input.base += input.stride * first;
            input = k == 0 ? input : in;
            again.operands[0] = in;
            again.units = static_cast<uint32_t>(bytes / int64_t{sizeof(float)});
            SetEnds(again);
            granular_ = granular_ || again.granule > 1;
            members.push_back(static_cast<uint32_t>(instructions_.size()));
            instructions_.push_back(again);
            order_.numbers.push_back(order_.numbers[member]);
        }
        copies_.push_back({from, in});
        return &copies_.back().in;
    }

    std::vector<Instruction>& instructions_;
    ProgramOrder& order_;
    const Span scratch_;
    std::vector<Known> known_;  // made by earlier groups
    std::vector<Copy> copies_;  // of the group at hand
    const char* free_ = nullptr;
    bool granular_ = false;
};

}  // namespace

void Rematerialize(std::vector<Group>& groups, std::vector<Instruction>& instructions, ProgramOrder& order,
                   const Span& scratch)
{
    Rematerialization rematerialization(instructions, order, scratch);
    for (Group& group : groups) {
        rematerialization.Pass(group);
    }
}

}  // namespace host
}  // namespace AscendC
