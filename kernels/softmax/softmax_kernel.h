/*!
 * Computes softmax over any axis in float: y = exp(x - max(x)) / sum(exp(x - max(x))).
 *
 * Plan: contiguous rows (the last axis) tile by tile, several short rows to a tile, x and y double-buffered; maxima and
 * sums are folded to 64 lanes a row unless rows are short, WholeReduce finishes all rows of a tile, Brcb spreads them
 * again. Any other axis: tiles of columns, where maximum, sum and division go column by column. A tile that does not
 * fit the Unified Buffer is read twice: first for the maximum and the sum, corrected from chunk to chunk, then for y.
 * Bound: memory (x once or twice, y once); a vector unit that does 32 Exp a cycle keeps up.
 */
#ifndef MS_ASCEND_OPS_SOFTMAX_KERNEL_H
#define MS_ASCEND_OPS_SOFTMAX_KERNEL_H

#include "kernel_operator.h"
#include "primitives/softmax_rows.h"
#include "softmax_tiling.h"

namespace ms_ascend_ops {

// Describes a stretch of columns; `width` is padded to whole blocks, and the padding takes part.
struct SoftmaxColumnTile {
    uint64_t offset;  // of its first element in global memory
    uint32_t cols;
    uint32_t width;
};

template <typename T>
__aicore__ inline SoftmaxColumnTile SoftmaxColumnTileAt(const SoftmaxTilingData& tiling, uint64_t index)
{
    constexpr uint32_t PER_BLOCK = AscendC::ONE_BLK_SIZE / sizeof(T);
    const uint64_t outer = index / tiling.tilesPerOuter;
    const uint64_t column = (index - outer * tiling.tilesPerOuter) * tiling.tileWidth;
    const uint64_t left = tiling.inner - column;
    const uint32_t cols = left < tiling.tileWidth ? static_cast<uint32_t>(left) : tiling.tileWidth;
    return {outer * tiling.n * tiling.inner + column, cols, (cols + PER_BLOCK - 1) / PER_BLOCK * PER_BLOCK};
}

template <typename T>
class SoftmaxColumns {
public:
    __aicore__ inline void Init(GM_ADDR x, GM_ADDR y, const SoftmaxTilingData& tiling, AscendC::TPipe& pipe)
    {
        tiling_ = tiling;
        xGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(x));
        yGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(y));
        const uint32_t elements = tiling.chunkRows * tiling.tileWidth;
        pipe.InitBuffer(inQueueX_, 2, elements * sizeof(T));
        pipe.InitBuffer(outQueueY_, 2, elements * sizeof(T));
        pipe.InitBuffer(workBuf_, elements * sizeof(float));
        pipe.InitBuffer(stateBuf_, 3 * tiling.tileWidth * sizeof(float));
        pipe.InitBuffer(onesBuf_, AscendC::ONE_BLK_SIZE);
        work_ = workBuf_.template Get<float>();
        max_ = stateBuf_.template Get<float>();
        newMax_ = max_[tiling.tileWidth];
        sum_ = max_[2 * tiling.tileWidth];
        ones_ = onesBuf_.template Get<float>();
        AscendC::Duplicate(ones_, 1.0f, static_cast<int32_t>(FLOATS_PER_BLOCK));
    }

    __aicore__ inline void Process()
    {
        const uint64_t first = tiling_.tilesPerCore * AscendC::GetBlockIdx();
        const uint64_t last =
            first + tiling_.tilesPerCore < tiling_.tiles ? first + tiling_.tilesPerCore : tiling_.tiles;
        for (uint64_t index = first; index < last; ++index) {
            const SoftmaxColumnTile tile = SoftmaxColumnTileAt<T>(tiling_, index);
            AscendC::Duplicate(max_, LOWEST_FLOAT, static_cast<int32_t>(tile.width));
            AscendC::Duplicate(sum_, 0.0f, static_cast<int32_t>(tile.width));
            for (uint32_t row = 0; row < tiling_.n; row += tiling_.chunkRows) {
                Accumulate(tile, row);
            }
            DivOf::Counter(sum_, ones_, sum_, tile.width, {1, 0, 1, 8, 0, 8});
            for (uint32_t row = 0; row < tiling_.n; row += tiling_.chunkRows) {
                Finish(tile, row);
            }
        }
    }

