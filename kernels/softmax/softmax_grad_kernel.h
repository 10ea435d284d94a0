/*!
 * Computes the gradient of softmax over any axis from its output in float: dx = y * (dy - sum(dy * y)).
 *
 * Plan: rows as in primitives/softmax_grad_rows.h; any other axis in tiles of columns, chunk by chunk if n rows do not
 * fit, which are then read twice.
 * Bound: memory (dy and y once or twice, dx once).
 */
#ifndef MS_ASCEND_OPS_SOFTMAX_GRAD_KERNEL_H
#define MS_ASCEND_OPS_SOFTMAX_GRAD_KERNEL_H

#include "primitives/softmax_grad_rows.h"
#include "softmax_kernel.h"

namespace ms_ascend_ops {

template <typename T>
class SoftmaxGradColumns {
public:
    __aicore__ inline void Init(GM_ADDR dy, GM_ADDR y, GM_ADDR dx, const SoftmaxTilingData& tiling,
                                AscendC::TPipe& pipe)
    {
        tiling_ = tiling;
        dyGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(dy));
        yGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(y));
        dxGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(dx));
        const uint32_t elements = tiling.chunkRows * tiling.tileWidth;
        pipe.InitBuffer(inQueueDy_, 2, elements * sizeof(T));
        pipe.InitBuffer(inQueueY_, 2, elements * sizeof(T));
        pipe.InitBuffer(outQueueDx_, 2, elements * sizeof(T));
        pipe.InitBuffer(productBuf_, elements * sizeof(float));
        pipe.InitBuffer(sumBuf_, tiling.tileWidth * sizeof(float));
        product_ = productBuf_.template Get<float>();
        sum_ = sumBuf_.template Get<float>();
        if constexpr (!IS_FLOAT<T>) {
            pipe.InitBuffer(dyBuf_, elements * sizeof(float));
            pipe.InitBuffer(yBuf_, elements * sizeof(float));
            dyFloat_ = dyBuf_.template Get<float>();
            yFloat_ = yBuf_.template Get<float>();
        }
    }

    __aicore__ inline void Process()
    {
        const uint64_t first = tiling_.tilesPerCore * AscendC::GetBlockIdx();
        const uint64_t last =
            first + tiling_.tilesPerCore < tiling_.tiles ? first + tiling_.tilesPerCore : tiling_.tiles;
        const bool whole = tiling_.n <= tiling_.chunkRows;
        for (uint64_t index = first; index < last; ++index) {
            const SoftmaxColumnTile tile = SoftmaxColumnTileAt<T>(tiling_, index);
            AscendC::Duplicate(sum_, 0.0f, static_cast<int32_t>(tile.width));
            for (uint32_t row = 0; row < tiling_.n; row += tiling_.chunkRows) {
                const RowBlock block = ChunkAt(tile, row);
                Load(tile, row, block);
                AscendC::Mul(product_, dy_, y_, static_cast<int32_t>(block.Elements()));
                FoldColumns<AddOf>(sum_, product_, block);
                if (!whole) {
                    Free();
                }
            }
            for (uint32_t row = 0; row < tiling_.n; row += tiling_.chunkRows) {
                const RowBlock block = ChunkAt(tile, row);
                if (!whole) {
                    Load(tile, row, block);
                }
                Combine(tile, row, block);
            }
        }
    }

private:
    __aicore__ inline RowBlock ChunkAt(const SoftmaxColumnTile& tile, uint32_t row) const
    {
        const uint32_t left = tiling_.n - row;
        return {left < tiling_.chunkRows ? left : tiling_.chunkRows, tile.width, tile.width};
    }

    __aicore__ inline void Load(const SoftmaxColumnTile& tile, uint32_t row, const RowBlock& block)
    {
        const uint64_t offset = tile.offset + row * tiling_.inner;
        const Rows shape{block.rows, tile.cols, tile.width, tiling_.inner};
        dyLocal_ = inQueueDy_.template AllocTensor<T>();
        LoadRows(dyLocal_, dyGm_[offset], shape, true);
        inQueueDy_.EnQue(dyLocal_);
        yLocal_ = inQueueY_.template AllocTensor<T>();
        LoadRows(yLocal_, yGm_[offset], shape, true);
        inQueueY_.EnQue(yLocal_);
        dyLocal_ = inQueueDy_.template DeQue<T>();
        yLocal_ = inQueueY_.template DeQue<T>();
        dy_ = ToFloat(dyLocal_, dyFloat_, block.Elements());
        y_ = ToFloat(yLocal_, yFloat_, block.Elements());
    }

    __aicore__ inline void Free()
    {
        inQueueDy_.FreeTensor(dyLocal_);
        inQueueY_.FreeTensor(yLocal_);
    }

    __aicore__ inline void Combine(const SoftmaxColumnTile& tile, uint32_t row, const RowBlock& block)
    {
        const int32_t count = static_cast<int32_t>(block.Elements());
        AscendC::LocalTensor<T> dxLocal = outQueueDx_.template AllocTensor<T>();
        WithColumns<SubOf>(product_, dy_, sum_, block);
        if constexpr (IS_FLOAT<T>) {
            AscendC::Mul(dxLocal, product_, y_, count);
        } else {
            AscendC::Mul(product_, product_, y_, count);
            FromFloat(dxLocal, product_, block.Elements());
        }
        Free();
        StoreQueued(outQueueDx_, dxGm_[tile.offset + row * tiling_.inner], dxLocal,
                    {block.rows, tile.cols, tile.width, tiling_.inner});
    }

    SoftmaxTilingData tiling_;
    AscendC::GlobalTensor<T> dyGm_;
    AscendC::GlobalTensor<T> yGm_;
    AscendC::GlobalTensor<T> dxGm_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueueDy_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueueY_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> outQueueDx_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> productBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> sumBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> dyBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> yBuf_;
    AscendC::LocalTensor<float> product_;
    AscendC::LocalTensor<float> sum_;
    AscendC::LocalTensor<float> dyFloat_;  // for 16-bit T
    AscendC::LocalTensor<float> yFloat_;
    AscendC::LocalTensor<T> dyLocal_;  // the chunk at hand
    AscendC::LocalTensor<T> yLocal_;
    AscendC::LocalTensor<float> dy_;
    AscendC::LocalTensor<float> y_;
};

template <typename T>
__aicore__ inline void SoftmaxGradKernel(GM_ADDR dy, GM_ADDR y, GM_ADDR dx, GM_ADDR workspace,
                                         const SoftmaxGradTilingData& tiling)
{
    AscendC::TPipe pipe;
    if (tiling.inner == 1) {
        SoftmaxGradRows<T, SoftmaxGradTilingData> kernel;
        kernel.Init(dy, y, dx, workspace, tiling, 1.0f, pipe);
        kernel.Process();
    } else {
        SoftmaxGradColumns<T> kernel;
        kernel.Init(dy, y, dx, tiling, pipe);
        kernel.Process();
    }
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_SOFTMAX_GRAD_KERNEL_H
