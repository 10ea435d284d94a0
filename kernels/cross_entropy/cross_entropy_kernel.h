/*!
 * Computes cross entropy with class indices in float: lse = log(sum(exp(logits))), loss = lse - logits[label]; rows
 * whose label is ignoreIndex have no loss. The maximum is subtracted before the two meet, so that large logits leave a
 * small loss its bits.
 *
 * Plan: short rows are packed several to a tile, and a Gather fetches the labels' x - max, an element a row. Most of
 * those of less than 64 classes are transposed there: maxima and sums go down columns, where every lane has its own
 * row. Long rows go by in tiles of columns once: maximum and sum are corrected from tile to tile, the label's logit is
 * loaded by itself, and logarithms are taken for a batch of rows. The softmax itself is never computed. Pieces of a few
 * long rows are shared by the cores (row_pieces.h); the core that owns a row combines their maxima and sums.
 * Bound: memory (logits once), as long as 32 Exp a cycle keep up with it.
 */
#ifndef MS_ASCEND_OPS_CROSS_ENTROPY_KERNEL_H
#define MS_ASCEND_OPS_CROSS_ENTROPY_KERNEL_H

#include "cross_entropy_tiling.h"
#include "kernel_operator.h"
#include "label_rows.h"
#include "primitives/columns.h"
#include "primitives/row_pieces.h"
#include "primitives/row_values.h"
#include "primitives/tile.h"

namespace ms_ascend_ops {

template <typename T>
class CrossEntropyForward {
public:
    __aicore__ inline void Init(GM_ADDR logits, GM_ADDR labels, GM_ADDR loss, GM_ADDR lse, GM_ADDR workspace,
                                const CrossEntropyTilingData& tiling, AscendC::TPipe& pipe)
    {
        tiling_ = tiling;
        cols_ = tiling.cols;
        rowBegin_ = tiling.rowsPerCore * AscendC::GetBlockIdx();
        rowEnd_ = rowBegin_ + tiling.rowsPerCore < tiling.rows ? rowBegin_ + tiling.rowsPerCore : tiling.rows;
        logitsGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(logits), tiling.rows * cols_);
        lossGm_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(loss), tiling.rows);
        lseGm_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(lse), tiling.rows);
        const uint32_t rows8 = LabelRows::RoundUp8(tiling.batchRows);
        const uint32_t elements = tiling.packed != 0 ? tiling.batchRows * tiling.stride : tiling.tileCols;
        pipe.InitBuffer(outQueueLoss_, 1, rows8 * sizeof(float));
        pipe.InitBuffer(outQueueLse_, 1, rows8 * sizeof(float));
        labels_.Init(labels, tiling, pipe);
        if (tiling.columnRows != 0) {
            InitColumns(pipe);
            return;
        }
        pipe.InitBuffer(inQueue_, 2, elements * sizeof(T));
        pipe.InitBuffer(workBuf_, elements * sizeof(float));
        work_ = workBuf_.template Get<float>();
        if constexpr (!IS_FLOAT<T>) {
            pipe.InitBuffer(floatBuf_, elements * sizeof(float));
            float_ = floatBuf_.template Get<float>();
        }
        rows_.Init(tiling.batchRows, pipe);
        if (tiling.packed != 0) {
            narrow_ = tiling.cols <= FLOAT_LANES;
            workStride_ = narrow_ ? LabelRows::RoundUp8(tiling.cols) : tiling.stride;
            labels_.InitChoice(tiling.batchRows, workStride_ * sizeof(float), pipe);
            if (narrow_) {  // Exp goes over the gaps between rows
                AscendC::Duplicate(work_, 0.0f, static_cast<int32_t>(elements));
            }
        } else {
            pipe.InitBuffer(inQueueChosen_, 1, tiling.batchRows * AscendC::ONE_BLK_SIZE);
            pipe.InitBuffer(chosenBuf_, tiling.batchRows * PER_BLOCK * sizeof(float));
            pipe.InitBuffer(maximaBuf_,
                            (tiling.batchRows + 3) * AscendC::ONE_BLK_SIZE + 2 * FLOAT_LANES * sizeof(float));
            maxima_ = maximaBuf_.template Get<float>();
            if (tiling.pieces != 0) {
                pieces_.Init(workspace, tiling, tiling.batchRows, 1, pipe);
            }
        }
    }

    __aicore__ inline void Process()
    {
        if (tiling_.pieces != 0) {
            SumPieces(ShareOf(tiling_.rows * tiling_.pieces, tiling_.piecesPerCore));
            AscendC::SyncAll();
        }
        for (uint64_t row = rowBegin_; row < rowEnd_; row += tiling_.batchRows) {
            const uint64_t left = rowEnd_ - row;
            const uint32_t rows = left < tiling_.batchRows ? static_cast<uint32_t>(left) : tiling_.batchRows;
            labels_.Load(row, rows);
            AscendC::LocalTensor<float> loss = outQueueLoss_.template AllocTensor<float>();
            AscendC::LocalTensor<float> lse = outQueueLse_.template AllocTensor<float>();
            if (tiling_.columnRows != 0) {
                TransposedRows(loss, lse, row, rows);
            } else if (tiling_.packed != 0) {
                PackedRows(loss, lse, row, rows);
            } else {
                LongRows(loss, lse, row, rows);
            }
            labels_.Refuse(loss, rows);
            labels_.Keep(loss, rows);
            labels_.Free();
            const Rows values{1, rows, LabelRows::RoundUp8(rows), rows};
            StoreQueued(outQueueLoss_, lossGm_[row], loss, values);
            StoreQueued(outQueueLse_, lseGm_[row], lse, values);
        }
    }

