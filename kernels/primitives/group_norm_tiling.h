/*!
 * Calculates the tiling of group_norm and group_norm_grad, in plain C++.
 *
 * x is N x C x S (channels first) or N x S x C (channels last). Tiles hold channels: rows of S elements, or pieces of
 * them, when channels come first; columns of a chunk of rows when they come last. With channels first a group lies in
 * one piece: the sums of group_norm are over rows of D * S elements, which have tiles of their own. Tiles depend on the
 * shape and on the Unified Buffer, not on the number of cores, so results do not either.
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_GROUP_NORM_TILING_H
#define MS_ASCEND_OPS_PRIMITIVES_GROUP_NORM_TILING_H

#include "primitives/split.h"

namespace ms_ascend_ops {

struct NormGroupsTilingData {
    uint64_t items;         // pieces of work of the stages on data
    uint64_t itemsPerCore;  // a multiple of `step`
    uint64_t sumItems;      // the same of the stage that sums up, and so all with `sum`
    uint64_t sumItemsPerCore;
    uint64_t groups;  // N * num_groups
    uint64_t groupsPerCore;
    uint64_t batchGroups;    // 0: cores share all stages; else each core takes its groups through all of them, so many
                             // at a time
    uint64_t arrayStride;    // elements from one array of channel values in the workspace to the next
    uint64_t size;           // S
    uint64_t lineSize;       // sums of channels: positions that are cut into pieces, S or a part of it
    uint32_t channels;       // C
    uint32_t channelStride;  // elements from a sample's channel values to the next sample's
    uint32_t numGroups;      // of a sample
    uint32_t groupChannels;  // D = C / numGroups
    uint32_t pieces;         // of a channel
    uint32_t step;           // items of a tile
    uint32_t columnTiles;    // channels last: tiles that the channels are split into
    uint32_t chunkRows;      // channels last: rows in a piece
    uint32_t sumChunkRows;   // sums of channels: positions of a piece
    uint32_t linePieces;     // of `lineSize` positions
    uint32_t tileRows;       // rows of a tile in the Unified Buffer
    uint32_t stepRows;       // rows one instruction handles
    uint32_t tileCols;
    uint32_t stride;  // elements from a row to the next in the Unified Buffer
    uint32_t sumPieces;
    uint32_t sumStep;
    uint32_t sumTileRows;
    uint32_t sumStepRows;
    uint32_t sumTileCols;
    uint32_t sumStride;
    uint32_t probe;         // elements of a channel, or a group, whose mean the variance is shifted by
    uint32_t groupStride;   // elements from a group's channel values to the next in the Unified Buffer
    uint32_t tileGroups;    // groups whose channel values are combined at a time
    uint32_t tileChannels;  // their channels: D, or less if a group does not fit
    uint32_t channelsLast;
    uint32_t activation;  // GroupNormActivation
    uint32_t chunks;      // second stage of dgamma and dbeta: the samples (primitives/sum_chunks.h)
    uint32_t chunkStride;
    uint32_t cols;
    uint32_t reduceCols;
    uint32_t reduceRows;
    float epsilon;
    float inverseSize;  // 1 / S
    float inverseProbe;
    float inverseChannels;  // 1 / D
    float inverseCount;     // 1 / (D * S)
};

namespace group_norm {

constexpr uint32_t SHORT_ROW = 1024;         // elements: up to here several rows share an instruction
constexpr uint32_t TILE_BYTES = 32 * 1024;   // of x in one buffer
constexpr uint32_t COMBINE_ELEMENTS = 1024;  // channel values combined at a time
constexpr uint32_t MAX_ROWS = 248;           // multiple of 8 within the 255 repeats of an instruction
constexpr uint32_t MAX_SINGLE_ROWS = 8;      // with instructions of their own
constexpr uint32_t PROBE_ROWS = 8;           // channels last
constexpr uint32_t MAX_PROBE = 512;          // channels first: enough to be near the mean; whole repeats
constexpr uint32_t MIN_CHUNK_ROWS = 64;      // channels last: a piece's sums cost as much as a row or two
constexpr uint32_t MAX_CHUNKS = 96;          // two for each core of a 48-core chip
constexpr uint32_t BATCH_BYTES = 512 * 1024;
constexpr uint32_t LINE_ELEMENTS = 128;
constexpr uint32_t MAX_MORE_PIECES = 4096;  // most pieces that are tried
constexpr uint32_t REDUCE_COLS = 512;
constexpr uint32_t REDUCE_BYTES = 48 * 1024;
constexpr uint32_t COMBINE_BUFFERS = 11;     // of COMBINE_ELEMENTS floats
constexpr uint32_t COMBINE_GROUPS = 56;      // their lane sums, and the probe of a group in pieces, are in FIXED_BYTES
constexpr uint32_t FIXED_BYTES = 20 * 1024;  // small buffers of the groups, rounding

// A kernel keeps this in the Unified Buffer and in the workspace.
struct Demand {
    uint32_t queues;   // tensors that go in and out
    uint32_t works;    // float temporaries of a tile
    uint32_t vectors;  // values of a channel that a tile needs
    uint32_t sums;     // values of a channel that a tile leaves
    uint32_t arrays;   // arrays of channel values, without the sums of pieces
    bool groupSums;    // channels first: the sums are of groups
};

struct Shape {
    uint64_t samples;
    uint64_t size;
    uint64_t channels;
};

inline Shape ShapeOf(const TensorDesc& x, bool channelsLast)
{
    const uint64_t channels = x.dims[channelsLast ? x.rank - 1 : 1];
    return {static_cast<uint64_t>(x.dims[0]), x.Product(1, x.rank) / channels, channels};
}

// Plans the tiles of rows.
struct RowTiles {
    uint32_t pieces;
    uint32_t tileRows;
    uint32_t tileCols;
    uint32_t stride;
    bool isShort;

    uint64_t TileElements() const { return static_cast<uint64_t>(tileRows) * stride; }
    uint64_t StepElements() const { return static_cast<uint64_t>(StepRows()) * stride; }
    uint32_t StepRows() const { return isShort ? tileRows : 1; }
};

// Returns in how many pieces a row is cut of which none is larger than `capacity`; a few more than that takes, if they
// are alike then.
inline uint64_t EvenPieces(uint64_t size, uint64_t capacity)
{
    const uint64_t least = CeilDiv(size, capacity);
    const uint64_t more = std::min<uint64_t>(CeilDiv(least, 4), MAX_MORE_PIECES);
    for (uint64_t pieces = least; pieces <= least + more; ++pieces) {
        if (size % (pieces * LINE_ELEMENTS) == 0) {
            return pieces;
        }
    }
    return least;
}

// Puts as many rows into a tile as are worth it, or `pieces` of a row that does not fit in `capacity` elements.
inline RowTiles TilesOf(uint64_t size, uint64_t pieces, uint32_t bytes, uint64_t capacity, const Platform& platform)
{
    const uint64_t stride = RoundUp(size, BLOCK_BYTES / bytes);
    RowTiles tiles{};
    tiles.pieces = Size32(pieces, "the pieces of a channel or a group");
    if (pieces > 1) {
        const uint64_t cols = RoundUp(CeilDiv(size, pieces), LINE_ELEMENTS);
        tiles.tileCols = static_cast<uint32_t>(std::min(cols, capacity / LINE_ELEMENTS * LINE_ELEMENTS));
        tiles.pieces = Size32(CeilDiv(size, tiles.tileCols), "the pieces of a channel or a group");
        tiles.stride = tiles.tileCols;
        tiles.tileRows = 1;
    } else {
        tiles.isShort = stride <= (stride == size ? SHORT_ROW : std::min(SHORT_ROW, platform.maxPaddedRow));
        tiles.tileCols = static_cast<uint32_t>(size);
        tiles.stride = static_cast<uint32_t>(stride);
        const uint64_t wanted = std::max<uint64_t>(1, TILE_BYTES / (stride * bytes));
        tiles.tileRows = static_cast<uint32_t>(std::min<uint64_t>(wanted, tiles.isShort ? MAX_ROWS : MAX_SINGLE_ROWS));
    }
    return tiles;
}

// With channels first there are rows of S elements, and of D * S. Both stages have the same buffers for x and its
// temporaries.
inline void PlanFirst(const Shape& shape, uint32_t bytes, uint64_t ub, const Demand& demand, const Platform& platform,
                      NormGroupsTilingData& tiling)
{
    const uint64_t queues = 2 * demand.queues * bytes;
    const uint64_t works = 4 * demand.works;
    const uint64_t sumSize = demand.groupSums ? tiling.groupChannels * shape.size : shape.size;
    const uint64_t perSum =
        demand.sums * ((sumSize > FLOATS_PER_REPEAT ? 256 : 0) + 4) + (demand.groupSums ? BLOCK_BYTES : 0);
    const uint64_t perRow = demand.vectors * (BLOCK_BYTES + 4) + BLOCK_BYTES + 8;
    const uint64_t capacity = std::min<uint64_t>(TILE_BYTES / bytes, (ub - 16 * (perSum + perRow)) / (queues + works));
    RowTiles rows = TilesOf(shape.size, CeilDiv(shape.size, capacity), bytes, capacity, platform);
    RowTiles sums = rows;
    if (demand.groupSums) {
        sums = TilesOf(sumSize, EvenPieces(sumSize, capacity), bytes, capacity, platform);
    }
    const auto needed = [&] {
        return queues * std::max(rows.TileElements(), sums.TileElements()) +
               works * std::max(rows.StepElements(), sums.StepElements()) + rows.tileRows * perRow +
               sums.tileRows * perSum;
    };
    while (needed() > ub && rows.tileRows + sums.tileRows > 2) {
        if (!demand.groupSums) {
            sums.tileRows = --rows.tileRows;
        } else if (rows.tileRows == 1 || (sums.tileRows > 1 && sums.TileElements() > rows.TileElements())) {
            --sums.tileRows;
        } else {
            --rows.tileRows;
        }
    }
    for (RowTiles* tiles : {&rows, &sums}) {
        tiles->tileRows = tiles->tileRows > 8 ? tiles->tileRows / 8 * 8 : tiles->tileRows;
    }
    tiling.pieces = rows.pieces;
    tiling.step = rows.tileRows;
    tiling.tileRows = rows.tileRows;
    tiling.stepRows = rows.StepRows();
    tiling.tileCols = rows.tileCols;
    tiling.stride = rows.stride;
    tiling.items = shape.samples * shape.channels * rows.pieces;
    tiling.sumPieces = sums.pieces;
    tiling.sumStep = sums.tileRows;
    tiling.sumTileRows = sums.tileRows;
    tiling.sumStepRows = sums.StepRows();
    tiling.sumTileCols = sums.tileCols;
    tiling.sumStride = sums.stride;
    tiling.sumItems = demand.groupSums ? tiling.groups * sums.pieces : tiling.items;
    tiling.columnTiles = 1;
    const uint64_t most = std::min<uint64_t>(sums.tileCols, sums.stride <= SHORT_ROW ? FLOATS_PER_REPEAT : MAX_PROBE);
    tiling.probe =
        static_cast<uint32_t>(most > FLOATS_PER_REPEAT ? most / FLOATS_PER_REPEAT * FLOATS_PER_REPEAT : most);
}

// With channels last there are chunks of rows, and tiles of columns.
inline void PlanLast(const Shape& shape, uint32_t bytes, uint64_t ub, const Demand& demand,
                     NormGroupsTilingData& tiling)
{
    const uint64_t perElement = 2 * demand.queues * bytes + 4 * demand.works;
    const uint64_t align = BLOCK_BYTES / bytes;
    tiling.columnTiles = static_cast<uint32_t>(CeilDiv(shape.channels, SHORT_ROW));
    const uint64_t cols = tiling.columnTiles == 1 ? shape.channels : SHORT_ROW;
    tiling.tileCols = static_cast<uint32_t>(cols);
    tiling.stride = static_cast<uint32_t>(RoundUp(cols, align));
    const uint64_t perColumn = 4 * (demand.vectors + demand.sums + 2) + 8;
    const uint64_t fit = (ub - tiling.stride * perColumn) / (tiling.stride * perElement);
    const uint64_t wanted = TILE_BYTES / (tiling.stride * bytes);
    tiling.chunkRows =
        Size32(std::max<uint64_t>(MIN_CHUNK_ROWS, CeilDiv(shape.size, MAX_CHUNKS)), "the rows of a piece");
    tiling.pieces = static_cast<uint32_t>(CeilDiv(shape.size, tiling.chunkRows));
    tiling.sumChunkRows = tiling.chunkRows;
    tiling.lineSize = shape.size;
    tiling.linePieces = tiling.pieces;
    const uint64_t rows =
        std::min<uint64_t>({fit, std::max<uint64_t>(1, wanted), MAX_ROWS, tiling.chunkRows, shape.size});
    tiling.tileRows = static_cast<uint32_t>(std::max<uint64_t>(1, rows));
    tiling.stepRows = tiling.tileRows;
    tiling.step = 1;
    tiling.probe = static_cast<uint32_t>(std::min<uint64_t>({PROBE_ROWS, tiling.tileRows, shape.size}));
    tiling.items = shape.samples * tiling.pieces * tiling.columnTiles;
    tiling.sumItems = tiling.items;
    tiling.sumPieces = tiling.pieces;
    tiling.sumStep = tiling.step;
    tiling.sumTileRows = tiling.tileRows;
    tiling.sumStepRows = tiling.stepRows;
    tiling.sumTileCols = tiling.tileCols;
    tiling.sumStride = tiling.stride;
}

inline LaunchConfig Plan(const TensorDesc& x, uint32_t gammaBytes, uint64_t numGroups, bool channelsLast,
                         uint32_t activation, float epsilon, const Demand& demand, const Platform& platform,
                         NormGroupsTilingData& tiling)
{
    const Shape shape = ShapeOf(x, channelsLast);
    const uint32_t bytes = SizeOf(x.dtype);
    tiling.size = shape.size;
    tiling.channels = Size32(shape.channels, "the channels");
    tiling.numGroups = static_cast<uint32_t>(numGroups);
    tiling.groupChannels = static_cast<uint32_t>(shape.channels / numGroups);
    tiling.groups = shape.samples * numGroups;
    tiling.activation = activation;
    tiling.epsilon = epsilon;
    // Without spatial dims both formats are the same, and a channel is one value: rows of channels suit it better.
    tiling.channelsLast = channelsLast || shape.size == 1 ? 1 : 0;

    const uint64_t combineBytes = static_cast<uint64_t>(COMBINE_ELEMENTS) * 4 * COMBINE_BUFFERS;
    const uint64_t ub = platform.ubBytes - FIXED_BYTES - combineBytes;
    if (tiling.channelsLast != 0) {
        PlanLast(shape, bytes, ub, demand, tiling);
        tiling.channelStride = static_cast<uint32_t>(RoundUp(shape.channels, 8));
    } else {
        PlanFirst(shape, bytes, ub, demand, platform, tiling);
        tiling.channelStride = tiling.channels;
    }
    const bool groupSums = demand.groupSums && tiling.channelsLast == 0;

    // A tile takes as many groups as fit, with values for all channels and pieces: whole samples, or parts of one.
    const uint64_t groupValues = std::max(tiling.groupChannels, groupSums ? tiling.sumPieces : 1u);
    tiling.tileChannels = std::min(tiling.groupChannels, COMBINE_ELEMENTS);
    tiling.groupStride = static_cast<uint32_t>(std::min<uint64_t>(RoundUp(groupValues, 16), COMBINE_ELEMENTS));
    tiling.tileGroups = std::min(COMBINE_ELEMENTS / tiling.groupStride, COMBINE_GROUPS);
    if (tiling.channelStride != shape.channels) {
        tiling.tileGroups = std::min(tiling.tileGroups, tiling.numGroups);  // samples do not lie side by side
    } else if (tiling.tileGroups > tiling.numGroups) {
        tiling.tileGroups = tiling.tileGroups / tiling.numGroups * tiling.numGroups;
    }
    tiling.inverseSize = 1.0f / static_cast<float>(shape.size);
    tiling.inverseProbe = 1.0f / static_cast<float>(tiling.probe);
    tiling.inverseChannels = 1.0f / static_cast<float>(tiling.groupChannels);
    tiling.inverseCount = 1.0f / static_cast<float>(tiling.groupChannels * shape.size);

    LaunchConfig config;
    const uint64_t elements = shape.samples * shape.channels * shape.size;
    const uint64_t tiles = CeilDiv(tiling.items, tiling.step);
    const uint64_t sumTiles = CeilDiv(tiling.sumItems, tiling.sumStep);
    config.blockDim = CoresFor(std::max<uint64_t>({1, tiles, sumTiles}), demand.queues * elements * bytes, platform);
    tiling.itemsPerCore = CeilDiv(tiles, config.blockDim) * tiling.step;
    tiling.sumItemsPerCore = CeilDiv(sumTiles, config.blockDim) * tiling.sumStep;
    // Every core gets whole groups, if no core gets much more to do by that: they stay in its cache.
    const uint64_t groupBytes = tiling.groupChannels * shape.size * bytes;
    const uint64_t groups = std::max<uint64_t>(1, tiling.groups);
    const uint32_t cores = groupSums ? CoresFor(groups, demand.queues * elements * bytes, platform) : config.blockDim;
    const uint64_t itemsOfGroup = static_cast<uint64_t>(tiling.groupChannels) * tiling.pieces;
    tiling.groupsPerCore = CeilDiv(groups, cores);
    if (tiling.channelsLast == 0 && tiling.groupsPerCore * itemsOfGroup * 8 <= tiling.itemsPerCore * 9) {
        tiling.batchGroups = std::max<uint64_t>(1, BATCH_BYTES / std::max<uint64_t>(1, groupBytes));
        config.blockDim = static_cast<uint32_t>(CeilDiv(groups, tiling.groupsPerCore));
    } else {
        tiling.groupsPerCore = CeilDiv(groups, config.blockDim);
    }
    const uint64_t values = std::max(shape.samples * tiling.channelStride, groupSums ? tiling.sumItems : 0);
    tiling.arrayStride = RoundUp(values, LINE_ELEMENTS);
    // group_norm with channels last: K is the same for all pieces.
    const uint64_t pieceSums = demand.groupSums ? demand.sums - 1 : demand.sums;
    const uint64_t sumArrays = groupSums ? demand.sums : pieceSums * tiling.sumPieces;
    config.workspaceBytes = (demand.arrays + sumArrays) * tiling.arrayStride * 4;

    tiling.chunks = Size32(shape.samples, "the samples");
    tiling.chunkStride = tiling.channelStride;
    tiling.cols = tiling.channels;
    tiling.reduceCols = static_cast<uint32_t>(
        std::min<uint64_t>(RoundUp(CeilDiv(shape.channels, config.blockDim), 512 / gammaBytes), REDUCE_COLS));
    tiling.reduceRows =
        std::max(1u, std::min({tiling.chunks, MAX_REPEAT_TIMES, REDUCE_BYTES / (tiling.reduceCols * 4)}));
    return config;
}

}  // namespace group_norm

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_GROUP_NORM_TILING_H
