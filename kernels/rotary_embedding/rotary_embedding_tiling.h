/*!
 * Calculates the tiling of rotary_embedding and its gradient, in plain C++.
 *
 * x is (sequences, positions, heads, d). A tile is a stretch of positions of one sequence, with all heads or with some
 * heads of one position. Tiles of the same positions follow each other, so that their part of the table is prepared
 * once. Where every sequence has tables of its own, all are one long sequence; where sequences are short and share
 * their tables, a tile takes several of them and the table repeats.
 */
#ifndef MS_ASCEND_OPS_ROTARY_EMBEDDING_TILING_H
#define MS_ASCEND_OPS_ROTARY_EMBEDDING_TILING_H

#include "primitives/rotary_tiling.h"
#include "rotary_embedding_params.h"

namespace ms_ascend_ops {

struct RotaryEmbeddingTilingData {
    RotaryTilingData rotary;
    uint32_t heads;
};

using RotaryEmbeddingGradTilingData = RotaryEmbeddingTilingData;

namespace rotary {

inline LaunchConfig Plan(const TensorDesc& x, const char* name, const TensorDesc& cos, const TensorDesc& sin,
                         int64_t seqAxis, const Pairs& pairs, const Platform& platform, RotaryEmbeddingTilingData& data)
{
    RotaryTilingData& tiling = data.rotary;
    const auto axis = static_cast<int32_t>(seqAxis < 0 ? seqAxis + x.rank : seqAxis);
    const uint64_t dim = x.LastDim();
    Check(x, name, RotaryEmbeddingLimits::HEAD_SIZE, cos, sin, pairs);
    const Need need = Heads(dim, x.dtype, cos, pairs, tiling);
    const uint32_t bytes = SizeOf(x.dtype);
    const uint64_t heads = x.Product(axis + 1, x.rank - 1);
    data.heads = Size32(heads, "the heads of a position");
    const uint64_t length = x.dims[axis];
    Walk walk = {static_cast<uint64_t>(x.Product(0, axis)), length, 1, 1, length};

    // Leading dims of cos, aligned with those of x before the axis: broadcast ones may only stand outside the others.
    for (int32_t i = 1; i <= axis; ++i) {
        const int32_t at = cos.rank - 2 - i;
        const uint64_t tableDim = at >= 0 ? cos.dims[at] : 1;
        const uint64_t xDim = x.dims[axis - i];
        if (tableDim == 1 && walk.tables == 1) {
            walk.tableInner *= xDim;
        } else if (tableDim != 1) {
            const uint64_t below = x.Product(axis - i + 1, axis);
            if (walk.sequences != 0 && walk.tables * walk.tableInner != below) {
                Refuse("cos must not broadcast in a dim between two in which it does not", ShapeText(cos));
            }
            walk.tables *= tableDim;
        }
    }
    walk.Join();

    const uint64_t ub = platform.ubBytes - FIXED_BYTES;
    if (need.perHead + need.perPosition > ub) {
        throw std::invalid_argument(std::string(name) + ".shape[-1] is too large for the Unified Buffer");
    }
    const uint64_t total = walk.sequences * walk.length;
    const uint64_t perRow = heads * need.perHead + need.perPosition;
    if (perRow > ub || heads > MAX_COPY_ROWS) {
        tiling.tileHeads = static_cast<uint32_t>(
            std::min<uint64_t>({(ub - need.perPosition) / need.perHead, heads, uint64_t{MAX_COPY_ROWS}}));
        tiling.tilePositions = 1;
    } else {
        const uint64_t fits = std::min<uint64_t>(ub / perRow, MAX_COPY_ROWS / heads);
        const uint64_t target = std::max<uint64_t>(1, TILE_BYTES / (heads * tiling.stride * bytes));
        const uint64_t most = std::min<uint64_t>(fits, target);
        tiling.tileHeads = data.heads;
        walk.Gather(most);
        tiling.tilePositions = static_cast<uint32_t>(std::max<uint64_t>(1, std::min<uint64_t>(most, walk.length)));
    }
    tiling.headTiles = static_cast<uint32_t>(CeilDiv(heads, tiling.tileHeads));
    return ShareTiles(walk, total, 2 * total * heads * dim * bytes, platform, tiling);
}

}  // namespace rotary

inline LaunchConfig RotaryEmbeddingTiling(const RotaryEmbeddingParams& params, const Platform& platform,
                                          RotaryEmbeddingTilingData& tiling)
{
    return rotary::Plan(params.x, "x", params.cos, params.sin, params.seq_axis,
                        {params.mode == RotaryEmbeddingMode::INTERLEAVE, params.rotary_dim, params.separate_halves},
                        platform, tiling);
}

inline LaunchConfig RotaryEmbeddingGradTiling(const RotaryEmbeddingGradParams& params, const Platform& platform,
                                              RotaryEmbeddingGradTilingData& tiling)
{
    return rotary::Plan(params.dy, "dy", params.cos, params.sin, params.seq_axis,
                        {params.mode == RotaryEmbeddingMode::INTERLEAVE, params.rotary_dim, params.separate_halves},
                        platform, tiling);
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_ROTARY_EMBEDDING_TILING_H
