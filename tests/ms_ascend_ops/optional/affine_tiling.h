/*!
 * Tiling of affine and affine_grad. Plain C++.
 */
#ifndef MS_ASCEND_OPS_AFFINE_TILING_H
#define MS_ASCEND_OPS_AFFINE_TILING_H

#include "affine_params.h"
#include "primitives/flat_tiling.h"

namespace ms_ascend_ops {

struct AffineTilingData {
    uint64_t size;
    uint64_t tiles;
    uint64_t tilesPerCore;
    uint32_t tileLength;
    uint32_t hasScale;
    uint32_t hasShift;
    float factor;
};

using AffineGradTilingData = AffineTilingData;

inline LaunchConfig AffineTiling(const AffineParams& params, const Platform& platform, AffineTilingData& tiling)
{
    const uint32_t bytes = SizeOf(params.x.dtype);
    tiling.factor = params.factor;
    tiling.hasScale = params.scale.IsGiven() ? 1 : 0;
    tiling.hasShift = params.shift.IsGiven() ? 1 : 0;
    // x, shift and y in two buffers each; scale, which is float, in two; two temporaries.
    const uint32_t perElement = 6 * bytes + 16;
    return flat::Plan(params.x.Size(), bytes, platform.ubBytes, perElement, 3 * bytes + 4, platform, tiling);
}

inline LaunchConfig AffineGradTiling(const AffineGradParams& params, const Platform& platform,
                                     AffineGradTilingData& tiling)
{
    AffineParams forward{params.dy, params.scale, {}, params.factor};
    forward.shift.rank = -1;
    return AffineTiling(forward, platform, tiling);
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_AFFINE_TILING_H
