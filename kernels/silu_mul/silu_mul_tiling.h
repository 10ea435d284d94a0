/*!
 * Tiling of silu_mul and silu_mul_grad. Plain C++.
 */
#ifndef MS_ASCEND_OPS_SILU_MUL_TILING_H
#define MS_ASCEND_OPS_SILU_MUL_TILING_H

#include "primitives/gated_tiling.h"
#include "silu_mul_params.h"

namespace ms_ascend_ops {

using SiluMulTilingData = GatedTilingData;
using SiluMulGradTilingData = GatedTilingData;

inline LaunchConfig SiluMulTiling(const SiluMulParams& params, const Platform& platform, SiluMulTilingData& tiling)
{
    const uint64_t size = params.gate.Size();
    const uint32_t bytes = SizeOf(params.gate.dtype);
    return gated::Plan(1, size, size, false, bytes, gated::ForwardBytes(bytes, false), 3 * bytes, platform, tiling);
}

inline LaunchConfig SiluMulGradTiling(const SiluMulGradParams& params, const Platform& platform,
                                      SiluMulGradTilingData& tiling)
{
    const uint64_t size = params.gate.Size();
    const uint32_t bytes = SizeOf(params.gate.dtype);
    return gated::Plan(1, size, size, false, bytes, gated::BackwardBytes(bytes, false), 5 * bytes, platform, tiling);
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_SILU_MUL_TILING_H
