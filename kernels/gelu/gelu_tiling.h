/*!
 * Calculates the tiling of gelu and gelu_grad, in plain C++.
 *
 * GELU needs many float temporaries: a tile is as large as they leave room for, 9 to 26 KiB by error function and 10 to
 * 45 KiB by tanh. Larger copies, calculated in pieces, would save less than the start-up of 15 to 28 more instructions
 * costs.
 */
#ifndef MS_ASCEND_OPS_GELU_TILING_H
#define MS_ASCEND_OPS_GELU_TILING_H

#include "gelu_params.h"
#include "primitives/activation_scratch.h"
#include "primitives/flat_tiling.h"

namespace ms_ascend_ops {

struct GeluTilingData {
    uint64_t size;
    uint64_t tiles;
    uint64_t tilesPerCore;
    uint32_t tileLength;
    uint32_t tanh;     // 1: the tanh approximation; 0: by error function
    uint32_t scratch;  // float tensors of a tile's size, may be 0
};

using GeluGradTilingData = GeluTilingData;

namespace gelu {

constexpr uint32_t FIXED_BYTES = 64;  // a block of ones, rounding

// tensors: that are moved, in two buffers each, and in float too unless they are. scratch: float tensors of a tile.
inline LaunchConfig Plan(const TensorDesc& x, uint32_t tensors, uint32_t scratch, const Platform& platform,
                         GeluTilingData& tiling)
{
    const uint32_t bytes = SizeOf(x.dtype);
    tiling.scratch = scratch;
    const uint32_t perElement = tensors * (2 * bytes + (bytes == 4 ? 0 : 4)) + scratch * 4;
    return flat::Plan(x.Size(), bytes, platform.ubBytes - FIXED_BYTES, perElement, tensors * bytes, platform, tiling);
}

}  // namespace gelu

inline LaunchConfig GeluTiling(const GeluParams& params, const Platform& platform, GeluTilingData& tiling)
{
    tiling.tanh = params.approximate == GeluApproximate::TANH ? 1 : 0;
    return gelu::Plan(params.x, 2, GeluScratch(tiling.tanh == 1, SizeOf(params.x.dtype)).forward, platform, tiling);
}

inline LaunchConfig GeluGradTiling(const GeluGradParams& params, const Platform& platform, GeluGradTilingData& tiling)
{
    tiling.tanh = params.approximate == GeluApproximate::TANH ? 1 : 0;
    // The value needs one more, which the gradient does not.
    return gelu::Plan(params.x, 3, GeluScratch(tiling.tanh == 1, SizeOf(params.x.dtype)).backward + 1, platform,
                      tiling);
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_GELU_TILING_H
