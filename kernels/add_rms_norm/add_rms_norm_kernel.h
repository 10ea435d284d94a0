/*!
 * Computes x = x1 + x2, then RMSNorm of x over the last axis, in one pass; and its gradient, which is the same for x1
 * and x2.
 * For plan and bound see primitives/rms_forward.h and primitives/norm_backward.h.
 */
#ifndef MS_ASCEND_OPS_ADD_RMS_NORM_KERNEL_H
#define MS_ASCEND_OPS_ADD_RMS_NORM_KERNEL_H

#include "add_rms_norm_tiling.h"
#include "primitives/norm_backward.h"
#include "primitives/rms_forward.h"

namespace ms_ascend_ops {

template <typename T, typename G>
__aicore__ inline void AddRmsNormKernel(GM_ADDR x1, GM_ADDR x2, GM_ADDR gamma, GM_ADDR y, GM_ADDR rstd, GM_ADDR x,
                                        GM_ADDR workspace, const AddRmsNormTilingData& tiling)
{
    AscendC::TPipe pipe;
    RmsForward<T, G, true> kernel;
    kernel.Init(x1, x2, gamma, y, rstd, x, workspace, tiling, pipe);
    kernel.Process();
}

template <typename T, typename G>
__aicore__ inline void AddRmsNormGradKernel(GM_ADDR dy, GM_ADDR drstd, GM_ADDR dresidual, GM_ADDR x, GM_ADDR rstd,
                                            GM_ADDR gamma, GM_ADDR dx, GM_ADDR dgamma, GM_ADDR workspace,
                                            const AddRmsNormGradTilingData& tiling)
{
    const NormGradTensors tensors{dy,   nullptr, drstd, dresidual, x,       nullptr,
                                  rstd, gamma,   dx,    dgamma,    nullptr, workspace};
    RunNormBackward<T, G, false, true>(tensors, tiling);
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_ADD_RMS_NORM_KERNEL_H
