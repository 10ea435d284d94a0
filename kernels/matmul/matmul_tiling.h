/*!
 * Calculates the tiling of matmul, in plain C++. Without batches of weights, all rows of x are one matrix; all else is
 * primitives/product_tiling.h.
 */
#ifndef MS_ASCEND_OPS_MATMUL_TILING_H
#define MS_ASCEND_OPS_MATMUL_TILING_H

#include <stdexcept>
#include <string>

#include "matmul_params.h"
#include "primitives/activation_scratch.h"
#include "primitives/product_tiling.h"

namespace ms_ascend_ops {

using MatmulTilingData = ProductTilingData;

namespace matmul_tiling_plan {

inline ActivationScratch ScratchOf(MatmulActivation activation, uint32_t bytes)
{
    switch (activation) {
        case MatmulActivation::GELU:
            return GeluScratch(false, bytes);
        case MatmulActivation::GELU_TANH:
            return GeluScratch(true, bytes);
        default:
            return SILU_SCRATCH;
    }
}

}  // namespace matmul_tiling_plan

inline LaunchConfig MatmulTiling(const MatmulParams& params, const Platform& platform, MatmulTilingData& tiling)
{
    const TensorDesc& x = params.x;
    const TensorDesc& weight = params.weight;
    product::Work work{};
    work.batches = static_cast<uint64_t>(x.Product(0, x.rank - 2));
    work.m = static_cast<uint64_t>(x.dims[x.rank - (params.transpose_x ? 1 : 2)]);
    work.k = static_cast<uint64_t>(x.dims[x.rank - (params.transpose_x ? 2 : 1)]);
    work.n = static_cast<uint64_t>(weight.dims[weight.rank - (params.transpose_weight ? 2 : 1)]);
    const uint64_t weights = static_cast<uint64_t>(weight.Product(0, weight.rank - 2));
    if (weights != 1 && weights != work.batches) {
        Refuse("weight.shape[:-2] must be that of x " + ShapeText(x, x.rank - 2) + ", or be empty: one matrix for all",
               ShapeText(weight));
    }
    work.sharesWeight = weights == 1;
    if (work.sharesWeight && !params.transpose_x) {
        work.m *= work.batches;
        work.batches = 1;
    }
    work.type = x.dtype;
    work.outputType = x.dtype;
    work.transposeX = params.transpose_x;
    work.transposeWeight = params.transpose_weight;
    // Where K is 0 there are no products: the vector unit writes the output.
    const bool hasBias = params.bias.IsGiven();
    work.finished = work.k == 0 || hasBias || params.activation != MatmulActivation::NONE ? 1 : 0;
    work.scratch = matmul_tiling_plan::ScratchOf(params.activation, SizeOf(x.dtype)).forward;
    work.columnBytes = 4 * sizeof(float);  // the bias, as it comes and in float
    tiling.activation = static_cast<uint32_t>(params.activation);
    tiling.hasBias = hasBias ? 1 : 0;
    return product::Plan(work, platform, tiling);
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_MATMUL_TILING_H
