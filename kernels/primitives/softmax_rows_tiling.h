/*!
 * Calculates the tiling that the softmaxes over contiguous rows and their gradients share, in plain C++.
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_SOFTMAX_ROWS_TILING_H
#define MS_ASCEND_OPS_PRIMITIVES_SOFTMAX_ROWS_TILING_H

#include "primitives/row_pieces_tiling.h"

namespace ms_ascend_ops::softmax {

constexpr uint32_t ROW_LANE_BYTES = 256;              // a row's lane sums
constexpr uint32_t ROW_STATE_BYTES = 5 * 4 + 2 * 32;  // and scalars and broadcast blocks
constexpr uint32_t FIXED_BYTES = 2048;                // rounding of the small buffers to blocks

// Fills the fields of `tiling` that say where rows lie. `bytesPerElement`: Unified Buffer for each element of a tile;
// `bytesMoved`: global memory read and written for each element; `values`: of a piece of a shared row.
template <class TILING>
LaunchConfig PlanRowTiles(uint64_t rows, uint64_t cols, uint32_t elementBytes, uint32_t bytesPerElement,
                          uint32_t bytesMoved, uint32_t values, const Platform& platform, TILING& tiling)
{
    const RowDemand demand{0, 0, bytesPerElement, 0, 0, ROW_LANE_BYTES, ROW_STATE_BYTES, FIXED_BYTES};
    RowPlan plan = PlanRows(rows, cols, elementBytes, demand, platform);
    RowPieces cut;
    if (SharesRows(rows, cols * bytesMoved, platform)) {
        cut = CutPlan(plan, rows, cols, elementBytes, cols * bytesMoved, demand, values, platform);
    }
    tiling.rows = rows;
    tiling.cols = static_cast<uint32_t>(cols);
    tiling.tileRows = plan.tileRows;
    tiling.stepRows = plan.stepRows;
    tiling.tileCols = plan.tileCols;
    tiling.stride = plan.stride;
    return ShareRows(cut, rows, cols * bytesMoved, cols * elementBytes, elementBytes, values, platform, tiling);
}

constexpr uint32_t FORWARD_VALUES = 2;  // of a piece: maximum and sum
constexpr uint32_t GRADIENT_VALUES = 1;

// The forward has x and y in two buffers each, and one float copy unless they are float, when y itself is the work
// area.
inline uint32_t ForwardBytes(uint32_t elementBytes)
{
    return 4 * elementBytes + (elementBytes == 4 ? 0 : 4);
}

// Gradient: dy, y and dx in two buffers each; the products in float, and float copies of dy and y unless they are
// float.
inline uint32_t GradientBytes(uint32_t elementBytes)
{
    return 6 * elementBytes + (elementBytes == 4 ? 4 : 12);
}

}  // namespace ms_ascend_ops::softmax

#endif  // MS_ASCEND_OPS_PRIMITIVES_SOFTMAX_ROWS_TILING_H
