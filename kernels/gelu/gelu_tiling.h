/*!
 * Tiling of gelu and gelu_grad. Plain C++.
 *
 * GELU needs many float temporaries: a tile is as large as they leave room for, 9 to 23 KiB. Larger copies, calculated
 * in pieces, would save less than the start-up of 26 to 30 more instructions costs (predicted: 5 to 14 % of the time).
 */
#ifndef MS_ASCEND_OPS_GELU_TILING_H
#define MS_ASCEND_OPS_GELU_TILING_H

#include "gelu_params.h"
#include "primitives/flat_tiling.h"

namespace ms_ascend_ops {

struct GeluTilingData {
    uint64_t size;
    uint64_t tiles;
    uint64_t tilesPerCore;
    uint32_t tileLength;
    uint32_t tanh;  // 1: the tanh approximation; 0: by error function
};

using GeluGradTilingData = GeluTilingData;

namespace gelu {

constexpr uint32_t FIXED_BYTES = 64;  // a block of ones, rounding

// tensors: that are moved, in two buffers each. temporaries: float tensors of a tile.
inline LaunchConfig Plan(const TensorDesc& x, uint32_t tensors, uint32_t temporaries, const Platform& platform,
                         GeluTilingData& tiling)
{
    const uint32_t bytes = SizeOf(x.dtype);
    const uint32_t perElement = 2 * tensors * bytes + temporaries * 4;
    return flat::Plan(x.Size(), bytes, platform.ubBytes - FIXED_BYTES, perElement, tensors * bytes, platform, tiling);
}

}  // namespace gelu

// Temporaries: x and y in float unless they are; then scratch (primitives/gelu.h).
inline LaunchConfig GeluTiling(const GeluParams& params, const Platform& platform, GeluTilingData& tiling)
{
    tiling.tanh = params.approximate == GeluApproximate::TANH ? 1 : 0;
    return gelu::Plan(params.x, 2, 4, platform, tiling);
}

// x, dy and the slope in float; the value; scratch.
inline LaunchConfig GeluGradTiling(const GeluGradParams& params, const Platform& platform, GeluGradTilingData& tiling)
{
    tiling.tanh = params.approximate == GeluApproximate::TANH ? 1 : 0;
    return gelu::Plan(params.x, 3, 7, platform, tiling);
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_GELU_TILING_H
