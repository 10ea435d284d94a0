/*!
 * Calculates the tiling of operators that rotate heads by the rotary embedding, in plain C++.
 *
 * x is (sequences, positions, heads, d). A task is a tile: a stretch of positions of one sequence, with some heads.
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_ROTARY_TILING_H
#define MS_ASCEND_OPS_PRIMITIVES_ROTARY_TILING_H

#include "primitives/shape_checks.h"
#include "primitives/split.h"

namespace ms_ascend_ops {

struct RotaryTilingData {
    uint64_t positions;  // of all sequences together
    uint64_t seqLength;  // positions of a sequence
    uint64_t sequences;
    uint64_t tableInner;  // table of sequence a: a / tableInner % tables
    uint64_t tables;
    uint64_t tablePeriod;  // positions after which the table repeats within a sequence
    uint64_t tasks;        // tiles
    uint64_t tasksPerCore;
    uint32_t headTiles;  // tiles at one stretch of positions
    uint32_t tileHeads;
    uint32_t tilePositions;
    uint32_t dim;
    uint32_t half;         // pairs of a head
    uint32_t halfStride;   // half mode: from x1 to x2 in the Unified Buffer
    uint32_t rotated;      // elements before the tail, padding included
    uint32_t stride;       // from a head to the next in the Unified Buffer
    uint32_t tableWidth;   // of cos and sin
    uint32_t tableStride;  // from a position's `half` table values to the next in the Unified Buffer
    uint32_t interleave;
    uint32_t separateHalves;  // the elements of a pair have values of their own in the tables
};

namespace rotary {

constexpr uint32_t TILE_BYTES = 32 * 1024;
constexpr uint32_t FIXED_BYTES = 2048;  // rounding of buffers, of two to pairs of runs of 64 floats

// A tile takes so much of the Unified Buffer.
struct Need {
    uint64_t perHead;
    uint64_t perPosition;  // of the table
};

// This part of a head is rotated. `rotaryDim` is 0 where it is the whole head.
struct Pairs {
    bool interleave;
    int64_t rotaryDim;
    bool separateHalves;
};

// Checks x, or its gradient, which has this name, and the tables. `most` is the largest size of a head.
inline void Check(const TensorDesc& x, const char* name, int64_t most, const TensorDesc& cos, const TensorDesc& sin,
                  const Pairs& pairs)
{
    const auto lastDim = [name] { return std::string(name) + ".shape[-1]"; };
    const int64_t dim = x.LastDim();
    const int64_t rotated = pairs.rotaryDim == 0 ? dim : pairs.rotaryDim;
    const int64_t width = cos.LastDim();
    if (pairs.rotaryDim < 0 || pairs.rotaryDim % 2 != 0) {
        Refuse("rotary_dim must be even and at least 0", std::to_string(pairs.rotaryDim));
    }
    if (!HaveSameShape(cos, sin)) {
        Refuse("sin.shape must be cos.shape " + ShapeText(cos), ShapeText(sin));
    }
    if (pairs.rotaryDim > dim) {
        Refuse("rotary_dim must be at most " + lastDim() + " (" + std::to_string(dim) + ")",
               std::to_string(pairs.rotaryDim));
    }
    CheckLastDim(x, name, most);
    if (rotated % 2 != 0) {
        Refuse(lastDim() + " must be even (its elements are rotated in pairs)", ShapeText(x));
    }
    if (width != rotated && pairs.separateHalves) {
        Refuse("cos.shape[-1] must be " + std::to_string(rotated) + " with separate_halves", ShapeText(cos));
    }
    if (width != rotated && 2 * width != rotated) {
        Refuse("cos.shape[-1] must be " + std::to_string(rotated) + " or " + std::to_string(rotated / 2) + " where " +
                   std::to_string(rotated) + " elements of a head are rotated",
               ShapeText(cos));
    }
}

// Plans how a head and a position's table lie in the Unified Buffer.
inline Need Heads(uint64_t dim, DataType dtype, const TensorDesc& cos, const Pairs& pairs, RotaryTilingData& tiling)
{
    const bool interleave = pairs.interleave;
    const uint64_t rotated = pairs.rotaryDim == 0 ? dim : static_cast<uint64_t>(pairs.rotaryDim);
    const uint64_t width = cos.LastDim();
    const uint32_t bytes = SizeOf(dtype);
    const uint32_t tableBytes = SizeOf(cos.dtype);
    const uint64_t align = BLOCK_BYTES / bytes;
    const uint64_t half = rotated / 2;
    const uint64_t unrotated = dim - rotated;
    tiling.half = static_cast<uint32_t>(half);
    tiling.halfStride = static_cast<uint32_t>(RoundUp(half, align));
    tiling.rotated = interleave ? static_cast<uint32_t>(RoundUp(rotated, align)) : 2 * tiling.halfStride;
    tiling.stride = tiling.rotated + static_cast<uint32_t>(RoundUp(unrotated, align));
    tiling.dim = static_cast<uint32_t>(dim);
    tiling.tableWidth = static_cast<uint32_t>(width);
    // The values fill whole blocks. Loaded pairs are picked apart and fill whole blocks, too: pairs that are put
    // together again are one run.
    const uint64_t tableAlign = BLOCK_BYTES / tableBytes;
    tiling.tableStride =
        static_cast<uint32_t>(interleave && width != half ? RoundUp(width, tableAlign) / 2 : RoundUp(half, tableAlign));
    tiling.interleave = interleave ? 1 : 0;
    tiling.separateHalves = pairs.separateHalves ? 1 : 0;

    // There are x and y in two buffers each, one scratch in float; a float copy unless x is float. Interleave has two
    // shifted copies of x in two buffers each, and a scratch of 16 bits unless x is float.
    const uint64_t perElement =
        4 * bytes + 4 + (bytes == 4 ? 0 : 4) + (interleave ? 4 * bytes + (bytes == 4 ? 0 : 2) : 0);
    // There are cos and sin of a position in float; loaded (interleave: twice as wide, and picked) and widened, unless
    // they are float, once, or twice with values of their own; interleave: two scratches for pairs.
    const uint64_t widened = tableBytes == 4 ? 0 : 4;
    const uint64_t loaded = pairs.separateHalves ? 4ull * tableBytes + 2 * widened : 3ull * tableBytes + widened;
    const uint64_t perPosition = tiling.stride * 8ull + tiling.tableStride * (loaded + (interleave ? 16 : 0));
    return {tiling.stride * perElement, perPosition};
}

// Says how a kernel walks through positions of x and rows of the tables.
struct Walk {
    uint64_t sequences;
    uint64_t length;  // of a sequence
    uint64_t tables;  // table of sequence a: a / tableInner % tables
    uint64_t tableInner;
    uint64_t period;  // positions after which the table repeats within a sequence

    // If every sequence has tables of its own, also a single one, all are one long sequence.
    void Join()
    {
        if (tables == sequences) {
            *this = {1, length * sequences, 1, 1, length * sequences};
        }
    }

    // Joins sequences of less than `most` positions that share their table: several are one.
    void Gather(uint64_t most)
    {
        if (tables == 1 && length > 0 && length < most && sequences > 1) {
            const uint64_t together = std::min<uint64_t>(most / length, sequences);
            length *= together;
            sequences = CeilDiv(sequences, together);
            tableInner = sequences;
        }
    }
};

// Plans how cores share the tiles, whose sizes are known. `bytes` are those that a launch moves.
inline LaunchConfig ShareTiles(const Walk& walk, uint64_t positions, uint64_t bytes, const Platform& platform,
                               RotaryTilingData& tiling)
{
    tiling.positions = positions;
    tiling.seqLength = walk.length;
    tiling.sequences = walk.sequences;
    tiling.tableInner = walk.tableInner;
    tiling.tables = walk.tables;
    tiling.tablePeriod = walk.period;
    tiling.tasks = CeilDiv(walk.length, tiling.tilePositions) * walk.sequences * tiling.headTiles;
    LaunchConfig config;
    config.blockDim = CoresFor(tiling.tasks, bytes, platform);
    tiling.tasksPerCore = CeilDiv(tiling.tasks, config.blockDim);
    config.blockDim = static_cast<uint32_t>(std::max<uint64_t>(1, CeilDiv(tiling.tasks, tiling.tasksPerCore)));
    return config;
}

}  // namespace rotary
}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_ROTARY_TILING_H
