/*!
 * Tiling of flash_attention. Plain C++.
 *
 * A task is a tile of query rows of one head, or, where a head has few rows, of all heads that share keys and values:
 * with the layout BNSD, or one row a head, those lie one after the other in memory. Tasks go to cores in turn. Tiles
 * follow from shapes and the Unified Buffer, not from the number of cores: neither do results.
 */
#ifndef MS_ASCEND_OPS_FLASH_ATTENTION_TILING_H
#define MS_ASCEND_OPS_FLASH_ATTENTION_TILING_H

#include "flash_attention_params.h"
#include "primitives/attention_tiling.h"
#include "primitives/cube_tiling.h"
#include "primitives/split.h"

namespace ms_ascend_ops {

struct FlashAttentionTilingData {
    CubeTiling scores;  // query key^T
    CubeTiling values;  // probabilities value
    uint64_t queryLength;
    uint64_t keyLength;
    uint64_t tasks;
    uint64_t tilesPerUnit;
    uint64_t unitsPerBatch;  // units whose rows a tile is taken from: heads, or groups of heads that share keys
    uint64_t rowsPerUnit;
    uint64_t unitsPerKeyHead;
    uint64_t headsOfAUnit;
    // Elements from one to the next in memory.
    uint64_t queryBatch;
    uint64_t queryUnit;
    uint64_t queryRow;
    uint64_t keyBatch;
    uint64_t keyHead;
    uint64_t keyRow;
    uint64_t valueBatch;
    uint64_t valueHead;
    uint64_t valueRow;
    uint64_t outBatch;
    uint64_t outUnit;
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

struct FlashAttentionGradTilingData {
    CubeTiling tiles;             // scores, and dout value^T
    CubeTiling sums;              // ds key
    CubeTiling sumsOfTransposes;  // ds^T query, and p^T dout
    uint64_t queryLength;
    uint64_t keyLength;
    uint64_t queryTasks;
    uint64_t keyTasks;
    uint64_t queryTiles;  // of a head
    uint64_t keyTiles;
    uint64_t heads;
    uint64_t sharedHeads;  // heads of query that share one of key
    // Elements from one to the next in memory.
    uint64_t queryBatch;
    uint64_t queryHead;
    uint64_t queryRow;
    uint64_t doutBatch;
    uint64_t doutHead;
    uint64_t doutRow;
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

namespace flash_attention {

using namespace attention;

// For each element of a chunk: the mask in two buffers, and in float.
inline uint32_t MaskBytes(const TensorDesc& mask)
{
    if (!mask.IsGiven()) {
        return 0;
    }
    return 2 * SizeOf(mask.dtype) + (mask.dtype == DataType::FLOAT32 ? 0 : static_cast<uint32_t>(sizeof(float)));
}

template <class TILING>
void DescribeMask(const TensorDesc& mask, TILING& tiling)
{
    tiling.hasMask = mask.IsGiven() ? 1 : 0;
    if (!mask.IsGiven()) {
        return;
    }
    const uint64_t row = mask.dims[3];
    tiling.maskRow = mask.dims[2] == 1 ? 0 : row;
    tiling.maskHead = mask.dims[1] == 1 ? 0 : mask.dims[2] * row;
    tiling.maskBatch = mask.dims[0] == 1 ? 0 : mask.dims[1] * mask.dims[2] * row;
}

struct Sizes {
    uint64_t batch;
    uint64_t heads;
    uint64_t keyHeads;
    uint64_t queryLength;
    uint64_t keyLength;
    uint64_t headSize;
    uint64_t valueSize;
};

template <class PARAMS>
Sizes SizesOf(const PARAMS& params, bool headsFirst)
{
    const int32_t headAxis = headsFirst ? 1 : 2;
    const int32_t lengthAxis = headsFirst ? 2 : 1;
    Sizes sizes;
    sizes.batch = params.query.dims[0];
    sizes.heads = params.query.dims[headAxis];
    sizes.keyHeads = params.key.dims[headAxis];
    sizes.queryLength = params.query.dims[lengthAxis];
    sizes.keyLength = params.key.dims[lengthAxis];
    sizes.headSize = params.query.dims[3];
    sizes.valueSize = params.value.dims[3];
    CheckSizes(sizes.headSize, sizes.valueSize, FlashAttentionLimits::HEAD_SIZE);
    Size32(sizes.heads * std::max(sizes.headSize, sizes.valueSize), "the elements of all heads of a query");
    return sizes;
}

}  // namespace flash_attention

inline LaunchConfig FlashAttentionTiling(const FlashAttentionParams& params, const Platform& platform,
                                         FlashAttentionTilingData& tiling)
{
    using namespace flash_attention;
    const bool headsFirst = params.layout == FlashAttentionLayout::BNSD;
    const auto [batch, heads, keyHeads, queryLength, keyLength, headSize, valueSize] = SizesOf(params, headsFirst);
    const uint32_t bytes = SizeOf(params.query.dtype);
    const uint64_t shared = SharedHeads(heads, keyHeads);
    // Rows of all heads of a group are one matrix if they lie one after the other.
    const bool grouped = shared > 1 && queryLength < TILE_ROWS && (headsFirst || queryLength == 1);
    tiling.queryLength = queryLength;
    tiling.keyLength = keyLength;
    tiling.unitsPerBatch = grouped ? keyHeads : heads;
    tiling.unitsPerKeyHead = grouped ? 1 : shared;
    tiling.headsOfAUnit = grouped ? shared : 1;
    tiling.rowsPerUnit = grouped ? shared * queryLength : queryLength;
    tiling.headSize = static_cast<uint32_t>(headSize);
    tiling.valueSize = static_cast<uint32_t>(valueSize);

    const bool rowsOfAHead = headsFirst || grouped;
    tiling.queryBatch = heads * queryLength * headSize;
    tiling.queryRow = rowsOfAHead ? headSize : heads * headSize;
    tiling.queryUnit = (rowsOfAHead ? queryLength * headSize : headSize) * tiling.headsOfAUnit;
    tiling.outBatch = heads * queryLength * valueSize;
    tiling.outRow = rowsOfAHead ? valueSize : heads * valueSize;
    tiling.outUnit = (rowsOfAHead ? queryLength * valueSize : valueSize) * tiling.headsOfAUnit;
    tiling.keyBatch = keyHeads * keyLength * headSize;
    tiling.keyRow = headsFirst ? headSize : keyHeads * headSize;
    tiling.keyHead = headsFirst ? keyLength * headSize : headSize;
    tiling.valueBatch = keyHeads * keyLength * valueSize;
    tiling.valueRow = headsFirst ? valueSize : keyHeads * valueSize;
    tiling.valueHead = headsFirst ? keyLength * valueSize : valueSize;

    const uint32_t maskBytes = MaskBytes(params.mask);
    DescribeMask(params.mask, tiling);
    const Tiles tiles = PlanTiles(tiling.rowsPerUnit, keyLength, valueSize, bytes, maskBytes, 0, platform);
    const uint64_t tileRows = tiles.rows;
    const uint64_t tileCols = tiles.cols;
    tiling.tileRows = static_cast<uint32_t>(tileRows);
    tiling.tileCols = static_cast<uint32_t>(tileCols);
    tiling.chunkRows = tiles.chunkRows;
    tiling.tilesPerUnit = CeilDiv(tiling.rowsPerUnit, tileRows);
    tiling.tasks = batch * tiling.unitsPerBatch * tiling.tilesPerUnit;
    tiling.causal = params.causal ? 1 : 0;
    tiling.window = params.window > 0 ? static_cast<uint64_t>(params.window) : 0;
    tiling.scale = params.scale;
    tiling.scores = PlanCube(tileRows, tileCols, headSize, params.query.dtype, DataType::FLOAT32, false, true);
    tiling.values = PlanCube(tileRows, valueSize, tileCols, params.query.dtype, DataType::FLOAT32, false, false);

    // Two tiles of scores, probabilities, and what they add to the output.
    const uint64_t scoresBytes = tileRows * tileCols * sizeof(float);
    tiling.workspacePerCore =
        RoundUp(2 * scoresBytes + tileRows * tileCols * bytes + tileRows * valueSize * sizeof(float), uint64_t{512});
    LaunchConfig config;
    const uint64_t work = batch * heads * std::max<uint64_t>(1, queryLength) * keyLength * headSize;
    config.blockDim = Cores(tiling.tasks, work, platform);
    tiling.cores = config.blockDim;
    config.workspaceBytes = tiling.workspacePerCore * config.blockDim;
    return config;
}

inline LaunchConfig FlashAttentionGradTiling(const FlashAttentionGradParams& params, const Platform& platform,
                                             FlashAttentionGradTilingData& tiling)
{
    using namespace flash_attention;
    const bool headsFirst = params.layout == FlashAttentionLayout::BNSD;
    const auto [batch, heads, keyHeads, queryLength, keyLength, headSize, valueSize] = SizesOf(params, headsFirst);
    const uint32_t bytes = SizeOf(params.query.dtype);
    tiling.sharedHeads = SharedHeads(heads, keyHeads);
    tiling.heads = heads;
    tiling.queryLength = queryLength;
    tiling.keyLength = keyLength;
    tiling.headSize = static_cast<uint32_t>(headSize);
    tiling.valueSize = static_cast<uint32_t>(valueSize);
    const auto strides = [&](uint64_t count, uint64_t length, uint64_t size, uint64_t& ofBatch, uint64_t& ofHead,
                             uint64_t& ofRow) {
        ofBatch = count * length * size;
        ofHead = headsFirst ? length * size : size;
        ofRow = headsFirst ? size : count * size;
    };
    strides(heads, queryLength, headSize, tiling.queryBatch, tiling.queryHead, tiling.queryRow);
    strides(heads, queryLength, valueSize, tiling.doutBatch, tiling.doutHead, tiling.doutRow);
    strides(keyHeads, keyLength, headSize, tiling.keyBatch, tiling.keyHead, tiling.keyRow);
    strides(keyHeads, keyLength, valueSize, tiling.valueBatch, tiling.valueHead, tiling.valueRow);

    // Half of the Unified Buffer for the sums, half for a chunk: scores and dp, p and ds, each in two buffers.
    const uint64_t half = (platform.ubBytes - FIXED_BYTES) / 2;
    const uint64_t sumRow = (RoundUp(headSize, CUBE_SIDE) + RoundUp(valueSize, CUBE_SIDE)) * sizeof(float);
    const uint64_t widest = RoundUp(std::max(headSize, valueSize), CUBE_SIDE);
    const uint32_t maskBytes = MaskBytes(params.mask);
    DescribeMask(params.mask, tiling);
    uint64_t tileRows = TILE_ROWS;
    while (tileRows > CHUNK_STEP && tileRows * sumRow > half) {
        tileRows /= 2;
    }
    uint64_t tileCols = TILE_COLS;
    const auto chunkRow = [&](uint64_t cols) {
        return (4 * sizeof(float) + 4 * uint64_t{bytes} + maskBytes) * std::max(cols, widest) + 2 * BLOCK_BYTES;
    };
    const uint64_t rowValues = 4 * sizeof(float) * tileRows;  // lse and delta, in two buffers
    while (tileCols > tileRows && rowValues + CHUNK_STEP * chunkRow(tileCols) > half) {
        tileCols /= 2;
    }
    const uint64_t chunkRows = std::min<uint64_t>({(half - rowValues) / chunkRow(tileCols), MOST_CHUNK, tileRows});
    tiling.tileRows = static_cast<uint32_t>(tileRows);
    tiling.tileCols = static_cast<uint32_t>(tileCols);
    tiling.chunkRows = static_cast<uint32_t>(chunkRows / CHUNK_STEP * CHUNK_STEP);
    tiling.queryTiles = CeilDiv(queryLength, tileRows);
    tiling.keyTiles = CeilDiv(keyLength, tileRows);
    tiling.queryTasks = batch * heads * tiling.queryTiles;
    tiling.keyTasks = batch * keyHeads * tiling.keyTiles;
    tiling.causal = params.causal ? 1 : 0;
    tiling.window = params.window > 0 ? static_cast<uint64_t>(params.window) : 0;
    tiling.scale = params.scale;
    const uint64_t larger = std::max(headSize, valueSize);
    tiling.tiles = PlanCube(tileRows, tileCols, larger, params.query.dtype, DataType::FLOAT32, false, true);
    tiling.sums = PlanCube(tileRows, headSize, tileCols, params.query.dtype, DataType::FLOAT32, false, false);
    tiling.sumsOfTransposes = PlanCube(tileRows, larger, tileRows, params.query.dtype, DataType::FLOAT32, true, false);
    const uint64_t elements = tileRows * tileCols;
    tiling.workspacePerCore = RoundUp(
        4 * elements * sizeof(float) + 2 * elements * bytes + tileRows * (headSize + valueSize) * sizeof(float), 512);
    LaunchConfig config;
    const uint64_t work = batch * heads * queryLength * keyLength * headSize;
    config.blockDim = Cores(tiling.queryTasks + tiling.keyTasks, work, platform);
    tiling.cores = config.blockDim;
    config.workspaceBytes = tiling.workspacePerCore * config.blockDim;
    return config;
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_FLASH_ATTENTION_TILING_H
