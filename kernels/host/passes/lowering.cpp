/*!
 * Lowering: from the groups and fused loops of a program to the schedule that cores run.
 */
#include <algorithm>

#include "passes/cost_model.h"
#include "passes/scheduler.h"
#include "passes/straight_line.h"
#include "simd/vector_unit.h"

namespace AscendC {
namespace host {

namespace {

constexpr uint32_t GRANULE = 128;  // elements in a repeat of the narrowest type

uint32_t StripOf(const Group& group)
{
    if (group.members.size() == 1) {
        return group.units;
    }
    const uint32_t strip = group.elements == 1 ? STRIP_ELEMENTS : std::max(STRIP_ELEMENTS / group.elements, 1U);
    return group.granular ? (strip + GRANULE - 1) / GRANULE * GRANULE : strip;
}

constexpr uint32_t WIDE_BYTES = 8 * 1024;

// As many units as leave the steps without code, which touch so much of each, within the L1 data cache.
uint32_t WideStrip(uint32_t strip, uint32_t bytes)
{
    const uint32_t most = bytes == 0 ? WIDE_BYTES : WIDE_BYTES / bytes;
    return std::max(strip, most / strip * strip);
}

uint32_t BytesOfUnit(const Instruction& instruction)
{
    uint32_t bytes = 0;
    for (uint32_t i = 0; i < instruction.operandCount; ++i) {
        bytes += instruction.operands[i].extent;
    }
    return bytes;
}

// Does it make little of much?
bool Reduces(const Instruction& instruction)
{
    constexpr int64_t MUCH = 8;
    const auto bytes = [&](uint32_t operand) {
        return instruction.operands[operand].end - instruction.operands[operand].base;
    };
    return instruction.operandCount > 1 && bytes(0) * MUCH <= bytes(1);
}

}  // namespace

// `place`, the address of `operand`, follows the memory of its origin.
void Scheduler::Relocate(const Operand& operand, char*& place)
{
    if (operand.origin != NO_ORIGIN) {
        schedule_->relocations_.push_back({&place, operand.origin, operand.base - gm_[operand.origin]});
        std::vector<int32_t>& origins = schedule_->origins_;
        if (std::find(origins.begin(), origins.end(), operand.origin) == origins.end()) {
            origins.push_back(operand.origin);
        }
    }
}

void Scheduler::CompileSequence(const std::vector<SequenceNode>& items)
{
    std::vector<BoundNode>& nodes = schedule_->nodes_;
    for (const SequenceNode& item : items) {
        nodes.push_back({item.kind, item.scalar, item.operand == nullptr ? nullptr : item.operand->base});
        if (item.operand != nullptr) {
            Relocate(*item.operand, nodes.back().base);
        }
    }
    nodes.push_back({NodeKind::END, 0.0f, nullptr});
}

// The steps of a loop one after the other, and the code that may take their place.
void Scheduler::CompileLoop(const FusedLoop& loop)
{
    Schedule& schedule = *schedule_;
    std::vector<Instruction>& instructions = schedule.instructions_;
    LoopCode* code = loop.form.nodes.empty() ? nullptr : FindLoopCode(loop.form);
    const bool byElement = !loop.form.byRow;
    const uint32_t length = static_cast<uint32_t>(loop.steps.size());
    schedule.hasLoops_ = schedule.hasLoops_ || code != nullptr;
    const uint32_t cost = code == nullptr ? 0 : CostOf(loop.form);
    // A loop that has nothing to do with others goes to its end: strips of it are a call each, and rows a power of two
    // apart drive each other out of the L1 data cache.
    const Group& all = groups_.List()[steps_.List()[loop.steps[0]].group];
    const bool alone = loop.alone && code != nullptr && (!byElement || all.units > StripOf(all));
    for (uint32_t k = 0; k < length; ++k) {
        const Step& step = steps_.List()[loop.steps[k]];
        const Group& group = groups_.List()[step.group];
        if (step.group != lastGroup_ || (alone && k == 0)) {
            const uint32_t rows = alone && byElement && loop.form.Inputs() > 1 ? step.group : NO_GROUP;
            if (rows == NO_GROUP || rows != rows_) {
                rows_ = rows;
                firstOfRows_ = schedule.groups_.size();
            }
            const uint32_t strip = StripOf(group);
            schedule.groups_.push_back(
                {static_cast<uint32_t>(schedule.steps_.size()), 0, group.units, strip, 0, 0, strip});
            schedule.groups_[firstOfRows_].roundRobin += 1;
            lastGroup_ = step.group;
        }
        const bool sequence = !step.items.empty() && (step.mustFuse || code != nullptr);
        const bool linked = sequence || code != nullptr;
        const uint32_t nodes = static_cast<uint32_t>(schedule.nodes_.size());
        const uint32_t ratio = instructions[step.parts[0]].units / group.units;
        const RunFn run = sequence ? nullptr : g_vectorUnit->RunOf(instructions[step.parts[0]].operation);
        schedule.steps_.push_back({run, sequence ? nodes : step.parts[0], ratio, k == 0 ? code : nullptr, nodes, length,
                                   byElement, k == 0 ? cost : 0});
        if (linked) {
            CompileSequence(loop.items[k]);
        }
        if (!sequence) {
            Instruction& instruction = instructions[step.parts[0]];
            for (uint32_t a = 0; a < instruction.operandCount; ++a) {
                Relocate(instruction.operands[a], instruction.operands[a].base);
            }
        }
        Schedule::StepGroup& last = schedule.groups_.back();
        last.count += 1;
        if (code == nullptr) {
            last.bytes += sequence ? WIDE_BYTES : ratio * BytesOfUnit(instructions[step.parts[0]]);
        } else if (k == 0) {
            last.bytes +=
                byElement || coded_ == step.group ? WIDE_BYTES : 0;  // the result of one may be for another one
            coded_ = step.group;
        }
        last.wide = group.elements == 1 ? last.strip : WideStrip(last.strip, last.bytes);
        schedule.cost_ += static_cast<uint64_t>(schedule.steps_.back().cost) * group.units;
        schedule.iterations_ += (last.units + last.strip - 1) / last.strip;
        for (const uint32_t i : step.parts) {
            schedule.work_ += instructions[i].units * instructions[i].lanes / STRIP_ELEMENTS;
            schedule.reduces_ = schedule.reduces_ || Reduces(instructions[i]);
        }
    }
    lastGroup_ = alone ? NO_GROUP : lastGroup_;
}

// Of a loop that is nothing but one: the instruction; else null.
const Instruction* Scheduler::OnlyInstruction(const FusedLoop& loop) const
{
    const Step& step = steps_.List()[loop.steps[0]];
    const bool only = loop.form.nodes.empty() && loop.steps.size() == 1 && step.parts.size() == 1 && !step.mustFuse &&
                      groups_.List()[step.group].members.size() == 1;
    return only ? &schedule_->instructions_[step.parts[0]] : nullptr;
}

// Small instructions from loop `first` on, if there are some, and the code that may take their place. Returns how many.
uint32_t Scheduler::CompileStraightLine(const std::vector<FusedLoop>& loops, size_t first)
{
    Schedule& schedule = *schedule_;
    StraightLine straightLine;
    for (size_t i = first; i < loops.size(); ++i) {
        const Instruction* const instruction = OnlyInstruction(loops[i]);
        if (instruction == nullptr || !straightLine.Add(*instruction, instruction->units)) {
            break;
        }
    }
    const uint32_t length = static_cast<uint32_t>(straightLine.Steps().size());
    if (length < 2) {
        return 0;
    }
    LoopForm form;
    form.straightLine = straightLine.Steps();
    LoopCode* const code = FindLoopCode(form);
    schedule.hasLoops_ = schedule.hasLoops_ || code != nullptr;
    schedule.groups_.push_back({static_cast<uint32_t>(schedule.steps_.size()), length, 1, 1, 1, 0, 1});
    schedule.iterations_ += length;
    const uint32_t nodes = static_cast<uint32_t>(schedule.nodes_.size());
    for (uint32_t k = 0; k < length; ++k) {
        const Step& step = steps_.List()[loops[first + k].steps[0]];
        Instruction& instruction = schedule.instructions_[step.parts[0]];
        schedule.steps_.push_back({g_vectorUnit->RunOf(instruction.operation), step.parts[0], instruction.units,
                                   k == 0 ? code : nullptr, nodes, length, false, 0});
        for (uint32_t a = 0; a < instruction.operandCount; ++a) {
            schedule.nodes_.push_back({NodeKind::END, 0.0f, instruction.operands[a].base});
            Relocate(instruction.operands[a], schedule.nodes_.back().base);
            Relocate(instruction.operands[a], instruction.operands[a].base);
        }
        schedule.work_ += instruction.units * instruction.lanes / STRIP_ELEMENTS;
        schedule.reduces_ = schedule.reduces_ || Reduces(instruction);
    }
    lastGroup_ = NO_GROUP;
    rows_ = NO_GROUP;
    return length;
}

void Scheduler::Compile(const Ranges& needed)
{
    lastGroup_ = NO_GROUP;
    rows_ = NO_GROUP;
    coded_ = NO_GROUP;
    Schedule& schedule = *schedule_;
    std::vector<Instruction>& instructions = schedule.instructions_;
    steps_.Find(groups_, instructions);
    steps_.EliminateDeadStores(needed, instructions);
    const std::vector<FusedLoop> loops = FindFusedLoops(steps_, groups_, instructions, needed);
    size_t nodes = 0;
    for (const FusedLoop& loop : loops) {
        for (const std::vector<SequenceNode>& items : loop.items) {
            nodes += std::max<size_t>(items.size(), MAX_OPERANDS) + 1;
        }
    }
    schedule.nodes_.reserve(nodes);  // relocations point into it
    for (size_t i = 0; i < loops.size();) {
        const uint32_t length = CompileStraightLine(loops, i);
        if (length == 0) {
            CompileLoop(loops[i]);
        }
        i += std::max<uint32_t>(length, 1);
    }
    schedule.functions_.resize(schedule.steps_.size());
}

}  // namespace host
}  // namespace AscendC
