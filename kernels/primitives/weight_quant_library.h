/*!
 * Runs weight_quant_matmul and weight_quant_swiglu by loops of the host instead of the kernel
 * (host/operators/packed_product.h).
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_WEIGHT_QUANT_LIBRARY_H
#define MS_ASCEND_OPS_PRIMITIVES_WEIGHT_QUANT_LIBRARY_H

#include <string>

#include "host/operators/packed_product.h"
#include "primitives/weight_quant_tiling.h"

namespace ms_ascend_ops {
namespace weight_quant {

// The host rounds x by the groups that the kernel rounds it by.
inline bool MayAnswer(const AscendC::host::PackedOperator& op)
{
    return !op.isRounded || IsRoundable(static_cast<uint64_t>(op.x.LastDim() / op.scale.dims[1]));
}

}  // namespace weight_quant

// Says who answers; empty: the kernel.
inline std::string AnsweringLibrary(const AscendC::host::PackedOperator& op)
{
    return weight_quant::MayAnswer(op) ? AscendC::host::PackedImplementation(op) : "";
}

// Returns whether it has answered.
inline bool RunInLibrary(const AscendC::host::PackedOperator& op, void* const* tensors)
{
    return weight_quant::MayAnswer(op) && AscendC::host::MultiplyPacked(op, tensors);
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_WEIGHT_QUANT_LIBRARY_H
