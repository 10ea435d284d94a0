#include "passes/scheduler.h"

#include <algorithm>

#include "api/types.h"
#include "ir/operation.h"
#include "passes/packed_dots.h"
#include "passes/straight_line.h"

namespace AscendC {
namespace host {

namespace {

constexpr uint32_t GRANULE = 128;  // elements in a repeat of the narrowest type

uint32_t StripOf(const Group& group)
{
    if (group.members.size() == 1) {
        return group.units;
    }
    const uint32_t strip = group.elements == 1 ? STRIP_ELEMENTS : std::max(STRIP_ELEMENTS / group.elements, 1U);
    return group.granular ? (strip + GRANULE - 1) / GRANULE * GRANULE : strip;
}

constexpr uint32_t WIDE_BYTES = 8 * 1024;

// As many units as leave the steps without code, which touch so much of each, within the L1 data cache.
uint32_t WideStrip(uint32_t strip, uint32_t bytes)
{
    const uint32_t most = bytes == 0 ? WIDE_BYTES : WIDE_BYTES / bytes;
    return std::max(strip, most / strip * strip);
}

uint32_t BytesOfUnit(const Instruction& instruction)
{
    uint32_t bytes = 0;
    for (uint32_t i = 0; i < instruction.operandCount; ++i) {
        bytes += instruction.operands[i].extent;
    }
    return bytes;
}

// Does it make little of much?
bool Reduces(const Instruction& instruction)
{
    constexpr int64_t MUCH = 8;
    const auto bytes = [&](uint32_t operand) {
        return instruction.operands[operand].end - instruction.operands[operand].base;
    };
    return instruction.operandCount > 1 && bytes(0) * MUCH <= bytes(1);
}

}  // namespace

Schedule::GmRows Scheduler::GmRowsOf(const View& view)
{
    return {view.origin, {view.rows.rows, view.rows.rowBytes, view.gmStride}};
}

void Scheduler::Make(const std::vector<View>& views, const Instruction* instructions, uint32_t count,
                     const Ranges& needed, Schedule& schedule)
{
    schedule = Schedule{};
    schedule_ = &schedule;
    const std::vector<Instruction> withDots = FindPackedDots(instructions, count);
    instructions = withDots.data();
    views_ = views;
    rowForms_.Find(instructions, count);
    groups_.Clear();
    steps_.Clear();
    gm_.clear();
    for (uint32_t i = 0; i < views_.size(); ++i) {
        views_[i].origin = static_cast<int32_t>(i);
        gm_.push_back(views_[i].gm);
        schedule.reads_.push_back(GmRowsOf(views_[i]));
    }
    for (uint32_t i = 0; i < count; ++i) {
        const bool out =
            instructions[i].kind == InstructionKind::COPY_OUT || instructions[i].kind == InstructionKind::COPY_OUT_ADD;
        gm_.push_back(instructions[i].operands[out ? 0 : 1].base);
        const int32_t origin = static_cast<int32_t>(gm_.size() - 1);
        if (instructions[i].kind == InstructionKind::VECTOR && instructions[i].units == 0) {
            continue;
        }
        if (out) {
            CopyOut(instructions[i], origin);
        } else if (const Sweep sweep = RowForms::SweepFrom(instructions + i, count - i); sweep.length > 0) {
            std::vector<Instruction> rows;
            for (uint32_t row = 0; row < instructions[i].units; ++row) {
                rows.push_back(sweep.Row(instructions[i], row));
            }
            RecordRows(rows);
            i += sweep.length - 1;
            gm_.resize(gm_.size() + sweep.length - 1);  // instructions without an origin
        } else {
            Take(instructions[i], origin);
        }
    }
    groups_.WriteThrough();
    Compile(needed);
    schedule.endViews_ = views_;
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
        case InstructionKind::SETTLE:
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
    const uint32_t rowUnits = rowForms_.RowUnits(instruction);
    if (rowUnits == instruction.units) {
        std::vector<Instruction> whole{ByRowsOfView(instruction)};
        return RecordRows(whole);
    }
    std::vector<Instruction> rows(instruction.units / rowUnits, instruction);
    for (uint32_t r = 0; r < rows.size(); ++r) {
        rows[r].units = rowUnits;
        for (uint32_t i = 0; i < rows[r].operandCount; ++i) {
            rows[r].operands[i].base += rows[r].operands[i].stride * rowUnits * r;
        }
    }
    RecordRows(rows);
}

// An instruction on the elements of short rows that lie apart in global memory reads them in place if a unit is a row.
Instruction Scheduler::ByRowsOfView(const Instruction& instruction) const
{
    Instruction byRow = instruction;
    byRow.run = instruction.lanes == 1 ? RepeatRunOf(instruction.run) : nullptr;
    if (byRow.run == nullptr) {
        return instruction;
    }
    for (uint32_t i = 1; i < instruction.operandCount; ++i) {
        const Operand& operand = instruction.operands[i];
        const auto apart = std::find_if(views_.begin(), views_.end(), [&operand](const View& view) {
            return view.rows.rows > 1 && view.rows.stride == view.rows.rowBytes && view.ub.begin <= operand.base &&
                   operand.base < view.ub.end && (operand.base - view.ub.begin) % view.rows.stride == 0;
        });
        if (apart == views_.end() || operand.stride == 0) {
            continue;
        }
        const uint32_t elements = apart->rows.rowBytes / operand.extent;
        const bool rows = elements * operand.extent == apart->rows.rowBytes && instruction.units > elements &&
                          instruction.units % elements == 0;
        if (!rows || elements > MAX_ROW_ELEMENTS || (instruction.granule > 1 && !BlocksFit(elements))) {
            continue;
        }
        byRow.units = instruction.units / elements;
        byRow.lanes = elements;
        byRow.granule = 1;
        for (uint32_t k = 0; k < byRow.operandCount; ++k) {
            Operand& row = byRow.operands[k];
            row.extent *= row.stride == 0 ? 1 : elements;
            row.stride *= elements;
        }
        return byRow;
    }
    return instruction;
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
        // An accumulator is read through its destination, and so is the value that one unit leaves for the next.
        if (to.stride < static_cast<int64_t>(to.extent)) {
            Overwrite(SpanOf(to), false);
        }
        for (uint32_t i = 1; i < rows[r].operandCount; ++i) {
            Resolve(rows[r].operands[i], rows[r].units);
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
void Scheduler::Resolve(Operand& operand, uint32_t units)
{
    for (uint32_t i = 0; i < views_.size();) {
        if (!views_[i].ub.Overlaps(SpanOf(operand))) {
            ++i;
        } else if (ReadInPlace(views_[i], operand, units)) {
            return;
        } else {
            Materialize(i);  // removes view i
        }
    }
}

bool Scheduler::ReadInPlace(const View& view, Operand& operand, uint32_t units) const
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
        operand.stride == rows.stride && column + operand.extent <= rows.rowBytes && row + units <= rows.rows;
    if (!inOneRow && !rowByRow) {
        return false;
    }
    if (!inOneRow) {
        operand.stride = view.gmStride;
    }
    operand.base = const_cast<char*>(view.gm) + row * view.gmStride + column;
    operand.end = const_cast<char*>(SpanOf(operand, units).end);
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
    copy.run = g_vectorUnit->copy;
    copy.units = view.rows.rows;
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
    steps_.Kill(static_cast<uint32_t>(groups_.Instructions().size()), freed);
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
    schedule_->reads_.push_back(GmRowsOf(view));
}

void Scheduler::CopyOut(Instruction copy, int32_t origin)
{
    int64_t gmStride = 0;
    const Rows rows = RowsOf(copy, 1, gmStride);
    copy.run = copy.kind == InstructionKind::COPY_OUT_ADD ? g_vectorUnit->copyAdd : g_vectorUnit->copy;
    if (rows.rows == 1) {  // by elements, so that it can walk along with the instructions that make the data
        const uint32_t elementBytes = copy.lanes;
        copy.units = rows.rowBytes / elementBytes;
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
    schedule_->writes_.push_back({origin, {rows.rows, rows.rowBytes, gmStride}});
    // First, so that a view of bytes that are about to be overwritten becomes a copy.
    Overwrite(SpanOf(to), false);
    Resolve(copy.operands[1], copy.units);
    groups_.AddCopyOut(copy);
}

// ---- the schedule

// `place`, the address of `operand`, follows the memory of its origin.
void Scheduler::Relocate(const Operand& operand, char*& place)
{
    if (operand.origin != NO_ORIGIN) {
        schedule_->relocations_.push_back({&place, operand.origin, operand.base - gm_[operand.origin]});
        std::vector<int32_t>& origins = schedule_->origins_;
        if (std::find(origins.begin(), origins.end(), operand.origin) == origins.end()) {
            origins.push_back(operand.origin);
        }
    }
}

void Scheduler::CompileSequence(const std::vector<SequenceNode>& items)
{
    std::vector<BoundNode>& nodes = schedule_->nodes_;
    for (const SequenceNode& item : items) {
        nodes.push_back({item.kind, item.scalar, item.operand == nullptr ? nullptr : item.operand->base});
        if (item.operand != nullptr) {
            Relocate(*item.operand, nodes.back().base);
        }
    }
    nodes.push_back({NodeKind::END, 0.0f, nullptr});
}

// The steps of a loop one after the other, and the code that may take their place.
void Scheduler::CompileLoop(const FusedLoop& loop)
{
    Schedule& schedule = *schedule_;
    std::vector<Instruction>& instructions = schedule.instructions_;
    LoopCode* code = loop.form.nodes.empty() ? nullptr : FindLoopCode(loop.form);
    const bool byElement = !loop.form.byRow;
    const uint32_t length = static_cast<uint32_t>(loop.steps.size());
    schedule.hasLoops_ = schedule.hasLoops_ || code != nullptr;
    const uint32_t cost = code == nullptr ? 0 : loop.form.Cost();
    // A loop that has nothing to do with others goes to its end: strips of it are a call each, and rows a power of two
    // apart drive each other out of the L1 data cache.
    const Group& all = groups_.List()[steps_.List()[loop.steps[0]].group];
    const bool alone = loop.alone && code != nullptr && (!byElement || all.units > StripOf(all));
    for (uint32_t k = 0; k < length; ++k) {
        const Step& step = steps_.List()[loop.steps[k]];
        const Group& group = groups_.List()[step.group];
        if (step.group != lastGroup_ || (alone && k == 0)) {
            const uint32_t rows = alone && byElement && loop.form.Inputs() > 1 ? step.group : NO_GROUP;
            if (rows == NO_GROUP || rows != rows_) {
                rows_ = rows;
                firstOfRows_ = schedule.groups_.size();
            }
            const uint32_t strip = StripOf(group);
            schedule.groups_.push_back(
                {static_cast<uint32_t>(schedule.steps_.size()), 0, group.units, strip, 0, 0, strip});
            schedule.groups_[firstOfRows_].roundRobin += 1;
            lastGroup_ = step.group;
        }
        const bool sequence = !step.items.empty() && (step.mustFuse || code != nullptr);
        const bool linked = sequence || code != nullptr;
        const uint32_t nodes = static_cast<uint32_t>(schedule.nodes_.size());
        const uint32_t ratio = instructions[step.parts[0]].units / group.units;
        schedule.steps_.push_back({sequence, sequence ? nodes : step.parts[0], ratio, k == 0 ? code : nullptr, nodes,
                                   length, byElement, code == nullptr ? step.units : UINT32_MAX, k == 0 ? cost : 0});
        if (linked) {
            CompileSequence(loop.items[k]);
        }
        if (!sequence) {
            Instruction& instruction = instructions[step.parts[0]];
            for (uint32_t a = 0; a < instruction.operandCount; ++a) {
                Relocate(instruction.operands[a], instruction.operands[a].base);
            }
        }
        Schedule::StepGroup& run = schedule.groups_.back();
        run.count += 1;
        if (code == nullptr) {
            run.bytes += sequence ? WIDE_BYTES : ratio * BytesOfUnit(instructions[step.parts[0]]);
        } else if (k == 0) {
            run.bytes +=
                byElement || coded_ == step.group ? WIDE_BYTES : 0;  // the result of one may be for another one
            coded_ = step.group;
        }
        run.wide = group.elements == 1 ? run.strip : WideStrip(run.strip, run.bytes);
        schedule.cost_ += static_cast<uint64_t>(schedule.steps_.back().cost) * group.units;
        schedule.iterations_ += (run.units + run.strip - 1) / run.strip;
        for (const uint32_t i : step.parts) {
            schedule.work_ += instructions[i].units * instructions[i].lanes / STRIP_ELEMENTS;
            schedule.reduces_ = schedule.reduces_ || Reduces(instructions[i]);
        }
    }
    lastGroup_ = alone ? NO_GROUP : lastGroup_;
}

// Of a loop that is nothing but one: the instruction; else null.
const Instruction* Scheduler::OnlyInstruction(const FusedLoop& loop) const
{
    const Step& step = steps_.List()[loop.steps[0]];
    const bool only = loop.form.nodes.empty() && loop.steps.size() == 1 && step.parts.size() == 1 && !step.mustFuse &&
                      groups_.List()[step.group].members.size() == 1;
    return only ? &schedule_->instructions_[step.parts[0]] : nullptr;
}

// Small instructions from loop `first` on, if there are some, and the code that may take their place. Returns how many.
uint32_t Scheduler::CompileStraightLine(const std::vector<FusedLoop>& loops, size_t first)
{
    Schedule& schedule = *schedule_;
    StraightLine straightLine;
    for (size_t i = first; i < loops.size(); ++i) {
        const Instruction* const instruction = OnlyInstruction(loops[i]);
        const uint32_t most = steps_.List()[loops[i].steps[0]].units;
        if (instruction == nullptr || !straightLine.Add(*instruction, std::min(instruction->units, most))) {
            break;
        }
    }
    const uint32_t length = static_cast<uint32_t>(straightLine.Steps().size());
    if (length < 2) {
        return 0;
    }
    LoopForm form;
    form.straightLine = straightLine.Steps();
    LoopCode* const code = FindLoopCode(form);
    schedule.hasLoops_ = schedule.hasLoops_ || code != nullptr;
    schedule.groups_.push_back({static_cast<uint32_t>(schedule.steps_.size()), length, 1, 1, 1, 0, 1});
    schedule.iterations_ += length;
    const uint32_t nodes = static_cast<uint32_t>(schedule.nodes_.size());
    for (uint32_t k = 0; k < length; ++k) {
        const Step& step = steps_.List()[loops[first + k].steps[0]];
        Instruction& instruction = schedule.instructions_[step.parts[0]];
        schedule.steps_.push_back(
            {false, step.parts[0], instruction.units, k == 0 ? code : nullptr, nodes, length, false, step.units, 0});
        for (uint32_t a = 0; a < instruction.operandCount; ++a) {
            schedule.nodes_.push_back({NodeKind::END, 0.0f, instruction.operands[a].base});
            Relocate(instruction.operands[a], schedule.nodes_.back().base);
            Relocate(instruction.operands[a], instruction.operands[a].base);
        }
        schedule.work_ += instruction.units * instruction.lanes / STRIP_ELEMENTS;
        schedule.reduces_ = schedule.reduces_ || Reduces(instruction);
    }
    lastGroup_ = NO_GROUP;
    rows_ = NO_GROUP;
    return length;
}

void Scheduler::Compile(const Ranges& needed)
{
    lastGroup_ = NO_GROUP;
    rows_ = NO_GROUP;
    coded_ = NO_GROUP;
    Schedule& schedule = *schedule_;
    std::vector<Instruction>& instructions = schedule.instructions_;
    steps_.Find(groups_, instructions);
    steps_.EliminateDeadStores(needed, instructions);
    const std::vector<FusedLoop> loops = FindFusedLoops(steps_, groups_, instructions, needed);
    size_t nodes = 0;
    for (const FusedLoop& loop : loops) {
        for (const std::vector<SequenceNode>& items : loop.items) {
            nodes += std::max<size_t>(items.size(), MAX_OPERANDS) + 1;
        }
    }
    schedule.nodes_.reserve(nodes);  // relocations point into it
    for (size_t i = 0; i < loops.size();) {
        const uint32_t length = CompileStraightLine(loops, i);
        if (length == 0) {
            CompileLoop(loops[i]);
        }
        i += std::max<uint32_t>(length, 1);
    }
    schedule.functions_.resize(schedule.steps_.size());
}

}  // namespace host
}  // namespace AscendC
