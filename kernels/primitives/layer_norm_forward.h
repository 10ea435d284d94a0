/*!
 * Computes LayerNorm over rows, y = (x - mean) * rstd * gamma + beta with rstd = 1 / sqrt(var + epsilon), of x or of x
 * = x1 + x2; without an addition also the ReLU of that.
 *
 * The variance neither cancels nor takes a pass of its own. A row is shifted by k, the mean of its first columns (the
 * probe, a sixteenth of them), and c = x - k and c^2 are summed: mean = k + d with d = sum(c) / n, and var =
 * sum(c^2) / n - d^2. A part of p of the values lies at most std * sqrt(1 / p - 1) from the mean of all, so d^2 is at
 * most 1 / p - 1 times var: whatever the values, the subtraction costs at most log2(1 / p) bits. y is (c - d) * rstd,
 * so it is accurate even where float cannot hold the mean to more than the values' deviation.
 *
 * Plan: as primitives/rms_forward.h; c stays in the Unified Buffer. Rows longer than a tile are read twice. Pieces
 * of a shared row (row_pieces.h) have a shift each, and their means and squares from these are combined as Chan, Golub
 * and LeVeque do.
 * Bound: memory (inputs once, outputs once) as long as a row fits the Unified Buffer.
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_LAYER_NORM_FORWARD_H
#define MS_ASCEND_OPS_PRIMITIVES_LAYER_NORM_FORWARD_H

#include "kernel_operator.h"
#include "primitives/row_norm.h"
#include "primitives/row_norm_tiling.h"
#include "primitives/row_pieces.h"

namespace ms_ascend_ops {

// With ADD the input is x1 + x2, which goes to `sum`; without it x2 and sum are null.
template <typename T, typename G, bool ADD>
class LayerNormForward {
public:
    __aicore__ inline void Init(GM_ADDR x1, GM_ADDR x2, GM_ADDR gamma, GM_ADDR beta, GM_ADDR y, GM_ADDR mean,
                                GM_ADDR rstd, GM_ADDR sum, GM_ADDR workspace, const RowNormTilingData& tiling,
                                AscendC::TPipe& pipe)
    {
        tiling_ = tiling;
        pipe_ = &pipe;
        cols_ = tiling.cols;
        rowBegin_ = tiling.rowsPerCore * AscendC::GetBlockIdx();
        rowEnd_ = rowBegin_ + tiling.rowsPerCore < tiling.rows ? rowBegin_ + tiling.rowsPerCore : tiling.rows;
        yGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(y), tiling.rows * cols_);
        meanGm_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(mean), tiling.rows);
        rstdGm_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(rstd), tiling.rows);

        const uint32_t rows8 = RoundUpToBlock(tiling.tileRows);
        input_.Init(x1, x2, sum, tiling, pipe);
        gamma_.Init(gamma, cols_, tiling.stride, pipe);
        beta_.Init(beta, cols_, tiling.stride, pipe);
        pipe.InitBuffer(outQueueY_, tiling.outBuffers, tiling.tileRows * tiling.stride * sizeof(T));
        pipe.InitBuffer(outQueueMean_, 1, rows8 * sizeof(float));
        pipe.InitBuffer(outQueueRstd_, 1, rows8 * sizeof(float));
        pipe.InitBuffer(squareBuf_, tiling.stepRows * tiling.stride * sizeof(float));
        pipe.InitBuffer(laneSumBuf_, (2 * tiling.tileRows + 2) * FLOAT_LANES * sizeof(float));
        pipe.InitBuffer(stateBuf_, 4 * rows8 * sizeof(float));
        pipe.InitBuffer(blockBuf_, 3 * rows8 * AscendC::ONE_BLK_SIZE);
        if (tiling.pieces != 0) {
            pieces_.Init(workspace, tiling, 1, 1, pipe);
        }
        square_ = squareBuf_.template Get<float>();
        laneSum_ = laneSumBuf_.template Get<float>();
        laneSquare_ = laneSum_[tiling.tileRows * FLOAT_LANES];
        totalLanes_ = laneSum_[2 * tiling.tileRows * FLOAT_LANES];
        const AscendC::LocalTensor<float> state = stateBuf_.template Get<float>();
        shift_ = state;
        delta_ = state[rows8];
        variance_ = state[2 * rows8];
        ones_ = state[3 * rows8];
        shiftBlocks_ = blockBuf_.template Get<float>();
        deltaBlocks_ = shiftBlocks_[rows8 * FLOATS_PER_BLOCK];
        rstdBlocks_ = shiftBlocks_[2 * rows8 * FLOATS_PER_BLOCK];
        AscendC::Duplicate(ones_, 1.0f, static_cast<int32_t>(rows8));
        AscendC::Duplicate(state, 0.0f, static_cast<int32_t>(3 * rows8));  // sums, of which whole blocks are read
    }

    __aicore__ inline void Process()
    {
        if (tiling_.pieces != 0) {
            RunPieces(*this, tiling_, *pipe_);
            return;
        }
        if (rowBegin_ >= rowEnd_) {
            return;
        }
        if (tiling_.tileCols == cols_) {
            ProcessWholeRows();
        } else {
            ProcessSplitRows();
        }
    }

    // Sums up pieces: the shift, the sum of what is left, and that of its squares.
    __aicore__ inline void SumPieces(uint64_t begin, uint64_t end)
    {
        constexpr int32_t BLOCK = static_cast<int32_t>(FLOATS_PER_BLOCK);
        for (uint64_t index = begin; index < end; ++index) {
            const RowPiece piece = PieceAt(tiling_, index);
            SumColumnTiles(piece);
            FinishSums(delta_, laneSum_, 1, cols_, 1.0f);
            FinishSums(variance_, laneSquare_, 1, cols_, 1.0f);
            BroadcastRows(deltaBlocks_, delta_, 1);
            BroadcastRows(rstdBlocks_, variance_, 1);
            const AscendC::LocalTensor<float> values = pieces_.New();
            AscendC::Muls(values[SHIFT * FLOATS_PER_BLOCK], shiftBlocks_, 1.0f, BLOCK);
            AscendC::Muls(values[DELTA * FLOATS_PER_BLOCK], deltaBlocks_, 1.0f, BLOCK);
            AscendC::Muls(values[SQUARE * FLOATS_PER_BLOCK], rstdBlocks_, 1.0f, BLOCK);
            pieces_.Put(values, piece.row, piece.piece);
        }
    }

    __aicore__ inline void ApplyPieces(uint64_t begin, uint64_t end)
    {
        for (uint64_t index = begin; index < end; ++index) {
            const RowPiece piece = PieceAt(tiling_, index);
            if (index == begin || piece.piece == 0) {
                CombinePieces(piece.row);
                ComputeStatistics(piece.row, 1, piece.piece == 0);
            }
            for (uint32_t column = piece.begin; column < piece.end; column += tiling_.tileCols) {
                NormalizeColumns(piece.row, column, piece.end);
            }
        }
    }

private:
    static constexpr uint32_t SHIFT = 0;  // values of a piece
    static constexpr uint32_t DELTA = 1;
    static constexpr uint32_t SQUARE = 2;

    __aicore__ inline void ProcessWholeRows()
    {
        const AscendC::LocalTensor<float> gamma = gamma_.Load(0, cols_);
        const AscendC::LocalTensor<float> beta = beta_.Load(0, cols_);
        for (uint64_t row = rowBegin_; row < rowEnd_; row += tiling_.tileRows) {
            const uint64_t left = rowEnd_ - row;
            const uint32_t rows = left < tiling_.tileRows ? static_cast<uint32_t>(left) : tiling_.tileRows;
            const Rows shape{rows, cols_, tiling_.stride, cols_};
            input_.Begin(row * cols_, shape, true);
            StartRows<AddOf>(laneSum_, rows, tiling_.probe);
            for (uint32_t r = 0; r < rows; r += tiling_.stepRows) {
                RowBlock block = BlockAt(tiling_, r, rows);
                block.cols = tiling_.probe;
                Probe(r * tiling_.stride, r, block);
            }
            ComputeShift(rows, tiling_.inverseProbe);
            StartRows<AddOf>(laneSum_, rows, cols_);
            StartRows<AddOf>(laneSquare_, rows, cols_);
            AscendC::LocalTensor<T> yLocal = outQueueY_.template AllocTensor<T>();
            for (uint32_t r = 0; r < rows; r += tiling_.stepRows) {
                const RowBlock block = BlockAt(tiling_, r, rows);
                const uint32_t at = r * tiling_.stride;
                const AscendC::LocalTensor<float> x = input_.Take(at, block.Elements(), square_);
                const AscendC::LocalTensor<float> shifted = Shifted(yLocal[at], x);
                // The gaps between rows take part, as they are read below.
                const RowBlock wide{block.rows, block.rows == 1 ? block.cols : block.stride, block.stride};
                SubtractRows(shifted, x, shiftBlocks_[r * FLOATS_PER_BLOCK], wide);
                AscendC::Mul(square_, shifted, shifted, static_cast<int32_t>(block.Elements()));
                FoldRows<AddOf>(delta_, laneSum_, shifted, r, block, cols_);
                FoldRows<AddOf>(variance_, laneSquare_, square_, r, block, cols_);
            }
            FinishStatistics(rows);
            ComputeStatistics(row, rows, true);
            for (uint32_t r = 0; r < rows; r += tiling_.stepRows) {
                const uint32_t at = r * tiling_.stride;
                Normalize(yLocal[at], Shifted(yLocal[at], input_.Taken(at)), r, gamma, beta, BlockAt(tiling_, r, rows));
            }
            input_.End(row * cols_, shape);
            StoreQueued(outQueueY_, yGm_[row * cols_], yLocal, shape);
        }
        gamma_.Free();
        beta_.Free();
    }

    __aicore__ inline void ProcessSplitRows()
    {
        for (uint64_t row = rowBegin_; row < rowEnd_; ++row) {
            SumColumnTiles({row, 0, 0, cols_});
            FinishStatistics(1);
            ComputeStatistics(row, 1, true);
            for (uint32_t column = 0; column < cols_; column += tiling_.tileCols) {
                NormalizeColumns(row, column, cols_);
            }
        }
    }

    // Lane sums of c and c^2 over a row that does not fit, or over a piece; its shift is the mean of the first tile.
    __aicore__ inline void SumColumnTiles(const RowPiece& piece)
    {
        const uint64_t offset = piece.row * cols_;
        const RowBlock first = ColumnsAt(tiling_, piece.begin, piece.end);
        const Rows firstShape{1, first.cols, tiling_.stride, first.cols};
        StartRows<AddOf>(laneSum_, 1, tiling_.probe);
        input_.Begin(offset + piece.begin, firstShape, false);
        Probe(0, 0, first);
        input_.End(offset + piece.begin, firstShape);
        ComputeShift(1, first.cols == tiling_.probe ? tiling_.inverseProbe : 1.0f / static_cast<float>(first.cols));
        StartRows<AddOf>(laneSum_, 1, cols_);
        StartRows<AddOf>(laneSquare_, 1, cols_);
        ClearLanes(totalLanes_, 2);
        for (uint32_t column = piece.begin; column < piece.end; column += tiling_.tileCols) {
            const RowBlock block = ColumnsAt(tiling_, column, piece.end);
            const Rows shape{1, block.cols, tiling_.stride, block.cols};
            input_.Begin(offset + column, shape, false);
            const AscendC::LocalTensor<float> x = input_.Take(0, block.cols, square_);
            SubtractRows(square_, x, shiftBlocks_, block);
            ClearLanes(laneSum_, 2);  // and laneSquare_
            SumLanes(laneSum_, square_, block);
            AscendC::Mul(square_, square_, square_, static_cast<int32_t>(block.cols));
            SumLanes(laneSquare_, square_, block);
            AscendC::Add(totalLanes_, totalLanes_, laneSum_, static_cast<int32_t>(2 * FLOAT_LANES));
            input_.End(offset + column, shape);
        }
        AscendC::Adds(laneSum_, totalLanes_, 0.0f, static_cast<int32_t>(2 * FLOAT_LANES));
    }

    // Computes k, d and the variance of a row. With the pieces' lengths n_p, first k that of the first piece, r_p = k_p
    // + s1_p / n_p - k: d = sum(n_p * r_p) / n, var = sum(s2_p - s1_p^2 / n_p + n_p * (r_p - d)^2) / n.
    __aicore__ inline void CombinePieces(uint64_t row)
    {
        pieces_.Load(row);
        const RowBlock block = pieces_.Block();
        const int32_t count = static_cast<int32_t>(block.Elements());
        const int32_t blockCount = static_cast<int32_t>(FLOATS_PER_BLOCK);
        const float full = static_cast<float>(tiling_.pieceCols);
        const float last = static_cast<float>(cols_ - (tiling_.pieces - 1) * tiling_.pieceCols);
        const AscendC::LocalTensor<float> mean = pieces_.Of(SHIFT);
        const AscendC::LocalTensor<float> work = pieces_.Of(DELTA);
        const AscendC::LocalTensor<float> square = pieces_.Of(SQUARE);
        AscendC::Muls(shift_, mean, 1.0f, blockCount);
        WithColumns<SubOf>(mean, mean, shift_, block);
        pieces_.Scale(DELTA, 1.0f / full, 1.0f / last);
        AscendC::Add(mean, mean, work, count);
        AscendC::Mul(work, work, work, count);
        pieces_.Scale(DELTA, full, last);
        AscendC::Sub(square, square, work, count);
        MeanOfPieces(delta_, full, last);
        // If the first piece is far from the mean of all, d is far from precise, too; the remaining distance is small.
        MeanOfPieces(rstdBlocks_, full, last);
        AscendC::Add(delta_, delta_, rstdBlocks_, blockCount);
        AscendC::Mul(mean, mean, mean, count);
        pieces_.Scale(SHIFT, full, last);
        AscendC::Add(square, square, mean, count);
        pieces_.Sum(variance_, SQUARE);
        AscendC::Muls(variance_, variance_, tiling_.inverseCols, blockCount);
        pieces_.Free();
        // The mean of all is nearer to most values than that of the first piece: it becomes k, and its error becomes d.
        AscendC::Add(shiftBlocks_, shift_, delta_, blockCount);
        AscendC::Sub(shift_, shift_, shiftBlocks_, blockCount);
        AscendC::Add(delta_, delta_, shift_, blockCount);
        AscendC::Muls(shift_, shiftBlocks_, 1.0f, blockCount);
    }

    // dst = the mean of value SHIFT over all columns, which is subtracted from it; DELTA is scratch.
    __aicore__ inline void MeanOfPieces(const AscendC::LocalTensor<float>& dst, float full, float last)
    {
        const RowBlock block = pieces_.Block();
        const AscendC::LocalTensor<float> mean = pieces_.Of(SHIFT);
        AscendC::Muls(pieces_.Of(DELTA), mean, 1.0f, static_cast<int32_t>(block.Elements()));
        pieces_.Scale(DELTA, full, last);
        pieces_.Sum(dst, DELTA);
        AscendC::Muls(dst, dst, tiling_.inverseCols, static_cast<int32_t>(FLOATS_PER_BLOCK));
        WithColumns<SubOf>(mean, mean, dst, block);
    }

    __aicore__ inline void NormalizeColumns(uint64_t row, uint32_t column, uint32_t end)
    {
        const RowBlock block = ColumnsAt(tiling_, column, end);
        const Rows shape{1, block.cols, tiling_.stride, block.cols};
        const AscendC::LocalTensor<float> gamma = gamma_.Load(column, block.cols);
        const AscendC::LocalTensor<float> beta = beta_.Load(column, block.cols);
        input_.Begin(row * cols_ + column, shape, true);
        const AscendC::LocalTensor<float> x = input_.Take(0, block.cols, square_);
        AscendC::LocalTensor<T> yLocal = outQueueY_.template AllocTensor<T>();
        const AscendC::LocalTensor<float> shifted = Shifted(yLocal, x);
        SubtractRows(shifted, x, shiftBlocks_, block);
        Normalize(yLocal, shifted, 0, gamma, beta, block);
        input_.End(row * cols_ + column, shape);
        gamma_.Free();
        beta_.Free();
        StoreQueued(outQueueY_, yGm_[row * cols_ + column], yLocal, shape);
    }

    // Returns where c = x - k is kept: in y's place, or in x's float copy.
    __aicore__ inline AscendC::LocalTensor<float> Shifted([[maybe_unused]] const AscendC::LocalTensor<T>& y,
                                                          [[maybe_unused]] const AscendC::LocalTensor<float>& x) const
    {
        if constexpr (IS_FLOAT<T>) {
            return y;
        } else {
            return x;
        }
    }

    __aicore__ inline void ClearLanes(const AscendC::LocalTensor<float>& lanes, uint32_t rows)
    {
        AscendC::Duplicate(lanes, 0.0f, static_cast<int32_t>(rows * FLOAT_LANES));
    }

    // Sums the probe of a block's rows, the first of which is row r.
    __aicore__ inline void Probe(uint32_t at, uint32_t r, const RowBlock& block)
    {
        FoldRows<AddOf>(shift_, laneSum_, input_.Take(at, block.Elements(), square_), r, block, tiling_.probe);
    }

    // dst = the sums times `factor`.
    __aicore__ inline void FinishSums(const AscendC::LocalTensor<float>& dst, const AscendC::LocalTensor<float>& lanes,
                                      uint32_t rows, uint32_t cols, float factor)
    {
        FinishRows<AddOf>(dst, lanes, rows, cols);
        AscendC::Muls(dst, dst, factor, static_cast<int32_t>(RoundUpToBlock(rows)));
    }

    __aicore__ inline void ComputeShift(uint32_t rows, float factor)
    {
        FinishSums(shift_, laneSum_, rows, tiling_.probe, factor);
        BroadcastRows(shiftBlocks_, shift_, rows);
    }

    // Computes d and the variance of the tile's rows.
    __aicore__ inline void FinishStatistics(uint32_t rows)
    {
        const int32_t rows8 = static_cast<int32_t>(RoundUpToBlock(rows));
        FinishSums(delta_, laneSum_, rows, cols_, tiling_.inverseCols);
        FinishSums(variance_, laneSquare_, rows, cols_, tiling_.inverseCols);
        AscendC::Mul(rstdBlocks_, delta_, delta_, rows8);
        AscendC::Sub(variance_, variance_, rstdBlocks_, rows8);
    }

    // mean and rstd of the tile's rows from these, with `store` to global memory.
    __aicore__ inline void ComputeStatistics(uint64_t row, uint32_t rows, bool store)
    {
        const int32_t rows8 = static_cast<int32_t>(RoundUpToBlock(rows));
        BroadcastRows(deltaBlocks_, delta_, rows);
        AscendC::LocalTensor<float> meanLocal = outQueueMean_.template AllocTensor<float>();
        AscendC::LocalTensor<float> rstdLocal = outQueueRstd_.template AllocTensor<float>();
        AscendC::Abs(variance_, variance_, rows8);  // rounding may leave a variance of 0 below 0
        AscendC::Adds(variance_, variance_, tiling_.epsilon, rows8);
        AscendC::Sqrt(variance_, variance_, rows8);
        AscendC::Div(rstdLocal, ones_, variance_, rows8);
        AscendC::Add(meanLocal, shift_, delta_, rows8);
        BroadcastRows(rstdBlocks_, rstdLocal, rows);
        const Rows shape{1, rows, static_cast<uint32_t>(rows8), rows};
        outQueueMean_.EnQue(meanLocal);
        outQueueRstd_.EnQue(rstdLocal);
        meanLocal = outQueueMean_.template DeQue<float>();
        rstdLocal = outQueueRstd_.template DeQue<float>();
        if (store) {
            StoreRows(meanGm_[row], meanLocal, shape);
            StoreRows(rstdGm_[row], rstdLocal, shape);
        }
        outQueueMean_.FreeTensor(meanLocal);
        outQueueRstd_.FreeTensor(rstdLocal);
    }

    // Computes y = (c - d) * rstd * gamma + beta, or its ReLU, on a block of rows, the first of which is row r.
    __aicore__ inline void Normalize(const AscendC::LocalTensor<T>& y, const AscendC::LocalTensor<float>& shifted,
                                     uint32_t r, const AscendC::LocalTensor<float>& gamma,
                                     const AscendC::LocalTensor<float>& beta, const RowBlock& block)
    {
        SubtractRows(shifted, shifted, deltaBlocks_[r * FLOATS_PER_BLOCK], block);
        MultiplyRows(shifted, shifted, rstdBlocks_[r * FLOATS_PER_BLOCK], block);
        MultiplyColumns(shifted, shifted, gamma, block);
        AddColumns(shifted, shifted, beta, block);
        if constexpr (!ADD) {
            if (tiling_.relu != 0) {
                AscendC::Relu(shifted, shifted, static_cast<int32_t>(block.Elements()));
            }
        }
        FromFloat(y, shifted, block.Elements());
    }

    RowNormTilingData tiling_;
    AscendC::TPipe* pipe_ = nullptr;
    uint32_t cols_ = 0;
    uint64_t rowBegin_ = 0;
    uint64_t rowEnd_ = 0;
    NormInput<T, ADD> input_;
    ColumnVector<G> gamma_;
    ColumnVector<G> beta_;
    PieceValues<3> pieces_;
    AscendC::GlobalTensor<T> yGm_;
    AscendC::GlobalTensor<float> meanGm_;
    AscendC::GlobalTensor<float> rstdGm_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> outQueueY_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> outQueueMean_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> outQueueRstd_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> squareBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> laneSumBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> stateBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> blockBuf_;
    AscendC::LocalTensor<float> square_;
    AscendC::LocalTensor<float> laneSum_;     // 64 partial sums a row, of c
    AscendC::LocalTensor<float> laneSquare_;  // and of c^2
    AscendC::LocalTensor<float> totalLanes_;  // of both, over the column tiles of a row: short sums stay accurate
    AscendC::LocalTensor<float> shift_;       // k
    AscendC::LocalTensor<float> delta_;       // d
    AscendC::LocalTensor<float> variance_;
    AscendC::LocalTensor<float> ones_;
    AscendC::LocalTensor<float> shiftBlocks_;  // blocks of 8 equal values a row
    AscendC::LocalTensor<float> deltaBlocks_;
    AscendC::LocalTensor<float> rstdBlocks_;
};

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_LAYER_NORM_FORWARD_H
