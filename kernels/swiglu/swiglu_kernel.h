/*!
 * Computes SwiGLU of one tensor, y = silu(gate) * up, where gate is the first half of the axis (or the even elements),
 * up the other.
 * For plan and bound see primitives/gated_kernel.h.
 */
#ifndef MS_ASCEND_OPS_SWIGLU_KERNEL_H
#define MS_ASCEND_OPS_SWIGLU_KERNEL_H

#include "primitives/gated_kernel.h"
#include "primitives/silu.h"
#include "swiglu_tiling.h"

namespace ms_ascend_ops {

template <typename T>
__aicore__ inline void SwigluKernel(GM_ADDR x, GM_ADDR y, [[maybe_unused]] GM_ADDR workspace,
                                    const SwigluTilingData& tiling)
{
    AscendC::TPipe pipe;
    GatedForward<T, Silu> kernel;
    kernel.Init(x + tiling.gateOffset * sizeof(T), x + tiling.upOffset * sizeof(T), y, tiling, pipe);
    kernel.Process();
}

template <typename T>
__aicore__ inline void SwigluGradKernel(GM_ADDR dy, GM_ADDR x, GM_ADDR dx, [[maybe_unused]] GM_ADDR workspace,
                                        const SwigluGradTilingData& tiling)
{
    AscendC::TPipe pipe;
    GatedBackward<T, Silu> kernel;
    const uint64_t gate = tiling.gateOffset * sizeof(T);
    const uint64_t up = tiling.upOffset * sizeof(T);
    kernel.Init(dy, x + gate, x + up, dx + gate, dx + up, tiling, pipe);
    kernel.Process();
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_SWIGLU_KERNEL_H
