#include "passes/packed_dots.h"

#include "ir/memory.h"
#include "passes/packed_rows.h"

namespace AscendC {
namespace host {

namespace {

constexpr uint32_t FAR = 4096;  // instructions that are looked through for the one that made an operand

// Of numbers, so many of which are in a byte.
ElementType TypeOf(int64_t perByte)
{
    return perByte == 1 ? ElementType::INT8 : ElementType::INT4;
}

// A sum of packed numbers: the instruction that calculates it from them, of one row, and its product.
struct Dot {
    Instruction instruction;
    uint32_t product;
};

// Finds what is read where it was made.
class DotFinder {
public:
    explicit DotFinder(const Instruction* instructions) : instructions_(instructions) {}

    // False: `sum` is none of packed numbers.
    bool Find(uint32_t sum, Dot& dot) const
    {
        const Instruction& reduction = instructions_[sum];
        const Operand& from = reduction.operands[1];
        const uint32_t group = reduction.lanes;
        const int64_t bytes = group * int64_t{sizeof(float)};
        if (reduction.operands[0].stride != sizeof(float) || (group != 16 && group != 32 && group != 64) ||
            from.stride <= 0 || from.stride % bytes != 0 || (group == 16 && from.stride != bytes)) {
            return false;
        }
        // Of sums that lie on their product, what they are depends on the order in which the vector unit takes them.
        const Span read = SpanOf(from, reduction.units);
        if (read.Overlaps(SpanOf(reduction.operands[0], reduction.units))) {
            return false;
        }
        dot.product = MakerOf(read, sum, OperationOn(ElementType::FLOAT, Opcode::MUL));
        return dot.product != NO_WRITER && (FromPacked(reduction, sum, 1, dot) || FromPacked(reduction, sum, 2, dot));
    }

private:
    // The instruction that made all of `span` by an operation.
    uint32_t MakerOf(const Span& span, uint32_t before, const Operation& operation) const
    {
        const uint32_t maker = WriterOf(instructions_, span, int64_t{before} - FAR, before);
        const bool whole = maker != NO_WRITER && instructions_[maker].kind == InstructionKind::VECTOR &&
                           instructions_[maker].operation == operation &&
                           SpanOf(instructions_[maker].operands[0], instructions_[maker].units).Covers(span);
        return whole ? maker : NO_WRITER;
    }

    // Numbers that were cast to the floats of an operand.
    struct Packed {
        char* base = nullptr;
        int64_t bytes = 0;
        uint32_t cast = 0;     // the first instruction of the two
        uint32_t perByte = 0;  // 0: there are none
    };

    // Those behind some floats that instruction `before` reads.
    Packed NumbersOf(char* floats, int64_t bytes, uint32_t before) const
    {
        const uint32_t widened =
            MakerOf({floats, floats + bytes}, before, CastOf(ElementType::HALF, ElementType::FLOAT));
        if (widened == NO_WRITER) {
            return {};
        }
        const int64_t first = (floats - instructions_[widened].operands[0].base) / int64_t{sizeof(float)};
        char* const halves = instructions_[widened].operands[1].base + first * sizeof(uint16_t);
        for (const uint32_t perByte : {1u, 2u}) {
            const uint32_t cast =
                MakerOf({halves, halves + bytes / 2}, widened, CastOf(TypeOf(perByte), ElementType::HALF));
            if (cast != NO_WRITER) {
                const int64_t element = (halves - instructions_[cast].operands[0].base) / int64_t{sizeof(uint16_t)};
                const bool whole = element % perByte == 0;
                return {instructions_[cast].operands[1].base + element / perByte,
                        bytes / int64_t{sizeof(float)} / perByte, cast, whole ? perByte : 0};
            }
        }
        return {};
    }

    // Are the numbers still there when the sum reads them, and none of its results among them?
    bool Last(const Packed& packed, uint32_t sum, const Span& written) const
    {
        const Span span{packed.base, packed.base + packed.bytes};
        return WriterOf(instructions_, span, int64_t{packed.cast} - 1, sum) == NO_WRITER && !written.Overlaps(span);
    }

