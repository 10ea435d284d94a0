/*!
 * RMSNorm over the last axis: y = x * rstd * gamma, rstd = 1 / sqrt(mean(x^2) + epsilon). All sums in float.
 *
 * Plan: a core owns consecutive rows and takes them tile by tile, x and y double-buffered. Squares are folded to 64
 * lanes a row by accumulating adds, one WholeReduceSum finishes all rows of the tile; rstd comes from Sqrt and Div and
 * is spread over a block a row (Brcb), so no scalar ever leaves the vector unit. gamma is loaded once per core.
 * Rows longer than a tile are read twice, column tile by column tile.
 * Bound: memory (x once, y once) as long as a row fits the Unified Buffer.
 */
#ifndef MS_ASCEND_OPS_RMS_NORM_KERNEL_H
#define MS_ASCEND_OPS_RMS_NORM_KERNEL_H

#include "kernel_operator.h"
#include "primitives/rows.h"
#include "primitives/tile.h"
#include "rms_norm_tiling.h"

namespace ms_ascend_ops {

template <typename T, typename G>
class RmsNormForward {
public:
    __aicore__ inline void Init(GM_ADDR x, GM_ADDR gamma, GM_ADDR y, GM_ADDR rstd, const RmsNormTilingData& tiling,
                                AscendC::TPipe& pipe)
    {
        tiling_ = tiling;
        cols_ = tiling.cols;
        rowBegin_ = tiling.rowsPerCore * AscendC::GetBlockIdx();
        rowEnd_ = rowBegin_ + tiling.rowsPerCore < tiling.rows ? rowBegin_ + tiling.rowsPerCore : tiling.rows;
        xGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(x), tiling.rows * cols_);
        gammaGm_.SetGlobalBuffer(reinterpret_cast<__gm__ G*>(gamma), cols_);
        yGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(y), tiling.rows * cols_);
        rstdGm_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(rstd), tiling.rows);

        const uint32_t tileElements = tiling.tileRows * tiling.stride;
        const uint32_t rows8 = (tiling.tileRows + FLOATS_PER_BLOCK - 1) / FLOATS_PER_BLOCK * FLOATS_PER_BLOCK;
        pipe.InitBuffer(inQueueX_, 2, tileElements * sizeof(T));
        pipe.InitBuffer(outQueueY_, 2, tileElements * sizeof(T));
        pipe.InitBuffer(outQueueRstd_, 2, rows8 * sizeof(float));
        pipe.InitBuffer(inQueueGamma_, 1, tiling.stride * sizeof(G));
        pipe.InitBuffer(squareBuf_, tiling.stepRows * tiling.stride * sizeof(float));
        pipe.InitBuffer(laneSumBuf_, tiling.tileRows * FLOAT_LANES * sizeof(float));
        pipe.InitBuffer(sumBuf_, rows8 * sizeof(float));
        pipe.InitBuffer(onesBuf_, rows8 * sizeof(float));
        pipe.InitBuffer(rstdBlockBuf_, rows8 * AscendC::ONE_BLK_SIZE);
        square_ = squareBuf_.template Get<float>();
        laneSum_ = laneSumBuf_.template Get<float>();
        sum_ = sumBuf_.template Get<float>();
        ones_ = onesBuf_.template Get<float>();
        rstdBlocks_ = rstdBlockBuf_.template Get<float>();
        if constexpr (!IS_FLOAT<T>) {
            pipe.InitBuffer(floatBuf_, tileElements * sizeof(float));
            float_ = floatBuf_.template Get<float>();
        }
        if constexpr (!IS_FLOAT<G>) {
            pipe.InitBuffer(gammaFloatBuf_, tiling.stride * sizeof(float));
            gammaFloat_ = gammaFloatBuf_.template Get<float>();
        }
        AscendC::Duplicate(ones_, 1.0f, static_cast<int32_t>(rows8));
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
        AscendC::LocalTensor<G> gammaLocal;
        const AscendC::LocalTensor<float> gamma = LoadGamma(gammaLocal, 0, cols_);
        for (uint64_t row = rowBegin_; row < rowEnd_; row += tiling_.tileRows) {
            const uint64_t left = rowEnd_ - row;
            const uint32_t rows = left < tiling_.tileRows ? static_cast<uint32_t>(left) : tiling_.tileRows;
            const Rows shape{rows, cols_, tiling_.stride, cols_};
            CopyIn(row * cols_, shape);
            AscendC::LocalTensor<T> xLocal = inQueueX_.template DeQue<T>();
            AscendC::Duplicate(laneSum_, 0.0f, static_cast<int32_t>(rows * FLOAT_LANES));
            for (uint32_t r = 0; r < rows; r += tiling_.stepRows) {
                const RowBlock block = BlockAt(r, rows);
                const uint32_t at = r * tiling_.stride;
                const AscendC::LocalTensor<float> xFloat = ToFloat(xLocal[at], float_[at], block.Elements());
                AscendC::Mul(square_, xFloat, xFloat, block.Elements());
                SumLanes(laneSum_[r * FLOAT_LANES], square_, block);
            }
            ComputeRstd(row, rows);
            AscendC::LocalTensor<T> yLocal = outQueueY_.template AllocTensor<T>();
            for (uint32_t r = 0; r < rows; r += tiling_.stepRows) {
                const uint32_t at = r * tiling_.stride;
                if constexpr (IS_FLOAT<T>) {
                    Normalize(yLocal[at], xLocal[at], rstdBlocks_[r * FLOATS_PER_BLOCK], gamma, BlockAt(r, rows));
                } else {
                    Normalize(yLocal[at], float_[at], rstdBlocks_[r * FLOATS_PER_BLOCK], gamma, BlockAt(r, rows));
                }
            }
            inQueueX_.FreeTensor(xLocal);
            CopyOut(yLocal, row * cols_, shape);
        }
        inQueueGamma_.FreeTensor(gammaLocal);
    }

    __aicore__ inline void ProcessSplitRows()
    {
        for (uint64_t row = rowBegin_; row < rowEnd_; ++row) {
            AscendC::Duplicate(laneSum_, 0.0f, static_cast<int32_t>(FLOAT_LANES));
            for (uint32_t column = 0; column < cols_; column += tiling_.tileCols) {
                const RowBlock block = ColumnsAt(column);
                CopyIn(row * cols_ + column, {1, block.cols, tiling_.stride, block.cols});
                AscendC::LocalTensor<T> xLocal = inQueueX_.template DeQue<T>();
                const AscendC::LocalTensor<float> xFloat = ToFloat(xLocal, float_, block.cols);
                AscendC::Mul(square_, xFloat, xFloat, block.cols);
                SumLanes(laneSum_, square_, block);
                inQueueX_.FreeTensor(xLocal);
            }
            ComputeRstd(row, 1);
            for (uint32_t column = 0; column < cols_; column += tiling_.tileCols) {
                const RowBlock block = ColumnsAt(column);
                const Rows shape{1, block.cols, tiling_.stride, block.cols};
                AscendC::LocalTensor<G> gammaLocal;
                const AscendC::LocalTensor<float> gamma = LoadGamma(gammaLocal, column, block.cols);
                CopyIn(row * cols_ + column, shape);
                AscendC::LocalTensor<T> xLocal = inQueueX_.template DeQue<T>();
                AscendC::LocalTensor<T> yLocal = outQueueY_.template AllocTensor<T>();
                Normalize(yLocal, ToFloat(xLocal, float_, block.cols), rstdBlocks_, gamma, block);
                inQueueX_.FreeTensor(xLocal);
                inQueueGamma_.FreeTensor(gammaLocal);
                CopyOut(yLocal, row * cols_ + column, shape);
            }
        }
    }

    __aicore__ inline RowBlock BlockAt(uint32_t row, uint32_t rows) const
    {
        const uint32_t left = rows - row;
        return {left < tiling_.stepRows ? left : tiling_.stepRows, cols_, tiling_.stride};
    }

    __aicore__ inline RowBlock ColumnsAt(uint32_t column) const
    {
        const uint32_t left = cols_ - column;
        return {1, left < tiling_.tileCols ? left : tiling_.tileCols, tiling_.stride};
    }

    // The factor of each column in float: gamma, or 1 + gamma.
    __aicore__ inline AscendC::LocalTensor<float> LoadGamma(AscendC::LocalTensor<G>& gammaLocal, uint32_t column,
                                                            uint32_t count)
    {
        gammaLocal = inQueueGamma_.template AllocTensor<G>();
        LoadRows(gammaLocal, gammaGm_[column], {1, count, tiling_.stride, count});
        inQueueGamma_.EnQue(gammaLocal);
        gammaLocal = inQueueGamma_.template DeQue<G>();
        const AscendC::LocalTensor<float> gamma = ToFloat(gammaLocal, gammaFloat_, count);
        if (tiling_.gemma != 0) {
            AscendC::Adds(gamma, gamma, 1.0f, static_cast<int32_t>(count));
        }
        return gamma;
    }

    __aicore__ inline void CopyIn(uint64_t offset, const Rows& shape)
    {
        AscendC::LocalTensor<T> xLocal = inQueueX_.template AllocTensor<T>();
        LoadRows(xLocal, xGm_[offset], shape, shape.rows > 1);
        inQueueX_.EnQue(xLocal);
    }

    // rstd of the tile's rows from their lane sums, to global memory and into rstdBlocks_.
    __aicore__ inline void ComputeRstd(uint64_t row, uint32_t rows)
    {
        const int32_t rows8 = static_cast<int32_t>((rows + FLOATS_PER_BLOCK - 1) / FLOATS_PER_BLOCK * FLOATS_PER_BLOCK);
        AscendC::Duplicate(sum_, 0.0f, rows8);  // Brcb reads whole blocks
        AscendC::WholeReduceSum(sum_, laneSum_, static_cast<int32_t>(FLOAT_LANES), static_cast<int32_t>(rows), 1, 1, 8);
        AscendC::Muls(sum_, sum_, tiling_.inverseCols, rows8);
        AscendC::Adds(sum_, sum_, tiling_.epsilon, rows8);
        AscendC::Sqrt(sum_, sum_, rows8);
        AscendC::LocalTensor<float> rstdLocal = outQueueRstd_.template AllocTensor<float>();
        AscendC::Div(rstdLocal, ones_, sum_, rows8);
        BroadcastRows(rstdBlocks_, rstdLocal, rows);
        outQueueRstd_.EnQue(rstdLocal);
        rstdLocal = outQueueRstd_.template DeQue<float>();
        StoreRows(rstdGm_[row], rstdLocal, {1, rows, static_cast<uint32_t>(rows8), rows});
        outQueueRstd_.FreeTensor(rstdLocal);
    }

    // y = x * rstd * gamma on a block of rows. xFloat of a 16-bit T is scratch afterwards.
    __aicore__ inline void Normalize(const AscendC::LocalTensor<T>& y, const AscendC::LocalTensor<float>& xFloat,
                                     const AscendC::LocalTensor<float>& rstdBlocks,
                                     const AscendC::LocalTensor<float>& gamma, const RowBlock& block)
    {
        if constexpr (IS_FLOAT<T>) {
            MultiplyRows(y, xFloat, rstdBlocks, block);
            MultiplyColumns(y, y, gamma, block);
        } else {
            MultiplyRows(xFloat, xFloat, rstdBlocks, block);
            if (tiling_.gemma == 0) {  // the "llama" scheme rounds x * rstd to T
                FromFloat(y, xFloat, block.Elements());
                AscendC::Cast(xFloat, y, AscendC::RoundMode::CAST_NONE, block.Elements());
            }
            MultiplyColumns(xFloat, xFloat, gamma, block);
            FromFloat(y, xFloat, block.Elements());
        }
    }

    __aicore__ inline void CopyOut(AscendC::LocalTensor<T>& yLocal, uint64_t offset, const Rows& shape)
    {
        outQueueY_.EnQue(yLocal);
        yLocal = outQueueY_.template DeQue<T>();
        StoreRows(yGm_[offset], yLocal, shape);
        outQueueY_.FreeTensor(yLocal);
    }

    RmsNormTilingData tiling_;
    uint32_t cols_ = 0;
    uint64_t rowBegin_ = 0;
    uint64_t rowEnd_ = 0;
    AscendC::GlobalTensor<T> xGm_;
    AscendC::GlobalTensor<G> gammaGm_;
    AscendC::GlobalTensor<T> yGm_;
    AscendC::GlobalTensor<float> rstdGm_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueueX_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueueGamma_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> outQueueY_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> outQueueRstd_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> floatBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> gammaFloatBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> squareBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> laneSumBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> sumBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> onesBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> rstdBlockBuf_;
    AscendC::LocalTensor<float> float_;       // x in float, for 16-bit T
    AscendC::LocalTensor<float> gammaFloat_;  // gamma in float, for 16-bit G
    AscendC::LocalTensor<float> square_;
    AscendC::LocalTensor<float> laneSum_;  // 64 partial sums a row
    AscendC::LocalTensor<float> sum_;
    AscendC::LocalTensor<float> ones_;
    AscendC::LocalTensor<float> rstdBlocks_;  // a block of 8 equal values a row
};

template <typename T, typename G>
__aicore__ inline void RmsNormKernel(GM_ADDR x, GM_ADDR gamma, GM_ADDR y, GM_ADDR rstd,
                                     [[maybe_unused]] GM_ADDR workspace, const RmsNormTilingData& tiling)
{
    AscendC::TPipe pipe;
    RmsNormForward<T, G> kernel;
    kernel.Init(x, gamma, y, rstd, tiling, pipe);
    kernel.Process();
}

}  // namespace ms_ascend_ops

#include "rms_norm_grad_kernel.h"

#endif  // MS_ASCEND_OPS_RMS_NORM_KERNEL_H
