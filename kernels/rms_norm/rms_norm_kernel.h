/*!
 * Computes RMSNorm over the last axis, and its gradient. For plan and bound see primitives/rms_forward.h and
 * primitives/norm_backward.h.
 */
#ifndef MS_ASCEND_OPS_RMS_NORM_KERNEL_H
#define MS_ASCEND_OPS_RMS_NORM_KERNEL_H

#include "primitives/norm_backward.h"
#include "primitives/rms_forward.h"
#include "rms_norm_tiling.h"

namespace ms_ascend_ops {

template <typename T, typename G>
__aicore__ inline void RmsNormKernel(GM_ADDR x, GM_ADDR gamma, GM_ADDR y, GM_ADDR rstd, GM_ADDR workspace,
                                     const RmsNormTilingData& tiling)
{
    AscendC::TPipe pipe;
    RmsForward<T, G, false> kernel;
    kernel.Init(x, nullptr, gamma, y, rstd, nullptr, workspace, tiling, pipe);
    kernel.Process();
}

template <typename T, typename G>
__aicore__ inline void RmsNormGradKernel(GM_ADDR dy, GM_ADDR drstd, GM_ADDR x, GM_ADDR rstd, GM_ADDR gamma, GM_ADDR dx,
                                         GM_ADDR dgamma, GM_ADDR workspace, const RmsNormGradTilingData& tiling)
{
    const NormGradTensors tensors{dy, nullptr, drstd, nullptr, x, nullptr, rstd, gamma, dx, dgamma, nullptr, workspace};
    RunNormBackward<T, G, false, false>(tensors, tiling);
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_RMS_NORM_KERNEL_H
