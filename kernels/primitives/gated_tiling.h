/*!
 * Tiling shared by the gated linear units: y = act(gate) * up. Plain C++.
 *
 * The operands are `rows` rows of `length` elements. A tile is part of a row when rows are long, several rows when they
 * are short. Tiles are shared out over cores.
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_GATED_TILING_H
#define MS_ASCEND_OPS_PRIMITIVES_GATED_TILING_H

#include "primitives/split.h"

namespace ms_ascend_ops {

struct GatedTilingData {
    uint64_t rows;
    uint64_t length;
    uint64_t inputStride;  // elements from a row of gate (and of up) to the next in global memory
    uint64_t tiles;
    uint64_t tilesPerCore;
    uint64_t tilesPerRow;
    uint32_t tileRows;
    uint32_t tileLength;
    uint32_t stride;  // elements from a row to the next in the Unified Buffer
    uint32_t pairs;   // 1: gate and up alternate element by element
};

namespace gated {

constexpr uint32_t MAX_BLOCK_COUNT = 4095;  // rows of one DataCopyPad
constexpr uint32_t FIXED_BYTES = 1024;      // a block of ones, rounding of buffers
constexpr uint32_t LINE_BYTES = 512;        // alignment of global memory at which copies run at full rate

// bytesPerElement: Unified Buffer for each element of a tile.
inline LaunchConfig Plan(uint64_t rows, uint64_t length, uint64_t inputStride, bool pairs, uint32_t elementBytes,
                         uint32_t bytesPerElement, uint32_t bytesMoved, const Platform& platform,
                         GatedTilingData& tiling)
{
    const uint64_t total = rows * length;
    const uint64_t line = LINE_BYTES / elementBytes;
    const uint64_t capacity = (platform.ubBytes - FIXED_BYTES) / bytesPerElement / line * line;
    LaunchConfig config;
    config.blockDim = CoresFor(CeilDiv(total, line), total * bytesMoved, platform);
    // Small enough that every core gets a tile.
    const uint64_t target = std::min<uint64_t>(capacity, RoundUp(CeilDiv(total, config.blockDim), line));
    tiling.rows = rows;
    tiling.length = length;
    tiling.inputStride = inputStride;
    tiling.pairs = pairs ? 1 : 0;
    const uint64_t stride = RoundUp(length, BLOCK_BYTES / elementBytes);
    if (stride > target) {
        tiling.tilesPerRow = CeilDiv(length, target);
        tiling.tileLength = static_cast<uint32_t>(RoundUp(CeilDiv(length, tiling.tilesPerRow), line));
        tiling.tilesPerRow = CeilDiv(length, tiling.tileLength);
        tiling.tileRows = 1;
        tiling.stride = tiling.tileLength;
    } else {
        tiling.tilesPerRow = 1;
        tiling.tileLength = static_cast<uint32_t>(length);
        tiling.tileRows = static_cast<uint32_t>(std::min<uint64_t>({target / stride, rows, MAX_BLOCK_COUNT}));
        tiling.stride = static_cast<uint32_t>(stride);
    }
    tiling.tiles = CeilDiv(rows, tiling.tileRows) * tiling.tilesPerRow;
    tiling.tilesPerCore = CeilDiv(tiling.tiles, config.blockDim);
    config.blockDim = static_cast<uint32_t>(CeilDiv(tiling.tiles, tiling.tilesPerCore));
    return config;
}

// Forward: gate, up and y in two buffers each; float copies of gate and up unless they are float; one temporary.
// With pairs, the loaded pairs (two buffers) come on top of gate and up, which then need one buffer.
inline uint32_t ForwardBytes(uint32_t elementBytes, bool pairs)
{
    return (pairs ? 8 : 6) * elementBytes + (elementBytes == 4 ? 4 : 12);
}

// Backward: dy, gate, up, dgate and dup in two buffers each; float copies of the first three unless they are float;
// three temporaries. Pairs: loaded and stored pairs in two buffers each, dy in two, gate, up, dgate, dup in one, and
// two 32-bit offsets.
inline uint32_t BackwardBytes(uint32_t elementBytes, bool pairs)
{
    return (pairs ? 14 * elementBytes + 8 : 10 * elementBytes) + (elementBytes == 4 ? 12 : 24);
}

}  // namespace gated

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_GATED_TILING_H
