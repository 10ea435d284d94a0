#include "planner.h"

#include <algorithm>

#include "meaning.h"
#include "sequence.h"
#include "types.h"

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

// As many units as leave the steps without code, which touch so much of each, within the first cache.
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

Plan::GmRows Planner::GmRowsOf(const View& view)
{
    return {view.origin, {view.rows.rows, view.rows.rowBytes, view.gmStride}};
}

void Planner::Make(const std::vector<View>& views, const Instruction* requests, uint32_t count, const Ranges& needed,
                   Plan& plan)
{
    plan = Plan{};
    plan_ = &plan;
    views_ = views;
    rowForms_.Find(requests, count);
    groups_.Clear();
    steps_.Clear();
    gm_.clear();
    for (uint32_t i = 0; i < views_.size(); ++i) {
        views_[i].origin = static_cast<int32_t>(i);
        gm_.push_back(views_[i].gm);
        plan.reads_.push_back(GmRowsOf(views_[i]));
    }
    for (uint32_t i = 0; i < count; ++i) {
        const bool out =
            requests[i].request == RequestKind::COPY_OUT || requests[i].request == RequestKind::COPY_OUT_ADD;
        gm_.push_back(requests[i].operands[out ? 0 : 1].base);
        const int32_t origin = static_cast<int32_t>(gm_.size() - 1);
        if (out) {
            CopyOut(requests[i], origin);
        } else if (const Sweep sweep = RowForms::SweepFrom(requests + i, count - i); sweep.length > 0) {
            std::vector<Instruction> rows;
            for (uint32_t row = 0; row < requests[i].units; ++row) {
                rows.push_back(sweep.Row(requests[i], row));
            }
            RecordRows(rows);
            i += sweep.length - 1;
            gm_.resize(gm_.size() + sweep.length - 1);  // requests without an origin
        } else {
            Take(requests[i], origin);
        }
    }
    groups_.WriteThrough();
    Compile(needed);
    plan.endViews_ = views_;
}

void Planner::Take(const Instruction& request, int32_t origin)
{
    const Operand& first = request.operands[0];
    switch (request.request) {
        case RequestKind::COPY_IN:
            CopyIn(request, origin);
            break;
        case RequestKind::DISCARD:
            Discard({first.base, first.base + first.extent});
            break;
        case RequestKind::OVERWRITE:
            Overwrite({first.base, first.base + first.extent}, true);
            break;
        case RequestKind::SETTLE:
            while (!views_.empty()) {
                Materialize(static_cast<uint32_t>(views_.size()) - 1);
            }
            break;
        default:
            Record(request);
    }
}

void Planner::Record(const Instruction& instruction)
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
Instruction Planner::ByRowsOfView(const Instruction& instruction) const
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
void Planner::RecordRows(std::vector<Instruction>& rows)
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
        // An accumulator is read through its destination, and so is what one unit leaves for the next.
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
void Planner::Resolve(Operand& operand, uint32_t units)
{
    for (uint32_t i = 0; i < views_.size();) {
        if (!views_[i].ub.Overlaps({operand.base, operand.end})) {
            ++i;
        } else if (ReadInPlace(views_[i], operand, units)) {
            return;
        } else {
            Materialize(i);  // removes view i
        }
    }
}

bool Planner::ReadInPlace(const View& view, Operand& operand, uint32_t units) const
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
    operand.end = operand.base + operand.stride * (units - 1) + operand.extent;
    operand.origin = view.origin;
    return true;
}

void Planner::RemoveView(uint32_t view)
{
    views_[view] = views_.back();
    views_.pop_back();
}

// Makes the copy that a view stood for.
void Planner::Materialize(uint32_t index)
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
void Planner::Overwrite(const Span& span, bool gapless)
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

void Planner::Discard(const Span& freed)
{
    groups_.Discard(freed.begin, freed.end);
    steps_.Forget(static_cast<uint32_t>(groups_.Instructions().size()), freed);
    for (uint32_t i = 0; i < views_.size();) {
        if (freed.Covers(views_[i].ub)) {
            RemoveView(i);
        } else {
            ++i;
        }
    }
}

// ---- copies

void Planner::CopyIn(const Instruction& copy, int32_t origin)
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
    plan_->reads_.push_back(GmRowsOf(view));
}

