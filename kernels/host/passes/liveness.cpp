#include "passes/liveness.h"

#include <algorithm>

namespace AscendC {
namespace host {

namespace {

void AddRows(const Operand& operand, uint32_t iterations, Ranges& ranges)
{
    if (operand.stride <= static_cast<int64_t>(operand.extent)) {
        ranges.Add(SpanOf(operand, iterations));
        return;
    }
    for (uint32_t u = 0; u < iterations; ++u) {
        const char* const row = operand.base + operand.stride * u;
        ranges.Add({row, row + operand.extent});
    }
}

// Returns how many rows lie apart, if they are few enough to be told apart; else 0.
uint32_t RowsApart(const Operand& operand)
{
    constexpr int64_t MOST_ROWS = 64;
    const int64_t extent = operand.extent;
    const int64_t rows = operand.stride > extent ? (operand.end - operand.base - extent) / operand.stride + 1 : 0;
    return rows <= MOST_ROWS ? static_cast<uint32_t>(rows) : 0;
}

bool IsUnread(const Operand& written, const Ranges& needed)
{
    if (written.origin != NO_ORIGIN || !needed.Overlaps(SpanOf(written))) {
        return written.origin == NO_ORIGIN;
    }
    const uint32_t rows = RowsApart(written);
    for (uint32_t row = 0; row < rows; ++row) {
        const char* const begin = written.base + written.stride * row;
        if (needed.Overlaps({begin, begin + written.extent})) {
            return false;
        }
    }
    return rows > 0;
}

// Before the instruction these bytes are needed.
void PassInstruction(const Instruction& instruction, Ranges& needed)
{
    const Operand& to = instruction.operands[0];
    if (to.origin == NO_ORIGIN && FillsSpan(to)) {
        needed.Remove(SpanOf(to));
    }
    for (uint32_t i = 1; i < instruction.operandCount; ++i) {
        const Operand& from = instruction.operands[i];
        if (from.origin != NO_ORIGIN) {
            continue;
        }
        if (const uint32_t rows = RowsApart(from); rows > 0) {
            AddRows(from, rows, needed);
        } else {
            needed.Add(SpanOf(from));
        }
    }
}

// Does one store write all that the other one does?
bool Covers(const LoopForm& form, const Value& store, const Value& other)
{
    if (!form.byRow) {
        return store.operand == other.operand;
    }
    const LoopRows& rows = form.rows[store.operand];
    const LoopRows& others = form.rows[other.operand];
    return rows.whole == others.whole && rows.column <= others.column &&
           rows.column + store.elements >= others.column + other.elements;
}

}  // namespace

Ranges WrittenFirst(const Instruction* instructions, uint32_t count)
{
    Ranges written;
    Ranges readFirst;
    for (uint32_t i = 0; i < count; ++i) {
        const Instruction& instruction = instructions[i];
        const bool out =
            instruction.kind == InstructionKind::COPY_OUT || instruction.kind == InstructionKind::COPY_OUT_ADD;
        if (instruction.kind == InstructionKind::VECTOR || out) {
            for (uint32_t a = 1; a < instruction.operandCount; ++a) {
                Ranges read;
                read.Add(SpanOf(instruction.operands[a], instruction.iterations));
                for (const Span& known : written.Spans()) {
                    read.Remove(known);
                }
                for (const Span& span : read.Spans()) {
                    readFirst.Add(span);
                }
            }
        }
        if (instruction.kind == InstructionKind::VECTOR || instruction.kind == InstructionKind::COPY_IN ||
            instruction.kind == InstructionKind::DISCARD) {
            AddRows(instruction.operands[0], instruction.iterations, written);
        }
    }
    for (const Span& span : readFirst.Spans()) {
        written.Remove(span);
    }
    return written;
}

void EliminateDeadInstructions(std::vector<Group>& groups, const std::vector<Instruction>& instructions,
                               const ProgramOrder& order, Ranges needed)
{
    // Backwards in the order of the program: copies out may have left it.
    std::vector<uint32_t> members;
    for (const Group& group : groups) {
        members.insert(members.end(), group.members.begin(), group.members.end());
    }
    std::stable_sort(members.begin(), members.end(),
                     [&](uint32_t a, uint32_t b) { return order.numbers[a] < order.numbers[b]; });
    std::vector<bool> dead(instructions.size(), false);
    size_t killed = order.killed.size();
    for (size_t i = members.size(); i-- > 0;) {
        const Instruction& instruction = instructions[members[i]];
        while (killed > 0 && order.killed[killed - 1].number > order.numbers[members[i]]) {
            needed.Remove(order.killed[--killed].span);
        }
        dead[members[i]] = IsUnread(instruction.operands[0], needed);
        if (!dead[members[i]]) {
            PassInstruction(instruction, needed);
        }
    }
    for (Group& group : groups) {
        group.members.erase(
            std::remove_if(group.members.begin(), group.members.end(), [&](uint32_t i) { return dead[i]; }),
            group.members.end());
    }
}

void Liveness::Pass(FusedLoop& loop)
{
    Kill(loop);
    MarkNeeded(loop);
    for (size_t i = loop.instructions.size(); i-- > 0;) {
        PassInstruction(instructions_[loop.instructions[i]], needed_);
    }
}

// Kills the bytes that were given up behind the loop, if no instruction of before that has been passed.
void Liveness::Kill(const FusedLoop& loop)
{
    uint32_t last = 0;
    uint32_t first = UINT32_MAX;
    for (const uint32_t i : loop.instructions) {
        last = std::max(last, order_.numbers[i]);
        first = std::min(first, order_.numbers[i]);
    }
    while (killed_ > 0 && order_.killed[killed_ - 1].number > last) {
        const Killed& killed = order_.killed[--killed_];
        if (killed.number <= lowest_) {
            needed_.Remove(killed.span);
        }
    }
    lowest_ = std::min(lowest_, first);
}

void Liveness::MarkNeeded(FusedLoop& loop) const
{
    std::vector<Value>& values = loop.form.values;
    std::vector<const Value*> stored;
    for (size_t i = values.size(); i-- > 0;) {
        Value& value = values[i];
        if (value.kind != ValueKind::STORE) {
            continue;
        }
        const bool last = std::none_of(stored.begin(), stored.end(),
                                       [&](const Value* later) { return Covers(loop.form, *later, value); });
        stored.push_back(&value);
        const Operand& to = loop.operands[value.operand].memory;
        value.need = !last                          ? Need::NONE
                     : to.origin != NO_ORIGIN       ? Need::IN_GM
                     : needed_.Overlaps(SpanOf(to)) ? Need::IN_UB
                                                    : Need::NONE;
    }
    OrderByNeed(values, loop.form.rows);
}

}  // namespace host
}  // namespace AscendC
