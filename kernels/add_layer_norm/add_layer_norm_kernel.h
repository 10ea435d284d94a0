/*!
 * Computes x = x1 + x2, then LayerNorm of x over trailing axes, in one pass; and its gradient, which is the same for x1
 * and x2.
 * For plan and bound see primitives/layer_norm_forward.h and primitives/norm_backward.h.
 */
#ifndef MS_ASCEND_OPS_ADD_LAYER_NORM_KERNEL_H
#define MS_ASCEND_OPS_ADD_LAYER_NORM_KERNEL_H

#include "add_layer_norm_tiling.h"
#include "primitives/layer_norm_forward.h"
#include "primitives/norm_backward.h"

namespace ms_ascend_ops {

template <typename T, typename G>
__aicore__ inline void AddLayerNormKernel(GM_ADDR x1, GM_ADDR x2, GM_ADDR gamma, GM_ADDR beta, GM_ADDR y, GM_ADDR mean,
                                          GM_ADDR rstd, GM_ADDR x, GM_ADDR workspace,
                                          const AddLayerNormTilingData& tiling)
{
    AscendC::TPipe pipe;
    LayerNormForward<T, G, true> kernel;
    kernel.Init(x1, x2, gamma, beta, y, mean, rstd, x, workspace, tiling, pipe);
    kernel.Process();
}

template <typename T, typename G>
__aicore__ inline void AddLayerNormGradKernel(GM_ADDR dy, GM_ADDR dmean, GM_ADDR drstd, GM_ADDR dresidual, GM_ADDR x,
                                              GM_ADDR mean, GM_ADDR rstd, GM_ADDR gamma, GM_ADDR dx, GM_ADDR dgamma,
                                              GM_ADDR dbeta, GM_ADDR workspace,
                                              const AddLayerNormGradTilingData& tiling)
{
    const NormGradTensors tensors{dy, dmean, drstd, dresidual, x, mean, rstd, gamma, dx, dgamma, dbeta, workspace};
    RunNormBackward<T, G, true, true>(tensors, tiling);
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_ADD_LAYER_NORM_KERNEL_H
