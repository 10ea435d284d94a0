#include "passes/row_forms.h"

#include <algorithm>

#include "base/types.h"
#include "ir/memory.h"
#include "ir/operation.h"
#include "passes/groups.h"

namespace AscendC {
namespace host {

namespace {

// Rows get an instruction each if they are long enough and not too many. Where other instructions go over columns of
// it, a row may be shorter: it would take several passes otherwise.
constexpr uint32_t MIN_ROW_ITERATIONS = STRIP_ELEMENTS;
constexpr uint32_t MIN_ROW_ITERATIONS_OF_COLUMNS = STRIP_ELEMENTS / 2;
constexpr uint32_t MAX_ROWS = 32;

// Is it element-wise, iteration by iteration?
bool IsElementWise(const Instruction& instruction)
{
    const OperationKind kind = KindOf(instruction);
    return kind != OperationKind::OPAQUE && kind != OperationKind::COPY &&
           instruction.operation.layout != Layout::ACCUMULATE;
}

// Is it by repeats, on some columns of rows that lie apart?
bool IsOnColumns(const Instruction& instruction)
{
    const Operand& to = instruction.operands[0];
    return instruction.lanes > 1 && ByElement(instruction.operation) != Operation{} && to.stride > 0 &&
           to.stride % (to.extent / instruction.lanes) == 0;
}

// Returns how many elements lie between the first of this instruction and the first of the next row.
uint32_t RowIterationsOf(const Instruction& instruction)
{
    const Operand& to = instruction.operands[0];
    return static_cast<uint32_t>(to.stride * instruction.iterations * instruction.lanes / to.extent);
}

// Is it a block or a repeat that all columns of a row share?
bool Stays(const Instruction& first, uint32_t operand, bool folds)
{
    return folds ? operand != 1 : (operand != 0 && operand == first.blockOperand);
}

// Does `next` continue the sweep behind `last`?
bool GoesOn(const Instruction& last, const Instruction& next, bool folds)
{
    if (next.kind != InstructionKind::VECTOR || !next.widen || next.operation != last.operation ||
        next.iterations != last.iterations || next.scalar != last.scalar || next.option != last.option) {
        return false;
    }
    for (uint32_t i = 0; i < last.operandCount; ++i) {
        const int64_t step = Stays(last, i, folds) ? 0 : last.operands[i].extent;
        if (next.operands[i].stride != last.operands[i].stride ||
            next.operands[i].base != last.operands[i].base + step) {
            return false;
        }
    }
    return true;
}

// Requests from here on that do the same to rows of elements that follow each other in the Unified Buffer.
struct RowInstructions {
    uint32_t rows = 1;
    uint32_t each = 1;  // for a row, one or, on neighbouring columns of it, several
};

RowInstructions RowsFrom(const Instruction* instructions, uint32_t count)
{
    const Instruction& first = instructions[0];
    RowInstructions found;
    if (!IsElementWise(first) && !IsOnColumns(first)) {
        return found;
    }
    while (found.each < count && GoesOn(instructions[found.each - 1], instructions[found.each], false)) {
        ++found.each;
    }
    const Instruction* const second = instructions + found.each;
    // All operands are as far from those of the row before as the second row's from the first row's.
    const auto isNext = [&](const Instruction& next) {
        bool same = next.kind == InstructionKind::VECTOR && next.operation == first.operation &&
                    next.iterations == first.iterations;
        for (uint32_t i = 0; i < first.operandCount && same; ++i) {
            const int64_t step = i == 0 ? first.operands[0].stride * first.iterations
                                        : second->operands[i].base - first.operands[i].base;
            same = next.operands[i].base == first.operands[i].base + step * found.rows;
        }
        return same;
    };
    while ((found.rows + 1) * found.each <= count && isNext(instructions[found.rows * found.each])) {
        ++found.rows;
    }
    return found;
}

Span SpanOfSweep(const Instruction& first, const Sweep& sweep, uint32_t operand)
{
    const Operand& o = first.operands[operand];
    const uint32_t bytes = Stays(first, operand, sweep.folds) ? o.extent : o.extent / first.lanes * sweep.columns;
    return SpanOf(Operand{o.base, o.stride, bytes}, first.iterations);
}

// A row may be done with before the next is begun: written bytes are read at the same place or not at all. Rows may
// also be written to one place, as where columns are summed up.
bool RowsAreApart(const Instruction& first, const Sweep& sweep)
{
    const Operand& to = first.operands[0];
    for (uint32_t i = 1; i < first.operandCount; ++i) {
        const Operand& from = first.operands[i];
        const bool same = from.base == to.base && from.stride == to.stride && from.extent == to.extent;
        if (!same && SpanOfSweep(first, sweep, i).Overlaps(SpanOfSweep(first, sweep, 0))) {
            return false;
        }
    }
    return to.stride == 0 || to.stride >= static_cast<int64_t>(SpanOfSweep(first, sweep, 0).end - to.base) -
                                              to.stride * (static_cast<int64_t>(first.iterations) - 1);
}

}  // namespace

Rows RowsOf(const Instruction& copy, uint32_t ub, int64_t& gmStride)
{
    const Operand& inUb = copy.operands[ub];
    const Operand& inGm = copy.operands[1 - ub];
    const bool contiguous = copy.iterations == 1 || (inUb.stride == inGm.stride && inUb.stride == inUb.extent);
    const uint32_t whole = copy.iterations * inUb.extent;
    gmStride = contiguous ? whole : inGm.stride;
    return contiguous ? Rows{1, whole, whole} : Rows{copy.iterations, inUb.extent, inUb.stride};
}

Sweep RowForms::SweepFrom(const Instruction* instructions, uint32_t count)
{
    const Instruction& first = instructions[0];
    if (first.kind != InstructionKind::VECTOR || !first.widen || first.iterations < 2 || first.iterations > MAX_ROWS) {
        return {};
    }
    Sweep sweep{1, first.lanes, false};
    sweep.folds = count > 1 && first.folds && instructions[1].operands[0].base == first.operands[0].base;
    while (sweep.length < count && GoesOn(instructions[sweep.length - 1], instructions[sweep.length], sweep.folds)) {
        sweep.columns += instructions[sweep.length++].lanes;
    }
    const Operation operation = sweep.folds ? first.operation.With(Layout::FOLD) : first.operation;
    const bool apart = sweep.columns >= MIN_ROW_ITERATIONS && ByElement(operation) != Operation{} &&
                       RowsAreApart(first, sweep) && (!sweep.folds || first.operands[0].extent == ONE_REPEAT_BYTE_SIZE);
    return apart ? sweep : Sweep{};
}

Instruction Sweep::Row(const Instruction& first, uint32_t row) const
{
    Instruction instruction = first;
    instruction.operation = ByElement(folds ? first.operation.With(Layout::FOLD) : first.operation);
    instruction.widen = false;
    instruction.folds = false;
    instruction.iterations = columns;
    instruction.lanes = 1;
    for (uint32_t i = 0; i < first.operandCount; ++i) {
        Operand& operand = instruction.operands[i];
        operand.base += operand.stride * row;
        operand.stride = 0;
        if (Stays(first, i, folds)) {
            instruction.granule = ONE_REPEAT_BYTE_SIZE / sizeof(float);
            continue;
        }
        operand.extent /= first.lanes;
        operand.stride = operand.extent;
    }
    return instruction;
}

void RowForms::Add(uint32_t rows, uint32_t rowIterations, uint32_t least)
{
    if (rows > 1 && rows <= MAX_ROWS && rowIterations >= least) {
        forms_.push_back({rows * rowIterations, rowIterations});
    }
}

void RowForms::Find(const Instruction* instructions, uint32_t count)
{
    forms_.clear();
    for (uint32_t i = 0; i < count; ++i) {
        const Instruction& instruction = instructions[i];
        if (const Sweep sweep = SweepFrom(instructions + i, count - i); sweep.length > 0) {
            Add(instruction.iterations, sweep.columns, MIN_ROW_ITERATIONS);
            i += sweep.length - 1;
        } else if (instruction.kind == InstructionKind::VECTOR) {
            const RowInstructions found = RowsFrom(instructions + i, count - i);
            Add(found.rows, RowIterationsOf(instruction),
                instruction.lanes > 1 ? MIN_ROW_ITERATIONS_OF_COLUMNS : MIN_ROW_ITERATIONS);
            i += found.rows * found.each - 1;
        } else if (instruction.kind == InstructionKind::COPY_IN || instruction.kind == InstructionKind::COPY_OUT) {
            int64_t gmStride = 0;
            const Rows rows = RowsOf(instruction, instruction.kind == InstructionKind::COPY_OUT ? 1 : 0, gmStride);
            if (rows.stride == rows.rowBytes) {
                Add(rows.rows, rows.rowBytes / instruction.lanes, MIN_ROW_ITERATIONS);
            }
        }
    }
}

uint32_t RowForms::RowIterations(const Instruction& instruction) const
{
    const auto form = std::find_if(forms_.begin(), forms_.end(),
                                   [&](const Form& known) { return known.iterations == instruction.iterations; });
    return form == forms_.end() || !IsElementWise(instruction) ? instruction.iterations : form->rowIterations;
}

}  // namespace host
}  // namespace AscendC
