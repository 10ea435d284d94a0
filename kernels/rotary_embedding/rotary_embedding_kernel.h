/*!
 * Computes the rotary position embedding, y = x * cos + partner(x) * sin, where a pair's first element has -sin; the
 * gradient rotates dy back. Both are in float.
 *
 * Plan: a tile is some positions with all their heads; its part of cos and sin is prepared once and used for every
 * sequence. primitives/rotary_tile.h says how a tile is rotated.
 * Bound: memory (x once, y once; the shifted copies of interleave come out of L2).
 */
#ifndef MS_ASCEND_OPS_ROTARY_EMBEDDING_KERNEL_H
#define MS_ASCEND_OPS_ROTARY_EMBEDDING_KERNEL_H

#include "kernel_operator.h"
#include "primitives/rotary_tile.h"
#include "rotary_embedding_tiling.h"

namespace ms_ascend_ops {

template <typename T, typename C>
class RotaryEmbedding {
public:
    __aicore__ inline void Init(GM_ADDR x, GM_ADDR cos, GM_ADDR sin, GM_ADDR y, const RotaryEmbeddingTilingData& tiling,
                                float direction, AscendC::TPipe& pipe)
    {
        tiling_ = tiling.rotary;
        heads_ = tiling.heads;
        elements_ = tiling_.positions * heads_ * tiling_.dim;
        xGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(x), elements_);
        yGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(y), elements_);
        rotary_.Init(cos, sin, tiling.rotary, direction, pipe);
    }

    __aicore__ inline void Process()
    {
        const uint64_t first = tiling_.tasksPerCore * AscendC::GetBlockIdx();
        const uint64_t last =
            first + tiling_.tasksPerCore < tiling_.tasks ? first + tiling_.tasksPerCore : tiling_.tasks;
        for (uint64_t task = first; task < last; ++task) {
            Rotate(task);
        }
    }

private:
    __aicore__ inline void Rotate(uint64_t task)
    {
        const uint64_t headTile = task % tiling_.headTiles;
        const uint64_t positionTile = task / tiling_.headTiles;
        const uint64_t sequence = positionTile % tiling_.sequences;
        const uint64_t start = positionTile / tiling_.sequences * tiling_.tilePositions;
        const uint64_t position = sequence * tiling_.seqLength + start;
        const uint64_t head = headTile * tiling_.tileHeads;
        const uint64_t headsLeft = heads_ - head;
        uint64_t left = tiling_.seqLength - start;
        left = tiling_.positions - position < left ? tiling_.positions - position : left;
        const HeadTile tile = {left < tiling_.tilePositions ? static_cast<uint32_t>(left) : tiling_.tilePositions,
                               headsLeft < tiling_.tileHeads ? static_cast<uint32_t>(headsLeft) : tiling_.tileHeads};
        const HeadPlace place = {(position * heads_ + head) * tiling_.dim, heads_ * tiling_.dim, tiling_.dim};
        const uint64_t row = sequence / tiling_.tableInner % tiling_.tables * tiling_.seqLength + start;
        rotary_.Rotate(xGm_, elements_, place, yGm_, place, tile, row);
    }

    RotaryTilingData tiling_;
    uint64_t heads_ = 0;
    uint64_t elements_ = 0;
    RotaryTile<T, C> rotary_;
    AscendC::GlobalTensor<T> xGm_;
    AscendC::GlobalTensor<T> yGm_;
};

template <typename T, typename C>
__aicore__ inline void RotaryEmbeddingKernel(GM_ADDR x, GM_ADDR cos, GM_ADDR sin, GM_ADDR y,
                                             [[maybe_unused]] GM_ADDR workspace,
                                             const RotaryEmbeddingTilingData& tiling)
{
    AscendC::TPipe pipe;
    RotaryEmbedding<T, C> kernel;
    kernel.Init(x, cos, sin, y, tiling, 1.0f, pipe);
    kernel.Process();
}

template <typename T, typename C>
__aicore__ inline void RotaryEmbeddingGradKernel(GM_ADDR dy, GM_ADDR cos, GM_ADDR sin, GM_ADDR dx,
                                                 [[maybe_unused]] GM_ADDR workspace,
                                                 const RotaryEmbeddingGradTilingData& tiling)
{
    AscendC::TPipe pipe;
    RotaryEmbedding<T, C> kernel;
    kernel.Init(dy, cos, sin, dx, tiling, -1.0f, pipe);
    kernel.Process();
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_ROTARY_EMBEDDING_KERNEL_H
