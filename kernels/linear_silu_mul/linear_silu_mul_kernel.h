/*!
 * Computes y = silu(x gate_weight^T) * (x up_weight^T). For the plan see primitives/linear_gated_kernel.h.
 */
#ifndef MS_ASCEND_OPS_LINEAR_SILU_MUL_KERNEL_H
#define MS_ASCEND_OPS_LINEAR_SILU_MUL_KERNEL_H

#include "linear_silu_mul_tiling.h"
#include "primitives/linear_gated_kernel.h"
#include "primitives/silu.h"

namespace ms_ascend_ops {

template <typename T>
__aicore__ inline void LinearSiluMulKernel(GM_ADDR x, GM_ADDR gateWeight, GM_ADDR upWeight, GM_ADDR y,
                                           GM_ADDR workspace, const LinearSiluMulTilingData& tiling)
{
    RunLinearGated<T, Silu>(x, gateWeight, upWeight, y, workspace, tiling);
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_LINEAR_SILU_MUL_KERNEL_H