void Planner::CopyOut(Instruction copy, int32_t origin)
{
    int64_t gmStride = 0;
    const Rows rows = RowsOf(copy, 1, gmStride);
    copy.run = copy.request == RequestKind::COPY_OUT_ADD ? g_vectorUnit->copyAdd : g_vectorUnit->copy;
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
    plan_->writes_.push_back({origin, {rows.rows, rows.rowBytes, gmStride}});
    // First, so that a view of what is about to be overwritten becomes a copy.
    Overwrite(SpanOf(to), false);
    Resolve(copy.operands[1], copy.units);
    groups_.AddCopyOut(copy);
}

// ---- the plan

// What is at `place`, the address of `operand`, follows the memory of its origin.
void Planner::Relocate(const Operand& operand, char*& place)
{
    if (operand.origin != NO_ORIGIN) {
        plan_->relocations_.push_back({&place, operand.origin, operand.base - gm_[operand.origin]});
        std::vector<int32_t>& origins = plan_->origins_;
        if (std::find(origins.begin(), origins.end(), operand.origin) == origins.end()) {
            origins.push_back(operand.origin);
        }
    }
}

void Planner::CompileChain(const std::vector<ChainItem>& items)
{
    std::vector<ChainLink>& links = plan_->links_;
    for (const ChainItem& item : items) {
        links.push_back({item.link, item.scalar, item.operand == nullptr ? nullptr : item.operand->base});
        if (item.operand != nullptr) {
            Relocate(*item.operand, links.back().base);
        }
    }
    links.push_back({Link::END, 0.0f, nullptr});
}

// The steps of a loop one after the other, and the code that may take their place.
void Planner::CompileLoop(const Loop& loop)
{
    Plan& plan = *plan_;
    std::vector<Instruction>& instructions = plan.instructions_;
    LoopCode* code = loop.form.links.empty() ? nullptr : FindLoopCode(loop.form);
    const bool byElement = !loop.form.byRow;
    const uint32_t length = static_cast<uint32_t>(loop.steps.size());
    plan.hasLoops_ = plan.hasLoops_ || code != nullptr;
    const uint32_t cost = code == nullptr ? 0 : loop.form.Cost();
    // A loop that has nothing to do with others goes to its end: strips of it are a call each, and rows a power of two
    // apart drive each other out of the first cache.
    const Group& all = groups_.List()[steps_.List()[loop.steps[0]].group];
    const bool alone = loop.alone && code != nullptr && (!byElement || all.units > StripOf(all));
    for (uint32_t k = 0; k < length; ++k) {
        const Step& step = steps_.List()[loop.steps[k]];
        const Group& group = groups_.List()[step.group];
        if (step.group != lastGroup_ || (alone && k == 0)) {
            const uint32_t rows = alone && byElement && loop.form.Inputs() > 1 ? step.group : NO_GROUP;
            if (rows == NO_GROUP || rows != rows_) {
                rows_ = rows;
                firstOfRows_ = plan.groups_.size();
            }
            const uint32_t strip = StripOf(group);
            plan.groups_.push_back({static_cast<uint32_t>(plan.steps_.size()), 0, group.units, strip, 0, 0, strip});
            plan.groups_[firstOfRows_].turns += 1;
            lastGroup_ = step.group;
        }
        const bool chain = !step.items.empty() && (step.mustChain || code != nullptr);
        const bool linked = chain || code != nullptr;
        const uint32_t links = static_cast<uint32_t>(plan.links_.size());
        const uint32_t ratio = instructions[step.parts[0]].units / group.units;
        plan.steps_.push_back({chain, chain ? links : step.parts[0], ratio, k == 0 ? code : nullptr, links, length,
                               byElement, code == nullptr ? step.units : UINT32_MAX, k == 0 ? cost : 0});
        if (linked) {
            CompileChain(loop.items[k]);
        }
        if (!chain) {
            Instruction& instruction = instructions[step.parts[0]];
            for (uint32_t a = 0; a < instruction.operandCount; ++a) {
                Relocate(instruction.operands[a], instruction.operands[a].base);
            }
        }
        Plan::StepGroup& run = plan.groups_.back();
        run.count += 1;
        if (code == nullptr) {
            run.bytes += chain ? WIDE_BYTES : ratio * BytesOfUnit(instructions[step.parts[0]]);
        } else if (k == 0) {
            run.bytes += byElement || coded_ == step.group ? WIDE_BYTES : 0;  // what one makes may be for another one
            coded_ = step.group;
        }
        run.wide = group.elements == 1 ? run.strip : WideStrip(run.strip, run.bytes);
        plan.cost_ += static_cast<uint64_t>(plan.steps_.back().cost) * group.units;
        plan.turns_ += (run.units + run.strip - 1) / run.strip;
        for (const uint32_t i : step.parts) {
            plan.work_ += instructions[i].units * instructions[i].lanes / STRIP_ELEMENTS;
            plan.reduces_ = plan.reduces_ || Reduces(instructions[i]);
        }
    }
    lastGroup_ = alone ? NO_GROUP : lastGroup_;
}

