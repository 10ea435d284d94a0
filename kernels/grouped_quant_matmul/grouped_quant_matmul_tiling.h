/*!
 * Calculates the tiling of grouped_quant_matmul, in plain C++. The lengths of groups are known on the device only:
 * tiles are those of all rows as one matrix, and each core counts its tasks.
 */
#ifndef MS_ASCEND_OPS_GROUPED_QUANT_MATMUL_TILING_H
#define MS_ASCEND_OPS_GROUPED_QUANT_MATMUL_TILING_H

#include <stdexcept>
#include <string>

#include "grouped_quant_matmul_params.h"
#include "primitives/product_tiling.h"

namespace ms_ascend_ops {

using GroupedQuantMatmulTilingData = ProductTilingData;

inline LaunchConfig GroupedQuantMatmulTiling(const GroupedQuantMatmulParams& params, const Platform& platform,
                                             GroupedQuantMatmulTilingData& tiling)
{
    product::Work work{};
    work.batches = 1;
    work.m = static_cast<uint64_t>(params.x.Product(0, params.x.rank - 1));
    work.n = static_cast<uint64_t>(params.weight.dims[1]);
    work.k = static_cast<uint64_t>(params.x.LastDim());
    CheckLastDim(params.x, "x", GroupedQuantMatmulLimits::COLUMNS);
    work.type = DataType::INT8;
    work.outputType = params.scale.dtype;
    work.transposeWeight = true;
    work.finished = 1;
    work.columnBytes = 2 * sizeof(float);              // the scale as it comes and in float
    work.lineBytes = 2 * sizeof(float) + BLOCK_BYTES;  // a scale, and spread
    tiling.hasBias = 0;
    tiling.hasRowScale = params.pertoken_scale.IsGiven() ? 1 : 0;
    LaunchConfig config = product::Plan(work, platform, tiling);
    // Rows are counted over all groups. There are more tiles than those of one matrix: groups begin new ones.
    tiling.xBatch = 0;
    tiling.yBatch = 0;
    tiling.groups = static_cast<uint64_t>(params.weight.dims[0]);
    const uint64_t operations = work.m * work.n * work.k;
    config.blockDim =
        static_cast<uint32_t>(std::min<uint64_t>(platform.coreNum, 1 + operations / platform.minBytesPerCore));
    tiling.cores = config.blockDim;
    config.workspaceBytes = tiling.workspacePerCore * config.blockDim;
    return config;
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_GROUPED_QUANT_MATMUL_TILING_H
