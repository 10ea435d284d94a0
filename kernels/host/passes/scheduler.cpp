#include "passes/scheduler.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "passes/liveness.h"
#include "passes/rematerialization.h"

namespace AscendC {
namespace host {

namespace {

GmRows GmRowsOf(const View& view)
{
    return {view.origin, {view.rows.rows, view.rows.rowBytes, view.gmStride}};
}

}  // namespace

FusedProgram Scheduler::Make(const std::vector<View>& views, const Instruction* instructions, uint32_t count,
                             const Ranges& needed)
{
    program_ = FusedProgram{};
    views_ = views;
    rowForms_.Find(instructions, count);
    groups_.Clear();
    killed_.clear();
    for (uint32_t i = 0; i < views_.size(); ++i) {
        views_[i].origin = static_cast<int32_t>(i);
        program_.gm.push_back(views_[i].gm);
        program_.reads.push_back(GmRowsOf(views_[i]));
    }
    for (uint32_t i = 0; i < count; ++i) {
        const bool out =
            instructions[i].kind == InstructionKind::COPY_OUT || instructions[i].kind == InstructionKind::COPY_OUT_ADD;
        program_.gm.push_back(instructions[i].operands[out ? 0 : 1].base);
        const int32_t origin = static_cast<int32_t>(program_.gm.size() - 1);
        if (out) {
            CopyOut(instructions[i], origin);
        } else if (const Sweep sweep = RowForms::SweepFrom(instructions + i, count - i); sweep.length > 0) {
            std::vector<Instruction> rows;
            for (uint32_t row = 0; row < instructions[i].iterations; ++row) {
                rows.push_back(sweep.Row(instructions[i], row));
            }
            RecordRows(rows);
            i += sweep.length - 1;
            program_.gm.resize(program_.gm.size() + sweep.length - 1);  // instructions without an origin
        } else {
            Take(instructions[i], origin);
        }
    }
    groups_.WriteThrough();
    FindLoops(needed);
    program_.endViews = views_;
    return std::move(program_);
}

void Scheduler::FindLoops(const Ranges& needed)
{
    program_.groups = groups_.List();
    program_.instructions = groups_.Instructions();
    ProgramOrder order{std::vector<uint32_t>(program_.instructions.size()), killed_};
    std::iota(order.numbers.begin(), order.numbers.end(), 0);
    Rematerialize(program_.groups, program_.instructions, order, scratch_);
    EliminateDeadInstructions(program_.groups, program_.instructions, order, needed);
    program_.loops = FindFusedLoops(program_.groups, program_.instructions, order, needed);
}

void Scheduler::Take(const Instruction& instruction, int32_t origin)
{
    const Operand& first = instruction.operands[0];
    switch (instruction.kind) {
        case InstructionKind::COPY_IN:
            CopyIn(instruction, origin);
            break;
        case InstructionKind::DISCARD:
            Discard({first.base, first.base + first.extent});
            break;
        case InstructionKind::OVERWRITE:
            Overwrite({first.base, first.base + first.extent}, true);
            break;
        case InstructionKind::FENCE:
            while (!views_.empty()) {
                Materialize(static_cast<uint32_t>(views_.size()) - 1);
            }
            break;
        default:
            Record(instruction);
    }
}

void Scheduler::Record(const Instruction& instruction)
{
    const uint32_t rowIterations = rowForms_.RowIterations(instruction);
    if (rowIterations == instruction.iterations) {
        std::vector<Instruction> whole{instruction};
        return RecordRows(whole);
    }
    std::vector<Instruction> rows(instruction.iterations / rowIterations, instruction);
    for (uint32_t r = 0; r < rows.size(); ++r) {
        rows[r].iterations = rowIterations;
        for (uint32_t i = 0; i < rows[r].operandCount; ++i) {
            rows[r].operands[i].base += rows[r].operands[i].stride * rowIterations * r;
        }
    }
    RecordRows(rows);
}

// All rows read before one is written: a view of them all is read in place and then replaced as a whole. Unless they
// are written to one place.
void Scheduler::RecordRows(std::vector<Instruction>& rows)
{
    bool gapless = true;
    SetEnds(rows.front());
    const Operand& first = rows.front().operands[0];
    if (rows.size() > 1 && rows[1].operands[0].base == first.base) {
        Overwrite(SpanOf(first), false);
    }
    for (uint32_t r = 0; r < rows.size(); ++r) {
        SetEnds(rows[r]);
        const Operand& to = rows[r].operands[0];
        // An accumulator is read through its destination, and so is the value that one iteration leaves for the next.
        if (to.stride < static_cast<int64_t>(to.extent)) {
            Overwrite(SpanOf(to), false);
        }
        for (uint32_t i = 1; i < rows[r].operandCount; ++i) {
            Resolve(rows[r].operands[i], rows[r].iterations);
        }
        gapless = gapless && to.stride <= static_cast<int64_t>(to.extent) &&
                  (r == 0 || to.base == rows[r - 1].operands[0].end);
    }
    Overwrite({rows.front().operands[0].base, rows.back().operands[0].end}, gapless);
    for (const Instruction& row : rows) {
        groups_.Add(row);
    }
}

// ---- views

// Points an operand at its data: at the source of a view where it can be read in place.
void Scheduler::Resolve(Operand& operand, uint32_t iterations)
{
    for (uint32_t i = 0; i < views_.size();) {
        if (!views_[i].ub.Overlaps(SpanOf(operand))) {
            ++i;
        } else if (ReadInPlace(views_[i], operand, iterations)) {
            return;
        } else {
            Materialize(i);  // removes view i
        }
    }
}

bool Scheduler::ReadInPlace(const View& view, Operand& operand, uint32_t iterations) const
{
    int64_t column = operand.base - view.ub.begin;
    if (column < 0) {
        return false;
    }
    const Rows& rows = view.rows;
    const int64_t row = rows.rows == 1 ? 0 : column / rows.stride;
    column -= row * rows.stride;
    const bool inOneRow = column + (operand.end - operand.base) <= rows.rowBytes;
    const bool rowByRow =
        operand.stride == rows.stride && column + operand.extent <= rows.rowBytes && row + iterations <= rows.rows;
    if (!inOneRow && !rowByRow) {
        return false;
    }
    if (!inOneRow) {
        operand.stride = view.gmStride;
    }
    operand.base = const_cast<char*>(view.gm) + row * view.gmStride + column;
    operand.end = const_cast<char*>(SpanOf(operand, iterations).end);
    operand.origin = view.origin;
    return true;
}

void Scheduler::RemoveView(uint32_t view)
{
    views_[view] = views_.back();
    views_.pop_back();
}

// Makes the copy that a view stood for.
void Scheduler::Materialize(uint32_t index)
{
    const View view = views_[index];
    RemoveView(index);
    Instruction copy;
    copy.operation = OperationOn(ElementType::FLOAT, Opcode::COPY);
    copy.iterations = view.rows.rows;
    copy.lanes = view.rows.rowBytes / 4 + 1;
    copy.operandCount = 2;
    copy.operands[0] = {const_cast<char*>(view.ub.begin), view.rows.stride, view.rows.rowBytes};
    copy.operands[1] = {const_cast<char*>(view.gm), view.gmStride, view.rows.rowBytes, view.origin};
    SetEnds(copy);
    groups_.Add(copy);
}

// A write to `span`: views that it replaces as a whole are dropped, others whose copy or source it touches become
// copies first.
void Scheduler::Overwrite(const Span& span, bool gapless)
{
    for (uint32_t i = 0; i < views_.size();) {
        const View& view = views_[i];
        if (gapless && span.Covers(view.ub)) {
            RemoveView(i);
        } else if (span.Overlaps(view.ub) || span.Overlaps({view.gm, view.GmEnd()})) {
            Materialize(i);
        } else {
            ++i;
        }
    }
}

void Scheduler::Discard(const Span& freed)
{
    groups_.Discard(freed);
    killed_.push_back({static_cast<uint32_t>(groups_.Instructions().size()), freed});
    for (uint32_t i = 0; i < views_.size();) {
        if (freed.Covers(views_[i].ub)) {
            RemoveView(i);
        } else {
            ++i;
        }
    }
}

// ---- copies

void Scheduler::CopyIn(const Instruction& copy, int32_t origin)
{
    View view;
    view.rows = RowsOf(copy, 0, view.gmStride);
    view.gm = copy.operands[1].base;
    const char* const ub = copy.operands[0].base;
    view.ub = {ub, ub + view.rows.stride * (view.rows.rows - 1) + view.rows.rowBytes};
    view.origin = origin;
    Overwrite(view.ub, view.rows.rows == 1);
    if (views_.size() == MAX_VIEWS) {
        Materialize(0);
    }
    views_.push_back(view);
    program_.reads.push_back(GmRowsOf(view));
}

void Scheduler::CopyOut(Instruction copy, int32_t origin)
{
    int64_t gmStride = 0;
    const Rows rows = RowsOf(copy, 1, gmStride);
    copy.operation =
        OperationOn(ElementType::FLOAT, copy.kind == InstructionKind::COPY_OUT_ADD ? Opcode::COPY_ADD : Opcode::COPY);
    if (rows.rows == 1) {  // by elements, so that it can walk along with the instructions that make the data
        const uint32_t elementBytes = copy.lanes;
        copy.iterations = rows.rowBytes / elementBytes;
        copy.lanes = 1;
        for (uint32_t i = 0; i < 2; ++i) {
            copy.operands[i].stride = elementBytes;
            copy.operands[i].extent = elementBytes;
        }
    } else {
        copy.lanes = rows.rowBytes / 4 + 1;
    }
    SetEnds(copy);
    Operand& to = copy.operands[0];
    to.origin = origin;
    program_.writes.push_back({origin, {rows.rows, rows.rowBytes, gmStride}});
    // This comes first, so that a view of bytes that are about to be overwritten becomes a copy.
    Overwrite(SpanOf(to), false);
    Resolve(copy.operands[1], copy.iterations);
    groups_.AddCopyOut(copy);
}

}  // namespace host
}  // namespace AscendC
