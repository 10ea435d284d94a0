/*!
 * Computes the gradient of cross entropy in float: dlogits = (exp(logits - lse) - onehot(label)) * dloss, and 0 for
 * ignored rows.
 *
 * Plan: the forward's, but in one pass, since lse is known. In long rows the labels' elements of some rows are loaded
 * by themselves, calculated all at once, and stored over what the rows' own stores have left there: where a label
 * stands changes addresses in global memory and no instruction. Pieces of a few long rows are shared by the cores; the
 * labels' elements are stored when all of them are there.
 * Bound: memory (logits once, dlogits once).
 */
#ifndef MS_ASCEND_OPS_CROSS_ENTROPY_GRAD_KERNEL_H
#define MS_ASCEND_OPS_CROSS_ENTROPY_GRAD_KERNEL_H

#include "cross_entropy_tiling.h"
#include "kernel_operator.h"
#include "label_rows.h"
#include "primitives/row_pieces.h"
#include "primitives/tile.h"

namespace ms_ascend_ops {

template <typename T>
class CrossEntropyBackward {
public:
    __aicore__ inline void Init(GM_ADDR dloss, GM_ADDR logits, GM_ADDR labels, GM_ADDR lse, GM_ADDR dlogits,
                                const CrossEntropyTilingData& tiling, AscendC::TPipe& pipe)
    {
        tiling_ = tiling;
        cols_ = tiling.cols;
        rowBegin_ = tiling.rowsPerCore * AscendC::GetBlockIdx();
        rowEnd_ = rowBegin_ + tiling.rowsPerCore < tiling.rows ? rowBegin_ + tiling.rowsPerCore : tiling.rows;
        dlossGm_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(dloss), tiling.rows);
        lseGm_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(lse), tiling.rows);
        logitsGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(logits), tiling.rows * cols_);
        dlogitsGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(dlogits), tiling.rows * cols_);
        const uint32_t rows8 = LabelRows::RoundUp8(tiling.batchRows);
        const uint32_t elements = tiling.packed != 0 ? tiling.batchRows * tiling.stride : tiling.tileCols;
        pipe.InitBuffer(inQueue_, 2, elements * sizeof(T));
        pipe.InitBuffer(outQueue_, 2, elements * sizeof(T));
        pipe.InitBuffer(inQueueValues_, 1, 2 * rows8 * sizeof(float));
        pipe.InitBuffer(valueBuf_, 3 * rows8 * sizeof(float));
        pipe.InitBuffer(blockBuf_, 3 * rows8 * AscendC::ONE_BLK_SIZE);
        value_ = valueBuf_.template Get<float>();
        block_ = blockBuf_.template Get<float>();
        AscendC::Duplicate(value_, 0.0f, static_cast<int32_t>(3 * rows8));  // Brcb reads whole blocks
        if constexpr (!IS_FLOAT<T>) {
            pipe.InitBuffer(floatBuf_, elements * sizeof(float));
            float_ = floatBuf_.template Get<float>();
        }
        labels_.Init(labels, tiling, pipe);
        if (tiling.packed != 0) {
            pipe.InitBuffer(workBuf_, elements * sizeof(float));
            work_ = workBuf_.template Get<float>();
            labels_.InitColumns(tiling, pipe);
        } else {
            pipe.InitBuffer(rowBuf_, 2 * AscendC::ONE_BLK_SIZE);
            row_ = rowBuf_.template Get<float>();
            pipe.InitBuffer(inQueueChosen_, 1, CHOSEN_ROWS * AscendC::ONE_BLK_SIZE);
            pipe.InitBuffer(outQueueChosen_, 1, CHOSEN_ROWS * AscendC::ONE_BLK_SIZE);
            if constexpr (!IS_FLOAT<T>) {
                pipe.InitBuffer(chosenBuf_, CHOSEN_ROWS * PER_BLOCK * sizeof(float));
                chosen_ = chosenBuf_.template Get<float>();
            }
        }
    }

    __aicore__ inline void Process()
    {
        const uint32_t second = LabelRows::RoundUp8(tiling_.batchRows);
        if (tiling_.pieces != 0) {
            LongPieces(ShareOf(tiling_.rows * tiling_.pieces, tiling_.piecesPerCore), second);
            AscendC::SyncAll();
        }
        for (uint64_t row = rowBegin_; row < rowEnd_; row += tiling_.batchRows) {
            const uint64_t left = rowEnd_ - row;
            const uint32_t rows = left < tiling_.batchRows ? static_cast<uint32_t>(left) : tiling_.batchRows;
            labels_.Load(row, rows);
            LoadValues(row, rows, second);
            if (tiling_.packed != 0) {
                PackedRows(block_, block_[second * FLOATS_PER_BLOCK], row, rows);
                labels_.Free();
                continue;
            }
            const AscendC::LocalTensor<float> marks = value_[2 * second];
            labels_.Mark(marks, rows);
            labels_.Free();
            BroadcastRows(block_[2 * second * FLOATS_PER_BLOCK], marks, rows);
            for (uint32_t r = 0; r < rows; r += CHOSEN_ROWS) {
                LongRows(r, rows - r < CHOSEN_ROWS ? rows - r : CHOSEN_ROWS, row + r);
            }
        }
    }

