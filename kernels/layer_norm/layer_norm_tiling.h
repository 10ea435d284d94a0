/*!
 * Calculates the tiling of layer_norm and layer_norm_grad, in plain C++.
 */
#ifndef MS_ASCEND_OPS_LAYER_NORM_TILING_H
#define MS_ASCEND_OPS_LAYER_NORM_TILING_H

#include "layer_norm_params.h"
#include "primitives/row_norm_tiling.h"

namespace ms_ascend_ops {

using LayerNormTilingData = RowNormTilingData;
using LayerNormGradTilingData = RowNormGradTilingData;

inline LaunchConfig LayerNormTiling(const LayerNormParams& params, const Platform& platform,
                                    LayerNormTilingData& tiling)
{
    return row_norm::LayerForward(params.x, params.gamma, false, params.activation == LayerNormActivation::RELU,
                                  params.epsilon, platform, tiling);
}

inline LaunchConfig LayerNormGradTiling(const LayerNormGradParams& params, const Platform& platform,
                                        LayerNormGradTilingData& tiling)
{
    return row_norm::LayerBackward(params.x, params.gamma, false, params.activation == LayerNormActivation::RELU,
                                   platform, tiling);
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_LAYER_NORM_TILING_H
