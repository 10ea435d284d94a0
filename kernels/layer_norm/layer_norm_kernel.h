/*!
 * Computes LayerNorm over trailing axes, with or without ReLU, and its gradient.
 * For plan and bound see primitives/layer_norm_forward.h and primitives/norm_backward.h.
 */
#ifndef MS_ASCEND_OPS_LAYER_NORM_KERNEL_H
#define MS_ASCEND_OPS_LAYER_NORM_KERNEL_H

#include "layer_norm_tiling.h"
#include "primitives/layer_norm_forward.h"
#include "primitives/norm_backward.h"

namespace ms_ascend_ops {

template <typename T, typename G>
__aicore__ inline void LayerNormKernel(GM_ADDR x, GM_ADDR gamma, GM_ADDR beta, GM_ADDR y, GM_ADDR mean, GM_ADDR rstd,
                                       GM_ADDR workspace, const LayerNormTilingData& tiling)
{
    AscendC::TPipe pipe;
    LayerNormForward<T, G, false> kernel;
    kernel.Init(x, nullptr, gamma, beta, y, mean, rstd, nullptr, workspace, tiling, pipe);
    kernel.Process();
}

template <typename T, typename G>
__aicore__ inline void LayerNormGradKernel(GM_ADDR dy, GM_ADDR dmean, GM_ADDR drstd, GM_ADDR x, GM_ADDR mean,
                                           GM_ADDR rstd, GM_ADDR gamma, GM_ADDR beta, GM_ADDR dx, GM_ADDR dgamma,
                                           GM_ADDR dbeta, GM_ADDR workspace, const LayerNormGradTilingData& tiling)
{
    const NormGradTensors tensors{dy, dmean, drstd, nullptr, x, mean, rstd, gamma, dx, dgamma, dbeta, workspace, beta};
    RunNormBackward<T, G, true, false>(tensors, tiling);
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_LAYER_NORM_KERNEL_H