private:
    static constexpr uint32_t PER_BLOCK = AscendC::ONE_BLK_SIZE / sizeof(T);

    __aicore__ inline void PackedRows(const AscendC::LocalTensor<float>& loss, const AscendC::LocalTensor<float>& lse,
                                      uint64_t row, uint32_t rows)
    {
        const int32_t count = static_cast<int32_t>(rows);
        const RowBlock block{rows, cols_, workStride_};
        AscendC::LocalTensor<T> local = inQueue_.template AllocTensor<T>();
        LoadRows(local, logitsGm_[row * cols_], {rows, cols_, tiling_.stride, cols_}, !narrow_);
        inQueue_.EnQue(local);
        local = inQueue_.template DeQue<T>();
        const AscendC::LocalTensor<float> x =
            narrow_ ? NarrowToFloat(local, rows) : ToFloat(local, float_, rows * tiling_.stride);
        rows_.template Start<MaxOf>(rows, cols_);
        rows_.template Fold<MaxOf>(x, 0, block, cols_);
        rows_.Maxima(rows, cols_);
        rows_.Spread(rows);
        AscendC::Muls(lse, rows_.values, 1.0f, count);
        WithRows<SubOf>(work_, x, rows_.blocks, {rows, narrow_ ? cols_ : workStride_, workStride_});
        inQueue_.FreeTensor(local);
        labels_.Choose(loss, work_, rows);
        AscendC::Exp(work_, work_, static_cast<int32_t>(rows * workStride_));
        rows_.template Start<AddOf>(rows, cols_);
        rows_.template Fold<AddOf>(work_, 0, block, cols_);
        rows_.Sums(rows, cols_);
        AscendC::Ln(rows_.values, rows_.values, count);
        AscendC::Add(lse, lse, rows_.values, count);
        AscendC::Sub(loss, rows_.values, loss, count);
    }

    // Returns rows of one repeat in float, as close as blocks allow.
    __aicore__ inline AscendC::LocalTensor<float> NarrowToFloat(const AscendC::LocalTensor<T>& local, uint32_t rows)
    {
        if constexpr (IS_FLOAT<T>) {
            return local;
        } else {
            AscendC::Cast(float_, local, AscendC::RoundMode::CAST_NONE, static_cast<uint64_t>(cols_),
                          static_cast<uint8_t>(rows),
                          {1, 1, static_cast<uint8_t>(workStride_ / FLOATS_PER_BLOCK),
                           static_cast<uint8_t>(tiling_.stride / PER_BLOCK)});
            return float_;
        }
    }

    __aicore__ inline void InitColumns(AscendC::TPipe& pipe)
    {
        const uint32_t rows16 = WholeGroups(tiling_.batchRows);
        const uint32_t elements = tiling_.stride * tiling_.columnRows;
        pipe.InitBuffer(inQueue_, 2, rows16 * tiling_.stride * sizeof(T));
        pipe.InitBuffer(columnBuf_, elements * sizeof(T));
        pipe.InitBuffer(maximaBuf_, 2 * rows16 * sizeof(float));
        columns_ = columnBuf_.template Get<T>();
        if constexpr (!IS_FLOAT<T>) {
            pipe.InitBuffer(workBuf_, elements * sizeof(float));
            work_ = workBuf_.template Get<float>();
        }
        maxima_ = maximaBuf_.template Get<float>();
        labels_.InitChoice(tiling_.batchRows, tiling_.stride * sizeof(T), pipe);
    }

    static __aicore__ inline uint32_t WholeGroups(uint32_t rows)
    {
        return (rows + TRANSPOSED_ROWS - 1) / TRANSPOSED_ROWS * TRANSPOSED_ROWS;
    }

    // Returns column c of the transposed rows in float: x, then exp(x - max).
    __aicore__ inline AscendC::LocalTensor<float> Column(uint32_t c) const
    {
        if constexpr (IS_FLOAT<T>) {
            return columns_[c * tiling_.columnRows];
        } else {
            return work_[c * tiling_.columnRows];
        }
    }

    __aicore__ inline void TransposedRows(const AscendC::LocalTensor<float>& loss,
                                          const AscendC::LocalTensor<float>& lse, uint64_t row, uint32_t rows)
    {
        const int32_t count = static_cast<int32_t>(rows);
        const uint32_t rows16 = WholeGroups(rows);
        const AscendC::LocalTensor<float> sums = maxima_[WholeGroups(tiling_.batchRows)];
        AscendC::LocalTensor<T> local = inQueue_.template AllocTensor<T>();
        LoadRows(local, logitsGm_[row * cols_], {rows, cols_, tiling_.stride, cols_}, true);
        inQueue_.EnQue(local);
        local = inQueue_.template DeQue<T>();
        if (rows < rows16) {  // as many rows as are transposed together
            AscendC::Duplicate(local[rows * tiling_.stride], T{},
                               static_cast<int32_t>((rows16 - rows) * tiling_.stride));
        }
        TransposeRows(columns_, local, rows16, cols_, tiling_.stride, tiling_.columnRows);
        if constexpr (IS_FLOAT<T>) {
            labels_.Choose(loss, local, rows);
        } else {
            const AscendC::LocalTensor<T> chosen = sums.template ReinterpretCast<T>();
            labels_.Choose(chosen, local, rows);
            AscendC::Cast(loss, chosen, AscendC::RoundMode::CAST_NONE, rows);
        }
        inQueue_.FreeTensor(local);
        for (uint32_t c = 0; c < cols_; ++c) {
            if constexpr (!IS_FLOAT<T>) {
                AscendC::Cast(Column(c), columns_[c * tiling_.columnRows], AscendC::RoundMode::CAST_NONE, rows);
            }
            if (c == 0) {
                AscendC::Maxs(maxima_, Column(c), LOWEST_FLOAT, count);
            } else {
                AscendC::Max(maxima_, maxima_, Column(c), count);
            }
        }
        for (uint32_t c = 0; c < cols_; ++c) {
            AscendC::Sub(Column(c), Column(c), maxima_, count);
            AscendC::Exp(Column(c), Column(c), count);
            if (c == 0) {
                AscendC::Muls(sums, Column(c), 1.0f, count);
            } else {
                AscendC::Add(sums, sums, Column(c), count);
            }
        }
        AscendC::Ln(sums, sums, count);
        AscendC::Sub(loss, loss, maxima_, count);
        AscendC::Sub(loss, sums, loss, count);
        AscendC::Add(lse, sums, maxima_, count);
    }

    __aicore__ inline void LongRows(const AscendC::LocalTensor<float>& loss, const AscendC::LocalTensor<float>& lse,
                                    uint64_t row, uint32_t rows)
    {
        const int32_t count = static_cast<int32_t>(rows);
        if (tiling_.pieces != 0) {
            CombinePieces(row, rows);
        } else {
            for (uint32_t r = 0; r < rows; ++r) {
                LongRow(row + r, 0, cols_);
                AscendC::Muls(rows_.lanes[r * FLOAT_LANES], Lanes(), 1.0f, static_cast<int32_t>(FLOAT_LANES));
                AscendC::Muls(maxima_[r * FLOATS_PER_BLOCK], RunningMaximum(), 1.0f,
                              static_cast<int32_t>(FLOATS_PER_BLOCK));
            }
            rows_.Sums(rows, cols_);
        }
        AscendC::Ln(lse, rows_.values, count);
        // Takes one of the 8 equal maxima of each row; then the label's logits, one a block.
        AscendC::WholeReduceMax(rows_.values, maxima_, static_cast<int32_t>(FLOATS_PER_BLOCK), count, 1, 1, 1,
                                AscendC::ReduceOrder::ORDER_ONLY_VALUE);
        ChosenLogits(loss, row, rows);
        AscendC::Sub(loss, loss, rows_.values, count);
        AscendC::Sub(loss, lse, loss, count);
        AscendC::Add(lse, lse, rows_.values, count);
    }

    __aicore__ inline void SumPieces(const CoreShare& share)
    {
        for (uint64_t index = share.begin; index < share.end; ++index) {
            const RowPiece piece = PieceAt(tiling_, index);
            LongRow(piece.row, piece.begin, piece.end);
            const AscendC::LocalTensor<float> values = pieces_.New();
            ReduceRepeats<AddOf>(rows_.values, Lanes(), FLOAT_LANES, 1, FLOAT_LANES);
            rows_.Spread(1);
            AscendC::Muls(values, RunningMaximum(), 1.0f, static_cast<int32_t>(FLOATS_PER_BLOCK));
            AscendC::Muls(values[FLOATS_PER_BLOCK], rows_.blocks, 1.0f, static_cast<int32_t>(FLOATS_PER_BLOCK));
            pieces_.Put(values, piece.row, piece.piece);
        }
    }

    // Computes the rows' maxima, a block each, and sums.
    __aicore__ inline void CombinePieces(uint64_t row, uint32_t rows)
    {
        pieces_.Load(row, rows);
        for (uint32_t r = 0; r < rows; ++r) {
            pieces_.SumExponentials(maxima_[r * FLOATS_PER_BLOCK], rows_.blocks[r * FLOATS_PER_BLOCK], r);
        }
        pieces_.Free();
        ReduceRepeats<AddOf>(rows_.values, rows_.blocks, 1, rows, FLOATS_PER_BLOCK);  // one of 8 equal values
    }

    // Sets dst to the logits of the labels of some rows, loaded one a block. Labels, which are scalars, are read some
    // at a time.
    __aicore__ inline void ChosenLogits(const AscendC::LocalTensor<float>& dst, uint64_t row, uint32_t rows)
    {
        uint64_t places[LabelRows::PLACES];
        AscendC::LocalTensor<T> slots = inQueueChosen_.template AllocTensor<T>();
        for (uint32_t done = 0; done < rows; done += LabelRows::PLACES) {
            const uint32_t count = rows - done < LabelRows::PLACES ? rows - done : LabelRows::PLACES;
            labels_.Places(places, row + done, count);
            for (uint32_t r = 0; r < count; ++r) {
                LoadRows(slots[(done + r) * PER_BLOCK], logitsGm_[places[r]], {1, 1, PER_BLOCK, 1}, true);
            }
        }
        inQueueChosen_.EnQue(slots);
        slots = inQueueChosen_.template DeQue<T>();
        const AscendC::LocalTensor<float> wide = ToFloat(slots, chosenBuf_.template Get<float>(), rows * PER_BLOCK);
        AscendC::WholeReduceSum(dst, wide, 1, static_cast<int32_t>(rows), 1, 1,
                                static_cast<int32_t>(PER_BLOCK / FLOATS_PER_BLOCK));
        inQueueChosen_.FreeTensor(slots);
    }

    // Maximum and sums of a long row are here until it is done; the place does not depend on the row.
    __aicore__ inline AscendC::LocalTensor<float> RunningMaximum() const
    {
        return maxima_[tiling_.batchRows * FLOATS_PER_BLOCK];
    }

    __aicore__ inline AscendC::LocalTensor<float> Lanes() const
    {
        return maxima_[(tiling_.batchRows + 3) * FLOATS_PER_BLOCK];
    }

    // Maximum and sums of columns [begin, end) of a row, from tile to tile.
    __aicore__ inline void LongRow(uint64_t row, uint32_t begin, uint32_t end)
    {
        const AscendC::LocalTensor<float> maximum = RunningMaximum();
        const AscendC::LocalTensor<float> factor = maximum[FLOATS_PER_BLOCK];
        const AscendC::LocalTensor<float> single = maximum[2 * FLOATS_PER_BLOCK];
        const AscendC::LocalTensor<float> lanes = Lanes();
        const AscendC::LocalTensor<float> maxLanes = lanes[FLOAT_LANES];
        const int32_t blockCount = static_cast<int32_t>(FLOATS_PER_BLOCK);
        AscendC::Duplicate(maximum, LOWEST_FLOAT, blockCount);
        AscendC::Duplicate(single, LOWEST_FLOAT, blockCount);
        AscendC::Duplicate(lanes, 0.0f, static_cast<int32_t>(FLOAT_LANES));
        AscendC::Duplicate(maxLanes, LOWEST_FLOAT, static_cast<int32_t>(FLOAT_LANES));
        for (uint32_t column = begin; column < end; column += tiling_.tileCols) {
            const uint32_t left = end - column;
            const RowBlock block{1, left < tiling_.tileCols ? left : tiling_.tileCols, tiling_.tileCols};
            AscendC::LocalTensor<T> local = inQueue_.template AllocTensor<T>();
            LoadRows(local, logitsGm_[row * cols_ + column], {1, block.cols, tiling_.tileCols, block.cols});
            inQueue_.EnQue(local);
            local = inQueue_.template DeQue<T>();
            const AscendC::LocalTensor<float> x = ToFloat(local, float_, block.cols);
            FoldLanes<MaxOf>(maxLanes, x, block);
            ReduceRepeats<MaxOf>(single, maxLanes, FLOAT_LANES, 1, FLOAT_LANES);
            BroadcastRows(rows_.blocks, single, 1);
            if (column > begin) {
                AscendC::Sub(factor, maximum, rows_.blocks, blockCount);
                AscendC::Exp(factor, factor, blockCount);
                MulOf::Counter(lanes, lanes, factor, FLOAT_LANES, {1, 1, 0, 8, 8, 0});
            }
            AscendC::Maxs(maximum, rows_.blocks, LOWEST_FLOAT, blockCount);
            WithRows<SubOf>(work_, x, rows_.blocks, block);
            AscendC::Exp(work_, work_, static_cast<int32_t>(block.cols));
            FoldLanes<AddOf>(lanes, work_, block);
            inQueue_.FreeTensor(local);
        }
    }

    CrossEntropyTilingData tiling_;
    uint32_t cols_ = 0;
    bool narrow_ = false;      // short rows of one repeat: nothing reads their padding, which needs no number then
    uint32_t workStride_ = 0;  // from a short row to the next in float
    uint64_t rowBegin_ = 0;
    uint64_t rowEnd_ = 0;
    AscendC::GlobalTensor<T> logitsGm_;
    AscendC::GlobalTensor<float> lossGm_;
    AscendC::GlobalTensor<float> lseGm_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueue_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueueChosen_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> outQueueLoss_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> outQueueLse_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> columnBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> workBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> floatBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> chosenBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> maximaBuf_;
    RowValues rows_;
    PieceValues<2> pieces_;
    LabelRows labels_;
    AscendC::LocalTensor<T> columns_;  // of transposed rows
    AscendC::LocalTensor<float> work_;
    AscendC::LocalTensor<float> float_;  // logits in float, for 16-bit T
    // Long rows have a block each, then scratch; transposed rows then have their sums.
    AscendC::LocalTensor<float> maxima_;
};

template <typename T>
__aicore__ inline void CrossEntropyKernel(GM_ADDR logits, GM_ADDR labels, GM_ADDR loss, GM_ADDR lse, GM_ADDR workspace,
                                          const CrossEntropyTilingData& tiling)
{
    AscendC::TPipe pipe;
    CrossEntropyForward<T> kernel;
    kernel.Init(logits, labels, loss, lse, workspace, tiling, pipe);
    kernel.Process();
}

}  // namespace ms_ascend_ops

#include "cross_entropy_grad_kernel.h"

#endif  // MS_ASCEND_OPS_CROSS_ENTROPY_KERNEL_H
