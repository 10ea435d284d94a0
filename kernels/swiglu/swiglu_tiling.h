/*!
 * Tiling of swiglu and swiglu_grad. Plain C++.
 */
#ifndef MS_ASCEND_OPS_SWIGLU_TILING_H
#define MS_ASCEND_OPS_SWIGLU_TILING_H

#include "primitives/gated_tiling.h"
#include "swiglu_params.h"

namespace ms_ascend_ops {

using SwigluTilingData = GatedTilingData;
using SwigluGradTilingData = GatedTilingData;

namespace swiglu {

// x is outer x 2 x inner when its halves lie apart; interleaved, every pair along the axis is such a piece.
inline LaunchConfig Plan(const TensorDesc& x, int64_t axisAttribute, bool interleaved, bool forward,
                         const Platform& platform, GatedTilingData& tiling)
{
    const int32_t axis = static_cast<int32_t>(axisAttribute < 0 ? axisAttribute + x.rank : axisAttribute);
    uint64_t rows = x.Product(0, axis);
    uint64_t length = x.Product(axis + 1, x.rank);
    const uint64_t half = x.dims[axis] / 2;
    if (interleaved) {
        rows *= half;
    } else {
        length *= half;
    }
    const uint32_t bytes = SizeOf(x.dtype);
    const bool pairs = length == 1 && rows > 1;
    if (pairs) {  // one long row of alternating elements
        std::swap(rows, length);
    }
    const uint32_t perElement = forward ? gated::ForwardBytes(bytes, pairs) : gated::BackwardBytes(bytes, pairs);
    return gated::Plan(rows, length, 2 * length, pairs, bytes, perElement, (forward ? 3 : 5) * bytes, platform, tiling);
}

}  // namespace swiglu

inline LaunchConfig SwigluTiling(const SwigluParams& params, const Platform& platform, SwigluTilingData& tiling)
{
    return swiglu::Plan(params.x, params.axis, params.interleaved, true, platform, tiling);
}

inline LaunchConfig SwigluGradTiling(const SwigluGradParams& params, const Platform& platform,
                                     SwigluGradTilingData& tiling)
{
    return swiglu::Plan(params.x, params.axis, params.interleaved, false, platform, tiling);
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_SWIGLU_TILING_H
