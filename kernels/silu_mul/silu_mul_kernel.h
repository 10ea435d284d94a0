/*!
 * Computes y = silu(gate) * up of two tensors. For plan and bound see primitives/gated_kernel.h.
 */
#ifndef MS_ASCEND_OPS_SILU_MUL_KERNEL_H
#define MS_ASCEND_OPS_SILU_MUL_KERNEL_H

#include "primitives/gated_kernel.h"
#include "primitives/silu.h"
#include "silu_mul_tiling.h"

namespace ms_ascend_ops {

template <typename T>
__aicore__ inline void SiluMulKernel(GM_ADDR gate, GM_ADDR up, GM_ADDR y, [[maybe_unused]] GM_ADDR workspace,
                                     const SiluMulTilingData& tiling)
{
    AscendC::TPipe pipe;
    GatedForward<T, Silu> kernel;
    kernel.Init(gate, up, y, tiling, pipe);
    kernel.Process();
}

template <typename T>
__aicore__ inline void SiluMulGradKernel(GM_ADDR dy, GM_ADDR gate, GM_ADDR up, GM_ADDR dgate, GM_ADDR dup,
                                         [[maybe_unused]] GM_ADDR workspace, const SiluMulGradTilingData& tiling)
{
    AscendC::TPipe pipe;
    GatedBackward<T, Silu> kernel;
    kernel.Init(dy, gate, up, dgate, dup, tiling, pipe);
    kernel.Process();
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_SILU_MUL_KERNEL_H
