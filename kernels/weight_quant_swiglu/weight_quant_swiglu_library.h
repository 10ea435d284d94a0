/*!
 * Runs weight_quant_swiglu by loops of the host instead of the kernel.
 */
#ifndef MS_ASCEND_OPS_WEIGHT_QUANT_SWIGLU_LIBRARY_H
#define MS_ASCEND_OPS_WEIGHT_QUANT_SWIGLU_LIBRARY_H

#include "primitives/weight_quant_library.h"
#include "weight_quant_swiglu_params.h"

namespace ms_ascend_ops {

inline AscendC::host::PackedOperator AsPackedOperator(const WeightQuantSwigluParams& params)
{
    return {params.x,
            params.weight,
            params.scale,
            params.offset.IsGiven(),
            params.bias.IsGiven(),
            2,
            0,
            params.quantize_x == WeightQuantSwigluQuantizeX::INT8};
}

inline std::string AnsweringLibrary(const WeightQuantSwigluParams& params)
{
    return AnsweringLibrary(AsPackedOperator(params));
}

inline bool RunInLibrary(const WeightQuantSwigluParams& params, void* const* tensors)
{
    return RunInLibrary(AsPackedOperator(params), tensors);
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_WEIGHT_QUANT_SWIGLU_LIBRARY_H
