/*!
 * Calculates the tiling of quant_matmul, in plain C++. All rows of x are one matrix; all else is
 * primitives/product_tiling.h.
 */
#ifndef MS_ASCEND_OPS_QUANT_MATMUL_TILING_H
#define MS_ASCEND_OPS_QUANT_MATMUL_TILING_H

#include <stdexcept>
#include <string>

#include "primitives/product_tiling.h"
#include "quant_matmul_params.h"

namespace ms_ascend_ops {

using QuantMatmulTilingData = ProductTilingData;

inline LaunchConfig QuantMatmulTiling(const QuantMatmulParams& params, const Platform& platform,
                                      QuantMatmulTilingData& tiling)
{
    product::Work work{};
    work.batches = 1;
    work.m = static_cast<uint64_t>(params.x.Product(0, params.x.rank - 1));
    work.n = static_cast<uint64_t>(params.weight.dims[0]);
    work.k = static_cast<uint64_t>(params.x.LastDim());
    CheckLastDim(params.x, "x", QuantMatmulLimits::COLUMNS);
    work.type = DataType::INT8;
    work.outputType = params.scale.dtype;
    work.transposeWeight = true;
    work.sharesWeight = true;
    work.finished = 1;
    work.columnBytes = 4 * sizeof(float);              // the scale as it comes and in float, and the bias
    work.lineBytes = 2 * sizeof(float) + BLOCK_BYTES;  // a scale, and spread
    tiling.hasBias = params.bias.IsGiven() ? 1 : 0;
    tiling.hasRowScale = params.pertoken_scale.IsGiven() ? 1 : 0;
    return product::Plan(work, platform, tiling);
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_QUANT_MATMUL_TILING_H
