/*!
 * y = activation(x weight + bias), accumulated in float.
 *
 * Plan: every core takes tiles of y in turn. Without bias and activation the cube writes y itself. Otherwise tiles of
 * float products go through the workspace, two for each core: while the vector unit adds the bias to one, applies the
 * activation and rounds it, the cube calculates the next.
 * Bound: the cube, 2 * m * n * k operations; with few rows memory, the weight once.
 */
#ifndef MS_ASCEND_OPS_MATMUL_KERNEL_H
#define MS_ASCEND_OPS_MATMUL_KERNEL_H

#include "kernel_operator.h"
#include "matmul_tiling.h"
#include "primitives/gelu.h"
#include "primitives/ones.h"
#include "primitives/products.h"
#include "primitives/rows.h"
#include "primitives/silu.h"
#include "primitives/tile.h"

namespace ms_ascend_ops {

// Activations of the epilogue, as silu.h has them.
struct NoActivation {
    static __aicore__ inline void Forward(const FloatTensor& dst, const FloatTensor&, uint32_t, const FloatTensor& x,
                                          const FloatTensor&, int32_t count)
    {
        AscendC::Muls(dst, x, 1.0f, count);  // a copy
    }
};
struct ReluActivation {
    static __aicore__ inline void Forward(const FloatTensor& dst, const FloatTensor&, uint32_t, const FloatTensor& x,
                                          const FloatTensor&, int32_t count)
    {
        AscendC::Relu(dst, x, count);
    }
};

// A tile of the output.
struct MatmulTile {
    uint64_t batch;
    uint64_t row;
    uint64_t col;
    uint32_t rows;
    uint32_t cols;
};

__aicore__ inline MatmulTile MatmulTileAt(const MatmulTilingData& tiling, uint64_t task)
{
    const uint64_t batch = task / tiling.tilesPerBatch;
    const uint64_t index = task - batch * tiling.tilesPerBatch;
    const uint64_t line = index / tiling.tilesPerRow;
    const uint64_t row = line * tiling.tileRows;
    const uint64_t col = (index - line * tiling.tilesPerRow) * tiling.tileCols;
    const uint64_t rows = tiling.m - row;
    const uint64_t cols = tiling.n - col;
    return {batch, row, col, rows < tiling.tileRows ? static_cast<uint32_t>(rows) : tiling.tileRows,
            cols < tiling.tileCols ? static_cast<uint32_t>(cols) : tiling.tileCols};
}

// The products of one core. RESULT: float for the epilogue, or T.
template <typename T, typename RESULT>
class MatmulProducts {
public:
    using Operand = matmul::MatmulType<AscendC::TPosition::GM, CubeFormat::ND, T, true>;
    using Result = matmul::MatmulType<AscendC::TPosition::GM, CubeFormat::ND, RESULT>;
    MatmulObject<Operand, Operand, Result> product;

    __aicore__ inline void Init(GM_ADDR x, GM_ADDR weight, const MatmulTilingData& tiling)
    {
        tiling_ = tiling;
        xGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(x));
        weightGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(weight));
    }

    // `stride`: elements of a row of the result in memory.
    __aicore__ inline void Start(const MatmulTile& tile, const AscendC::GlobalTensor<RESULT>& result, uint64_t stride)
    {
        const bool transposeX = tiling_.transposeX != 0;
        const bool transposeWeight = tiling_.transposeWeight != 0;
        const uint64_t x = tile.batch * tiling_.xBatch + (transposeX ? tile.row : tile.row * tiling_.k);
        const uint64_t weight = tile.batch * tiling_.weightBatch + (transposeWeight ? tile.col * tiling_.k : tile.col);
        product.SetOrgShape(static_cast<int>(tiling_.m), static_cast<int>(tiling_.n), static_cast<int>(tiling_.k),
                            static_cast<int>(tiling_.k), static_cast<int>(stride));
        product.SetSingleShape(static_cast<int>(tile.rows), static_cast<int>(tile.cols), static_cast<int>(tiling_.k));
        product.SetTensorA(xGm_[x], transposeX);
        product.SetTensorB(weightGm_[weight], transposeWeight);
        product.template IterateAll<false>(result, 0, false, true);
    }

