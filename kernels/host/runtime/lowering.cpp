#include "runtime/lowering.h"

#include <algorithm>
#include <utility>

#include "passes/cost_model.h"
#include "simd/vector_unit.h"

namespace AscendC {
namespace host {

namespace {

constexpr uint32_t GRANULE = 128;  // elements in a repeat of the narrowest type

uint32_t StripOf(const Group& group)
{
    if (group.members.size() == 1) {
        return group.iterations;
    }
    const uint32_t strip = group.elements == 1 ? STRIP_ELEMENTS : std::max(STRIP_ELEMENTS / group.elements, 1U);
    return group.granular ? (strip + GRANULE - 1) / GRANULE * GRANULE : strip;
}

constexpr uint32_t WIDE_BYTES = 8 * 1024;

// Returns as many iterations as keep the steps without code, which touch so much in each, within the L1 data cache.
uint32_t WideStrip(uint32_t strip, uint32_t bytes)
{
    const uint32_t most = bytes == 0 ? WIDE_BYTES : WIDE_BYTES / bytes;
    return std::max(strip, most / strip * strip);
}

uint32_t BytesOfIteration(const Instruction& instruction)
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

class Lowering {
public:
    Lowering(FusedProgram& program, Schedule& schedule) : program_(program), schedule_(schedule) {}
    void Run();

private:
    void Relocate(const Operand& operand, char*& place);
    void RelocateOperands(Instruction& instruction);
    void CompileLoop(const FusedLoop& loop);

    static constexpr uint32_t NO_GROUP = UINT32_MAX;
    FusedProgram& program_;
    Schedule& schedule_;
    uint32_t lastGroup_ = NO_GROUP;  // the last one with a step in the schedule
    uint32_t coded_ = NO_GROUP;      // the last one with a loop that has code
    uint32_t rows_ = NO_GROUP;       // the group whose rows may go round-robin
    size_t firstOfRows_ = 0;         // of the schedule's groups
};

// `place`, the address of `operand`, follows the memory of its origin.
void Lowering::Relocate(const Operand& operand, char*& place)
{
    if (operand.origin != NO_ORIGIN) {
        schedule_.relocations_.push_back({&place, operand.origin, operand.base - program_.gm[operand.origin]});
        std::vector<int32_t>& origins = schedule_.origins_;
        if (std::find(origins.begin(), origins.end(), operand.origin) == origins.end()) {
            origins.push_back(operand.origin);
        }
    }
}

void Lowering::RelocateOperands(Instruction& instruction)
{
    for (uint32_t i = 0; i < instruction.operandCount; ++i) {
        Relocate(instruction.operands[i], instruction.operands[i].base);
    }
}

// Lowers the instructions of a loop one after the other, and the code that may take their place.
void Lowering::CompileLoop(const FusedLoop& loop)
{
    LoopCode* const code = loop.form.values.empty() ? nullptr : FindLoopCode(loop.form);
    const bool byElement = !loop.form.byRow;
    schedule_.hasLoops_ = schedule_.hasLoops_ || code != nullptr;
    const uint32_t cost = code == nullptr ? 0 : CostOf(loop.form);
    // A loop that has nothing to do with others goes to its end: strips of it are a call each, and rows a power of two
    // apart drive each other out of the L1 data cache.
    const Group& group = program_.groups[loop.group];
    const bool alone = loop.alone && code != nullptr && (!byElement || group.iterations > StripOf(group));
    if (loop.group != lastGroup_ || alone) {
        const uint32_t rows = alone && byElement && loop.form.Inputs() > 1 ? loop.group : NO_GROUP;
        if (rows == NO_GROUP || rows != rows_) {
            rows_ = rows;
            firstOfRows_ = schedule_.groups_.size();
        }
        const uint32_t strip = StripOf(group);
        schedule_.groups_.push_back(
            {static_cast<uint32_t>(schedule_.steps_.size()), 0, group.iterations, strip, 0, 0, strip});
        schedule_.groups_[firstOfRows_].roundRobin += 1;
    }
    Schedule::StepGroup& last = schedule_.groups_.back();
    const uint32_t bases = static_cast<uint32_t>(schedule_.bases_.size());
    for (const LoopOperand& operand : loop.operands) {
        if (code != nullptr) {
            schedule_.bases_.push_back(operand.memory.base);
            Relocate(operand.memory, schedule_.bases_.back());
        }
    }
    for (const uint32_t i : loop.instructions) {
        Instruction& instruction = schedule_.instructions_[i];
        const uint32_t ratio = instruction.iterations / group.iterations;
        const bool first = i == loop.instructions.front();
        schedule_.steps_.push_back({g_vectorUnit->RunOf(instruction.operation), i, ratio, first ? code : nullptr, bases,
                                    static_cast<uint32_t>(loop.instructions.size()), first ? cost : 0});
        RelocateOperands(instruction);
        last.count += 1;
        last.bytes += code == nullptr ? ratio * BytesOfIteration(instruction) : 0;
        schedule_.work_ += instruction.iterations * instruction.lanes / STRIP_ELEMENTS;
        schedule_.reduces_ = schedule_.reduces_ || Reduces(instruction);
        schedule_.stripSteps_ += (last.iterations + last.strip - 1) / last.strip;
    }
    if (code != nullptr) {
        last.bytes += byElement || coded_ == loop.group ? WIDE_BYTES : 0;  // the result of one may be for another one
        coded_ = loop.group;
    }
    last.wide = group.elements == 1 ? last.strip : WideStrip(last.strip, last.bytes);
    schedule_.cost_ += static_cast<uint64_t>(cost) * group.iterations;
    lastGroup_ = alone ? NO_GROUP : loop.group;
}

void Lowering::Run()
{
    const std::vector<FusedLoop>& loops = program_.loops;
    schedule_.instructions_ = std::move(program_.instructions);
    schedule_.reads_ = std::move(program_.reads);
    schedule_.writes_ = std::move(program_.writes);
    schedule_.endViews_ = std::move(program_.endViews);
    size_t bases = 0;
    for (const FusedLoop& loop : loops) {
        bases += std::max<size_t>(loop.operands.size(), MAX_OPERANDS);
    }
    schedule_.bases_.reserve(bases);  // relocations point into it
    for (const FusedLoop& loop : loops) {
        CompileLoop(loop);
    }
    schedule_.functions_.resize(schedule_.steps_.size());
}

void Lower(FusedProgram&& program, Schedule& schedule)
{
    schedule = Schedule{};
    Lowering(program, schedule).Run();
}

}  // namespace host
}  // namespace AscendC