// Of a loop that is nothing but one: the instruction; else null.
const Instruction* Planner::OnlyInstruction(const Loop& loop) const
{
    const Step& step = steps_.List()[loop.steps[0]];
    const bool only = loop.form.links.empty() && loop.steps.size() == 1 && step.parts.size() == 1 && !step.mustChain &&
                      groups_.List()[step.group].members.size() == 1;
    return only ? &plan_->instructions_[step.parts[0]] : nullptr;
}

// Small instructions from loop `first` on, if there are some, and the code that may take their place. Returns how many.
uint32_t Planner::CompileSequence(const std::vector<Loop>& loops, size_t first)
{
    Plan& plan = *plan_;
    Sequence sequence;
    for (size_t i = first; i < loops.size(); ++i) {
        const Instruction* const instruction = OnlyInstruction(loops[i]);
        const uint32_t most = steps_.List()[loops[i].steps[0]].units;
        if (instruction == nullptr || !sequence.Add(*instruction, std::min(instruction->units, most))) {
            break;
        }
    }
    const uint32_t length = static_cast<uint32_t>(sequence.Steps().size());
    if (length < 2) {
        return 0;
    }
    LoopForm form;
    form.sequence = sequence.Steps();
    LoopCode* const code = FindLoopCode(form);
    plan.hasLoops_ = plan.hasLoops_ || code != nullptr;
    plan.groups_.push_back({static_cast<uint32_t>(plan.steps_.size()), length, 1, 1, 1, 0, 1});
    plan.turns_ += length;
    const uint32_t links = static_cast<uint32_t>(plan.links_.size());
    for (uint32_t k = 0; k < length; ++k) {
        const Step& step = steps_.List()[loops[first + k].steps[0]];
        Instruction& instruction = plan.instructions_[step.parts[0]];
        plan.steps_.push_back(
            {false, step.parts[0], instruction.units, k == 0 ? code : nullptr, links, length, false, step.units, 0});
        for (uint32_t a = 0; a < instruction.operandCount; ++a) {
            plan.links_.push_back({Link::END, 0.0f, instruction.operands[a].base});
            Relocate(instruction.operands[a], plan.links_.back().base);
            Relocate(instruction.operands[a], instruction.operands[a].base);
        }
        plan.work_ += instruction.units * instruction.lanes / STRIP_ELEMENTS;
        plan.reduces_ = plan.reduces_ || Reduces(instruction);
    }
    lastGroup_ = NO_GROUP;
    rows_ = NO_GROUP;
    return length;
}

void Planner::Compile(const Ranges& needed)
{
    lastGroup_ = NO_GROUP;
    rows_ = NO_GROUP;
    coded_ = NO_GROUP;
    Plan& plan = *plan_;
    std::vector<Instruction>& instructions = plan.instructions_;
    steps_.Find(groups_, instructions);
    steps_.LeaveOut(needed, instructions);
    const std::vector<Loop> loops = FindLoops(steps_, groups_, instructions, needed);
    size_t links = 0;
    for (const Loop& loop : loops) {
        for (const std::vector<ChainItem>& items : loop.items) {
            links += std::max<size_t>(items.size(), MAX_OPERANDS) + 1;
        }
    }
    plan.links_.reserve(links);  // relocations point into it
    for (size_t i = 0; i < loops.size();) {
        const uint32_t length = CompileSequence(loops, i);
        if (length == 0) {
            CompileLoop(loops[i]);
        }
        i += std::max<uint32_t>(length, 1);
    }
    plan.functions_.resize(plan.steps_.size());
}

}  // namespace host
}  // namespace AscendC
