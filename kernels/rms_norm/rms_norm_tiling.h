/*!
 * Calculates the tiling of rms_norm and rms_norm_grad, in plain C++.
 */
#ifndef MS_ASCEND_OPS_RMS_NORM_TILING_H
#define MS_ASCEND_OPS_RMS_NORM_TILING_H

#include "primitives/row_norm_tiling.h"
#include "rms_norm_params.h"

namespace ms_ascend_ops {

using RmsNormTilingData = RowNormTilingData;
using RmsNormGradTilingData = RowNormGradTilingData;

inline LaunchConfig RmsNormTiling(const RmsNormParams& params, const Platform& platform, RmsNormTilingData& tiling)
{
    return row_norm::RmsForward(params.x, params.gamma, false, params.epsilon,
                                params.scheme == RmsNormScheme::ONE_PLUS_GAMMA, platform, tiling);
}

inline LaunchConfig RmsNormGradTiling(const RmsNormGradParams& params, const Platform& platform,
                                      RmsNormGradTilingData& tiling)
{
    return row_norm::RmsBackward(params.x, params.gamma, false, params.scheme == RmsNormScheme::ONE_PLUS_GAMMA,
                                 platform, tiling);
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_RMS_NORM_TILING_H
