/*!
 * Calculates the tiling of swiglu and swiglu_grad, in plain C++.
 */
#ifndef MS_ASCEND_OPS_SWIGLU_TILING_H
#define MS_ASCEND_OPS_SWIGLU_TILING_H

#include "primitives/gated_tiling.h"
#include "swiglu_params.h"

namespace ms_ascend_ops {

using SwigluTilingData = GatedTilingData;
using SwigluGradTilingData = GatedTilingData;

inline LaunchConfig SwigluTiling(const SwigluParams& params, const Platform& platform, SwigluTilingData& tiling)
{
    return gated::PlanHalves(params.x, params.axis, params.interleaved, true, SILU_SCRATCH, platform, tiling);
}

inline LaunchConfig SwigluGradTiling(const SwigluGradParams& params, const Platform& platform,
                                     SwigluGradTilingData& tiling)
{
    return gated::PlanHalves(params.x, params.axis, params.interleaved, false, SILU_SCRATCH, platform, tiling);
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_SWIGLU_TILING_H
