/*!
 * Instructions on a block of float rows in the Unified Buffer.
 *
 * A block of one row uses counter mode: one instruction of any length. A block of several rows repeats over the rows,
 * 64 columns at a time, so short rows still fill the vector unit; it needs rows <= 255 and stride <= 2040, which
 * tiling guarantees.
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_ROWS_H
#define MS_ASCEND_OPS_PRIMITIVES_ROWS_H

#include "kernel_operator.h"

namespace ms_ascend_ops {

constexpr uint32_t FLOAT_LANES = 64;      // floats in a repeat
constexpr uint32_t FLOATS_PER_BLOCK = 8;  // floats in a DataBlock

struct RowBlock {
    uint32_t rows;
    uint32_t cols;
    uint32_t stride;  // elements from a row to the next, a multiple of 8

    // Elements that an element-wise instruction handles: padding between rows included, after the last row not.
    __aicore__ inline uint32_t Elements() const { return (rows - 1) * stride + cols; }
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

// acc[row] (64 lanes a row) += src[row], folded to 64 lanes. One more WholeReduceSum gives the sums.
__aicore__ inline void SumLanes(const AscendC::LocalTensor<float>& acc, const AscendC::LocalTensor<float>& src,
                                const RowBlock& block)
{
    if (block.rows == 1) {
        BeginCounterMode(block.cols);
        AscendC::Add<float, false>(acc, src, acc, AscendC::MASK_PLACEHOLDER, 1, {1, 1, 1, 0, 8, 0});
        EndCounterMode();
        return;
    }
    const uint8_t rowStride = static_cast<uint8_t>(block.stride / FLOATS_PER_BLOCK);
    for (uint32_t column = 0; column < block.cols; column += FLOAT_LANES) {
        AscendC::Add(acc, src[column], acc, LanesAt(column, block.cols), static_cast<uint8_t>(block.rows),
                     {1, 1, 1, 8, rowStride, 8});
    }
}

// Instructions as arguments of the functions below.
#define MS_ASCEND_OPS_ROW_INSTRUCTION(NAME)                                                                       \
    struct Row##NAME {                                                                                            \
        template <bool IS_SET_MASK>                                                                               \
        static __aicore__ inline void Run(const AscendC::LocalTensor<float>& dst,                                 \
                                          const AscendC::LocalTensor<float>& src0,                                \
                                          const AscendC::LocalTensor<float>& src1, uint64_t mask, uint8_t repeat, \
                                          const AscendC::BinaryRepeatParams& params)                              \
        {                                                                                                         \
            AscendC::NAME<float, IS_SET_MASK>(dst, src0, src1, mask, repeat, params);                             \
        }                                                                                                         \
        static __aicore__ inline void Run(const AscendC::LocalTensor<float>& dst,                                 \
                                          const AscendC::LocalTensor<float>& src0,                                \
                                          const AscendC::LocalTensor<float>& src1, uint32_t count)                \
        {                                                                                                         \
            AscendC::NAME(dst, src0, src1, static_cast<int32_t>(count));                                          \
        }                                                                                                         \
    };
MS_ASCEND_OPS_ROW_INSTRUCTION(Add)
MS_ASCEND_OPS_ROW_INSTRUCTION(Sub)
MS_ASCEND_OPS_ROW_INSTRUCTION(Mul)
#undef MS_ASCEND_OPS_ROW_INSTRUCTION

// dst[row] = src[row] op value[row]; value holds each row's value 8 times (Brcb).
template <class INSTRUCTION>
__aicore__ inline void ApplyRows(const AscendC::LocalTensor<float>& dst, const AscendC::LocalTensor<float>& src,
                                 const AscendC::LocalTensor<float>& value, const RowBlock& block)
{
    if (block.rows == 1) {
        BeginCounterMode(block.cols);
        INSTRUCTION::template Run<false>(dst, src, value, AscendC::MASK_PLACEHOLDER, 1, {1, 1, 0, 8, 8, 0});
        EndCounterMode();
        return;
    }
    const uint8_t rowStride = static_cast<uint8_t>(block.stride / FLOATS_PER_BLOCK);
    for (uint32_t column = 0; column < block.cols; column += FLOAT_LANES) {
        INSTRUCTION::template Run<true>(dst[column], src[column], value, LanesAt(column, block.cols),
                                        static_cast<uint8_t>(block.rows), {1, 1, 0, rowStride, rowStride, 1});
    }
}

// dst[row] = src[row] op vector, column by column.
template <class INSTRUCTION>
__aicore__ inline void ApplyColumns(const AscendC::LocalTensor<float>& dst, const AscendC::LocalTensor<float>& src,
                                    const AscendC::LocalTensor<float>& vector, const RowBlock& block)
{
    if (block.rows == 1) {
        INSTRUCTION::Run(dst, src, vector, block.cols);
        return;
    }
    const uint8_t rowStride = static_cast<uint8_t>(block.stride / FLOATS_PER_BLOCK);
    for (uint32_t column = 0; column < block.cols; column += FLOAT_LANES) {
        INSTRUCTION::template Run<true>(dst[column], src[column], vector[column], LanesAt(column, block.cols),
                                        static_cast<uint8_t>(block.rows), {1, 1, 1, rowStride, rowStride, 0});
    }
}

// The same by their names: what a norm is made of.
__aicore__ inline void MultiplyRows(const AscendC::LocalTensor<float>& dst, const AscendC::LocalTensor<float>& src,
                                    const AscendC::LocalTensor<float>& value, const RowBlock& block)
{
    ApplyRows<RowMul>(dst, src, value, block);
}

__aicore__ inline void SubtractRows(const AscendC::LocalTensor<float>& dst, const AscendC::LocalTensor<float>& src,
                                    const AscendC::LocalTensor<float>& value, const RowBlock& block)
{
    ApplyRows<RowSub>(dst, src, value, block);
}

__aicore__ inline void AddRows(const AscendC::LocalTensor<float>& dst, const AscendC::LocalTensor<float>& src,
                               const AscendC::LocalTensor<float>& value, const RowBlock& block)
{
    ApplyRows<RowAdd>(dst, src, value, block);
}

__aicore__ inline void MultiplyColumns(const AscendC::LocalTensor<float>& dst, const AscendC::LocalTensor<float>& src,
                                       const AscendC::LocalTensor<float>& vector, const RowBlock& block)
{
    ApplyColumns<RowMul>(dst, src, vector, block);
}

__aicore__ inline void SubtractColumns(const AscendC::LocalTensor<float>& dst, const AscendC::LocalTensor<float>& src,
                                       const AscendC::LocalTensor<float>& vector, const RowBlock& block)
{
    ApplyColumns<RowSub>(dst, src, vector, block);
}

__aicore__ inline void AddColumns(const AscendC::LocalTensor<float>& dst, const AscendC::LocalTensor<float>& src,
                                  const AscendC::LocalTensor<float>& vector, const RowBlock& block)
{
    ApplyColumns<RowAdd>(dst, src, vector, block);
}

// acc += src[row] for every row of the block, in order.
__aicore__ inline void SumColumns(const AscendC::LocalTensor<float>& acc, const AscendC::LocalTensor<float>& src,
                                  const RowBlock& block)
{
    if (block.rows == 1) {
        AscendC::Add(acc, src, acc, block.cols);
        return;
    }
    const uint8_t rowStride = static_cast<uint8_t>(block.stride / FLOATS_PER_BLOCK);
    for (uint32_t column = 0; column < block.cols; column += FLOAT_LANES) {
        AscendC::Add(acc[column], src[column], acc[column], LanesAt(column, block.cols),
                     static_cast<uint8_t>(block.rows), {1, 1, 1, 0, rowStride, 0});
    }
}

// Each of the first `rows` values of src, 8 times: the form that MultiplyRows takes. Reads up to the next multiple
// of 8.
__aicore__ inline void BroadcastRows(const AscendC::LocalTensor<float>& dst, const AscendC::LocalTensor<float>& src,
                                     uint32_t rows)
{
    AscendC::Brcb(dst, src, static_cast<uint8_t>((rows + FLOATS_PER_BLOCK - 1) / FLOATS_PER_BLOCK), {1, 8});
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_ROWS_H
