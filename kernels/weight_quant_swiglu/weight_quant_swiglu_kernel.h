/*!
 * Computes y = silu(x gate^T) * (x up^T) of weights in 8 or 4 bits, in one tensor. For the plan see
 * primitives/weight_quant_kernel.h.
 */
#ifndef MS_ASCEND_OPS_WEIGHT_QUANT_SWIGLU_KERNEL_H
#define MS_ASCEND_OPS_WEIGHT_QUANT_SWIGLU_KERNEL_H

#include "primitives/weight_quant_kernel.h"
#include "weight_quant_swiglu_tiling.h"

namespace ms_ascend_ops {

template <typename T, typename S>
__aicore__ inline void WeightQuantSwigluKernel(GM_ADDR x, GM_ADDR weight, GM_ADDR scale, GM_ADDR offset, GM_ADDR bias,
                                               GM_ADDR y, GM_ADDR workspace, const WeightQuantSwigluTilingData& tiling)
{
    RunWeightQuant<T, S>(x, weight, scale, offset, bias, y, workspace, tiling);
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_WEIGHT_QUANT_SWIGLU_KERNEL_H
