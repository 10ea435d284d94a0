/*!
 * Tiling of $name and ${name}_grad: how the work is cut into tiles for a machine. Plain C++.
 */
#ifndef MS_ASCEND_OPS_${NAME}_TILING_H
#define MS_ASCEND_OPS_${NAME}_TILING_H

#include "${name}_params.h"
#include "primitives/flat_tiling.h"

namespace ms_ascend_ops {

// The kernel is told this: one plain field a line.
struct ${Name}TilingData {
    uint64_t size;
    uint64_t tiles;
    uint64_t tilesPerCore;
    uint32_t tileLength;
    float scale;
};

using ${Name}GradTilingData = ${Name}TilingData;

inline LaunchConfig ${Name}Tiling(const ${Name}Params& params, const Platform& platform, ${Name}TilingData& tiling)
{
    const uint32_t bytes = SizeOf(params.x.dtype);
    // Unified Buffer for each element: x and y in two buffers each; x in float; one temporary.
    const uint32_t perElement = 4 * bytes + 8;
    tiling.scale = params.scale;
    return flat::Plan(params.x.Size(), bytes, platform.ubBytes, perElement, 2 * bytes, platform, tiling);
}

inline LaunchConfig ${Name}GradTiling(const ${Name}GradParams& params, const Platform& platform,
                                      ${Name}GradTilingData& tiling)
{
    const uint32_t bytes = SizeOf(params.x.dtype);
    // dy, x and dx in two buffers each; dy and x in float; one temporary.
    const uint32_t perElement = 6 * bytes + 12;
    tiling.scale = params.scale;
    return flat::Plan(params.x.Size(), bytes, platform.ubBytes, perElement, 3 * bytes, platform, tiling);
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_${NAME}_TILING_H
