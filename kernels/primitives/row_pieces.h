/*!
 * Shares rows in pieces (row_pieces_tiling.h): values of each piece go through the workspace to all cores that have a
 * piece of the row. A value is a block of 8 equal floats, as the instructions on rows take it.
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_ROW_PIECES_H
#define MS_ASCEND_OPS_PRIMITIVES_ROW_PIECES_H

#include "kernel_operator.h"
#include "primitives/core_share.h"
#include "primitives/rows.h"
#include "primitives/tile.h"

namespace ms_ascend_ops {

// Describes the columns [begin, end) of a row.
struct RowPiece {
    uint64_t row;
    uint32_t piece;
    uint32_t begin;
    uint32_t end;
};

// Pieces are counted row by row.
template <class TILING>
__aicore__ inline RowPiece PieceAt(const TILING& tiling, uint64_t index)
{
    const uint64_t row = index / tiling.pieces;
    const uint32_t piece = static_cast<uint32_t>(index - row * tiling.pieces);
    const uint32_t begin = piece * tiling.pieceCols;
    const uint32_t left = tiling.cols - begin;
    return {row, piece, begin, begin + (left < tiling.pieceCols ? left : tiling.pieceCols)};
}

template <uint32_t VALUES>
class PieceValues {
public:
    // `loadRows` are loaded at a time; values are put of one, or of `putRows`.
    template <class TILING>
    __aicore__ inline void Init(GM_ADDR workspace, const TILING& tiling, uint32_t loadRows, uint32_t putRows,
                                AscendC::TPipe& pipe)
    {
        putRows_ = putRows;
        pieces_ = tiling.pieces;
        count_ = pieces_ * FLOATS_PER_BLOCK;
        gm_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(workspace), tiling.rows * VALUES * count_);
        pipe.InitBuffer(outQueue_, putRows == 1 ? 2 : 1, putRows * VALUES * AscendC::ONE_BLK_SIZE);
        pipe.InitBuffer(inQueue_, 1, loadRows * VALUES * count_ * sizeof(float));
    }

    // Returns the values of a piece, a block a row of each, to be filled; Put stores them.
    __aicore__ inline AscendC::LocalTensor<float> New() { return outQueue_.template AllocTensor<float>(); }

    __aicore__ inline void Put(AscendC::LocalTensor<float> values, uint64_t row, uint32_t piece, uint32_t rows = 1)
    {
        outQueue_.EnQue(values);
        values = outQueue_.template DeQue<float>();
        const AscendC::GlobalTensor<float> gm = gm_[row * VALUES * count_ + piece * FLOATS_PER_BLOCK];
        if (putRows_ == 1) {
            StoreRows(gm, values, {VALUES, FLOATS_PER_BLOCK, FLOATS_PER_BLOCK, count_});
        } else {
            for (uint32_t value = 0; value < VALUES; ++value) {
                StoreRows(gm[value * count_], values[value * putRows_ * FLOATS_PER_BLOCK],
                          {rows, FLOATS_PER_BLOCK, FLOATS_PER_BLOCK, VALUES * count_});
            }
        }
        outQueue_.FreeTensor(values);
    }

    // Loads the values of all pieces of some rows, until Free.
    __aicore__ inline void Load(uint64_t row, uint32_t rows = 1)
    {
        const uint32_t count = rows * VALUES * count_;
        local_ = inQueue_.template AllocTensor<float>();
        LoadRows(local_, gm_[row * VALUES * count_], {1, count, count, count});
        inQueue_.EnQue(local_);
        local_ = inQueue_.template DeQue<float>();
    }

    __aicore__ inline AscendC::LocalTensor<float> Of(uint32_t value, uint32_t row = 0) const
    {
        return local_[(row * VALUES + value) * count_];
    }

    __aicore__ inline void Free() { inQueue_.FreeTensor(local_); }

    __aicore__ inline RowBlock Block() const { return {pieces_, FLOATS_PER_BLOCK, FLOATS_PER_BLOCK}; }

    // Sets dst to the sum, or the largest, of a value over the pieces, in order.
    __aicore__ inline void Sum(const AscendC::LocalTensor<float>& dst, uint32_t value, uint32_t row = 0)
    {
        AscendC::Duplicate(dst, 0.0f, static_cast<int32_t>(FLOATS_PER_BLOCK));
        FoldColumns<AddOf>(dst, Of(value, row), Block());
    }

    __aicore__ inline void Maximum(const AscendC::LocalTensor<float>& dst, uint32_t value, uint32_t row = 0)
    {
        AscendC::Duplicate(dst, LOWEST_FLOAT, static_cast<int32_t>(FLOATS_PER_BLOCK));
        FoldColumns<MaxOf>(dst, Of(value, row), Block());
    }

    // Sums of exponentials, each from its own maximum: `maximum` = the largest of value 0, `sum` = the sum of value 1.
    __aicore__ inline void SumExponentials(const AscendC::LocalTensor<float>& maximum,
                                           const AscendC::LocalTensor<float>& sum, uint32_t row = 0)
    {
        const int32_t count = static_cast<int32_t>(count_);
        const AscendC::LocalTensor<float> factors = Of(0, row);
        Maximum(maximum, 0, row);
        WithColumns<SubOf>(factors, factors, maximum, Block());
        AscendC::Exp(factors, factors, count);
        AscendC::Mul(Of(1, row), Of(1, row), factors, count);
        Sum(sum, 1, row);
    }

    // Multiplies the value of each piece by `full`, that of the last one by `last`.
    __aicore__ inline void Scale(uint32_t value, float full, float last)
    {
        const int32_t but = static_cast<int32_t>(count_ - FLOATS_PER_BLOCK);
        const AscendC::LocalTensor<float> values = Of(value);
        AscendC::Muls(values, values, full, but);
        AscendC::Muls(values[but], values[but], last, static_cast<int32_t>(FLOATS_PER_BLOCK));
    }

private:
    uint32_t pieces_ = 0;
    uint32_t putRows_ = 1;
    uint32_t count_ = 0;  // floats of one value of all pieces of a row
    AscendC::GlobalTensor<float> gm_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueue_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> outQueue_;
    AscendC::LocalTensor<float> local_;
};

// Both stages of a kernel: SumPieces(begin, end) leaves the values of pieces in the workspace, ApplyPieces(begin, end)
// takes those of the rows. Cores share the pieces, or take whole rows through both stages: the arithmetic is the same.
template <class KERNEL, class TILING>
__aicore__ inline void RunPieces(KERNEL& kernel, const TILING& tiling, AscendC::TPipe& pipe)
{
    if (tiling.piecesPerCore != 0) {
        const CoreShare share = ShareOf(tiling.rows * tiling.pieces, tiling.piecesPerCore);
        kernel.SumPieces(share.begin, share.end);
        AscendC::SyncAll();
        kernel.ApplyPieces(share.begin, share.end);
        return;
    }
    const CoreShare rows = ShareOf(tiling.rows, tiling.rowsPerCore);
    for (uint64_t row = rows.begin; row < rows.end; ++row) {
        kernel.SumPieces(row * tiling.pieces, (row + 1) * tiling.pieces);
        WaitForStores(pipe);
        kernel.ApplyPieces(row * tiling.pieces, (row + 1) * tiling.pieces);
    }
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_ROW_PIECES_H
