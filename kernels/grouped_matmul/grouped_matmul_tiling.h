/*!
 * Calculates the tiling of grouped_matmul and grouped_matmul_grad, in plain C++. The lengths of groups are known on the
 * device only: tiles are those of all rows as one matrix, and each core counts its tasks.
 */
#ifndef MS_ASCEND_OPS_GROUPED_MATMUL_TILING_H
#define MS_ASCEND_OPS_GROUPED_MATMUL_TILING_H

#include "grouped_matmul_params.h"
#include "primitives/product_tiling.h"

namespace ms_ascend_ops {

struct GroupedMatmulTilingData {
    CubeTiling product;
    uint64_t groups;
    uint64_t tilesPerMatrix;  // one matrix of the gradient's output
    uint64_t tilesPerRow;     // tiles along N
    // M (of all groups together where they are one product), N and K
    uint64_t m;
    uint64_t n;
    uint64_t k;
    uint64_t weightSize;  // elements from a group's matrix to the next
    uint32_t transposeWeight;
    uint32_t leftIsDy;  // for the gradient: the weight is transposed
    uint32_t tileRows;
    uint32_t tileCols;
    uint32_t zeroRows;  // of zeros that are stored at a time, where K is 0
    uint32_t zeroCols;
    uint32_t cores;
    uint32_t reserved;  // tiling data is a multiple of 8 bytes
};

using GroupedMatmulGradTilingData = GroupedMatmulTilingData;

namespace grouped_matmul {

constexpr uint32_t ZERO_BYTES = 16 * 1024;

inline LaunchConfig PlanGroups(const product::Work& work, uint64_t groups, uint64_t operations,
                               const Platform& platform, GroupedMatmulTilingData& tiling)
{
    ProductTilingData tiles{};
    LaunchConfig config = product::Plan(work, platform, tiles);
    // There are more tiles than those of all rows as one matrix: groups begin new ones.
    config.blockDim =
        static_cast<uint32_t>(std::min<uint64_t>(platform.coreNum, 1 + operations / platform.minBytesPerCore));
    const uint32_t bytes = SizeOf(work.type);
    tiling.product = tiles.product;
    tiling.groups = groups;
    tiling.tilesPerMatrix = tiles.tilesPerBatch;
    tiling.tilesPerRow = tiles.tilesPerRow;
    tiling.m = work.m;
    tiling.n = work.n;
    tiling.k = work.k;
    tiling.weightSize = work.n * work.k;
    tiling.transposeWeight = work.transposeWeight ? 1 : 0;
    tiling.leftIsDy = 0;
    tiling.tileRows = tiles.tileRows;
    tiling.tileCols = tiles.tileCols;
    tiling.zeroCols = static_cast<uint32_t>(RoundUp(std::max<uint32_t>(1, tiles.tileCols), CUBE_SIDE));
    tiling.zeroRows = std::max<uint32_t>(1, std::min(tiles.tileRows, ZERO_BYTES / bytes / tiling.zeroCols));
    tiling.cores = config.blockDim;
    tiling.reserved = 0;
    return config;
}

}  // namespace grouped_matmul

inline LaunchConfig GroupedMatmulTiling(const GroupedMatmulParams& params, const Platform& platform,
                                        GroupedMatmulTilingData& tiling)
{
    const TensorDesc& weight = params.weight;
    product::Work work{};
    work.batches = 1;
    work.m = static_cast<uint64_t>(params.x.Product(0, params.x.rank - 1));
    work.k = static_cast<uint64_t>(params.x.LastDim());
    work.n = static_cast<uint64_t>(weight.dims[params.transpose_weight ? 1 : 2]);
    work.type = params.x.dtype;
    work.transposeWeight = params.transpose_weight;
    const uint64_t groups = static_cast<uint64_t>(weight.dims[0]);
    const uint64_t operations = work.m * work.n * std::max<uint64_t>(1, work.k);
    return grouped_matmul::PlanGroups(work, groups, operations, platform, tiling);
}

// dweight = x^T dy, or dy^T x where the weight is transposed: rows of the result are columns of the left factor.
inline LaunchConfig GroupedMatmulGradTiling(const GroupedMatmulGradParams& params, const Platform& platform,
                                            GroupedMatmulGradTilingData& tiling)
{
    const TensorDesc& left = params.transpose_weight ? params.dy : params.x;
    const TensorDesc& right = params.transpose_weight ? params.x : params.dy;
    product::Work work{};
    work.batches = static_cast<uint64_t>(params.group_list.dims[0]);
    work.m = static_cast<uint64_t>(left.LastDim());
    work.n = static_cast<uint64_t>(right.LastDim());
    work.k = static_cast<uint64_t>(left.Product(0, left.rank - 1));
    work.type = left.dtype;
    work.transposeX = true;
    const uint64_t operations = work.m * work.n * (work.k + work.batches);
    const LaunchConfig config = grouped_matmul::PlanGroups(work, work.batches, operations, platform, tiling);
    tiling.leftIsDy = params.transpose_weight ? 1 : 0;
    return config;
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_GROUPED_MATMUL_TILING_H
