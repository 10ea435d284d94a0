/*!
 * Calculates the tiling that gated linear layers, y = act(x gate_weight^T) * (x up_weight^T), share, in plain C++.
 *
 * All rows of x are one matrix, and a tile of y takes one of each product (primitives/product_tiling.h).
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_LINEAR_GATED_TILING_H
#define MS_ASCEND_OPS_PRIMITIVES_LINEAR_GATED_TILING_H

#include "primitives/activation_scratch.h"
#include "primitives/product_tiling.h"

namespace ms_ascend_ops {

namespace linear_gated {

inline LaunchConfig Plan(const TensorDesc& x, const TensorDesc& weight, const ActivationScratch& scratch,
                         const Platform& platform, ProductTilingData& tiling)
{
    product::Work work{};
    work.batches = 1;
    work.m = static_cast<uint64_t>(x.Product(0, x.rank - 1));
    work.n = static_cast<uint64_t>(weight.dims[0]);
    work.k = static_cast<uint64_t>(x.LastDim());
    work.type = x.dtype;
    work.outputType = x.dtype;
    work.transposeWeight = true;
    work.sharesWeight = true;
    work.finished = 2;
    work.scratch = scratch.forward;
    return product::Plan(work, platform, tiling);
}

}  // namespace linear_gated

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_LINEAR_GATED_TILING_H
