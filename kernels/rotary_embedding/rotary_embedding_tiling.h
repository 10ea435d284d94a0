/*!
 * Tiling of rotary_embedding and its gradient. Plain C++.
 *
 * x is (sequences, positions, heads, d). A tile is a stretch of positions of one sequence, with all heads or with some
 * heads of one position. Tiles of the same positions follow each other, so that their part of the table is prepared
 * once. Where every sequence has tables of its own, all are one long sequence; where sequences are short and share
 * their tables, a tile takes several of them and the table repeats.
 */
#ifndef MS_ASCEND_OPS_ROTARY_EMBEDDING_TILING_H
#define MS_ASCEND_OPS_ROTARY_EMBEDDING_TILING_H

#include <stdexcept>

#include "primitives/split.h"
#include "rotary_embedding_params.h"

namespace ms_ascend_ops {

struct RotaryEmbeddingTilingData {
    uint64_t positions;  // of all sequences together
    uint64_t seqLength;  // positions of a sequence
    uint64_t sequences;
    uint64_t tableInner;  // table of sequence a: a / tableInner % tables
    uint64_t tables;
    uint64_t tablePeriod;  // positions after which the table repeats within a sequence
    uint64_t units;        // tiles
    uint64_t unitsPerCore;
    uint32_t heads;
    uint32_t tileHeads;
    uint32_t headTiles;
    uint32_t tilePositions;
    uint32_t dim;
    uint32_t half;         // pairs of a head
    uint32_t halfStride;   // half mode: from x1 to x2 in the Unified Buffer
    uint32_t turned;       // elements before the rest, padding included
    uint32_t stride;       // from a head to the next in the Unified Buffer
    uint32_t tableWidth;   // of cos and sin
    uint32_t tableStride;  // from a position's `half` table values to the next in the Unified Buffer
    uint32_t interleave;
};

using RotaryEmbeddingGradTilingData = RotaryEmbeddingTilingData;

namespace rotary {

constexpr uint32_t TILE_BYTES = 32 * 1024;
constexpr uint32_t FIXED_BYTES = 4096;  // rounding of buffers, of two to pairs of runs of 64 floats
constexpr uint32_t MAX_ROWS = 4095;     // of one DataCopyPad

inline LaunchConfig Plan(const TensorDesc& x, const TensorDesc& cos, const TensorDesc& sin, int64_t seqAxis,
                         bool interleave, int64_t rotaryDim, const Platform& platform,
                         RotaryEmbeddingTilingData& tiling)
{
    const auto axis = static_cast<int32_t>(seqAxis < 0 ? seqAxis + x.rank : seqAxis);
    const uint64_t dim = x.LastDim();
    const uint64_t turned = rotaryDim == 0 ? dim : static_cast<uint64_t>(rotaryDim);
    const uint64_t width = cos.LastDim();
    // The function checks this first, unless a dim is not known then.
    if (turned % 2 != 0 || turned > dim || (width != turned && 2 * width != turned)) {
        throw std::invalid_argument("rotary_embedding: cos.shape[-1] must be the rotated size or half of it");
    }
    bool alike = cos.rank == sin.rank;
    for (int32_t i = 0; alike && i < cos.rank; ++i) {
        alike = cos.dims[i] == sin.dims[i];
    }
    if (!alike) {
        throw std::invalid_argument("rotary_embedding: sin.shape must be cos.shape");
    }
    const uint32_t bytes = SizeOf(x.dtype);
    const uint32_t tableBytes = SizeOf(cos.dtype);
    const uint64_t align = BLOCK_BYTES / bytes;
    uint64_t sequences = x.Product(0, axis);
    uint64_t length = x.dims[axis];
    const uint64_t heads = x.Product(axis + 1, x.rank - 1);

    // Leading dims of cos, aligned with those of x before the axis: broadcast ones may only stand outside the others.
    uint64_t tables = 1;
    uint64_t inner = 1;
    for (int32_t i = 1; i <= axis; ++i) {
        const int32_t at = cos.rank - 2 - i;
        const uint64_t tableDim = at >= 0 ? cos.dims[at] : 1;
        const uint64_t xDim = x.dims[axis - i];
        if (tableDim == 1 && tables == 1) {
            inner *= xDim;
        } else if (tableDim != 1) {
            const uint64_t below = x.Product(axis - i + 1, axis);
            if (sequences != 0 && tables * inner != below) {
                throw std::invalid_argument("rotary_embedding: cos may not broadcast between dims that it has");
            }
            tables *= tableDim;
        }
    }
    uint64_t period = length;
    if (tables == sequences) {  // also a single sequence
        length *= sequences;
        period = length;
        sequences = 1;
        tables = 1;
        inner = 1;
    }

    const uint64_t half = turned / 2;
    const uint64_t rest = dim - turned;
    tiling.half = static_cast<uint32_t>(half);
    tiling.halfStride = static_cast<uint32_t>(RoundUp(half, align));
    tiling.turned = interleave ? static_cast<uint32_t>(RoundUp(turned, align)) : 2 * tiling.halfStride;
    tiling.stride = tiling.turned + static_cast<uint32_t>(RoundUp(rest, align));
    tiling.dim = static_cast<uint32_t>(dim);
    tiling.tableWidth = static_cast<uint32_t>(width);
    // Whole blocks of values. Loaded pairs are picked apart and fill whole blocks, too: what is put together again is
    // one run.
    const uint64_t tableAlign = BLOCK_BYTES / tableBytes;
    tiling.tableStride =
        static_cast<uint32_t>(interleave && width != half ? RoundUp(width, tableAlign) / 2 : RoundUp(half, tableAlign));
    tiling.interleave = interleave ? 1 : 0;
    tiling.heads = static_cast<uint32_t>(heads);

    // x and y in two buffers each, one scratch in float; a float copy unless x is float. Interleave: two shifted copies
    // of x in two buffers each, and a scratch of 16 bits unless x is float.
    const uint64_t perElement =
        4 * bytes + 4 + (bytes == 4 ? 0 : 4) + (interleave ? 4 * bytes + (bytes == 4 ? 0 : 2) : 0);
    // cos and sin of a position in float, loaded (interleave: twice as wide, and picked), widened; interleave: two
    // scratches for pairs.
    const uint64_t perPosition =
        tiling.stride * 8ull + tiling.tableStride * (3ull * tableBytes + 4 + (interleave ? 16 : 0));
    const uint64_t ub = platform.ubBytes - FIXED_BYTES;
    const uint64_t perHead = tiling.stride * perElement;
    if (perHead + perPosition > ub) {
        throw std::invalid_argument("rotary_embedding: x.shape[-1] is too large for the Unified Buffer");
    }
    const uint64_t total = sequences * length;
    const uint64_t perRow = heads * perHead + perPosition;
    if (perRow > ub || heads > MAX_ROWS) {
        tiling.tileHeads =
            static_cast<uint32_t>(std::min<uint64_t>({(ub - perPosition) / perHead, heads, uint64_t{MAX_ROWS}}));
        tiling.tilePositions = 1;
    } else {
        const uint64_t fits = std::min<uint64_t>(ub / perRow, MAX_ROWS / heads);
        const uint64_t target = std::max<uint64_t>(1, TILE_BYTES / (heads * tiling.stride * bytes));
        uint64_t most = std::min<uint64_t>(fits, target);
        tiling.tileHeads = tiling.heads;
        if (tables == 1 && length > 0 && length < most && sequences > 1) {
            const uint64_t together = std::min<uint64_t>(most / length, sequences);
            length *= together;
            sequences = CeilDiv(sequences, together);
            inner = sequences;
            most = length;
        }
        tiling.tilePositions = static_cast<uint32_t>(std::max<uint64_t>(1, std::min<uint64_t>(most, length)));
    }
    tiling.positions = total;
    tiling.seqLength = length;
    tiling.sequences = sequences;
    tiling.tableInner = inner;
    tiling.tables = tables;
    tiling.tablePeriod = period;
    tiling.headTiles = static_cast<uint32_t>(CeilDiv(heads, tiling.tileHeads));
    tiling.units = CeilDiv(length, tiling.tilePositions) * sequences * tiling.headTiles;

    LaunchConfig config;
    config.blockDim = CoresFor(tiling.units, 2 * total * heads * dim * bytes, platform);
    tiling.unitsPerCore = CeilDiv(tiling.units, config.blockDim);
    config.blockDim = static_cast<uint32_t>(std::max<uint64_t>(1, CeilDiv(tiling.units, tiling.unitsPerCore)));
    return config;
}

}  // namespace rotary

inline LaunchConfig RotaryEmbeddingTiling(const RotaryEmbeddingParams& params, const Platform& platform,
                                          RotaryEmbeddingTilingData& tiling)
{
    return rotary::Plan(params.x, params.cos, params.sin, params.seq_axis,
                        params.mode == RotaryEmbeddingMode::INTERLEAVE, params.rotary_dim, platform, tiling);
}

inline LaunchConfig RotaryEmbeddingGradTiling(const RotaryEmbeddingGradParams& params, const Platform& platform,
                                              RotaryEmbeddingGradTilingData& tiling)
{
    return rotary::Plan(params.dy, params.cos, params.sin, params.seq_axis,
                        params.mode == RotaryEmbeddingMode::INTERLEAVE, params.rotary_dim, platform, tiling);
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_ROTARY_EMBEDDING_TILING_H
