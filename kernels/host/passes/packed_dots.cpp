#include "passes/packed_dots.h"

#include "ir/ranges.h"

namespace AscendC {
namespace host {

namespace {

constexpr uint32_t FAR = 4096;  // instructions that are looked back for the one that wrote an operand

Span SpanOfUnits(const Operand& operand, uint32_t units)
{
    if (units == 0) {
        return {operand.base, operand.base + operand.extent};
    }
    return {operand.base, operand.base + operand.stride * (static_cast<int64_t>(units) - 1) + operand.extent};
}

bool IsContiguous(const Instruction& instruction, RunFn run)
{
    return instruction.kind == InstructionKind::VECTOR && run != nullptr && instruction.run == run;
}

// Finds what is read where it was made.
class Finder {
public:
    Finder(const Instruction* instructions, uint32_t count) : instructions_(instructions), count_(count) {}

    // The latest instruction before `before` that writes to `span`, or count_.
    uint32_t WriterOf(const Span& span, uint32_t before) const
    {
        for (uint32_t i = before; i-- > 0 && before - i <= FAR;) {
            const Instruction& instruction = instructions_[i];
            if (SpanOfUnits(instruction.operands[0], instruction.units).Overlaps(span)) {
                return i;
            }
        }
        return count_;
    }

    // The same, if it runs `run` and writes all of `span`.
    uint32_t WriterOf(const Span& span, uint32_t before, RunFn run) const
    {
        const uint32_t writer = WriterOf(span, before);
        const bool whole = writer < count_ && IsContiguous(instructions_[writer], run) &&
                           SpanOfUnits(instructions_[writer].operands[0], instructions_[writer].units).Covers(span);
        return whole ? writer : count_;
    }

    bool IsUnwritten(const Span& span, uint32_t after, uint32_t before) const
    {
        const uint32_t writer = WriterOf(span, before);
        return writer == count_ || writer <= after;
    }

