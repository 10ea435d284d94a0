/*!
 * Tiling of rms_norm and rms_norm_grad. Plain C++.
 *
 * Rows are split over cores. As long as a row fits the Unified Buffer with all its temporaries, a tile is as many
 * whole rows as fit a double buffer; longer rows are walked through in tiles of columns, twice.
 */
#ifndef MS_ASCEND_OPS_RMS_NORM_TILING_H
#define MS_ASCEND_OPS_RMS_NORM_TILING_H

#include "primitives/split.h"
#include "rms_norm_params.h"

namespace ms_ascend_ops {

struct RmsNormTilingData {
    uint64_t rows;
    uint64_t rowsPerCore;
    uint32_t cols;
    uint32_t tileRows;  // rows in a tile
    uint32_t stepRows;  // rows one instruction handles: tileRows when rows are short, else 1
    uint32_t tileCols;  // columns in a tile: cols, or less if a row does not fit
    uint32_t stride;    // elements from a row to the next in the Unified Buffer
    uint32_t gemma;     // 1: multiply by (1 + gamma) in float; 0: round to T, then multiply by gamma
    float epsilon;
    float inverseCols;
};

struct RmsNormGradTilingData {
    uint64_t rows;
    uint64_t chunkRows;  // rows whose dgamma is summed in one piece; independent of the number of cores
    uint32_t chunks;
    uint32_t chunksPerCore;
    uint32_t cols;
    uint32_t tileRows;
    uint32_t stepRows;
    uint32_t tileCols;
    uint32_t stride;
    uint32_t stateRows;    // rows whose rstd and sums are held at a time
    uint32_t chunkStride;  // elements from a chunk's dgamma to the next in the workspace
    uint32_t reduceCols;   // tile of chunks x columns in which the cores add up dgamma
    uint32_t reduceRows;
    uint32_t gemma;
    float inverseCols;
};

namespace rms_norm {

constexpr uint32_t SHORT_ROW = 1024;        // elements: up to here several rows share an instruction
constexpr uint32_t TILE_BYTES = 32 * 1024;  // of x in one buffer: DataCopy runs at full rate from 16 KiB on
constexpr uint32_t ROW_STATE_BYTES = 256 + 5 * 4 + 2 * 32;  // a row's lane sums, scalars and broadcast blocks
constexpr uint32_t FIXED_BYTES = 2048;                      // rounding of the small buffers to blocks
constexpr uint32_t SPLIT_STATE_ROWS = 8;                    // rows that a gradient in column tiles takes at a time
constexpr uint32_t REDUCE_COLS = 512;
constexpr uint32_t REDUCE_BYTES = 48 * 1024;

struct RowPlan {
    uint32_t tileRows;
    uint32_t stepRows;
    uint32_t tileCols;
    uint32_t stride;
};

// `tileBytes` per element of a tile, `stepBytes` per element of the rows one instruction handles, `columnBytes` per
// column.
inline RowPlan PlanRows(uint64_t rows, uint64_t cols, uint32_t elementBytes, uint32_t tileBytes, uint32_t stepBytes,
                        uint32_t columnBytes, const Platform& platform)
{
    const uint32_t align = BLOCK_BYTES / elementBytes;
    const uint64_t ub = platform.ubBytes - FIXED_BYTES;
    const uint64_t stride = RoundUp(cols, align);
    RowPlan plan{};
    const uint64_t oneRow = stride * (tileBytes + stepBytes + columnBytes) + SPLIT_STATE_ROWS * ROW_STATE_BYTES;
    if (oneRow > ub) {
        // Columns in whole repeats, so that lane sums meet the same columns whatever the tile.
        const uint64_t perColumn = tileBytes + stepBytes + columnBytes;
        plan.tileCols = static_cast<uint32_t>((ub - SPLIT_STATE_ROWS * ROW_STATE_BYTES) / perColumn / 128 * 128);
        plan.tileRows = 1;
        plan.stepRows = 1;
        plan.stride = plan.tileCols;
        return plan;
    }
    plan.tileCols = static_cast<uint32_t>(cols);
    plan.stride = static_cast<uint32_t>(stride);
    const bool isShort = stride <= SHORT_ROW;
    const uint64_t perRow = stride * (tileBytes + (isShort ? stepBytes : 0)) + ROW_STATE_BYTES;
    const uint64_t free = ub - stride * (columnBytes + (isShort ? 0 : stepBytes)) - SPLIT_STATE_ROWS * ROW_STATE_BYTES;
    uint64_t tileRows = std::min<uint64_t>(free / perRow, std::max<uint64_t>(1, TILE_BYTES / (stride * elementBytes)));
    tileRows = std::min<uint64_t>({tileRows, rows, MAX_REPEAT_TIMES - 7});
    plan.tileRows = static_cast<uint32_t>(std::max<uint64_t>(1, tileRows));
    plan.stepRows = isShort ? plan.tileRows : 1;
    return plan;
}

}  // namespace rms_norm

inline LaunchConfig RmsNormTiling(const RmsNormParams& params, const Platform& platform, RmsNormTilingData& tiling)
{
    const uint64_t cols = params.x.LastDim();
    const uint64_t rows = params.x.Product(0, params.x.rank - 1);
    const uint32_t bytes = SizeOf(params.x.dtype);
    const uint32_t gammaBytes = SizeOf(params.gamma.dtype);
    // x and y in two buffers each, a float copy of x unless it is float; the squares; gamma and its float copy.
    const rms_norm::RowPlan plan = rms_norm::PlanRows(rows, cols, bytes, 4 * bytes + (bytes == 4 ? 0 : 4), 4,
                                                      gammaBytes == 4 ? 4 : gammaBytes + 4, platform);
    tiling.rows = rows;
    tiling.cols = static_cast<uint32_t>(cols);
    tiling.tileRows = plan.tileRows;
    tiling.stepRows = plan.stepRows;
    tiling.tileCols = plan.tileCols;
    tiling.stride = plan.stride;
    tiling.gemma = params.scheme == RmsNormScheme::GEMMA ? 1 : 0;
    tiling.epsilon = params.epsilon;
    tiling.inverseCols = 1.0f / static_cast<float>(cols);

    LaunchConfig config;
    config.blockDim = CoresFor(rows, 2 * rows * cols * bytes, platform);
    uint64_t rowsPerCore = CeilDiv(rows, config.blockDim);
    if (cols * bytes < 2048) {  // neighbouring cores share no block of y or rstd when rows are short
        rowsPerCore = RoundUp(rowsPerCore, BLOCK_BYTES / bytes);
    }
    tiling.rowsPerCore = rowsPerCore;
    config.blockDim = static_cast<uint32_t>(std::max<uint64_t>(1, CeilDiv(rows, rowsPerCore)));
    return config;
}

inline LaunchConfig RmsNormGradTiling(const RmsNormGradParams& params, const Platform& platform,
                                      RmsNormGradTilingData& tiling)
{
    constexpr uint64_t MAX_CHUNKS = 96;     // two for each core of a 48-core chip
    constexpr uint64_t MIN_CHUNK_ROWS = 4;  // a chunk's dgamma costs as much as a row
    const uint64_t cols = params.x.LastDim();
    const uint64_t rows = params.x.Product(0, params.x.rank - 1);
    const uint32_t bytes = SizeOf(params.x.dtype);
    const uint32_t gammaBytes = SizeOf(params.gamma.dtype);
    // dy, x and dx in two buffers each; float copies of dy and x; products; gamma and its float copy, dgamma.
    const rms_norm::RowPlan plan = rms_norm::PlanRows(rows, cols, bytes, 6 * bytes + (bytes == 4 ? 4 : 8), 4,
                                                      (gammaBytes == 4 ? 4 : gammaBytes + 4) + 4, platform);
    tiling.rows = rows;
    tiling.cols = static_cast<uint32_t>(cols);
    tiling.tileRows = plan.tileRows;
    tiling.stepRows = plan.stepRows;
    tiling.tileCols = plan.tileCols;
    tiling.stride = plan.stride;
    tiling.gemma = params.scheme == RmsNormScheme::GEMMA ? 1 : 0;
    tiling.inverseCols = 1.0f / static_cast<float>(cols);
    tiling.chunkRows = std::max<uint64_t>(MIN_CHUNK_ROWS, CeilDiv(rows, MAX_CHUNKS));
    tiling.chunks = static_cast<uint32_t>(CeilDiv(rows, tiling.chunkRows));

    LaunchConfig config;
    config.blockDim = CoresFor(std::max<uint32_t>(1, tiling.chunks), 3 * rows * cols * bytes, platform);
    tiling.chunksPerCore = static_cast<uint32_t>(CeilDiv(tiling.chunks, config.blockDim));
    config.blockDim = tiling.chunks == 0 ? 1 : static_cast<uint32_t>(CeilDiv(tiling.chunks, tiling.chunksPerCore));
    tiling.stateRows = plan.tileCols == cols ? plan.tileRows : rms_norm::SPLIT_STATE_ROWS;
    tiling.chunkStride = static_cast<uint32_t>(RoundUp(cols, 128));
    // Whole 512-byte lines of dgamma for each core.
    tiling.reduceCols = static_cast<uint32_t>(
        std::min<uint64_t>(RoundUp(CeilDiv(cols, config.blockDim), 512 / gammaBytes), rms_norm::REDUCE_COLS));
    tiling.reduceRows =
        std::max(1u, std::min({tiling.chunks, MAX_REPEAT_TIMES, rms_norm::REDUCE_BYTES / (tiling.reduceCols * 4)}));
    config.workspaceBytes = static_cast<uint64_t>(tiling.chunks) * tiling.chunkStride * sizeof(float);
    return config;
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_RMS_NORM_TILING_H
