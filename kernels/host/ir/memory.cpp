#include "ir/memory.h"

#include <algorithm>

namespace AscendC {
namespace host {

void SetEnds(Instruction& instruction)
{
    for (uint32_t i = 0; i < instruction.operandCount; ++i) {
        Operand& operand = instruction.operands[i];
        operand.end = const_cast<char*>(SpanOf(operand, instruction.iterations).end);
    }
}

bool Touches(const Instruction& instruction, const Span& span)
{
    const Operand* const end = instruction.operands + instruction.operandCount;
    return std::any_of(instruction.operands, end,
                       [&](const Operand& operand) { return span.Overlaps(SpanOf(operand)); });
}

bool ShareMemory(const Instruction& a, const Instruction& b)
{
    const Operand* const end = a.operands + a.operandCount;
    return std::any_of(a.operands, end, [&](const Operand& operand) { return Touches(b, SpanOf(operand)); });
}

void Ranges::Add(const Span& span)
{
    if (span.begin >= span.end) {
        return;
    }
    Span whole = span;
    const auto first = std::find_if(spans_.begin(), spans_.end(), [&](const Span& s) { return s.end >= span.begin; });
    auto last = first;
    for (; last != spans_.end() && last->begin <= span.end; ++last) {
        whole.begin = std::min(whole.begin, last->begin);
        whole.end = std::max(whole.end, last->end);
    }
    spans_.insert(spans_.erase(first, last), whole);
}

void Ranges::Remove(const Span& span)
{
    std::vector<Span> kept;
    for (const Span& s : spans_) {
        if (!s.Overlaps(span)) {
            kept.push_back(s);
            continue;
        }
        if (s.begin < span.begin) {
            kept.push_back({s.begin, span.begin});
        }
        if (span.end < s.end) {
            kept.push_back({span.end, s.end});
        }
    }
    spans_.swap(kept);
}

bool Ranges::Overlaps(const Span& span) const
{
    return std::any_of(spans_.begin(), spans_.end(), [&](const Span& s) { return s.Overlaps(span); });
}

}  // namespace host
}  // namespace AscendC
