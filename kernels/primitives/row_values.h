/*!
 * Holds one float a row, for the rows of a tile: reduced from the rows, and spread over a block a row for WithRows. No
 * value ever leaves the vector unit.
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_ROW_VALUES_H
#define MS_ASCEND_OPS_PRIMITIVES_ROW_VALUES_H

#include "kernel_operator.h"
#include "primitives/rows.h"

namespace ms_ascend_ops {

class RowValues {
public:
    __aicore__ inline void Init(uint32_t rows, AscendC::TPipe& pipe)
    {
        const uint32_t rows8 = (rows + FLOATS_PER_BLOCK - 1) / FLOATS_PER_BLOCK * FLOATS_PER_BLOCK;
        pipe.InitBuffer(laneBuf_, rows * FLOAT_LANES * sizeof(float));
        pipe.InitBuffer(valueBuf_, rows8 * sizeof(float));
        pipe.InitBuffer(onesBuf_, AscendC::ONE_BLK_SIZE);
        pipe.InitBuffer(blockBuf_, rows8 * AscendC::ONE_BLK_SIZE);
        lanes = laneBuf_.Get<float>();
        values = valueBuf_.Get<float>();
        ones_ = onesBuf_.Get<float>();
        blocks = blockBuf_.Get<float>();
        AscendC::Duplicate(ones_, 1.0f, static_cast<int32_t>(FLOATS_PER_BLOCK));
        AscendC::Duplicate(values, 1.0f, static_cast<int32_t>(rows8));  // Brcb reads whole blocks
    }

    // Does what StartRows and FoldRows do; Maxima or Sums come next.
    template <class OP>
    __aicore__ inline void Start(uint32_t rows, uint32_t cols)
    {
        StartRows<OP>(lanes, rows, cols);
    }

    template <class OP>
    __aicore__ inline void Fold(const AscendC::LocalTensor<float>& src, uint32_t r, const RowBlock& block,
                                uint32_t cols)
    {
        FoldRows<OP>(values, lanes, src, r, block, cols);
    }

    // Sets the values to the rows' maxima, at least the lowest float.
    __aicore__ inline void Maxima(uint32_t rows, uint32_t cols)
    {
        FinishRows<MaxOf>(values, lanes, rows, cols);
        if (cols <= UNFOLDED_COLS<MaxOf>) {
            AscendC::Maxs(values, values, LOWEST_FLOAT, static_cast<int32_t>(rows));
        }
    }

    __aicore__ inline void Sums(uint32_t rows, uint32_t cols) { FinishRows<AddOf>(values, lanes, rows, cols); }

    __aicore__ inline void Invert(uint32_t rows) { DivOf::Counter(values, ones_, values, rows, {1, 0, 1, 8, 0, 8}); }

    // Inverts the first value, which is spread already.
    __aicore__ inline void InvertBlock()
    {
        AscendC::Div(blocks, ones_, blocks, static_cast<int32_t>(FLOATS_PER_BLOCK));
    }

    __aicore__ inline void Spread(uint32_t rows) { BroadcastRows(blocks, values, rows); }

    AscendC::LocalTensor<float> lanes;   // 64 a row
    AscendC::LocalTensor<float> values;  // one a row
    AscendC::LocalTensor<float> blocks;  // each value 8 times

private:
    AscendC::TBuf<AscendC::TPosition::VECCALC> laneBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> valueBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> onesBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> blockBuf_;
    AscendC::LocalTensor<float> ones_;
};

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_ROW_VALUES_H