private:
    __aicore__ inline RowBlock ChunkAt(const SoftmaxColumnTile& tile, uint32_t row) const
    {
        const uint32_t left = tiling_.n - row;
        return {left < tiling_.chunkRows ? left : tiling_.chunkRows, tile.width, tile.width};
    }

    // Returns the chunk's x in float; `xLocal` is to be freed after it was used.
    __aicore__ inline AscendC::LocalTensor<float> Load(AscendC::LocalTensor<T>& xLocal, const SoftmaxColumnTile& tile,
                                                       uint32_t row, const RowBlock& block)
    {
        xLocal = inQueueX_.template AllocTensor<T>();
        LoadRows(xLocal, xGm_[tile.offset + row * tiling_.inner], {block.rows, tile.cols, tile.width, tiling_.inner},
                 true);
        inQueueX_.EnQue(xLocal);
        xLocal = inQueueX_.template DeQue<T>();
        return ToFloat(xLocal, work_, block.Elements());
    }

    // work = exp(x - max) of the chunk, with max_ and sum_ brought up to it.
    __aicore__ inline void Accumulate(const SoftmaxColumnTile& tile, uint32_t row)
    {
        const RowBlock block = ChunkAt(tile, row);
        const int32_t width = static_cast<int32_t>(tile.width);
        AscendC::LocalTensor<T> xLocal;
        const AscendC::LocalTensor<float> x = Load(xLocal, tile, row, block);
        AscendC::Maxs(newMax_, max_, LOWEST_FLOAT, width);  // a copy
        FoldColumns<MaxOf>(newMax_, x, block);
        AscendC::Sub(max_, max_, newMax_, width);
        AscendC::Exp(max_, max_, width);
        AscendC::Mul(sum_, sum_, max_, width);
        const AscendC::LocalTensor<float> old = max_;
        max_ = newMax_;
        newMax_ = old;
        Exponentials(x, block);
        FoldColumns<AddOf>(sum_, work_, block);
        inQueueX_.FreeTensor(xLocal);
    }

    __aicore__ inline void Exponentials(const AscendC::LocalTensor<float>& x, const RowBlock& block)
    {
        WithColumns<SubOf>(work_, x, max_, block);
        AscendC::Exp(work_, work_, static_cast<int32_t>(block.Elements()));
    }

    __aicore__ inline void Finish(const SoftmaxColumnTile& tile, uint32_t row)
    {
        const RowBlock block = ChunkAt(tile, row);
        if (tiling_.n > tiling_.chunkRows) {  // otherwise work_ still holds it
            AscendC::LocalTensor<T> xLocal;
            Exponentials(Load(xLocal, tile, row, block), block);
            inQueueX_.FreeTensor(xLocal);
        }
        AscendC::LocalTensor<T> yLocal = outQueueY_.template AllocTensor<T>();
        if constexpr (IS_FLOAT<T>) {
            WithColumns<MulOf>(yLocal, work_, sum_, block);
        } else {
            WithColumns<MulOf>(work_, work_, sum_, block);
            FromFloat(yLocal, work_, block.Elements());
        }
        StoreQueued(outQueueY_, yGm_[tile.offset + row * tiling_.inner], yLocal,
                    {block.rows, tile.cols, tile.width, tiling_.inner});
    }

    SoftmaxTilingData tiling_;
    AscendC::GlobalTensor<T> xGm_;
    AscendC::GlobalTensor<T> yGm_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueueX_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> outQueueY_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> workBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> stateBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> onesBuf_;
    AscendC::LocalTensor<float> work_;
    AscendC::LocalTensor<float> max_;
    AscendC::LocalTensor<float> newMax_;
    AscendC::LocalTensor<float> sum_;
    AscendC::LocalTensor<float> ones_;
};

template <typename T>
__aicore__ inline void SoftmaxKernel(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, const SoftmaxTilingData& tiling)
{
    AscendC::TPipe pipe;
    if (tiling.inner == 1) {
        SoftmaxRows<T, PlainLogits, SoftmaxTilingData> kernel;
        PlainLogits logits;
        kernel.Init(x, y, workspace, tiling, 0.0f, pipe);
        kernel.Process(logits);
    } else {
        SoftmaxColumns<T> kernel;
        kernel.Init(x, y, tiling, pipe);
        kernel.Process();
    }
}

}  // namespace ms_ascend_ops

#include "softmax_grad_kernel.h"

#endif  // MS_ASCEND_OPS_SOFTMAX_KERNEL_H
