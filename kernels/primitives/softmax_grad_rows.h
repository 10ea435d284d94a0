/*!
 * Computes the gradient of a softmax of contiguous rows from its output in float: dx = scale * y * (dy - sum(dy * y)).
 *
 * Plan: as in the forward, tile by tile, with dy, y and dx double-buffered; the products of up to 128 columns are
 * summed by WholeReduceSum, more are folded to 64 lanes a row first. Rows longer than a tile are read twice, and shared
 * by the cores piece by piece if they are few (row_pieces.h).
 * Bound: memory (dy and y once, dx once) as long as a row fits the Unified Buffer.
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_SOFTMAX_GRAD_ROWS_H
#define MS_ASCEND_OPS_PRIMITIVES_SOFTMAX_GRAD_ROWS_H

#include "kernel_operator.h"
#include "primitives/row_pieces.h"
#include "primitives/row_values.h"
#include "primitives/tile.h"

namespace ms_ascend_ops {

template <typename T, class TILING>
class SoftmaxGradRows {
public:
    __aicore__ inline void Init(GM_ADDR dy, GM_ADDR y, GM_ADDR dx, GM_ADDR workspace, const TILING& tiling, float scale,
                                AscendC::TPipe& pipe)
    {
        tiling_ = tiling;
        pipe_ = &pipe;
        scale_ = scale;
        cols_ = tiling.cols;
        rowBegin_ = tiling.rowsPerCore * AscendC::GetBlockIdx();
        rowEnd_ = rowBegin_ + tiling.rowsPerCore < tiling.rows ? rowBegin_ + tiling.rowsPerCore : tiling.rows;
        dyGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(dy), tiling.rows * cols_);
        yGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(y), tiling.rows * cols_);
        dxGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(dx), tiling.rows * cols_);
        const uint32_t elements = tiling.tileRows * tiling.stride;
        pipe.InitBuffer(inQueueDy_, 2, elements * sizeof(T));
        pipe.InitBuffer(inQueueY_, 2, elements * sizeof(T));
        pipe.InitBuffer(outQueueDx_, 2, elements * sizeof(T));
        pipe.InitBuffer(productBuf_, elements * sizeof(float));
        product_ = productBuf_.template Get<float>();
        rows_.Init(tiling.tileRows, pipe);
        if (tiling.pieces != 0) {
            pieces_.Init(workspace, tiling, 1, 1, pipe);
        }
        if constexpr (!IS_FLOAT<T>) {
            pipe.InitBuffer(dyBuf_, elements * sizeof(float));
            pipe.InitBuffer(yBuf_, elements * sizeof(float));
            dyFloat_ = dyBuf_.template Get<float>();
            yFloat_ = yBuf_.template Get<float>();
        }
    }

    __aicore__ inline void Process()
    {
        if (tiling_.pieces != 0) {
            RunPieces(*this, tiling_, *pipe_);
            return;
        }
        for (uint64_t row = rowBegin_; row < rowEnd_; row += tiling_.tileRows) {
            const uint64_t left = rowEnd_ - row;
            const uint32_t rows = left < tiling_.tileRows ? static_cast<uint32_t>(left) : tiling_.tileRows;
            if (tiling_.tileCols == cols_) {
                const Rows shape{rows, cols_, tiling_.stride, cols_};
                CopyIn(row * cols_, shape);
                rows_.template Start<AddOf>(rows, cols_);
                Products(shape, tiling_.stepRows);
                FinishSums(rows);
                Combine(row * cols_, shape, tiling_.stepRows);
                continue;
            }
            SumColumnTiles({row, 0, 0, cols_});
            CombineColumnTiles({row, 0, 0, cols_});
        }
    }

    // Sums of pieces.
    __aicore__ inline void SumPieces(uint64_t begin, uint64_t end)
    {
        for (uint64_t index = begin; index < end; ++index) {
            const RowPiece piece = PieceAt(tiling_, index);
            SumColumnTiles(piece);
            const AscendC::LocalTensor<float> values = pieces_.New();
            AscendC::Muls(values, rows_.blocks, 1.0f, static_cast<int32_t>(FLOATS_PER_BLOCK));
            pieces_.Put(values, piece.row, piece.piece);
        }
    }

    __aicore__ inline void ApplyPieces(uint64_t begin, uint64_t end)
    {
        for (uint64_t index = begin; index < end; ++index) {
            const RowPiece piece = PieceAt(tiling_, index);
            if (index == begin || piece.piece == 0) {
                pieces_.Load(piece.row);
                pieces_.Sum(rows_.blocks, 0);
                pieces_.Free();
            }
            CombineColumnTiles(piece);
        }
    }

private:
    // Computes the sum over a row that does not fit, or over a piece, in rows_.blocks.
    __aicore__ inline void SumColumnTiles(const RowPiece& piece)
    {
        rows_.template Start<AddOf>(1, cols_);
        for (uint32_t column = piece.begin; column < piece.end; column += tiling_.tileCols) {
            const Rows shape = ColumnsAt(column, piece.end);
            CopyIn(piece.row * cols_ + column, shape);
            Products(shape, 1);
            Free();
        }
        FinishSums(1);
    }

    __aicore__ inline void CombineColumnTiles(const RowPiece& piece)
    {
        for (uint32_t column = piece.begin; column < piece.end; column += tiling_.tileCols) {
            const Rows shape = ColumnsAt(column, piece.end);
            CopyIn(piece.row * cols_ + column, shape);
            Combine(piece.row * cols_ + column, shape, 1);
        }
    }

    __aicore__ inline void CopyIn(uint64_t offset, const Rows& shape)
    {
        dyLocal_ = inQueueDy_.template AllocTensor<T>();
        LoadRows(dyLocal_, dyGm_[offset], shape, shape.rows > 1);
        inQueueDy_.EnQue(dyLocal_);
        yLocal_ = inQueueY_.template AllocTensor<T>();
        LoadRows(yLocal_, yGm_[offset], shape, shape.rows > 1);
        inQueueY_.EnQue(yLocal_);
        dyLocal_ = inQueueDy_.template DeQue<T>();
        yLocal_ = inQueueY_.template DeQue<T>();
        const uint32_t count = (shape.rows - 1) * shape.ubStride + shape.cols;
        dy_ = ToFloat(dyLocal_, dyFloat_, count);
        y_ = ToFloat(yLocal_, yFloat_, count);
    }

    __aicore__ inline void Free()
    {
        inQueueDy_.FreeTensor(dyLocal_);
        inQueueY_.FreeTensor(yLocal_);
    }

    // Folds dy * y.
    __aicore__ inline void Products(const Rows& shape, uint32_t step)
    {
        for (uint32_t r = 0; r < shape.rows; r += step) {
            const RowBlock block = BlockAt(r, step, shape);
            const uint32_t at = r * shape.ubStride;
            AscendC::Mul(product_[at], dy_[at], y_[at], static_cast<int32_t>(block.Elements()));
            rows_.template Fold<AddOf>(product_[at], r, block, cols_);
        }
    }

    __aicore__ inline void FinishSums(uint32_t rows)
    {
        rows_.Sums(rows, cols_);
        rows_.Spread(rows);
    }

    // dx = (dy - sum) * y * scale, and frees dy and y.
    __aicore__ inline void Combine(uint64_t offset, const Rows& shape, uint32_t step)
    {
        AscendC::LocalTensor<T> dxLocal = outQueueDx_.template AllocTensor<T>();
        for (uint32_t r = 0; r < shape.rows; r += step) {
            const RowBlock block = BlockAt(r, step, shape);
            const RowBlock padded{block.rows, block.rows == 1 ? block.cols : block.stride, block.stride};
            const uint32_t at = r * shape.ubStride;
            const int32_t count = static_cast<int32_t>(padded.Elements());
            const AscendC::LocalTensor<float> dx = Target(dxLocal, at);
            WithRows<SubOf>(dx, dy_[at], rows_.blocks[r * FLOATS_PER_BLOCK], padded);
            AscendC::Mul(dx, dx, y_[at], static_cast<int32_t>(block.Elements()));
            if (scale_ != 1.0f) {
                AscendC::Muls(dx, dx, scale_, count);
            }
            FromFloat(dxLocal[at], dx, block.Elements());
        }
        Free();
        StoreQueued(outQueueDx_, dxGm_[offset], dxLocal, shape);
    }

    __aicore__ inline AscendC::LocalTensor<float> Target(const AscendC::LocalTensor<T>& dxLocal, uint32_t at)
    {
        if constexpr (IS_FLOAT<T>) {
            return dxLocal[at];
        } else {
            return product_[at];
        }
    }

    __aicore__ inline RowBlock BlockAt(uint32_t r, uint32_t step, const Rows& shape) const
    {
        const uint32_t left = shape.rows - r;
        return {left < step ? left : step, shape.cols, shape.ubStride};
    }

    __aicore__ inline Rows ColumnsAt(uint32_t column, uint32_t end) const
    {
        const uint32_t left = end - column;
        const uint32_t cols = left < tiling_.tileCols ? left : tiling_.tileCols;
        return {1, cols, tiling_.stride, cols};
    }

    TILING tiling_;
    AscendC::TPipe* pipe_ = nullptr;
    float scale_ = 1.0f;
    uint32_t cols_ = 0;
    uint64_t rowBegin_ = 0;
    uint64_t rowEnd_ = 0;
    AscendC::GlobalTensor<T> dyGm_;
    AscendC::GlobalTensor<T> yGm_;
    AscendC::GlobalTensor<T> dxGm_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueueDy_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueueY_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> outQueueDx_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> productBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> dyBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> yBuf_;
    RowValues rows_;
    PieceValues<1> pieces_;
    AscendC::LocalTensor<float> product_;
    AscendC::LocalTensor<float> dyFloat_;  // for 16-bit T
    AscendC::LocalTensor<float> yFloat_;
    AscendC::LocalTensor<T> dyLocal_;  // the tile at hand
    AscendC::LocalTensor<T> yLocal_;
    AscendC::LocalTensor<float> dy_;
    AscendC::LocalTensor<float> y_;
};

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_SOFTMAX_GRAD_ROWS_H
