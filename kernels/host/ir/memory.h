/*!
 * Does the alias analysis for all passes: which bytes operands touch, and whether these are the same.
 */
#ifndef ASCENDC_HOST_IR_MEMORY_H
#define ASCENDC_HOST_IR_MEMORY_H

#include <vector>

#include "ir/instruction.h"

namespace AscendC {
namespace host {

// A span goes from one address to another.
struct Span {
    const char* begin;
    const char* end;
    bool Overlaps(const Span& other) const { return begin < other.end && other.begin < end; }
    bool Covers(const Span& other) const { return begin <= other.begin && other.end <= end; }
    bool Holds(const char* address) const { return begin <= address && address < end; }
};

// Returns the bytes of an operand whose end is known.
inline Span SpanOf(const Operand& operand)
{
    return {operand.base, operand.end};
}

// Returns the bytes of an operand of so many iterations, whose end may not be known.
inline Span SpanOf(const Operand& operand, uint32_t iterations)
{
    const int64_t steps = iterations == 0 ? 0 : int64_t{iterations} - 1;
    return {operand.base, operand.base + operand.stride * steps + operand.extent};
}

// Fills in the ends of all operands, which the functions below need.
void SetEnds(Instruction& instruction);

inline bool Overlap(const Operand& a, const Operand& b)
{
    return SpanOf(a).Overlaps(SpanOf(b));
}

// Does the instruction read or write some of the bytes?
bool Touches(const Instruction& instruction, const Span& span);
bool ShareMemory(const Instruction& a, const Instruction& b);

// Does each iteration begin where the one before ends?
inline bool IsGapless(const Operand& operand)
{
    return operand.stride == static_cast<int64_t>(operand.extent);
}

// Are all bytes of its span in some iteration?
inline bool FillsSpan(const Operand& operand)
{
    return operand.stride > 0 && operand.stride <= static_cast<int64_t>(operand.extent);
}

// Columns of rows that begin `stride` bytes after each other: do some of so many bytes never meet others, which begin
// `distance` bytes behind them, in whatever row?
inline bool ColumnsAreApart(int64_t distance, int64_t bytes, int64_t otherBytes, int64_t stride)
{
    if (stride <= 0) {
        return false;
    }
    // Mostly of the same row: a division takes longer than all else.
    int64_t column = distance > -stride && distance < stride ? distance : distance % stride;
    column += column < 0 ? stride : 0;
    return column >= bytes && column + otherBytes <= stride;
}

// Rows in memory have a number, a length, and a distance from one to the next.
struct Rows {
    uint32_t rows;
    uint32_t rowBytes;
    int64_t stride;

    uint64_t Bytes() const { return static_cast<uint64_t>(rows) * rowBytes; }
    bool IsStretch() const { return rows == 1 || stride == rowBytes; }
};

// Describes a set of bytes.
class Ranges {
public:
    void Add(const Span& span);
    void Remove(const Span& span);
    bool Overlaps(const Span& span) const;
    // The spans are in order, and apart from each other.
    const std::vector<Span>& Spans() const { return spans_; }

private:
    std::vector<Span> spans_;
};

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_IR_MEMORY_H
