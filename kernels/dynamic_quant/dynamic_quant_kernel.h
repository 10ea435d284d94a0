/*!
 * Quantizes rows to integers of 8 bits: scale = max|x| / 127, y = round(x / scale), with x * smooth_scales for x if
 * they are given.
 *
 * Plan: a core owns consecutive rows and takes them tile by tile. Magnitudes are folded to a maximum a row; a row is
 * multiplied by sqrt(127 / maximum) twice, as the quotient alone may be beyond float's range, rounded by adding a large
 * number, and narrowed by way of half. Rows longer than a tile are read twice.
 * Bound: memory (x once, y once) as long as a row fits the Unified Buffer.
 */
#ifndef MS_ASCEND_OPS_DYNAMIC_QUANT_KERNEL_H
#define MS_ASCEND_OPS_DYNAMIC_QUANT_KERNEL_H

#include "dynamic_quant_tiling.h"
#include "kernel_operator.h"
#include "primitives/rounding.h"
#include "primitives/row_norm.h"
#include "primitives/row_values.h"
#include "primitives/rows.h"
#include "primitives/tile.h"

namespace ms_ascend_ops {

constexpr float SMALLEST_FLOAT = 1.401298464e-45f;  // in the place of 0, so that a row of zeros becomes zeros
constexpr float ROOT_OF_127 = 11.2694276696f;

template <typename T>
class DynamicQuant {
public:
    __aicore__ inline void Init(GM_ADDR x, GM_ADDR smoothScales, GM_ADDR y, GM_ADDR scale,
                                const DynamicQuantTilingData& tiling, AscendC::TPipe& pipe)
    {
        tiling_ = tiling;
        cols_ = tiling.cols;
        rowBegin_ = tiling.rowsPerCore * AscendC::GetBlockIdx();
        rowEnd_ = rowBegin_ + tiling.rowsPerCore < tiling.rows ? rowBegin_ + tiling.rowsPerCore : tiling.rows;
        xGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(x), tiling.rows * cols_);
        yGm_.SetGlobalBuffer(reinterpret_cast<__gm__ int8_t*>(y), tiling.rows * cols_);
        scaleGm_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(scale), tiling.rows);
        const uint32_t elements = tiling.tileRows * tiling.stride;
        pipe.InitBuffer(inQueueX_, tiling.inBuffers, elements * sizeof(T));
        pipe.InitBuffer(outQueueY_, tiling.outBuffers, elements * sizeof(int8_t));
        pipe.InitBuffer(outQueueScale_, 2, RoundUpToBlock(tiling.tileRows) * sizeof(float));
        pipe.InitBuffer(floatBuf_, elements * sizeof(float));
        pipe.InitBuffer(halfBuf_, elements * sizeof(half));
        pipe.InitBuffer(magnitudeBuf_, tiling.stepRows * tiling.stride * sizeof(float));
        float_ = floatBuf_.template Get<float>();
        half_ = halfBuf_.template Get<half>();
        magnitude_ = magnitudeBuf_.template Get<float>();
        rows_.Init(tiling.tileRows, pipe);
        if (tiling.smooth != 0) {
            smooth_.Init(smoothScales, cols_, tiling.stride, pipe);
        }
    }

    __aicore__ inline void Process()
    {
        if (rowBegin_ >= rowEnd_) {
            return;
        }
        if (tiling_.tileCols == cols_) {
            ProcessWholeRows();
        } else {
            ProcessSplitRows();
        }
    }

