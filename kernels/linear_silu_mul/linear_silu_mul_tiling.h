/*!
 * Calculates the tiling of linear_silu_mul, in plain C++.
 */
#ifndef MS_ASCEND_OPS_LINEAR_SILU_MUL_TILING_H
#define MS_ASCEND_OPS_LINEAR_SILU_MUL_TILING_H

#include "linear_silu_mul_params.h"
#include "primitives/linear_gated_tiling.h"
#include "primitives/product_tiling.h"

namespace ms_ascend_ops {

using LinearSiluMulTilingData = ProductTilingData;

inline LaunchConfig LinearSiluMulTiling(const LinearSiluMulParams& params, const Platform& platform,
                                        LinearSiluMulTilingData& tiling)
{
    return linear_gated::Plan(params.x, params.gate_weight, SILU_SCRATCH, platform, tiling);
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_LINEAR_SILU_MUL_TILING_H
