/*!
 * Calculates the tiling of block_sparse_matmul and its gradient, in plain C++. Tasks are those of sparse_matmul, with
 * blocks instead of values.
 */
#ifndef MS_ASCEND_OPS_BLOCK_SPARSE_MATMUL_TILING_H
#define MS_ASCEND_OPS_BLOCK_SPARSE_MATMUL_TILING_H

#include <stdexcept>
#include <string>

#include "block_sparse_matmul_params.h"
#include "primitives/cube_tiling.h"
#include "primitives/split.h"

namespace ms_ascend_ops {

struct BlockSparseMatmulTilingData {
    CubeTiling product;
    uint64_t rows;   // of blocks
    uint64_t inner;  // rows of blocks of the dense factor
    uint64_t cols;
    uint64_t entries;
    uint64_t tasks;
    uint64_t perTask;  // ends of rows and blocks
    uint64_t tasksPerCore;
    uint64_t partialStride;  // of the workspace: elements of a part of a row of blocks
    uint32_t productCols;    // columns of a product of the cube
    uint32_t tileCols;       // columns that the vector unit takes at a time
    uint32_t cores;
    uint32_t reserved;  // tiling data is a multiple of 8 bytes
};

using BlockSparseMatmulGradTilingData = BlockSparseMatmulTilingData;

namespace block_sparse_matmul {

constexpr uint64_t MOST_TASKS = 120;
constexpr uint64_t LEAST_BLOCKS = 4;  // of a task
constexpr uint64_t PRODUCT_COLS = 1024;
constexpr uint64_t TILE_COLS = 2048;

inline void Sizes(const TensorDesc& rowEnds, const TensorDesc& indices, const TensorDesc& dense,
                  BlockSparseMatmulTilingData& tiling)
{
    Size32(static_cast<uint64_t>(dense.dims[0]), "the rows of the dense matrix");
    tiling.rows = Size32(static_cast<uint64_t>(rowEnds.dims[0]), "the rows of blocks");
    tiling.entries = Size32(static_cast<uint64_t>(indices.dims[0]), "the blocks");
    tiling.inner = static_cast<uint64_t>(dense.dims[0]) / CUBE_SIDE;
    tiling.cols = Size32(static_cast<uint64_t>(dense.dims[1]), "the columns of the dense matrix");
    Size32(tiling.rows * CUBE_SIDE, "the rows of the result");
    tiling.reserved = 0;
}

inline LaunchConfig Share(uint64_t steps, const Platform& platform, BlockSparseMatmulTilingData& tiling)
{
    const uint64_t wanted = std::max<uint64_t>(1, std::min<uint64_t>(MOST_TASKS, steps / LEAST_BLOCKS));
    tiling.perTask = std::max<uint64_t>(1, CeilDiv(steps, wanted));
    tiling.tasks = CeilDiv(steps, tiling.perTask);
    const uint64_t work = steps * CUBE_SIDE * CUBE_SIDE * std::max<uint64_t>(1, tiling.cols);
    const uint64_t cores = CoresFor(tiling.tasks, work, platform);
    tiling.tasksPerCore = std::max<uint64_t>(1, CeilDiv(tiling.tasks, cores));
    LaunchConfig config;
    config.blockDim = static_cast<uint32_t>(std::max<uint64_t>(1, CeilDiv(tiling.tasks, tiling.tasksPerCore)));
    tiling.cores = config.blockDim;
    return config;
}

}  // namespace block_sparse_matmul

inline LaunchConfig BlockSparseMatmulTiling(const BlockSparseMatmulParams& params, const Platform& platform,
                                            BlockSparseMatmulTilingData& tiling)
{
    block_sparse_matmul::Sizes(params.row_ends, params.indices, params.dense, tiling);
    LaunchConfig config =
        block_sparse_matmul::Share(tiling.cols == 0 ? 0 : tiling.rows + tiling.entries, platform, tiling);
    const uint64_t cols = std::max<uint64_t>(1, tiling.cols);
    tiling.productCols = static_cast<uint32_t>(std::min(cols, block_sparse_matmul::PRODUCT_COLS));
    tiling.tileCols =
        static_cast<uint32_t>(std::min<uint64_t>(RoundUp(cols, FLOATS_PER_REPEAT), block_sparse_matmul::TILE_COLS));
    tiling.partialStride = CUBE_SIDE * RoundUp(cols, LINE_BYTES / sizeof(float));
    tiling.product =
        PlanCube(CUBE_SIDE, tiling.productCols, CUBE_SIDE, params.dense.dtype, DataType::FLOAT32, false, false);
    tiling.product.N = static_cast<int32_t>(cols);
    CheckRowsApart(tiling.product, {CUBE_SIDE, "a row of values"}, {cols, "a row of the dense factor"}, platform);
    // The workspace has parts of rows that tasks share, two a task, and one row of blocks of each core, which the
    // vector unit rounds.
    config.workspaceBytes = (2 * tiling.tasks + config.blockDim) * tiling.partialStride * sizeof(float);
    return config;
}

inline LaunchConfig BlockSparseMatmulGradTiling(const BlockSparseMatmulGradParams& params, const Platform& platform,
                                                BlockSparseMatmulGradTilingData& tiling)
{
    block_sparse_matmul::Sizes(params.row_ends, params.indices, params.dense, tiling);
    const LaunchConfig config = block_sparse_matmul::Share(tiling.entries, platform, tiling);
    const uint64_t cols = std::max<uint64_t>(1, tiling.cols);
    tiling.productCols = 0;
    tiling.tileCols = CUBE_SIDE * CUBE_SIDE;
    tiling.partialStride = 0;
    tiling.product = PlanCube(CUBE_SIDE, CUBE_SIDE, cols, params.dense.dtype, params.dense.dtype, false, true);
    const RowsApart rows{cols, "a row of the dense factor"};
    CheckRowsApart(tiling.product, rows, rows, platform);
    return config;
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_BLOCK_SPARSE_MATMUL_TILING_H
