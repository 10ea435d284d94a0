/*!
 * Calculates the tiling of convolutions whose tiles the vector unit finishes, or makes, in plain C++.
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_CONVOLUTION_EPILOGUE_TILING_H
#define MS_ASCEND_OPS_PRIMITIVES_CONVOLUTION_EPILOGUE_TILING_H

#include "primitives/activation_scratch.h"
#include "primitives/convolution_depthwise_tiling.h"
#include "primitives/convolution_tiling.h"

namespace ms_ascend_ops {

namespace convolution {

// The epilogue's function of channels keeps so many bytes in the Unified Buffer, for each row of a chunk and each
// column.
struct ChannelBytes {
    uint64_t perRow;
    uint64_t perColumn;
};

// Plans tiles of a convolution with an activation. If nothing is done to them, the cube writes the result itself where
// it can.
template <class ACTIVATION>
LaunchConfig PlanFinished(const TensorDesc& x, const Platform& platform, ACTIVATION activation, bool changesChannels,
                          const ChannelBytes& channel, ConvolutionTilingData& tiling)
{
    const uint32_t bytes = SizeOf(x.dtype);
    tiling.activation = static_cast<uint32_t>(activation);
    switch (activation) {
        case ACTIVATION::GELU:
            tiling.scratch = GeluScratch(false, bytes).forward;
            break;
        case ACTIVATION::GELU_TANH:
            tiling.scratch = GeluScratch(true, bytes).forward;
            break;
        default:
            tiling.scratch = SILU_SCRATCH.forward;
    }
    const uint64_t copy = depthwise::FloatCopyBytes(bytes);
    if (depthwise::PlanTiles(platform, bytes,
                             {2 * bytes + copy, 0, (3 + tiling.scratch) * sizeof(float) + 2 * bytes,
                              depthwise::MOST_CHANNELS * channel.perColumn},
                             tiling)) {
        return depthwise::Share(x, platform, tiling);
    }
    PlanTiles(platform, bytes, tiling);
    const bool rounds = x.dtype != DataType::FLOAT32 && tiling.chunks > 1;
    tiling.finished = changesChannels || activation != ACTIVATION::NONE || rounds ? 1 : 0;
    // There are two chunks of the result, the operands of the vector unit, and the epilogue's values of a channel.
    const EpilogueBytes epilogue{(1 + tiling.scratch) * sizeof(float) + 2 * bytes, channel.perRow, channel.perColumn};
    return PlanProduct(x, platform, epilogue, tiling);
}

}  // namespace convolution

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_CONVOLUTION_EPILOGUE_TILING_H
