/*!
 * y = activation(x * weight + bias), a convolution, accumulated in float.
 *
 * Plan: primitives/convolution_tiles.h. Without bias and activation the cube writes y itself; otherwise the vector unit
 * adds the bias to float sums, applies the activation and rounds.
 * Depthwise with channels last, the vector unit does all of it: conv2d_depthwise.h.
 * Bound: the cube, 2 * positions * output channels * K operations.
 */
#ifndef MS_ASCEND_OPS_CONV2D_KERNEL_H
#define MS_ASCEND_OPS_CONV2D_KERNEL_H

#include "conv2d_depthwise.h"
#include "conv2d_epilogue.h"
#include "conv2d_tiling.h"
#include "kernel_operator.h"
#include "primitives/convolution_tiles.h"
#include "primitives/products.h"

namespace ms_ascend_ops {

template <typename T, typename B>
__aicore__ inline void Conv2dKernel(GM_ADDR x, GM_ADDR weight, GM_ADDR bias, GM_ADDR y, GM_ADDR workspace,
                                    const Conv2dTilingData& tiling)
{
    AscendC::TPipe pipe;
    if (tiling.depthwise != 0) {
        typename Convolution<T, float>::Product product;
        REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), product, &tiling.product);  // the cube core leaves here
        DepthwiseConvolution<T, B> convolution;
        convolution.Init(x, weight, bias, y, tiling, pipe);
        convolution.Process();
        product.End();
        return;
    }
    if (tiling.finished == 0) {
        Convolution<T, T> convolution;
        REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), convolution.product, &tiling.product);
        convolution.Init(x, weight, workspace, tiling, pipe);
        convolution.Multiply(y);
        return;
    }
    Convolution<T, float> convolution;
    REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), convolution.product, &tiling.product);
    convolution.Init(x, weight, workspace, tiling, pipe);
    ConvolutionEpilogue<T, B> epilogue;
    epilogue.Init(bias, y, tiling, pipe);
    convolution.MultiplyAndFinish(epilogue);
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_CONV2D_KERNEL_H
