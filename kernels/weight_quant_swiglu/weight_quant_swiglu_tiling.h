/*!
 * Calculates the tiling of weight_quant_swiglu, in plain C++.
 */
#ifndef MS_ASCEND_OPS_WEIGHT_QUANT_SWIGLU_TILING_H
#define MS_ASCEND_OPS_WEIGHT_QUANT_SWIGLU_TILING_H

#include "primitives/weight_quant_tiling.h"
#include "weight_quant_swiglu_params.h"

namespace ms_ascend_ops {

using WeightQuantSwigluTilingData = WeightQuantTilingData;

inline LaunchConfig WeightQuantSwigluTiling(const WeightQuantSwigluParams& params, const Platform& platform,
                                            WeightQuantSwigluTilingData& tiling)
{
    constexpr uint32_t SILU = 4;  // of primitives/activations.h
    return weight_quant::Plan({params.x, params.weight, params.scale, params.offset.IsGiven(), params.bias.IsGiven(), 2,
                               SILU, SILU_SCRATCH.forward, WeightQuantSwigluLimits::GROUP_SIZE,
                               params.quantize_x == WeightQuantSwigluQuantizeX::INT8},
                              platform, tiling);
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_WEIGHT_QUANT_SWIGLU_TILING_H
