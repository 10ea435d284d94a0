/*!
 * Computes y = gelu(gate) * up of two tensors. For the plan see primitives/gated_kernel.h, for the form of GELU
 * primitives/gelu.h.
 * Bound: memory with the tanh form. The erf form takes 20 vector instructions an element (18 for 16 bits), casts
 * not counted: with 16-bit types expected to be bound by the vector unit.
 */
#ifndef MS_ASCEND_OPS_GELU_MUL_KERNEL_H
#define MS_ASCEND_OPS_GELU_MUL_KERNEL_H

#include "gelu_mul_tiling.h"
#include "primitives/gated_gelu.h"

namespace ms_ascend_ops {

template <typename T>
__aicore__ inline void GeluMulKernel(GM_ADDR gate, GM_ADDR up, GM_ADDR y, [[maybe_unused]] GM_ADDR workspace,
                                     const GeluMulTilingData& tiling)
{
    GatedGelu<T>(gate, up, y, tiling);
}

template <typename T>
__aicore__ inline void GeluMulGradKernel(GM_ADDR dy, GM_ADDR gate, GM_ADDR up, GM_ADDR dgate, GM_ADDR dup,
                                         [[maybe_unused]] GM_ADDR workspace, const GeluMulGradTilingData& tiling)
{
    GatedGeluGrad<T>(dy, gate, up, dgate, dup, tiling);
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_GELU_MUL_KERNEL_H
