/*!
 * The tilings of attentions share this arithmetic. It is plain C++.
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_ATTENTION_TILING_H
#define MS_ASCEND_OPS_PRIMITIVES_ATTENTION_TILING_H

#include <stdexcept>
#include <string>

#include "primitives/cube_tiling.h"
#include "primitives/shape_checks.h"
#include "primitives/split.h"

namespace ms_ascend_ops {
namespace attention {

constexpr uint32_t TILE_ROWS = 128;
constexpr uint32_t TILE_COLS = 512;      // a cube core takes time for each request, a library packs operands for each
constexpr uint32_t GRADIENT_COLS = 256;  // five products a tile go through the cache
constexpr uint32_t MOST_COLS = 1024;     // of few rows
constexpr uint32_t FEW_ROWS = 32;
constexpr uint32_t CHUNK_STEP = 8;  // a chunk's values fill whole blocks
constexpr uint32_t MOST_CHUNK = 32;
constexpr uint32_t ROW_STATE_BYTES = 4 * 4;               // of a tile's row: maximum, sum, factors
constexpr uint32_t CHUNK_STATE_BYTES = 256 + 4 + 2 * 32;  // of a chunk's row: lanes, value, blocks
constexpr uint32_t FIXED_BYTES = 4096;

// Returns how many heads of query share one of key.
inline uint64_t SharedHeads(uint64_t heads, uint64_t keyHeads)
{
    if (keyHeads == 0 || heads % keyHeads != 0) {
        Refuse("the heads of query must be a multiple of those of key (" + std::to_string(keyHeads) + ")",
               std::to_string(heads));
    }
    return heads / keyHeads;
}

// Returns the keys that a query sees at most; 0: all.
inline uint64_t CheckedWindow(int64_t window)
{
    if (window < 0) {
        Refuse("window must be 0 (all keys) or more", std::to_string(window));
    }
    return static_cast<uint64_t>(window);
}

inline float CheckedSoftCap(float cap)
{
    if (!(cap >= 0.0f && cap <= 1e30f)) {
        Refuse("softcap must be 0 (none) or more, and at most 1e30", std::to_string(cap));
    }
    return cap;
}

// Returns the cores worth starting for tasks that multiply `work` pairs of numbers in all.
inline uint32_t Cores(uint64_t tasks, uint64_t work, const Platform& platform)
{
    return static_cast<uint32_t>(
        std::max<uint64_t>(1, std::min<uint64_t>({tasks, platform.coreNum, 1 + work / platform.minBytesPerCore})));
}

// Unified Buffer for a chunk's row of `cols` elements: scores in two buffers, probabilities in two, and what the kernel
// has besides, `moreBytes` an element.
inline uint64_t ChunkRowBytes(uint64_t cols, uint32_t bytes, uint32_t moreBytes)
{
    return RoundUp(cols, CUBE_SIDE) * (2 * sizeof(float) + 2 * bytes + moreBytes) + CHUNK_STATE_BYTES;
}

// Describes a tile of scores, and how many of its rows the vector unit takes at a time (online_softmax.h): a multiple
// of 8.
struct Tiles {
    uint32_t rows;
    uint32_t cols;
    uint32_t chunkRows;
};

// Plans tiles of `rows` queries and `keys` keys. Sums of `valueSize` elements a row stay in the Unified Buffer.
// Besides, the kernel has `moreBytes` for an element of a chunk, and `rowBytes` for a row of it.
inline Tiles PlanTiles(uint64_t rows, uint64_t keys, uint64_t valueSize, uint32_t bytes, uint32_t moreBytes,
                       uint64_t rowBytes, const Platform& platform)
{
    const uint64_t outRowBytes = RoundUp(valueSize, CUBE_SIDE) * sizeof(float) + ROW_STATE_BYTES;
    const uint64_t half = (platform.ubBytes - FIXED_BYTES) / 2;
    uint64_t tileRows = std::min<uint64_t>(TILE_ROWS, RoundUp(std::max<uint64_t>(1, rows), CHUNK_STEP));
    while (tileRows > CHUNK_STEP && tileRows * outRowBytes > half) {
        tileRows = RoundUp(tileRows / 2, CHUNK_STEP);
    }
    uint64_t tileCols = tileRows <= FEW_ROWS ? MOST_COLS : TILE_COLS;
    const uint64_t left = platform.ubBytes - FIXED_BYTES - std::min<uint64_t>(tileRows * outRowBytes, half);
    const auto chunkRow = [&](uint64_t cols) {
        return ChunkRowBytes(std::max<uint64_t>(cols, valueSize), bytes, moreBytes) + rowBytes;
    };
    while (tileCols > CUBE_SIDE && CHUNK_STEP * chunkRow(tileCols) > left) {
        tileCols /= 2;
    }
    tileCols = std::max<uint64_t>(CUBE_SIDE, std::min(tileCols, RoundUp(keys, CUBE_SIDE)));
    const uint64_t chunkRows = std::min<uint64_t>({left / chunkRow(tileCols), MOST_CHUNK, tileRows});
    return {static_cast<uint32_t>(tileRows), static_cast<uint32_t>(tileCols),
            static_cast<uint32_t>(chunkRows / CHUNK_STEP * CHUNK_STEP)};
}

}  // namespace attention
}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_ATTENTION_TILING_H
