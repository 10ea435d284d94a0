/*!
 * Cuts rows into tiles of the Unified Buffer, and shares them out over cores. It is plain C++.
 *
 * As long as a row fits with all its temporaries, a tile is as many whole rows as fit, but no more than are worth it,
 * in two buffers if they do; longer rows are walked through in tiles of columns.
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_ROW_PLAN_H
#define MS_ASCEND_OPS_PRIMITIVES_ROW_PLAN_H

#include "primitives/split.h"

namespace ms_ascend_ops {

constexpr uint32_t SHORT_ROW = 2040;        // elements: up to here instructions go over all rows; stride of a repeat
constexpr uint32_t TILE_BYTES = 32 * 1024;  // of x in one buffer: DataCopy runs at full rate from 16 KiB on
constexpr uint32_t STATES_PER_BLOCK = BLOCK_BYTES / sizeof(float);  // a float for each row
constexpr uint32_t SPLIT_STATE_ROWS = 8;  // rows that a gradient in column tiles takes at a time

// A kernel wants so many bytes of the Unified Buffer.
struct RowDemand {
    uint32_t in;      // in queues of inputs, for each element of a tile, in one buffer
    uint32_t out;     // in those of outputs
    uint32_t tile;    // in plain buffers, for each element of a tile
    uint32_t step;    // for each element of the rows that one instruction handles
    uint32_t column;  // for each column of a row
    uint32_t lanes;   // for each row of a tile: lane sums
    uint32_t state;   // and scalars and broadcast blocks, for whole blocks of rows
    uint32_t fixed;   // rounding of the small buffers to blocks
};

struct RowPlan {
    uint32_t inBuffers;  // of a queue: 2, or 1 when a row fits only so
    uint32_t outBuffers;
    uint32_t tileRows;  // rows in a tile
    uint32_t stepRows;  // rows one instruction handles: tileRows when rows are short, else 1
    uint32_t tileCols;  // columns in a tile: cols, or less if a row does not fit
    uint32_t stride;    // elements from a row to the next in the Unified Buffer
};

inline RowPlan PlanRows(uint64_t rows, uint64_t cols, uint32_t elementBytes, const RowDemand& demand,
                        const Platform& platform)
{
    Size32(cols, "the elements of a row");
    const uint64_t stride = RoundUp(cols, BLOCK_BYTES / elementBytes);
    const uint64_t ub = platform.ubBytes - demand.fixed - STATES_PER_BLOCK * demand.state;
    const uint64_t rowState = demand.lanes + demand.state;
    RowPlan plan{};
    // Outputs go to one buffer first: the next tile is loaded then all the same.
    for (uint32_t single = 0; single < 3; ++single) {
        plan.inBuffers = single < 2 ? 2 : 1;
        plan.outBuffers = single < 1 ? 2 : 1;
        const uint64_t tileBytes = plan.inBuffers * demand.in + plan.outBuffers * demand.out + demand.tile;
        if (stride * (tileBytes + demand.step + demand.column) + rowState > ub) {
            continue;
        }
        plan.tileCols = static_cast<uint32_t>(cols);
        plan.stride = static_cast<uint32_t>(stride);
        const bool isShort = stride <= (stride == cols ? SHORT_ROW : std::min(SHORT_ROW, platform.maxPaddedRow));
        const uint64_t perRow = stride * (tileBytes + (isShort ? demand.step : 0)) + rowState;
        const uint64_t columns = stride * (demand.column + (isShort ? 0 : demand.step));
        uint64_t cached = columns < platform.tileBytes ? (platform.tileBytes - columns) / perRow : 0;
        cached -= cached < STATES_PER_BLOCK ? 0 : cached % STATES_PER_BLOCK;
        const uint64_t wanted = cached > 0 ? cached : std::max<uint64_t>(1, TILE_BYTES / (stride * elementBytes));
        const uint64_t tileRows = std::min<uint64_t>({(ub - columns) / perRow, wanted, rows, MAX_REPEAT_TIMES - 7});
        plan.tileRows = static_cast<uint32_t>(std::max<uint64_t>(1, tileRows));
        plan.stepRows = isShort ? plan.tileRows : 1;
        return plan;
    }
    // Columns are in whole repeats, so that lane sums meet the same columns whatever the tile.
    const uint64_t perColumn = 2 * (demand.in + demand.out) + demand.tile + demand.step + demand.column;
    plan.inBuffers = 2;
    plan.outBuffers = 2;
    plan.tileCols = static_cast<uint32_t>((ub - SPLIT_STATE_ROWS * rowState) / perColumn / 128 * 128);
    plan.tileRows = 1;
    plan.stepRows = 1;
    plan.stride = plan.tileCols;
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
