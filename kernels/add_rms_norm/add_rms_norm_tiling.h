/*!
 * Calculates the tiling of add_rms_norm and add_rms_norm_grad, in plain C++.
 */
#ifndef MS_ASCEND_OPS_ADD_RMS_NORM_TILING_H
#define MS_ASCEND_OPS_ADD_RMS_NORM_TILING_H

#include "add_rms_norm_params.h"
#include "primitives/row_norm_tiling.h"

namespace ms_ascend_ops {

using AddRmsNormTilingData = RowNormTilingData;
using AddRmsNormGradTilingData = RowNormGradTilingData;

inline LaunchConfig AddRmsNormTiling(const AddRmsNormParams& params, const Platform& platform,
                                     AddRmsNormTilingData& tiling)
{
    return row_norm::RmsForward(params.x1, params.gamma, true, params.epsilon,
                                params.scheme == AddRmsNormScheme::ONE_PLUS_GAMMA, platform, tiling);
}

inline LaunchConfig AddRmsNormGradTiling(const AddRmsNormGradParams& params, const Platform& platform,
                                         AddRmsNormGradTilingData& tiling)
{
    return row_norm::RmsBackward(params.x, params.gamma, true, params.scheme == AddRmsNormScheme::ONE_PLUS_GAMMA,
                                 platform, tiling);
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_ADD_RMS_NORM_TILING_H