    // Whether `sum` is one of packed numbers; then `dot` is the instruction that calculates it from them, of one row.
    bool Find(uint32_t sum, Instruction& dot) const
    {
        const Instruction& reduction = instructions_[sum];
        const Operand& from = reduction.operands[1];
        const uint32_t group = reduction.lanes;
        if (!IsContiguous(reduction, g_vectorUnit->reduceSum) || reduction.operands[0].stride != sizeof(float) ||
            (group != 32 && group != 64) || from.stride % (group * int64_t{sizeof(float)}) != 0 || from.stride == 0) {
            return false;
        }
        const Span summed = SpanOfUnits(from, reduction.units);
        const RunFn multiply =
            g_vectorUnit->arithmetic[static_cast<uint32_t>(Opcode::MUL)][static_cast<uint32_t>(ElementType::FLOAT)]
                                    [static_cast<uint32_t>(Layout::CONTIGUOUS)];
        const uint32_t product = WriterOf(summed, sum, multiply);
        if (product == count_) {
            return false;
        }
        for (const uint32_t packed : {1u, 2u}) {
            if (FromPacked(reduction, sum, product, packed, dot)) {
                return true;
            }
        }
        return false;
    }

private:
    bool FromPacked(const Instruction& reduction, uint32_t sum, uint32_t product, uint32_t packed,
                    Instruction& dot) const
    {
        const Operand& from = reduction.operands[1];
        const Instruction& multiplied = instructions_[product];
        const int64_t at = from.base - multiplied.operands[0].base;
        const int64_t bytes = SpanOfUnits(from, reduction.units).end - from.base;
        const auto part = [&](uint32_t operand) {
            char* const base = multiplied.operands[operand].base + at;
            return Span{base, base + bytes};
        };
        const Span numbers = part(packed);
        const Span factors = part(3 - packed);
        const RunFn widen =
            g_vectorUnit->cast[static_cast<uint32_t>(ElementType::HALF)][static_cast<uint32_t>(ElementType::FLOAT)][0];
        const uint32_t widened = WriterOf(numbers, product, widen);
        if (widened == count_ || !IsUnwritten(factors, product, sum)) {
            return false;
        }
        const int64_t first = (numbers.begin - instructions_[widened].operands[0].base) / int64_t{sizeof(float)};
        char* const halves = instructions_[widened].operands[1].base + first * sizeof(uint16_t);
        const Span halfSpan{halves, halves + bytes / 2};
        const RunFn fromBytes =
            g_vectorUnit->cast[static_cast<uint32_t>(ElementType::INT8)][static_cast<uint32_t>(ElementType::HALF)][0];
        for (const uint32_t perByte : {1u, 2u}) {
            const uint32_t cast = WriterOf(halfSpan, widened, perByte == 1 ? fromBytes : g_vectorUnit->castInt4);
            if (cast == count_) {
                continue;
            }
            const int64_t element = (halves - instructions_[cast].operands[0].base) / int64_t{sizeof(uint16_t)};
            char* const source = instructions_[cast].operands[1].base + element / perByte;
            const int64_t sourceBytes = bytes / int64_t{sizeof(float)} / perByte;
            if (element % perByte != 0 || !IsUnwritten({source, source + sourceBytes}, cast, sum)) {
                return false;
            }
            dot = reduction;
            dot.run = g_vectorUnit->packedDots[perByte - 1];
            dot.units = 1;
            dot.lanes = reduction.units;
            dot.operandCount = 3;
            // How many numbers make up a group, and how many lie from one to the next.
            dot.option = reduction.lanes | static_cast<uint32_t>(from.stride / int64_t{sizeof(float)}) << 8;
            const uint32_t results = reduction.units * sizeof(float);
            dot.operands[0] = {reduction.operands[0].base, results, results};
            dot.operands[1] = {source, sourceBytes, static_cast<uint32_t>(sourceBytes)};
            dot.operands[2] = {factors.begin == nullptr ? nullptr : const_cast<char*>(factors.begin), 0,
                               static_cast<uint32_t>(bytes)};
            return true;
        }
        return false;
    }

    const Instruction* instructions_;
    uint32_t count_;
};

// Does `next` do to the next row what `dots` does to some? Its row may be as far behind the last as that behind its own
// predecessor.
bool Continues(const Instruction& dots, const Instruction& next)
{
    if (dots.run != next.run || dots.option != next.option || dots.lanes != next.lanes ||
        dots.operands[2].base != next.operands[2].base) {
        return false;
    }
    for (const uint32_t i : {0u, 1u}) {
        const Operand& last = dots.operands[i];
        const int64_t step = next.operands[i].base - last.base;
        if (dots.units == 1 ? step < static_cast<int64_t>(last.extent) : step != last.stride * dots.units) {
            return false;
        }
    }
    return true;
}

}  // namespace

std::vector<Instruction> FindPackedDots(const Instruction* instructions, uint32_t count)
{
    std::vector<Instruction> found(instructions, instructions + count);
    const Finder finder(instructions, count);
    uint32_t open = count;  // the dots that the next row may join: nothing came behind them but its product
    uint32_t last = 0;
    for (uint32_t i = 0; i < count; ++i) {
        Instruction dot;
        if (instructions[i].kind != InstructionKind::VECTOR || instructions[i].run != g_vectorUnit->reduceSum ||
            !finder.Find(i, dot)) {
            continue;
        }
        if (open < count && i == last + 2 && Continues(found[open], dot)) {
            Instruction& dots = found[open];
            if (dots.units == 1) {
                for (const uint32_t k : {0u, 1u}) {
                    dots.operands[k].stride = dot.operands[k].base - dots.operands[k].base;
                }
            }
            ++dots.units;
            found[i].units = 0;
        } else {
            found[i] = dot;
            open = i;
        }
        last = i;
    }
    return found;
}

}  // namespace host
}  // namespace AscendC