    // Whether operand `packed` of the product was cast from packed numbers, which are still there. If the other one was
    // cast from bytes, too, these are read in its place.
    bool FromPacked(const Instruction& reduction, uint32_t sum, uint32_t packed, Dot& dot) const
    {
        const Operand& from = reduction.operands[1];
        const Instruction& multiplied = instructions_[dot.product];
        const int64_t at = from.base - multiplied.operands[0].base;
        const int64_t bytes = SpanOf(from, reduction.units).end - from.base;
        const Span written = SpanOf(reduction.operands[0], reduction.units);
        char* const factors = multiplied.operands[3 - packed].base + at;
        const Packed numbers = NumbersOf(multiplied.operands[packed].base + at, bytes, dot.product);
        // Sums are written before all numbers are read.
        if (numbers.perByte == 0 || !Last(numbers, sum, written) || written.Overlaps({factors, factors + bytes}) ||
            WriterOf(instructions_, {factors, factors + bytes}, int64_t{dot.product} - 1, sum) != NO_WRITER) {
            return false;
        }
        const Packed others = NumbersOf(factors, bytes, dot.product);
        const bool integers = others.perByte == 1 && Last(others, sum, written);
        if (!integers && reduction.lanes == 16) {  // with floats, half of each vector would be empty
            return false;
        }
        Instruction& instruction = dot.instruction;
        instruction = reduction;
        instruction.operation = {integers ? Opcode::PACKED_INTEGERS : Opcode::PACKED_DOTS, TypeOf(numbers.perByte),
                                 ElementType::FLOAT, Layout::CONTIGUOUS};
        instruction.units = 1;
        instruction.lanes = reduction.units;
        instruction.operandCount = 3;
        // How many numbers make up a group, and how many lie from one to the next.
        instruction.option = reduction.lanes | static_cast<uint32_t>(from.stride / int64_t{sizeof(float)}) << 8;
        const uint32_t results = reduction.units * sizeof(float);
        instruction.operands[0] = {reduction.operands[0].base, results, results};
        instruction.operands[1] = {numbers.base, numbers.bytes, static_cast<uint32_t>(numbers.bytes)};
        instruction.operands[2] = integers ? Operand{others.base, 0, static_cast<uint32_t>(others.bytes)}
                                           : Operand{factors, 0, static_cast<uint32_t>(bytes)};
        return true;
    }

    const Instruction* instructions_;
};

// Does `next` do to the next row what `dots` does to some? Its row may be as far behind the last as that behind its own
// predecessor. Sums lie neither on factors, which are the same for all rows, nor on numbers of later rows (Find);
// on those of earlier ones they may, as these have been read then.
bool Continues(const Instruction& dots, const Instruction& next)
{
    if (dots.operation != next.operation || dots.option != next.option || dots.lanes != next.lanes ||
        dots.operands[2].base != next.operands[2].base) {
        return false;
    }
    for (const uint32_t i : {0u, 1u}) {
        const Operand& first = dots.operands[i];
        const int64_t step = next.operands[i].base - first.base;
        if (dots.units == 1 ? step < static_cast<int64_t>(first.extent) : step != first.stride * dots.units) {
            return false;
        }
    }
    return true;
}

// Whether nothing changes if this result is written before the instruction.
bool MayComeBefore(const Instruction& instruction, const Operand& result)
{
    for (uint32_t i = 0; i < instruction.operandCount; ++i) {
        if (SpanOf(instruction.operands[i], instruction.units).Overlaps(SpanOf(result, 1))) {
            return false;
        }
    }
    return true;
}

}  // namespace

std::vector<Instruction> FindPackedDots(const Instruction* instructions, uint32_t count)
{
    std::vector<Instruction> found(instructions, instructions + count);
    const DotFinder finder(instructions);
    uint32_t open = 0;          // the dots that the next row may join
    uint32_t last = NO_WRITER;  // the last row that is in them; none but its product lies between it and the next
    for (uint32_t i = 0; i < count; ++i) {
        Dot dot;
        if (!Does(instructions[i], Opcode::REDUCE_SUM) || !finder.Find(i, dot)) {
            continue;
        }
        const bool follows = last != NO_WRITER && i == last + 2 && dot.product == last + 1;
        if (follows && Continues(found[open], dot.instruction) &&
            MayComeBefore(instructions[dot.product], dot.instruction.operands[0])) {
            Instruction& dots = found[open];
            if (dots.units == 1) {
                for (const uint32_t k : {0u, 1u}) {
                    dots.operands[k].stride = dot.instruction.operands[k].base - dots.operands[k].base;
                }
            }
            ++dots.units;
            found[i].units = 0;
        } else {
            found[i] = dot.instruction;
            open = i;
        }
        last = i;
    }
    for (uint32_t i = 0; i < count; ++i) {
        Instruction sums;
        if (Does(found[i], Opcode::REDUCE_SUM) && found[i].units > 0 && FindPackedRows(instructions, found, i, sums)) {
            found[i] = sums;
        }
    }
    return found;
}

}  // namespace host
}  // namespace AscendC
