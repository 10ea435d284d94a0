/*!
 * Computes GEGLU of one tensor: the product of one half of the axis and the GELU of the other; with activate_left the
 * first half is the gate, else the second. For plan and bound see gelu_mul_kernel.h.
 */
#ifndef MS_ASCEND_OPS_GEGLU_KERNEL_H
#define MS_ASCEND_OPS_GEGLU_KERNEL_H

#include "geglu_tiling.h"
#include "primitives/gated_gelu.h"

namespace ms_ascend_ops {

template <typename T>
__aicore__ inline void GegluKernel(GM_ADDR x, GM_ADDR y, [[maybe_unused]] GM_ADDR workspace,
                                   const GegluTilingData& tiling)
{
    GatedGelu<T>(x + tiling.gateOffset * sizeof(T), x + tiling.upOffset * sizeof(T), y, tiling);
}

template <typename T>
__aicore__ inline void GegluGradKernel(GM_ADDR dy, GM_ADDR x, GM_ADDR dx, [[maybe_unused]] GM_ADDR workspace,
                                       const GegluGradTilingData& tiling)
{
    const uint64_t gate = tiling.gateOffset * sizeof(T);
    const uint64_t up = tiling.upOffset * sizeof(T);
    GatedGeluGrad<T>(dy, x + gate, x + up, dx + gate, dx + up, tiling);
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_GEGLU_KERNEL_H
