/*!
 * y = factor * x * scale + shift, each of the two if it is given: an operator with optional inputs, for tests. Its
 * gradient dx = factor * dy * scale is the same without shift.
 */
#ifndef MS_ASCEND_OPS_AFFINE_KERNEL_H
#define MS_ASCEND_OPS_AFFINE_KERNEL_H

#include "affine_tiling.h"
#include "kernel_operator.h"
#include "primitives/flat.h"
#include "primitives/tile.h"

namespace ms_ascend_ops {

template <typename T, typename G>
class AffineForward {
public:
    __aicore__ inline void Init(GM_ADDR x, GM_ADDR scale, GM_ADDR shift, GM_ADDR y, const AffineTilingData& tiling,
                                AscendC::TPipe& pipe)
    {
        factor_ = tiling.factor;
        hasScale_ = tiling.hasScale != 0;
        hasShift_ = tiling.hasShift != 0;
        xGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(x), tiling.size);
        yGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(y), tiling.size);
        pipe.InitBuffer(inQueueX_, 2, tiling.tileLength * sizeof(T));
        pipe.InitBuffer(outQueueY_, 2, tiling.tileLength * sizeof(T));
        if (hasScale_) {
            scaleGm_.SetGlobalBuffer(reinterpret_cast<__gm__ G*>(scale), tiling.size);
            pipe.InitBuffer(inQueueScale_, 2, tiling.tileLength * sizeof(G));
        }
        if (hasShift_) {
            shiftGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(shift), tiling.size);
            pipe.InitBuffer(inQueueShift_, 2, tiling.tileLength * sizeof(T));
        }
        pipe.InitBuffer(floatBuf_, tiling.tileLength * sizeof(float));
        pipe.InitBuffer(resultBuf_, tiling.tileLength * sizeof(float));
    }

    __aicore__ inline void Tile(uint64_t offset, uint32_t count)
    {
        LoadTile(inQueueX_, xGm_[offset], count);
        if (hasScale_) {
            LoadTile(inQueueScale_, scaleGm_[offset], count);
        }
        if (hasShift_) {
            LoadTile(inQueueShift_, shiftGm_[offset], count);
        }
        Compute(static_cast<int32_t>(count));
        StoreTile(yGm_[offset], outQueueY_, count);
    }

private:
    __aicore__ inline void Compute(int32_t count)
    {
        AscendC::LocalTensor<T> x = inQueueX_.template DeQue<T>();
        AscendC::LocalTensor<T> y = outQueueY_.template AllocTensor<T>();
        const AscendC::LocalTensor<float> scratch = floatBuf_.template Get<float>();
        const AscendC::LocalTensor<float> result = FloatTarget(y, resultBuf_.template Get<float>());
        AscendC::Muls(result, ToFloat(x, scratch, count), factor_, count);
        inQueueX_.FreeTensor(x);
        if (hasScale_) {
            AscendC::LocalTensor<G> scale = inQueueScale_.template DeQue<G>();
            AscendC::Mul(result, result, ToFloat(scale, scratch, count), count);
            inQueueScale_.FreeTensor(scale);
        }
        if (hasShift_) {
            AscendC::LocalTensor<T> shift = inQueueShift_.template DeQue<T>();
            AscendC::Add(result, result, ToFloat(shift, scratch, count), count);
            inQueueShift_.FreeTensor(shift);
        }
        FromFloat(y, result, count);
        outQueueY_.EnQue(y);
    }

    float factor_ = 0.0f;
    bool hasScale_ = false;
    bool hasShift_ = false;
    AscendC::GlobalTensor<T> xGm_;
    AscendC::GlobalTensor<G> scaleGm_;
    AscendC::GlobalTensor<T> shiftGm_;
    AscendC::GlobalTensor<T> yGm_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueueX_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueueScale_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueueShift_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> outQueueY_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> floatBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> resultBuf_;
};

template <typename T, typename G>
__aicore__ inline void AffineKernel(GM_ADDR x, GM_ADDR scale, GM_ADDR shift, GM_ADDR y,
                                    [[maybe_unused]] GM_ADDR workspace, const AffineTilingData& tiling)
{
    AscendC::TPipe pipe;
    AffineForward<T, G> kernel;
    kernel.Init(x, scale, shift, y, tiling, pipe);
    ForTiles(tiling, kernel);
}

template <typename T, typename G>
__aicore__ inline void AffineGradKernel(GM_ADDR dy, GM_ADDR scale, GM_ADDR dx, GM_ADDR workspace,
                                        const AffineGradTilingData& tiling)
{
    AffineKernel<T, G>(dy, scale, nullptr, dx, workspace, tiling);
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_AFFINE_KERNEL_H
