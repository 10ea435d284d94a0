#include "passes/fused_loops.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "passes/liveness.h"
#include "passes/loop_members.h"

namespace AscendC {
namespace host {

namespace {

constexpr size_t MAX_LOOP_INSTRUCTIONS = 80;
constexpr size_t MAX_LOOP_OPERANDS = 48;  // of several instructions
// Instructions that share only what they read may have fewer operands: the registers do not last for more.
constexpr size_t MAX_SHARING_OPERANDS = 32;
// An instruction may join a loop that began at most so far back.
constexpr uint32_t MAX_BACK = 64;

// Builds a loop: instructions are added to it.
struct OpenLoop {
    std::vector<uint32_t> members;
    std::vector<LoopInstruction> instructions;
    MemoryAccesses accesses;     // nothing twice; what it reads is what others have made
    std::vector<LoopRows> rows;  // of each of them
    uint32_t iterations = 0;
    uint32_t rowElements = 0;  // of the first instruction
    bool byRow = false;
    bool compiles = false;

    explicit OpenLoop(LoopMember&& first)
        : iterations(first.iterations),
          rowElements(first.rowElements),
          byRow(first.rowElements > 0),
          compiles(first.compiles)
    {
        if (compiles) {
            Add(first);
        } else {
            members.push_back(first.instruction);
            accesses = std::move(first.accesses);
        }
    }
    // May the instruction become part of it?
    bool Takes(const LoopMember& member) const
    {
        return member.compiles && (member.rowElements > 0) == byRow && Feeds(member.accesses) &&
               Takes(member.accesses, 1, Shift(member.accesses, member.accesses), member.rowElements % COLUMNS != 0);
    }
    // May all that the other loop does come behind what this one does, with what this one makes?
    bool Takes(const OpenLoop& other) const { return Feeds(other.accesses) && TakesAll(other); }
    // May it come behind where both read half of the inputs of one of them? Rows of three inputs that have but gamma in
    // common are better off alone.
    bool Shares(const OpenLoop& other) const
    {
        return accesses.size() + other.accesses.size() <= MAX_SHARING_OPERANDS && Shares(other.accesses) &&
               TakesAll(other);
    }
    void Add(const LoopMember& member)
    {
        members.push_back(member.instruction);
        ragged_ = ragged_ || member.rowElements % COLUMNS != 0;
        LoopInstruction instruction{member.operation, member.scalar, static_cast<uint16_t>(member.rowElements), {}};
        for (size_t i = member.accesses.size(); i-- > 0;) {  // an instruction reads before it writes
            instruction.operands[i] = NumberOf(member.accesses[i]);
        }
        instructions.push_back(instruction);
    }
    void Add(OpenLoop&& other)
    {
        std::move(other.members.begin(), other.members.end(), std::back_inserter(members));
        ragged_ = ragged_ || other.ragged_;
        std::vector<uint8_t> numbers;
        for (const MemoryAccess& access : other.accesses) {
            numbers.push_back(NumberOf(access));
        }
        for (LoopInstruction instruction : other.instructions) {
            for (uint8_t& operand : instruction.operands) {
                operand = numbers[operand];
            }
            instructions.push_back(instruction);
        }
    }
    LoopForm Form() const
    {
        LoopForm form;
        form.byRow = byRow;
        form.rows = byRow ? rows : std::vector<LoopRows>{};
        ValueGraph graph(form.rows);
        for (const LoopInstruction& instruction : instructions) {
            graph.Add(instruction);
        }
        form.values = std::move(graph.Values());
        return form;
    }

private:
    bool TakesAll(const OpenLoop& other) const
    {
        return other.compiles && other.byRow == byRow &&
               Takes(other.accesses, other.members.size(), other.shifts_, other.ragged_);
    }
    // Columns that are shifted are whole vectors.
    bool Takes(const MemoryAccesses& others, size_t more, bool shifts, bool ragged) const
    {
        return compiles && Fits(others) && !((shifts_ || shifts || Shift(accesses, others)) && (ragged_ || ragged)) &&
               members.size() + more <= MAX_LOOP_INSTRUCTIONS && accesses.size() + others.size() <= MAX_LOOP_OPERANDS;
    }
    // Returns its number among the accesses, which it is added to if it is new.
    uint8_t NumberOf(const MemoryAccess& access)
    {
        const auto known = std::find_if(accesses.begin(), accesses.end(),
                                        [&access](const MemoryAccess& other) { return other.SameMemory(access); });
        const auto number = static_cast<uint8_t>(known - accesses.begin());
        if (known == accesses.end()) {
            rows.push_back(RowsOf(access));
            accesses.push_back(access);
        } else {
            const bool made = known->writes && access.elements <= known->elements;
            known->reads = known->reads || (access.reads && !made);
            known->writes = known->writes || access.writes;
            known->elements = std::max(known->elements, access.elements);
        }
        return number;
    }
    // Makes the rows of a new one.
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
    bool shifts_ = false;  // instructions work on different columns of the same rows
    bool ragged_ = false;  // a row is no whole number of COLUMNS
};

// Loop `last` has a new instruction that may use results of other loops, too: these are merged.
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
    for (size_t i = loops.size(); member.compiles && i-- > 0 && loops.size() - i <= MAX_BACK;) {
        if (loops[i].Takes(member)) {
            loops[i].Add(member);
            Unite(loops, i);
            return;
        }
        if (Conflict(loops[i].accesses, member.accesses)) {
            break;
        }
    }
    loops.emplace_back(std::move(member));
}

// Finds the loops of a group.
class GroupLoops {
public:
    GroupLoops(const Group& group, const std::vector<Instruction>& instructions)
        : group_(group), instructions_(instructions)
    {}

