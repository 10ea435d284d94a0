/*!
 * Computes RMSNorm over the last axis, y = x * rstd * gamma with rstd = 1 / sqrt(mean(x^2) + epsilon), of x or of x =
 * x1 + x2. All sums are in float.
 *
 * Plan: a core owns consecutive rows and takes them tile by tile; inputs and outputs are double-buffered. Squares of
 * more than 128 columns are folded to 64 lanes a row by accumulating adds; WholeReduceSum finishes all rows of the
 * tile; rstd comes from Sqrt and Div and is spread over a block a row (Brcb), so no scalar ever leaves the vector unit.
 * gamma is loaded once per core. Rows longer than a tile are read twice, column tile by column tile, and shared by the
 * cores if they are few (row_pieces.h).
 * Bound: memory (inputs once, outputs once) as long as a row fits the Unified Buffer.
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_RMS_FORWARD_H
#define MS_ASCEND_OPS_PRIMITIVES_RMS_FORWARD_H

#include "kernel_operator.h"
#include "primitives/row_norm.h"
#include "primitives/row_norm_tiling.h"
#include "primitives/row_pieces.h"

namespace ms_ascend_ops {

// With ADD the input is x1 + x2, which goes to `sum`; without it x2 and sum are null.
template <typename T, typename G, bool ADD>
class RmsForward {
public:
    __aicore__ inline void Init(GM_ADDR x1, GM_ADDR x2, GM_ADDR gamma, GM_ADDR y, GM_ADDR rstd, GM_ADDR sum,
                                GM_ADDR workspace, const RowNormTilingData& tiling, AscendC::TPipe& pipe)
    {
        tiling_ = tiling;
        pipe_ = &pipe;
        cols_ = tiling.cols;
        rowBegin_ = tiling.rowsPerCore * AscendC::GetBlockIdx();
        rowEnd_ = rowBegin_ + tiling.rowsPerCore < tiling.rows ? rowBegin_ + tiling.rowsPerCore : tiling.rows;
        yGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(y), tiling.rows * cols_);
        rstdGm_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(rstd), tiling.rows);

        const uint32_t rows8 = RoundUpToBlock(tiling.tileRows);
        input_.Init(x1, x2, sum, tiling, pipe);
        gamma_.Init(gamma, cols_, tiling.stride, pipe);
        pipe.InitBuffer(outQueueY_, tiling.outBuffers, tiling.tileRows * tiling.stride * sizeof(T));
        pipe.InitBuffer(outQueueRstd_, 2, rows8 * sizeof(float));
        pipe.InitBuffer(squareBuf_, tiling.stepRows * tiling.stride * sizeof(float));
        pipe.InitBuffer(laneSumBuf_, tiling.tileRows * FLOAT_LANES * sizeof(float));
        pipe.InitBuffer(sumBuf_, rows8 * sizeof(float));
        pipe.InitBuffer(onesBuf_, rows8 * sizeof(float));
        pipe.InitBuffer(rstdBlockBuf_, rows8 * AscendC::ONE_BLK_SIZE);
        if (tiling.pieces != 0) {
            pieces_.Init(workspace, tiling, 1, 1, pipe);
        }
        square_ = squareBuf_.template Get<float>();
        laneSum_ = laneSumBuf_.template Get<float>();
        sum_ = sumBuf_.template Get<float>();
        ones_ = onesBuf_.template Get<float>();
        rstdBlocks_ = rstdBlockBuf_.template Get<float>();
        AscendC::Duplicate(ones_, 1.0f, static_cast<int32_t>(rows8));
        AscendC::Duplicate(sum_, 0.0f, static_cast<int32_t>(rows8));  // Brcb reads whole blocks
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

    // Sums of the squares of pieces.
    __aicore__ inline void SumPieces(uint64_t begin, uint64_t end)
    {
        for (uint64_t index = begin; index < end; ++index) {
            const RowPiece piece = PieceAt(tiling_, index);
            SumColumnTiles(piece);
            FinishRows<AddOf>(sum_, laneSum_, 1, cols_);
            BroadcastRows(rstdBlocks_, sum_, 1);
            const AscendC::LocalTensor<float> values = pieces_.New();
            AscendC::Muls(values, rstdBlocks_, 1.0f, static_cast<int32_t>(FLOATS_PER_BLOCK));
            pieces_.Put(values, piece.row, piece.piece);
        }
    }

    __aicore__ inline void ApplyPieces(uint64_t begin, uint64_t end)
    {
        for (uint64_t index = begin; index < end; ++index) {
            const RowPiece piece = PieceAt(tiling_, index);
            if (index == begin || piece.piece == 0) {
                pieces_.Load(piece.row);
                pieces_.Sum(sum_, 0);
                pieces_.Free();
                ComputeRstd(piece.row, 1, piece.piece == 0);
            }
            NormalizeColumnTiles(piece);
        }
    }

private:
    __aicore__ inline void ProcessWholeRows()
    {
        const AscendC::LocalTensor<float> gamma = gamma_.Load(0, cols_, tiling_.onePlusGamma != 0);
        for (uint64_t row = rowBegin_; row < rowEnd_; row += tiling_.tileRows) {
            const uint64_t left = rowEnd_ - row;
            const uint32_t rows = left < tiling_.tileRows ? static_cast<uint32_t>(left) : tiling_.tileRows;
            const Rows shape{rows, cols_, tiling_.stride, cols_};
            input_.Begin(row * cols_, shape, true);
            StartRows<AddOf>(laneSum_, rows, cols_);
            for (uint32_t r = 0; r < rows; r += tiling_.stepRows) {
                SumSquares(r * tiling_.stride, r, BlockAt(tiling_, r, rows));
            }
            FinishRows<AddOf>(sum_, laneSum_, rows, cols_);
            ComputeRstd(row, rows, true);
            AscendC::LocalTensor<T> yLocal = outQueueY_.template AllocTensor<T>();
            for (uint32_t r = 0; r < rows; r += tiling_.stepRows) {
                const uint32_t at = r * tiling_.stride;
                Normalize(yLocal[at], input_.Taken(at), rstdBlocks_[r * FLOATS_PER_BLOCK], gamma,
                          BlockAt(tiling_, r, rows));
            }
            input_.End(row * cols_, shape);
            StoreQueued(outQueueY_, yGm_[row * cols_], yLocal, shape);
        }
        gamma_.Free();
    }

    __aicore__ inline void ProcessSplitRows()
    {
        for (uint64_t row = rowBegin_; row < rowEnd_; ++row) {
            SumColumnTiles({row, 0, 0, cols_});
            FinishRows<AddOf>(sum_, laneSum_, 1, cols_);
            ComputeRstd(row, 1, true);
            NormalizeColumnTiles({row, 0, 0, cols_});
        }
    }

    __aicore__ inline void SumColumnTiles(const RowPiece& piece)
    {
        StartRows<AddOf>(laneSum_, 1, cols_);
        for (uint32_t column = piece.begin; column < piece.end; column += tiling_.tileCols) {
            const RowBlock block = ColumnsAt(tiling_, column, piece.end);
            const Rows shape{1, block.cols, tiling_.stride, block.cols};
            input_.Begin(piece.row * cols_ + column, shape, false);
            SumSquares(0, 0, block);
            input_.End(piece.row * cols_ + column, shape);
        }
    }

    __aicore__ inline void NormalizeColumnTiles(const RowPiece& piece)
    {
        for (uint32_t column = piece.begin; column < piece.end; column += tiling_.tileCols) {
            const RowBlock block = ColumnsAt(tiling_, column, piece.end);
            const Rows shape{1, block.cols, tiling_.stride, block.cols};
            const uint64_t offset = piece.row * cols_ + column;
            const AscendC::LocalTensor<float> gamma = gamma_.Load(column, block.cols, tiling_.onePlusGamma != 0);
            input_.Begin(offset, shape, true);
            AscendC::LocalTensor<T> yLocal = outQueueY_.template AllocTensor<T>();
            Normalize(yLocal, input_.Take(0, block.cols, square_), rstdBlocks_, gamma, block);
            input_.End(offset, shape);
            gamma_.Free();
            StoreQueued(outQueueY_, yGm_[offset], yLocal, shape);
        }
    }

    // Adds the squares of a block, the first of whose rows is row r, to the sums of its rows.
    __aicore__ inline void SumSquares(uint32_t at, uint32_t r, const RowBlock& block)
    {
        const uint32_t count = block.Elements();
        const AscendC::LocalTensor<float> x = input_.Take(at, count, square_);
        AscendC::Mul(square_, x, x, static_cast<int32_t>(count));
        FoldRows<AddOf>(sum_, laneSum_, square_, r, block, cols_);
    }

    // rstd of the tile's rows from their sums, into rstdBlocks_ and, with `store`, to global memory.
    __aicore__ inline void ComputeRstd(uint64_t row, uint32_t rows, bool store)
    {
        const int32_t rows8 = static_cast<int32_t>(RoundUpToBlock(rows));
        AscendC::Muls(sum_, sum_, tiling_.inverseCols, rows8);
        AscendC::Adds(sum_, sum_, tiling_.epsilon, rows8);
        AscendC::Sqrt(sum_, sum_, rows8);
        AscendC::LocalTensor<float> rstdLocal = outQueueRstd_.template AllocTensor<float>();
        AscendC::Div(rstdLocal, ones_, sum_, rows8);
        BroadcastRows(rstdBlocks_, rstdLocal, rows);
        outQueueRstd_.EnQue(rstdLocal);
        rstdLocal = outQueueRstd_.template DeQue<float>();
        if (store) {
            StoreRows(rstdGm_[row], rstdLocal, {1, rows, static_cast<uint32_t>(rows8), rows});
        }
        outQueueRstd_.FreeTensor(rstdLocal);
    }

    // Computes y = x * rstd * gamma on a block of rows. x of a 16-bit T is scratch afterwards.
    __aicore__ inline void Normalize(const AscendC::LocalTensor<T>& y, const AscendC::LocalTensor<float>& x,
                                     const AscendC::LocalTensor<float>& rstdBlocks,
                                     const AscendC::LocalTensor<float>& gamma, const RowBlock& block)
    {
        if constexpr (IS_FLOAT<T>) {
            MultiplyRows(y, x, rstdBlocks, block);
            MultiplyColumns(y, y, gamma, block);
        } else {
            MultiplyRows(x, x, rstdBlocks, block);
            if (tiling_.onePlusGamma == 0) {  // the "round_then_scale" scheme rounds x * rstd to T
                FromFloat(y, x, block.Elements());
                AscendC::Cast(x, y, AscendC::RoundMode::CAST_NONE, block.Elements());
            }
            MultiplyColumns(x, x, gamma, block);
            FromFloat(y, x, block.Elements());
        }
    }

    RowNormTilingData tiling_;
    AscendC::TPipe* pipe_ = nullptr;
    uint32_t cols_ = 0;
    uint64_t rowBegin_ = 0;
    uint64_t rowEnd_ = 0;
    NormInput<T, ADD> input_;
    ColumnVector<G> gamma_;
    PieceValues<1> pieces_;
    AscendC::GlobalTensor<T> yGm_;
    AscendC::GlobalTensor<float> rstdGm_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> outQueueY_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> outQueueRstd_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> squareBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> laneSumBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> sumBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> onesBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> rstdBlockBuf_;
    AscendC::LocalTensor<float> square_;
    AscendC::LocalTensor<float> laneSum_;  // 64 partial sums a row
    AscendC::LocalTensor<float> sum_;
    AscendC::LocalTensor<float> ones_;
    AscendC::LocalTensor<float> rstdBlocks_;  // a block of 8 equal values a row
};

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_RMS_FORWARD_H
