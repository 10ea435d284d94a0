/*!
 * Runs instructions on a block of float rows in the Unified Buffer.
 *
 * They take whichever needs fewer instructions: a row at a time in counter mode, which has any length, or 64 columns at
 * a time, repeated over the rows, so that short rows still fill the vector unit. The latter needs rows <= 255 and
 * stride <= 2040, which tiling guarantees.
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_ROWS_H
#define MS_ASCEND_OPS_PRIMITIVES_ROWS_H

#include "kernel_operator.h"

namespace ms_ascend_ops {

constexpr uint32_t FLOAT_LANES = 64;      // floats in a repeat
constexpr uint32_t FLOATS_PER_BLOCK = 8;  // floats in a DataBlock
constexpr float LOWEST_FLOAT = -3.4028234663852886e38f;

struct RowBlock {
    uint32_t rows;
    uint32_t cols;
    uint32_t stride;  // elements from a row to the next, a multiple of 8

    // Returns the elements that an element-wise instruction handles: of several rows with the padding behind each.
    __aicore__ inline uint32_t Elements() const { return rows == 1 ? cols : rows * stride; }
    // Are there more repeats in a row than rows?
    __aicore__ inline bool RowByRow() const { return rows == 1 || rows * FLOAT_LANES < cols; }
};

__aicore__ inline void BeginCounterMode(uint32_t elements)
{
    AscendC::SetMaskCount();
    AscendC::SetVectorMask<float, AscendC::MaskMode::COUNTER>(0, elements);
}

__aicore__ inline void EndCounterMode()
{
    AscendC::SetMaskNorm();
    AscendC::ResetMask();
}

__aicore__ inline uint32_t LanesAt(uint32_t column, uint32_t cols)
{
    return cols - column < FLOAT_LANES ? cols - column : FLOAT_LANES;
}

// Makes a type of a two-source instruction, which it calls on the first n elements, by repeats, or in counter mode.
#define MS_ASCEND_OPS_BINARY(NAME, INSTRUCTION)                                                                       \
    struct NAME {                                                                                                     \
        using Floats = AscendC::LocalTensor<float>;                                                                   \
        static __aicore__ inline void Apply(const Floats& dst, const Floats& a, const Floats& b, uint32_t count)      \
        {                                                                                                             \
            AscendC::INSTRUCTION(dst, a, b, static_cast<int32_t>(count));                                             \
        }                                                                                                             \
        static __aicore__ inline void Repeat(const Floats& dst, const Floats& a, const Floats& b, uint32_t lanes,     \
                                             uint32_t repeats, const AscendC::BinaryRepeatParams& params)             \
        {                                                                                                             \
            AscendC::INSTRUCTION(dst, a, b, static_cast<uint64_t>(lanes), static_cast<uint8_t>(repeats), params);     \
        }                                                                                                             \
        static __aicore__ inline void Counter(const Floats& dst, const Floats& a, const Floats& b, uint32_t elements, \
                                              const AscendC::BinaryRepeatParams& params)                              \
        {                                                                                                             \
            BeginCounterMode(elements);                                                                               \
            AscendC::INSTRUCTION<float, false>(dst, a, b, AscendC::MASK_PLACEHOLDER, 1, params);                      \
            EndCounterMode();                                                                                         \
        }                                                                                                             \
    };
MS_ASCEND_OPS_BINARY(AddOf, Add)
MS_ASCEND_OPS_BINARY(SubOf, Sub)
MS_ASCEND_OPS_BINARY(MulOf, Mul)
MS_ASCEND_OPS_BINARY(DivOf, Div)
MS_ASCEND_OPS_BINARY(MaxOf, Max)
MS_ASCEND_OPS_BINARY(MinOf, Min)
#undef MS_ASCEND_OPS_BINARY

// Computes acc[row] (64 lanes a row) = src[row] OP acc[row], folded to 64 lanes. One more WholeReduce gives a value a
// row.
template <class OP>
__aicore__ inline void FoldLanes(const AscendC::LocalTensor<float>& acc, const AscendC::LocalTensor<float>& src,
                                 const RowBlock& block)
{
    if (block.RowByRow()) {
        for (uint32_t row = 0; row < block.rows; ++row) {
            const AscendC::LocalTensor<float> lanes = acc[row * FLOAT_LANES];
            OP::Counter(lanes, src[row * block.stride], lanes, block.cols, {1, 1, 1, 0, 8, 0});
        }
        return;
    }
    const uint8_t rowStride = static_cast<uint8_t>(block.stride / FLOATS_PER_BLOCK);
    for (uint32_t column = 0; column < block.cols; column += FLOAT_LANES) {
        OP::Repeat(acc, src[column], acc, LanesAt(column, block.cols), block.rows, {1, 1, 1, 8, rowStride, 8});
    }
}

// Sets dst[row] to up to 64 columns of src[row], reduced, in one repeat a row.
template <class OP>
__aicore__ inline void ReduceRepeats(const AscendC::LocalTensor<float>& dst, const AscendC::LocalTensor<float>& src,
                                     uint32_t cols, uint32_t rows, uint32_t stride)
{
    // A single row may have a stride that no repeat can have.
    const int32_t repeatStride = rows == 1 ? 8 : static_cast<int32_t>(stride / FLOATS_PER_BLOCK);
    if constexpr (AscendC::IsSameType<OP, MaxOf>::value) {
        AscendC::WholeReduceMax(dst, src, static_cast<int32_t>(cols), static_cast<int32_t>(rows), 1, 1, repeatStride,
                                AscendC::ReduceOrder::ORDER_ONLY_VALUE);
    } else {
        static_assert(AscendC::IsSameType<OP, AddOf>::value, "there is WholeReduceSum and WholeReduceMax");
        AscendC::WholeReduceSum(dst, src, static_cast<int32_t>(cols), static_cast<int32_t>(rows), 1, 1, repeatStride);
    }
}

// Rows of `cols` columns are reduced by AddOf or MaxOf to a value a row: StartRows for some rows, FoldRows for every
// block of them, r being the block's first row, then FinishRows. `lanes` is scratch, 64 floats a row. Up to 64 columns
// are a repeat of WholeReduce and sums of up to 128 are two, in one block; more columns are folded to 64 lanes first,
// in one block or several. As the length alone decides, a row's value does not depend on the tile. (Two WholeReduceMax
// take a CPU longer than lanes.)
template <class OP>
constexpr uint32_t UNFOLDED_COLS = AscendC::IsSameType<OP, AddOf>::value ? 2 * FLOAT_LANES : FLOAT_LANES;

// Maxima of more columns begin with the lowest float.
template <class OP>
__aicore__ inline void StartRows(const AscendC::LocalTensor<float>& lanes, uint32_t rows, uint32_t cols)
{
    constexpr float start = AscendC::IsSameType<OP, MaxOf>::value ? LOWEST_FLOAT : 0.0f;
    if (cols > UNFOLDED_COLS<OP>) {
        AscendC::Duplicate(lanes, start, static_cast<int32_t>(rows * FLOAT_LANES));
    }
}

template <class OP>
__aicore__ inline void FoldRows(const AscendC::LocalTensor<float>& values, const AscendC::LocalTensor<float>& lanes,
                                const AscendC::LocalTensor<float>& src, uint32_t r, const RowBlock& block,
                                uint32_t cols)
{
    if (cols > UNFOLDED_COLS<OP>) {
        FoldLanes<OP>(lanes[r * FLOAT_LANES], src, block);
        return;
    }
    ReduceRepeats<OP>(values[r], src, LanesAt(0, cols), block.rows, block.stride);
    if (cols > FLOAT_LANES) {
        ReduceRepeats<OP>(lanes[r], src[FLOAT_LANES], cols - FLOAT_LANES, block.rows, block.stride);
    }
}

template <class OP>
__aicore__ inline void FinishRows(const AscendC::LocalTensor<float>& values, const AscendC::LocalTensor<float>& lanes,
                                  uint32_t rows, uint32_t cols)
{
    if (cols > UNFOLDED_COLS<OP>) {
        ReduceRepeats<OP>(values, lanes, FLOAT_LANES, rows, FLOAT_LANES);
    } else if (cols > FLOAT_LANES) {
        OP::Apply(values, values, lanes, rows);
    }
}

// dst[row] = src[row] OP value[row]; `values` holds each row's value 8 times (Brcb).
template <class OP>
__aicore__ inline void WithRows(const AscendC::LocalTensor<float>& dst, const AscendC::LocalTensor<float>& src,
                                const AscendC::LocalTensor<float>& values, const RowBlock& block)
{
    if (block.RowByRow()) {
        for (uint32_t row = 0; row < block.rows; ++row) {
            const uint32_t at = row * block.stride;
            OP::Counter(dst[at], src[at], values[row * FLOATS_PER_BLOCK], block.cols, {1, 1, 0, 8, 8, 0});
        }
        return;
    }
    const uint8_t rowStride = static_cast<uint8_t>(block.stride / FLOATS_PER_BLOCK);
    for (uint32_t column = 0; column < block.cols; column += FLOAT_LANES) {
        OP::Repeat(dst[column], src[column], values, LanesAt(column, block.cols), block.rows,
                   {1, 1, 0, rowStride, rowStride, 1});
    }
}

// dst[row] = a[row] OP b[row], without what lies between the rows.
template <class OP>
__aicore__ inline void InRows(const AscendC::LocalTensor<float>& dst, const AscendC::LocalTensor<float>& a,
                              const AscendC::LocalTensor<float>& b, const RowBlock& block)
{
    if (block.RowByRow()) {
        for (uint32_t row = 0; row < block.rows; ++row) {
            const uint32_t at = row * block.stride;
            OP::Apply(dst[at], a[at], b[at], block.cols);
        }
        return;
    }
    const uint8_t rowStride = static_cast<uint8_t>(block.stride / FLOATS_PER_BLOCK);
    for (uint32_t column = 0; column < block.cols; column += FLOAT_LANES) {
        OP::Repeat(dst[column], a[column], b[column], LanesAt(column, block.cols), block.rows,
                   {1, 1, 1, rowStride, rowStride, rowStride});
    }
}

// Computes dst[row] = src[row] OP vector, column by column.
template <class OP>
__aicore__ inline void WithColumns(const AscendC::LocalTensor<float>& dst, const AscendC::LocalTensor<float>& src,
                                   const AscendC::LocalTensor<float>& vector, const RowBlock& block)
{
    if (block.RowByRow()) {
        for (uint32_t row = 0; row < block.rows; ++row) {
            const uint32_t at = row * block.stride;
            OP::Apply(dst[at], src[at], vector, block.cols);
        }
        return;
    }
    const uint8_t rowStride = static_cast<uint8_t>(block.stride / FLOATS_PER_BLOCK);
    for (uint32_t column = 0; column < block.cols; column += FLOAT_LANES) {
        OP::Repeat(dst[column], src[column], vector[column], LanesAt(column, block.cols), block.rows,
                   {1, 1, 1, rowStride, rowStride, 0});
    }
}

// acc = src[row] OP acc for every row of the block, in order.
template <class OP>
__aicore__ inline void FoldColumns(const AscendC::LocalTensor<float>& acc, const AscendC::LocalTensor<float>& src,
                                   const RowBlock& block)
{
    if (block.RowByRow()) {
        for (uint32_t row = 0; row < block.rows; ++row) {
            OP::Apply(acc, src[row * block.stride], acc, block.cols);
        }
        return;
    }
    const uint8_t rowStride = static_cast<uint8_t>(block.stride / FLOATS_PER_BLOCK);
    for (uint32_t column = 0; column < block.cols; column += FLOAT_LANES) {
        OP::Repeat(acc[column], src[column], acc[column], LanesAt(column, block.cols), block.rows,
                   {1, 1, 1, 0, rowStride, 0});
    }
}

__aicore__ inline void SumLanes(const AscendC::LocalTensor<float>& acc, const AscendC::LocalTensor<float>& src,
                                const RowBlock& block)
{
    FoldLanes<AddOf>(acc, src, block);
}

__aicore__ inline void MultiplyRows(const AscendC::LocalTensor<float>& dst, const AscendC::LocalTensor<float>& src,
                                    const AscendC::LocalTensor<float>& factor, const RowBlock& block)
{
    WithRows<MulOf>(dst, src, factor, block);
}

__aicore__ inline void SubtractRows(const AscendC::LocalTensor<float>& dst, const AscendC::LocalTensor<float>& src,
                                    const AscendC::LocalTensor<float>& value, const RowBlock& block)
{
    WithRows<SubOf>(dst, src, value, block);
}

__aicore__ inline void AddRows(const AscendC::LocalTensor<float>& dst, const AscendC::LocalTensor<float>& src,
                               const AscendC::LocalTensor<float>& value, const RowBlock& block)
{
    WithRows<AddOf>(dst, src, value, block);
}

__aicore__ inline void MultiplyColumns(const AscendC::LocalTensor<float>& dst, const AscendC::LocalTensor<float>& src,
                                       const AscendC::LocalTensor<float>& vector, const RowBlock& block)
{
    WithColumns<MulOf>(dst, src, vector, block);
}

__aicore__ inline void AddColumns(const AscendC::LocalTensor<float>& dst, const AscendC::LocalTensor<float>& src,
                                  const AscendC::LocalTensor<float>& vector, const RowBlock& block)
{
    WithColumns<AddOf>(dst, src, vector, block);
}

__aicore__ inline void SumColumns(const AscendC::LocalTensor<float>& acc, const AscendC::LocalTensor<float>& src,
                                  const RowBlock& block)
{
    FoldColumns<AddOf>(acc, src, block);
}

// Sets dst to each of the first `rows` values of src, 8 times: the form that MultiplyRows takes. It reads up to the
// next multiple of 8.
__aicore__ inline void BroadcastRows(const AscendC::LocalTensor<float>& dst, const AscendC::LocalTensor<float>& src,
                                     uint32_t rows)
{
    AscendC::Brcb(dst, src, static_cast<uint8_t>((rows + FLOATS_PER_BLOCK - 1) / FLOATS_PER_BLOCK), {1, 8});
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_ROWS_H
