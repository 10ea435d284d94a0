/*!
 * Calculates the tiling of geglu and geglu_grad, in plain C++.
 */
#ifndef MS_ASCEND_OPS_GEGLU_TILING_H
#define MS_ASCEND_OPS_GEGLU_TILING_H

#include "geglu_params.h"
#include "primitives/gated_tiling.h"

namespace ms_ascend_ops {

using GegluTilingData = GatedTilingData;
using GegluGradTilingData = GatedTilingData;

namespace geglu {

template <class PARAMS>
inline LaunchConfig Plan(const PARAMS& params, bool forward, const Platform& platform, GatedTilingData& tiling)
{
    const bool tanh = params.approximate == GegluApproximate::TANH;
    const LaunchConfig config = gated::PlanHalves(params.x, params.axis, false, forward,
                                                  GeluScratch(tanh, SizeOf(params.x.dtype)), platform, tiling);
    tiling.form = tanh ? 1 : 0;
    if (!params.activate_left) {
        std::swap(tiling.gateOffset, tiling.upOffset);
        tiling.pairs *= 2;
    }
    return config;
}

}  // namespace geglu

inline LaunchConfig GegluTiling(const GegluParams& params, const Platform& platform, GegluTilingData& tiling)
{
    return geglu::Plan(params, true, platform, tiling);
}

inline LaunchConfig GegluGradTiling(const GegluGradParams& params, const Platform& platform,
                                    GegluGradTilingData& tiling)
{
    return geglu::Plan(params, false, platform, tiling);
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_GEGLU_TILING_H
