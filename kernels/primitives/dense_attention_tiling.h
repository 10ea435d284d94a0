/*!
 * Calculates the tiling of attentions whose keys and values lie one after the other, and of their gradients, in plain
 * C++.
 *
 * A task is a tile of query rows of one head, or, where a head has few rows, of all heads that share keys and values:
 * with the heads first, or one row a head, those lie one after the other in memory. Tasks go to cores round-robin.
 * Tiles follow from shapes and the Unified Buffer, not from the number of cores: neither do results.
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_DENSE_ATTENTION_TILING_H
#define MS_ASCEND_OPS_PRIMITIVES_DENSE_ATTENTION_TILING_H

#include "primitives/attention_tiling.h"
#include "primitives/cube_tiling.h"
#include "primitives/split.h"

namespace ms_ascend_ops {

struct AttentionTilingData {
    CubeTiling scores;  // query key^T
    CubeTiling values;  // probabilities value
    uint64_t queryLength;
    uint64_t keyLength;
    uint64_t sequences;
    uint64_t tilesPerHeadGroup;
    uint64_t headGroupsPerBatch;  // heads, or groups of heads that share keys; a tile has rows of one
    uint64_t rowsPerHeadGroup;
    uint64_t headGroupsPerKeyHead;
    uint64_t headsPerHeadGroup;
    uint64_t heads;
    // These are the elements from one to the next in memory.
    uint64_t queryBatch;
    uint64_t queryHeadGroup;
    uint64_t queryRow;
    uint64_t keyBatch;
    uint64_t keyHead;
    uint64_t keyRow;
    uint64_t valueBatch;
    uint64_t valueHead;
    uint64_t valueRow;
    uint64_t outBatch;
    uint64_t outHeadGroup;
    uint64_t outRow;
    uint64_t maskBatch;
    uint64_t maskHead;
    uint64_t maskRow;
    uint64_t window;  // keys that a query sees up to its own, 0: all
    uint64_t workspacePerCore;
    uint32_t headSize;
    uint32_t valueSize;
    uint32_t tileRows;
    uint32_t tileCols;   // keys
    uint32_t chunkRows;  // of a tile that the vector unit takes at a time, a multiple of 8
    uint32_t causal;
    uint32_t hasMask;
    uint32_t cores;
    float scale;
};

struct AttentionGradTilingData {
    CubeTiling tiles;             // scores, and dout value^T
    CubeTiling sums;              // ds key
    CubeTiling sumsOfTransposes;  // ds^T query, and p^T dout
    uint64_t queryLength;
    uint64_t keyLength;
    uint64_t sequences;
    uint64_t heads;
    uint64_t keyHeads;
    uint64_t sharedHeads;  // heads of query that share one of key
    // These are the elements from one to the next in memory.
    uint64_t queryBatch;
    uint64_t queryHead;
    uint64_t queryRow;
    uint64_t outBatch;
    uint64_t outHead;
    uint64_t outRow;
    uint64_t rowsPerHead;  // of lse and delta
    uint64_t keyBatch;
    uint64_t keyHead;
    uint64_t keyRow;
    uint64_t valueBatch;
    uint64_t valueHead;
    uint64_t valueRow;
    uint64_t maskBatch;
    uint64_t maskHead;
    uint64_t maskRow;
    uint64_t window;
    uint64_t workspacePerCore;
    uint32_t headSize;
    uint32_t valueSize;
    uint32_t tileRows;
    uint32_t tileCols;
    uint32_t chunkRows;
    uint32_t causal;
    uint32_t hasMask;
    uint32_t cores;
    float scale;
};

namespace dense_attention {

using namespace attention;

struct Sizes {
    uint64_t sequences;
    uint64_t heads;
    uint64_t keyHeads;
    uint64_t queryLength;  // of a sequence; of all together where they differ
    uint64_t keyLength;
    uint64_t headSize;
    uint64_t valueSize;
};

template <class PARAMS>
void Check(const PARAMS& params, const Sizes& sizes, int64_t mostHeadSize)
{
    CheckLastDim(params.query, "query", mostHeadSize);
    CheckLastDim(params.value, "value", mostHeadSize);
    Size32(sizes.heads * std::max(sizes.headSize, sizes.valueSize), "the elements of all heads of a query");
}

// A kernel calculates this.
struct Work {
    DataType type;
    bool headsFirst;  // in memory; else positions
    bool equal;       // sequences have equal lengths
    bool causal;
    int64_t window;
    float scale;
    uint32_t maskBytes;  // Unified Buffer for each element of a chunk
};

template <class TILING>
void Describe(const Sizes& sizes, const Work& work, TILING& tiling)
{
    tiling.sequences = sizes.sequences;
    tiling.heads = sizes.heads;
    tiling.queryLength = sizes.queryLength;
    tiling.keyLength = sizes.keyLength;
    tiling.headSize = static_cast<uint32_t>(sizes.headSize);
    tiling.valueSize = static_cast<uint32_t>(sizes.valueSize);
    tiling.causal = work.causal ? 1 : 0;
    tiling.window = CheckedWindow(work.window);
    tiling.scale = work.scale;
    tiling.queryBatch = sizes.heads * sizes.queryLength * sizes.headSize;
    tiling.outBatch = sizes.heads * sizes.queryLength * sizes.valueSize;
    tiling.keyBatch = sizes.keyHeads * sizes.keyLength * sizes.headSize;
    tiling.valueBatch = sizes.keyHeads * sizes.keyLength * sizes.valueSize;
    tiling.keyRow = work.headsFirst ? sizes.headSize : sizes.keyHeads * sizes.headSize;
    tiling.keyHead = work.headsFirst ? sizes.keyLength * sizes.headSize : sizes.headSize;
    tiling.valueRow = work.headsFirst ? sizes.valueSize : sizes.keyHeads * sizes.valueSize;
    tiling.valueHead = work.headsFirst ? sizes.keyLength * sizes.valueSize : sizes.valueSize;
}

inline uint64_t Operations(const Sizes& sizes)
{
    return sizes.heads * std::max<uint64_t>(1, sizes.queryLength) * sizes.keyLength * sizes.headSize;
}

inline LaunchConfig Plan(const Sizes& sizes, const Work& work, const Platform& platform, AttentionTilingData& tiling)
{
    const uint32_t bytes = SizeOf(work.type);
    const uint64_t headSize = sizes.headSize;
    const uint64_t valueSize = sizes.valueSize;
    const uint64_t queryLength = sizes.queryLength;
    const uint64_t shared = SharedHeads(sizes.heads, sizes.keyHeads);
    Describe(sizes, work, tiling);
    // Rows of all heads of a group are one matrix if they lie one after the other.
    const bool grouped = work.equal && shared > 1 && queryLength < TILE_ROWS && (work.headsFirst || queryLength == 1);
    tiling.headGroupsPerBatch = grouped ? sizes.keyHeads : sizes.heads;
    tiling.headGroupsPerKeyHead = grouped ? 1 : shared;
    tiling.headsPerHeadGroup = grouped ? shared : 1;
    tiling.rowsPerHeadGroup = grouped ? shared * queryLength : queryLength;
    const bool rowsOfAHead = work.headsFirst || grouped;
    tiling.queryRow = rowsOfAHead ? headSize : sizes.heads * headSize;
    tiling.queryHeadGroup = (rowsOfAHead ? queryLength * headSize : headSize) * tiling.headsPerHeadGroup;
    tiling.outRow = rowsOfAHead ? valueSize : sizes.heads * valueSize;
    tiling.outHeadGroup = (rowsOfAHead ? queryLength * valueSize : valueSize) * tiling.headsPerHeadGroup;

    const Tiles tiles =
        PlanTiles(tiling.rowsPerHeadGroup, sizes.keyLength, valueSize, bytes, work.maskBytes, 0, platform);
    const uint64_t tileRows = tiles.rows;
    const uint64_t tileCols = tiles.cols;
    tiling.tileRows = static_cast<uint32_t>(tileRows);
    tiling.tileCols = static_cast<uint32_t>(tileCols);
    tiling.chunkRows = tiles.chunkRows;
    tiling.tilesPerHeadGroup = CeilDiv(tiling.rowsPerHeadGroup, tileRows);
    tiling.scores = PlanCube(tileRows, tileCols, headSize, work.type, DataType::FLOAT32, false, true);
    tiling.values = PlanCube(tileRows, valueSize, tileCols, work.type, DataType::FLOAT32, false, false);
    CheckRowsApart(tiling.scores, {tiling.queryRow, "a row of the queries"}, {tiling.keyRow, "a row of the keys"},
                   platform);
    CheckRowsApart(tiling.values, {tileCols, "a row of probabilities"}, {tiling.valueRow, "a row of the values"},
                   platform);

    // There are two tiles of scores, probabilities, and what they add to the output.
    const uint64_t scoresBytes = tileRows * tileCols * sizeof(float);
    tiling.workspacePerCore =
        RoundUp(2 * scoresBytes + tileRows * tileCols * bytes + tileRows * valueSize * sizeof(float), uint64_t{512});
    LaunchConfig config;
    // Sequences of different lengths may each have a tile that is not full.
    const uint64_t tasks = work.equal ? sizes.sequences * tiling.headGroupsPerBatch * tiling.tilesPerHeadGroup
                                      : tiling.headGroupsPerBatch * (tiling.tilesPerHeadGroup + sizes.sequences);
    config.blockDim = Cores(tasks, (work.equal ? sizes.sequences : 1) * Operations(sizes), platform);
    tiling.cores = config.blockDim;
    config.workspaceBytes = tiling.workspacePerCore * config.blockDim;
    return config;
}

inline LaunchConfig PlanGrad(const Sizes& sizes, const Work& work, const Platform& platform,
                             AttentionGradTilingData& tiling)
{
    const uint32_t bytes = SizeOf(work.type);
    const uint64_t headSize = sizes.headSize;
    const uint64_t valueSize = sizes.valueSize;
    Describe(sizes, work, tiling);
    tiling.keyHeads = sizes.keyHeads;
    tiling.sharedHeads = SharedHeads(sizes.heads, sizes.keyHeads);
    tiling.queryRow = work.headsFirst ? headSize : sizes.heads * headSize;
    tiling.queryHead = work.headsFirst ? sizes.queryLength * headSize : headSize;
    tiling.outRow = work.headsFirst ? valueSize : sizes.heads * valueSize;
    tiling.outHead = work.headsFirst ? sizes.queryLength * valueSize : valueSize;
    tiling.rowsPerHead = sizes.queryLength;

    // Half of the Unified Buffer for the sums, half for a chunk: scores and dp, p and ds, each in two buffers.
    const uint64_t half = (platform.ubBytes - FIXED_BYTES) / 2;
    const uint64_t sumRow = (RoundUp(headSize, CUBE_SIDE) + RoundUp(valueSize, CUBE_SIDE)) * sizeof(float);
    const uint64_t widest = RoundUp(std::max(headSize, valueSize), CUBE_SIDE);
    uint64_t tileRows = TILE_ROWS;
    while (tileRows > CHUNK_STEP && tileRows * sumRow > half) {
        tileRows /= 2;
    }
    uint64_t tileCols = GRADIENT_COLS;
    const auto chunkRow = [&](uint64_t cols) {
        return (4 * sizeof(float) + 4 * uint64_t{bytes} + work.maskBytes) * std::max(cols, widest) + 2 * BLOCK_BYTES;
    };
    const uint64_t rowValues = 4 * sizeof(float) * tileRows;  // lse and delta, in two buffers
    while (tileCols > tileRows && rowValues + CHUNK_STEP * chunkRow(tileCols) > half) {
        tileCols /= 2;
    }
    const uint64_t chunkRows = std::min<uint64_t>({(half - rowValues) / chunkRow(tileCols), MOST_CHUNK, tileRows});
    tiling.tileRows = static_cast<uint32_t>(tileRows);
    tiling.tileCols = static_cast<uint32_t>(tileCols);
    tiling.chunkRows = static_cast<uint32_t>(chunkRows / CHUNK_STEP * CHUNK_STEP);
    const uint64_t larger = std::max(headSize, valueSize);
    tiling.tiles = PlanCube(tileRows, tileCols, larger, work.type, DataType::FLOAT32, false, true);
    tiling.sums = PlanCube(tileRows, headSize, tileCols, work.type, DataType::FLOAT32, false, false);
    tiling.sumsOfTransposes = PlanCube(tileRows, larger, tileRows, work.type, DataType::FLOAT32, true, false);
    const RowsApart rows{std::max(tiling.queryRow, tiling.outRow), "a row of the queries"};
    const RowsApart keys{std::max(tiling.keyRow, tiling.valueRow), "a row of the keys"};
    CheckRowsApart(tiling.tiles, rows, keys, platform);
    CheckRowsApart(tiling.sums, {tileCols, "a row of probabilities"}, keys, platform);
    CheckRowsApart(tiling.sumsOfTransposes, {tileCols, "a row of probabilities"}, rows, platform);
    const uint64_t elements = tileRows * tileCols;
    tiling.workspacePerCore = RoundUp(
        4 * elements * sizeof(float) + 2 * elements * bytes + tileRows * (headSize + valueSize) * sizeof(float), 512);
    LaunchConfig config;
    const uint64_t fullTiles =
        sizes.heads * CeilDiv(sizes.queryLength, tileRows) + sizes.keyHeads * CeilDiv(sizes.keyLength, tileRows);
    const uint64_t tasks =
        work.equal ? sizes.sequences * fullTiles : fullTiles + sizes.sequences * (sizes.heads + sizes.keyHeads);
    config.blockDim = Cores(tasks, (work.equal ? sizes.sequences : 1) * Operations(sizes), platform);
    tiling.cores = config.blockDim;
    config.workspaceBytes = tiling.workspacePerCore * config.blockDim;
    return config;
}

}  // namespace dense_attention

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_DENSE_ATTENTION_TILING_H
