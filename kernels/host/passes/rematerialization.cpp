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

// These floats are in the Unified Buffer, with the cast that makes them.
struct Known {
    Operand to;
    Span source;
    uint32_t cast;
    uint32_t number;  // of the cast in the program

    bool EndsAt(const Span& written) const { return SpanOf(to).Overlaps(written) || source.Overlaps(written); }
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
            Forget(SpanOf(instructions_[member].operands[0]), made);
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
    // Members of the group read these floats in scratch memory.
    struct Copy {
        Operand of;
        Operand in;
    };

    static void Forget(const Span& written, std::vector<Known>& list)
    {
        list.erase(std::remove_if(list.begin(), list.end(), [&](const Known& known) { return known.EndsAt(written); }),
                   list.end());
    }
    void Learn(uint32_t member, std::vector<Known>& made) const
    {
        const Instruction& instruction = instructions_[member];
        const Operand& to = instruction.operands[0];
        const Span source = SpanOf(instruction.operands[1]);
        if (IsWidening(instruction) && IsRowOfFloats(to) && to.origin == NO_ORIGIN &&
            !IsOutput(instruction.operands[1]) && !source.Overlaps(SpanOf(to))) {
            made.push_back({to, source, member, order_.numbers[member]});
        }
    }
    // Is it an output? What was stored bypassing the caches is not read again.
    bool IsOutput(const Operand& source) const
    {
        return source.origin != NO_ORIGIN &&
               std::any_of(instructions_.begin(), instructions_.end(),
                           [&](const Instruction& other) { return Overlap(other.operands[0], source); });
    }

    // Casts the operands of the member that earlier groups have cast again, in front of it.
    void Replace(uint32_t member, const Group& group, std::vector<uint32_t>& members)
    {
        for (uint32_t i = 1; i < instructions_[member].operandCount; ++i) {
            const Operand from = instructions_[member].operands[i];
            const auto known = std::find_if(known_.begin(), known_.end(), [&](const Known& candidate) {
                return SpanOf(candidate.to).Covers(SpanOf(from));
            });
            if (!IsRowOfFloats(from) || from.origin != NO_ORIGIN || known == known_.end() ||
                !Stays(*known, member, group)) {
                continue;
            }
            if (const Operand* const copy = CopyOf(*known, from, member, members)) {
                instructions_[member].operands[i] = *copy;
            }
        }
    }
    // Is the source there when the member runs? The group goes strip by strip, so none of it may write to the source;
    // and stores to bytes that were given up in between may have been eliminated.
    bool Stays(const Known& known, uint32_t member, const Group& group) const
    {
        const uint32_t number = order_.numbers[member];
        return std::none_of(
                   group.members.begin(), group.members.end(),
                   [&](uint32_t other) { return known.source.Overlaps(SpanOf(instructions_[other].operands[0])); }) &&
               std::none_of(order_.killed.begin(), order_.killed.end(), [&](const Killed& killed) {
                   return killed.number > known.number && killed.number <= number && known.source.Overlaps(killed.span);
               });
    }
    // Null: there is no room.
    const Operand* CopyOf(const Known& known, const Operand& from, uint32_t member, std::vector<uint32_t>& members)
    {
        const auto made = std::find_if(copies_.begin(), copies_.end(), [&](const Copy& copy) {
            return copy.of.base == from.base && copy.of.end == from.end;
        });
        if (made != copies_.end()) {
            return &made->in;
        }
        const int64_t bytes = from.end - from.base;
        if (scratch_.end - free_ < bytes) {
            return nullptr;
        }
        Operand in = from;
        in.base = const_cast<char*>(free_);
        in.end = in.base + bytes;
        free_ += (bytes + ONE_REPEAT_BYTE_SIZE - 1) / ONE_REPEAT_BYTE_SIZE * ONE_REPEAT_BYTE_SIZE;
        Instruction again = instructions_[known.cast];
        Operand& input = again.operands[1];
        input.base += input.stride * ((from.base - known.to.base) / int64_t{sizeof(float)});
        again.operands[0] = in;
        again.iterations = static_cast<uint32_t>(bytes / int64_t{sizeof(float)});
        SetEnds(again);
        granular_ = granular_ || again.granule > 1;
        members.push_back(static_cast<uint32_t>(instructions_.size()));
        instructions_.push_back(again);
        order_.numbers.push_back(order_.numbers[member]);
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
