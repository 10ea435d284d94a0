/*!
 * Computes y = (x weight^T) * scale * pertoken_scale + bias of 8-bit integers, with sums in 32 bits, which are exact up
 * to the scales.
 *
 * Plan: tiles of y go to cores round-robin. Tiles of integer products go through the workspace
 * (primitives/product_tiles.h), and the vector unit makes floats of them, scales columns and rows, adds the bias and
 * rounds once.
 * Bound: the cube, 2 * m * n * k operations, at twice the rate of 16 bits; with few rows memory, the weight once.
 */
#ifndef MS_ASCEND_OPS_QUANT_MATMUL_KERNEL_H
#define MS_ASCEND_OPS_QUANT_MATMUL_KERNEL_H

#include "kernel_operator.h"
#include "primitives/dequant_epilogue.h"
#include "primitives/product_tiles.h"
#include "primitives/products.h"
#include "quant_matmul_tiling.h"

namespace ms_ascend_ops {

template <typename T>
__aicore__ inline void QuantMatmulKernel(GM_ADDR x, GM_ADDR weight, GM_ADDR scale, GM_ADDR pertokenScale, GM_ADDR bias,
                                         GM_ADDR y, GM_ADDR workspace, const QuantMatmulTilingData& tiling)
{
    AscendC::TPipe pipe;
    TileProducts<int8_t, int32_t> products[1];
    REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), products[0].product, &tiling.product);
    products[0].Init(x, weight, tiling);
    FinishedTiles<T, 1, DequantEpilogue<T>, int8_t, int32_t> tiles;
    DequantEpilogue<T> epilogue;
    tiles.Init(y, workspace, tiling, pipe);
    epilogue.Init(scale, pertokenScale, bias, tiling, pipe);
    tiles.Process(products, epilogue);
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_QUANT_MATMUL_KERNEL_H
