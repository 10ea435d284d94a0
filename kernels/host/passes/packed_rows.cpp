#include "passes/packed_rows.h"

#include "ir/memory.h"

namespace AscendC {
namespace host {

bool Does(const Instruction& instruction, Opcode opcode)
{
    return instruction.kind == InstructionKind::VECTOR && instruction.operation.opcode == opcode;
}

uint32_t WriterOf(const Instruction* instructions, const Span& span, int64_t after, uint32_t before)
{
    for (int64_t i = int64_t{before} - 1; i >= 0 && i > after; --i) {
        if (SpanOf(instructions[i].operands[0], instructions[i].units).Overlaps(span)) {
            return static_cast<uint32_t>(i);
        }
    }
    return NO_WRITER;
}

namespace {

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
    RowFinder(const Instruction* instructions, const std::vector<Instruction>& found)
        : instructions_(instructions), found_(found)
    {}

    bool Find(uint32_t sum, Instruction& rows) const
    {
        const Instruction& reduction = instructions_[sum];
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
            if (results.Overlaps(read) || WriterOf(instructions_, read, since[i], sum) != NO_WRITER) {
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
        maker = WriterOf(instructions_, terms.Hull(), -1, before);
        if (maker == NO_WRITER) {
            return false;
        }
        const Instruction& instruction = instructions_[maker];
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
        maker = WriterOf(instructions_, product.Hull(), -1, before);
        if (maker == NO_WRITER) {
            return false;
        }
        const Instruction& instruction = instructions_[maker];
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
        const uint32_t maker = WriterOf(instructions_, floats.Hull(), -1, reader);
        if (maker == NO_WRITER) {
            return floats;
        }
        const Instruction& cast = instructions_[maker];
        if (!Does(cast, Opcode::CAST) || cast.operation.from != ElementType::HALF ||
            cast.operation.to != ElementType::FLOAT || !floats.Are(cast.operands[0], cast)) {
            return floats;
        }
        const Columns halves{
            cast.operands[1].base,
            floats.stride == 0 || cast.units == floats.rows ? cast.operands[1].stride : floats.stride / 2, floats.rows,
            floats.lanes, sizeof(uint16_t)};
        const bool kept = halves.Are(cast.operands[1], cast) &&
                          WriterOf(instructions_, halves.Hull(), int64_t{maker} - 1, reader) == NO_WRITER;
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
            return found &&
                           WriterOf(instructions_, terms.Hull(), i + 2 * (int64_t{dots.units} - 1), before) == NO_WRITER
                       ? &dots
                       : nullptr;
        }
        return nullptr;
    }

    const Instruction* instructions_;
    const std::vector<Instruction>& found_;
};

}  // namespace

bool FindPackedRows(const Instruction* instructions, const std::vector<Instruction>& found, uint32_t sum,
                    Instruction& rows)
{
    return RowFinder(instructions, found).Find(sum, rows);
}

}  // namespace host
}  // namespace AscendC
