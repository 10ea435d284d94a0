#include "passes/packed_dots.h"

#include "ir/memory.h"

namespace AscendC {
namespace host {

namespace {

constexpr uint32_t FAR = 4096;  // instructions that are looked through for the one that made an operand
constexpr uint32_t NONE = UINT32_MAX;

// Of numbers, so many of which are in a byte.
ElementType TypeOf(int64_t perByte)
{
    return perByte == 1 ? ElementType::INT8 : ElementType::INT4;
}

bool Does(const Instruction& instruction, Opcode opcode)
{
    return instruction.kind == InstructionKind::VECTOR && instruction.operation.opcode == opcode;
}

// A sum of packed numbers: the instruction that calculates it from them, of one row, and its product.
struct Dot {
    Instruction instruction;
    uint32_t product;
};

// Finds what is read where it was made.
class Finder {
public:
    explicit Finder(const Instruction* instructions) : instructions_(instructions) {}

    // The latest instruction in (after, before) that writes to `span`.
    uint32_t WriterOf(const Span& span, int64_t after, uint32_t before) const
    {
        for (int64_t i = int64_t{before} - 1; i >= 0 && i > after; --i) {
            if (SpanOf(instructions_[i].operands[0], instructions_[i].units).Overlaps(span)) {
                return static_cast<uint32_t>(i);
            }
        }
        return NONE;
    }

    const Instruction& At(uint32_t i) const { return instructions_[i]; }

