/*!
 * A set of bytes, as ranges of addresses.
 */
#ifndef ASCENDC_HOST_IR_RANGES_H
#define ASCENDC_HOST_IR_RANGES_H

#include <vector>

#include "ir/instruction.h"

namespace AscendC {
namespace host {

struct Span {
    const char* begin;
    const char* end;
    bool Overlaps(const Span& other) const { return begin < other.end && other.begin < end; }
    bool Covers(const Span& other) const { return begin <= other.begin && other.end <= end; }
};

// The bytes of an operand whose end is known.
inline Span SpanOf(const Operand& operand)
{
    return {operand.base, operand.end};
}

class Ranges {
public:
    void Add(const Span& span);
    void Remove(const Span& span);
    bool Overlaps(const Span& span) const;
    // In order, and apart from each other.
    const std::vector<Span>& Spans() const { return spans_; }

private:
    std::vector<Span> spans_;
};

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_IR_RANGES_H
