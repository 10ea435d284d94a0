#include "runtime/row_sums.h"

#include <algorithm>
#include <numeric>

#include "base/types.h"
#include "simd/vector_unit.h"

namespace AscendC {
namespace host {
namespace {

bool IsVector(const Instruction& instruction, const Operation& operation, uint32_t count)
{
    return instruction.kind == InstructionKind::VECTOR && instruction.operation == operation &&
           instruction.units == count;
}

// A cast of `count` elements between floats and 16 bits; COUNT: it is none.
ElementType NarrowTypeOfCast(const Instruction& instruction, bool toFloat, uint32_t count)
{
    for (const ElementType type : {ElementType::HALF, ElementType::BFLOAT16}) {
        const Operation cast = toFloat ? CastOf(type, ElementType::FLOAT) : CastOf(ElementType::FLOAT, type);
        if (IsVector(instruction, cast, count)) {
            return type;
        }
    }
    return ElementType::COUNT;
}

bool IsCopy(const Instruction& instruction, InstructionKind kind, uint32_t bytes)
{
    return instruction.kind == kind && instruction.units == 1 && instruction.operands[0].extent == bytes;
}

bool Frees(const Instruction& instruction, const char* buffer)
{
    return instruction.kind == InstructionKind::DISCARD && instruction.operands[0].base == buffer;
}

}  // namespace

void RowSums::Reset()
{
    stage_ = Stage::NONE;
    Clear();
}

void RowSums::Clear()
{
    stage_ = Stage::NONE;
    type_ = ElementType::COUNT;
    widened_ = nullptr;
    terms_.clear();
    sums_.clear();
    spanCount_ = 0;
}

bool RowSums::Takes(const Instruction& instruction)
{
    switch (stage_) {
        case Stage::NONE:
            return Starts(instruction);
        case Stage::SUM:
            return Loads(instruction) || Rounds(instruction) ||
                   Stores(instruction, sums_.back().accumulator, sizeof(float));
        case Stage::LOADED:
            return rowBytes_ == count_ * sizeof(float) ? Adds(instruction, buffer_, ElementType::FLOAT)
                                                       : Widens(instruction);
        case Stage::WIDENED:
            return Adds(instruction, widened_, type_);
        case Stage::ADDED:
            if (!Frees(instruction, buffer_)) {
                return false;
            }
            if (terms_.size() == 1) {
                form_.freeRow = instruction;
            }
            stage_ = Stage::SUM;
            return true;
        case Stage::ROUNDED:
            return Stores(instruction, sums_.back().rounded, sizeof(half));
        case Stage::STORED: {
            Sum& sum = sums_.back();
            if (!Frees(instruction, sum.rounded != nullptr ? sum.rounded : sum.accumulator)) {
                return false;
            }
            form_.freeSum = instruction;
            sum.isFreed = sum.rounded == nullptr;
            stage_ = Stage::NONE;
            return true;
        }
    }
    return false;
}

bool RowSums::Starts(const Instruction& instruction)
{
    const bool isZero = IsVector(instruction, OperationOn(ElementType::FLOAT, Opcode::FILL), instruction.units) &&
                        instruction.option == 0 && instruction.lanes == 1 && instruction.units > 0;
    if (!isZero || (!sums_.empty() && instruction.units != count_)) {
        return false;
    }
    count_ = instruction.units;
    form_.fill = instruction;
    sums_.push_back({terms_.size(), instruction.operands[0].base, nullptr, nullptr, false});
    stage_ = Stage::SUM;
    return true;
}

bool RowSums::Loads(const Instruction& instruction)
{
    const uint32_t bytes = instruction.operands[0].extent;
    const uint32_t expected = type_ == ElementType::FLOAT ? 4 : type_ == ElementType::COUNT ? 0 : 2;
    if (!IsCopy(instruction, InstructionKind::COPY_IN, bytes) ||
        (bytes != count_ * sizeof(float) && bytes != count_ * sizeof(half)) ||
        (expected != 0 && bytes != count_ * expected)) {
        return false;
    }
    if (terms_.empty()) {
        form_.load = instruction;
    }
    buffer_ = instruction.operands[0].base;
    row_ = instruction.operands[1].base;
    rowBytes_ = bytes;
    stage_ = Stage::LOADED;
    return true;
}

bool RowSums::Widens(const Instruction& instruction)
{
    const ElementType type = NarrowTypeOfCast(instruction, true, count_);
    char* const widened = instruction.operands[0].base;
    if (type == ElementType::COUNT || (type_ != ElementType::COUNT && type != type_) ||
        (widened_ != nullptr && widened_ != widened) || instruction.operands[1].base != buffer_) {
        return false;
    }
    if (terms_.empty()) {
        form_.widen = instruction;
    }
    type_ = type;
    widened_ = widened;
    stage_ = Stage::WIDENED;
    return true;
}

bool RowSums::Adds(const Instruction& instruction, const char* row, ElementType type)
{
    const char* const sum = sums_.back().accumulator;
    const Operation axpy = OperationOn(ElementType::FLOAT, Opcode::AXPY);
    if (!IsVector(instruction, axpy, count_) || instruction.operands[0].base != sum ||
        instruction.operands[2].base != sum || instruction.operands[1].base != row || row == sum) {
        return false;
    }
    if (terms_.empty()) {
        form_.add = instruction;
    }
    type_ = type;
    RowTerm& term = terms_.emplace_back();  // field by field: a copy of one just written waits for its stores
    term.row = row_;
    term.factor = instruction.scalar;
    stage_ = Stage::ADDED;
    return true;
}

bool RowSums::Rounds(const Instruction& instruction)
{
    const ElementType type = NarrowTypeOfCast(instruction, false, count_);
    // Where no row has told the type yet, this one does.
    if (type == ElementType::COUNT || (type_ != ElementType::COUNT && type != type_) ||
        instruction.option != static_cast<uint32_t>(RoundMode::CAST_RINT) ||
        instruction.operands[1].base != sums_.back().accumulator) {
        return false;
    }
    form_.round = instruction;
    type_ = type;
    sums_.back().rounded = instruction.operands[0].base;
    stage_ = Stage::ROUNDED;
    return true;
}

bool RowSums::Stores(const Instruction& instruction, char* from, uint32_t elementBytes)
{
    const uint32_t bytes = count_ * elementBytes;
    if (!IsCopy(instruction, InstructionKind::COPY_OUT, bytes) || instruction.operands[1].base != from) {
        return false;
    }
    (elementBytes == sizeof(half) ? form_.storeRounded : form_.store) = instruction;
    Sum& sum = sums_.back();
    sum.dst = instruction.operands[0].base;
    NoteWritten(sum.dst, sum.dst + bytes);
    stage_ = Stage::STORED;
    return true;
}

// Rows of one tensor come one behind the other, or with others between.
void RowSums::NoteWritten(const char* begin, const char* end)
{
    const int64_t near = 16 * (end - begin) + 4096;
    for (uint32_t i = 0; i < spanCount_; ++i) {
        Span& span = spans_[i];
        if (i + 1 == MOST_SPANS || (begin >= span.begin - near && begin <= span.end + near)) {
            span.begin = std::min(span.begin, begin);
            span.end = std::max(span.end, end);
            return;
        }
    }
    spans_[spanCount_++] = {begin, end};
}

bool RowSums::OverwritesRows() const
{
    if (terms_.empty()) {
        return false;
    }
    const char* begin = terms_[0].row;
    const char* end = begin;
    for (const RowTerm& term : terms_) {
        begin = std::min(begin, term.row);
        end = std::max(end, term.row);
    }
    end += rowBytes_;
    const uint32_t bytes = count_ * static_cast<uint32_t>(sizeof(float));
    return std::any_of(sums_.begin(), sums_.end(),
                       [&](const Sum& sum) { return sum.dst != nullptr && sum.dst < end && sum.dst + bytes > begin; });
}

size_t RowSums::FirstToReplay(bool needsBuffers) const
{
    if (OverwritesRows()) {
        return 0;
    }
    size_t first = sums_.size() - (stage_ == Stage::NONE ? 0 : 1);
    if (!needsBuffers) {
        return first;
    }
    // The last accumulator that is not freed, and, with 16 bits, the last row that was widened.
    bool seeksSum = true;
    bool seeksRow = widened_ != nullptr;
    for (size_t i = first; i > 0 && (seeksSum || seeksRow); --i) {
        const bool keeps = seeksSum && !sums_[i - 1].isFreed;
        const bool widens = seeksRow && EndOf(i - 1) > sums_[i - 1].firstTerm;
        seeksSum = seeksSum && !keeps;
        seeksRow = seeksRow && !widens;
        first = keeps || widens ? i - 1 : first;
    }
    return first;
}

void RowSums::Calculate(size_t sums) const
{
    if (sums == 0) {
        return;
    }
    std::vector<RowSum> list(sums);
    for (size_t i = 0; i < sums; ++i) {
        list[i] = {sums_[i].dst, EndOf(i), sums_[i].rounded != nullptr};
    }
    const size_t count = EndOf(sums - 1);
    RowSumsWork work{terms_.data(), list.data(), sums, count_, 0, nullptr, 0};
    if (count > 0) {
        // Rows of a matrix: their distance divides all differences.
        const char* first = terms_[0].row;
        const char* last = first;
        uint64_t stride = 0;
        for (size_t i = 1; i < count; ++i) {
            const char* const row = terms_[i].row;
            first = std::min(first, row);
            last = std::max(last, row);
            const int64_t apart = row - terms_[i - 1].row;
            const uint64_t distance = static_cast<uint64_t>(apart < 0 ? -apart : apart);
            if (stride == 0 || distance % stride != 0) {
                stride = std::gcd(stride, distance);
            }
        }
        const uint64_t rows = stride == 0 ? 1 : static_cast<uint64_t>(last - first) / stride + 1;
        // A row is packed in the time in which one or two are added.
        if (count >= 2 * rows && rows <= UINT32_MAX) {
            work.rows = rows;
            work.first = first;
            work.stride = std::max<uint64_t>(1, stride);
        }
    }
    const ElementType type = type_ == ElementType::COUNT ? ElementType::FLOAT : type_;
    g_vectorUnit->sumRows[static_cast<uint32_t>(type)](work);
}

}  // namespace host
}  // namespace AscendC
