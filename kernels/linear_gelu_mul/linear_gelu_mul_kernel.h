/*!
 * Computes y = gelu(x gate_weight^T) * (x up_weight^T). For the plan see primitives/linear_gated_kernel.h, for the form
 * of GELU primitives/gelu.h. The error function is that of float for every T: the error of the short form for 16 bits,
 * of a gate far below 0, would be seen behind a large product, and GELU takes a small part of the products' time.
 */
#ifndef MS_ASCEND_OPS_LINEAR_GELU_MUL_KERNEL_H
#define MS_ASCEND_OPS_LINEAR_GELU_MUL_KERNEL_H

#include "linear_gelu_mul_tiling.h"
#include "primitives/gelu.h"
#include "primitives/linear_gated_kernel.h"

namespace ms_ascend_ops {

template <typename T>
__aicore__ inline void LinearGeluMulKernel(GM_ADDR x, GM_ADDR gateWeight, GM_ADDR upWeight, GM_ADDR y,
                                           GM_ADDR workspace, const LinearGeluMulTilingData& tiling)
{
    if (tiling.activation == 1) {
        RunLinearGated<T, GeluTanh>(x, gateWeight, upWeight, y, workspace, tiling);
    } else {
        RunLinearGated<T, GeluErf<float>>(x, gateWeight, upWeight, y, workspace, tiling);
    }
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_LINEAR_GELU_MUL_KERNEL_H
