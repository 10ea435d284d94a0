/*!
 * Computes gated linear layers, y = act(x gate_weight^T) * (x up_weight^T), with sums in float, for any activation of
 * the form of primitives/silu.h and primitives/gelu.h.
 *
 * Plan: tiles of y go to cores round-robin. Both float products of a tile go through the workspace
 * (primitives/product_tiles.h), and the vector unit multiplies the activation of one with the other and rounds once:
 * neither is in memory as a whole.
 * Bound: the cube, 4 * m * n * k operations; with few rows memory, both weights once.
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_LINEAR_GATED_KERNEL_H
#define MS_ASCEND_OPS_PRIMITIVES_LINEAR_GATED_KERNEL_H

#include "kernel_operator.h"
#include "primitives/linear_gated_tiling.h"
#include "primitives/product_tiles.h"
#include "primitives/products.h"

namespace ms_ascend_ops {

template <class ACTIVATION>
struct GateAndUp {
    __aicore__ inline void BeginTile(const ProductTile&) {}

    __aicore__ inline void Compute(const ProductChunk<2>& chunk)
    {
        ACTIVATION::Forward(chunk.result, chunk.scratch, chunk.stride, chunk.products[0], chunk.ones, chunk.elements);
        AscendC::Mul(chunk.result, chunk.result, chunk.products[1], chunk.elements);
    }
};

template <typename T, class ACTIVATION>
__aicore__ inline void RunLinearGated(GM_ADDR x, GM_ADDR gateWeight, GM_ADDR upWeight, GM_ADDR y, GM_ADDR workspace,
                                      const ProductTilingData& tiling)
{
    AscendC::TPipe pipe;
    TileProducts<T, float> products[2];  // gate, up
    REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), products[0].product, &tiling.product, products[1].product,
                      &tiling.product);
    products[0].Init(x, gateWeight, tiling);
    products[1].Init(x, upWeight, tiling);
    FinishedTiles<T, 2, GateAndUp<ACTIVATION>> tiles;
    GateAndUp<ACTIVATION> gated;
    tiles.Init(y, workspace, tiling, pipe);
    tiles.Process(products, gated);
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_LINEAR_GATED_KERNEL_H
