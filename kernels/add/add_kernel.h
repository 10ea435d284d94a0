/*!
 * Computes z = x + y, and is the smallest complete kernel.
 *
 * Plan: every core takes consecutive tiles; x, y and z have double-buffered queues, so that a tile is loaded while the
 * one before it is calculated and the one before that is stored. 16-bit types are added in float and rounded once.
 * Bound: memory (each tensor once).
 */
#ifndef MS_ASCEND_OPS_ADD_KERNEL_H
#define MS_ASCEND_OPS_ADD_KERNEL_H

#include "add_tiling.h"
#include "kernel_operator.h"
#include "primitives/flat.h"
#include "primitives/tile.h"

namespace ms_ascend_ops {

template <typename T>
class AddForward {
public:
    __aicore__ inline void Init(GM_ADDR x, GM_ADDR y, GM_ADDR z, const AddTilingData& tiling, AscendC::TPipe& pipe)
    {
        xGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(x), tiling.size);
        yGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(y), tiling.size);
        zGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(z), tiling.size);
        pipe.InitBuffer(inQueueX_, 2, tiling.tileLength * sizeof(T));
        pipe.InitBuffer(inQueueY_, 2, tiling.tileLength * sizeof(T));
        pipe.InitBuffer(outQueueZ_, 2, tiling.tileLength * sizeof(T));
        if constexpr (!IS_FLOAT<T>) {
            pipe.InitBuffer(xFloatBuf_, tiling.tileLength * sizeof(float));
            pipe.InitBuffer(yFloatBuf_, tiling.tileLength * sizeof(float));
            xFloat_ = xFloatBuf_.template Get<float>();
            yFloat_ = yFloatBuf_.template Get<float>();
        }
    }

    __aicore__ inline void Tile(uint64_t offset, uint32_t count)
    {
        LoadTile(inQueueX_, xGm_[offset], count);
        LoadTile(inQueueY_, yGm_[offset], count);
        Compute(count);
        StoreTile(zGm_[offset], outQueueZ_, count);
    }

private:
    __aicore__ inline void Compute(uint32_t count)
    {
        AscendC::LocalTensor<T> x = inQueueX_.template DeQue<T>();
        AscendC::LocalTensor<T> y = inQueueY_.template DeQue<T>();
        AscendC::LocalTensor<T> z = outQueueZ_.template AllocTensor<T>();
        if constexpr (IS_FLOAT<T>) {
            AscendC::Add(z, x, y, static_cast<int32_t>(count));
        } else {
            AscendC::Add(xFloat_, ToFloat(x, xFloat_, count), ToFloat(y, yFloat_, count), static_cast<int32_t>(count));
            FromFloat(z, xFloat_, count);
        }
        inQueueX_.FreeTensor(x);
        inQueueY_.FreeTensor(y);
        outQueueZ_.EnQue(z);
    }

    AscendC::GlobalTensor<T> xGm_;
    AscendC::GlobalTensor<T> yGm_;
    AscendC::GlobalTensor<T> zGm_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueueX_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueueY_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> outQueueZ_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> xFloatBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> yFloatBuf_;
    AscendC::LocalTensor<float> xFloat_;  // for 16-bit T
    AscendC::LocalTensor<float> yFloat_;
};

template <typename T>
__aicore__ inline void AddKernel(GM_ADDR x, GM_ADDR y, GM_ADDR z, [[maybe_unused]] GM_ADDR workspace,
                                 const AddTilingData& tiling)
{
    AscendC::TPipe pipe;
    AddForward<T> kernel;
    kernel.Init(x, y, z, tiling, pipe);
    ForTiles(tiling, kernel);
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_ADD_KERNEL_H
