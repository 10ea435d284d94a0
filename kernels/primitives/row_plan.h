/*!
 * How rows are cut into tiles of the Unified Buffer. Plain C++.
 *
 * As long as a row fits with all its temporaries, a tile is as many whole rows as fit a double buffer; longer rows are
 * walked through in tiles of columns.
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_ROW_PLAN_H
#define MS_ASCEND_OPS_PRIMITIVES_ROW_PLAN_H

#include "primitives/split.h"

namespace ms_ascend_ops {

constexpr uint32_t SHORT_ROW = 1024;        // elements: up to here several rows share an instruction
constexpr uint32_t TILE_BYTES = 32 * 1024;  // of x in one buffer: DataCopy runs at full rate from 16 KiB on
constexpr uint32_t ROW_STATE_BYTES = 256 + 5 * 4 + 2 * 32;  // a row's lane sums, scalars and broadcast blocks
constexpr uint32_t FIXED_BYTES = 2048;                      // rounding of the small buffers to blocks
constexpr uint32_t SPLIT_STATE_ROWS = 8;                    // rows that a gradient in column tiles takes at a time

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

// Consecutive rows for each core; config.blockDim cores are wanted, as many as get rows are started.
inline uint64_t SplitRows(uint64_t rows, uint64_t rowBytes, uint32_t elementBytes, LaunchConfig& config)
{
    uint64_t rowsPerCore = CeilDiv(rows, config.blockDim);
    if (rowBytes < 2048) {  // neighbouring cores share no block of the output when rows are short
        rowsPerCore = RoundUp(rowsPerCore, BLOCK_BYTES / elementBytes);
    }
    config.blockDim = static_cast<uint32_t>(std::max<uint64_t>(1, CeilDiv(rows, rowsPerCore)));
    return rowsPerCore;
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_ROW_PLAN_H
