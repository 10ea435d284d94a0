#include "passes/narrowing.h"

#include "ir/operation.h"
#include "simd/vector_unit.h"

namespace AscendC {
namespace host {

namespace {

struct WideningCast {
    Operand to;
    NarrowSource from;
};

bool IsWidening(const Instruction& instruction)
{
    const Operation& operation = instruction.operation;
    return KindOf(instruction) == OperationKind::CAST && operation.to == ElementType::FLOAT &&
           (operation.from == ElementType::BFLOAT16 || g_vectorUnit->convertsHalf);
}

// It is not written behind the cast, so that readers may come at any time.
bool Stays(const Operand& source, const std::vector<Instruction>& instructions, uint32_t cast)
{
    for (uint32_t i = cast; i < instructions.size(); ++i) {
        if (Overlap(instructions[i].operands[0], source)) {
            return false;
        }
    }
    return true;
}

// Stores to killed bytes may have been eliminated.
void Kill(const Span& span, std::vector<WideningCast>& casts)
{
    for (uint32_t c = static_cast<uint32_t>(casts.size()); c-- > 0;) {
        if (SpanOf(casts[c].from.operand).Overlaps(span)) {
            casts.erase(casts.begin() + c);
        }
    }
}

NarrowSource Find(const std::vector<WideningCast>& casts, const Operand& operand)
{
    for (const WideningCast& cast : casts) {
        if (operand.stride == sizeof(float) && SpanOf(cast.to).Covers(SpanOf(operand))) {
            NarrowSource found = cast.from;
            found.operand.base += (operand.base - cast.to.base) / 2;
            found.operand.end = found.operand.base + (operand.end - operand.base) / 2;
            return found;
        }
    }
    return {};
}

}  // namespace

std::vector<NarrowSources> FindNarrowSources(const std::vector<Instruction>& instructions,
                                             const std::vector<Killed>& killed)
{
    std::vector<NarrowSources> found(instructions.size());
    std::vector<WideningCast> casts;
    auto next = killed.begin();
    for (uint32_t i = 0; i < instructions.size(); ++i) {
        for (; next != killed.end() && next->number <= i; ++next) {
            Kill(next->span, casts);
        }
        const Instruction& instruction = instructions[i];
        if (KindOf(instruction) != OperationKind::OPAQUE) {
            for (uint32_t a = 1; a < instruction.operandCount; ++a) {
                found[i][a] = Find(casts, instruction.operands[a]);
            }
        }
        const Operand& to = instruction.operands[0];
        for (uint32_t c = static_cast<uint32_t>(casts.size()); c-- > 0;) {
            if (Overlap(casts[c].to, to)) {
                casts.erase(casts.begin() + c);
            }
        }
        if (IsWidening(instruction) && Stays(instruction.operands[1], instructions, i)) {
            casts.push_back({to, {instruction.operation.from, instruction.operands[1]}});
        }
    }
    return found;
}

}  // namespace host
}  // namespace AscendC
