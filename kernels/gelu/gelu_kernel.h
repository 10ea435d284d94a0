/*!
 * Computes y = gelu(x) and its gradient, by error function or by the tanh approximation (primitives/gelu.h).
 *
 * Plan: every core takes consecutive tiles in double-buffered queues. A tile, 9 to 45 KiB a tensor, is as large as the
 * float temporaries leave room for.
 * Bound: memory with the tanh form, except for its gradient in 16 bits. The erf form takes 19 vector instructions an
 * element forward (17 for bfloat16, 15 for half) and 25 in the gradient, casts not counted, against 4 to 12 bytes
 * moved: expected to be bound by the vector unit, as it is on a CPU.
 */
#ifndef MS_ASCEND_OPS_GELU_KERNEL_H
#define MS_ASCEND_OPS_GELU_KERNEL_H

#include "gelu_tiling.h"
#include "kernel_operator.h"
#include "primitives/flat.h"
#include "primitives/gelu.h"
#include "primitives/ones.h"
#include "primitives/tile.h"

namespace ms_ascend_ops {

// Holds the float temporaries of a tile, one after the other in one buffer: scratch, then the moved tensors, unless T
// is float. There may be none.
template <typename T>
class GeluTemporaries {
public:
    // `tensors` are moved.
    __aicore__ inline void Init(uint32_t tensors, const GeluTilingData& tiling, AscendC::TPipe& pipe)
    {
        stride_ = tiling.tileLength;
        scratch_ = tiling.scratch;
        const uint32_t bytes = (scratch_ + (IS_FLOAT<T> ? 0 : tensors)) * stride_ * sizeof(float);
        if (bytes != 0) {
            pipe.InitBuffer(buffer_, bytes);
            first_ = buffer_.template Get<float>();
        }
        ones_ = BlockOfOnes(onesBuf_, pipe);
    }
    // The others follow it, a stride apart.
    __aicore__ inline AscendC::LocalTensor<float> Scratch(uint32_t index) const
    {
        return index == 0 ? first_ : first_[index * stride_];
    }
    // Returns the place of a moved tensor in float, which a float tensor does not need.
    __aicore__ inline AscendC::LocalTensor<float> Moved(uint32_t index) const
    {
        return Scratch(IS_FLOAT<T> ? 0 : scratch_ + index);
    }
    __aicore__ inline uint32_t Stride() const { return stride_; }
    __aicore__ inline const AscendC::LocalTensor<float>& Ones() const { return ones_; }

private:
    uint32_t stride_ = 0;
    uint32_t scratch_ = 0;
    AscendC::TBuf<AscendC::TPosition::VECCALC> buffer_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> onesBuf_;
    AscendC::LocalTensor<float> first_;
    AscendC::LocalTensor<float> ones_;
};

template <typename T, class ACTIVATION>
class GeluForward {
public:
    __aicore__ inline void Init(GM_ADDR x, GM_ADDR y, const GeluTilingData& tiling, AscendC::TPipe& pipe)
    {
        xGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(x), tiling.size);
        yGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(y), tiling.size);
        pipe.InitBuffer(inQueueX_, 2, tiling.tileLength * sizeof(T));
        pipe.InitBuffer(outQueueY_, 2, tiling.tileLength * sizeof(T));
        temporaries_.Init(2, tiling, pipe);
    }

    __aicore__ inline void Tile(uint64_t offset, uint32_t count)
    {
        LoadTile(inQueueX_, xGm_[offset], count);
        AscendC::LocalTensor<T> x = inQueueX_.template DeQue<T>();
        AscendC::LocalTensor<T> y = outQueueY_.template AllocTensor<T>();
        Compute(y, x, count);
        inQueueX_.FreeTensor(x);
        outQueueY_.EnQue(y);
        StoreTile(yGm_[offset], outQueueY_, count);
    }

private:
    __aicore__ inline void Compute(const AscendC::LocalTensor<T>& y, const AscendC::LocalTensor<T>& x, uint32_t count)
    {
        const AscendC::LocalTensor<float> xFloat = ToFloat(x, temporaries_.Moved(0), count);
        const AscendC::LocalTensor<float> yFloat = FloatTarget(y, temporaries_.Moved(1));
        ACTIVATION::Forward(yFloat, temporaries_.Scratch(0), temporaries_.Stride(), xFloat, temporaries_.Ones(),
                            static_cast<int32_t>(count));
        FromFloat(y, yFloat, count);
    }

    AscendC::GlobalTensor<T> xGm_;
    AscendC::GlobalTensor<T> yGm_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueueX_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> outQueueY_;
    GeluTemporaries<T> temporaries_;
};