private:
    __aicore__ inline void ProcessWholeRows()
    {
        if (tiling_.smooth != 0) {
            smoothValues_ = smooth_.Load(0, cols_);
        }
        for (uint64_t row = rowBegin_; row < rowEnd_; row += tiling_.tileRows) {
            const uint64_t left = rowEnd_ - row;
            const uint32_t rows = left < tiling_.tileRows ? static_cast<uint32_t>(left) : tiling_.tileRows;
            const Rows shape{rows, cols_, tiling_.stride, cols_};
            AscendC::LocalTensor<T> x = Load(row * cols_, shape);
            rows_.template Start<MaxOf>(rows, cols_);
            for (uint32_t r = 0; r < rows; r += tiling_.stepRows) {
                Fold(x, r, BlockAt(tiling_, r, rows));
            }
            FinishScales(row, rows);
            AscendC::LocalTensor<int8_t> y = outQueueY_.template AllocTensor<int8_t>();
            for (uint32_t r = 0; r < rows; r += tiling_.stepRows) {
                Round(y, Taken(x, r * tiling_.stride), r, BlockAt(tiling_, r, rows));
            }
            inQueueX_.FreeTensor(x);
            StoreQueued(outQueueY_, yGm_[row * cols_], y, shape);
        }
        if (tiling_.smooth != 0) {
            smooth_.Free();
        }
    }

    __aicore__ inline void ProcessSplitRows()
    {
        for (uint64_t row = rowBegin_; row < rowEnd_; ++row) {
            rows_.template Start<MaxOf>(1, cols_);
            for (uint32_t column = 0; column < cols_; column += tiling_.tileCols) {
                AscendC::LocalTensor<T> x = LoadColumns(row, column);
                Fold(x, 0, ColumnsAt(tiling_, column, cols_));
                FreeColumns(x);
            }
            FinishScales(row, 1);
            for (uint32_t column = 0; column < cols_; column += tiling_.tileCols) {
                const RowBlock block = ColumnsAt(tiling_, column, cols_);
                AscendC::LocalTensor<T> x = LoadColumns(row, column);
                AscendC::LocalTensor<int8_t> y = outQueueY_.template AllocTensor<int8_t>();
                Round(y, Values(x, 0, block), 0, block);
                FreeColumns(x);
                StoreQueued(outQueueY_, yGm_[row * cols_ + column], y, {1, block.cols, tiling_.stride, block.cols});
            }
        }
    }

    __aicore__ inline AscendC::LocalTensor<T> Load(uint64_t offset, const Rows& shape)
    {
        AscendC::LocalTensor<T> x = inQueueX_.template AllocTensor<T>();
        LoadRows(x, xGm_[offset], shape, shape.rows > 1);
        inQueueX_.EnQue(x);
        return inQueueX_.template DeQue<T>();
    }

    __aicore__ inline AscendC::LocalTensor<T> LoadColumns(uint64_t row, uint32_t column)
    {
        const uint32_t cols = ColumnsAt(tiling_, column, cols_).cols;
        if (tiling_.smooth != 0) {
            smoothValues_ = smooth_.Load(column, cols);
        }
        return Load(row * cols_ + column, {1, cols, tiling_.stride, cols});
    }

    __aicore__ inline void FreeColumns(AscendC::LocalTensor<T>& x)
    {
        inQueueX_.FreeTensor(x);
        if (tiling_.smooth != 0) {
            smooth_.Free();
        }
    }

    // Returns x of a block in float, smoothed; that is x itself if it is float and not smoothed.
    __aicore__ inline AscendC::LocalTensor<float> Values(const AscendC::LocalTensor<T>& x, uint32_t at,
                                                         const RowBlock& block)
    {
        const AscendC::LocalTensor<float> values = ToFloat(x[at], float_[at], block.Elements());
        if (tiling_.smooth == 0) {
            return values;
        }
        MultiplyColumns(float_[at], values, smoothValues_, block);
        return float_[at];
    }

    // Returns what Values() gave for this place.
    __aicore__ inline AscendC::LocalTensor<float> Taken(const AscendC::LocalTensor<T>& x, uint32_t at) const
    {
        if constexpr (IS_FLOAT<T>) {
            return tiling_.smooth == 0 ? x[at] : float_[at];
        } else {
            return float_[at];
        }
    }

    __aicore__ inline void Fold(const AscendC::LocalTensor<T>& x, uint32_t r, const RowBlock& block)
    {
        AscendC::Abs(magnitude_, Values(x, r * tiling_.stride, block), static_cast<int32_t>(block.Elements()));
        rows_.template Fold<MaxOf>(magnitude_, r, block, cols_);
    }

    // Computes the scales of some rows, and their factors in rows_.blocks.
    __aicore__ inline void FinishScales(uint64_t row, uint32_t rows)
    {
        const int32_t count = static_cast<int32_t>(rows);
        rows_.Maxima(rows, cols_);
        AscendC::LocalTensor<float> scale = outQueueScale_.template AllocTensor<float>();
        AscendC::Muls(scale, rows_.values, INVERSE_OF_127, count);
        StoreQueued(outQueueScale_, scaleGm_[row], scale, {1, rows, rows, rows});
        AscendC::Maxs(rows_.values, rows_.values, SMALLEST_FLOAT, count);
        AscendC::Sqrt(rows_.values, rows_.values, count);
        rows_.Invert(rows);
        AscendC::Muls(rows_.values, rows_.values, ROOT_OF_127, count);
        rows_.Spread(rows);
    }

    __aicore__ inline void Round(const AscendC::LocalTensor<int8_t>& y, const AscendC::LocalTensor<float>& values,
                                 uint32_t r, const RowBlock& block)
    {
        const uint32_t at = r * tiling_.stride;
        const AscendC::LocalTensor<float> scaled = float_[at];
        MultiplyRows(scaled, values, rows_.blocks[r * FLOATS_PER_BLOCK], block);
        MultiplyRows(scaled, scaled, rows_.blocks[r * FLOATS_PER_BLOCK], block);
        RoundToBytes(y[at], scaled, half_[at], block.Elements());
    }

    DynamicQuantTilingData tiling_;
    uint32_t cols_ = 0;
    uint64_t rowBegin_ = 0;
    uint64_t rowEnd_ = 0;
    ColumnVector<T> smooth_;
    RowValues rows_;
    AscendC::GlobalTensor<T> xGm_;
    AscendC::GlobalTensor<int8_t> yGm_;
    AscendC::GlobalTensor<float> scaleGm_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueueX_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> outQueueY_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> outQueueScale_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> floatBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> halfBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> magnitudeBuf_;
    AscendC::LocalTensor<float> float_;
    AscendC::LocalTensor<half> half_;
    AscendC::LocalTensor<float> magnitude_;
    AscendC::LocalTensor<float> smoothValues_;
};

template <typename T>
__aicore__ inline void DynamicQuantKernel(GM_ADDR x, GM_ADDR smoothScales, GM_ADDR y, GM_ADDR scale, GM_ADDR,
                                          const DynamicQuantTilingData& tiling)
{
    AscendC::TPipe pipe;
    DynamicQuant<T> kernel;
    kernel.Init(x, smoothScales, y, scale, tiling, pipe);
    kernel.Process();
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_DYNAMIC_QUANT_KERNEL_H
