/*!
 * Calculates the tiling of dynamic_quant, in plain C++. Rows are split over cores, and cut into tiles as row_plan.h
 * says; a row in several tiles is walked through twice.
 */
#ifndef MS_ASCEND_OPS_DYNAMIC_QUANT_TILING_H
#define MS_ASCEND_OPS_DYNAMIC_QUANT_TILING_H

#include "dynamic_quant_params.h"
#include "primitives/row_plan.h"

namespace ms_ascend_ops {

struct DynamicQuantTilingData {
    uint64_t rows;
    uint64_t rowsPerCore;
    uint32_t cols;
    uint32_t inBuffers;  // of a queue: 2, or 1 when a row fits only so
    uint32_t outBuffers;
    uint32_t tileRows;  // rows in a tile
    uint32_t stepRows;  // rows one instruction handles: tileRows when rows are short, else 1
    uint32_t tileCols;  // columns in a tile: cols, or less if a row does not fit
    uint32_t stride;    // elements from a row to the next in the Unified Buffer
    uint32_t smooth;
};

namespace dynamic_quant {

constexpr uint32_t ROW_LANE_BYTES = 256;          // a row's maxima of lanes
constexpr uint32_t ROW_STATE_BYTES = 4 * 4 + 32;  // its maximum and scale, and a block
constexpr uint32_t FIXED_BYTES = 2048;            // rounding of the small buffers to blocks

}  // namespace dynamic_quant

inline LaunchConfig DynamicQuantTiling(const DynamicQuantParams& params, const Platform& platform,
                                       DynamicQuantTilingData& tiling)
{
    using namespace dynamic_quant;
    const TensorDesc& x = params.x;
    const uint32_t bytes = SizeOf(x.dtype);
    const uint64_t cols = x.LastDim();
    const uint64_t rows = x.Product(0, x.rank - 1);
    tiling.smooth = params.smooth_scales.IsGiven() ? 1 : 0;
    // An element has x; the numbers, of which a row has whole blocks; magnitudes in float, and the numbers as half;
    // smooth scales.
    const uint32_t column = tiling.smooth != 0 ? bytes + sizeof(float) : 0;
    const RowDemand demand{bytes,           1,          sizeof(float) + 2, sizeof(float), column, ROW_LANE_BYTES,
                           ROW_STATE_BYTES, FIXED_BYTES};
    const RowPlan plan = PlanRows(rows, cols, 1, demand, platform);
    tiling.rows = rows;
    tiling.cols = static_cast<uint32_t>(cols);
    tiling.inBuffers = plan.inBuffers;
    tiling.outBuffers = plan.outBuffers;
    tiling.tileRows = plan.tileRows;
    tiling.stepRows = plan.stepRows;
    tiling.tileCols = plan.tileCols;
    tiling.stride = plan.stride;
    LaunchConfig config;
    config.blockDim = CoresFor(rows, rows * cols * (bytes + 1), platform);
    tiling.rowsPerCore = SplitRows(rows, cols, 1, config);
    return config;
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_DYNAMIC_QUANT_TILING_H
