/*!
 * Runs weight_quant_matmul by loops of the host instead of the kernel.
 */
#ifndef MS_ASCEND_OPS_WEIGHT_QUANT_MATMUL_LIBRARY_H
#define MS_ASCEND_OPS_WEIGHT_QUANT_MATMUL_LIBRARY_H

#include "primitives/weight_quant_library.h"
#include "weight_quant_matmul_params.h"

namespace ms_ascend_ops {

inline AscendC::host::PackedOperator AsPackedOperator(const WeightQuantMatmulParams& params)
{
    return {params.x,
            params.weight,
            params.scale,
            params.offset.IsGiven(),
            params.bias.IsGiven(),
            1,
            static_cast<uint32_t>(params.activation),
            params.quantize_x == WeightQuantMatmulQuantizeX::INT8};
}

inline std::string AnsweringLibrary(const WeightQuantMatmulParams& params)
{
    return AnsweringLibrary(AsPackedOperator(params));
}

inline bool RunInLibrary(const WeightQuantMatmulParams& params, void* const* tensors)
{
    return RunInLibrary(AsPackedOperator(params), tensors);
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_WEIGHT_QUANT_MATMUL_LIBRARY_H