    std::vector<OpenLoop> Find()
    {
        for (size_t i = 0; i < group_.members.size(); ++i) {
            const uint32_t member = group_.members[i];
            AddToLoops(MemberOf(member, group_, instructions_, TypeOfCopy(i)), loops_);
        }
        UniteReaders(loops_);
        return std::move(loops_);
    }

private:
    // Returns the type of the elements that a copy takes from the result of a loop, or from global memory; OTHER: that
    // is not known, or it is no such copy.
    Access TypeOfCopy(size_t place) const
    {
        const Instruction& copy = instructions_[group_.members[place]];
        if (copy.operation.opcode != Opcode::COPY || (copy.lanes == 1 && group_.elements > 1)) {
            return Access::OTHER;
        }
        const Operand& from = copy.operands[1];
        if (from.origin != NO_ORIGIN) {
            return copy.iterations == group_.iterations ? TypeOfUse(copy, place) : Access::OTHER;
        }
        for (size_t i = loops_.size(); i-- > 0;) {
            for (const MemoryAccess& access : loops_[i].accesses) {
                if (access.writes && access.HasElements() && access.operand->base == from.base &&
                    access.stride == from.stride) {
                    return access.kind;
                }
            }
        }
        return Access::OTHER;
    }
    // Returns the type of the elements that a copy brings in from global memory: as the first instruction behind it in
    // the group reads them, whole rows with the padding between; OTHER: it does something else with them.
    Access TypeOfUse(const Instruction& copy, size_t place) const
    {
        // If a row ends within a vector, the other elements of that vector come from memory, behind the store of the
        // row's last elements: the CPU waits for it, which in shorter rows takes longer than the copy by itself.
        constexpr uint32_t LEAST_BYTES = 256;
        const Operand& to = copy.operands[0];
        if (to.extent < LEAST_BYTES) {
            return Access::OTHER;
        }
        for (size_t i = place + 1; i < group_.members.size(); ++i) {
            const LoopMember user = MemberOf(group_.members[i], group_, instructions_, Access::OTHER);
            for (size_t a = user.accesses.size(); a-- > 0;) {  // it reads before it writes
                const MemoryAccess& access = user.accesses[a];
                if (Overlap(*access.operand, to)) {
                    const bool same = user.compiles && access.reads && access.HasElements() &&
                                      access.operand->base == to.base && access.stride == to.stride &&
                                      access.Bytes() == to.stride;
                    return same ? access.kind : Access::OTHER;
                }
            }
        }
        return Access::OTHER;
    }

