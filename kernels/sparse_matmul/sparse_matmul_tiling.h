/*!
 * Calculates the tiling of sparse_matmul and sparse_matmul_grad, in plain C++.
 *
 * Work is split by non-zeros and rows together (merge path): the ends of rows and the non-zeros are one list, which
 * tasks share evenly, whatever the pattern. Tasks follow from the shapes, not from the number of cores: neither do
 * results.
 */
#ifndef MS_ASCEND_OPS_SPARSE_MATMUL_TILING_H
#define MS_ASCEND_OPS_SPARSE_MATMUL_TILING_H

#include <stdexcept>
#include <string>

#include "primitives/split.h"
#include "sparse_matmul_params.h"

namespace ms_ascend_ops {

struct SparseMatmulTilingData {
    uint64_t rows;
    uint64_t inner;  // rows of the dense factor
    uint64_t cols;
    uint64_t entries;
    uint64_t tasks;
    uint64_t perTask;  // ends of rows and non-zeros
    uint64_t tasksPerCore;
    uint64_t partialStride;  // of the workspace: elements from a part of a row to the next
    uint32_t tileCols;
    uint32_t rowBuffers;
};

struct SparseMatmulGradTilingData {
    uint64_t rows;
    uint64_t inner;
    uint64_t cols;
    uint64_t entries;
    uint64_t perTask;
    uint64_t tasks;
    uint64_t tasksPerCore;
    uint32_t tileCols;
    uint32_t rowBuffers;
};

namespace sparse_matmul {

// 240 are shared evenly by 20, 24, 40 and 48 cores, and by 64 as 15 by 16.
constexpr uint64_t MOST_TASKS = 240;
constexpr uint64_t LEAST_WORK = 16 * 1024;  // products of a task
constexpr uint64_t MAX_TILE_COLS = 8192;
constexpr uint32_t ROW_BUFFERS = 4;
constexpr uint64_t SHARE_ENTRIES = 16;  // of the gradient: a block of 32 bytes of any type

// Returns the widest stretch of columns whose buffers, of `bytesPerCol`, fit.
inline uint32_t TileCols(uint64_t cols, uint32_t bytesPerCol, uint32_t fixed, const Platform& platform)
{
    const uint64_t fit = (platform.ubBytes - fixed) / bytesPerCol / FLOATS_PER_REPEAT * FLOATS_PER_REPEAT;
    const uint64_t wanted = RoundUp(std::max<uint64_t>(1, cols), FLOATS_PER_REPEAT);
    return static_cast<uint32_t>(std::min<uint64_t>({fit, wanted, MAX_TILE_COLS}));
}

}  // namespace sparse_matmul

inline LaunchConfig SparseMatmulTiling(const SparseMatmulParams& params, const Platform& platform,
                                       SparseMatmulTilingData& tiling)
{
    const uint32_t bytes = SizeOf(params.dense.dtype);
    tiling.rows = Size32(static_cast<uint64_t>(params.row_ends.dims[0]), "the rows of the sparse matrix");
    tiling.entries = Size32(static_cast<uint64_t>(params.indices.dims[0]), "the values of the sparse matrix");
    tiling.inner = Size32(static_cast<uint64_t>(params.dense.dims[0]), "the rows of the dense matrix");
    tiling.cols = Size32(static_cast<uint64_t>(params.dense.dims[1]), "the columns of the dense matrix");
    tiling.rowBuffers = sparse_matmul::ROW_BUFFERS;
    // There are rows and a part of one as they come, a row in float; sums, which leave in two buffers.
    const uint32_t perCol =
        tiling.rowBuffers * bytes + 3 * static_cast<uint32_t>(sizeof(float)) + (bytes == sizeof(float) ? 0 : 8);
    tiling.tileCols = sparse_matmul::TileCols(tiling.cols, perCol, 0, platform);
    const uint64_t steps = tiling.rows + tiling.entries;
    const uint64_t work = steps * tiling.cols;
    const uint64_t wanted = std::max<uint64_t>(
        1, std::min<uint64_t>({sparse_matmul::MOST_TASKS, CeilDiv(work, sparse_matmul::LEAST_WORK), steps}));
    tiling.perTask = std::max<uint64_t>(1, CeilDiv(steps, wanted));
    tiling.tasks = tiling.cols == 0 ? 0 : CeilDiv(steps, tiling.perTask);
    const uint64_t cores = CoresFor(tiling.tasks, work * bytes, platform);
    tiling.tasksPerCore = std::max<uint64_t>(1, CeilDiv(tiling.tasks, cores));
    tiling.partialStride = RoundUp(tiling.cols, LINE_BYTES / sizeof(float));
    LaunchConfig config;
    config.blockDim = static_cast<uint32_t>(std::max<uint64_t>(1, CeilDiv(tiling.tasks, tiling.tasksPerCore)));
    config.workspaceBytes = tiling.tasks > 1 ? 2 * tiling.tasks * tiling.partialStride * sizeof(float) : 0;
    return config;
}

inline LaunchConfig SparseMatmulGradTiling(const SparseMatmulGradParams& params, const Platform& platform,
                                           SparseMatmulGradTilingData& tiling)
{
    const uint32_t bytes = SizeOf(params.dense.dtype);
    tiling.rows = Size32(static_cast<uint64_t>(params.row_ends.dims[0]), "the rows of the sparse matrix");
    tiling.entries = Size32(static_cast<uint64_t>(params.indices.dims[0]), "the values of the sparse matrix");
    tiling.inner = Size32(static_cast<uint64_t>(params.dense.dims[0]), "the rows of the dense matrix");
    tiling.cols = Size32(static_cast<uint64_t>(params.dense.dims[1]), "the columns of the dense matrix");
    tiling.rowBuffers = sparse_matmul::ROW_BUFFERS;
    const uint64_t work = tiling.entries * std::max<uint64_t>(1, tiling.cols);
    const uint64_t wanted =
        std::max<uint64_t>(1, std::min<uint64_t>(sparse_matmul::MOST_TASKS, CeilDiv(work, sparse_matmul::LEAST_WORK)));
    tiling.perTask = std::max<uint64_t>(sparse_matmul::SHARE_ENTRIES,
                                        RoundUp(CeilDiv(tiling.entries, wanted), sparse_matmul::SHARE_ENTRIES));
    tiling.tasks = CeilDiv(tiling.entries, tiling.perTask);
    const uint64_t cores = CoresFor(tiling.tasks, work * bytes, platform);
    tiling.tasksPerCore = std::max<uint64_t>(1, CeilDiv(tiling.tasks, cores));
    LaunchConfig config;
    config.blockDim = static_cast<uint32_t>(std::max<uint64_t>(1, CeilDiv(tiling.tasks, tiling.tasksPerCore)));
    // There are a row of dy and rows of the dense factor as they come, one of each in float, and their products.
    const uint32_t perCol =
        (tiling.rowBuffers + 2) * bytes + (bytes == sizeof(float) ? 1 : 3) * static_cast<uint32_t>(sizeof(float));
    tiling.tileCols = sparse_matmul::TileCols(tiling.cols, perCol, 48 * 1024, platform);
    return config;
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_SPARSE_MATMUL_TILING_H
