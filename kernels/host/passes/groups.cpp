#include "passes/groups.h"

#include <algorithm>

#include "base/types.h"

namespace AscendC {
namespace host {

namespace {

// Instructions on so few elements keep to themselves, unless they are columns of rows, which others go over, too.
constexpr uint32_t TINY_ELEMENTS = 256;
constexpr uint32_t TINY_COLUMNS = 255;

bool IsTiny(const Instruction& instruction)
{
    const Operand& to = instruction.operands[0];
    const bool columns = instruction.lanes > 1 && to.stride > static_cast<int64_t>(to.extent);
    return instruction.iterations * instruction.lanes <= (columns ? TINY_COLUMNS : TINY_ELEMENTS);
}

// Returns true if strips of the instruction may not begin at every iteration of a group that has so many.
bool IsGranular(const Instruction& instruction, uint32_t iterations)
{
    return instruction.granule > 1 && instruction.iterations / iterations % instruction.granule != 0;
}

// May `later` run strip by strip beside `earlier`? At the end of every strip, all that `later` has touched must lie
// before bytes that `earlier` has still to touch. Both walk evenly, so the first and the last strip decide.
bool KeepsStep(const Operand& earlier, uint32_t earlierRatio, const Operand& later, uint32_t laterRatio,
               uint32_t iterations)
{
    const int64_t earlierStep = earlier.stride * earlierRatio;
    const int64_t laterStep = later.stride * laterRatio;
    if (earlier.stride == later.stride && earlierRatio == laterRatio && earlier.stride > 0) {
        if (earlier.base == later.base && later.extent <= later.stride) {
            return true;
        }
        if (ColumnsAreApart(later.base - earlier.base, earlier.extent, later.extent, earlier.stride)) {
            return true;
        }
    }
    const char* firstTouched = later.base + laterStep - later.stride + later.extent;
    return firstTouched <= earlier.base + earlierStep && later.end <= earlier.base + earlierStep * iterations;
}

bool KeepsStep(const Instruction& earlier, const Instruction& later, uint32_t iterations)
{
    const uint32_t earlierRatio = earlier.iterations == iterations ? 1 : earlier.iterations / iterations;
    const uint32_t laterRatio = later.iterations == iterations ? 1 : later.iterations / iterations;
    const Operand& written = earlier.operands[0];
    for (uint32_t i = 0; i < later.operandCount; ++i) {
        const Operand& operand = later.operands[i];
        if (Overlap(operand, written) && !KeepsStep(written, earlierRatio, operand, laterRatio, iterations)) {
            return false;
        }
    }
    const Operand& writes = later.operands[0];
    for (uint32_t i = 1; i < earlier.operandCount; ++i) {
        const Operand& operand = earlier.operands[i];
        if (Overlap(writes, operand) && !KeepsStep(operand, earlierRatio, writes, laterRatio, iterations)) {
            return false;
        }
    }
    return true;
}

}  // namespace

void Groups::Clear()
{
    instructions_.clear();
    groups_.clear();
    copiesOut_.clear();
    lastUses_.clear();
    frozen_ = 0;
}

void Groups::Add(const Instruction& instruction)
{
    if (!instruction.widen || !Widens(instruction)) {
        Append(instruction);
    }
}

void Groups::AddCopyOut(const Instruction& copy)
{
    if (!SinkCopy(copy)) {
        if (copy.kind == InstructionKind::COPY_OUT) {
            copiesOut_.push_back(static_cast<uint32_t>(instructions_.size()));
        }
        Append(copy);
    }
}

void Groups::AddTo(Group& group, uint32_t index)
{
    const Instruction& instruction = instructions_[index];
    group.members.push_back(index);
    uint32_t ratio = 1;
    if (instruction.iterations < group.iterations) {
        group.elements *= group.iterations / instruction.iterations;
        group.iterations = instruction.iterations;
    } else if (instruction.iterations > group.iterations) {
        ratio = instruction.iterations / group.iterations;
    }
    const uint32_t elements = instruction.lanes * ratio;
    group.elements = elements > group.elements ? elements : group.elements;
    group.granular = std::any_of(group.members.begin(), group.members.end(),
                                 [&](uint32_t member) { return IsGranular(instructions_[member], group.iterations); });
}

void Groups::Append(const Instruction& instruction)
{
    const uint32_t index = static_cast<uint32_t>(instructions_.size());
    instructions_.push_back(instruction);
    if (!groups_.empty()) {
        const Group& group = groups_.back();
        const Instruction& first = instructions_[group.members.front()];
        const bool isTiny = IsTiny(instruction);
        const bool alike = !isTiny || (instruction.iterations == group.iterations && !instruction.widen);
        if (isTiny == IsTiny(first) && alike && Joins(group, instruction)) {
            AddTo(groups_.back(), index);
            return;
        }
    }
    groups_.push_back(
        {{index}, instruction.iterations, instruction.lanes, IsGranular(instruction, instruction.iterations)});
}

bool Groups::Joins(const Group& group, const Instruction& later) const
{
    uint32_t iterations = group.iterations;
    if (later.iterations != iterations) {
        // It would only go by coarser iterations.
        const auto shares = [&](uint32_t member) { return ShareMemory(instructions_[member], later); };
        if (std::none_of(group.members.begin(), group.members.end(), shares)) {
            return false;
        }
        // Strips of whole iterations of the coarsest member must stay short.
        const uint32_t coarsest = std::min(iterations, later.iterations);
        const auto granular = [&](uint32_t member) { return IsGranular(instructions_[member], coarsest); };
        if (IsGranular(later, coarsest) || std::any_of(group.members.begin(), group.members.end(), granular)) {
            return false;
        }
        if (later.iterations > iterations) {
            const uint32_t ratio = later.iterations / iterations;
            if (later.lanes * ratio > STRIP_ELEMENTS || ratio * iterations != later.iterations) {
                return false;
            }
        } else {
            if (group.elements * (iterations / later.iterations) > STRIP_ELEMENTS) {
                return false;
            }
            iterations = later.iterations;  // it must divide every member
            for (const uint32_t i : group.members) {
                if (instructions_[i].iterations % iterations != 0) {
                    return false;
                }
            }
        }
    }
    // The next row or tile, and with it a group, begins at an instruction that overwrites a buffer of the group without
    // data that the group has made, and with some that it has not touched.
    bool rewrites = false;
    bool continues = false;
    uint32_t touched = 1;  // a bit for each operand; the destination's does not matter
    for (const uint32_t i : group.members) {
        const Instruction& earlier = instructions_[i];
        if (!KeepsStep(earlier, later, iterations)) {
            return false;
        }
        rewrites = rewrites || earlier.operands[0].base == later.operands[0].base;
        for (uint32_t b = 1; b < later.operandCount; ++b) {
            for (uint32_t a = 0; a < earlier.operandCount; ++a) {
                if (later.operands[b].base == earlier.operands[a].base) {
                    continues = continues || a == 0;
                    touched |= 1u << b;
                }
            }
        }
    }
    continues = continues || touched == (1u << later.operandCount) - 1;
    return continues || !rewrites;
}

// Several rows take an instruction for every 64 columns: the next 64 columns become part of the last instruction.
bool Groups::Widens(const Instruction& later)
{
    if (groups_.empty() || groups_.back().members.back() + 1 != instructions_.size() ||
        instructions_.size() == frozen_) {
        return false;
    }
    Group& group = groups_.back();
    Instruction wider = instructions_.back();
    if (wider.iterations != later.iterations || wider.scalar != later.scalar || wider.option != later.option ||
        wider.operandCount != later.operandCount || !wider.widen) {
        return false;
    }
    const bool folds = later.folds && wider.operands[0].base == later.operands[0].base &&
                       wider.operands[2].base == later.operands[2].base &&
                       wider.operands[0].extent == ONE_REPEAT_BYTE_SIZE &&
                       wider.operands[1].extent % ONE_REPEAT_BYTE_SIZE == 0 &&
                       (wider.operation == later.operation || wider.operation == later.operation.With(Layout::FOLD));
    if (!folds && wider.operation != later.operation) {
        return false;
    }
    for (uint32_t i = 0; i < wider.operandCount; ++i) {
        Operand& operand = wider.operands[i];
        const Operand& next = later.operands[i];
        const bool stays = folds ? i != 1 : (i == wider.blockOperand && i != 0);
        if (operand.stride != next.stride || operand.origin != next.origin ||
            next.base != operand.base + (stays ? 0 : operand.extent)) {
            return false;
        }
        if (!stays) {
            operand.extent += next.extent;
            operand.end += next.extent;
        }
        // A source is the destination, column by column, or has nothing to do with it.
        const Operand& to = wider.operands[0];
        if (i > 0 && operand.base != to.base && Overlap(operand, to)) {
            return false;
        }
    }
    wider.lanes += later.lanes;
    wider.operation = folds ? later.operation.With(Layout::FOLD) : wider.operation;
    for (const uint32_t i : group.members) {
        if (i + 1 != instructions_.size() && !KeepsStep(instructions_[i], wider, group.iterations)) {
            return false;
        }
    }
    instructions_.back() = wider;
    const uint32_t elements = wider.lanes * (wider.iterations / group.iterations);
    group.elements = elements > group.elements ? elements : group.elements;
    return true;
}

}  // namespace host
}  // namespace AscendC
