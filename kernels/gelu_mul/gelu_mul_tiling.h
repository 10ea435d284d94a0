/*!
 * Calculates the tiling of gelu_mul and gelu_mul_grad, in plain C++.
 */
#ifndef MS_ASCEND_OPS_GELU_MUL_TILING_H
#define MS_ASCEND_OPS_GELU_MUL_TILING_H

#include "gelu_mul_params.h"
#include "primitives/gated_tiling.h"

namespace ms_ascend_ops {

using GeluMulTilingData = GatedTilingData;
using GeluMulGradTilingData = GatedTilingData;

namespace gelu_mul {

inline LaunchConfig Plan(const TensorDesc& gate, GeluMulApproximate approximate, bool forward, const Platform& platform,
                         GatedTilingData& tiling)
{
    const bool tanh = approximate == GeluMulApproximate::TANH;
    const LaunchConfig config = gated::PlanTwo(gate, forward, GeluScratch(tanh, SizeOf(gate.dtype)), platform, tiling);
    tiling.form = tanh ? 1 : 0;
    return config;
}

}  // namespace gelu_mul

inline LaunchConfig GeluMulTiling(const GeluMulParams& params, const Platform& platform, GeluMulTilingData& tiling)
{
    return gelu_mul::Plan(params.gate, params.approximate, true, platform, tiling);
}

inline LaunchConfig GeluMulGradTiling(const GeluMulGradParams& params, const Platform& platform,
                                      GeluMulGradTilingData& tiling)
{
    return gelu_mul::Plan(params.gate, params.approximate, false, platform, tiling);
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_GELU_MUL_TILING_H
