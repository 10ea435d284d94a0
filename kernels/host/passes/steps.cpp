#include "passes/steps.h"

#include <algorithm>

#include "passes/rematerialization.h"

namespace AscendC {
namespace host {

namespace {

// How far back a fused sequence is looked for that an instruction may extend.
constexpr uint32_t MOST_OPEN = 64;

void AddRows(const Operand& operand, uint32_t units, Ranges& ranges)
{
    if (operand.stride <= static_cast<int64_t>(operand.extent)) {
        ranges.Add(SpanOf(operand, units));
        return;
    }
    for (uint32_t u = 0; u < units; ++u) {
        const char* const row = operand.base + operand.stride * u;
        ranges.Add({row, row + operand.extent});
    }
}

// Of rows that lie apart: how many, if they are few enough to be told apart; else 0.
uint32_t RowsApart(const Operand& operand)
{
    constexpr int64_t MOST_ROWS = 64;
    const int64_t extent = operand.extent;
    const int64_t rows = operand.stride > extent ? (operand.end - operand.base - extent) / operand.stride + 1 : 0;
    return rows <= MOST_ROWS ? static_cast<uint32_t>(rows) : 0;
}

void AddRead(const Operand& operand, Ranges& needed)
{
    if (operand.origin != NO_ORIGIN) {
        return;
    }
    if (const uint32_t rows = RowsApart(operand); rows > 0) {
        AddRows(operand, rows, needed);
    } else {
        needed.Add(SpanOf(operand));
    }
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

// A store that is the last to use a rounded value can round it itself.
void RoundInStore(std::vector<SequenceNode>& items)
{
    const size_t count = items.size();
    if (count < 2) {
        return;
    }
    const NodeKind round = items[count - 2].kind;
    SequenceNode& store = items[count - 1];
    if (round == NodeKind::ROUND_BFLOAT16 && store.kind == NodeKind::STORE_BFLOAT16) {
        store.kind = NodeKind::CAST_BFLOAT16;
        items.erase(items.end() - 2);
    } else if (round == NodeKind::ROUND_HALF && store.kind == NodeKind::STORE_HALF) {
        items.erase(items.end() - 2);
    }
}

}  // namespace

void Steps::Clear()
{
    steps_.clear();
    numbers_.clear();
    killed_.clear();
    open_.clear();
}

void Steps::Close(uint32_t group)
{
    for (Open& open : open_) {
        Step step{group, std::move(open.parts), open.sequence.Items(), open.sequence.PartOf(),
                  open.sequence.Length() > 1 || open.sequence.ReadsNarrow()};
        steps_.push_back(std::move(step));
    }
    open_.clear();
}

// Takes `instruction` into a fused sequence, the latest that it can extend, if it may run before all steps behind that.
// A fused sequence that only casts is second choice: the others can cast for themselves.
bool Steps::ExtendOpen(Instruction& instruction, uint32_t index, const NarrowSources& narrow,
                       const std::vector<Instruction>& instructions)
{
    return ExtendOpen(instruction, index, narrow, instructions, false) ||
           ExtendOpen(instruction, index, narrow, instructions, true);
}

bool Steps::ExtendOpen(Instruction& instruction, uint32_t index, const NarrowSources& narrow,
                       const std::vector<Instruction>& instructions, bool casts)
{
    const Instruction original = instruction;
    Instruction reads = instruction;
    for (uint32_t i = 1; i < reads.operandCount && !casts; ++i) {
        if (narrow[i].type != ElementType::FLOAT && FusedSequence::CastsItself(instruction)) {
            reads.operands[i] = narrow[i].operand;
        }
    }
    bool overwritten = false;
    for (uint32_t i = static_cast<uint32_t>(open_.size()); i-- > 0 && open_.size() - i <= MOST_OPEN;) {
        Open& open = open_[i];
        if (open.sequence.Length() > 0 && (casts || !open.sequence.OnlyCasts()) &&
            open.sequence.Extend(instruction, narrow, overwritten)) {
            open.parts.push_back(index);
            return true;
        }
        instruction = original;
        for (const uint32_t part : open.parts) {
            if (Depends(reads, instructions[part])) {
                return false;
            }
            overwritten = overwritten || Depends(original, instructions[part]);
        }
    }
    return false;
}

void Steps::Find(const Groups& groups, std::vector<Instruction>& instructions)
{
    const std::vector<Instruction>& all = groups.Instructions();
    const std::vector<NarrowSources> narrow = FindNarrowSources(all, killed_);
    instructions.clear();
    instructions.reserve(all.size());  // fused sequences point into it
    for (uint32_t g = 0; g < groups.List().size(); ++g) {
        const Group& group = groups.List()[g];
        for (const uint32_t i : group.members) {
            const uint32_t index = static_cast<uint32_t>(instructions.size());
            instructions.push_back(all[i]);
            numbers_.push_back(i);
            const bool sequences = group.elements == 1;
            if (sequences && ExtendOpen(instructions.back(), index, narrow[i], instructions)) {
                continue;
            }
            open_.push_back({{index}, {}});
            if (!sequences || !open_.back().sequence.Extend(instructions.back(), narrow[i])) {
                instructions.back() = all[i];
            }
        }
        Close(g);
    }
    Rematerialize(steps_, instructions, numbers_, killed_);
}

// ---- dead-store elimination

// Everything behind instruction `number` has been looked at: bytes killed there are dead before.
void Steps::Pass(uint32_t number, Ranges& needed)
{
    while (passed_ > 0 && killed_[passed_ - 1].number > number) {
        needed.Remove(killed_[--passed_].span);
    }
}

// Sets kept[number] if the item stays. `kept`: which of those behind it do.
void Steps::EliminateNode(const Step& step, uint32_t number, std::vector<bool>& kept, Ranges& needed) const
{
    const SequenceNode& item = step.items[number];
    if (Stores(item.kind)) {
        if (IsUnread(*item.operand, needed)) {
            return;
        }
        needed.Remove(SpanOf(*item.operand));
    } else if (!Collects(item.kind) && std::find(kept.begin() + number, kept.end(), true) == kept.end()) {
        return;  // the value is dead
    } else if (item.operand != nullptr) {
        AddRead(*item.operand, needed);
    }
    kept[number] = true;
}

void Steps::EliminateInstruction(Step& step, const Instruction& instruction, Ranges& needed) const
{
    const Operand& to = instruction.operands[0];
    if (IsUnread(to, needed)) {
        step.parts.clear();
        return;
    }
    if (FillsSpan(to)) {
        needed.Remove(SpanOf(to));
    }
    for (uint32_t i = 1; i < instruction.operandCount; ++i) {
        AddRead(instruction.operands[i], needed);
    }
}

void Steps::EliminateDeadStores(Ranges needed, const std::vector<Instruction>& instructions)
{
    passed_ = static_cast<uint32_t>(killed_.size());
    // Backwards in the order of the program: copies out may have left it, and fused sequences may extend past others.
    struct Place {
        uint32_t number;  // of the instruction
        uint32_t step;
        uint32_t item;
    };
    std::vector<Place> order;
    std::vector<std::vector<bool>> kept(steps_.size());
    for (uint32_t i = 0; i < steps_.size(); ++i) {
        const Step& step = steps_[i];
        const uint32_t count = static_cast<uint32_t>(step.items.size());
        kept[i].resize(count);
        uint32_t least = UINT32_MAX;
        for (uint32_t k = count; k-- > 0;) {
            // A node of a fused sequence may come from an instruction behind those of the nodes after it.
            const uint32_t number = numbers_[step.parts[step.partOf[k]]];
            least = std::min(least, number);
            const bool acts = Stores(step.items[k].kind) || Collects(step.items[k].kind);
            order.push_back({acts ? number : least, i, k});
        }
        if (count == 0) {
            order.push_back({numbers_[step.parts[0]], i, 0});
        }
    }
    std::sort(order.begin(), order.end(), [](const Place& a, const Place& b) {
        return a.number != b.number ? a.number > b.number : a.item > b.item;
    });
    for (const Place& place : order) {
        Step& step = steps_[place.step];
        Pass(place.number, needed);
        if (step.items.empty()) {
            EliminateInstruction(step, instructions[step.parts[0]], needed);
        } else {
            EliminateNode(step, place.item, kept[place.step], needed);
        }
    }
    for (uint32_t i = 0; i < steps_.size(); ++i) {
        Step& step = steps_[i];
        if (step.items.empty()) {
            continue;
        }
        std::vector<SequenceNode> items;
        for (uint32_t k = 0; k < step.items.size(); ++k) {
            if (kept[i][k]) {
                items.push_back(step.items[k]);
            }
        }
        step.items = std::move(items);
        RoundInStore(step.items);
        if (step.items.empty()) {
            step.parts.clear();
        }
    }
}

// ---- between programs

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
                read.Add(SpanOf(instruction.operands[a], instruction.units));
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
            AddRows(instruction.operands[0], instruction.units, written);
        }
    }
    for (const Span& span : readFirst.Spans()) {
        written.Remove(span);
    }
    return written;
}

}  // namespace host
}  // namespace AscendC
