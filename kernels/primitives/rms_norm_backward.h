/*!
 * Gradient of RMSNorm, and of RMSNorm after an addition. With xhat = x * rstd, g = dy * gamma (or dy * (1 + gamma))
 * and n columns:
 *   dx     = rstd * (g - xhat * (sum(g * xhat) + drstd * rstd) / n) + dresidual
 *   dgamma = sum over rows of dy * xhat
 * dresidual comes in through the sum that the addition hands out; without an addition there is none.
 *
 * Plan: rows come in chunks of a size that does not depend on the number of cores. A core sums the dgamma of each of
 * its chunks in the Unified Buffer and leaves it in the workspace; after a barrier the cores share out the columns and
 * add the chunks in order, so dgamma is the same on any number of cores. Rows longer than a tile are read twice.
 * Bound: memory (dy, x and dresidual once, dx once, plus one float row per chunk twice).
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_RMS_NORM_BACKWARD_H
#define MS_ASCEND_OPS_PRIMITIVES_RMS_NORM_BACKWARD_H

#include "kernel_operator.h"
#include "primitives/row_norm.h"
#include "primitives/row_norm_tiling.h"
#include "primitives/sum_chunks.h"

namespace ms_ascend_ops {

// First stage: dx, and dgamma of each chunk.
template <typename T, typename G, bool ADD>
class RmsNormBackward {
public:
    __aicore__ inline void Init(GM_ADDR dy, GM_ADDR drstd, GM_ADDR dresidual, GM_ADDR x, GM_ADDR rstd, GM_ADDR gamma,
                                GM_ADDR dx, GM_ADDR workspace, const RowNormGradTilingData& tiling,
                                AscendC::TPipe& pipe)
    {
        tiling_ = tiling;
        cols_ = tiling.cols;
        const uint64_t elements = tiling.rows * cols_;
        dyGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(dy), elements);
        drstdGm_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(drstd), tiling.rows);
        xGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(x), elements);
        rstdGm_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(rstd), tiling.rows);
        dxGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(dx), elements);
        chunkGm_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(workspace),
                                 static_cast<uint64_t>(tiling.chunks) * tiling.chunkStride);

        const uint32_t tileElements = tiling.tileRows * tiling.stride;
        const uint32_t rows8 = RoundUpToBlock(tiling.stateRows);
        gamma_.Init(gamma, cols_, tiling.stride, pipe);
        pipe.InitBuffer(inQueueDy_, tiling.buffers, tileElements * sizeof(T));
        pipe.InitBuffer(inQueueX_, tiling.buffers, tileElements * sizeof(T));
        pipe.InitBuffer(outQueueDx_, tiling.buffers, tileElements * sizeof(T));
        if constexpr (ADD) {
            dresidualGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(dresidual), elements);
            pipe.InitBuffer(inQueueDresidual_, tiling.buffers, tileElements * sizeof(T));
        }
        pipe.InitBuffer(inQueueState_, 1, 2 * rows8 * sizeof(float));
        pipe.InitBuffer(outQueueChunk_, 1, tiling.stride * sizeof(float));
        pipe.InitBuffer(xhatBuf_, tileElements * sizeof(float));
        pipe.InitBuffer(productBuf_, tiling.stepRows * tiling.stride * sizeof(float));
        pipe.InitBuffer(laneSumBuf_, tiling.stateRows * FLOAT_LANES * sizeof(float));
        pipe.InitBuffer(sumBuf_, rows8 * sizeof(float));
        pipe.InitBuffer(rstdBlockBuf_, rows8 * AscendC::ONE_BLK_SIZE);
        pipe.InitBuffer(meanBlockBuf_, rows8 * AscendC::ONE_BLK_SIZE);
        xhat_ = xhatBuf_.template Get<float>();
        product_ = productBuf_.template Get<float>();
        laneSum_ = laneSumBuf_.template Get<float>();
        sum_ = sumBuf_.template Get<float>();
        rstdBlocks_ = rstdBlockBuf_.template Get<float>();
        meanBlocks_ = meanBlockBuf_.template Get<float>();
        if constexpr (!IS_FLOAT<T>) {
            pipe.InitBuffer(dyFloatBuf_, tileElements * sizeof(float));
            dyFloat_ = dyFloatBuf_.template Get<float>();
        }
    }

    __aicore__ inline void Process()
    {
        const uint32_t first = static_cast<uint32_t>(AscendC::GetBlockIdx()) * tiling_.chunksPerCore;
        const uint32_t last =
            first + tiling_.chunksPerCore < tiling_.chunks ? first + tiling_.chunksPerCore : tiling_.chunks;
        if (first >= last) {
            return;
        }
        if (tiling_.tileCols != cols_) {
            for (uint32_t chunk = first; chunk < last; ++chunk) {
                ProcessSplitRows(chunk);
            }
            return;
        }
        const AscendC::LocalTensor<float> gamma = gamma_.Load(0, cols_, tiling_.gemma != 0);
        for (uint32_t chunk = first; chunk < last; ++chunk) {
            ProcessWholeRows(chunk, gamma);
        }
        gamma_.Free();
    }

private:
    __aicore__ inline uint64_t ChunkEnd(uint32_t chunk) const
    {
        const uint64_t end = (chunk + 1) * tiling_.chunkRows;
        return end < tiling_.rows ? end : tiling_.rows;
    }

    __aicore__ inline void ProcessWholeRows(uint32_t chunk, const AscendC::LocalTensor<float>& gamma)
    {
        const uint64_t end = ChunkEnd(chunk);
        AscendC::LocalTensor<float> dgamma = outQueueChunk_.template AllocTensor<float>();
        AscendC::Duplicate(dgamma, 0.0f, static_cast<int32_t>(cols_));
        for (uint64_t row = chunk * tiling_.chunkRows; row < end; row += tiling_.tileRows) {
            const uint32_t rows = end - row < tiling_.tileRows ? static_cast<uint32_t>(end - row) : tiling_.tileRows;
            const Rows shape{rows, cols_, tiling_.stride, cols_};
            CopyIn(row * cols_, shape);
            CopyInDresidual(row * cols_, shape);
            LoadRowState(row, rows);
            AscendC::LocalTensor<T> dyLocal = inQueueDy_.template DeQue<T>();
            AscendC::LocalTensor<T> xLocal = inQueueX_.template DeQue<T>();
            AscendC::Duplicate(laneSum_, 0.0f, static_cast<int32_t>(rows * FLOAT_LANES));
            for (uint32_t r = 0; r < rows; r += tiling_.stepRows) {
                const RowBlock block = BlockAt(tiling_, r, rows);
                const uint32_t at = r * tiling_.stride;
                const auto dyFloat = ToFloat(dyLocal[at], dyFloat_[at], block.Elements());
                Products(dyFloat, xLocal[at], xhat_[at], r, block);
                SumColumns(dgamma, product_, block);
                MultiplyColumns(product_, product_, gamma, block);
                SumLanes(laneSum_[r * FLOAT_LANES], product_, block);
            }
            ComputeMean(rows);
            const AscendC::LocalTensor<T> dresidual = TakeDresidual();
            AscendC::LocalTensor<T> dxLocal = outQueueDx_.template AllocTensor<T>();
            for (uint32_t r = 0; r < rows; r += tiling_.stepRows) {
                const RowBlock block = BlockAt(tiling_, r, rows);
                const uint32_t at = r * tiling_.stride;
                if constexpr (IS_FLOAT<T>) {
                    ComputeDx(dxLocal[at], dyLocal[at], dxLocal[at], xhat_[at], gamma, dresidual[at], r, block);
                } else {
                    ComputeDx(dxLocal[at], dyFloat_[at], dyFloat_[at], xhat_[at], gamma, dresidual[at], r, block);
                }
            }
            inQueueDy_.FreeTensor(dyLocal);
            inQueueX_.FreeTensor(xLocal);
            FreeDresidual();
            FreeRowState();
            CopyOut(dxLocal, row * cols_, shape);
        }
        StoreChunk(dgamma, chunk, 0, cols_);
    }

    // A few rows at a time: first their means, column tile by column tile, then dx and dgamma of each column tile.
    __aicore__ inline void ProcessSplitRows(uint32_t chunk)
    {
        const uint64_t begin = chunk * tiling_.chunkRows;
        const uint64_t end = ChunkEnd(chunk);
        for (uint64_t row = begin; row < end; row += tiling_.stateRows) {
            const uint32_t rows = end - row < tiling_.stateRows ? static_cast<uint32_t>(end - row) : tiling_.stateRows;
            LoadRowState(row, rows);
            AscendC::Duplicate(laneSum_, 0.0f, static_cast<int32_t>(rows * FLOAT_LANES));
            for (uint32_t column = 0; column < cols_; column += tiling_.tileCols) {
                const RowBlock block = ColumnsAt(tiling_, column);
                const AscendC::LocalTensor<float> gamma = gamma_.Load(column, block.cols, tiling_.gemma != 0);
                for (uint32_t r = 0; r < rows; ++r) {
                    CopyIn((row + r) * cols_ + column, {1, block.cols, tiling_.stride, block.cols});
                    AscendC::LocalTensor<T> dyLocal = inQueueDy_.template DeQue<T>();
                    AscendC::LocalTensor<T> xLocal = inQueueX_.template DeQue<T>();
                    Products(ToFloat(dyLocal, dyFloat_, block.cols), xLocal, xhat_, r, block);
                    MultiplyColumns(product_, product_, gamma, block);
                    SumLanes(laneSum_[r * FLOAT_LANES], product_, block);
                    inQueueDy_.FreeTensor(dyLocal);
                    inQueueX_.FreeTensor(xLocal);
                }
                gamma_.Free();
            }
            ComputeMean(rows);
            for (uint32_t column = 0; column < cols_; column += tiling_.tileCols) {
                SplitRowsDx(chunk, row, rows, column, row > begin);
            }
            FreeRowState();
        }
    }

    __aicore__ inline void SplitRowsDx(uint32_t chunk, uint64_t row, uint32_t rows, uint32_t column, bool continues)
    {
        const RowBlock block = ColumnsAt(tiling_, column);
        const Rows shape{1, block.cols, tiling_.stride, block.cols};
        const AscendC::LocalTensor<float> gamma = gamma_.Load(column, block.cols, tiling_.gemma != 0);
        AscendC::LocalTensor<float> dgamma = outQueueChunk_.template AllocTensor<float>();
        AscendC::Duplicate(dgamma, 0.0f, static_cast<int32_t>(block.cols));
        for (uint32_t r = 0; r < rows; ++r) {
            CopyIn((row + r) * cols_ + column, shape);
            CopyInDresidual((row + r) * cols_ + column, shape);
            AscendC::LocalTensor<T> dyLocal = inQueueDy_.template DeQue<T>();
            AscendC::LocalTensor<T> xLocal = inQueueX_.template DeQue<T>();
            const AscendC::LocalTensor<T> dresidual = TakeDresidual();
            AscendC::LocalTensor<T> dxLocal = outQueueDx_.template AllocTensor<T>();
            const AscendC::LocalTensor<float> dyFloat = ToFloat(dyLocal, dyFloat_, block.cols);
            Products(dyFloat, xLocal, xhat_, r, block);
            SumColumns(dgamma, product_, block);
            if constexpr (IS_FLOAT<T>) {
                ComputeDx(dxLocal, dyFloat, dxLocal, xhat_, gamma, dresidual, r, block);
            } else {
                ComputeDx(dxLocal, dyFloat, dyFloat, xhat_, gamma, dresidual, r, block);
            }
            inQueueDy_.FreeTensor(dyLocal);
            inQueueX_.FreeTensor(xLocal);
            FreeDresidual();
            CopyOut(dxLocal, (row + r) * cols_ + column, shape);
        }
        gamma_.Free();
        if (continues) {  // the chunk's earlier rows are in the workspace already: add there, in row order
            AscendC::PipeBarrier<PIPE_MTE3>();
            AscendC::SetAtomicAdd<float>();
        }
        StoreChunk(dgamma, chunk, column, block.cols);
        if (continues) {
            AscendC::SetAtomicNone();
        }
    }

    __aicore__ inline void CopyIn(uint64_t offset, const Rows& shape)
    {
        AscendC::LocalTensor<T> dyLocal = inQueueDy_.template AllocTensor<T>();
        LoadRows(dyLocal, dyGm_[offset], shape, shape.rows > 1);
        inQueueDy_.EnQue(dyLocal);
        AscendC::LocalTensor<T> xLocal = inQueueX_.template AllocTensor<T>();
        LoadRows(xLocal, xGm_[offset], shape, shape.rows > 1);
        inQueueX_.EnQue(xLocal);
    }

    __aicore__ inline void CopyInDresidual([[maybe_unused]] uint64_t offset, [[maybe_unused]] const Rows& shape)
    {
        if constexpr (ADD) {
            AscendC::LocalTensor<T> local = inQueueDresidual_.template AllocTensor<T>();
            LoadRows(local, dresidualGm_[offset], shape, shape.rows > 1);
            inQueueDresidual_.EnQue(local);
        }
    }

    __aicore__ inline AscendC::LocalTensor<T> TakeDresidual()
    {
        if constexpr (ADD) {
            dresidualLocal_ = inQueueDresidual_.template DeQue<T>();
        }
        return dresidualLocal_;
    }

    __aicore__ inline void FreeDresidual()
    {
        if constexpr (ADD) {
            inQueueDresidual_.FreeTensor(dresidualLocal_);
        }
    }

    // rstd and drstd of `rows` rows; rstd also as blocks.
    __aicore__ inline void LoadRowState(uint64_t row, uint32_t rows)
    {
        const uint32_t rows8 = RoundUpToBlock(rows);
        const Rows shape{1, rows, rows8, rows};
        rstdLocal_ = inQueueState_.template AllocTensor<float>();
        LoadRows(rstdLocal_, rstdGm_[row], shape, true);
        LoadRows(rstdLocal_[rows8], drstdGm_[row], shape, true);
        inQueueState_.EnQue(rstdLocal_);
        rstdLocal_ = inQueueState_.template DeQue<float>();
        drstdLocal_ = rstdLocal_[rows8];
        BroadcastRows(rstdBlocks_, rstdLocal_, rows);
    }

    __aicore__ inline void FreeRowState() { inQueueState_.FreeTensor(rstdLocal_); }

    // xhat = x * rstd, product_ = dy * xhat, for the block whose first row is row r of the row state.
    __aicore__ inline void Products(const AscendC::LocalTensor<float>& dyFloat, const AscendC::LocalTensor<T>& x,
                                    const AscendC::LocalTensor<float>& xhat, uint32_t r, const RowBlock& block)
    {
        const AscendC::LocalTensor<float> xFloat = ToFloat(x, xhat, block.Elements());
        MultiplyRows(xhat, xFloat, rstdBlocks_[r * FLOATS_PER_BLOCK], block);
        AscendC::Mul(product_, dyFloat, xhat, static_cast<int32_t>(block.Elements()));
    }

    // meanBlocks_ = (sum(g * xhat) + drstd * rstd) / n of each row.
    __aicore__ inline void ComputeMean(uint32_t rows)
    {
        const int32_t rows8 = static_cast<int32_t>(RoundUpToBlock(rows));
        AscendC::Duplicate(sum_, 0.0f, rows8);  // Brcb reads whole blocks
        AscendC::WholeReduceSum(sum_, laneSum_, static_cast<int32_t>(FLOAT_LANES), static_cast<int32_t>(rows), 1, 1, 8);
        AscendC::Mul(drstdLocal_, drstdLocal_, rstdLocal_, rows8);
        AscendC::Add(sum_, sum_, drstdLocal_, rows8);
        AscendC::Muls(sum_, sum_, tiling_.inverseCols, rows8);
        BroadcastRows(meanBlocks_, sum_, rows);
    }

    // dx = (dy * gamma - xhat * mean) * rstd + dresidual, calculated in `result`. xhat is scratch afterwards.
    __aicore__ inline void ComputeDx(const AscendC::LocalTensor<T>& dx, const AscendC::LocalTensor<float>& dyFloat,
                                     const AscendC::LocalTensor<float>& result, const AscendC::LocalTensor<float>& xhat,
                                     const AscendC::LocalTensor<float>& gamma,
                                     [[maybe_unused]] const AscendC::LocalTensor<T>& dresidual, uint32_t r,
                                     const RowBlock& block)
    {
        MultiplyColumns(result, dyFloat, gamma, block);
        MultiplyRows(xhat, xhat, meanBlocks_[r * FLOATS_PER_BLOCK], block);
        AscendC::Sub(result, result, xhat, static_cast<int32_t>(block.Elements()));
        MultiplyRows(result, result, rstdBlocks_[r * FLOATS_PER_BLOCK], block);
        if constexpr (ADD) {
            const uint32_t count = block.Elements();
            AscendC::Add(result, result, ToFloat(dresidual, product_, count), static_cast<int32_t>(count));
        }
        FromFloat(dx, result, block.Elements());
    }

    __aicore__ inline void CopyOut(AscendC::LocalTensor<T>& dxLocal, uint64_t offset, const Rows& shape)
    {
        outQueueDx_.EnQue(dxLocal);
        dxLocal = outQueueDx_.template DeQue<T>();
        StoreRows(dxGm_[offset], dxLocal, shape);
        outQueueDx_.FreeTensor(dxLocal);
    }

    __aicore__ inline void StoreChunk(AscendC::LocalTensor<float>& dgamma, uint32_t chunk, uint32_t column,
                                      uint32_t count)
    {
        outQueueChunk_.EnQue(dgamma);
        dgamma = outQueueChunk_.template DeQue<float>();
        StoreRows(chunkGm_[static_cast<uint64_t>(chunk) * tiling_.chunkStride + column], dgamma,
                  {1, count, tiling_.stride, count});
        outQueueChunk_.FreeTensor(dgamma);
    }

    RowNormGradTilingData tiling_;
    uint32_t cols_ = 0;
    ColumnVector<G> gamma_;
    AscendC::GlobalTensor<T> dyGm_;
    AscendC::GlobalTensor<float> drstdGm_;
    AscendC::GlobalTensor<T> xGm_;
    AscendC::GlobalTensor<float> rstdGm_;
    AscendC::GlobalTensor<T> dresidualGm_;
    AscendC::GlobalTensor<T> dxGm_;
    AscendC::GlobalTensor<float> chunkGm_;  // dgamma of each chunk
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueueDy_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueueX_;
    // rstd, then drstd, in one buffer: the queues of VECIN may have eight in all, one for each event id of the chip.
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueueState_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueueDresidual_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> outQueueDx_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> outQueueChunk_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> dyFloatBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> xhatBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> productBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> laneSumBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> sumBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> rstdBlockBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> meanBlockBuf_;
    AscendC::LocalTensor<T> dresidualLocal_;
    AscendC::LocalTensor<float> dyFloat_;  // for 16-bit T
    AscendC::LocalTensor<float> xhat_;
    AscendC::LocalTensor<float> product_;
    AscendC::LocalTensor<float> laneSum_;
    AscendC::LocalTensor<float> sum_;
    AscendC::LocalTensor<float> rstdBlocks_;
    AscendC::LocalTensor<float> meanBlocks_;
    AscendC::LocalTensor<float> rstdLocal_;
    AscendC::LocalTensor<float> drstdLocal_;
};

template <typename T, typename G, bool ADD>
__aicore__ inline void RunRmsNormBackward(GM_ADDR dy, GM_ADDR drstd, GM_ADDR dresidual, GM_ADDR x, GM_ADDR rstd,
                                          GM_ADDR gamma, GM_ADDR dx, GM_ADDR dgamma, GM_ADDR workspace,
                                          const RowNormGradTilingData& tiling)
{
    AscendC::TPipe pipe;
    {
        RmsNormBackward<T, G, ADD> kernel;
        kernel.Init(dy, drstd, dresidual, x, rstd, gamma, dx, workspace, tiling, pipe);
        kernel.Process();
    }
    AscendC::SyncAll();
    pipe.Reset();
    SumChunks<G, RowNormGradTilingData> sum;
    sum.Init(tiling, pipe);
    sum.Process(dgamma, workspace);
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_RMS_NORM_BACKWARD_H