private:
    static constexpr uint32_t PER_BLOCK = AscendC::ONE_BLK_SIZE / sizeof(T);
    static constexpr uint32_t CHOSEN_ROWS = LabelRows::PLACES;  // long rows whose labels' elements are stored together

    // Loads lse and dloss (0 where ignored) of the rows, each 8 times.
    __aicore__ inline void LoadValues(uint64_t row, uint32_t rows, uint32_t second)
    {
        AscendC::LocalTensor<float> local = inQueueValues_.template AllocTensor<float>();
        const Rows shape{1, rows, LabelRows::RoundUp8(rows), rows};
        LoadRows(local, lseGm_[row], shape);
        LoadRows(local[second], dlossGm_[row], shape);
        inQueueValues_.EnQue(local);
        local = inQueueValues_.template DeQue<float>();
        AscendC::Muls(value_, local, 1.0f, static_cast<int32_t>(rows));
        AscendC::Muls(value_[second], local[second], 1.0f, static_cast<int32_t>(rows));
        inQueueValues_.FreeTensor(local);
        labels_.Keep(value_[second], rows);
        BroadcastRows(block_, value_, rows);
        BroadcastRows(block_[second * FLOATS_PER_BLOCK], value_[second], rows);
    }

    __aicore__ inline void PackedRows(const AscendC::LocalTensor<float>& lse, const AscendC::LocalTensor<float>& dloss,
                                      uint64_t row, uint32_t rows)
    {
        const int32_t count = static_cast<int32_t>(rows * tiling_.stride);
        const Rows shape{rows, cols_, tiling_.stride, cols_};
        const RowBlock block{rows, tiling_.stride, tiling_.stride};
        AscendC::LocalTensor<T> local = inQueue_.template AllocTensor<T>();
        LoadRows(local, logitsGm_[row * cols_], shape, true);
        inQueue_.EnQue(local);
        local = inQueue_.template DeQue<T>();
        AscendC::LocalTensor<T> outLocal = outQueue_.template AllocTensor<T>();
        const AscendC::LocalTensor<float> x = ToFloat(local, float_, static_cast<uint32_t>(count));
        const AscendC::LocalTensor<float> y = FloatTarget(outLocal, float_);
        WithRows<SubOf>(y, x, lse, block);
        AscendC::Exp(y, y, count);
        labels_.Elsewhere(work_, rows);
        AscendC::Adds(work_, work_, -1.0f, count);  // -1 in the label's column
        AscendC::Add(y, y, work_, count);
        WithRows<MulOf>(y, y, dloss, block);
        FromFloat(outLocal, y, static_cast<uint32_t>(count));
        inQueue_.FreeTensor(local);
        StoreQueued(outQueue_, dlogitsGm_[row * cols_], outLocal, shape);
    }

    __aicore__ inline void LongPieces(const CoreShare& share, uint32_t second)
    {
        uint64_t first = 0;  // of the rows whose values are held
        uint64_t last = 0;
        for (uint64_t index = share.begin; index < share.end; ++index) {
            const RowPiece piece = PieceAt(tiling_, index);
            if (piece.row >= last) {
                const uint64_t left = tiling_.rows - piece.row;
                const uint32_t rows = left < tiling_.batchRows ? static_cast<uint32_t>(left) : tiling_.batchRows;
                first = piece.row;
                last = first + rows;
                labels_.Load(first, rows);
                LoadValues(first, rows, second);
                labels_.Free();
            }
            SetRow(static_cast<uint32_t>(piece.row - first), second);
            LongRow(piece.row, piece.begin, piece.end);
        }
    }

    // Sets row_ to lse and dloss of row r of the batch.
    __aicore__ inline void SetRow(uint32_t r, uint32_t second)
    {
        const int32_t blockCount = static_cast<int32_t>(FLOATS_PER_BLOCK);
        AscendC::Muls(row_, block_[r * FLOATS_PER_BLOCK], 1.0f, blockCount);
        AscendC::Muls(row_[FLOATS_PER_BLOCK], block_[(second + r) * FLOATS_PER_BLOCK], 1.0f, blockCount);
    }

    // Does rows r, r + 1 ... of the batch, the first of which is `row` of all.
    __aicore__ inline void LongRows(uint32_t r, uint32_t rows, uint64_t row)
    {
        const uint32_t second = LabelRows::RoundUp8(tiling_.batchRows);
        const AscendC::LocalTensor<float> lse = block_[r * FLOATS_PER_BLOCK];
        const AscendC::LocalTensor<float> dloss = block_[(second + r) * FLOATS_PER_BLOCK];
        const AscendC::LocalTensor<float> marks = block_[(2 * second + r) * FLOATS_PER_BLOCK];
        for (uint32_t i = 0; tiling_.pieces == 0 && i < rows; ++i) {
            SetRow(r + i, second);
            LongRow(row + i, 0, cols_);
        }
        ChosenElements(lse, dloss, marks, row, rows);
    }

    // Does one long row, whose lse and dloss are in row_.
    __aicore__ inline void LongRow(uint64_t row, uint32_t begin, uint32_t end)
    {
        for (uint32_t column = begin; column < end; column += tiling_.tileCols) {
            const uint32_t left = end - column;
            const uint32_t cols = left < tiling_.tileCols ? left : tiling_.tileCols;
            const RowBlock block{1, cols, tiling_.tileCols};
            const Rows shape{1, cols, tiling_.tileCols, cols};
            AscendC::LocalTensor<T> local = inQueue_.template AllocTensor<T>();
            LoadRows(local, logitsGm_[row * cols_ + column], shape);
            inQueue_.EnQue(local);
            local = inQueue_.template DeQue<T>();
            AscendC::LocalTensor<T> outLocal = outQueue_.template AllocTensor<T>();
            const AscendC::LocalTensor<float> x = ToFloat(local, float_, cols);
            const AscendC::LocalTensor<float> y = FloatTarget(outLocal, float_);
            WithRows<SubOf>(y, x, row_, block);
            AscendC::Exp(y, y, static_cast<int32_t>(cols));
            WithRows<MulOf>(y, y, row_[FLOATS_PER_BLOCK], block);
            FromFloat(outLocal, y, cols);
            inQueue_.FreeTensor(local);
            StoreQueued(outQueue_, dlogitsGm_[row * cols_ + column], outLocal, shape);
        }
    }

    // dlogits in the columns of the labels of some rows, an element in a block of its own. It is what the row's
    // store has put there, but for the -1 of `marks`; where the label is no column, the first column stands for it.
    __aicore__ inline void ChosenElements(const AscendC::LocalTensor<float>& lse,
                                          const AscendC::LocalTensor<float>& dloss,
                                          const AscendC::LocalTensor<float>& marks, uint64_t row, uint32_t rows)
    {
        const RowBlock block{rows, PER_BLOCK, PER_BLOCK};
        const uint32_t count = rows * PER_BLOCK;
        const Rows one{1, 1, PER_BLOCK, 1};
        uint64_t places[CHOSEN_ROWS];
        labels_.Places(places, row, rows);
        AscendC::LocalTensor<T> local = inQueueChosen_.template AllocTensor<T>();
        for (uint32_t r = 0; r < rows; ++r) {
            LoadRows(local[r * PER_BLOCK], logitsGm_[places[r]], one, true);
        }
        inQueueChosen_.EnQue(local);
        local = inQueueChosen_.template DeQue<T>();
        AscendC::LocalTensor<T> outLocal = outQueueChosen_.template AllocTensor<T>();
        const AscendC::LocalTensor<float> x = ToFloat(local, chosen_, count);
        const AscendC::LocalTensor<float> y = FloatTarget(outLocal, chosen_);
        WithRows<SubOf>(y, x, lse, block);
        AscendC::Exp(y, y, static_cast<int32_t>(count));
        WithRows<SubOf>(y, y, marks, block);
        WithRows<MulOf>(y, y, dloss, block);
        FromFloat(outLocal, y, count);
        inQueueChosen_.FreeTensor(local);
        outQueueChosen_.EnQue(outLocal);
        outLocal = outQueueChosen_.template DeQue<T>();
        AscendC::PipeBarrier<PIPE_MTE3>();  // the rows are there
        for (uint32_t r = 0; r < rows; ++r) {
            StoreRows(dlogitsGm_[places[r]], outLocal[r * PER_BLOCK], one);
        }
        outQueueChosen_.FreeTensor(outLocal);
    }

    CrossEntropyTilingData tiling_;
    uint32_t cols_ = 0;
    uint64_t rowBegin_ = 0;
    uint64_t rowEnd_ = 0;
    AscendC::GlobalTensor<float> dlossGm_;
    AscendC::GlobalTensor<float> lseGm_;
    AscendC::GlobalTensor<T> logitsGm_;
    AscendC::GlobalTensor<T> dlogitsGm_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueue_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueueValues_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueueChosen_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> outQueue_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> outQueueChosen_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> valueBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> blockBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> floatBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> workBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> rowBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> chosenBuf_;
    LabelRows labels_;
    AscendC::LocalTensor<float> value_;
    AscendC::LocalTensor<float> block_;
    AscendC::LocalTensor<float> float_;   // for 16-bit T
    AscendC::LocalTensor<float> work_;    // of short rows
    AscendC::LocalTensor<float> row_;     // lse and dloss of a long row, a block each
    AscendC::LocalTensor<float> chosen_;  // of long rows, for 16-bit T
};

template <typename T>
__aicore__ inline void CrossEntropyGradKernel(GM_ADDR dloss, GM_ADDR logits, GM_ADDR labels, GM_ADDR lse,
                                              GM_ADDR dlogits, [[maybe_unused]] GM_ADDR workspace,
                                              const CrossEntropyGradTilingData& tiling)
{
    AscendC::TPipe pipe;
    CrossEntropyBackward<T> kernel;
    kernel.Init(dloss, logits, labels, lse, dlogits, tiling, pipe);
    kernel.Process();
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_CROSS_ENTROPY_GRAD_KERNEL_H
