/*!
 * Calculates the tiling of weight_quant_matmul, in plain C++.
 */
#ifndef MS_ASCEND_OPS_WEIGHT_QUANT_MATMUL_TILING_H
#define MS_ASCEND_OPS_WEIGHT_QUANT_MATMUL_TILING_H

#include "primitives/weight_quant_tiling.h"
#include "weight_quant_matmul_params.h"

namespace ms_ascend_ops {

using WeightQuantMatmulTilingData = WeightQuantTilingData;

inline LaunchConfig WeightQuantMatmulTiling(const WeightQuantMatmulParams& params, const Platform& platform,
                                            WeightQuantMatmulTilingData& tiling)
{
    const uint32_t bytes = SizeOf(params.x.dtype);
    const bool erf = params.activation == WeightQuantMatmulActivation::GELU;
    return weight_quant::Plan(
        {params.x, params.weight, params.scale, params.offset.IsGiven(), params.bias.IsGiven(), 1,
         static_cast<uint32_t>(params.activation), (erf ? GeluScratch(false, bytes) : SILU_SCRATCH).forward,
         WeightQuantMatmulLimits::GROUP_SIZE, params.quantize_x == WeightQuantMatmulQuantizeX::INT8},
        platform, tiling);
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_WEIGHT_QUANT_MATMUL_TILING_H
