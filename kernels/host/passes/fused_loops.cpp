#include "passes/fused_loops.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "passes/fused_sequences.h"
#include "passes/liveness.h"
#include "passes/loop_members.h"

namespace AscendC {
namespace host {

namespace {

constexpr uint32_t MAX_LOOP_NODES = 160;
constexpr uint32_t MAX_LOOP_OPERANDS = 32;  // of several steps
// Of steps that have no more to do with one another than that they read the same: the registers are for fewer.
constexpr uint32_t MAX_SHARING_OPERANDS = 24;
static_assert(MAX_NODES <= 64, "LoopForm has a bit for each operand of a sequence");
// How far back a loop is looked for that a step may join.
constexpr uint32_t MAX_BACK = 64;

// A loop while steps are added to it.
struct OpenLoop {
    std::vector<uint32_t> steps;
    std::vector<std::vector<SequenceNode>> items;
    MemoryAccesses accesses;     // nothing twice
    std::vector<LoopRows> rows;  // of each of them
    uint32_t units = 0;
    uint32_t rowElements = 0;  // of the first step
    bool byRow = false;
    std::vector<LoopNode> nodes;
    bool compiles = false;
    bool alone = false;

    explicit OpenLoop(LoopMember&& first)
        : units(first.units), rowElements(first.rowElements), byRow(first.rowElements > 0)
    {
        compiles = first.compiles;
        Add(std::move(first));
    }
    // May the step become part of it?
    bool Takes(const LoopMember& member) const
    {
        return member.compiles && (member.rowElements > 0) == byRow && Feeds(member.accesses) &&
               Takes(member.accesses, member.items.size() + 1, Shift(member.accesses, member.accesses),
                     member.rowElements % COLUMNS != 0);
    }
    // May all that the other loop does come behind what this one does, with what this one makes?
    bool Takes(const OpenLoop& other) const { return Feeds(other.accesses) && TakesAll(other); }
    // The same of a loop where both read half of the operands of one of them. Rows of three inputs that have but gamma
    // in common are better off alone.
    bool Shares(const OpenLoop& other) const
    {
        return accesses.size() + other.accesses.size() <= MAX_SHARING_OPERANDS && Shares(other.accesses) &&
               TakesAll(other);
    }
    void Add(LoopMember&& member)
    {
        steps.push_back(member.step);
        ragged_ = ragged_ || member.rowElements % COLUMNS != 0;
        size_t next = 0;  // of the accesses, which the items have in their order
        for (const SequenceNode& item : member.items) {
            const bool inMemory = item.operand != nullptr;
            const uint8_t operand = inMemory ? NumberOf(member.accesses[next++]) : LoopNode::NO_OPERAND;
            AddNode({item.kind, operand, 0, static_cast<uint16_t>(member.rowElements), 0, item.scalar});
        }
        AddNode({NodeKind::END, LoopNode::NO_OPERAND, 0, 0, 0, 0.0f});
        if (member.items.empty()) {
            accesses = std::move(member.accesses);
        }
        items.push_back(std::move(member.items));
    }
    void Add(OpenLoop&& other)
    {
        std::move(other.steps.begin(), other.steps.end(), std::back_inserter(steps));
        std::move(other.items.begin(), other.items.end(), std::back_inserter(items));
        ragged_ = ragged_ || other.ragged_;
        for (LoopNode node : other.nodes) {
            node.operand = node.operand == LoopNode::NO_OPERAND ? node.operand : NumberOf(other.accesses[node.operand]);
            AddNode(node);
        }
    }
    LoopForm Form() const
    {
        LoopForm form{rowElements > 0, {}, 0, rowElements > 0 ? rows : std::vector<LoopRows>{}, nodes, {}};
        for (size_t i = 0; i < accesses.size(); ++i) {
            form.inGm |= accesses[i].operand->origin == NO_ORIGIN ? 0 : 1ull << i;
        }
        return form;
    }

private:
    bool TakesAll(const OpenLoop& other) const
    {
        return other.compiles && other.byRow == byRow &&
               Takes(other.accesses, other.nodes.size(), other.shifts_, other.ragged_);
    }
    // Columns that are shifted are whole vectors.
    bool Takes(const MemoryAccesses& others, size_t moreNodes, bool shifts, bool ragged) const
    {
        return compiles && Fits(others) && !((shifts_ || shifts || Shift(accesses, others)) && (ragged_ || ragged)) &&
               nodes.size() + moreNodes <= MAX_LOOP_NODES && accesses.size() + others.size() <= MAX_LOOP_OPERANDS;
    }
    void AddNode(LoopNode node)
    {
        node.index = static_cast<uint16_t>(nodes.size());
        nodes.push_back(node);
    }
    // Its number among the accesses, which it is added to if it is new.
    uint8_t NumberOf(const MemoryAccess& access)
    {
        const auto known = std::find_if(accesses.begin(), accesses.end(),
                                        [&access](const MemoryAccess& other) { return other.SameMemory(access); });
        const auto number = static_cast<uint8_t>(known - accesses.begin());
        if (known == accesses.end()) {
            rows.push_back(RowsOf(access));
            accesses.push_back(access);
        } else {
            known->reads = known->reads || access.reads;
            known->writes = known->writes || access.writes;
            known->elements = std::max(known->elements, access.elements);
        }
        return number;
    }
    // Of a new one.
    LoopRows RowsOf(const MemoryAccess& access)
    {
        for (size_t i = 0; i < accesses.size(); ++i) {
            if (accesses[i].SharesRows(access)) {
                shifts_ = true;
                return {access.stride, rows[i].whole, rows[i].column + accesses[i].ColumnsTo(access)};
            }
        }
        return {access.stride, static_cast<uint32_t>(accesses.size()), 0};
    }
    // Do they read results of the loop?
    bool Feeds(const MemoryAccesses& others) const
    {
        return std::any_of(others.begin(), others.end(), [this](const MemoryAccess& read) {
            return read.reads && std::any_of(accesses.begin(), accesses.end(), [&read](const MemoryAccess& made) {
                       const bool columns = made.SharesRows(read) && !made.IsBeside(read);
                       return made.writes && (made.SameMemory(read) || columns);
                   });
        });
    }
    bool Shares(const MemoryAccesses& others) const
    {
        const auto isInput = [](const MemoryAccess& access) { return access.IsInput(); };
        const auto isShared = [this](const MemoryAccess& read) {
            return read.IsInput() && std::any_of(accesses.begin(), accesses.end(), [&read](const MemoryAccess& mine) {
                       return mine.IsInput() && mine.SameMemory(read);
                   });
        };
        const auto shared = std::count_if(others.begin(), others.end(), isShared);
        return shared > 0 && 2 * shared >= std::min(std::count_if(accesses.begin(), accesses.end(), isInput),
                                                    std::count_if(others.begin(), others.end(), isInput));
    }
    // Is all that they access the same memory as something that is touched already, other columns of it, or apart from
    // it?
    bool Fits(const MemoryAccesses& others) const
    {
        return std::all_of(others.begin(), others.end(), [&](const MemoryAccess& a) {
            return std::all_of(accesses.begin(), accesses.end(),
                               [&a](const MemoryAccess& b) { return a.MayFollow(b) || a.SharesRows(b); });
        });
    }
    bool shifts_ = false;  // nodes work on different columns of the same rows
    bool ragged_ = false;  // a row is no whole number of COLUMNS
};

// Loop `last` has a new step that may use results of other loops, too: these are merged.
void Unite(std::vector<OpenLoop>& loops, size_t last)
{
    for (size_t i = last; i-- > 0 && last - i <= MAX_BACK;) {
        if (loops[i].Takes(loops[last])) {
            loops[i].Add(std::move(loops[last]));
            loops.erase(loops.begin() + static_cast<std::ptrdiff_t>(last));
            last = i;
        } else if (Conflict(loops[i].accesses, loops[last].accesses)) {
            return;
        }
    }
}

// Does the loop share nothing with the others but inputs, and do these fit the L1 data cache beside a row?
bool IsAlone(const OpenLoop& loop, const std::vector<OpenLoop>& loops)
{
    constexpr int64_t MOST_SHARED = 16 * 1024;
    int64_t shared = 0;
    for (const MemoryAccess& mine : loop.accesses) {
        bool overlaps = false;
        for (const OpenLoop& other : loops) {
            if (&other == &loop) {
                continue;
            }
            for (const MemoryAccess& theirs : other.accesses) {
                if (mine.Conflicts(theirs)) {
                    return false;
                }
                overlaps = overlaps || Overlap(*mine.operand, *theirs.operand);
            }
        }
        shared += overlaps ? mine.operand->end - mine.operand->base : 0;
    }
    return shared <= MOST_SHARED;
}

// Loops that read the same become one, which reads it once.
void UniteReaders(std::vector<OpenLoop>& loops)
{
    for (size_t last = 1; last < loops.size();) {
        size_t taker = last;
        for (size_t i = last; i-- > 0 && last - i <= MAX_BACK;) {
            if (loops[i].Shares(loops[last])) {
                taker = i;
                break;
            }
            if (Conflict(loops[i].accesses, loops[last].accesses)) {
                break;
            }
        }
        if (taker == last) {
            ++last;
            continue;
        }
        loops[taker].Add(std::move(loops[last]));
        loops.erase(loops.begin() + static_cast<std::ptrdiff_t>(last));
    }
}

void AddToLoops(LoopMember&& member, std::vector<OpenLoop>& loops)
{
    for (size_t i = loops.size(); !member.items.empty() && i-- > 0 && loops.size() - i <= MAX_BACK;) {
        if (loops[i].Takes(member)) {
            loops[i].Add(std::move(member));
            Unite(loops, i);
            return;
        }
        if (Conflict(loops[i].accesses, member.accesses)) {
            break;
        }
    }
    loops.emplace_back(std::move(member));
}

// The type of the elements that a copy brings in from global memory: as the first step behind it in the group reads
// them, whole rows with the padding between; NONE: it does something else with them.
NodeAccess TypeOfUse(const Instruction& copy, const std::vector<Step>& list, uint32_t step, const Group& group,
                     const std::vector<Instruction>& instructions)
{
    // Where a row ends within a vector, the rest of that comes from memory, behind the store of the row's last
    // elements: the CPU waits for it, which in shorter rows takes longer than the copy by itself.
    constexpr uint32_t LEAST_BYTES = 256;
    const Operand& to = copy.operands[0];
    if (to.extent < LEAST_BYTES) {
        return NodeAccess::NONE;
    }
    for (uint32_t k = step + 1; k < list.size() && list[k].group == list[step].group; ++k) {
        if (list[k].parts.empty()) {
            continue;
        }
        const LoopMember user = MemberOf(k, list[k], group, instructions, NodeAccess::NONE);
        for (const MemoryAccess& access : user.accesses) {
            if (Overlap(*access.operand, to)) {
                const bool same = user.compiles && access.reads && access.operand->base == to.base &&
                                  access.stride == to.stride && access.Bytes() == to.stride;
                return same ? access.kind : NodeAccess::NONE;
            }
        }
    }
    return NodeAccess::NONE;
}

// The type of the elements that a copy takes from the result of a loop, or from global memory; NONE:
// that is not known, or no such copy.
NodeAccess TypeOfCopy(const std::vector<Step>& list, uint32_t step, const Group& group,
                      const std::vector<Instruction>& instructions, const std::vector<OpenLoop>& loops)
{
    const Instruction& instruction = instructions[list[step].parts[0]];
    if (instruction.operation.opcode != Opcode::COPY || (instruction.lanes == 1 && group.elements > 1)) {
        return NodeAccess::NONE;
    }
    const Operand& from = instruction.operands[1];
    if (from.origin != NO_ORIGIN) {
        return instruction.units == group.units ? TypeOfUse(instruction, list, step, group, instructions)
                                                : NodeAccess::NONE;
    }
    for (size_t i = loops.size(); i-- > 0;) {
        for (const MemoryAccess& access : loops[i].accesses) {
            const bool same = access.writes && access.operand->base == from.base && access.stride == from.stride;
            if (same && access.kind != NodeAccess::LANES && access.kind != NodeAccess::NONE) {
                return access.kind;
            }
        }
    }
    return NodeAccess::NONE;
}

// Not for few elements; and a single instruction has a loop of its own in the library, but for sums, which that keeps
// in memory, and for stores to global memory, which it cannot make non-temporal.
bool WorthCompiling(const OpenLoop& loop, const Steps& steps)
{
    constexpr uint32_t LEAST_ELEMENTS = 2 * LOOP_ELEMENTS;
    const bool collects = std::any_of(loop.items[0].begin(), loop.items[0].end(),
                                      [](const SequenceNode& item) { return Collects(item.kind); });
    const bool toGm = std::any_of(loop.accesses.begin(), loop.accesses.end(), [](const MemoryAccess& access) {
        return access.writes && access.operand->origin != NO_ORIGIN;
    });
    const bool byElement = loop.rowElements == 0;
    return loop.compiles && loop.units * (byElement ? 1 : loop.rowElements) >= LEAST_ELEMENTS &&
           (loop.steps.size() > 1 || (byElement && (steps.List()[loop.steps[0]].mustFuse || collects || toGm)));
}

}  // namespace

std::vector<FusedLoop> FindFusedLoops(const Steps& steps, const Groups& groups,
                                      const std::vector<Instruction>& instructions, const Ranges& needed)
{
    const std::vector<Step>& list = steps.List();
    std::vector<OpenLoop> open;
    for (uint32_t begin = 0; begin < list.size();) {
        const uint32_t group = list[begin].group;
        std::vector<OpenLoop> loops;
        uint32_t end = begin;
        for (; end < list.size() && list[end].group == group; ++end) {
            if (!list[end].parts.empty()) {
                const Group& whole = groups.List()[group];
                const NodeAccess copied = TypeOfCopy(list, end, whole, instructions, loops);
                AddToLoops(MemberOf(end, list[end], whole, instructions, copied), loops);
            }
        }
        UniteReaders(loops);
        for (OpenLoop& loop : loops) {
            loop.alone = IsAlone(loop, loops);
        }
        std::move(loops.begin(), loops.end(), std::back_inserter(open));
        begin = end;
    }
    std::vector<FusedLoop> found(open.size());
    Liveness liveness(steps, instructions, needed);
    for (size_t i = open.size(); i-- > 0;) {
        LoopForm form = WorthCompiling(open[i], steps) ? open[i].Form() : LoopForm{};
        found[i] = {std::move(open[i].steps), std::move(open[i].items), std::move(form), open[i].alone};
        liveness.Pass(found[i]);
    }
    return found;
}

}  // namespace host
}  // namespace AscendC