private:
    MatmulTilingData tiling_;
    AscendC::GlobalTensor<T> xGm_;
    AscendC::GlobalTensor<T> weightGm_;
};

// The tasks of this core: first, first + cores ...
__aicore__ inline uint64_t FirstMatmulTask(const MatmulTilingData& tiling)
{
    const uint64_t core = AscendC::GetBlockIdx();  // groups of cores may be one more than there is work for
    return core < tiling.cores ? core : tiling.tasks;
}

template <typename T>
__aicore__ inline void MultiplyTiles(MatmulProducts<T, T>& products, GM_ADDR y, const MatmulTilingData& tiling)
{
    AscendC::GlobalTensor<T> yGm;
    yGm.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(y));
    for (uint64_t task = FirstMatmulTask(tiling); task < tiling.tasks; task += tiling.cores) {
        const MatmulTile tile = MatmulTileAt(tiling, task);
        products.Start(tile, yGm[(tile.batch * tiling.m + tile.row) * tiling.n + tile.col], tiling.n);
        products.product.WaitIterateAll();
    }
    products.product.End();
}

template <typename T, typename B, class ACTIVATION>
class MatmulEpilogue {
public:
    __aicore__ inline void Init(GM_ADDR bias, GM_ADDR y, GM_ADDR workspace, const MatmulTilingData& tiling,
                                AscendC::TPipe& pipe)
    {
        tiling_ = tiling;
        biasGm_.SetGlobalBuffer(reinterpret_cast<__gm__ B*>(bias));
        yGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(y));
        GM_ADDR own = workspace + tiling.workspacePerCore * AscendC::GetBlockIdx();
        const uint32_t elements = tiling.tileRows * tiling.tileCols;
        productGm_[0].SetGlobalBuffer(reinterpret_cast<__gm__ float*>(own), elements);
        productGm_[1].SetGlobalBuffer(reinterpret_cast<__gm__ float*>(own) + elements, elements);
        const uint32_t stride = StrideOf(tiling.tileCols);
        const uint32_t chunk = tiling.chunkRows * stride;
        pipe.InitBuffer(productQueue_, 2, chunk * sizeof(float));
        pipe.InitBuffer(outQueue_, 2, chunk * sizeof(T));
        pipe.InitBuffer(workBuf_, (1 + SCRATCH) * chunk * sizeof(float));
        work_ = workBuf_.template Get<float>();
        ones_ = BlockOfOnes(onesBuf_, pipe);
        if (tiling.hasBias != 0) {
            pipe.InitBuffer(biasQueue_, 1, stride * sizeof(B));
            pipe.InitBuffer(biasBuf_, stride * sizeof(float));
            bias_ = biasBuf_.template Get<float>();
        }
    }

    __aicore__ inline void Process(MatmulProducts<T, float>& products)
    {
        uint32_t buffer = 0;
        for (uint64_t task = FirstMatmulTask(tiling_); task < tiling_.tasks; task += tiling_.cores) {
            const MatmulTile tile = MatmulTileAt(tiling_, task);
            if (tiling_.k != 0 && task == FirstMatmulTask(tiling_)) {
                products.Start(tile, productGm_[buffer], tiling_.tileCols);
            }
            if (tiling_.k != 0) {
                products.product.WaitIterateAll();
            }
            if (tiling_.k != 0 && task + tiling_.cores < tiling_.tasks) {
                products.Start(MatmulTileAt(tiling_, task + tiling_.cores), productGm_[1 - buffer], tiling_.tileCols);
            }
            if (tiling_.hasBias != 0) {
                LoadBias(tile);
            }
            for (uint32_t row = 0; row < tile.rows; row += tiling_.chunkRows) {
                Finish(tile, productGm_[buffer], row);
            }
            buffer = 1 - buffer;
        }
        products.product.End();
    }

