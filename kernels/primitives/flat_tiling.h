/*!
 * Calculates, in plain C++, the tiling of kernels that take their tensors element by element, whatever the shape: cores
 * share consecutive tiles.
 *
 * TILING is the TilingData of an operator; it has `uint64_t size, tiles, tilesPerCore` and `uint32_t tileLength`.
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_FLAT_TILING_H
#define MS_ASCEND_OPS_PRIMITIVES_FLAT_TILING_H

#include "primitives/split.h"

namespace ms_ascend_ops {
namespace flat {

// ubBytes: Unified Buffer that tiles may have. bytesPerElement: of it for each element of a tile. bytesMoved: between
// global memory and the Unified Buffer for each element.
template <class TILING>
inline LaunchConfig Plan(uint64_t size, uint32_t elementBytes, uint32_t ubBytes, uint32_t bytesPerElement,
                         uint32_t bytesMoved, const Platform& platform, TILING& tiling)
{
    const uint64_t line = LINE_BYTES / elementBytes;
    const uint64_t capacity = ubBytes / bytesPerElement / line * line;
    LaunchConfig config;
    config.blockDim = CoresFor(CeilDiv(size, line), size * bytesMoved, platform);
    // The tile is small enough that every core gets one.
    const uint64_t share = std::max<uint64_t>(line, RoundUp(CeilDiv(size, config.blockDim), line));
    tiling.size = size;
    tiling.tileLength = static_cast<uint32_t>(std::min<uint64_t>(capacity, share));
    tiling.tiles = CeilDiv(size, tiling.tileLength);
    tiling.tilesPerCore = std::max<uint64_t>(1, CeilDiv(tiling.tiles, config.blockDim));
    config.blockDim = static_cast<uint32_t>(std::max<uint64_t>(1, CeilDiv(tiling.tiles, tiling.tilesPerCore)));
    return config;
}

}  // namespace flat
}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_FLAT_TILING_H
