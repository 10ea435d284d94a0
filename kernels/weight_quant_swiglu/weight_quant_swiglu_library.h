/*!
 * weight_quant_swiglu of rounded x by loops of the host, in the place of the kernel (host/operators/packed_product.h).
 */
#ifndef MS_ASCEND_OPS_WEIGHT_QUANT_SWIGLU_LIBRARY_H
#define MS_ASCEND_OPS_WEIGHT_QUANT_SWIGLU_LIBRARY_H

#include "host/operators/packed_product.h"
#include "primitives/weight_quant_tiling.h"
#include "weight_quant_swiglu_params.h"

namespace ms_ascend_ops {

inline AscendC::host::PackedOperator AsPackedOperator(const WeightQuantSwigluParams& params)
{
    return {params.x, params.weight, params.scale, params.offset.IsGiven(), params.bias.IsGiven(), 2};
}

inline bool IsRounded(const WeightQuantSwigluParams& params)
{
    return params.quantize_x == WeightQuantSwigluQuantizeX::INT8 &&
           weight_quant::IsRoundable(static_cast<uint64_t>(params.x.LastDim() / params.scale.dims[1]));
}

// Says who answers; empty: the kernel.
inline std::string AnsweringLibrary(const WeightQuantSwigluParams& params)
{
    return IsRounded(params) ? AscendC::host::PackedImplementation(AsPackedOperator(params)) : "";
}

// Returns whether it has answered.
inline bool RunInLibrary(const WeightQuantSwigluParams& params, void* const* tensors)
{
    return IsRounded(params) && AscendC::host::MultiplyRounded(AsPackedOperator(params), tensors);
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_WEIGHT_QUANT_SWIGLU_LIBRARY_H