private:
    // Float tensors that GELU by the error function takes (activation_scratch.h); the others take none.
    static constexpr uint32_t SCRATCH =
        AscendC::IsSameType<ACTIVATION, GeluErf<T>>::value ? (sizeof(T) == 2 ? 2 : 3) : 0;

    __aicore__ inline static uint32_t StrideOf(uint32_t cols) { return (cols + 15) / 16 * 16; }

    __aicore__ inline void LoadBias(const MatmulTile& tile)
    {
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

    __aicore__ inline void Finish(const MatmulTile& tile, const AscendC::GlobalTensor<float>& from, uint32_t row)
    {
        const uint32_t left = tile.rows - row;
        const uint32_t rows = left < tiling_.chunkRows ? left : tiling_.chunkRows;
        const uint32_t stride = StrideOf(tile.cols);
        const RowBlock block{rows, tile.cols, stride};
        const int32_t elements = static_cast<int32_t>(rows * stride);
        AscendC::LocalTensor<float> z = productQueue_.template AllocTensor<float>();
        if (tiling_.k != 0) {
            LoadRows(z, from[row * tiling_.tileCols], {rows, tile.cols, stride, tiling_.tileCols}, true);
        }
        productQueue_.EnQue(z);
        z = productQueue_.template DeQue<float>();
        if (tiling_.k == 0) {  // sums of nothing
            AscendC::Duplicate(z, 0.0f, elements);
        }
        if (tiling_.hasBias != 0) {
            AddColumns(z, z, bias_, block);
        }
        AscendC::LocalTensor<T> y = outQueue_.template AllocTensor<T>();
        const AscendC::LocalTensor<float> result = FloatTarget(y, work_);
        const uint32_t chunk = tiling_.chunkRows * StrideOf(tiling_.tileCols);
        ACTIVATION::Forward(result, work_[chunk], chunk, z, ones_, elements);
        FromFloat(y, result, static_cast<uint32_t>(elements));
        productQueue_.FreeTensor(z);
        outQueue_.EnQue(y);
        y = outQueue_.template DeQue<T>();
        const uint64_t at = (tile.batch * tiling_.m + tile.row + row) * tiling_.n + tile.col;
        StoreRows(yGm_[at], y, {rows, tile.cols, stride, tiling_.n});
        outQueue_.FreeTensor(y);
    }

    MatmulTilingData tiling_;
    AscendC::GlobalTensor<B> biasGm_;
    AscendC::GlobalTensor<T> yGm_;
    AscendC::GlobalTensor<float> productGm_[2];
    AscendC::TQue<AscendC::TPosition::VECIN, 1> productQueue_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> biasQueue_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> outQueue_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> workBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> biasBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> onesBuf_;
    AscendC::LocalTensor<float> work_;
    AscendC::LocalTensor<float> bias_;
    AscendC::LocalTensor<float> ones_;
};

template <typename T, typename B, class ACTIVATION>
__aicore__ inline void FinishTiles(MatmulProducts<T, float>& products, GM_ADDR bias, GM_ADDR y, GM_ADDR workspace,
                                   const MatmulTilingData& tiling, AscendC::TPipe& pipe)
{
    MatmulEpilogue<T, B, ACTIVATION> epilogue;
    epilogue.Init(bias, y, workspace, tiling, pipe);
    epilogue.Process(products);
}

template <typename T, typename B>
__aicore__ inline void MatmulKernel(GM_ADDR x, GM_ADDR weight, GM_ADDR bias, GM_ADDR y, GM_ADDR workspace,
                                    const MatmulTilingData& tiling)
{
    AscendC::TPipe pipe;
    if (tiling.hasBias == 0 && tiling.activation == 0 && tiling.k != 0) {
        MatmulProducts<T, T> products;
        REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), products.product, &tiling.product);
        products.Init(x, weight, tiling);
        MultiplyTiles(products, y, tiling);
        return;
    }
    MatmulProducts<T, float> products;
    REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), products.product, &tiling.product);
    products.Init(x, weight, tiling);
    switch (tiling.activation) {  // in the order of the definition
        case 1:
            FinishTiles<T, B, ReluActivation>(products, bias, y, workspace, tiling, pipe);
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
