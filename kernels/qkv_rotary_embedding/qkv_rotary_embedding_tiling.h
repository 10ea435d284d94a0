/*!
 * Calculates the tiling of qkv_rotary_embedding and its gradient, in plain C++.
 *
 * The packed tensor is (sequences, positions, heads, d), the heads those of q, of k, then of v. A tile is a stretch of
 * positions of one sequence with some heads of one of the three; tiles of the same positions follow each other, so that
 * their part of the table is prepared once. Where q, k and v have their heads in front of the positions, a tile is a
 * stretch of one head, or some whole heads if sequences are short. Where they have not, or a sequence is one position,
 * it has as many heads as fit, and positions run on through sequences as in rotary_embedding.
 */
#ifndef MS_ASCEND_OPS_QKV_ROTARY_EMBEDDING_TILING_H
#define MS_ASCEND_OPS_QKV_ROTARY_EMBEDDING_TILING_H

#include "primitives/rotary_tiling.h"
#include "qkv_rotary_embedding_params.h"

namespace ms_ascend_ops {

struct QkvRotaryEmbeddingTilingData {
    RotaryTilingData rotary;
    uint32_t qHeads;
    uint32_t kHeads;
    uint32_t vHeads;
    uint32_t qTiles;  // of the heads of q at one stretch of positions
    uint32_t kTiles;
    uint32_t headsFirst;   // in q, k and v: before the positions
    uint32_t copyBuffers;  // of v
};

using QkvRotaryEmbeddingGradTilingData = QkvRotaryEmbeddingTilingData;

namespace qkv_rotary {

using rotary::Need;
using rotary::TILE_BYTES;
using rotary::Walk;

// Returns true if the heads of a position follow each other in the Unified Buffer without gaps.
inline bool Packed(const RotaryTilingData& tiling)
{
    return tiling.stride == tiling.dim && (tiling.interleave != 0 || tiling.halfStride == tiling.half);
}

inline void SetHeads(uint64_t q, uint64_t k, uint64_t v, QkvRotaryEmbeddingTilingData& tiling)
{
    for (const uint64_t heads : {q, k, v, q + k + v}) {
        Size32(heads, "the heads of a position");
    }
    tiling.qHeads = static_cast<uint32_t>(q);
    tiling.kHeads = static_cast<uint32_t>(k);
    tiling.vHeads = static_cast<uint32_t>(v);
}

// Plans positions and heads of a tile.
inline void Cut(const Need& need, uint64_t ub, uint32_t bytes, Walk& walk, QkvRotaryEmbeddingTilingData& data)
{
    RotaryTilingData& tiling = data.rotary;
    const uint64_t widest = std::max({data.qHeads, data.kHeads, data.vHeads});
    const uint64_t heads = uint64_t{data.qHeads} + data.kHeads + data.vHeads;
    // Between rows of a copy there are less than 2^32 bytes.
    const bool steps = heads * tiling.dim * bytes <= UINT32_MAX;
    const auto fitting = [&](uint64_t tileHeads) {
        return std::min<uint64_t>(ub / (tileHeads * need.perHead + need.perPosition), MAX_COPY_ROWS / tileHeads);
    };
    const auto wanted = [&](uint64_t count) {
        return std::max<uint64_t>(1, TILE_BYTES / (count * tiling.stride * bytes));
    };
    const uint64_t room = std::min<uint64_t>((ub - need.perPosition) / need.perHead, MAX_COPY_ROWS);
    uint64_t tileHeads = 1;
    uint64_t most = 1;
    if (data.headsFirst == 0) {
        // Heads with gaps between them are those of one head, or of one position.
        const bool one = !Packed(tiling) && walk.sequences * walk.length >= widest && steps;
        tileHeads = one ? 1 : std::min(room, widest);
        const bool whole = one || (Packed(tiling) && tileHeads == widest);
        most = whole && steps ? std::min(fitting(tileHeads), wanted(tileHeads)) : 1;
        walk.Gather(most);
    } else {
        most = steps ? std::min(fitting(1), wanted(1)) : 1;
        // An instruction goes over the whole tile of one head; or, with several, over the heads of a position.
        if (Packed(tiling) && walk.length <= std::min(most, wanted(walk.length))) {
            const uint64_t left = ub - walk.length * need.perPosition;
            tileHeads = std::min<uint64_t>(
                {widest, left / (walk.length * need.perHead), MAX_COPY_ROWS / walk.length, wanted(walk.length)});
        }
    }
    tiling.tileHeads = static_cast<uint32_t>(tileHeads);
    tiling.tilePositions = static_cast<uint32_t>(std::max<uint64_t>(1, std::min<uint64_t>(most, walk.length)));
}

inline LaunchConfig Plan(uint64_t batch, uint64_t length, const TensorDesc& x, const char* name, const TensorDesc& cos,
                         const TensorDesc& sin, bool headsFirst, const rotary::Pairs& pairs, const Platform& platform,
                         QkvRotaryEmbeddingTilingData& data)
{
    RotaryTilingData& tiling = data.rotary;
    rotary::Check(x, name, QkvRotaryEmbeddingLimits::HEAD_SIZE, cos, sin, pairs);
    const uint32_t bytes = SizeOf(x.dtype);
    const uint64_t dim = static_cast<uint64_t>(x.LastDim());
    Need need = rotary::Heads(dim, x.dtype, cos, pairs, tiling);
    // The queues of loaded data have eight buffers in all, of which interleave takes seven to turn heads.
    data.copyBuffers = pairs.interleave ? 1 : 2;
    need.perHead += static_cast<uint64_t>(data.copyBuffers) * bytes * tiling.stride;
    const uint64_t ub = platform.ubBytes - rotary::FIXED_BYTES;
    if (need.perHead + need.perPosition > ub) {
        throw std::invalid_argument("the heads are too large for the Unified Buffer");
    }
    const uint64_t tables = cos.rank > 2 ? cos.dims[0] : 1;
    Walk walk = {batch, length, tables, tables == 1 ? batch : 1, length};
    data.headsFirst = headsFirst && length > 1 ? 1 : 0;
    if (data.headsFirst == 0) {
        walk.Join();
    }
    Cut(need, ub, bytes, walk, data);
    const uint64_t heads = uint64_t{data.qHeads} + data.kHeads + data.vHeads;
    data.qTiles = static_cast<uint32_t>(CeilDiv(data.qHeads, tiling.tileHeads));
    data.kTiles = static_cast<uint32_t>(CeilDiv(data.kHeads, tiling.tileHeads));
    tiling.headTiles = data.qTiles + data.kTiles + static_cast<uint32_t>(CeilDiv(data.vHeads, tiling.tileHeads));
    return rotary::ShareTiles(walk, batch * length, 2 * batch * length * heads * dim * bytes, platform, tiling);
}

}  // namespace qkv_rotary

inline LaunchConfig QkvRotaryEmbeddingTiling(const QkvRotaryEmbeddingParams& params, const Platform& platform,
                                             QkvRotaryEmbeddingTilingData& tiling)
{
    qkv_rotary::SetHeads(params.q_heads, params.k_heads, params.v_heads, tiling);
    const TensorDesc& qkv = params.qkv;
    return qkv_rotary::Plan(
        qkv.dims[0], qkv.dims[1], qkv, "qkv", params.cos, params.sin, params.layout == QkvRotaryEmbeddingLayout::BNSD,
        {params.mode == QkvRotaryEmbeddingMode::INTERLEAVE, params.rotary_dim, params.separate_halves}, platform,
        tiling);
}

inline LaunchConfig QkvRotaryEmbeddingGradTiling(const QkvRotaryEmbeddingGradParams& params, const Platform& platform,
                                                 QkvRotaryEmbeddingGradTilingData& tiling)
{
    qkv_rotary::SetHeads(params.q_heads, params.k_heads, params.v_heads, tiling);
    const TensorDesc& dq = params.dq;
    const bool headsFirst = params.layout == QkvRotaryEmbeddingLayout::BNSD;
    return qkv_rotary::Plan(
        dq.dims[0], dq.dims[headsFirst ? 2 : 1], dq, "dq", params.cos, params.sin, headsFirst,
        {params.mode == QkvRotaryEmbeddingMode::INTERLEAVE, params.rotary_dim, params.separate_halves}, platform,
        tiling);
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_QKV_ROTARY_EMBEDDING_TILING_H
