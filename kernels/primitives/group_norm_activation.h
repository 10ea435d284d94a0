/*!
 * Applies an activation of group_norm, by its number in the order of the definition: none, silu, relu.
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_GROUP_NORM_ACTIVATION_H
#define MS_ASCEND_OPS_PRIMITIVES_GROUP_NORM_ACTIVATION_H

#include "kernel_operator.h"
#include "primitives/relu.h"
#include "primitives/silu.h"

namespace ms_ascend_ops {

constexpr uint32_t GROUP_NORM_RELU = 2;

// dst = act(z); dst is not z.
__aicore__ inline void ActivateNorm(uint32_t activation, const AscendC::LocalTensor<float>& dst,
                                    const AscendC::LocalTensor<float>& z, uint32_t elements)
{
    const int32_t count = static_cast<int32_t>(elements);
    if (activation == GROUP_NORM_RELU) {
        Relu::Forward(dst, z, 0, z, z, count);
        return;
    }
    Silu::Forward(dst, z, 0, z, z, count);  // it uses neither scratch nor ones
}

// slope = act'(z). `ones` is a block of ones; all tensors are different.
__aicore__ inline void SlopeOfNorm(uint32_t activation, const AscendC::LocalTensor<float>& slope,
                                   const AscendC::LocalTensor<float>& z, const AscendC::LocalTensor<float>& scratch,
                                   const AscendC::LocalTensor<float>& sigmoid, const AscendC::LocalTensor<float>& ones,
                                   uint32_t elements)
{
    const int32_t count = static_cast<int32_t>(elements);
    if (activation == GROUP_NORM_RELU) {
        Relu::Slope(slope, z, count);
        return;
    }
    Silu::Backward<true>(scratch, slope, sigmoid, 0, z, ones, count);
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_GROUP_NORM_ACTIVATION_H
