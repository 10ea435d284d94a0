/*!
 * Computes the softmax of contiguous rows in float, exp(z - max(z)) / sum(exp(z - max(z))), where LOGITS makes z of x.
 *
 * A row's maximum is at least the lowest float, not -inf, so that z - max is -inf and not NaN where a whole row is
 * -inf. Its sum is then 0: `floor`, the least sum, turns its outputs into zeros if it is positive; otherwise 0 * inf
 * makes them NaN. Other sums are at least 1.
 *
 * A few long rows are shared by the cores piece by piece (row_pieces.h): first the maximum and the sum of each piece,
 * then, with those of the row, y.
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_SOFTMAX_ROWS_H
#define MS_ASCEND_OPS_PRIMITIVES_SOFTMAX_ROWS_H

#include "kernel_operator.h"
#include "primitives/row_pieces.h"
#include "primitives/row_values.h"
#include "primitives/tile.h"

namespace ms_ascend_ops {

// z = x. LOGITS classes have these members; Apply is for the rows from `r` on of the tile that CopyIn was called for.
struct PlainLogits {
    static constexpr bool CHANGES = false;
    __aicore__ inline uint64_t RowsFrom(uint64_t) const { return ~uint64_t{0}; }
    __aicore__ inline void CopyIn(uint64_t, uint32_t, const Rows&) {}
    __aicore__ inline void Take() {}
    __aicore__ inline void Apply(const AscendC::LocalTensor<float>&, const AscendC::LocalTensor<float>&, uint32_t,
                                 const RowBlock&)
    {}
    __aicore__ inline void Free() {}
};

template <typename T, class LOGITS, class TILING>
class SoftmaxRows {
public:
    __aicore__ inline void Init(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, const TILING& tiling, float floor,
                                AscendC::TPipe& pipe)
    {
        tiling_ = tiling;
        pipe_ = &pipe;
        floor_ = floor;
        cols_ = tiling.cols;
        rowBegin_ = tiling.rowsPerCore * AscendC::GetBlockIdx();
        rowEnd_ = rowBegin_ + tiling.rowsPerCore < tiling.rows ? rowBegin_ + tiling.rowsPerCore : tiling.rows;
        xGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(x), tiling.rows * cols_);
        yGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(y), tiling.rows * cols_);
        const uint32_t elements = tiling.tileRows * tiling.stride;
        pipe.InitBuffer(inQueueX_, 2, elements * sizeof(T));
        pipe.InitBuffer(outQueueY_, 2, elements * sizeof(T));
        rows_.Init(tiling.tileRows, pipe);
        if (tiling.pieces != 0) {
            pieces_.Init(workspace, tiling, 1, 1, pipe);
        }
        pipe.InitBuffer(shiftBuf_, 3 * AscendC::ONE_BLK_SIZE + FLOAT_LANES * sizeof(float));
        shift_ = shiftBuf_.template Get<float>();
        if constexpr (!IS_FLOAT<T>) {
            pipe.InitBuffer(floatBuf_, elements * sizeof(float));
            float_ = floatBuf_.template Get<float>();
        }
    }

    __aicore__ inline void Process(LOGITS& logits)
    {
        if (tiling_.pieces != 0) {
            logits_ = &logits;
            RunPieces(*this, tiling_, *pipe_);
            return;
        }
        for (uint64_t row = rowBegin_; row < rowEnd_;) {
            const uint64_t left = rowEnd_ - row;
            const uint64_t alike = logits.RowsFrom(row);
            const uint64_t most = alike < left ? alike : left;
            const uint32_t rows = most < tiling_.tileRows ? static_cast<uint32_t>(most) : tiling_.tileRows;
            if (tiling_.tileCols == cols_) {
                WholeRows(logits, row, rows);
            } else {
                SplitRow(logits, row);
            }
            row += rows;
        }
    }

    // Computes maximum and sum of pieces.
    __aicore__ inline void SumPieces(uint64_t begin, uint64_t end)
    {
        if (begin == end) {
            return;
        }
        AscendC::LocalTensor<T> yLocal = outQueueY_.template AllocTensor<T>();
        for (uint64_t index = begin; index < end; ++index) {
            const RowPiece piece = PieceAt(tiling_, index);
            const AscendC::LocalTensor<float> maximum = Accumulate(*logits_, piece, yLocal);
            const AscendC::LocalTensor<float> values = pieces_.New();
            rows_.Sums(1, cols_);
            rows_.Spread(1);
            AscendC::Muls(values, maximum, 1.0f, static_cast<int32_t>(FLOATS_PER_BLOCK));
            AscendC::Muls(values[FLOATS_PER_BLOCK], rows_.blocks, 1.0f, static_cast<int32_t>(FLOATS_PER_BLOCK));
            pieces_.Put(values, piece.row, piece.piece);
        }
        outQueueY_.FreeTensor(yLocal);
    }

    __aicore__ inline void ApplyPieces(uint64_t begin, uint64_t end)
    {
        for (uint64_t index = begin; index < end; ++index) {
            const RowPiece piece = PieceAt(tiling_, index);
            if (index == begin || piece.piece == 0) {
                pieces_.Load(piece.row);
                pieces_.SumExponentials(shift_, rows_.blocks);
                pieces_.Free();
                AscendC::Maxs(rows_.blocks, rows_.blocks, floor_, static_cast<int32_t>(FLOATS_PER_BLOCK));
                rows_.InvertBlock();
            }
            Apply(*logits_, piece, shift_, outQueueY_.template AllocTensor<T>());
        }
    }

private:
    __aicore__ inline void WholeRows(LOGITS& logits, uint64_t row, uint32_t rows)
    {
        const Rows shape{rows, cols_, tiling_.stride, cols_};
        CopyIn(logits, row, 0, shape);
        const AscendC::LocalTensor<T> xLocal = Take(logits);
        AscendC::LocalTensor<T> yLocal = outQueueY_.template AllocTensor<T>();
        const AscendC::LocalTensor<float> work = Work(yLocal);
        rows_.template Start<MaxOf>(rows, cols_);
        for (uint32_t r = 0; r < rows; r += tiling_.stepRows) {
            const RowBlock block = BlockAt(r, rows);
            rows_.template Fold<MaxOf>(Logits(logits, work, xLocal, r, block), r, block, cols_);
        }
        rows_.Maxima(rows, cols_);
        rows_.Spread(rows);
        rows_.template Start<AddOf>(rows, cols_);
        for (uint32_t r = 0; r < rows; r += tiling_.stepRows) {
            const RowBlock block = BlockAt(r, rows);
            const AscendC::LocalTensor<float> part = work[r * tiling_.stride];
            Exponentials(part, Source(work, xLocal, r), rows_.blocks[r * FLOATS_PER_BLOCK], block);
            rows_.template Fold<AddOf>(part, r, block, cols_);
        }
        Free(logits, xLocal);
        FinishSums(rows);
        for (uint32_t r = 0; r < rows; r += tiling_.stepRows) {
            const RowBlock block = BlockAt(r, rows);
            const uint32_t at = r * tiling_.stride;
            WithRows<MulOf>(work[at], work[at], rows_.blocks[r * FLOATS_PER_BLOCK], block);
            FromFloat(yLocal[at], work[at], block.Elements());
        }
        StoreQueued(outQueueY_, yGm_[row * cols_], yLocal, shape);
    }

    // A row that does not fit is read twice.
    __aicore__ inline void SplitRow(LOGITS& logits, uint64_t row)
    {
        const AscendC::LocalTensor<T> yLocal = outQueueY_.template AllocTensor<T>();
        const RowPiece whole{row, 0, 0, cols_};
        const AscendC::LocalTensor<float> maximum = Accumulate(logits, whole, yLocal);
        FinishSums(1);
        Apply(logits, whole, maximum, yLocal);
    }

    // The maximum and the sum so far go from tile to tile of a row or piece: returns the one as a block, leaves the
    // other in the lanes. `yLocal` is scratch.
    __aicore__ inline AscendC::LocalTensor<float> Accumulate(LOGITS& logits, const RowPiece& piece,
                                                             const AscendC::LocalTensor<T>& yLocal)
    {
        AscendC::LocalTensor<float> before = shift_;
        AscendC::LocalTensor<float> now = shift_[FLOATS_PER_BLOCK];
        const AscendC::LocalTensor<float> factor = shift_[2 * FLOATS_PER_BLOCK];
        AscendC::Duplicate(before, LOWEST_FLOAT, static_cast<int32_t>(FLOATS_PER_BLOCK));
        rows_.template Start<AddOf>(1, cols_);
        for (uint32_t column = piece.begin; column < piece.end; column += tiling_.tileCols) {
            const Rows shape = ColumnsAt(column, piece.end);
            const RowBlock block{1, shape.cols, tiling_.stride};
            CopyIn(logits, piece.row, column, shape);
            const AscendC::LocalTensor<T> xLocal = Take(logits);
            const AscendC::LocalTensor<float> work = Work(yLocal);
            Maximum(now, before, Logits(logits, work, xLocal, 0, block), block);
            AscendC::Sub(before, before, now, static_cast<int32_t>(FLOATS_PER_BLOCK));
            AscendC::Exp(factor, before, static_cast<int32_t>(FLOATS_PER_BLOCK));
            MulOf::Counter(rows_.lanes, rows_.lanes, factor, FLOAT_LANES, {1, 1, 0, 8, 8, 0});
            Exponentials(work, Source(work, xLocal, 0), now, block);
            rows_.template Fold<AddOf>(work, 0, block, cols_);
            Free(logits, xLocal);
            const AscendC::LocalTensor<float> other = before;
            before = now;
            now = other;
        }
        return before;
    }

    // Computes y of a row or piece, from `maximum` and the inverse of the sum in rows_.blocks. `yLocal` is that of the
    // first tile.
    __aicore__ inline void Apply(LOGITS& logits, const RowPiece& piece, const AscendC::LocalTensor<float>& maximum,
                                 AscendC::LocalTensor<T> yLocal)
    {
        for (uint32_t column = piece.begin; column < piece.end; column += tiling_.tileCols) {
            const Rows shape = ColumnsAt(column, piece.end);
            const RowBlock block{1, shape.cols, tiling_.stride};
            CopyIn(logits, piece.row, column, shape);
            const AscendC::LocalTensor<T> xLocal = Take(logits);
            if (column > piece.begin) {
                yLocal = outQueueY_.template AllocTensor<T>();
            }
            const AscendC::LocalTensor<float> work = Work(yLocal);
            Exponentials(work, Logits(logits, work, xLocal, 0, block), maximum, block);
            Free(logits, xLocal);
            WithRows<MulOf>(work, work, rows_.blocks, block);
            FromFloat(yLocal, work, shape.cols);
            StoreQueued(outQueueY_, yGm_[piece.row * cols_ + column], yLocal, shape);
        }
    }

    __aicore__ inline void CopyIn(LOGITS& logits, uint64_t row, uint32_t column, const Rows& shape)
    {
        AscendC::LocalTensor<T> xLocal = inQueueX_.template AllocTensor<T>();
        LoadRows(xLocal, xGm_[row * cols_ + column], shape, shape.rows > 1);
        inQueueX_.EnQue(xLocal);
        logits.CopyIn(row, column, shape);
    }

    __aicore__ inline AscendC::LocalTensor<T> Take(LOGITS& logits)
    {
        logits.Take();
        return inQueueX_.template DeQue<T>();
    }

    __aicore__ inline void Free(LOGITS& logits, AscendC::LocalTensor<T> xLocal)
    {
        inQueueX_.FreeTensor(xLocal);
        logits.Free();
    }

    __aicore__ inline AscendC::LocalTensor<float> Work(const AscendC::LocalTensor<T>& yLocal)
    {
        if constexpr (IS_FLOAT<T>) {
            return yLocal;
        } else {
            return float_;
        }
    }

    // z of the rows from r on: x itself, or made in `work`.
    __aicore__ inline AscendC::LocalTensor<float> Logits(LOGITS& logits, const AscendC::LocalTensor<float>& work,
                                                         const AscendC::LocalTensor<T>& xLocal, uint32_t r,
                                                         const RowBlock& block)
    {
        const uint32_t at = r * tiling_.stride;
        const AscendC::LocalTensor<float> x = ToFloat(xLocal[at], work[at], block.Elements());
        if constexpr (LOGITS::CHANGES) {
            logits.Apply(work[at], x, r, block);
            return work[at];
        } else {
            return x;
        }
    }

    // Returns the same rows, once Logits has been called.
    __aicore__ inline AscendC::LocalTensor<float> Source(const AscendC::LocalTensor<float>& work,
                                                         const AscendC::LocalTensor<T>& xLocal, uint32_t r)
    {
        if constexpr (IS_FLOAT<T> && !LOGITS::CHANGES) {
            return xLocal[r * tiling_.stride];
        } else {
            return work[r * tiling_.stride];
        }
    }

    // now = the larger of `before` and the maximum of z; all three are blocks of 8 equal values.
    __aicore__ inline void Maximum(const AscendC::LocalTensor<float>& now, const AscendC::LocalTensor<float>& before,
                                   const AscendC::LocalTensor<float>& z, const RowBlock& block)
    {
        const AscendC::LocalTensor<float> lanes = shift_[3 * FLOATS_PER_BLOCK];
        AscendC::Duplicate(lanes, LOWEST_FLOAT, static_cast<int32_t>(FLOAT_LANES));
        FoldLanes<MaxOf>(lanes, z, block);
        ReduceRepeats<MaxOf>(rows_.values, lanes, FLOAT_LANES, 1, FLOAT_LANES);
        rows_.Spread(1);
        AscendC::Max(now, before, rows_.blocks, static_cast<int32_t>(FLOATS_PER_BLOCK));
    }

    // Padding between rows takes part: it holds numbers, and Exp can go over it.
    __aicore__ inline void Exponentials(const AscendC::LocalTensor<float>& dst, const AscendC::LocalTensor<float>& z,
                                        const AscendC::LocalTensor<float>& maxima, const RowBlock& block)
    {
        const RowBlock padded{block.rows, block.rows == 1 ? block.cols : block.stride, block.stride};
        WithRows<SubOf>(dst, z, maxima, padded);
        AscendC::Exp(dst, dst, static_cast<int32_t>(padded.Elements()));
    }

    __aicore__ inline void FinishSums(uint32_t rows)
    {
        rows_.Sums(rows, cols_);
        AscendC::Maxs(rows_.values, rows_.values, floor_, static_cast<int32_t>(rows));
        rows_.Invert(rows);
        rows_.Spread(rows);
    }

    __aicore__ inline RowBlock BlockAt(uint32_t r, uint32_t rows) const
    {
        const uint32_t left = rows - r;
        return {left < tiling_.stepRows ? left : tiling_.stepRows, cols_, tiling_.stride};
    }

    __aicore__ inline Rows ColumnsAt(uint32_t column, uint32_t end) const
    {
        const uint32_t left = end - column;
        const uint32_t cols = left < tiling_.tileCols ? left : tiling_.tileCols;
        return {1, cols, tiling_.stride, cols};
    }

    TILING tiling_;
    AscendC::TPipe* pipe_ = nullptr;
    LOGITS* logits_ = nullptr;  // of RunPieces
    float floor_ = 0.0f;
    uint32_t cols_ = 0;
    uint64_t rowBegin_ = 0;
    uint64_t rowEnd_ = 0;
    AscendC::GlobalTensor<T> xGm_;
    AscendC::GlobalTensor<T> yGm_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueueX_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> outQueueY_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> floatBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> shiftBuf_;
    RowValues rows_;
    PieceValues<2> pieces_;
    AscendC::LocalTensor<float> float_;  // for 16-bit T
    AscendC::LocalTensor<float> shift_;
};

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_SOFTMAX_ROWS_H
