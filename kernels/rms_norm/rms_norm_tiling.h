/*!
 * Tiling of rms_norm and rms_norm_grad. Plain C++.
 *
 * Rows are split over cores. As long as a row fits the Unified Buffer with all its temporaries, a tile is as many
 * whole rows as fit a double buffer; longer rows are walked through in tiles of columns, twice.
 */
#ifndef MS_ASCEND_OPS_RMS_NORM_TILING_H
#define MS_ASCEND_OPS_RMS_NORM_TILING_H

#include "primitives/row_plan.h"
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

constexpr uint32_t REDUCE_COLS = 512;
constexpr uint32_t REDUCE_BYTES = 48 * 1024;

}  // namespace rms_norm

inline LaunchConfig RmsNormTiling(const RmsNormParams& params, const Platform& platform, RmsNormTilingData& tiling)
{
    const uint64_t cols = params.x.LastDim();
    const uint64_t rows = params.x.Product(0, params.x.rank - 1);
    const uint32_t bytes = SizeOf(params.x.dtype);
    const uint32_t gammaBytes = SizeOf(params.gamma.dtype);
    // x and y in two buffers each, a float copy of x unless it is float; the squares; gamma and its float copy.
    const RowPlan plan = PlanRows(rows, cols, bytes, 4 * bytes + (bytes == 4 ? 0 : 4), 4,
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
    tiling.rowsPerCore = SplitRows(rows, cols * bytes, bytes, config);
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
    const RowPlan plan = PlanRows(rows, cols, bytes, 6 * bytes + (bytes == 4 ? 4 : 8), 4,
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
    tiling.stateRows = plan.tileCols == cols ? plan.tileRows : SPLIT_STATE_ROWS;
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
