/*!
 * Calculates the tiling of the norms over rows, in plain C++: rms_norm, layer_norm, both with an addition before, and
 * their gradients.
 *
 * Rows are split over cores, and cut into tiles as row_plan.h says; a row in several tiles is walked through twice.
 * Cores may share a few such rows (row_pieces_tiling.h).
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_ROW_NORM_TILING_H
#define MS_ASCEND_OPS_PRIMITIVES_ROW_NORM_TILING_H

#include "primitives/row_pieces_tiling.h"

namespace ms_ascend_ops {

struct RowNormTilingData {
    uint64_t rows;
    uint64_t rowsPerCore;
    uint32_t cols;
    uint32_t inBuffers;  // of a queue: 2, or 1 when a row fits only so
    uint32_t outBuffers;
    uint32_t tileRows;      // rows in a tile
    uint32_t stepRows;      // rows one instruction handles: tileRows when rows are short, else 1
    uint32_t tileCols;      // columns in a tile: cols, or less if a row does not fit
    uint32_t stride;        // elements from a row to the next in the Unified Buffer
    uint32_t onePlusGamma;  // 1: multiply by (1 + gamma) in float; 0: round to T, then multiply by gamma
    uint32_t probe;         // columns whose mean the variance is shifted by
    uint32_t relu;          // 1: y is the ReLU of the norm
    float epsilon;
    float inverseCols;
    float inverseProbe;
    uint64_t piecesPerCore;  // 0: a core takes whole rows
    uint32_t pieces;         // of a row that cores may share (row_pieces_tiling.h), or 0
    uint32_t pieceCols;
};

struct RowNormGradTilingData {
    uint64_t rows;
    uint64_t chunkRows;  // rows whose dgamma is summed in one piece; independent of the number of cores
    uint32_t chunks;
    uint32_t chunksPerCore;
    uint32_t cols;
    uint32_t inBuffers;
    uint32_t outBuffers;
    uint32_t tileRows;
    uint32_t stepRows;
    uint32_t tileCols;
    uint32_t stride;
    uint32_t stateRows;    // rows whose statistics and sums are held at a time
    uint32_t chunkStride;  // elements from a chunk's sums to the next in the workspace
    uint32_t reduceCols;   // tile of chunks x columns in which the cores add up the chunks
    uint32_t reduceRows;
    uint32_t onePlusGamma;
    uint32_t relu;
    float inverseCols;
    uint64_t piecesPerCore;
    uint32_t pieces;  // of all rows, that cores share (row_pieces_tiling.h), or 0
    uint32_t pieceCols;
};

namespace row_norm {

constexpr uint32_t ROW_LANE_BYTES = 2 * 256;           // a row's lane sums
constexpr uint32_t ROW_STATE_BYTES = 16 * 4 + 4 * 32;  // and scalars and broadcast blocks
constexpr uint32_t FIXED_BYTES = 4096;                 // rounding of the small buffers to blocks
constexpr uint32_t REDUCE_COLS = 512;
constexpr uint32_t REDUCE_BYTES = 48 * 1024;
constexpr uint32_t MIN_PROBE = 64;

constexpr RowDemand Demand(uint32_t in, uint32_t out, uint32_t tile, uint32_t step, uint32_t column)
{
    return {in, out, tile, step, column, ROW_LANE_BYTES, ROW_STATE_BYTES, FIXED_BYTES};
}

// Float copies of what is not float already.
constexpr uint32_t FloatCopy(uint32_t elementBytes)
{
    return elementBytes == 4 ? 0 : 4;
}

// Plans a forward kernel. `values` says how many sums a piece has, of a row that several cores share.
inline LaunchConfig PlanForward(const TensorDesc& x, uint64_t cols, const RowDemand& demand, uint32_t moved,
                                uint32_t values, float epsilon, bool onePlusGamma, const Platform& platform,
                                RowNormTilingData& tiling)
{
    const uint64_t rows = x.Size() / cols;
    const uint32_t bytes = SizeOf(x.dtype);
    const uint64_t rowBytes = moved * cols * bytes;
    RowPlan plan = PlanRows(rows, cols, bytes, demand, platform);
    RowPieces cut;
    if (SharesRows(rows, rowBytes, platform)) {
        cut = CutPlan(plan, rows, cols, bytes, rowBytes, demand, values, platform);
    }
    tiling.rows = rows;
    tiling.cols = static_cast<uint32_t>(cols);
    tiling.inBuffers = plan.inBuffers;
    tiling.outBuffers = plan.outBuffers;
    tiling.tileRows = plan.tileRows;
    tiling.stepRows = plan.stepRows;
    tiling.tileCols = plan.tileCols;
    tiling.stride = plan.stride;
    tiling.onePlusGamma = onePlusGamma ? 1 : 0;
    // The probe is a sixteenth of the row; in column tiles it is the first tile.
    const uint64_t probe = std::max<uint64_t>(RoundUp(plan.tileCols / 16, FLOATS_PER_REPEAT), MIN_PROBE);
    tiling.probe = plan.tileCols == cols ? static_cast<uint32_t>(std::min(probe, cols)) : plan.tileCols;
    tiling.epsilon = epsilon;
    tiling.inverseCols = 1.0f / static_cast<float>(cols);
    tiling.inverseProbe = 1.0f / static_cast<float>(tiling.probe);
    return ShareRows(cut, rows, rowBytes, cols * bytes, bytes, values, platform, tiling);
}

// `sums`: how many vectors of column sums a chunk of rows leaves in the workspace.
inline LaunchConfig PlanBackward(const TensorDesc& x, uint64_t cols, uint32_t gammaBytes, const RowDemand& demand,
                                 uint32_t moved, uint32_t sums, bool onePlusGamma, const Platform& platform,
                                 RowNormGradTilingData& tiling)
{
    constexpr uint64_t MAX_CHUNKS = 96;     // two for each core of a 48-core chip
    constexpr uint64_t MIN_CHUNK_ROWS = 4;  // a chunk's sums cost as much as a row
    const uint64_t rows = x.Size() / cols;
    const uint32_t bytes = SizeOf(x.dtype);
    const uint64_t rowBytes = moved * cols * bytes;
    RowPlan plan = PlanRows(rows, cols, bytes, demand, platform);
    RowPieces cut;
    if (SharesRows(rows, rowBytes, platform, MIN_CHUNK_ROWS * MAX_SHARED_ROWS)) {
        cut = CutPlan(plan, 1, cols, bytes, rows * rowBytes, demand, sums, platform);
    }
    tiling.rows = rows;
    tiling.cols = static_cast<uint32_t>(cols);
    tiling.chunkRows = cut.pieces > 0 ? rows : std::max<uint64_t>(MIN_CHUNK_ROWS, CeilDiv(rows, MAX_CHUNKS));
    tiling.inBuffers = plan.inBuffers;
    tiling.outBuffers = plan.outBuffers;
    // The tiles of a chunk differ by a row at most: no small one is left behind large ones.
    tiling.tileRows = static_cast<uint32_t>(CeilDiv(tiling.chunkRows, CeilDiv(tiling.chunkRows, plan.tileRows)));
    tiling.stepRows = plan.stepRows == 1 ? 1 : tiling.tileRows;
    tiling.tileCols = plan.tileCols;
    tiling.stride = plan.stride;
    tiling.onePlusGamma = onePlusGamma ? 1 : 0;
    tiling.inverseCols = 1.0f / static_cast<float>(cols);
    tiling.chunks = static_cast<uint32_t>(CeilDiv(rows, tiling.chunkRows));

    LaunchConfig config;
    config.blockDim = CoresFor(std::max<uint32_t>(1, tiling.chunks), moved * rows * cols * bytes, platform);
    tiling.chunksPerCore = static_cast<uint32_t>(CeilDiv(tiling.chunks, config.blockDim));
    config.blockDim = tiling.chunks == 0 ? 1 : static_cast<uint32_t>(CeilDiv(tiling.chunks, tiling.chunksPerCore));
    tiling.stateRows = plan.tileCols == cols ? tiling.tileRows : SPLIT_STATE_ROWS;
    tiling.chunkStride = static_cast<uint32_t>(RoundUp(cols, 128));
    // Every core takes whole 512-byte lines of dgamma.
    tiling.reduceCols = static_cast<uint32_t>(
        std::min<uint64_t>(RoundUp(CeilDiv(cols, config.blockDim), 512 / gammaBytes), REDUCE_COLS));
    tiling.reduceRows =
        std::max(1u, std::min({tiling.chunks, MAX_REPEAT_TIMES, REDUCE_BYTES / (tiling.reduceCols * 4)}));
    config.workspaceBytes = static_cast<uint64_t>(sums) * tiling.chunks * tiling.chunkStride * sizeof(float);
    if (cut.pieces > 0) {  // each has the columns of all rows
        tiling.pieces = cut.pieces;
        tiling.pieceCols = cut.cols;
        tiling.piecesPerCore = CeilDiv(cut.pieces, CoresFor(cut.pieces, rows * rowBytes, platform));
        config.blockDim = static_cast<uint32_t>(CeilDiv(cut.pieces, tiling.piecesPerCore));
        tiling.reduceCols = static_cast<uint32_t>(
            std::min<uint64_t>(RoundUp(CeilDiv(cols, config.blockDim), 512 / gammaBytes), REDUCE_COLS));
        config.workspaceBytes += rows * cut.pieces * sums * BLOCK_BYTES;
    }
    return config;
}

// Returns the bytes of a column's factor and of its float copy.
constexpr uint32_t ColumnBytes(uint32_t gammaBytes)
{
    return gammaBytes + FloatCopy(gammaBytes);
}

// The Unified Buffer has queues of x (or x1, x2 and x) and of y; a float copy of x; the squares.
inline LaunchConfig RmsForward(const TensorDesc& x, const TensorDesc& gamma, bool add, float epsilon, bool onePlusGamma,
                               const Platform& platform, RowNormTilingData& tiling)
{
    const uint32_t bytes = SizeOf(x.dtype);
    const uint32_t half = add ? 2 : 1;
    return PlanForward(x, x.LastDim(),
                       Demand(half * bytes, half * bytes, FloatCopy(bytes), 4, ColumnBytes(SizeOf(gamma.dtype))),
                       2 * half, 1, epsilon, onePlusGamma, platform, tiling);
}

// dy, x and dx (and dresidual) in queues; float copies of dy and x; products; dgamma in one buffer.
inline LaunchConfig RmsBackward(const TensorDesc& x, const TensorDesc& gamma, bool add, bool onePlusGamma,
                                const Platform& platform, RowNormGradTilingData& tiling)
{
    const uint32_t bytes = SizeOf(x.dtype);
    const uint32_t inputs = add ? 3 : 2;
    return PlanBackward(x, x.LastDim(), SizeOf(gamma.dtype),
                        Demand(inputs * bytes, bytes, 4 + FloatCopy(bytes), 4, ColumnBytes(SizeOf(gamma.dtype)) + 4),
                        inputs + 1, 1, onePlusGamma, platform, tiling);
}

// Does what RmsForward does, with beta besides gamma; `gamma` has the shape that is normalized over.
inline LaunchConfig LayerForward(const TensorDesc& x, const TensorDesc& gamma, bool add, bool relu, float epsilon,
                                 const Platform& platform, RowNormTilingData& tiling)
{
    tiling.relu = relu ? 1 : 0;
    const uint32_t bytes = SizeOf(x.dtype);
    const uint32_t half = add ? 2 : 1;
    return PlanForward(x, gamma.Size(),
                       Demand(half * bytes, half * bytes, FloatCopy(bytes), 4, 2 * ColumnBytes(SizeOf(gamma.dtype))),
                       2 * half, 3, epsilon, false, platform, tiling);
}

// Does what RmsBackward does, with dbeta besides dgamma, and beta for ReLU.
inline LaunchConfig LayerBackward(const TensorDesc& x, const TensorDesc& gamma, bool add, bool relu,
                                  const Platform& platform, RowNormGradTilingData& tiling)
{
    const uint32_t bytes = SizeOf(x.dtype);
    const uint32_t inputs = add ? 3 : 2;
    const uint32_t factors = relu ? 2 : 1;
    tiling.relu = relu ? 1 : 0;
    return PlanBackward(
        x, gamma.Size(), SizeOf(gamma.dtype),
        Demand(inputs * bytes, bytes, 4 + FloatCopy(bytes), 4, factors * ColumnBytes(SizeOf(gamma.dtype)) + 8),
        inputs + 1, 2, false, platform, tiling);
}

}  // namespace row_norm

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_ROW_NORM_TILING_H