    // False: `sum` is none of packed numbers.
    bool Find(uint32_t sum, Dot& dot) const
    {
        const Instruction& reduction = instructions_[sum];
        const Operand& from = reduction.operands[1];
        const uint32_t group = reduction.lanes;
        if (reduction.operands[0].stride != sizeof(float) || (group != 32 && group != 64) || from.stride <= 0 ||
            from.stride % (group * int64_t{sizeof(float)}) != 0) {
            return false;
        }
        // Of sums that lie on their product, what they are depends on the order in which the vector unit takes them.
        const Span read = SpanOf(from, reduction.units);
        if (read.Overlaps(SpanOf(reduction.operands[0], reduction.units))) {
            return false;
        }
        dot.product = MakerOf(read, sum, OperationOn(ElementType::FLOAT, Opcode::MUL));
        return dot.product != NONE && (FromPacked(reduction, sum, 1, dot) || FromPacked(reduction, sum, 2, dot));
    }

private:
    // The instruction that made all of `span` by an operation.
    uint32_t MakerOf(const Span& span, uint32_t before, const Operation& operation) const
    {
        const uint32_t maker = WriterOf(span, int64_t{before} - FAR, before);
        const bool whole = maker != NONE && instructions_[maker].kind == InstructionKind::VECTOR &&
                           instructions_[maker].operation == operation &&
                           SpanOf(instructions_[maker].operands[0], instructions_[maker].units).Covers(span);
        return whole ? maker : NONE;
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
        if (widened == NONE) {
            return {};
        }
        const int64_t first = (floats - instructions_[widened].operands[0].base) / int64_t{sizeof(float)};
        char* const halves = instructions_[widened].operands[1].base + first * sizeof(uint16_t);
        for (const uint32_t perByte : {1u, 2u}) {
            const uint32_t cast =
                MakerOf({halves, halves + bytes / 2}, widened, CastOf(TypeOf(perByte), ElementType::HALF));
            if (cast != NONE) {
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
        return WriterOf(span, int64_t{packed.cast} - 1, sum) == NONE && !written.Overlaps(span);
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
            WriterOf({factors, factors + bytes}, int64_t{dot.product} - 1, sum) != NONE) {
            return false;
        }
        const Packed others = NumbersOf(factors, bytes, dot.product);
        const bool integers = others.perByte == 1 && Last(others, sum, written);
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

// Some columns of some rows in the Unified Buffer.
struct Columns {
    char* base;
    int64_t stride;  // bytes from a row to the next
    uint32_t rows;
    uint32_t lanes;
    uint32_t bytes;  // of an element

    Span Hull() const { return {base, base + stride * (int64_t{rows} - 1) + int64_t{lanes} * bytes}; }
    bool IsOneRow() const { return rows == 1 || stride == 0; }
    // The operand of an instruction by rows; or by elements, if the rows have no gaps.
    bool Are(const Operand& operand, const Instruction& instruction) const
    {
        if (operand.base != base) {
            return false;
        }
        const int64_t row = int64_t{lanes} * bytes;
        if (instruction.units == rows && operand.extent == row) {
            return rows == 1 || operand.stride == stride;
        }
        return instruction.units == rows * lanes && operand.extent == bytes && operand.stride == bytes &&
               (rows == 1 || stride == row);
    }
};

// Finds what is done to the integer sums of rows until they are one value a row: with scales of the groups of x, of
// those of the row, and an offset,
//
//     sums = sums * xScale;  shifts = offset * xSum;  sums = sums + shifts;  sums = sums * scale;  WholeReduceSum(sums)
//
// the second and third only where there is an offset. It reads scales and offsets before they were cast to float.
class RowFinder {
public:
    RowFinder(const Finder& finder, const std::vector<Instruction>& found) : finder_(finder), found_(found) {}

    bool Find(uint32_t sum, Instruction& rows) const
    {
        const Instruction& reduction = finder_.At(sum);
        const Operand& from = reduction.operands[1];
        if (reduction.operands[0].stride != sizeof(float) && reduction.units > 1) {
            return false;
        }
        const Columns terms{from.base, from.stride, reduction.units, reduction.lanes, sizeof(float)};
        uint32_t scaled = 0;
        uint32_t summed = 0;
        uint32_t shifted = 0;
        Columns scale{};
        Columns shifts{};
        Columns offset{};
        Columns xSum{};
        Columns xScale{};
        if (!Made(Opcode::MUL, terms, sum, scaled, scale) || scale.IsOneRow() != (terms.rows == 1)) {
            return false;
        }
        uint32_t before = scaled;
        const bool hasOffset = Made(Opcode::ADD, terms, scaled, summed, shifts);
        if (hasOffset) {
            before = summed;
            if (!MadeOfTwo(shifts, summed, shifted, offset, xSum)) {
                return false;
            }
        }
        uint32_t first = 0;
        if (!Made(Opcode::MUL, terms, before, first, xScale) || !(xScale.stride == 0 || terms.rows == 1)) {
            return false;
        }
        const Instruction* const dots = DotsOf(terms, first);
        if (dots == nullptr) {
            return false;
        }
        const Columns given[] = {Source(scale, scaled), hasOffset ? Source(offset, shifted) : Columns{}};
        if (hasOffset && given[0].bytes != given[1].bytes) {
            return false;
        }
        const uint32_t group = dots->option & 0xff;
        const int64_t skipped = (terms.base - dots->operands[0].base) / int64_t{sizeof(float)};
        const int64_t perByte = dots->operation.from == ElementType::INT8 ? 1 : 2;
        const uint32_t numberBytes = static_cast<uint32_t>(terms.lanes * group / perByte);
        const auto operandOf = [](const Columns& columns) {
            return Operand{columns.base, columns.rows == 1 ? 0 : columns.stride, columns.lanes * columns.bytes};
        };
        rows = reduction;
        rows.operation = {Opcode::PACKED_ROWS, dots->operation.from, ElementType::FLOAT, Layout::CONTIGUOUS};
        rows.option = group;
        rows.lanes = terms.lanes;
        rows.operandCount = hasOffset ? 7 : 5;
        rows.operands[1] = {dots->operands[1].base + skipped * group / perByte, dots->operands[1].stride, numberBytes};
        rows.operands[2] = {dots->operands[2].base + skipped * group, 0, terms.lanes * group};
        rows.operands[3] = operandOf(xScale);
        rows.operands[4] = operandOf(given[0]);
        rows.operands[5] = operandOf(xSum);
        rows.operands[6] = operandOf(given[1]);
        // What was read by then is still there, and no result of this lies among it.
        const uint32_t since[] = {0, Index(dots), Index(dots), first, scaled, shifted, shifted};
        const Span results = SpanOf(rows.operands[0], rows.units);
        for (uint32_t i = 1; i < rows.operandCount; ++i) {
            const Span read = SpanOf(rows.operands[i], rows.units);
            if (results.Overlaps(read) || finder_.WriterOf(read, since[i], sum) != NONE) {
                return false;
            }
        }
        return true;
    }

private:
    uint32_t Index(const Instruction* instruction) const { return static_cast<uint32_t>(instruction - found_.data()); }

    // On floats, by elements or repeats.
    static bool Calculates(const Instruction& instruction, Opcode opcode)
    {
        const Operation& operation = instruction.operation;
        return Does(instruction, opcode) && operation.from == ElementType::FLOAT &&
               (operation.layout == Layout::CONTIGUOUS || operation.layout == Layout::REPEAT);
    }

    static Columns ColumnsOf(const Operand& operand, const Columns& like)
    {
        const bool stays = operand.stride == 0;
        return {operand.base, stays ? 0 : like.stride, like.rows, like.lanes, sizeof(float)};
    }

    // terms = terms OP other, the last that wrote to them before `before`.
    bool Made(Opcode opcode, const Columns& terms, uint32_t before, uint32_t& maker, Columns& other) const
    {
        maker = finder_.WriterOf(terms.Hull(), -1, before);
        if (maker == NONE) {
            return false;
        }
        const Instruction& instruction = finder_.At(maker);
        if (!Calculates(instruction, opcode) || !terms.Are(instruction.operands[0], instruction) ||
            !terms.Are(instruction.operands[1], instruction)) {
            return false;
        }
        other = ColumnsOf(instruction.operands[2], terms);
        return other.Are(instruction.operands[2], instruction) && !other.Hull().Overlaps(terms.Hull());
    }

    // product = columns * row.
    bool MadeOfTwo(const Columns& product, uint32_t before, uint32_t& maker, Columns& columns, Columns& row) const
    {
        maker = finder_.WriterOf(product.Hull(), -1, before);
        if (maker == NONE) {
            return false;
        }
        const Instruction& instruction = finder_.At(maker);
        columns = ColumnsOf(instruction.operands[1], product);
        row = ColumnsOf(instruction.operands[2], product);
        return Calculates(instruction, Opcode::MUL) && product.Are(instruction.operands[0], instruction) &&
               columns.Are(instruction.operands[1], instruction) && row.Are(instruction.operands[2], instruction) &&
               columns.IsOneRow() == (product.rows == 1) && row.IsOneRow() &&
               !columns.Hull().Overlaps(product.Hull()) && !row.Hull().Overlaps(product.Hull());
    }

    // The halves that floats were cast from before `maker` read them, or the floats.
    Columns Source(const Columns& floats, uint32_t reader) const
    {
        const uint32_t maker = finder_.WriterOf(floats.Hull(), -1, reader);
        if (maker == NONE) {
            return floats;
        }
        const Instruction& cast = finder_.At(maker);
        if (!Does(cast, Opcode::CAST) || cast.operation.from != ElementType::HALF ||
            cast.operation.to != ElementType::FLOAT || !floats.Are(cast.operands[0], cast)) {
            return floats;
        }
        const Columns halves{
            cast.operands[1].base,
            floats.stride == 0 || cast.units == floats.rows ? cast.operands[1].stride : floats.stride / 2, floats.rows,
            floats.lanes, sizeof(uint16_t)};
        const bool kept =
            halves.Are(cast.operands[1], cast) && finder_.WriterOf(halves.Hull(), int64_t{maker} - 1, reader) == NONE;
        return kept ? halves : floats;
    }

    // The integer sums of which `terms` are some columns, the last that wrote to them before `before`.
    const Instruction* DotsOf(const Columns& terms, uint32_t before) const
    {
        for (int64_t i = int64_t{before} - 1; i >= 0; --i) {
            const Instruction& dots = found_[i];
            if (!Does(dots, Opcode::PACKED_INTEGERS) || dots.units == 0) {
                continue;
            }
            const int64_t column = (terms.base - dots.operands[0].base) / int64_t{sizeof(float)};
            const bool found = dots.units == terms.rows && column >= 0 && column + terms.lanes <= dots.lanes &&
                               (dots.units == 1 || dots.operands[0].stride == terms.stride) &&
                               (dots.option & 0xff) == dots.option >> 8;
            // Its rows are instructions of their own, up to the last.
            return found && finder_.WriterOf(terms.Hull(), i + 2 * (int64_t{dots.units} - 1), before) == NONE ? &dots
                                                                                                              : nullptr;
        }
        return nullptr;
    }

    const Finder& finder_;
    const std::vector<Instruction>& found_;
};

}  // namespace

std::vector<Instruction> FindPackedDots(const Instruction* instructions, uint32_t count)
{
    std::vector<Instruction> found(instructions, instructions + count);
    const Finder finder(instructions);
    uint32_t open = 0;     // the dots that the next row may join
    uint32_t last = NONE;  // the last row that is in them; none but its product lies between it and the next
    for (uint32_t i = 0; i < count; ++i) {
        Dot dot;
        if (!Does(instructions[i], Opcode::REDUCE_SUM) || !finder.Find(i, dot)) {
            continue;
        }
        const bool follows = last != NONE && i == last + 2 && dot.product == last + 1;
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
    const RowFinder rows(finder, found);
    for (uint32_t i = 0; i < count; ++i) {
        Instruction sums;
        if (Does(found[i], Opcode::REDUCE_SUM) && found[i].units > 0 && rows.Find(i, sums)) {
            found[i] = sums;
        }
    }
    return found;
}

}  // namespace host
}  // namespace AscendC
