/*!
 * Sums of scaled rows. A kernel that walks a list of rows, as a sparse product does, gives
 *
 *     Duplicate(sum, 0)                               for each sum
 *     DataCopy(row, global memory), Axpy(sum, row)    for each of its rows, of 16 bits with a Cast between
 *     DataCopy(global memory, sum)                    of 16 bits behind a Cast
 *
 * and reads by GetValue which row comes next, which would end the program each time. Carried out one after the other
 * these read whole rows again and again from memory. So a core that has read global memory by GetValue collects such
 * sums, as a list of rows and factors, while nothing else comes between, and carries them out together, a stretch of
 * columns at a time (simd/row_sums_unit.h). Each sum adds its rows in their order: results are those of one instruction
 * after the other, to the bit.
 */
#ifndef ASCENDC_HOST_RUNTIME_ROW_SUMS_H
#define ASCENDC_HOST_RUNTIME_ROW_SUMS_H

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ir/instruction.h"
#include "simd/vector_unit.h"

namespace AscendC {
namespace host {

class RowSums {
public:
    void Reset();
    bool Holds() const { return stage_ != Stage::NONE || !sums_.empty(); }
    // Returns true if this instruction is part of a sum: it is collected then.
    bool Takes(const Instruction& instruction);
    // The list is long enough, and all its sums are complete.
    bool IsFull() const { return stage_ == Stage::NONE && terms_.size() >= MOST_TERMS; }
    // Returns true if a sum that has not been carried out may go to this address.
    bool Writes(const char* gm) const
    {
        for (uint32_t i = 0; i < spanCount_; ++i) {
            if (gm >= spans_[i].begin && gm < spans_[i].end) {
                return true;
            }
        }
        return false;
    }
    // Calculates the sums, up to the first one that has to be carried out as it was recorded: the Unified Buffer still
    // shows the last ones, if it is needed; an incomplete one may go on in another way; and where results overwrite
    // rows, all are. `record` gets the instructions of those. Holds nothing then.
    template <class RECORD>
    void CarryOut(bool needsBuffers, const RECORD& record)
    {
        const size_t first = FirstToReplay(needsBuffers);
        Calculate(first);
        for (size_t sum = first; sum < sums_.size(); ++sum) {
            Replay(sum, record);
        }
        Clear();
    }

private:
    static constexpr size_t MOST_TERMS = size_t{1} << 22;
    static constexpr uint32_t MOST_SPANS = 8;

    // The last instruction of the sum that is being collected; NONE: there is no such sum.
    enum class Stage : uint8_t { NONE, SUM, LOADED, WIDENED, ADDED, ROUNDED, STORED };

    struct Sum {
        size_t firstTerm;
        char* accumulator;
        char* rounded;  // of 16 bits; null: it is stored as float
        char* dst;      // in global memory
        bool isFreed;   // its accumulator is not needed any more
    };
    struct Span {
        const char* begin;
        const char* end;
    };
    // The instructions of a sum, without their addresses. Those of a term are the first one's: all are alike but for
    // addresses and factors, and a copy of an instruction just written waits for its stores.
    struct Form {
        Instruction fill, load, widen, add, freeRow, round, store, storeRounded, freeSum;
    };

    bool Starts(const Instruction& instruction);
    bool Loads(const Instruction& instruction);
    bool Widens(const Instruction& instruction);
    bool Adds(const Instruction& instruction, const char* row, ElementType type);
    bool Rounds(const Instruction& instruction);
    bool Stores(const Instruction& instruction, char* from, uint32_t elementBytes);
    void NoteWritten(const char* begin, const char* end);
    bool OverwritesRows() const;
    size_t FirstToReplay(bool needsBuffers) const;
    void Calculate(size_t sums) const;
    void Clear();
    size_t EndOf(size_t sum) const { return sum + 1 < sums_.size() ? sums_[sum + 1].firstTerm : terms_.size(); }

    static const Instruction& With(Instruction& form, char* operand0, const char* operand1 = nullptr,
                                   char* operand2 = nullptr)
    {
        form.operands[0].base = operand0;
        form.operands[1].base = const_cast<char*>(operand1);
        form.operands[2].base = operand2;
        return form;
    }

    template <class RECORD>
    void Replay(size_t index, const RECORD& record)
    {
        const Sum& sum = sums_[index];
        const bool isOpen = stage_ != Stage::NONE && index + 1 == sums_.size();
        record(With(form_.fill, sum.accumulator));
        const auto load = [&](const char* row, bool widens) {
            record(With(form_.load, buffer_, row));
            if (widens) {
                record(With(form_.widen, widened_, buffer_));
            }
        };
        const bool widens = type_ != ElementType::FLOAT;
        for (size_t term = sum.firstTerm; term < EndOf(index); ++term) {
            load(terms_[term].row, widens);
            form_.add.scalar = terms_[term].factor;
            record(With(form_.add, sum.accumulator, widens ? widened_ : buffer_, sum.accumulator));
            if (!(isOpen && stage_ == Stage::ADDED && term + 1 == EndOf(index))) {
                record(With(form_.freeRow, buffer_));
            }
        }
        if (isOpen && (stage_ == Stage::LOADED || stage_ == Stage::WIDENED)) {
            load(row_, stage_ == Stage::WIDENED);
        }
        if (isOpen && stage_ < Stage::ROUNDED) {
            return;
        }
        if (sum.rounded != nullptr) {
            record(With(form_.round, sum.rounded, sum.accumulator));
        }
        if (isOpen && stage_ == Stage::ROUNDED) {
            return;
        }
        record(sum.rounded != nullptr ? With(form_.storeRounded, sum.dst, sum.rounded)
                                      : With(form_.store, sum.dst, sum.accumulator));
        if (!isOpen) {
            record(With(form_.freeSum, sum.rounded != nullptr ? sum.rounded : sum.accumulator));
        }
    }

    Stage stage_ = Stage::NONE;
    uint32_t count_ = 0;                     // elements of a row
    ElementType type_ = ElementType::COUNT;  // of the rows; COUNT: none has been added yet
    const char* row_ = nullptr;              // the one that was loaded last
    char* buffer_ = nullptr;                 // where to
    char* widened_ = nullptr;
    uint32_t rowBytes_ = 0;
    std::vector<RowTerm> terms_;
    std::vector<Sum> sums_;
    Span spans_[MOST_SPANS] = {};
    uint32_t spanCount_ = 0;
    Form form_;
};

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_RUNTIME_ROW_SUMS_H
