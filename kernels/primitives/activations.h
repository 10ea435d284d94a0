/*!
 * Applies the activation behind a product, by its number in the order of the definitions: none, relu, gelu, gelu_tanh,
 * silu, relu6, hard_swish.
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_ACTIVATIONS_H
#define MS_ASCEND_OPS_PRIMITIVES_ACTIVATIONS_H

#include "kernel_operator.h"
#include "primitives/gelu.h"
#include "primitives/relu.h"
#include "primitives/silu.h"

namespace ms_ascend_ops {

// It has the functions of silu.h.
struct NoActivation {
    static __aicore__ inline void Forward(const FloatTensor& dst, const FloatTensor&, uint32_t, const FloatTensor& x,
                                          const FloatTensor&, int32_t count)
    {
        AscendC::Muls(dst, x, 1.0f, count);  // a copy
    }
};

// dst = activation(x) for results of T; dst is not x. Otherwise it is as Forward of silu.h.
template <typename T>
__aicore__ inline void Activate(uint32_t activation, const FloatTensor& dst, const FloatTensor& scratch,
                                uint32_t stride, const FloatTensor& x, const FloatTensor& ones, int32_t count)
{
    switch (activation) {
        case 1:
            Relu::Forward(dst, scratch, stride, x, ones, count);
            break;
        case 2:
            GeluErf<T>::Forward(dst, scratch, stride, x, ones, count);
            break;
        case 3:
            GeluTanh::Forward(dst, scratch, stride, x, ones, count);
            break;
        case 4:
            Silu::Forward(dst, scratch, stride, x, ones, count);
            break;
        case 5:
            Relu6::Forward(dst, scratch, stride, x, ones, count);
            break;
        case 6:
            HardSwish::Forward(dst, scratch, stride, x, ones, count);
            break;
        default:
            NoActivation::Forward(dst, scratch, stride, x, ones, count);
            break;
    }
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_ACTIVATIONS_H
