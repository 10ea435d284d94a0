/*!
 * Gradient of RMSNorm and LayerNorm, also after an addition. With xhat = x * rstd (RMSNorm) or (x - mean) * rstd,
 * g = dy * gamma (or dy * (1 + gamma)) and n columns:
 *   inner  = (sum(g * xhat) + drstd * rstd) / n
 *   outer  = (rstd * sum(g) - dmean) / n, for LayerNorm; else 0
 *   dx     = rstd * (g - xhat * inner) - outer + dresidual
 *   dgamma = sum over rows of dy * xhat,  dbeta = sum over rows of dy
 * dresidual comes in through the sum that the addition hands out; without an addition there is none. With a ReLU behind
 * LayerNorm, dy is 0 where xhat * gamma + beta is not positive.
 *
 * Plan: rows come in chunks of a size that does not depend on the number of cores. A core sums the dgamma of each of
 * its chunks in the Unified Buffer and leaves it in the workspace; after a barrier the cores share out the columns and
 * add the chunks in order, so dgamma is the same on any number of cores. Rows longer than a tile are read twice; if
 * they are few, all are one chunk, of which cores share the columns: first the rows' sums of each piece (row_pieces.h),
 * then, with those of the rows, dx and dgamma.
 * Bound: memory (dy, x and dresidual once, dx once, plus a float row or two per chunk twice).
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_NORM_BACKWARD_H
#define MS_ASCEND_OPS_PRIMITIVES_NORM_BACKWARD_H

#include "kernel_operator.h"
#include "primitives/relu.h"
#include "primitives/row_norm.h"
#include "primitives/row_norm_tiling.h"
#include "primitives/row_pieces.h"
#include "primitives/sum_chunks.h"

namespace ms_ascend_ops {

// Addresses of what a gradient takes and gives; null where an operator does not have it.
struct NormGradTensors {
    GM_ADDR dy = nullptr;
    GM_ADDR dmean = nullptr;
    GM_ADDR drstd = nullptr;
    GM_ADDR dresidual = nullptr;
    GM_ADDR x = nullptr;
    GM_ADDR mean = nullptr;
    GM_ADDR rstd = nullptr;
    GM_ADDR gamma = nullptr;
    GM_ADDR dx = nullptr;
    GM_ADDR dgamma = nullptr;
    GM_ADDR dbeta = nullptr;
    GM_ADDR workspace = nullptr;
    GM_ADDR beta = nullptr;
};

// The first stage computes dx, and dgamma of each chunk.
template <typename T, typename G, bool CENTER, bool ADD>
class NormBackward {
public:
    __aicore__ inline void Init(const NormGradTensors& tensors, const RowNormGradTilingData& tiling,
                                AscendC::TPipe& pipe)
    {
        tiling_ = tiling;
        cols_ = tiling.cols;
        const uint64_t elements = tiling.rows * cols_;
        const uint64_t chunkElements = static_cast<uint64_t>(tiling.chunks) * tiling.chunkStride;
        dyGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(tensors.dy), elements);
        xGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(tensors.x), elements);
        dxGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(tensors.dx), elements);
        chunkGm_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(tensors.workspace), 2 * chunkElements);

        const uint32_t tileElements = tiling.tileRows * tiling.stride;
        const uint32_t rows8 = RoundUpToBlock(tiling.stateRows);
        gamma_.Init(tensors.gamma, cols_, tiling.stride, pipe);
        if constexpr (ACTIVATES) {
            if (tiling.relu != 0) {
                beta_.Init(tensors.beta, cols_, tiling.stride, pipe);
            }
        }
        // With ADD, or beta, the other queues leave one buffer.
        states_.Init(STATES, rows8, ADD || tiling.relu != 0 ? 1 : 2, pipe);
        states_.SetSource(RSTD, tensors.rstd, tiling.rows);
        states_.SetSource(DRSTD, tensors.drstd, tiling.rows);
        pipe.InitBuffer(inQueueDy_, tiling.inBuffers, tileElements * sizeof(T));
        pipe.InitBuffer(inQueueX_, tiling.inBuffers, tileElements * sizeof(T));
        pipe.InitBuffer(outQueueDx_, tiling.outBuffers, tileElements * sizeof(T));
        pipe.InitBuffer(outQueueDgamma_, 1, tiling.stride * sizeof(float));
        pipe.InitBuffer(xhatBuf_, tileElements * sizeof(float));
        pipe.InitBuffer(productBuf_, tiling.stepRows * tiling.stride * sizeof(float));
        pipe.InitBuffer(laneSumBuf_, tiling.stateRows * FLOAT_LANES * sizeof(float));
        pipe.InitBuffer(sumBuf_, (CENTER ? 2 : 1) * rows8 * sizeof(float));
        pipe.InitBuffer(rstdBlockBuf_, rows8 * AscendC::ONE_BLK_SIZE);
        pipe.InitBuffer(innerBlockBuf_, rows8 * AscendC::ONE_BLK_SIZE);
        if (tiling.pieces != 0) {
            pieces_.Init(tensors.workspace + SUMS * chunkElements * sizeof(float), tiling, 1, tiling.stateRows, pipe);
        }
        xhat_ = xhatBuf_.template Get<float>();
        product_ = productBuf_.template Get<float>();
        laneSum_ = laneSumBuf_.template Get<float>();
        sum_ = sumBuf_.template Get<float>();
        AscendC::Duplicate(sum_, 0.0f, static_cast<int32_t>((CENTER ? 2 : 1) * rows8));  // whole blocks are read
        rstdBlocks_ = rstdBlockBuf_.template Get<float>();
        innerBlocks_ = innerBlockBuf_.template Get<float>();
        if constexpr (CENTER) {
            states_.SetSource(MEAN, tensors.mean, tiling.rows);
            states_.SetSource(DMEAN, tensors.dmean, tiling.rows);
            pipe.InitBuffer(outQueueDbeta_, 1, tiling.stride * sizeof(float));
            pipe.InitBuffer(outerLaneSumBuf_, tiling.stateRows * FLOAT_LANES * sizeof(float));
            pipe.InitBuffer(centerBlockBuf_, rows8 * AscendC::ONE_BLK_SIZE);
            pipe.InitBuffer(outerBlockBuf_, rows8 * AscendC::ONE_BLK_SIZE);
            outerSum_ = sum_[rows8];
            outerLaneSum_ = outerLaneSumBuf_.template Get<float>();
            centerBlocks_ = centerBlockBuf_.template Get<float>();
            outerBlocks_ = outerBlockBuf_.template Get<float>();
        }
        if constexpr (ADD) {
            dresidualGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(tensors.dresidual), elements);
            // VECIN has 8 buffers, of which shared rows need one for their sums.
            pipe.InitBuffer(inQueueDresidual_, tiling.pieces != 0 ? 1 : tiling.inBuffers, tileElements * sizeof(T));
        }
        dyFloat_.Init(tileElements, pipe);
    }

    __aicore__ inline void Process()
    {
        if (tiling_.pieces != 0) {
            const CoreShare share = ShareOf(tiling_.pieces, tiling_.piecesPerCore);
            SumPieces(share);
            AscendC::SyncAll();
            ApplyPieces(share);
            return;
        }
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
        const AscendC::LocalTensor<float> gamma = LoadColumns(0, cols_);
        for (uint32_t chunk = first; chunk < last; ++chunk) {
            ProcessWholeRows(chunk, gamma);
        }
        FreeColumns();
    }

private:
    static constexpr uint32_t RSTD = 0;  // the rows of states_
    static constexpr uint32_t DRSTD = 1;
    static constexpr uint32_t MEAN = 2;
    static constexpr uint32_t DMEAN = 3;
    static constexpr uint32_t STATES = CENTER ? 4 : 2;
    static constexpr uint32_t SUMS = CENTER ? 2 : 1;  // of a row
    static constexpr bool ACTIVATES = CENTER && !ADD;

    // Loads gamma, and beta where it is needed.
    __aicore__ inline AscendC::LocalTensor<float> LoadColumns(uint32_t column, uint32_t count)
    {
        if constexpr (ACTIVATES) {
            if (tiling_.relu != 0) {
                betaLocal_ = beta_.Load(column, count);
            }
        }
        return gamma_.Load(column, count, tiling_.onePlusGamma != 0);
    }

    __aicore__ inline void FreeColumns()
    {
        if constexpr (ACTIVATES) {
            if (tiling_.relu != 0) {
                beta_.Free();
            }
        }
        gamma_.Free();
    }

    __aicore__ inline uint64_t ChunkEnd(uint32_t chunk) const
    {
        const uint64_t end = (chunk + 1) * tiling_.chunkRows;
        return end < tiling_.rows ? end : tiling_.rows;
    }

    __aicore__ inline void ProcessWholeRows(uint32_t chunk, const AscendC::LocalTensor<float>& gamma)
    {
        const uint64_t end = ChunkEnd(chunk);
        BeginChunk(cols_);
        for (uint64_t row = chunk * tiling_.chunkRows; row < end; row += tiling_.tileRows) {
            const uint32_t rows = end - row < tiling_.tileRows ? static_cast<uint32_t>(end - row) : tiling_.tileRows;
            const Rows shape{rows, cols_, tiling_.stride, cols_};
            CopyIn(row * cols_, shape);
            CopyInDresidual(row * cols_, shape);
            LoadRowState(row, rows);
            AscendC::LocalTensor<T> dyLocal = inQueueDy_.template DeQue<T>();
            AscendC::LocalTensor<T> xLocal = inQueueX_.template DeQue<T>();
            StartSums(rows);
            for (uint32_t r = 0; r < rows; r += tiling_.stepRows) {
                const RowBlock block = BlockAt(tiling_, r, rows);
                const uint32_t at = r * tiling_.stride;
                const auto dyFloat = dyFloat_.Take(dyLocal, at, block.Elements());
                Products(dyFloat, xLocal[at], xhat_[at], gamma, r, block);
                SumChunkColumns(dyFloat, block);
                SumRows(dyFloat, gamma, r, block);
            }
            FinishSums(rows);
            ComputeInner(rows);
            TakeDresidual();
            AscendC::LocalTensor<T> dxLocal = outQueueDx_.template AllocTensor<T>();
            for (uint32_t r = 0; r < rows; r += tiling_.stepRows) {
                const RowBlock block = BlockAt(tiling_, r, rows);
                const uint32_t at = r * tiling_.stride;
                ComputeDx(dxLocal, dyFloat_.Taken(dyLocal, at), gamma, at, r, block);
            }
            inQueueDy_.FreeTensor(dyLocal);
            inQueueX_.FreeTensor(xLocal);
            FreeDresidual();
            states_.Free();
            StoreQueued(outQueueDx_, dxGm_[row * cols_], dxLocal, shape);
        }
        EndChunk(chunk, 0, cols_);
    }

    // Takes a few rows at a time: first their means, column tile by column tile, then dx and dgamma of each column
    // tile.
    __aicore__ inline void ProcessSplitRows(uint32_t chunk)
    {
        const uint64_t begin = chunk * tiling_.chunkRows;
        const uint64_t end = ChunkEnd(chunk);
        for (uint64_t row = begin; row < end; row += tiling_.stateRows) {
            const uint32_t rows = end - row < tiling_.stateRows ? static_cast<uint32_t>(end - row) : tiling_.stateRows;
            LoadRowState(row, rows);
            SumColumnTiles(row, rows, 0, cols_);
            FinishSums(rows);
            ComputeInner(rows);
            for (uint32_t column = 0; column < cols_; column += tiling_.tileCols) {
                SplitRowsDx(chunk, row, rows, column, cols_, row > begin);
            }
            states_.Free();
        }
    }

    // Returns how many rows the state holds from `row` on: some of all rows if they are shared.
    __aicore__ inline uint32_t RowsFrom(uint64_t row) const
    {
        const uint64_t left = tiling_.rows - row;
        return left < tiling_.stateRows ? static_cast<uint32_t>(left) : tiling_.stateRows;
    }

    __aicore__ inline uint32_t PieceEnd(uint64_t piece) const
    {
        const uint64_t end = (piece + 1) * tiling_.pieceCols;
        return end < cols_ ? static_cast<uint32_t>(end) : cols_;
    }

    // Stores the sums of all rows over the columns of pieces to the workspace.
    __aicore__ inline void SumPieces(const CoreShare& share)
    {
        for (uint64_t row = 0; row < tiling_.rows; row += tiling_.stateRows) {
            const uint32_t rows = RowsFrom(row);
            LoadRowState(row, rows);
            for (uint64_t piece = share.begin; piece < share.end; ++piece) {
                SumColumnTiles(row, rows, static_cast<uint32_t>(piece) * tiling_.pieceCols, PieceEnd(piece));
                FinishSums(rows);
                const AscendC::LocalTensor<float> values = pieces_.New();
                BroadcastRows(values, sum_, rows);
                if constexpr (CENTER) {
                    BroadcastRows(values[tiling_.stateRows * FLOATS_PER_BLOCK], outerSum_, rows);
                }
                pieces_.Put(values, row, static_cast<uint32_t>(piece), rows);
            }
            states_.Free();
        }
    }

    // Computes dx and dgamma of the columns of pieces.
    __aicore__ inline void ApplyPieces(const CoreShare& share)
    {
        for (uint64_t row = 0; row < tiling_.rows; row += tiling_.stateRows) {
            const uint32_t rows = RowsFrom(row);
            LoadRowState(row, rows);
            StartSums(rows);
            for (uint32_t r = 0; r < rows; ++r) {
                pieces_.Load(row + r);
                pieces_.Sum(innerBlocks_[r * FLOATS_PER_BLOCK], 0);
                if constexpr (CENTER) {
                    pieces_.Sum(outerBlocks_[r * FLOATS_PER_BLOCK], 1);
                }
                pieces_.Free();
            }
            ReduceRepeats<AddOf>(sum_, innerBlocks_, 1, rows, FLOATS_PER_BLOCK);  // one of 8 equal values
            if constexpr (CENTER) {
                ReduceRepeats<AddOf>(outerSum_, outerBlocks_, 1, rows, FLOATS_PER_BLOCK);
            }
            ComputeInner(rows);
            for (uint64_t piece = share.begin; piece < share.end; ++piece) {
                const uint32_t end = PieceEnd(piece);
                for (uint32_t column = static_cast<uint32_t>(piece) * tiling_.pieceCols; column < end;
                     column += tiling_.tileCols) {
                    SplitRowsDx(0, row, rows, column, end, row > 0);
                }
            }
            states_.Free();
        }
    }

    // Adds the share of columns [begin, end) in the sums of some rows.
    __aicore__ inline void SumColumnTiles(uint64_t row, uint32_t rows, uint32_t begin, uint32_t end)
    {
        StartSums(rows);
        for (uint32_t column = begin; column < end; column += tiling_.tileCols) {
            const RowBlock block = ColumnsAt(tiling_, column, end);
            const AscendC::LocalTensor<float> gamma = LoadColumns(column, block.cols);
            for (uint32_t r = 0; r < rows; ++r) {
                CopyIn((row + r) * cols_ + column, {1, block.cols, tiling_.stride, block.cols});
                AscendC::LocalTensor<T> dyLocal = inQueueDy_.template DeQue<T>();
                AscendC::LocalTensor<T> xLocal = inQueueX_.template DeQue<T>();
                const AscendC::LocalTensor<float> dyFloat = dyFloat_.Take(dyLocal, 0, block.cols);
                Products(dyFloat, xLocal, xhat_, gamma, r, block);
                SumRows(dyFloat, gamma, r, block);
                inQueueDy_.FreeTensor(dyLocal);
                inQueueX_.FreeTensor(xLocal);
            }
            FreeColumns();
        }
    }

    __aicore__ inline void SplitRowsDx(uint32_t chunk, uint64_t row, uint32_t rows, uint32_t column, uint32_t end,
                                       bool continues)
    {
        const RowBlock block = ColumnsAt(tiling_, column, end);
        const Rows shape{1, block.cols, tiling_.stride, block.cols};
        const AscendC::LocalTensor<float> gamma = LoadColumns(column, block.cols);
        BeginChunk(block.cols);
        for (uint32_t r = 0; r < rows; ++r) {
            CopyIn((row + r) * cols_ + column, shape);
            CopyInDresidual((row + r) * cols_ + column, shape);
            AscendC::LocalTensor<T> dyLocal = inQueueDy_.template DeQue<T>();
            AscendC::LocalTensor<T> xLocal = inQueueX_.template DeQue<T>();
            TakeDresidual();
            AscendC::LocalTensor<T> dxLocal = outQueueDx_.template AllocTensor<T>();
            const AscendC::LocalTensor<float> dyFloat = dyFloat_.Take(dyLocal, 0, block.cols);
            Products(dyFloat, xLocal, xhat_, gamma, r, block);
            SumChunkColumns(dyFloat, block);
            ComputeDx(dxLocal, dyFloat, gamma, 0, r, block);
            inQueueDy_.FreeTensor(dyLocal);
            inQueueX_.FreeTensor(xLocal);
            FreeDresidual();
            StoreQueued(outQueueDx_, dxGm_[(row + r) * cols_ + column], dxLocal, shape);
        }
        FreeColumns();
        if (continues) {  // the chunk's earlier rows are in the workspace already: add there, in row order
            AscendC::PipeBarrier<PIPE_MTE3>();
            AscendC::SetAtomicAdd<float>();
        }
        EndChunk(chunk, column, block.cols);
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

    __aicore__ inline void TakeDresidual()
    {
        if constexpr (ADD) {
            dresidualLocal_ = inQueueDresidual_.template DeQue<T>();
        }
    }

    __aicore__ inline void FreeDresidual()
    {
        if constexpr (ADD) {
            inQueueDresidual_.FreeTensor(dresidualLocal_);
        }
    }

    // Computes the statistics of `rows` rows and their gradients.
    __aicore__ inline void LoadRowState(uint64_t row, uint32_t rows)
    {
        states_.Load(STATES, row, rows);
        BroadcastRows(rstdBlocks_, states_.Local(RSTD), rows);
        if constexpr (CENTER) {
            BroadcastRows(centerBlocks_, states_.Local(MEAN), rows);
        }
    }

    __aicore__ inline void StartSums(uint32_t rows)
    {
        StartRows<AddOf>(laneSum_, rows, cols_);
        if constexpr (CENTER) {
            StartRows<AddOf>(outerLaneSum_, rows, cols_);
        }
    }

    // xhat = x * rstd or (x - mean) * rstd, product_ = dy * xhat, for the block whose first row is row r of the state.
    // With a ReLU, dy becomes its product with the derivative.
    __aicore__ inline void Products(const AscendC::LocalTensor<float>& dyFloat, const AscendC::LocalTensor<T>& x,
                                    const AscendC::LocalTensor<float>& xhat,
                                    [[maybe_unused]] const AscendC::LocalTensor<float>& gamma, uint32_t r,
                                    const RowBlock& block)
    {
        AscendC::LocalTensor<float> xFloat = ToFloat(x, xhat, block.Elements());
        // The gaps between rows take part, as they are read below.
        const RowBlock wide{block.rows, block.rows == 1 ? block.cols : block.stride, block.stride};
        if constexpr (CENTER) {
            SubtractRows(xhat, xFloat, centerBlocks_[r * FLOATS_PER_BLOCK], wide);
            xFloat = xhat;
        }
        MultiplyRows(xhat, xFloat, rstdBlocks_[r * FLOATS_PER_BLOCK], wide);
        const int32_t count = static_cast<int32_t>(block.Elements());
        if constexpr (ACTIVATES) {
            if (tiling_.relu != 0) {
                MultiplyColumns(product_, xhat, gamma, block);
                AddColumns(product_, product_, betaLocal_, block);
                Relu::Slope(product_, product_, count);
                AscendC::Mul(dyFloat, dyFloat, product_, count);
            }
        }
        AscendC::Mul(product_, dyFloat, xhat, count);
    }

    // Adds the block's share of dgamma and dbeta. product_ is dy * xhat.
    __aicore__ inline void SumChunkColumns([[maybe_unused]] const AscendC::LocalTensor<float>& dyFloat,
                                           const RowBlock& block)
    {
        SumColumns(dgamma_, product_, block);
        if constexpr (CENTER) {
            SumColumns(dbeta_, dyFloat, block);
        }
    }

    // Adds the block's share of sum(g * xhat) and sum(g). product_ is dy * xhat, and scratch afterwards.
    __aicore__ inline void SumRows([[maybe_unused]] const AscendC::LocalTensor<float>& dyFloat,
                                   const AscendC::LocalTensor<float>& gamma, uint32_t r, const RowBlock& block)
    {
        MultiplyColumns(product_, product_, gamma, block);
        FoldRows<AddOf>(sum_, laneSum_, product_, r, block, cols_);
        if constexpr (CENTER) {
            MultiplyColumns(product_, dyFloat, gamma, block);
            FoldRows<AddOf>(outerSum_, outerLaneSum_, product_, r, block, cols_);
        }
    }

    // Folds the sums to one value a row.
    __aicore__ inline void FinishSums(uint32_t rows)
    {
        FinishRows<AddOf>(sum_, laneSum_, rows, cols_);
        if constexpr (CENTER) {
            FinishRows<AddOf>(outerSum_, outerLaneSum_, rows, cols_);
        }
    }

    // Computes inner and outer of each row, as blocks.
    __aicore__ inline void ComputeInner(uint32_t rows)
    {
        const int32_t rows8 = static_cast<int32_t>(RoundUpToBlock(rows));
        const AscendC::LocalTensor<float> rstd = states_.Local(RSTD);
        const AscendC::LocalTensor<float> drstd = states_.Local(DRSTD);
        AscendC::Mul(drstd, drstd, rstd, rows8);
        AscendC::Add(sum_, sum_, drstd, rows8);
        AscendC::Muls(sum_, sum_, tiling_.inverseCols, rows8);
        BroadcastRows(innerBlocks_, sum_, rows);
        if constexpr (CENTER) {
            AscendC::Mul(outerSum_, outerSum_, rstd, rows8);
            AscendC::Sub(outerSum_, outerSum_, states_.Local(DMEAN), rows8);
            AscendC::Muls(outerSum_, outerSum_, tiling_.inverseCols, rows8);
            BroadcastRows(outerBlocks_, outerSum_, rows);
        }
    }

    // dx = (dy * gamma - xhat * inner) * rstd - outer + dresidual, for the block that begins at element `at` of the
    // tile and at row r of the state. xhat_ and, unless T is float, dyFloat are scratch afterwards.
    __aicore__ inline void ComputeDx(const AscendC::LocalTensor<T>& dx, const AscendC::LocalTensor<float>& dyFloat,
                                     const AscendC::LocalTensor<float>& gamma, uint32_t at, uint32_t r,
                                     const RowBlock& block)
    {
        const uint32_t count = block.Elements();
        const AscendC::LocalTensor<float> result = FloatTarget(dx[at], dyFloat);
        const AscendC::LocalTensor<float> xhat = xhat_[at];
        MultiplyColumns(result, dyFloat, gamma, block);
        MultiplyRows(xhat, xhat, innerBlocks_[r * FLOATS_PER_BLOCK], block);
        AscendC::Sub(result, result, xhat, static_cast<int32_t>(count));
        MultiplyRows(result, result, rstdBlocks_[r * FLOATS_PER_BLOCK], block);
        if constexpr (CENTER) {
            SubtractRows(result, result, outerBlocks_[r * FLOATS_PER_BLOCK], block);
        }
        if constexpr (ADD) {
            AscendC::Add(result, result, ToFloat(dresidualLocal_[at], product_, count), static_cast<int32_t>(count));
        }
        FromFloat(dx[at], result, count);
    }

    __aicore__ inline void BeginChunk(uint32_t count)
    {
        dgamma_ = outQueueDgamma_.template AllocTensor<float>();
        AscendC::Duplicate(dgamma_, 0.0f, static_cast<int32_t>(count));
        if constexpr (CENTER) {
            dbeta_ = outQueueDbeta_.template AllocTensor<float>();
            AscendC::Duplicate(dbeta_, 0.0f, static_cast<int32_t>(count));
        }
    }

    __aicore__ inline void EndChunk(uint32_t chunk, uint32_t column, uint32_t count)
    {
        StoreChunk(outQueueDgamma_, dgamma_, chunk, column, count);
        if constexpr (CENTER) {
            StoreChunk(outQueueDbeta_, dbeta_, tiling_.chunks + chunk, column, count);
        }
    }

    __aicore__ inline void StoreChunk(AscendC::TQue<AscendC::TPosition::VECOUT, 1>& queue,
                                      AscendC::LocalTensor<float>& sums, uint32_t chunk, uint32_t column,
                                      uint32_t count)
    {
        StoreQueued(queue, chunkGm_[static_cast<uint64_t>(chunk) * tiling_.chunkStride + column], sums,
                    {1, count, tiling_.stride, count});
    }

    RowNormGradTilingData tiling_;
    uint32_t cols_ = 0;
    ColumnVector<G> gamma_;
    ColumnVector<G> beta_;
    AscendC::LocalTensor<float> betaLocal_;
    RowStates states_;
    PieceValues<SUMS> pieces_;
    AscendC::GlobalTensor<T> dyGm_;
    AscendC::GlobalTensor<T> xGm_;
    AscendC::GlobalTensor<T> dresidualGm_;
    AscendC::GlobalTensor<T> dxGm_;
    AscendC::GlobalTensor<float> chunkGm_;  // dgamma of each chunk, then dbeta of each chunk
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueueDy_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueueX_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueueDresidual_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> outQueueDx_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> outQueueDgamma_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> outQueueDbeta_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> xhatBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> productBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> laneSumBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> outerLaneSumBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> sumBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> centerBlockBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> rstdBlockBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> innerBlockBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> outerBlockBuf_;
    AscendC::LocalTensor<T> dresidualLocal_;
    FloatCopies<T> dyFloat_;
    AscendC::LocalTensor<float> xhat_;
    AscendC::LocalTensor<float> product_;
    AscendC::LocalTensor<float> dgamma_;
    AscendC::LocalTensor<float> dbeta_;
    AscendC::LocalTensor<float> laneSum_;       // of g * xhat
    AscendC::LocalTensor<float> outerLaneSum_;  // of g
    AscendC::LocalTensor<float> sum_;           // a value a row
    AscendC::LocalTensor<float> outerSum_;
    AscendC::LocalTensor<float> centerBlocks_;
    AscendC::LocalTensor<float> rstdBlocks_;
    AscendC::LocalTensor<float> innerBlocks_;
    AscendC::LocalTensor<float> outerBlocks_;
};

template <typename T, typename G, bool CENTER, bool ADD>
__aicore__ inline void RunNormBackward(const NormGradTensors& tensors, const RowNormGradTilingData& tiling)
{
    AscendC::TPipe pipe;
    {
        NormBackward<T, G, CENTER, ADD> kernel;
        kernel.Init(tensors, tiling, pipe);
        kernel.Process();
    }
    AscendC::SyncAll();
    pipe.Reset();
    SumChunks<G, RowNormGradTilingData> sum;
    sum.Init(tiling, pipe);
    sum.Process(tensors.dgamma, tensors.workspace);
    if constexpr (CENTER) {
        const uint64_t dgammaBytes = static_cast<uint64_t>(tiling.chunks) * tiling.chunkStride * sizeof(float);
        sum.Process(tensors.dbeta, tensors.workspace + dgammaBytes);
    }
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_NORM_BACKWARD_H