    const Group& group_;
    const std::vector<Instruction>& instructions_;
    std::vector<OpenLoop> loops_;
};

// Loops of several instructions are always worth it. A single one has a loop of its own in the library, which is as
// fast but for sums, which it keeps in memory, and for stores to global memory, which it cannot make non-temporal.
// For these compiled code is worth it if they have many elements.
bool WorthCompiling(const OpenLoop& loop)
{
    constexpr uint32_t LEAST_ELEMENTS = 2 * LOOP_ELEMENTS;
    const bool gains = std::any_of(loop.accesses.begin(), loop.accesses.end(), [](const MemoryAccess& access) {
        return access.kind == Access::LANES || (access.writes && access.operand->origin != NO_ORIGIN);
    });
    return loop.compiles && (loop.members.size() > 1 || (!loop.byRow && gains && loop.iterations >= LEAST_ELEMENTS));
}

// Keeps the operands that values access, in the order in which they do: forms that differ in what is left out
// are the same.
void KeepUsedOperands(FusedLoop& loop)
{
    LoopForm& form = loop.form;
    const std::vector<LoopOperand> operands = std::move(loop.operands);
    const std::vector<LoopRows> rows = std::move(form.rows);
    std::vector<uint8_t> number(operands.size(), Value::NO_OPERAND);
    std::vector<uint8_t> wholes;  // of each that stays: the operand it was a part of
    loop.operands.clear();
    form.rows.clear();
    form.inGm = 0;
    for (Value& value : form.values) {
        if (value.operand == Value::NO_OPERAND) {
            continue;
        }
        uint8_t& now = number[value.operand];
        if (now == Value::NO_OPERAND) {
            now = static_cast<uint8_t>(loop.operands.size());
            const LoopOperand& operand = operands[value.operand];
            form.inGm |= operand.memory.origin == NO_ORIGIN ? 0 : 1ull << now;
            loop.operands.push_back({operand.memory, false});
            if (form.byRow) {
                LoopRows part = rows[value.operand];
                const auto whole = std::find(wholes.begin(), wholes.end(), part.whole);
                const size_t first = static_cast<size_t>(whole - wholes.begin());
                wholes.push_back(static_cast<uint8_t>(part.whole));
                part.whole = static_cast<uint32_t>(first);
                form.rows.push_back(part);
            }
        }
        value.operand = now;
        loop.operands[now].isWritten = loop.operands[now].isWritten || value.HasEffect();
    }
    for (size_t i = form.rows.size(); i-- > 0;) {  // columns count from the first that stays
        form.rows[i].column -= form.rows[form.rows[i].whole].column;
    }
}

// Does the loop share nothing with others of its group but inputs, and do these fit the L1 data cache beside a row?
bool IsAlone(const FusedLoop& loop, const std::vector<FusedLoop>& loops)
{
    constexpr int64_t MOST_SHARED = 16 * 1024;
    int64_t shared = 0;
    for (const LoopOperand& mine : loop.operands) {
        bool overlaps = false;
        for (const FusedLoop& other : loops) {
            if (&other == &loop || other.group != loop.group) {
                continue;
            }
            for (const LoopOperand& theirs : other.operands) {
                const bool both = Overlap(mine.memory, theirs.memory);
                if (both && (mine.isWritten || theirs.isWritten)) {
                    return false;
                }
                overlaps = overlaps || both;
            }
        }
        shared += overlaps ? mine.memory.end - mine.memory.base : 0;
    }
    return shared <= MOST_SHARED;
}

}  // namespace

std::vector<FusedLoop> FindFusedLoops(const std::vector<Group>& groups, const std::vector<Instruction>& instructions,
                                      const ProgramOrder& order, const Ranges& needed)
{
    std::vector<FusedLoop> found;
    for (uint32_t g = 0; g < groups.size(); ++g) {
        for (const OpenLoop& open : GroupLoops(groups[g], instructions).Find()) {
            FusedLoop loop{g, open.members, {}, WorthCompiling(open) ? open.Form() : LoopForm{}, false};
            loop.form.hasTail = !open.byRow && (open.iterations % LOOP_ELEMENTS != 0 || groups[g].elements > 1);
            for (const MemoryAccess& access : open.accesses) {
                loop.operands.push_back({*access.operand, access.writes});
            }
            found.push_back(std::move(loop));
        }
    }
    Liveness liveness(instructions, order, needed);
    for (size_t i = found.size(); i-- > 0;) {
        liveness.Pass(found[i]);
        if (!found[i].form.values.empty()) {
            KeepUsedOperands(found[i]);
        }
    }
    for (FusedLoop& loop : found) {
        loop.alone = IsAlone(loop, found);
    }
    return found;
}

}  // namespace host
}  // namespace AscendC
