/*!
 * Computes SiLU and its derivative on float tensors. x / (1 + exp(-x)) neither overflows nor cancels: exp(-x) may
 * become infinite, the quotient is then -0.
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_SILU_H
#define MS_ASCEND_OPS_PRIMITIVES_SILU_H

#include "kernel_operator.h"
#include "primitives/ones.h"

namespace ms_ascend_ops {

struct Silu {
    // dst = x * sigmoid(x); dst is not x.
    static __aicore__ inline void Forward(const AscendC::LocalTensor<float>& dst,
                                          [[maybe_unused]] const AscendC::LocalTensor<float>& scratch,
                                          [[maybe_unused]] uint32_t stride, const AscendC::LocalTensor<float>& x,
                                          [[maybe_unused]] const AscendC::LocalTensor<float>& ones, int32_t count)
    {
        AscendC::Muls(dst, x, -1.0f, count);
        AscendC::Exp(dst, dst, count);
        AscendC::Adds(dst, dst, 1.0f, count);
        AscendC::Div(dst, x, dst, count);
    }

    // value = x * s, slope = s + x * s * (1 - s) with s = sigmoid(x). `ones` is a block of ones. The three tensors and
    // x are all different. VALUE is true: the slope needs it.
    template <bool VALUE>
    static __aicore__ inline void Backward(const AscendC::LocalTensor<float>& value,
                                           const AscendC::LocalTensor<float>& slope,
                                           const AscendC::LocalTensor<float>& sigmoid, [[maybe_unused]] uint32_t stride,
                                           const AscendC::LocalTensor<float>& x,
                                           const AscendC::LocalTensor<float>& ones, int32_t count)
    {
        AscendC::Muls(sigmoid, x, -1.0f, count);
        AscendC::Exp(sigmoid, sigmoid, count);
        AscendC::Adds(sigmoid, sigmoid, 1.0f, count);
        OneOver(sigmoid, ones, sigmoid, count);
        AscendC::Mul(value, x, sigmoid, count);
        OneMinus(slope, ones, sigmoid, count);
        AscendC::Mul(slope, slope, value, count);
        AscendC::Add(slope, slope, sigmoid, count);
    }
};

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_SILU_H
