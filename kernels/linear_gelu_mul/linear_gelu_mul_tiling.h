/*!
 * Calculates the tiling of linear_gelu_mul, in plain C++.
 */
#ifndef MS_ASCEND_OPS_LINEAR_GELU_MUL_TILING_H
#define MS_ASCEND_OPS_LINEAR_GELU_MUL_TILING_H

#include "linear_gelu_mul_params.h"
#include "primitives/linear_gated_tiling.h"
#include "primitives/product_tiling.h"

namespace ms_ascend_ops {

using LinearGeluMulTilingData = ProductTilingData;

inline LaunchConfig LinearGeluMulTiling(const LinearGeluMulParams& params, const Platform& platform,
                                        LinearGeluMulTilingData& tiling)
{
    const bool tanh = params.approximate == LinearGeluMulApproximate::TANH;
    tiling.activation = tanh ? 1 : 0;
    return linear_gated::Plan(params.x, params.gate_weight, GeluScratch(tanh, sizeof(float)), platform, tiling);
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_LINEAR_GELU_MUL_TILING_H
