/*!
 * Calculates the tiling of paged_attention, in plain C++.
 *
 * A task is a tile of query rows of one sequence: tokens, and of each the heads that share keys and values, or of a
 * single token those of several key heads, if tasks enough are left; where they are fewer than a chip has cores, and
 * contexts may be long, with a part of the context. Tasks go to cores round-robin. Tiles and parts follow from shapes
 * and the Unified Buffer, not from the number of cores: neither do results.
 */
#ifndef MS_ASCEND_OPS_PAGED_ATTENTION_TILING_H
#define MS_ASCEND_OPS_PAGED_ATTENTION_TILING_H

#include "paged_attention_params.h"
#include "primitives/attention_tiling.h"
#include "primitives/cube_tiling.h"
#include "primitives/split.h"

namespace ms_ascend_ops {

struct PagedAttentionTilingData {
    CubeTiling scores;    // query key^T
    CubeTiling values;    // probabilities value
    uint64_t tiles;       // of queries
    uint64_t parts;       // of a context
    uint64_t tasks;       // each part of each tile
    uint64_t tokenTiles;  // of a sequence
    uint64_t headTiles;   // of the heads that share keys
    uint64_t tokens;      // queries of a sequence
    uint64_t heads;
    uint64_t keyHeads;
    uint64_t keyTiles;     // of the key heads
    uint64_t sharedHeads;  // heads of query that share one of key
    uint64_t blocks;       // of the cache
    uint64_t blockSize;
    uint64_t tableBlocks;  // of a sequence
    uint64_t workspacePerCore;
    uint64_t window;           // keys that a query sees at most; 0: all
    uint64_t sharedWorkspace;  // begins behind those of the cores; parts go there
    uint32_t headSize;
    uint32_t valueSize;
    uint32_t tileTokens;
    uint32_t tileHeads;     // of one key head
    uint32_t tileKeyHeads;  // more than 1: all heads of each, of one token
    uint32_t tileRows;      // the product of the three at most
    uint32_t runSlots;      // most slots of a product
    uint32_t tileCols;      // keys
    uint32_t chunkRows;
    uint32_t cores;
    float scale;
    float softcap;       // 0: none
    uint32_t leastPart;  // keys
};

namespace paged_attention {

// So many tasks keep every core of a chip busy; on a host, where threads are fewer and each part costs more than it
// does there, a few do.
constexpr uint64_t CHIP_TASKS = 48;
constexpr uint64_t HOST_TASKS = 16;
constexpr uint64_t LEAST_PART = 512;  // keys of one key head; fewer of several
constexpr uint64_t LEAST_PART_OF_HEADS = 128;
constexpr uint32_t RUN_BYTES = 512 << 10;  // of all key heads: a CPU's TLB covers so few pages

inline uint64_t LeastPart(uint64_t keyHeads)
{
    return std::max(LEAST_PART_OF_HEADS, LEAST_PART / keyHeads);
}

}  // namespace paged_attention

inline LaunchConfig PagedAttentionTiling(const PagedAttentionParams& params, const Platform& platform,
                                         PagedAttentionTilingData& tiling)
{
    using namespace attention;
    const uint64_t batch = params.query.dims[0];
    const uint64_t tokens = params.query.dims[1];
    const uint64_t heads = params.query.dims[2];
    const uint64_t headSize = params.query.dims[3];
    const uint64_t keyHeads = params.key_cache.dims[2];
    const uint64_t valueSize = params.value_cache.dims[3];
    const uint32_t bytes = SizeOf(params.query.dtype);
    CheckLastDim(params.query, "query", PagedAttentionLimits::HEAD_SIZE);
    CheckLastDim(params.value_cache, "value_cache", PagedAttentionLimits::HEAD_SIZE);
    Size32(heads * std::max(headSize, valueSize), "the elements of all heads of a token");
    const uint64_t shared = SharedHeads(heads, keyHeads);
    tiling.tokens = tokens;
    tiling.heads = heads;
    tiling.keyHeads = keyHeads;
    tiling.sharedHeads = shared;
    tiling.blocks = params.key_cache.dims[0];
    tiling.blockSize = params.key_cache.dims[1];
    CheckSlots(params.key_cache, PagedAttentionLimits::SLOTS);
    tiling.tableBlocks = params.block_tables.dims[1];
    tiling.headSize = static_cast<uint32_t>(headSize);
    tiling.valueSize = static_cast<uint32_t>(valueSize);

    const uint64_t keys = std::min(tiling.tableBlocks, uint64_t{INT32_MAX}) * tiling.blockSize;
    tiling.window = CheckedWindow(params.window);
    // A tile sees no more keys than the windows of its tokens cover.
    const uint64_t seen = tiling.window == 0 ? keys : std::min(keys, tiling.window + std::max<uint64_t>(1, tokens) - 1);
    const bool host = platform.tileBytes != 0;
    const uint64_t wanted = host ? paged_attention::HOST_TASKS : paged_attention::CHIP_TASKS;
    const auto tasksOf = [&](uint64_t keyHeadsOfTile) {
        return batch * CeilDiv(keyHeads, keyHeadsOfTile) * CeilDiv(seen, paged_attention::LeastPart(keyHeadsOfTile));
    };
    // A single token takes as many key heads as a tile has rows for and leave tasks enough: pages are then read in
    // longer pieces. For 2048 keys of 8 heads and 8 sequences, float16, a 910B takes 114 us so, and 265 with one
    // (predicted).
    uint64_t tileKeyHeads = tokens == 1 ? std::max<uint64_t>(1, std::min(keyHeads, TILE_ROWS / shared)) : 1;
    while (tileKeyHeads > 1 && tasksOf(tileKeyHeads) < std::min(wanted, tasksOf(1))) {
        tileKeyHeads = CeilDiv(tileKeyHeads, 2);
    }

    // Besides what a softmax takes: a row of query on its way into a matrix of their own, and one of a part.
    const uint64_t rowBytes = RoundUp(headSize, CUBE_SIDE) * bytes + RoundUp(valueSize, CUBE_SIDE) * sizeof(float);
    const Tiles tiles = PlanTiles(tokens * shared * tileKeyHeads, seen, valueSize, bytes, 0, rowBytes, platform);
    tileKeyHeads = std::max<uint64_t>(1, std::min(tileKeyHeads, tiles.rows / shared));
    tiling.tileKeyHeads = static_cast<uint32_t>(tileKeyHeads);
    tiling.keyTiles = CeilDiv(keyHeads, tileKeyHeads);
    const uint64_t slotBytes = std::max<uint64_t>(1, keyHeads * std::max(headSize, valueSize) * bytes);
    tiling.runSlots = static_cast<uint32_t>(std::max<uint64_t>(CUBE_SIDE, paged_attention::RUN_BYTES / slotBytes));
    if (tileKeyHeads == 1 || !host) {
        tiling.runSlots = tiles.cols;
    }
    tiling.tileRows = tiles.rows;
    tiling.tileCols = tiles.cols;
    tiling.chunkRows = tiles.chunkRows;
    tiling.tileHeads = static_cast<uint32_t>(std::min<uint64_t>(shared, tiles.rows));
    tiling.tileTokens = static_cast<uint32_t>(std::min<uint64_t>(tokens, tiles.rows / tiling.tileHeads));
    tiling.tokenTiles = CeilDiv(tokens, tiling.tileTokens);
    tiling.headTiles = CeilDiv(shared, tiling.tileHeads);
    tiling.tiles = batch * tiling.keyTiles * tiling.headTiles * tiling.tokenTiles;
    const uint64_t leastPart = paged_attention::LeastPart(tileKeyHeads);
    tiling.parts =
        std::max<uint64_t>(1, std::min(wanted / std::max<uint64_t>(1, tiling.tiles), CeilDiv(seen, leastPart)));
    tiling.tasks = tiling.tiles * tiling.parts;
    tiling.scale = params.scale;
    tiling.softcap = CheckedSoftCap(params.softcap);
    tiling.leastPart = static_cast<uint32_t>(leastPart);
    const uint64_t productRows = tileKeyHeads == 1 ? tiles.rows : shared;
    tiling.scores = PlanCube(productRows, tiles.cols, headSize, params.query.dtype, DataType::FLOAT32, false, true);
    tiling.values = PlanCube(productRows, valueSize, tiles.cols, params.query.dtype, DataType::FLOAT32, false, false);
    CheckRowsApart(tiling.scores, {headSize, "a row of the queries"}, {keyHeads * headSize, "a slot of the keys"},
                   platform);
    CheckRowsApart(tiling.values, {tiles.cols, "a row of probabilities"},
                   {keyHeads * valueSize, "a slot of the values"}, platform);

    // There are two tiles of scores, probabilities, the product that they add to the output, and the tile of query.
    const uint64_t elements = uint64_t{tiles.rows} * tiles.cols;
    tiling.workspacePerCore = RoundUp(2 * elements * sizeof(float) + tiles.rows * valueSize * sizeof(float) +
                                          elements * bytes + tiles.rows * headSize * bytes,
                                      uint64_t{512});
    LaunchConfig config;
    // The table has room for so much work: lengths are not known here.
    const uint64_t work = batch * heads * tokens * seen * headSize;
    config.blockDim = Cores(tiling.tasks, work, platform);
    tiling.cores = config.blockDim;
    tiling.sharedWorkspace = tiling.workspacePerCore * config.blockDim;
    const uint64_t partBytes = tiling.parts > 1 ? tiles.rows * (valueSize + 2) * sizeof(float) : 0;
    config.workspaceBytes = tiling.sharedWorkspace + tiling.tasks * partBytes;
    return config;
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PAGED_ATTENTION_TILING_H
