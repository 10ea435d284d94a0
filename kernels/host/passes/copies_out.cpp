/*!
 * Places copies to global memory in groups: each goes where its data is made, or the instructions write there
 * themselves.
 */
#include <algorithm>

#include "passes/groups.h"

namespace AscendC {
namespace host {

// A copy out may be of results of earlier groups, such as several rows, each made by a group of its own. Then every
// group takes its part of the copy along, while the row is in the L1 cache, but only if the groups make exactly the
// copied bytes, in order, and nothing after them touches either side.
bool Groups::SinkCopy(const Instruction& copy)
{
    const Operand& to = copy.operands[0];
    const Operand& from = copy.operands[1];
    if (groups_.empty()) {
        return false;
    }
    const Operand& latest = instructions_[groups_.back().members.back()].operands[0];
    if (latest.base == from.base && latest.end == from.end) {
        return false;  // one group made it all: the copy joins that in the ordinary way
    }
    // For each part of the source, in order, this is the last instruction that writes it.
    struct Maker {
        uint32_t group;
        uint32_t instruction;
    };
    std::vector<Maker> makers;
    const auto made = [this](const Maker& maker) -> const Operand& {
        return instructions_[maker.instruction].operands[0];
    };
    for (uint32_t g = 0; g < groups_.size(); ++g) {
        for (const uint32_t i : groups_[g].members) {
            const Operand& to = instructions_[i].operands[0];
            if (!Overlap(to, from)) {
                continue;
            }
            // Bytes that it overwrites as a whole were not made for the copy.
            makers.erase(std::remove_if(makers.begin(), makers.end(),
                                        [&](const Maker& maker) { return SpanOf(to).Covers(SpanOf(made(maker))); }),
                         makers.end());
            makers.push_back({g, i});
        }
    }
    std::sort(makers.begin(), makers.end(),
              [&](const Maker& a, const Maker& b) { return made(a).base < made(b).base; });
    const bool rows = !IsGapless(from) || !IsGapless(to);
    if (makers.empty() || (rows && makers.size() != copy.iterations)) {
        return false;
    }
    const char* expected = from.base;
    for (const Maker& maker : makers) {
        const Operand& part = made(maker);
        const bool halves = copy.kind == InstructionKind::COPY_OUT_ADD && part.extent % sizeof(float) != 0;
        if (!IsGapless(part) || part.base != expected || (rows && part.end != part.base + from.extent) || halves) {
            return false;
        }
        expected = rows ? part.base + from.stride : part.end;
    }
    if (!rows && expected != from.end) {
        return false;
    }
    for (const Group& group : groups_) {
        for (const uint32_t i : group.members) {
            if (Touches(instructions_[i], SpanOf(to))) {
                return false;
            }
        }
    }
    for (uint32_t k = 0; k < makers.size(); ++k) {
        const Instruction& maker = instructions_[makers[k].instruction];
        Instruction part = copy;
        part.iterations = maker.iterations;
        part.lanes = maker.lanes;
        part.operands[1] = maker.operands[0];
        const int64_t offset = rows ? to.stride * k : maker.operands[0].base - from.base;
        part.operands[0] = {to.base + offset, maker.operands[0].stride, maker.operands[0].extent, to.origin};
        SetEnds(part);
        const uint32_t index = static_cast<uint32_t>(instructions_.size());
        instructions_.push_back(part);
        if (copy.kind == InstructionKind::COPY_OUT) {
            copiesOut_.push_back(index);
        }
        AddTo(groups_[makers[k].group], index);
    }
    return true;
}

// ---- writing through

void Groups::Discard(const Span& dead)
{
    frozen_ = static_cast<uint32_t>(instructions_.size());
    uint32_t kept = 0;
    for (const uint32_t copy : copiesOut_) {
        if (dead.Covers(SpanOf(instructions_[copy].operands[1]))) {
            lastUses_.push_back(copy);
        } else {
            copiesOut_[kept++] = copy;
        }
    }
    copiesOut_.resize(kept);
}

// Is the source of this copy made anew in its group, by walks that keep their form at the destination, and used nowhere
// else?
bool Groups::OnlyUse(uint32_t copy, const Group& group) const
{
    const Instruction& out = instructions_[copy];
    const Operand& from = out.operands[1];
    const Operand& to = out.operands[0];
    if (out.iterations != 1 && (!IsGapless(from) || !IsGapless(to))) {
        return false;
    }
    bool made = false;
    for (const Group& other : groups_) {
        for (const uint32_t i : other.members) {
            const Instruction& user = instructions_[i];
            if (i == copy) {
                continue;
            }
            for (uint32_t a = user.operandCount; a-- > 0;) {  // sources first
                const Operand& operand = user.operands[a];
                if (Overlap(operand, to)) {
                    return false;
                }
                if (!Overlap(operand, from)) {
                    continue;
                }
                const bool inside = SpanOf(from).Covers(SpanOf(operand));
                const bool makes = a == 0 && operand.base == from.base && operand.end == from.end && IsGapless(operand);
                if (&other != &group || i > copy || !inside || (!made && !makes)) {
                    return false;
                }
                made = true;
            }
        }
    }
    return made;
}

void Groups::WriteThrough()
{
    for (const uint32_t copy : lastUses_) {
        for (Group& group : groups_) {
            const Instruction& out = instructions_[copy];
            uint32_t place = 0;
            while (place < group.members.size() && group.members[place] != copy) {
                ++place;
            }
            if (place == group.members.size() || place == 0 || !OnlyUse(copy, group)) {
                continue;
            }
            const Operand from = out.operands[1];
            const Operand to = out.operands[0];
            for (const uint32_t i : group.members) {
                for (uint32_t a = 0; a < instructions_[i].operandCount && i != copy; ++a) {
                    Operand& operand = instructions_[i].operands[a];
                    if (Overlap(operand, from)) {
                        operand.base += to.base - from.base;
                        operand.end += to.base - from.base;
                        operand.origin = to.origin;
                    }
                }
            }
            group.members.erase(group.members.begin() + place);
        }
    }
}

}  // namespace host
}  // namespace AscendC
