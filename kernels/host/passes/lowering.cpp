/*!
 * Lowering: from the groups and fused loops of a program to the schedule that cores run.
 */
#include <algorithm>
#include <numeric>

#include "passes/cost_model.h"
#include "passes/liveness.h"
#include "passes/rematerialization.h"
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

void Scheduler::RelocateOperands(Instruction& instruction)
{
    for (uint32_t i = 0; i < instruction.operandCount; ++i) {
        Relocate(instruction.operands[i], instruction.operands[i].base);
    }
}

// The instructions of a loop one after the other, and the code that may take their place.
void Scheduler::CompileLoop(const FusedLoop& loop)
{
    Schedule& schedule = *schedule_;
    LoopCode* const code = loop.form.values.empty() ? nullptr : FindLoopCode(loop.form);
    const bool byElement = !loop.form.byRow;
    schedule.hasLoops_ = schedule.hasLoops_ || code != nullptr;
    const uint32_t cost = code == nullptr ? 0 : CostOf(loop.form);
    // A loop that has nothing to do with others goes to its end: strips of it are a call each, and rows a power of two
    // apart drive each other out of the L1 data cache.
    const Group& group = list_[loop.group];
    const bool alone = loop.alone && code != nullptr && (!byElement || group.units > StripOf(group));
    if (loop.group != lastGroup_ || alone) {
        const uint32_t rows = alone && byElement && loop.form.Inputs() > 1 ? loop.group : NO_GROUP;
        if (rows == NO_GROUP || rows != rows_) {
            rows_ = rows;
            firstOfRows_ = schedule.groups_.size();
        }
        const uint32_t strip = StripOf(group);
        schedule.groups_.push_back({static_cast<uint32_t>(schedule.steps_.size()), 0, group.units, strip, 0, 0, strip});
        schedule.groups_[firstOfRows_].roundRobin += 1;
    }
    Schedule::StepGroup& last = schedule.groups_.back();
    const uint32_t bases = static_cast<uint32_t>(schedule.bases_.size());
    for (const LoopOperand& operand : loop.operands) {
        if (code != nullptr) {
            schedule.bases_.push_back(operand.memory.base);
            Relocate(operand.memory, schedule.bases_.back());
        }
    }
    for (const uint32_t i : loop.instructions) {
        Instruction& instruction = schedule.instructions_[i];
        const uint32_t ratio = instruction.units / group.units;
        const bool first = i == loop.instructions.front();
        schedule.steps_.push_back({g_vectorUnit->RunOf(instruction.operation), i, ratio, first ? code : nullptr, bases,
                                   static_cast<uint32_t>(loop.instructions.size()), first ? cost : 0});
        RelocateOperands(instruction);
        last.count += 1;
        last.bytes += code == nullptr ? ratio * BytesOfUnit(instruction) : 0;
        schedule.work_ += instruction.units * instruction.lanes / STRIP_ELEMENTS;
        schedule.reduces_ = schedule.reduces_ || Reduces(instruction);
        schedule.iterations_ += (last.units + last.strip - 1) / last.strip;
    }
    if (code != nullptr) {
        last.bytes += byElement || coded_ == loop.group ? WIDE_BYTES : 0;  // the result of one may be for another one
        coded_ = loop.group;
    }
    last.wide = group.elements == 1 ? last.strip : WideStrip(last.strip, last.bytes);
    schedule.cost_ += static_cast<uint64_t>(cost) * group.units;
    lastGroup_ = alone ? NO_GROUP : loop.group;
}

// Of a loop that is nothing but one: the instruction; else null.
const Instruction* Scheduler::OnlyInstruction(const FusedLoop& loop) const
{
    const bool only =
        loop.form.values.empty() && loop.instructions.size() == 1 && list_[loop.group].members.size() == 1;
    return only ? &schedule_->instructions_[loop.instructions[0]] : nullptr;
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
    const uint32_t bases = static_cast<uint32_t>(schedule.bases_.size());
    for (uint32_t k = 0; k < length; ++k) {
        const uint32_t number = loops[first + k].instructions[0];
        Instruction& instruction = schedule.instructions_[number];
        schedule.steps_.push_back({g_vectorUnit->RunOf(instruction.operation), number, instruction.units,
                                   k == 0 ? code : nullptr, bases, length, 0});
        for (uint32_t a = 0; a < instruction.operandCount; ++a) {
            schedule.bases_.push_back(instruction.operands[a].base);
            Relocate(instruction.operands[a], schedule.bases_.back());
        }
        RelocateOperands(instruction);
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
    list_ = groups_.List();
    schedule.instructions_ = groups_.Instructions();
    std::vector<Instruction>& instructions = schedule.instructions_;
    ProgramOrder order{std::vector<uint32_t>(instructions.size()), killed_};
    std::iota(order.numbers.begin(), order.numbers.end(), 0);
    Rematerialize(list_, instructions, order, scratch_);
    EliminateDeadInstructions(list_, instructions, order, needed);
    const std::vector<FusedLoop> loops = FindFusedLoops(list_, instructions, order, needed);
    size_t bases = 0;
    for (const FusedLoop& loop : loops) {
        bases += std::max<size_t>(loop.operands.size(), MAX_OPERANDS);
    }
    schedule.bases_.reserve(bases);  // relocations point into it
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
