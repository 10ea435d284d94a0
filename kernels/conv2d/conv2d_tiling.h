/*!
 * Calculates the tiling of conv2d and conv2d_grad, in plain C++.
 * For the plan see primitives/convolution_tiling.h.
 */
#ifndef MS_ASCEND_OPS_CONV2D_TILING_H
#define MS_ASCEND_OPS_CONV2D_TILING_H

#include "conv2d_params.h"
#include "primitives/convolution_depthwise_tiling.h"
#include "primitives/convolution_epilogue_tiling.h"
#include "primitives/convolution_tiling.h"

namespace ms_ascend_ops {

using Conv2dTilingData = ConvolutionTilingData;
using Conv2dGradTilingData = ConvolutionTilingData;

constexpr convolution::ChannelBytes CHANNEL_BIAS_BYTES{2 * BLOCK_BYTES + 8, 4 * sizeof(float)};

inline LaunchConfig Conv2dTiling(const Conv2dParams& params, const Platform& platform, Conv2dTilingData& tiling)
{
    using namespace convolution;
    const uint32_t bytes = SizeOf(params.x.dtype);
    TensorDesc none;
    none.rank = -1;
    if ((params.gap_h != 0 || params.gap_w != 0) && (params.stride_h != 1 || params.stride_w != 1)) {
        throw std::invalid_argument("x has no gaps where the stride is not 1");
    }
    tiling.gapHeight = Size32(static_cast<uint64_t>(params.gap_h), "gaps");
    tiling.gapWidth = Size32(static_cast<uint64_t>(params.gap_w), "gaps");
    Describe(params, none, "", false, platform, tiling);
    tiling.flip = params.flip_weight ? 1 : 0;
    PlanWeight(params.transposed_weight, bytes, tiling);
    tiling.hasBias = params.bias.IsGiven() ? 1 : 0;
    return PlanFinished(params.x, platform, params.activation, tiling.hasBias != 0, CHANNEL_BIAS_BYTES, tiling);
}

// SumChunks adds parts up in pieces of so many columns.
constexpr uint32_t SUM_COLS = 1024;
constexpr uint32_t SUM_ROWS = 4;
constexpr uint64_t SUM_BYTES = (2 * SUM_ROWS + 3) * SUM_COLS * sizeof(float);

constexpr uint64_t BIAS_BYTES = 40 * 1024;  // of the gradient of the bias

// A task is the sum of a chunk of K for all output channels of a group, over one part of the positions.
inline LaunchConfig Conv2dGradTiling(const Conv2dGradParams& params, const Platform& platform,
                                     Conv2dGradTilingData& tiling)
{
    using namespace convolution;
    const uint32_t bytes = SizeOf(params.x.dtype);
    const bool host = platform.tileBytes != 0;
    Describe(params, params.dy, "dy", false, platform, tiling);
    if (params.transposed_weight || params.gap_h != 0 || params.gap_w != 0) {
        throw std::invalid_argument("there is no gradient of a transposed weight, and none where x has gaps");
    }
    tiling.flip = params.flip_weight ? 1 : 0;
    const bool depthwise = depthwise::PlanTiles(
        platform, bytes,
        {2 * sizeof(float), 2 * bytes + depthwise::FloatCopyBytes(bytes), sizeof(float), SUM_BYTES + BIAS_BYTES},
        tiling);
    if (!depthwise) {
        tiling.tileOut = tiling.groupOut;
        tiling.outTiles = 1;
        PlanChunks(platform, bytes, tiling);
    }
    tiling.partialSize = static_cast<uint64_t>(tiling.outChannels) * tiling.k;
    Size32(tiling.partialSize, "the elements of weight");
    const uint64_t tiles = PositionTiles(tiling);
    const uint64_t alike = depthwise ? tiling.outTiles : static_cast<uint64_t>(tiling.groups) * tiling.chunks;
    const uint64_t room = std::max<uint64_t>(1, MOST_PARTIAL_BYTES / (tiling.partialSize * sizeof(float)));
    tiling.splits = static_cast<uint32_t>(
        std::max<uint64_t>(1, std::min<uint64_t>({CeilDiv(host ? HOST_TASKS : TASKS, alike), tiles, room})));
    tiling.tasks = alike * tiling.splits;
    // A sum that is float and in one part is dweight itself.
    tiling.finished = tiling.splits > 1 || params.x.dtype != DataType::FLOAT32 || tiles == 0 ? 1 : 0;
    LaunchConfig config;
    if (depthwise) {
        config = depthwise::Share(params.x, platform, tiling);
    } else {
        const uint64_t positions = static_cast<uint64_t>(tiling.tileRows) * tiling.tileCols;
        const uint32_t kernelSize = tiling.kernelHeight * tiling.kernelWidth;
        const uint32_t all = tiling.channelsLast != 0 ? kernelSize : tiling.groupIn;
        const bool last = tiling.channelsLast != 0;
        tiling.product = PlanCube(tiling.groupOut, tiling.chunk * (tiling.k / all), positions, params.x.dtype,
                                  DataType::FLOAT32, last, !last);
        const uint64_t plane = static_cast<uint64_t>(tiling.outHeight) * tiling.outWidth;
        CheckRowsApart(tiling.product, {last ? tiling.outChannels : plane, "a row of dy"},
                       {ColumnStride(tiling), "a row of x"}, platform);
        config = Share(params.x, platform, tiling);
    }
    config.workspaceBytes = tiling.workspacePerCore * config.blockDim;
    tiling.partialStride = RoundUp(tiling.partialSize, LINE_BYTES / sizeof(float));
    tiling.partials = tiles == 0 ? 0 : tiling.splits;
    tiling.reduceCols = SUM_COLS;
    tiling.reduceRows = SUM_ROWS;
    if (tiling.finished != 0) {
        config.workspaceBytes += tiling.splits * tiling.partialStride * sizeof(float);
    }
    return config;
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_CONV2D_TILING_H
