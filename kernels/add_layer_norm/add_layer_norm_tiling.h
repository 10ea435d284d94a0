/*!
 * Calculates the tiling of add_layer_norm and add_layer_norm_grad, in plain C++.
 */
#ifndef MS_ASCEND_OPS_ADD_LAYER_NORM_TILING_H
#define MS_ASCEND_OPS_ADD_LAYER_NORM_TILING_H

#include "add_layer_norm_params.h"
#include "primitives/row_norm_tiling.h"

namespace ms_ascend_ops {

using AddLayerNormTilingData = RowNormTilingData;
using AddLayerNormGradTilingData = RowNormGradTilingData;

inline LaunchConfig AddLayerNormTiling(const AddLayerNormParams& params, const Platform& platform,
                                       AddLayerNormTilingData& tiling)
{
    return row_norm::LayerForward(params.x1, params.gamma, true, false, params.epsilon, platform, tiling);
}

inline LaunchConfig AddLayerNormGradTiling(const AddLayerNormGradParams& params, const Platform& platform,
                                           AddLayerNormGradTilingData& tiling)
{
    return row_norm::LayerBackward(params.x, params.gamma, true, false, platform, tiling);
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_ADD_LAYER_NORM_TILING_H
