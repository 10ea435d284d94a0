/*!
 * Calculates the tiling of conv2d_group_norm, in plain C++.
 *
 * The convolution has the tiles that primitives/convolution_tiling.h plans, each of one sample. The positions of a tile
 * are one piece of a channel, which has statistics of its own; the stage that applies them has the tiles of
 * primitives/group_norm_tiling.h. Both run on the cores of the convolution. The workspace holds that of the convolution
 * for each core, then the factors of channels and the statistics of pieces (GroupNormArrays).
 */
#ifndef MS_ASCEND_OPS_CONV2D_GROUP_NORM_TILING_H
#define MS_ASCEND_OPS_CONV2D_GROUP_NORM_TILING_H

#include "conv2d_group_norm_params.h"
#include "primitives/convolution_tiling.h"
#include "primitives/group_norm_tiling.h"

namespace ms_ascend_ops {

struct Conv2dGroupNormTilingData {
    ConvolutionTilingData convolution;
    NormGroupsTilingData norm;
    uint32_t hasShift;
    uint32_t hasResidual;
};

namespace conv2d_group_norm {

// Plans the stages of the norm on z, whose pieces are the tiles of the convolution, for its cores. Returns the bytes
// that they need in the workspace.
inline uint64_t PlanNorm(const Conv2dGroupNormParams& params, const Platform& platform,
                         const ConvolutionTilingData& convolution, uint32_t cores, NormGroupsTilingData& norm)
{
    const bool last = convolution.channelsLast != 0;
    const uint64_t size = static_cast<uint64_t>(convolution.outHeight) * convolution.outWidth;
    TensorDesc z;
    z.dtype = params.x.dtype;
    z.rank = 3;
    z.dims[0] = params.x.dims[0];
    z.dims[last ? 2 : 1] = convolution.outChannels;
    z.dims[last ? 1 : 2] = static_cast<int64_t>(size);
    // In order: buffers of z and of y, float values and temporaries of an element, and A, B and K of a channel.
    group_norm::Plan(z, SizeOf(params.gamma.dtype), static_cast<uint64_t>(params.num_groups), last,
                     static_cast<uint32_t>(params.activation), params.epsilon, {2, 2, 3, 0, 3, false}, platform, norm);
    norm.batchGroups = 0;
    norm.itemsPerCore = CeilDiv(CeilDiv(norm.items, norm.step), cores) * norm.step;
    norm.groupsPerCore = CeilDiv(norm.groups, cores);
    norm.sumPieces = convolution.rowTiles * convolution.colTiles;
    norm.sumChunkRows = convolution.tileRows * convolution.tileCols;
    norm.lineSize = convolution.colTiles > 1 ? convolution.outWidth : size;
    norm.linePieces = convolution.colTiles > 1 ? convolution.colTiles : convolution.rowTiles;
    return (3 + 2 * static_cast<uint64_t>(norm.sumPieces)) * norm.arrayStride * sizeof(float);
}

}  // namespace conv2d_group_norm

inline LaunchConfig Conv2dGroupNormTiling(const Conv2dGroupNormParams& params, const Platform& platform,
                                          Conv2dGroupNormTilingData& tiling)
{
    const uint32_t bytes = SizeOf(params.x.dtype);
    ConvolutionTilingData& convolution = tiling.convolution;
    convolution::Describe(params, params.residual, "residual", true, platform, convolution);
    if (convolution.outChannels % params.num_groups != 0) {
        Refuse("weight.shape[0] must be a multiple of num_groups (" + std::to_string(params.num_groups) + ")",
               ShapeText(params.weight));
    }
    convolution::PlanWeight(false, bytes, convolution);
    convolution::PlanTiles(platform, bytes, convolution);
    convolution.hasBias = params.bias.IsGiven() ? 1 : 0;
    convolution.finished = 1;
    tiling.hasShift = params.shift.IsGiven() ? 1 : 0;
    tiling.hasResidual = params.residual.IsGiven() ? 1 : 0;
    // There are two chunks of z, one of the residual and one of floats; lanes, sums, bias and shift of a row or of a
    // column.
    const convolution::EpilogueBytes epilogue{
        3 * bytes + sizeof(float), FLOATS_PER_REPEAT * sizeof(float) + 3 * BLOCK_BYTES + 48, 12 * sizeof(float)};
    LaunchConfig config = convolution::PlanProduct(params.x, platform, epilogue, convolution);
    config.workspaceBytes += conv2d_group_norm::PlanNorm(params, platform, convolution, config.blockDim, tiling.norm);
    return config;
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_CONV2D_GROUP_NORM_TILING_H
