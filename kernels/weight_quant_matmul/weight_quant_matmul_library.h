/*!
 * weight_quant_matmul of rounded x by loops of the host, in the place of the kernel (host/operators/packed_product.h).
 */
#ifndef MS_ASCEND_OPS_WEIGHT_QUANT_MATMUL_LIBRARY_H
#define MS_ASCEND_OPS_WEIGHT_QUANT_MATMUL_LIBRARY_H

#include "host/operators/packed_product.h"
#include "primitives/weight_quant_tiling.h"
#include "weight_quant_matmul_params.h"

namespace ms_ascend_ops {

inline AscendC::host::PackedOperator AsPackedOperator(const WeightQuantMatmulParams& params)
{
    return {params.x, params.weight, params.scale, params.offset.IsGiven(), params.bias.IsGiven(), 1};
}

inline bool IsRounded(const WeightQuantMatmulParams& params)
{
    return params.quantize_x == WeightQuantMatmulQuantizeX::INT8 &&
           weight_quant::IsRoundable(static_cast<uint64_t>(params.x.LastDim() / params.scale.dims[1])) &&
           params.activation == WeightQuantMatmulActivation::NONE;
}

// Says who answers; empty: the kernel.
inline std::string AnsweringLibrary(const WeightQuantMatmulParams& params)
{
    return IsRounded(params) ? AscendC::host::PackedImplementation(AsPackedOperator(params)) : "";
}

// Returns whether it has answered.
inline bool RunInLibrary(const WeightQuantMatmulParams& params, void* const* tensors)
{
    return IsRounded(params) && AscendC::host::MultiplyRounded(AsPackedOperator(params), tensors);
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_WEIGHT_QUANT_MATMUL_LIBRARY_H
