/*!
 * y = scale * x^2 and its gradient dx = 2 * scale * x * dy.
 *
 * Plan: every core takes consecutive tiles; tensors in double-buffered queues, so that a tile is loaded while the one
 * before it is calculated. Calculated in float, rounded once.
 * Bound: memory (each tensor once).
 */
#ifndef MS_ASCEND_OPS_${NAME}_KERNEL_H
#define MS_ASCEND_OPS_${NAME}_KERNEL_H

#include "${name}_tiling.h"
#include "kernel_operator.h"
#include "primitives/flat.h"
#include "primitives/tile.h"

namespace ms_ascend_ops {

template <typename T>
class ${Name}Forward {
public:
    __aicore__ inline void Init(GM_ADDR x, GM_ADDR y, const ${Name}TilingData& tiling, AscendC::TPipe& pipe)
    {
        scale_ = tiling.scale;
        xGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(x), tiling.size);
        yGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(y), tiling.size);
        // The sum of these is what the tiling counted for each element.
        pipe.InitBuffer(inQueueX_, 2, tiling.tileLength * sizeof(T));
        pipe.InitBuffer(outQueueY_, 2, tiling.tileLength * sizeof(T));
        pipe.InitBuffer(xFloatBuf_, tiling.tileLength * sizeof(float));
        pipe.InitBuffer(resultBuf_, tiling.tileLength * sizeof(float));
    }

    // One tile: load, calculate, store.
    __aicore__ inline void Tile(uint64_t offset, uint32_t count)
    {
        LoadTile(inQueueX_, xGm_[offset], count);
        Compute(static_cast<int32_t>(count));
        StoreTile(yGm_[offset], outQueueY_, count);
    }

private:
    __aicore__ inline void Compute(int32_t count)
    {
        AscendC::LocalTensor<T> x = inQueueX_.template DeQue<T>();
        AscendC::LocalTensor<T> y = outQueueY_.template AllocTensor<T>();
        // 16-bit types are widened to float; float is used as it is.
        const AscendC::LocalTensor<float> xFloat = ToFloat(x, xFloatBuf_.template Get<float>(), count);
        const AscendC::LocalTensor<float> result = FloatTarget(y, resultBuf_.template Get<float>());
        AscendC::Mul(result, xFloat, xFloat, count);
        AscendC::Muls(result, result, scale_, count);
        FromFloat(y, result, count);
        inQueueX_.FreeTensor(x);
        outQueueY_.EnQue(y);
    }

    float scale_ = 0.0f;
    AscendC::GlobalTensor<T> xGm_;
    AscendC::GlobalTensor<T> yGm_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueueX_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> outQueueY_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> xFloatBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> resultBuf_;
};

template <typename T>
class ${Name}Backward {
public:
    __aicore__ inline void Init(GM_ADDR dy, GM_ADDR x, GM_ADDR dx, const ${Name}GradTilingData& tiling,
                                AscendC::TPipe& pipe)
    {
        scale_ = tiling.scale;
        dyGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(dy), tiling.size);
        xGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(x), tiling.size);
        dxGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(dx), tiling.size);
        pipe.InitBuffer(inQueueDy_, 2, tiling.tileLength * sizeof(T));
        pipe.InitBuffer(inQueueX_, 2, tiling.tileLength * sizeof(T));
        pipe.InitBuffer(outQueueDx_, 2, tiling.tileLength * sizeof(T));
        pipe.InitBuffer(dyFloatBuf_, tiling.tileLength * sizeof(float));
        pipe.InitBuffer(xFloatBuf_, tiling.tileLength * sizeof(float));
        pipe.InitBuffer(resultBuf_, tiling.tileLength * sizeof(float));
    }

    __aicore__ inline void Tile(uint64_t offset, uint32_t count)
    {
        LoadTile(inQueueDy_, dyGm_[offset], count);
        LoadTile(inQueueX_, xGm_[offset], count);
        Compute(static_cast<int32_t>(count));
        StoreTile(dxGm_[offset], outQueueDx_, count);
    }

private:
    __aicore__ inline void Compute(int32_t count)
    {
        AscendC::LocalTensor<T> dy = inQueueDy_.template DeQue<T>();
        AscendC::LocalTensor<T> x = inQueueX_.template DeQue<T>();
        AscendC::LocalTensor<T> dx = outQueueDx_.template AllocTensor<T>();
        const AscendC::LocalTensor<float> dyFloat = ToFloat(dy, dyFloatBuf_.template Get<float>(), count);
        const AscendC::LocalTensor<float> xFloat = ToFloat(x, xFloatBuf_.template Get<float>(), count);
        const AscendC::LocalTensor<float> result = FloatTarget(dx, resultBuf_.template Get<float>());
        AscendC::Muls(result, xFloat, 2.0f * scale_, count);
        AscendC::Mul(result, result, dyFloat, count);
        FromFloat(dx, result, count);
        inQueueDy_.FreeTensor(dy);
        inQueueX_.FreeTensor(x);
        outQueueDx_.EnQue(dx);
    }

    float scale_ = 0.0f;
    AscendC::GlobalTensor<T> dyGm_;
    AscendC::GlobalTensor<T> xGm_;
    AscendC::GlobalTensor<T> dxGm_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueueDy_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueueX_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> outQueueDx_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> dyFloatBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> xFloatBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> resultBuf_;
};

// The generated entry points call this: the inputs and outputs of the definition, the workspace, the tiling.
template <typename T>
__aicore__ inline void ${Name}Kernel(GM_ADDR x, GM_ADDR y, [[maybe_unused]] GM_ADDR workspace,
                                     const ${Name}TilingData& tiling)
{
    AscendC::TPipe pipe;
    ${Name}Forward<T> kernel;
    kernel.Init(x, y, tiling, pipe);
    ForTiles(tiling, kernel);
}

template <typename T>
__aicore__ inline void ${Name}GradKernel(GM_ADDR dy, GM_ADDR x, GM_ADDR dx, [[maybe_unused]] GM_ADDR workspace,
                                         const ${Name}GradTilingData& tiling)
{
    AscendC::TPipe pipe;
    ${Name}Backward<T> kernel;
    kernel.Init(dy, x, dx, tiling, pipe);
    ForTiles(tiling, kernel);
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_${NAME}_KERNEL_H
