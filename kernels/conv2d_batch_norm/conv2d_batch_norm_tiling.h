/*!
 * Calculates the tiling of conv2d_batch_norm, in plain C++.
 * For the plan see primitives/convolution_tiling.h.
 */
#ifndef MS_ASCEND_OPS_CONV2D_BATCH_NORM_TILING_H
#define MS_ASCEND_OPS_CONV2D_BATCH_NORM_TILING_H

#include "conv2d_batch_norm_params.h"
#include "primitives/convolution_epilogue_tiling.h"
#include "primitives/convolution_tiling.h"

namespace ms_ascend_ops {

struct Conv2dBatchNormTilingData {
    ConvolutionTilingData convolution;
    float epsilon;
};

// There are five vectors of channels: gamma, beta, mean, variance and bias.
constexpr uint32_t CHANNEL_NORM_VECTORS = 5;
// The Unified Buffer holds the vectors twice, as they are loaded and as floats. With channels first it also holds the
// factor and the offset of a channel 8 times each (Brcb).
constexpr convolution::ChannelBytes CHANNEL_NORM_BYTES{2 * BLOCK_BYTES + 2 * CHANNEL_NORM_VECTORS * sizeof(float),
                                                       2 * CHANNEL_NORM_VECTORS * sizeof(float)};

inline LaunchConfig Conv2dBatchNormTiling(const Conv2dBatchNormParams& params, const Platform& platform,
                                          Conv2dBatchNormTilingData& tiling)
{
    TensorDesc none;
    none.rank = -1;
    ConvolutionTilingData& convolution = tiling.convolution;
    convolution::Describe(params, none, "", false, platform, convolution);
    convolution::PlanWeight(false, SizeOf(params.x.dtype), convolution);
    convolution.hasBias = params.bias.IsGiven() ? 1 : 0;
    tiling.epsilon = static_cast<float>(params.epsilon);
    return convolution::PlanFinished(params.x, platform, params.activation, true, CHANNEL_NORM_BYTES, convolution);
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_CONV2D_BATCH_NORM_TILING_H
