/*!
 * Calculates the tiling of cross_entropy and its gradient, in plain C++.
 *
 * Rows are split over cores. Short rows are packed several to a tile, where the forward transposes those of few
 * columns; longer ones are walked through in tiles of
 * columns, and the values of a row are held for a batch of rows. As a core owns its rows' values in whole blocks, few
 * rows would keep few cores busy: those that are long are cut into pieces (row_pieces_tiling.h).
 */
#ifndef MS_ASCEND_OPS_CROSS_ENTROPY_TILING_H
#define MS_ASCEND_OPS_CROSS_ENTROPY_TILING_H

#include "cross_entropy_params.h"
#include "primitives/row_pieces_tiling.h"

namespace ms_ascend_ops {

struct CrossEntropyTilingData {
    uint64_t rows;
    uint64_t rowsPerCore;
    uint32_t cols;
    uint32_t packed;     // 1: short rows
    uint32_t batchRows;  // rows of a tile when packed, else rows whose values are held
    uint32_t tileCols;   // elements of a tile when not packed
    uint32_t stride;     // from a row to the next in the Unified Buffer
    int32_t ignoreIndex;
    uint64_t piecesPerCore;
    uint32_t pieces;  // of a row that cores share (row_pieces_tiling.h), or 0
    uint32_t pieceCols;
    uint32_t columnRows;  // from a column to the next where rows are transposed, or 0
};

using CrossEntropyGradTilingData = CrossEntropyTilingData;

namespace cross_entropy {

constexpr uint32_t PACKED_COLS = 1024;  // up to here several rows share an instruction
constexpr uint32_t BATCH_ROWS = 64;
constexpr uint32_t NARROW_COLS = 63;            // up to here rows are transposed; 64 are a repeat
constexpr uint32_t WHOLE_COLS = 32;             // of those that are whole blocks, with twice their padding
constexpr uint32_t ROW_GROUP = 16;              // rows that are transposed together
constexpr uint32_t COLUMN_ROWS = 16 * 17;       // from which loops over columns pay off on a CPU
constexpr uint32_t NARROW_STATE_BYTES = 8 * 4;  // a row's maximum, sum, results, label and what is made of it
constexpr uint32_t BLOCK_ROWS = BLOCK_BYTES / sizeof(float);    // whose values are a block
constexpr uint32_t MAX_TILE_COLS = 16384;                       // of a long row; as many as fit
constexpr uint32_t LONG_ROW_BYTES = 32 * 1024;                  // for a batch of long rows, besides its tiles
constexpr uint32_t ROW_LANE_BYTES = 256;                        // a row's lane sums
constexpr uint32_t ROW_STATE_BYTES = 5 * 4 + 2 * 32;            // and scalars and broadcast blocks
constexpr uint32_t FIXED_BYTES = 2048 + MAX_REPEAT_TIMES * 96;  // rounding to blocks; the values of a batch of rows

// `values` is how many each piece of a shared row has in the workspace.
inline LaunchConfig Plan(const TensorDesc& logits, int64_t ignoreIndex, uint32_t bytesPerElement, uint32_t bytesMoved,
                         uint32_t values, const Platform& platform, CrossEntropyTilingData& tiling)
{
    const uint64_t cols = logits.LastDim();
    const uint64_t rows = logits.Product(0, logits.rank - 1);
    const uint32_t bytes = SizeOf(logits.dtype);
    // The column numbers are one row of floats, whatever the tile.
    const RowPlan plan =
        PlanRows(rows, cols, bytes,
                 {0, 0, bytesPerElement, 0, sizeof(float), ROW_LANE_BYTES, ROW_STATE_BYTES, FIXED_BYTES}, platform);
    tiling.rows = rows;
    tiling.cols = static_cast<uint32_t>(cols);
    tiling.ignoreIndex = static_cast<int32_t>(ignoreIndex);
    tiling.packed = plan.stride <= PACKED_COLS ? 1 : 0;
    tiling.batchRows = tiling.packed != 0 ? plan.tileRows : static_cast<uint32_t>(std::min<uint64_t>(rows, BATCH_ROWS));
    // Tiles of a row are alike, in whole repeats.
    const uint64_t rowBytes = cols * bytesMoved;
    const bool shared = tiling.packed == 0 && SharesRows(rows, rowBytes * std::min<uint64_t>(rows, BLOCK_ROWS),
                                                         platform, BLOCK_ROWS * MAX_SHARED_ROWS);
    const uint64_t taken = LONG_ROW_BYTES + (shared ? PieceBytes(values) : 0);
    const uint64_t fit = std::max<uint64_t>(128, (platform.ubBytes - taken) / bytesPerElement / 128 * 128);
    const uint64_t most = std::min<uint64_t>(MAX_TILE_COLS, fit);
    tiling.tileCols = static_cast<uint32_t>(RoundUp(CeilDiv(cols, CeilDiv(cols, most)), 128));
    tiling.stride = plan.stride;
    LaunchConfig config;
    config.blockDim = CoresFor(rows, rows * rowBytes, platform);
    // Every core owns whole blocks of the rows' values.
    tiling.rowsPerCore = SplitRows(rows, sizeof(float), sizeof(float), config);
    if (shared) {
        const RowPieces cut = CutRows(rows, cols, rowBytes, most, platform);
        const uint64_t pieces = rows * cut.pieces;
        tiling.tileCols = cut.tileCols;
        tiling.pieces = cut.pieces;
        tiling.pieceCols = cut.cols;
        tiling.piecesPerCore = CeilDiv(pieces, CoresFor(pieces, rows * rowBytes, platform));
        config.blockDim = std::max(config.blockDim, static_cast<uint32_t>(CeilDiv(pieces, tiling.piecesPerCore)));
        config.workspaceBytes = pieces * values * BLOCK_BYTES;
    }
    return config;
}

// Plans the rows that are transposed: as many as pay off, and no more. Columns begin in an odd number of groups of
// rows, which are a line of a CPU's cache each: in a power of two, few of its sets would have them all.
inline void PlanColumns(const TensorDesc& logits, const Platform& platform, CrossEntropyTilingData& tiling)
{
    if (tiling.cols > NARROW_COLS) {
        return;
    }
    // Whole blocks of floats are reduced row by row as fast, or faster: more so, the more padding there is.
    if (tiling.cols % BLOCK_ROWS == 0 && 2 * tiling.stride - tiling.cols > WHOLE_COLS) {
        return;
    }
    const uint32_t bytes = SizeOf(logits.dtype);
    const uint32_t rowBytes = tiling.stride * bytes;
    // A row is in two buffers and among the columns, and the columns have a float copy.
    const uint64_t perRow = 3 * rowBytes + (bytes == 4 ? 0 : tiling.stride * 4) + NARROW_STATE_BYTES;
    const uint64_t cached = std::max<uint64_t>(platform.tileBytes / perRow, COLUMN_ROWS);
    const uint64_t wanted = platform.tileBytes > 0 ? cached : TILE_BYTES / rowBytes;
    const uint64_t fit = (platform.ubBytes - FIXED_BYTES) / perRow;
    const uint64_t most = std::min<uint64_t>({fit, wanted, MAX_REPEAT_TIMES * ROW_GROUP}) / ROW_GROUP;
    const uint64_t groups = std::min<uint64_t>((most - 1) | 1, CeilDiv(tiling.rows, ROW_GROUP) | 1);
    tiling.columnRows = static_cast<uint32_t>(groups * ROW_GROUP);
    tiling.batchRows = static_cast<uint32_t>(std::min<uint64_t>(tiling.rows, tiling.columnRows));
}

}  // namespace cross_entropy

inline LaunchConfig CrossEntropyTiling(const CrossEntropyParams& params, const Platform& platform,
                                       CrossEntropyTilingData& tiling)
{
    // There are logits in two buffers, a float copy unless they are float, and one temporary.
    const uint32_t bytes = SizeOf(params.logits.dtype);
    const LaunchConfig config = cross_entropy::Plan(params.logits, params.ignore_index,
                                                    2 * bytes + (bytes == 4 ? 4 : 8), bytes, 2, platform, tiling);
    cross_entropy::PlanColumns(params.logits, platform, tiling);
    return config;
}

inline LaunchConfig CrossEntropyGradTiling(const CrossEntropyGradParams& params, const Platform& platform,
                                           CrossEntropyGradTilingData& tiling)
{
    // There are logits and their gradient in two buffers each, a float copy unless they are float, and one temporary.
    const uint32_t bytes = SizeOf(params.logits.dtype);
    // It leaves nothing in the workspace; but where there is one, op_host starts all cores together, for the barrier.
    return cross_entropy::Plan(params.logits, params.ignore_index, 4 * bytes + (bytes == 4 ? 4 : 8), 2 * bytes, 1,
                               platform, tiling);
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_CROSS_ENTROPY_TILING_H
