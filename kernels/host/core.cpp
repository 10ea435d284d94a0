#include "core.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

namespace AscendC {
namespace host {

void Fail(const char* format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    std::fputs("ms_ascend_ops: ", stderr);
    std::vfprintf(stderr, format, arguments);
    std::fputc('\n', stderr);
    va_end(arguments);
    std::abort();
}

Core::Core()
{
    ub_ = static_cast<char*>(std::aligned_alloc(4096, (UB_BYTES + 4095) / 4096 * 4096));
    if (ub_ == nullptr) {
        throw std::bad_alloc();
    }
}

Core::~Core()
{
    std::free(ub_);
}

thread_local Core* Core::t_current = nullptr;

Core& Core::Create()
{
    static thread_local std::unique_ptr<Core> owner = std::make_unique<Core>();
    t_current = owner.get();
    return *t_current;
}

void Core::Begin(uint32_t blockIdx, uint32_t blockNum, bool streaming)
{
    blockIdx_ = blockIdx;
    blockNum_ = blockNum;
    streaming_ = streaming;
    mask = MaskState{};
    atomicAdd = false;
    viewCount_ = 0;
    viewHull_ = {nullptr, nullptr};
    aheadCount_ = 0;
    writeCount_ = 0;
    instructionCount_ = 0;
    groupCount_ = 0;
}

inline void Core::SetEnds(Instruction& instruction)
{
    for (uint32_t i = 0; i < instruction.operandCount; ++i) {
        Operand& operand = instruction.operands[i];
        operand.end = operand.base + operand.stride * (instruction.units - 1) + operand.extent;
    }
}

// ---- views

// Points an operand of the instruction being recorded at its data: at the source of a view where it can be read in
// place.
void Core::Resolve(uint32_t index)
{
    for (uint32_t i = 0; i < viewCount_;) {
        const View& view = views_[i];
        const uint32_t units = instructions_[instructionCount_].units;
        Operand& operand = instructions_[instructionCount_].operands[index];
        if (!view.ub.Overlaps({operand.base, operand.end})) {
            ++i;
            continue;
        }
        int64_t column = operand.base - view.ub.begin;
        if (column >= 0) {
            const int64_t row = view.rows == 1 ? 0 : column / view.ubStride;
            column -= row * view.ubStride;
            const int64_t offset = row * view.gmStride + column;
            const int64_t bytes = operand.end - operand.base;
            const bool inOneRow = column + bytes <= view.rowBytes;
            const bool rowByRow =
                operand.stride == view.ubStride && column + operand.extent <= view.rowBytes && row + units <= view.rows;
            if (inOneRow || rowByRow) {
                if (!inOneRow) {
                    operand.stride = view.gmStride;
                }
                operand.base = const_cast<char*>(view.gm) + offset;
                operand.end = operand.base + operand.stride * (units - 1) + operand.extent;
                return;
            }
        }
        Materialize(i);  // removes view i
    }
}

void Core::RemoveView(uint32_t view)
{
    views_[view] = views_[--viewCount_];
    if (viewCount_ == 0) {
        viewHull_ = {nullptr, nullptr};
    }
}

// Makes the copy that a view stood for.
void Core::Materialize(uint32_t index)
{
    const View view = views_[index];
    RemoveView(index);
    const Instruction waiting = instructions_[instructionCount_];  // being filled in by the caller
    Instruction& copy = Next();
    copy.run = g_vectorUnit->copy;
    copy.units = view.rows;
    copy.lanes = view.rowBytes / 4 + 1;
    copy.operandCount = 2;
    copy.operands[0] = {const_cast<char*>(view.ub.begin), view.ubStride, view.rowBytes};
    copy.operands[1] = {const_cast<char*>(view.gm), view.gmStride, view.rowBytes};
    SetEnds(copy);
    Append();
    Next() = waiting;
}

// A write to `span`: views that it replaces as a whole are dropped, others whose copy or source it touches become
// copies first.
void Core::Overwrite(const Span& span, bool gapless)
{
    if (writeCount_ > 0 && WriteTouches(span)) {
        WriteOutAll();
    }
    for (uint32_t i = 0; i < viewCount_;) {
        const View& view = views_[i];
        if (gapless && span.Covers(view.ub)) {
            RemoveView(i);
        } else if (span.Overlaps(view.ub) ||
                   span.Overlaps({view.gm, view.gm + view.gmStride * (view.rows - 1) + view.rowBytes})) {
            Materialize(i);
        } else {
            ++i;
        }
    }
}

void Core::Discard(const char* ub, uint32_t bytes)
{
    const Span freed = {ub, ub + bytes};
    for (uint32_t i = 0; i < viewCount_;) {
        if (freed.Covers(views_[i].ub)) {
            RemoveView(i);
        } else {
            ++i;
        }
    }
}

// ---- recording

Instruction& Core::Next()
{
    if (instructionCount_ == MAX_INSTRUCTIONS) {
        RunRecorded();
    }
    Instruction& next = instructions_[instructionCount_];
    next.widen = false;
    next.blockOperand = 0;
    next.fold = nullptr;
    next.lanes = 1;
    next.granule = 1;
    return next;
}

void Core::Issue()
{
    SetEnds(instructions_[instructionCount_]);
    {
        const Operand& to = instructions_[instructionCount_].operands[0];
        const Span target = {to.base, to.end};
        if (writeCount_ > 0 && WriteTouches(target)) {
            WriteOutAll();
        }
        // Most instructions touch no view: one comparison an operand tells.
        if (to.stride == 0 && viewHull_.Overlaps(target)) {  // an accumulator is read through its destination
            Overwrite(target, false);
        }
    }
    const uint32_t operandCount = instructions_[instructionCount_].operandCount;
    for (uint32_t i = 1; i < operandCount; ++i) {
        const Operand& operand = instructions_[instructionCount_].operands[i];
        if (viewHull_.Overlaps({operand.base, operand.end})) {
            Resolve(i);
        }
    }
    const Operand& to = instructions_[instructionCount_].operands[0];
    if (viewHull_.Overlaps({to.base, to.end})) {
        Overwrite({to.base, to.end}, to.stride <= static_cast<int64_t>(to.extent));
    }
    const Instruction& instruction = instructions_[instructionCount_];
    if (!instruction.widen || !Widens(instruction)) {
        Append();
    }
}

void Core::CopyIn(char* ub, const char* gm, const CopyShape& shape, Stream* stream)
{
    const bool contiguous =
        shape.rows == 1 || (shape.dstStride == shape.srcStride && shape.dstStride == shape.rowBytes);
    View view;
    view.rows = contiguous ? 1 : shape.rows;
    view.rowBytes = contiguous ? shape.rows * shape.rowBytes : shape.rowBytes;
    view.ubStride = contiguous ? view.rowBytes : shape.dstStride;
    view.gmStride = contiguous ? view.rowBytes : shape.srcStride;
    view.gm = gm;
    view.ub = {ub, ub + view.ubStride * (view.rows - 1) + view.rowBytes};
    Overwrite(view.ub, view.rows == 1);
    if (writeCount_ > 0 && WriteTouches({gm, gm + view.gmStride * (view.rows - 1) + view.rowBytes})) {
        WriteOutAll();
    }
    if (viewCount_ == MAX_VIEWS) {
        Materialize(0);
    }
    viewHull_ = viewCount_ == 0 ? view.ub
                                : Span{view.ub.begin < viewHull_.begin ? view.ub.begin : viewHull_.begin,
                                       view.ub.end > viewHull_.end ? view.ub.end : viewHull_.end};
    views_[viewCount_++] = view;
    if (stream != nullptr) {
        LookAhead(gm, view, *stream);
    }
}

// Queues are filled in equal steps: the next tile lies as far on as this one lies from the last.
void Core::LookAhead(const char* gm, const View& view, Stream& stream)
{
    constexpr int64_t MAX_STEP = 1 << 20;
    const int64_t step = stream.last == nullptr ? 0 : gm - stream.last;
    stream.last = gm;
    if (view.rows * view.rowBytes < MIN_PREFETCH_BYTES || step <= 0 || step > MAX_STEP || aheadCount_ == MAX_AHEAD) {
        return;
    }
    ahead_[aheadCount_++] = {gm + step, view.rowBytes, view.rowBytes, view.rows, view.gmStride - view.rowBytes};
}

// What double buffering does on the chip: while this tile is calculated with, the next one is on its way. A few lines
// at a time, no more than the core has fill buffers for. At an end of the data nobody uses what is fetched.
void Core::Prefetch(uint32_t lines)
{
    while (lines > 0 && aheadCount_ > 0) {
        Ahead& ahead = ahead_[aheadCount_ - 1];
        const uint32_t now =
            (ahead.left + LINE_BYTES - 1) / LINE_BYTES < lines ? (ahead.left + LINE_BYTES - 1) / LINE_BYTES : lines;
        for (uint32_t i = 0; i < now; ++i) {
            __builtin_prefetch(ahead.next + i * LINE_BYTES, 0, 2);
        }
        lines -= now;
        if (now * LINE_BYTES < ahead.left) {
            ahead.next += now * LINE_BYTES;
            ahead.left -= now * LINE_BYTES;
        } else if (--ahead.rows > 0) {
            ahead.next += ahead.left + ahead.gap;
            ahead.left = ahead.rowBytes;
        } else {
            --aheadCount_;
        }
    }
}

void Core::CopyOut(char* gm, const char* ub, const CopyShape& shape)
{
    const bool contiguous =
        shape.rows == 1 || (shape.dstStride == shape.srcStride && shape.dstStride == shape.rowBytes);
    Instruction& copy = Next();
    copy.run = atomicAdd ? g_vectorUnit->copyAdd : g_vectorUnit->copy;
    copy.operandCount = 2;
    if (contiguous) {  // by elements, so that it can walk along with the instructions that make the data
        copy.units = shape.rows * shape.rowBytes / shape.elementBytes;
        copy.operands[0] = {gm, shape.elementBytes, shape.elementBytes};
        copy.operands[1] = {const_cast<char*>(ub), shape.elementBytes, shape.elementBytes};
    } else {
        copy.units = shape.rows;
        copy.lanes = shape.rowBytes / 4 + 1;
        copy.operands[0] = {gm, shape.dstStride, shape.rowBytes};
        copy.operands[1] = {const_cast<char*>(ub), shape.srcStride, shape.rowBytes};
    }
    SetEnds(copy);
    // First, so that a view of what is about to be overwritten becomes a copy.
    Overwrite({gm, copy.operands[0].end}, false);
    Resolve(1);
    if (streaming_ && !atomicAdd && QueueWrite(shape)) {
        return;
    }
    if (!SinkCopy(instructions_[instructionCount_])) {
        Append();
    }
}

inline void Core::AddTo(Group& group, uint16_t index)
{
    const Instruction& instruction = instructions_[index];
    next_[group.last] = index;
    group.last = index;
    uint32_t ratio = 1;
    if (instruction.units < group.units) {
        group.elements *= group.units / instruction.units;
        group.units = instruction.units;
    } else if (instruction.units > group.units) {
        ratio = instruction.units / group.units;
    }
    const uint32_t elements = instruction.lanes * ratio;
    group.elements = elements > group.elements ? elements : group.elements;
    group.granular = group.granular || instruction.granule > 1;
}

// Takes the instruction that was filled in into the list.
void Core::Append()
{
    const uint16_t index = instructionCount_++;
    const Instruction& instruction = instructions_[index];
    next_[index] = NONE;
    // Instructions on a few elements gain nothing from company.
    if (groupCount_ > 0 && instruction.units * instruction.lanes > TINY_ELEMENTS) {
        Group& group = groups_[groupCount_ - 1];
        if (group.units * group.elements > TINY_ELEMENTS && Joins(group, instruction)) {
            AddTo(group, index);
            return;
        }
    }
    groups_[groupCount_++] = {index, index, instruction.units, instruction.lanes, instruction.granule > 1};
}

// May `later` run strip by strip beside `earlier`? At the end of every strip, all that `later` has touched must lie
// before what `earlier` has still to touch. Both walk evenly, so the first and the last strip decide.
bool Core::KeepsStep(const Operand& earlier, uint32_t earlierRatio, const Operand& later, uint32_t laterRatio,
                     uint32_t units)
{
    const int64_t earlierStep = earlier.stride * earlierRatio;
    const int64_t laterStep = later.stride * laterRatio;
    if (earlier.stride == later.stride && earlierRatio == laterRatio && earlier.stride > 0) {
        if (earlier.base == later.base && later.extent <= later.stride) {
            return true;
        }
        // Columns of the same rows that never meet.
        int64_t distance = later.base - earlier.base;
        if (distance <= -earlier.stride || distance >= earlier.stride) {
            distance %= earlier.stride;
        }
        distance += distance < 0 ? earlier.stride : 0;
        if (distance >= earlier.extent && distance + later.extent <= earlier.stride) {
            return true;
        }
    }
    const char* firstTouched = later.base + laterStep - later.stride + later.extent;
    return firstTouched <= earlier.base + earlierStep && later.end <= earlier.base + earlierStep * units;
}

bool Core::KeepsStep(const Instruction& earlier, const Instruction& later, uint32_t units)
{
    const uint32_t earlierRatio = earlier.units == units ? 1 : earlier.units / units;
    const uint32_t laterRatio = later.units == units ? 1 : later.units / units;
    const Operand& written = earlier.operands[0];
    for (uint32_t i = 0; i < later.operandCount; ++i) {
        const Operand& operand = later.operands[i];
        if (operand.base < written.end && written.base < operand.end &&
            !KeepsStep(written, earlierRatio, operand, laterRatio, units)) {
            return false;
        }
    }
    const Operand& writes = later.operands[0];
    for (uint32_t i = 1; i < earlier.operandCount; ++i) {
        const Operand& operand = earlier.operands[i];
        if (writes.base < operand.end && operand.base < writes.end &&
            !KeepsStep(operand, earlierRatio, writes, laterRatio, units)) {
            return false;
        }
    }
    return true;
}

bool Core::Joins(const Group& group, const Instruction& later) const
{
    uint32_t units = group.units;
    if (later.units != units) {
        // Strips of whole units of the coarsest member must stay short.
        if (group.granular || later.granule > 1) {
            return false;
        }
        if (later.units > units) {
            const uint32_t ratio = later.units / units;
            if (later.lanes * ratio > STRIP_ELEMENTS || ratio * units != later.units) {
                return false;
            }
        } else {
            if (group.elements * (units / later.units) > STRIP_ELEMENTS) {
                return false;
            }
            units = later.units;  // it must divide every member
            for (uint16_t i = group.first; i != NONE; i = next_[i]) {
                if (instructions_[i].units % units != 0) {
                    return false;
                }
            }
        }
    }
    // A buffer written again from data that nobody here has made: the next row or tile begins, and so does a group.
    bool rewrites = false;
    bool continues = false;
    for (uint16_t i = group.first; i != NONE; i = next_[i]) {
        const Instruction& earlier = instructions_[i];
        if (!KeepsStep(earlier, later, units)) {
            return false;
        }
        rewrites = rewrites || earlier.operands[0].base == later.operands[0].base;
        for (uint32_t b = 1; b < later.operandCount; ++b) {
            continues = continues || later.operands[b].base == earlier.operands[0].base;
        }
    }
    return continues || !rewrites;
}

// Several rows take an instruction for every 64 columns: the next 64 columns become part of the last instruction.
bool Core::Widens(const Instruction& later)
{
    if (groupCount_ == 0 || groups_[groupCount_ - 1].last != instructionCount_ - 1) {
        return false;
    }
    const Group& group = groups_[groupCount_ - 1];
    const uint16_t last = group.last;
    Instruction wider = instructions_[last];
    if (wider.units != later.units || wider.scalar != later.scalar || wider.option != later.option ||
        wider.operandCount != later.operandCount || !wider.widen) {
        return false;
    }
    const bool folds =
        later.fold != nullptr && wider.operands[0].base == later.operands[0].base &&
        wider.operands[2].base == later.operands[2].base && wider.operands[0].extent == ONE_REPEAT_BYTE_SIZE &&
        wider.operands[1].extent % ONE_REPEAT_BYTE_SIZE == 0 && (wider.run == later.run || wider.run == later.fold);
    if (!folds && wider.run != later.run) {
        return false;
    }
    for (uint32_t i = 0; i < wider.operandCount; ++i) {
        Operand& operand = wider.operands[i];
        const Operand& next = later.operands[i];
        const bool stays = folds ? i != 1 : (i == wider.blockOperand && i != 0);
        if (operand.stride != next.stride || next.base != operand.base + (stays ? 0 : operand.extent)) {
            return false;
        }
        if (!stays) {
            operand.extent += next.extent;
            operand.end += next.extent;
        }
        // A source is the destination, column by column, or has nothing to do with it.
        const Operand& to = wider.operands[0];
        if (i > 0 && operand.base != to.base && operand.base < to.end && to.base < operand.end) {
            return false;
        }
    }
    wider.lanes += later.lanes;
    wider.run = folds ? later.fold : wider.run;
    for (uint16_t i = group.first; i != last; i = next_[i]) {
        if (!KeepsStep(instructions_[i], wider, group.units)) {
            return false;
        }
    }
    instructions_[last] = wider;
    Group& grown = groups_[groupCount_ - 1];
    const uint32_t elements = wider.lanes * (wider.units / grown.units);
    grown.elements = elements > grown.elements ? elements : grown.elements;
    return true;
}

// A copy out of several rows, each made by a group of its own: every group takes its part of the copy along, while
// the row is in the L1 cache. Only if the groups make exactly the copied bytes, in order, and nothing recorded after
// them touches either side.
bool Core::SinkCopy(const Instruction& copy)
{
    const Operand& to = copy.operands[0];
    const Operand& from = copy.operands[1];
    if (groupCount_ < 2) {
        return false;
    }
    const Operand& latest = instructions_[groups_[groupCount_ - 1].last].operands[0];
    if (latest.base == from.base && latest.end == from.end) {
        return false;  // one group made it all: the copy joins that in the ordinary way
    }
    uint16_t makers[MAX_INSTRUCTIONS];
    uint16_t groups[MAX_INSTRUCTIONS];
    uint32_t count = 0;
    for (uint16_t g = 0; g < groupCount_; ++g) {
        uint16_t maker = NONE;
        for (uint16_t i = groups_[g].first; i != NONE; i = next_[i]) {
            const Operand& made = instructions_[i].operands[0];
            maker = made.base < from.end && from.base < made.end ? i : maker;
        }
        if (maker != NONE) {
            makers[count] = maker;
            groups[count++] = g;
        }
    }
    const bool rows = from.stride != static_cast<int64_t>(from.extent) || to.stride != static_cast<int64_t>(to.extent);
    if (count < 2 || instructionCount_ + count > MAX_INSTRUCTIONS || (rows && count != copy.units)) {
        return false;
    }
    const char* expected = from.base;
    for (uint32_t k = 0; k < count; ++k) {
        const Operand& made = instructions_[makers[k]].operands[0];
        const bool gapless = made.stride == static_cast<int64_t>(made.extent);
        if (!gapless || made.base != expected || (rows && made.end != made.base + from.extent)) {
            return false;
        }
        expected = rows ? made.base + from.stride : made.end;
    }
    if (!rows && expected != from.end) {
        return false;
    }
    for (uint16_t g = groups[0]; g < groupCount_; ++g) {
        for (uint16_t i = groups_[g].first; i != NONE; i = next_[i]) {
            for (uint32_t a = 0; a < instructions_[i].operandCount; ++a) {
                const Operand& operand = instructions_[i].operands[a];
                if (operand.base < to.end && to.base < operand.end) {
                    return false;
                }
            }
        }
    }
    const Instruction whole = copy;
    for (uint32_t k = 0; k < count; ++k) {
        const Instruction& maker = instructions_[makers[k]];
        const uint16_t index = instructionCount_++;
        Instruction& part = instructions_[index];
        part = whole;
        part.units = maker.units;
        part.lanes = maker.lanes;
        part.operands[1] = maker.operands[0];
        const Operand& source = whole.operands[1];
        const Operand& target = whole.operands[0];
        const int64_t offset = rows ? target.stride * k : maker.operands[0].base - source.base;
        part.operands[0] = {target.base + offset, maker.operands[0].stride, maker.operands[0].extent};
        SetEnds(part);
        next_[index] = NONE;
        AddTo(groups_[groups[k]], index);
    }
    return true;
}

// ---- running

// Runs what is recorded and takes the copy being filled in into the queue of writes, which the next tile's program
// empties little by little: stores past the cache are slow in bursts. Only what is large and comes from UB itself.
bool Core::QueueWrite(const CopyShape& shape)
{
    const Instruction copy = instructions_[instructionCount_];
    const Operand& to = copy.operands[0];
    const Operand& from = copy.operands[1];
    const bool gapless = to.stride == from.stride && to.stride == static_cast<int64_t>(to.extent);
    const uint32_t rowBytes = gapless ? copy.units * to.extent : shape.rowBytes;
    if (rowBytes < MIN_STREAM_BYTES || from.base < ub_ || from.base >= ub_ + UB_BYTES) {
        return false;
    }
    RunRecorded();
    if (writeCount_ == MAX_WRITES) {
        WriteOutAll();
    }
    const uint32_t rows = gapless ? 1 : shape.rows;
    writes_[writeCount_++] = {
        {from.base, from.end}, {to.base, to.end},     to.base, from.base, rowBytes, rows, rowBytes,
        to.stride - rowBytes,  from.stride - rowBytes};
    return true;
}

bool Core::WriteTouches(const Span& span) const
{
    for (uint32_t i = 0; i < writeCount_; ++i) {
        if (span.Overlaps(writes_[i].source) || span.Overlaps(writes_[i].target)) {
            return true;
        }
    }
    return false;
}

void Core::WriteOut(uint32_t lines)
{
    while (lines > 0 && writeCount_ > 0) {
        Write& write = writes_[writeCount_ - 1];
        // Whole lines, so that the next piece starts at a line.
        const uint32_t offset = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(write.dst) % LINE_BYTES);
        const uint32_t whole = lines * LINE_BYTES - offset;
        const uint32_t bytes = write.left < whole ? write.left : whole;
        g_vectorUnit->stream(write.dst, write.src, bytes);
        lines -= (bytes + offset + LINE_BYTES - 1) / LINE_BYTES;
        write.dst += bytes;
        write.src += bytes;
        write.left -= bytes;
        if (write.left > 0) {
            return;
        }
        if (--write.rows > 0) {
            write.dst += write.dstGap;
            write.src += write.srcGap;
            write.left = write.rowBytes;
        } else {
            --writeCount_;
        }
    }
}

void Core::WriteOutAll()
{
    while (writeCount_ > 0) {
        WriteOut(~0u / LINE_BYTES - 1);
    }
}

inline uint32_t Core::StripOf(const Group& group)
{
    if (group.first == group.last) {
        return group.units;
    }
    const uint32_t strip = group.elements == 1 ? STRIP_ELEMENTS : STRIP_ELEMENTS / group.elements;
    if (group.granular) {
        return (strip + GRANULE - 1) / GRANULE * GRANULE;
    }
    return strip == 0 ? 1 : strip;
}

// Do the parts of a sequence meet in whole operands only, never in shifted ones?
bool Core::Aligned(const Instruction* const* parts, uint32_t count)
{
    for (uint32_t a = 0; a < count; ++a) {
        const Operand& written = parts[a]->operands[0];
        for (uint32_t b = 0; b < count; ++b) {
            for (uint32_t i = 0; i < parts[b]->operandCount; ++i) {
                const Operand& other = parts[b]->operands[i];
                if (other.base < written.end && written.base < other.end &&
                    (other.base != written.base || other.stride != written.stride)) {
                    return false;
                }
            }
        }
    }
    return true;
}

// The sequence that begins with instruction `first` of a group, if the vector unit has one.
const Sequence* Core::FindSequence(uint16_t first, const Instruction** parts) const
{
    for (uint32_t k = 0; k < g_vectorUnit->sequenceCount; ++k) {
        const Sequence& sequence = g_vectorUnit->sequences[k];
        uint32_t length = 0;
        for (uint16_t i = first;
             i != NONE && length < sequence.length && instructions_[i].run == sequence.runs[length] &&
             instructions_[i].units == instructions_[first].units;
             i = next_[i]) {
            parts[length++] = &instructions_[i];
        }
        if (length == sequence.length && sequence.fits(parts) && Aligned(parts, length)) {
            return &sequence;
        }
    }
    return nullptr;
}

void Core::Run(const Group& group, uint32_t readsPerRun, uint32_t writesPerRun)
{
    struct Step {
        const Instruction* parts[MAX_SEQUENCE];
        const Sequence* sequence;
        uint32_t ratio;
    };
    Step steps[MAX_INSTRUCTIONS];
    uint32_t stepCount = 0;
    for (uint16_t i = group.first; i != NONE;) {
        Step& step = steps[stepCount++];
        step.parts[0] = &instructions_[i];
        step.ratio = instructions_[i].units == group.units ? 1 : instructions_[i].units / group.units;
        step.sequence = next_[i] != NONE && group.elements == 1 ? FindSequence(i, step.parts) : nullptr;
        for (uint32_t skipped = step.sequence == nullptr ? 1 : step.sequence->length; skipped > 0; --skipped) {
            i = next_[i];
        }
    }
    const uint32_t strip = StripOf(group);
    for (uint32_t begin = 0; begin < group.units; begin += strip) {
        const uint32_t end = group.units - begin < strip ? group.units : begin + strip;
        for (uint32_t k = 0; k < stepCount; ++k) {
            const Step& step = steps[k];
            if (step.sequence != nullptr) {
                step.sequence->run(step.parts, begin, end);
            } else {
                step.parts[0]->run(*step.parts[0], begin * step.ratio, end * step.ratio);
            }
            if (aheadCount_ > 0) {
                Prefetch(readsPerRun);
            }
            if (writeCount_ > 0) {
                WriteOut(writesPerRun);
            }
        }
    }
}

void Core::RunRecorded()
{
    uint32_t readsPerRun = 0;
    uint32_t writesPerRun = 0;
    if (aheadCount_ + writeCount_ > 0) {  // spread evenly over what will run
        uint32_t reads = 0;
        for (uint32_t i = 0; i < aheadCount_; ++i) {
            reads += ahead_[i].rows * (ahead_[i].rowBytes / LINE_BYTES + 1);
        }
        uint32_t writes = 0;
        for (uint32_t i = 0; i < writeCount_; ++i) {
            writes += writes_[i].rows * (writes_[i].rowBytes / LINE_BYTES + 1);
        }
        uint32_t runs = 0;
        for (uint16_t i = 0; i < instructionCount_; ++i) {
            runs += instructions_[i].units * instructions_[i].lanes / STRIP_ELEMENTS;
        }
        readsPerRun = reads / (runs + 1) + 1;
        writesPerRun = writes / (runs + 1) + 1;
    }
    for (uint16_t g = 0; g < groupCount_; ++g) {
        Run(groups_[g], readsPerRun, writesPerRun);
    }
    instructionCount_ = 0;
    groupCount_ = 0;
}

void Core::Flush()
{
    RunRecorded();
    WriteOutAll();
#if defined(__x86_64__)
    if (streaming_) {
        __builtin_ia32_sfence();  // non-temporal stores are ordered by nothing else
    }
#endif
}

void Core::Settle()
{
    while (viewCount_ > 0) {
        Materialize(viewCount_ - 1);
    }
    Flush();
}

const char* Core::Read(const char* ub)
{
    Flush();
    for (uint32_t i = 0; i < viewCount_; ++i) {
        const View& view = views_[i];
        const int64_t offset = ub - view.ub.begin;
        if (offset >= 0 && ub < view.ub.end && offset % view.ubStride < view.rowBytes) {
            return view.gm + offset / view.ubStride * view.gmStride + offset % view.ubStride;
        }
    }
    return ub;
}

void Core::PrepareWrite(char* ub, uint32_t bytes)
{
    Overwrite({ub, ub + bytes}, true);
    Flush();
}

}  // namespace host
}  // namespace AscendC
