/*!
 * Calculates the tiling of group_norm and group_norm_grad, in plain C++.
 * For the plan see primitives/group_norm_tiling.h.
 */
#ifndef MS_ASCEND_OPS_GROUP_NORM_TILING_H
#define MS_ASCEND_OPS_GROUP_NORM_TILING_H

#include "group_norm_params.h"
#include "primitives/group_norm_tiling.h"

namespace ms_ascend_ops {

using GroupNormTilingData = NormGroupsTilingData;
using GroupNormGradTilingData = NormGroupsTilingData;

// x and y; the shifted values and one temporary; A, B and K of a channel; K and two sums of each piece, of groups if
// channels come first.
inline LaunchConfig GroupNormTiling(const GroupNormParams& params, const Platform& platform,
                                    GroupNormTilingData& tiling)
{
    return group_norm::Plan(params.x, SizeOf(params.gamma.dtype), params.num_groups,
                            params.data_format == GroupNormDataFormat::NHWC, static_cast<uint32_t>(params.activation),
                            params.epsilon, {2, 2, 3, 3, 3, true}, platform, tiling);
}

// dy, x and dx; temporaries; five values of a channel; two sums of each piece; seven arrays.
inline LaunchConfig GroupNormGradTiling(const GroupNormGradParams& params, const Platform& platform,
                                        GroupNormGradTilingData& tiling)
{
    return group_norm::Plan(
        params.x, SizeOf(params.gamma.dtype), params.num_groups, params.data_format == GroupNormDataFormat::NHWC,
        static_cast<uint32_t>(params.activation), params.epsilon,
        {3, params.activation == GroupNormActivation::NONE ? 3u : 6u, 5, 2, 7, false}, platform, tiling);
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_GROUP_NORM_TILING_H
