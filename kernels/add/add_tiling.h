/*!
 * Calculates the tiling of add, in plain C++.
 */
#ifndef MS_ASCEND_OPS_ADD_TILING_H
#define MS_ASCEND_OPS_ADD_TILING_H

#include "add_params.h"
#include "primitives/flat_tiling.h"

namespace ms_ascend_ops {

struct AddTilingData {
    uint64_t size;
    uint64_t tiles;
    uint64_t tilesPerCore;
    uint32_t tileLength;
};

inline LaunchConfig AddTiling(const AddParams& params, const Platform& platform, AddTilingData& tiling)
{
    const uint32_t bytes = SizeOf(params.x.dtype);
    // x, y and z in two buffers each; bfloat16 and float16 are added in float: x and y once more.
    const uint32_t perElement = 6 * bytes + (bytes == 4 ? 0 : 8);
    return flat::Plan(params.x.Size(), bytes, platform.ubBytes, perElement, 3 * bytes, platform, tiling);
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_ADD_TILING_H
