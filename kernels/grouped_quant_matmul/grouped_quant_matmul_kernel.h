/*!
 * Multiplies groups of rows with a matrix each, of 8-bit integers, sums in 32 bits and applies scales.
 *
 * Plan: as grouped_matmul, tiles belong to one group, and every core walks through all groups and takes the tiles that
 * are its own. As in quant_matmul, tiles of integer products go through the workspace, and the vector unit scales them.
 * Bound: the cube, 2 * m * n * k operations, at twice the rate of 16 bits; with few rows a group memory, the weights of
 * groups that have rows once.
 */
#ifndef MS_ASCEND_OPS_GROUPED_QUANT_MATMUL_KERNEL_H
#define MS_ASCEND_OPS_GROUPED_QUANT_MATMUL_KERNEL_H

#include "grouped_quant_matmul_tiling.h"
#include "kernel_operator.h"
#include "primitives/cumulative_lengths.h"
#include "primitives/dequant_epilogue.h"
#include "primitives/product_tiles.h"
#include "primitives/products.h"

namespace ms_ascend_ops {

// Walks over the tiles of this core, group by group; their batch is the group, their row one of all rows.
class RowGroupTiles {
public:
    __aicore__ inline void Init(GM_ADDR groupList, const ProductTilingData& tiling)
    {
        tiling_ = tiling;
        next_ = AscendC::GetBlockIdx();
        ends_.Init(groupList, tiling.groups, tiling.m);
        // Groups of cores may be one more than there is work for.
        group_ = next_ < tiling.cores ? 0 : tiling.groups;
        end_ = group_ < tiling.groups ? ends_.EndOf(group_, 0) : 0;
    }

    __aicore__ inline bool Next(ProductTile& tile)
    {
        for (; group_ < tiling_.groups; NextGroup()) {
            const uint64_t line = next_ / tiling_.tilesPerRow;
            const uint64_t row = begin_ + line * tiling_.tileRows;
            if (row < end_) {
                const uint64_t col = (next_ - line * tiling_.tilesPerRow) * tiling_.tileCols;
                tile = {group_, row, col, Part(end_ - row, tiling_.tileRows), Part(tiling_.n - col, tiling_.tileCols)};
                next_ += tiling_.cores;
                return true;
            }
            next_ -= (end_ - begin_ + tiling_.tileRows - 1) / tiling_.tileRows * tiling_.tilesPerRow;
        }
        return false;
    }

private:
    __aicore__ inline void NextGroup()
    {
        begin_ = end_;
        if (++group_ < tiling_.groups) {
            end_ = ends_.EndOf(group_, begin_);
        }
    }

    static __aicore__ inline uint32_t Part(uint64_t left, uint32_t most)
    {
        return left < most ? static_cast<uint32_t>(left) : most;
    }

    ProductTilingData tiling_;
    CumulativeLengths ends_;
    uint64_t group_ = 0;
    uint64_t begin_ = 0;  // of the group
    uint64_t end_ = 0;
    uint64_t next_ = 0;  // task of this core, counted from the first one of the group
};

template <typename T>
__aicore__ inline void GroupedQuantMatmulKernel(GM_ADDR x, GM_ADDR weight, GM_ADDR scale, GM_ADDR groupList,
                                                GM_ADDR pertokenScale, GM_ADDR y, GM_ADDR workspace,
                                                const GroupedQuantMatmulTilingData& tiling)
{
    AscendC::TPipe pipe;
    TileProducts<int8_t, int32_t> products[1];
    REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), products[0].product, &tiling.product);
    products[0].Init(x, weight, tiling);
    RowGroupTiles tiles;
    FinishedTiles<T, 1, DequantEpilogue<T>, int8_t, int32_t> finished;
    DequantEpilogue<T> epilogue;
    tiles.Init(groupList, tiling);
    finished.Init(y, workspace, tiling, pipe);
    epilogue.Init(scale, pertokenScale, nullptr, tiling, pipe);
    finished.Process(products, epilogue, tiles);
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_GROUPED_QUANT_MATMUL_KERNEL_H
