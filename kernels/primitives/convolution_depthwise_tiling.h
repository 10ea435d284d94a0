/*!
 * Calculates the tiling of depthwise convolutions with channels last, in plain C++.
 * For the plan see primitives/convolution_depthwise_tiles.h.
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_CONVOLUTION_DEPTHWISE_TILING_H
#define MS_ASCEND_OPS_PRIMITIVES_CONVOLUTION_DEPTHWISE_TILING_H

#include "primitives/convolution_tiling.h"

namespace ms_ascend_ops {
namespace depthwise {

constexpr uint64_t MOST_CHANNELS = 128;
constexpr uint64_t MOST_COLS = 64;
constexpr uint64_t MOST_ROWS = 8;
constexpr uint64_t LEAST_COLS = 8;
constexpr uint64_t MOST_STEP = 255 * 8;  // floats from a repeat of an instruction to the next

// A kernel takes these bytes of the Unified Buffer besides those for x.
struct Needs {
    uint64_t perOffset;  // and channel
    uint64_t perPlace;   // of a tile, and channel
    uint64_t perColumn;  // and channel
    uint64_t fixed;
};

constexpr uint64_t FloatCopyBytes(uint32_t bytes)
{
    return bytes == sizeof(float) ? 0 : sizeof(float);
}

// Returns the bytes of a tile, where x has two buffers.
inline uint64_t TileBytes(const ConvolutionTilingData& tiling, uint32_t bytes, const Needs& needs)
{
    const auto seen = [](uint64_t count, uint64_t stride, uint64_t kernel, uint64_t dilation) {
        return (count - 1) * stride + (kernel - 1) * dilation + 1;
    };
    const uint64_t channels = RoundUp(tiling.tileOut, CUBE_SIDE);
    const uint64_t positions = seen(tiling.tileRows, tiling.strideHeight, tiling.kernelHeight, tiling.dilationHeight) *
                               seen(tiling.tileCols, tiling.strideWidth, tiling.kernelWidth, tiling.dilationWidth);
    const uint64_t kernelSize = RoundUp(uint64_t{tiling.kernelHeight} * tiling.kernelWidth, CUBE_SIDE);
    const uint64_t columns = tiling.tileCols * (needs.perColumn + tiling.tileRows * needs.perPlace);
    return needs.fixed +
           channels * (positions * (2 * bytes + FloatCopyBytes(bytes)) + kernelSize * needs.perOffset + columns);
}

// Plans tiles of a depthwise convolution with channels last; false if the convolution is another one, or a tile does
// not fit in the Unified Buffer.
inline bool PlanTiles(const Platform& platform, uint32_t bytes, const Needs& needs, ConvolutionTilingData& tiling)
{
    if (tiling.channelsLast == 0 || tiling.groupIn != 1 || tiling.groupOut != 1 || tiling.channels == 1 ||
        tiling.gapHeight != 0 || tiling.gapWidth != 0 || tiling.strideWidth * uint64_t{CUBE_SIDE} > MOST_STEP) {
        return false;
    }
    ConvolutionTilingData plan = tiling;
    const uint64_t step = MOST_STEP / tiling.strideWidth / CUBE_SIDE * CUBE_SIDE;
    plan.tileOut = static_cast<uint32_t>(std::min<uint64_t>({tiling.channels, MOST_CHANNELS, step}));
    plan.tileCols = static_cast<uint32_t>(std::min<uint64_t>(std::max(tiling.outWidth, 1u), MOST_COLS));
    plan.tileRows = static_cast<uint32_t>(std::min<uint64_t>(std::max(tiling.outHeight, 1u), MOST_ROWS));
    const uint64_t room = platform.ubBytes > convolution::FIXED_BYTES ? platform.ubBytes - convolution::FIXED_BYTES : 0;
    while (TileBytes(plan, bytes, needs) > room) {
        if (plan.tileRows > 1) {
            plan.tileRows = (plan.tileRows + 1) / 2;
        } else if (plan.tileCols > LEAST_COLS) {
            plan.tileCols = (plan.tileCols + 1) / 2;
        } else if (plan.tileOut > CUBE_SIDE) {
            plan.tileOut = static_cast<uint32_t>(RoundUp(plan.tileOut / 2, CUBE_SIDE));
        } else {
            return false;
        }
    }
    const uint64_t enough = platform.tileBytes != 0 ? convolution::HOST_TASKS : convolution::TASKS;
    const auto tasks = [&] {
        return tiling.samples * CeilDiv(tiling.channels, plan.tileOut) * CeilDiv(tiling.outHeight, plan.tileRows) *
               CeilDiv(tiling.outWidth, plan.tileCols);
    };
    while (tasks() < enough && plan.tileRows > 1) {
        plan.tileRows = (plan.tileRows + 1) / 2;
    }
    plan.tasks = tasks();
    plan.outTiles = static_cast<uint32_t>(CeilDiv(tiling.channels, plan.tileOut));
    plan.rowTiles = static_cast<uint32_t>(CeilDiv(tiling.outHeight, plan.tileRows));
    plan.colTiles = static_cast<uint32_t>(CeilDiv(tiling.outWidth, plan.tileCols));
    plan.depthwise = 1;
    tiling = plan;
    return true;
}

// Plans the cores for the tasks.
inline LaunchConfig Share(const TensorDesc& x, const Platform& platform, ConvolutionTilingData& tiling)
{
    const uint32_t side = CUBE_SIDE;
    tiling.product = PlanCube(side, side, side, x.dtype, DataType::FLOAT32, false, false);  // no product is calculated
    LaunchConfig config = convolution::Share(x, platform, tiling);
    tiling.columnBytes = 0;
    tiling.workspacePerCore = 0;
    return config;
}

}  // namespace depthwise
}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_CONVOLUTION_DEPTHWISE_TILING_H
