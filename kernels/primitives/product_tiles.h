/*!
 * Computes products of matrices tile by tile, which the vector unit finishes.
 *
 * Cube and vector unit share global memory only: tiles of float products go through the workspace, two of each product
 * for a core. While the vector unit makes the output of one, chunk by chunk, the cube calculates the next.
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_PRODUCT_TILES_H
#define MS_ASCEND_OPS_PRIMITIVES_PRODUCT_TILES_H

#include "kernel_operator.h"
#include "primitives/ones.h"
#include "primitives/product_tiling.h"
#include "primitives/products.h"
#include "primitives/rows.h"
#include "primitives/tile.h"

namespace ms_ascend_ops {

// A tile of the output has this place and size.
struct ProductTile {
    uint64_t batch;
    uint64_t row;
    uint64_t col;
    uint32_t rows;
    uint32_t cols;
};

__aicore__ inline ProductTile ProductTileAt(const ProductTilingData& tiling, uint64_t task)
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

// Returns where a tile begins in the output.
__aicore__ inline uint64_t OutputOffset(const ProductTilingData& tiling, const ProductTile& tile)
{
    return tile.batch * tiling.yBatch + tile.row * tiling.n + tile.col;
}

// Returns the elements from a row of a chunk to the next: whole blocks, also of 16 bits.
__aicore__ inline uint32_t ProductStride(uint32_t cols)
{
    return (cols + 15) / 16 * 16;
}

// Returns the first task of this core, which has first, first + cores ...
__aicore__ inline uint64_t FirstProductTask(const ProductTilingData& tiling)
{
    const uint64_t core = AscendC::GetBlockIdx();  // groups of cores may be one more than there is work for
    return core < tiling.cores ? core : tiling.tasks;
}

// Walks over those tasks as tiles.
class TilesInTurn {
public:
    __aicore__ inline explicit TilesInTurn(const ProductTilingData& tiling)
        : tiling_(tiling), task_(FirstProductTask(tiling))
    {}

    // Returns false behind the last tile.
    __aicore__ inline bool Next(ProductTile& tile)
    {
        if (task_ >= tiling_.tasks) {
            return false;
        }
        tile = ProductTileAt(tiling_, task_);
        task_ += tiling_.cores;
        return true;
    }

private:
    ProductTilingData tiling_;
    uint64_t task_;
};

// Computes the products of one core with one weight. RESULT is float for the vector unit, or T; int32_t for int8_t.
template <typename T, typename RESULT>
class TileProducts {
public:
    // An x of integers is never transposed.
    using Left = GmMatrix<T, !AscendC::IsSameType<T, int8_t>::value>;
    using Right = GmMatrix<T, true>;
    using Result = GmMatrix<RESULT>;
    MatmulObject<Left, Right, Result> product;

    __aicore__ inline void Init(GM_ADDR x, GM_ADDR weight, const ProductTilingData& tiling)
    {
        tiling_ = tiling;
        xGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(x));
        weightGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(weight));
    }

    // `stride` is the elements of a row of the result in memory.
    __aicore__ inline void Start(const ProductTile& tile, const AscendC::GlobalTensor<RESULT>& result, uint64_t stride)
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
    ProductTilingData tiling_;
    AscendC::GlobalTensor<T> xGm_;
    AscendC::GlobalTensor<T> weightGm_;
};

// The vector unit takes this of the products of a tile at a time: some rows of each, and room to work in.
template <uint32_t COUNT, typename PRODUCT = float>
struct ProductChunk {
    AscendC::LocalTensor<PRODUCT> products[COUNT];
    uint32_t row;  // of the tile, the first
    RowBlock block;
    int32_t elements;                     // of each, with the padding behind its rows
    AscendC::LocalTensor<float> result;   // not one of the products
    AscendC::LocalTensor<float> scratch;  // tensors of the activation, if it has any,
    uint32_t stride;                      // so many elements apart
    AscendC::LocalTensor<float> ones;     // one block
};

// Makes the output of tiles of COUNT products. FINISH has
//     BeginTile(tile)    before the first chunk of a tile
//     Compute(chunk)     which calculates chunk.result of chunk.products
// OPERAND and PRODUCT: of the products; T is the type of the output.
template <typename T, uint32_t COUNT, class FINISH, typename OPERAND = T, typename PRODUCT = float>
class FinishedTiles {
    static_assert(sizeof(PRODUCT) == sizeof(float), "the vector unit takes products of 32 bits");
    using Products = TileProducts<OPERAND, PRODUCT>;

public:
    __aicore__ inline void Init(GM_ADDR y, GM_ADDR workspace, const ProductTilingData& tiling, AscendC::TPipe& pipe)
    {
        tiling_ = tiling;
        yGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(y));
        CoreWorkspace own(workspace, tiling.workspacePerCore);
        const uint32_t elements = tiling.tileRows * tiling.tileCols;
        chunkElements_ = tiling.chunkRows * ProductStride(tiling.tileCols);
        for (uint32_t i = 0; i < COUNT; ++i) {
            for (uint32_t buffer = 0; buffer < 2; ++buffer) {
                own.Take(productGm_[buffer][i], elements);
            }
            pipe.InitBuffer(productQueue_[i], 2, chunkElements_ * sizeof(float));
        }
        pipe.InitBuffer(outQueue_, 2, chunkElements_ * sizeof(T));
        pipe.InitBuffer(workBuf_, (1 + tiling.scratch) * chunkElements_ * sizeof(float));
        work_ = workBuf_.template Get<float>();
        scratch_ = ScratchBehind(work_, chunkElements_, tiling.scratch);
        ones_ = BlockOfOnes(onesBuf_, pipe);
    }

    __aicore__ inline void Process(Products (&products)[COUNT], FINISH& finish)
    {
        TilesInTurn tiles(tiling_);
        Process(products, finish, tiles);
    }

    // `tiles` are those of this core, as TilesInTurn has them.
    template <class TILES>
    __aicore__ inline void Process(Products (&products)[COUNT], FINISH& finish, TILES& tiles)
    {
        uint32_t buffer = 0;
        ProductTile tile{};
        bool goesOn = tiles.Next(tile);
        if (goesOn) {
            Start(products, tile, buffer);
        }
        while (goesOn) {
            if (tiling_.k != 0) {
                for (uint32_t i = 0; i < COUNT; ++i) {
                    products[i].product.WaitIterateAll();
                }
            }
            ProductTile next{};
            goesOn = tiles.Next(next);
            if (goesOn) {
                Start(products, next, 1 - buffer);
            }
            finish.BeginTile(tile);
            for (uint32_t row = 0; row < tile.rows; row += tiling_.chunkRows) {
                Finish(tile, buffer, row, finish);
            }
            tile = next;
            buffer = 1 - buffer;
        }
        for (uint32_t i = 0; i < COUNT; ++i) {
            products[i].product.End();
        }
    }

private:
    __aicore__ inline void Start(Products (&products)[COUNT], const ProductTile& tile, uint32_t buffer)
    {
        if (tiling_.k == 0) {
            return;
        }
        for (uint32_t i = 0; i < COUNT; ++i) {
            products[i].Start(tile, productGm_[buffer][i], tiling_.tileCols);
        }
    }

    __aicore__ inline void Finish(const ProductTile& tile, uint32_t buffer, uint32_t row, FINISH& finish)
    {
        const uint32_t left = tile.rows - row;
        const uint32_t rows = left < tiling_.chunkRows ? left : tiling_.chunkRows;
        const uint32_t stride = ProductStride(tile.cols);
        ProductChunk<COUNT, PRODUCT> chunk;
        chunk.row = row;
        chunk.block = {rows, tile.cols, stride};
        chunk.elements = static_cast<int32_t>(rows * stride);
        for (uint32_t i = 0; i < COUNT; ++i) {
            chunk.products[i] = Load(productQueue_[i], productGm_[buffer][i][row * tiling_.tileCols], chunk.block);
        }
        AscendC::LocalTensor<T> y = outQueue_.template AllocTensor<T>();
        chunk.result = FloatTarget(y, work_);
        chunk.scratch = scratch_;
        chunk.stride = chunkElements_;
        chunk.ones = ones_;
        finish.Compute(chunk);
        FromFloat(y, chunk.result, static_cast<uint32_t>(chunk.elements));
        for (uint32_t i = 0; i < COUNT; ++i) {
            productQueue_[i].FreeTensor(chunk.products[i]);
        }
        StoreQueued(outQueue_, yGm_[OutputOffset(tiling_, tile) + row * tiling_.n], y,
                    {rows, tile.cols, stride, tiling_.n});
    }

    using ProductQueue = AscendC::TQue<AscendC::TPosition::VECIN, 1>;

    __aicore__ inline AscendC::LocalTensor<PRODUCT> Load(ProductQueue& queue,
                                                         const AscendC::GlobalTensor<PRODUCT>& from,
                                                         const RowBlock& block)
    {
        AscendC::LocalTensor<PRODUCT> values = queue.template AllocTensor<PRODUCT>();
        if (tiling_.k != 0) {
            LoadRows(values, from, {block.rows, block.cols, block.stride, tiling_.tileCols}, true);
        }
        queue.EnQue(values);
        values = queue.template DeQue<PRODUCT>();
        if (tiling_.k == 0) {  // sums of nothing
            AscendC::Duplicate(values, PRODUCT{}, static_cast<int32_t>(block.rows * block.stride));
        }
        return values;
    }

    ProductTilingData tiling_;
    uint32_t chunkElements_ = 0;
    AscendC::GlobalTensor<T> yGm_;
    AscendC::GlobalTensor<PRODUCT> productGm_[2][COUNT];
    ProductQueue productQueue_[COUNT];
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> outQueue_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> workBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> onesBuf_;
    AscendC::LocalTensor<float> work_;
    AscendC::LocalTensor<float> scratch_;
    AscendC::LocalTensor<float> ones_;
};

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_PRODUCT_TILES_H
