/*!
 * How the versions of row_scale are split: whole rows for every core, and for the fast one tiles of many rows.
 */
#ifndef MS_ASCEND_OPS_EXAMPLES_ROW_SCALE_TILING_H
#define MS_ASCEND_OPS_EXAMPLES_ROW_SCALE_TILING_H

#include "primitives/split.h"

struct RowScaleTilingData {
    uint64_t rows;
    uint64_t rowsPerCore;
    uint32_t cols;
    uint32_t stride;  // elements from a row to the next in the Unified Buffer
    uint32_t tileRows;
};

inline ms_ascend_ops::LaunchConfig RowScaleTiling(uint64_t rows, uint32_t cols, const ms_ascend_ops::Platform& platform,
                                                  RowScaleTilingData& tiling)
{
    constexpr uint32_t TILE_BYTES = 32 * 1024;  // copies are at full speed from 16 KiB on
    tiling.rows = rows;
    tiling.cols = cols;
    tiling.stride = static_cast<uint32_t>(ms_ascend_ops::RoundUp(cols, 8));
    tiling.rowsPerCore = ms_ascend_ops::CeilDiv(rows, platform.coreNum);
    const uint64_t fitting = std::max<uint64_t>(1, TILE_BYTES / (tiling.stride * sizeof(float)));
    tiling.tileRows =
        static_cast<uint32_t>(std::min<uint64_t>({fitting, tiling.rowsPerCore, ms_ascend_ops::MAX_REPEAT_TIMES - 7}));
    ms_ascend_ops::LaunchConfig config;
    config.blockDim = static_cast<uint32_t>(ms_ascend_ops::CeilDiv(rows, tiling.rowsPerCore));
    return config;
}

#endif  // MS_ASCEND_OPS_EXAMPLES_ROW_SCALE_TILING_H
