/*!
 * Calculates the tiling of silu_mul and silu_mul_grad, in plain C++.
 */
#ifndef MS_ASCEND_OPS_SILU_MUL_TILING_H
#define MS_ASCEND_OPS_SILU_MUL_TILING_H

#include "primitives/gated_tiling.h"
#include "silu_mul_params.h"

namespace ms_ascend_ops {

using SiluMulTilingData = GatedTilingData;
using SiluMulGradTilingData = GatedTilingData;

inline LaunchConfig SiluMulTiling(const SiluMulParams& params, const Platform& platform, SiluMulTilingData& tiling)
{
    return gated::PlanTwo(params.gate, true, SILU_SCRATCH, platform, tiling);
}

inline LaunchConfig SiluMulGradTiling(const SiluMulGradParams& params, const Platform& platform,
                                      SiluMulGradTilingData& tiling)
{
    return gated::PlanTwo(params.gate, false, SILU_SCRATCH, platform, tiling);
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_SILU_MUL_TILING_H
