/*!
 * Reads the pattern of a sparse matrix by rows (CSR): the ends of rows, the columns, and values as scalars; and finds
 * tasks by the merge path, which shares ends of rows and entries out evenly, whatever the pattern.
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_CSR_ROWS_H
#define MS_ASCEND_OPS_PRIMITIVES_CSR_ROWS_H

#include "kernel_operator.h"
#include "primitives/tile.h"

namespace ms_ascend_ops {

constexpr uint32_t BLOCK_SIDE = 16;  // of sparse blocks: the cube multiplies blocks of this size

// Entries are what is not 0: values, or blocks of them.
class CsrRows {
public:
    __aicore__ inline void Init(GM_ADDR rowEnds, GM_ADDR indices, uint64_t rows, uint64_t entries, uint64_t inner)
    {
        endsGm_.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t*>(rowEnds), rows);
        indexGm_.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t*>(indices), entries);
        rows_ = rows;
        entries_ = entries;
        inner_ = inner;
        // The last row ends with the entries: or some would belong to no row, or rows to no entries.
        if (rows == 0 ? entries != 0 : EndAt(rows - 1) != entries) {
            AscendC::Trap();
        }
    }

    __aicore__ inline uint64_t Rows() const { return rows_; }
    __aicore__ inline uint64_t Entries() const { return entries_; }

    __aicore__ inline uint64_t BeginOf(uint64_t row) const { return row == 0 ? 0 : EndAt(row - 1); }

    // Returns where a row ends of whose entries `entry` is the next one.
    __aicore__ inline uint64_t EndOf(uint64_t row, uint64_t entry) const
    {
        const uint64_t end = EndAt(row);
        if (end < entry) {
            AscendC::Trap();
        }
        return end;
    }

    __aicore__ inline uint64_t ColumnOf(uint64_t entry) const
    {
        const int32_t column = indexGm_.GetValue(entry);
        if (column < 0 || static_cast<uint64_t>(column) >= inner_) {
            AscendC::Trap();
        }
        return static_cast<uint64_t>(column);
    }

    // Returns how many rows end within the first `steps` of the merge path; the rest of the steps are entries.
    __aicore__ inline uint64_t RowAt(uint64_t steps) const
    {
        uint64_t least = steps < entries_ ? 0 : steps - entries_;
        uint64_t most = steps < rows_ ? steps : rows_;
        while (least < most) {
            const uint64_t row = (least + most) / 2;
            if (EndAt(row) + row < steps) {
                least = row + 1;
            } else {
                most = row;
            }
        }
        return least;
    }

    // Returns the row of an entry.
    __aicore__ inline uint64_t RowOf(uint64_t entry) const
    {
        uint64_t least = 0;
        uint64_t most = rows_ - 1;
        while (least < most) {
            const uint64_t row = (least + most) / 2;
            if (EndAt(row) <= entry) {
                least = row + 1;
            } else {
                most = row;
            }
        }
        return least;
    }

private:
    __aicore__ inline uint64_t EndAt(uint64_t row) const
    {
        const int32_t end = endsGm_.GetValue(row);
        if (end < 0 || static_cast<uint64_t>(end) > entries_) {
            AscendC::Trap();
        }
        return static_cast<uint64_t>(end);
    }

    AscendC::GlobalTensor<int32_t> endsGm_;
    AscendC::GlobalTensor<int32_t> indexGm_;
    uint64_t rows_ = 0;
    uint64_t entries_ = 0;
    uint64_t inner_ = 0;
};

// Tasks divide a sparse matrix: each goes through `perTask` steps of the merge path. SUMS has
//     StoreRow(row, entry, end)    a row of which the task has all entries
//     StorePart(part, entry, end)  of a row that tasks share: part 2 * task if the row ends in this task, or 2 * task +
//     1 Combine(row, first, task)    the parts of a row that ends in `task` and begins in task `first`
class MergePath {
public:
    __aicore__ inline void Init(uint64_t perTask) { perTask_ = perTask; }

    __aicore__ inline uint64_t FirstRow(const CsrRows& pattern, uint64_t task) const
    {
        return pattern.RowAt(StepsBefore(pattern, task));
    }

    // `first`: the row in which the task begins. Returns that of the next one.
    template <class SUMS>
    __aicore__ inline uint64_t AddUp(const CsrRows& pattern, uint64_t task, uint64_t first, SUMS& sums) const
    {
        const uint64_t last = FirstRow(pattern, task + 1);
        uint64_t entry = StepsBefore(pattern, task) - first;
        const uint64_t end = StepsBefore(pattern, task + 1) - last;
        bool shared = first < pattern.Rows() && entry > pattern.BeginOf(first);
        for (uint64_t row = first; row < last; ++row) {
            const uint64_t rowEnd = pattern.EndOf(row, entry);
            if (shared) {
                sums.StorePart(2 * task, entry, rowEnd);
            } else {
                sums.StoreRow(row, entry, rowEnd);
            }
            entry = rowEnd;
            shared = false;
        }
        if (entry < end) {
            sums.StorePart(2 * task + 1, entry, end);
        }
        return last;
    }

    template <class SUMS>
    __aicore__ inline void Combine(const CsrRows& pattern, uint64_t task, SUMS& sums) const
    {
        const uint64_t row = FirstRow(pattern, task);
        if (row >= FirstRow(pattern, task + 1)) {
            return;
        }
        const uint64_t begin = pattern.BeginOf(row);
        if (StepsBefore(pattern, task) - row > begin) {
            sums.Combine(row, (row + begin) / perTask_, task);
        }
    }

private:
    __aicore__ inline uint64_t StepsBefore(const CsrRows& pattern, uint64_t task) const
    {
        const uint64_t steps = task * perTask_;
        const uint64_t all = pattern.Rows() + pattern.Entries();
        return steps < all ? steps : all;
    }

    uint64_t perTask_ = 1;
};

template <typename T>
struct BitsOf {
    using Type = uint16_t;
};
template <>
struct BitsOf<float> {
    using Type = float;
};

// Reads values of T in global memory, one by one as floats. The scalar unit has no arithmetic on 16 bits: their bits
// are moved to where a float has them.
template <typename T>
class ScalarValues {
public:
    using Bits = typename BitsOf<T>::Type;

    __aicore__ inline void Init(GM_ADDR values, uint64_t count)
    {
        valueGm_.SetGlobalBuffer(reinterpret_cast<__gm__ Bits*>(values), count);
    }

    __aicore__ inline float At(uint64_t index) const
    {
        if constexpr (IS_FLOAT<T>) {
            return valueGm_.GetValue(index);
        } else if constexpr (AscendC::IsSameType<T, half>::value) {
            return OfHalf(valueGm_.GetValue(index));
        } else {
            return OfBits(static_cast<uint32_t>(valueGm_.GetValue(index)) << 16);
        }
    }

private:
    union Word {
        uint32_t bits;
        float value;
    };

    static __aicore__ inline float OfBits(uint32_t bits)
    {
        Word word;
        word.bits = bits;
        return word.value;
    }

    static __aicore__ inline float OfHalf(uint32_t bits)
    {
        const uint32_t sign = (bits & 0x8000u) << 16;
        const uint32_t exponent = bits >> 10 & 0x1fu;
        const uint32_t mantissa = bits & 0x3ffu;
        if (exponent == 0) {  // subnormal: units of 2^-24
            const float magnitude = static_cast<float>(static_cast<int32_t>(mantissa)) * 5.9604644775390625e-8f;
            return sign == 0 ? magnitude : -magnitude;
        }
        const uint32_t wide = exponent == 0x1fu ? 0xffu : exponent + 112;
        return OfBits(sign | wide << 23 | mantissa << 13);
    }

    AscendC::GlobalTensor<Bits> valueGm_;
};

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_CSR_ROWS_H
