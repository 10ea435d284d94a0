/*!
 * Computes y = activation(x weight + bias), with sums in float.
 *
 * Plan: tiles of y go to cores round-robin. Without bias and activation the cube writes y itself. Otherwise tiles of
 * float products go through the workspace (primitives/product_tiles.h), and the vector unit adds the bias, applies the
 * activation and rounds.
 * Bound: the cube, 2 * m * n * k operations; with few rows memory, the weight once.
 */
#ifndef MS_ASCEND_OPS_MATMUL_KERNEL_H
#define MS_ASCEND_OPS_MATMUL_KERNEL_H

#include "kernel_operator.h"
#include "matmul_tiling.h"
#include "primitives/activations.h"
#include "primitives/product_tiles.h"
#include "primitives/products.h"
#include "primitives/rows.h"
#include "primitives/tile.h"

namespace ms_ascend_ops {

template <typename T>
__aicore__ inline void MultiplyTiles(TileProducts<T, T>& products, GM_ADDR y, const MatmulTilingData& tiling)
{
    AscendC::GlobalTensor<T> yGm;
    yGm.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(y));
    for (uint64_t task = FirstProductTask(tiling); task < tiling.tasks; task += tiling.cores) {
        const ProductTile tile = ProductTileAt(tiling, task);
        products.Start(tile, yGm[OutputOffset(tiling, tile)], tiling.n);
        products.product.WaitIterateAll();
    }
    products.product.End();
}

// Applies bias and activation to tiles.
template <typename T, typename B, class ACTIVATION>
class MatmulEpilogue {
public:
    __aicore__ inline void Init(GM_ADDR bias, const MatmulTilingData& tiling, AscendC::TPipe& pipe)
    {
        hasBias_ = tiling.hasBias != 0;
        if (hasBias_) {
            biasGm_.SetGlobalBuffer(reinterpret_cast<__gm__ B*>(bias));
            const uint32_t stride = ProductStride(tiling.tileCols);
            pipe.InitBuffer(biasQueue_, 1, stride * sizeof(B));
            pipe.InitBuffer(biasBuf_, stride * sizeof(float));
            bias_ = biasBuf_.template Get<float>();
        }
    }

    __aicore__ inline void BeginTile(const ProductTile& tile)
    {
        if (!hasBias_) {
            return;
        }
        AscendC::LocalTensor<B> bias = biasQueue_.template AllocTensor<B>();
        LoadRows(bias, biasGm_[tile.col], {1, tile.cols, tile.cols, tile.cols}, true);
        biasQueue_.EnQue(bias);
        bias = biasQueue_.template DeQue<B>();
        if constexpr (IS_FLOAT<B>) {
            AscendC::Muls(bias_, bias, 1.0f, static_cast<int32_t>(tile.cols));  // a copy
        } else {
            AscendC::Cast(bias_, bias, AscendC::RoundMode::CAST_NONE, tile.cols);
        }
        biasQueue_.FreeTensor(bias);
    }

    __aicore__ inline void Compute(const ProductChunk<1>& chunk)
    {
        const FloatTensor& z = chunk.products[0];
        if (hasBias_) {
            AddColumns(z, z, bias_, chunk.block);
        }
        ACTIVATION::Forward(chunk.result, chunk.scratch, chunk.stride, z, chunk.ones, chunk.elements);
    }

private:
    bool hasBias_ = false;
    AscendC::GlobalTensor<B> biasGm_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> biasQueue_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> biasBuf_;
    AscendC::LocalTensor<float> bias_;
};

template <typename T, typename B, class ACTIVATION>
__aicore__ inline void FinishTiles(TileProducts<T, float> (&products)[1], GM_ADDR bias, GM_ADDR y, GM_ADDR workspace,
                                   const MatmulTilingData& tiling, AscendC::TPipe& pipe)
{
    FinishedTiles<T, 1, MatmulEpilogue<T, B, ACTIVATION>> tiles;
    MatmulEpilogue<T, B, ACTIVATION> epilogue;
    tiles.Init(y, workspace, tiling, pipe);
    epilogue.Init(bias, tiling, pipe);
    tiles.Process(products, epilogue);
}

template <typename T, typename B>
__aicore__ inline void MatmulKernel(GM_ADDR x, GM_ADDR weight, GM_ADDR bias, GM_ADDR y, GM_ADDR workspace,
                                    const MatmulTilingData& tiling)
{
    AscendC::TPipe pipe;
    if (tiling.finished == 0) {
        TileProducts<T, T> products;
        REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), products.product, &tiling.product);
        products.Init(x, weight, tiling);
        MultiplyTiles(products, y, tiling);
        return;
    }
    TileProducts<T, float> products[1];
    REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), products[0].product, &tiling.product);
    products[0].Init(x, weight, tiling);
    switch (tiling.activation) {  // in the order of the definition
        case 1:
            FinishTiles<T, B, Relu>(products, bias, y, workspace, tiling, pipe);
            break;
        case 2:
            FinishTiles<T, B, GeluErf<T>>(products, bias, y, workspace, tiling, pipe);
            break;
        case 3:
            FinishTiles<T, B, GeluTanh>(products, bias, y, workspace, tiling, pipe);
            break;
        case 4:
            FinishTiles<T, B, Silu>(products, bias, y, workspace, tiling, pipe);
            break;
        default:
            FinishTiles<T, B, NoActivation>(products, bias, y, workspace, tiling, pipe);
            break;
    }
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_MATMUL_KERNEL_H