// Computes dx = dy * slope(x).
template <typename T, class ACTIVATION>
class GeluBackward {
public:
    __aicore__ inline void Init(GM_ADDR dy, GM_ADDR x, GM_ADDR dx, const GeluGradTilingData& tiling,
                                AscendC::TPipe& pipe)
    {
        dyGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(dy), tiling.size);
        xGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(x), tiling.size);
        dxGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(dx), tiling.size);
        pipe.InitBuffer(inQueueDy_, 2, tiling.tileLength * sizeof(T));
        pipe.InitBuffer(inQueueX_, 2, tiling.tileLength * sizeof(T));
        pipe.InitBuffer(outQueueDx_, 2, tiling.tileLength * sizeof(T));
        temporaries_.Init(3, tiling, pipe);
    }

    __aicore__ inline void Tile(uint64_t offset, uint32_t count)
    {
        LoadTile(inQueueDy_, dyGm_[offset], count);
        LoadTile(inQueueX_, xGm_[offset], count);
        AscendC::LocalTensor<T> dy = inQueueDy_.template DeQue<T>();
        AscendC::LocalTensor<T> x = inQueueX_.template DeQue<T>();
        AscendC::LocalTensor<T> dx = outQueueDx_.template AllocTensor<T>();
        Compute(dx, dy, x, count);
        inQueueDy_.FreeTensor(dy);
        inQueueX_.FreeTensor(x);
        outQueueDx_.EnQue(dx);
        StoreTile(dxGm_[offset], outQueueDx_, count);
    }

private:
    __aicore__ inline void Compute(const AscendC::LocalTensor<T>& dx, const AscendC::LocalTensor<T>& dy,
                                   const AscendC::LocalTensor<T>& x, uint32_t count)
    {
        const AscendC::LocalTensor<float> xFloat = ToFloat(x, temporaries_.Moved(0), count);
        const AscendC::LocalTensor<float> dyFloat = ToFloat(dy, temporaries_.Moved(1), count);
        const AscendC::LocalTensor<float> slope = FloatTarget(dx, temporaries_.Moved(2));
        ACTIVATION::template Backward<false>(temporaries_.Scratch(0), slope, temporaries_.Scratch(1),
                                             temporaries_.Stride(), xFloat, temporaries_.Ones(),
                                             static_cast<int32_t>(count));
        AscendC::Mul(slope, slope, dyFloat, static_cast<int32_t>(count));
        FromFloat(dx, slope, count);
    }

    AscendC::GlobalTensor<T> dyGm_;
    AscendC::GlobalTensor<T> xGm_;
    AscendC::GlobalTensor<T> dxGm_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueueDy_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueueX_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> outQueueDx_;
    GeluTemporaries<T> temporaries_;
};

template <typename T, class ACTIVATION>
__aicore__ inline void RunGelu(GM_ADDR x, GM_ADDR y, const GeluTilingData& tiling)
{
    AscendC::TPipe pipe;
    GeluForward<T, ACTIVATION> kernel;
    kernel.Init(x, y, tiling, pipe);
    ForTiles(tiling, kernel);
}

template <typename T, class ACTIVATION>
__aicore__ inline void RunGeluGrad(GM_ADDR dy, GM_ADDR x, GM_ADDR dx, const GeluGradTilingData& tiling)
{
    AscendC::TPipe pipe;
    GeluBackward<T, ACTIVATION> kernel;
    kernel.Init(dy, x, dx, tiling, pipe);
    ForTiles(tiling, kernel);
}

template <typename T>
__aicore__ inline void GeluKernel(GM_ADDR x, GM_ADDR y, [[maybe_unused]] GM_ADDR workspace,
                                  const GeluTilingData& tiling)
{
    if (tiling.tanh == 1) {
        RunGelu<T, GeluTanh>(x, y, tiling);
    } else {
        RunGelu<T, GeluErf<T>>(x, y, tiling);
    }
}

template <typename T>
__aicore__ inline void GeluGradKernel(GM_ADDR dy, GM_ADDR x, GM_ADDR dx, [[maybe_unused]] GM_ADDR workspace,
                                      const GeluGradTilingData& tiling)
{
    if (tiling.tanh == 1) {
        RunGeluGrad<T, GeluTanh>(dy, x, dx, tiling);
    } else {
        RunGeluGrad<T, GeluErf<T>>(dy, x, dx, tiling);
    }
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_GELU_KERNEL_H
