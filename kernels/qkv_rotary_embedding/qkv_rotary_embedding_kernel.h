/*!
 * Splits one tensor into queries, keys and values in the layout of attention; queries and keys are rotated by the
 * rotary embedding, values copied as they are. The gradient goes the other way and rotates back. Rotations are in
 * float.
 *
 * Plan: a tile is some positions of some heads, which lie n * d elements apart in the packed tensor. Those of q and k
 * are rotated as primitives/rotary_tile.h says, the table of their positions being prepared once for all heads; those
 * of v go through a queue bound from MTE2 to MTE3.
 * Bound: memory (everything once in, once out).
 */
#ifndef MS_ASCEND_OPS_QKV_ROTARY_EMBEDDING_KERNEL_H
#define MS_ASCEND_OPS_QKV_ROTARY_EMBEDDING_KERNEL_H

#include "kernel_operator.h"
#include "primitives/rotary_tile.h"
#include "qkv_rotary_embedding_tiling.h"

namespace ms_ascend_ops {

template <typename T, typename C>
class QkvRotaryEmbedding {
public:
    // `back` means from q, k and v to the packed tensor.
    __aicore__ inline void Init(GM_ADDR qkv, GM_ADDR q, GM_ADDR k, GM_ADDR v, GM_ADDR cos, GM_ADDR sin,
                                const QkvRotaryEmbeddingTilingData& tiling, bool back, AscendC::TPipe& pipe)
    {
        const RotaryTilingData& rotary = tiling.rotary;
        tiling_ = tiling;
        back_ = back;
        heads_ = static_cast<uint64_t>(tiling.qHeads) + tiling.kHeads + tiling.vHeads;
        const uint64_t perHead = rotary.positions * rotary.dim;
        qkvGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(qkv), perHead * heads_);
        qGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(q), perHead * tiling.qHeads);
        kGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(k), perHead * tiling.kHeads);
        vGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(v), perHead * tiling.vHeads);
        pipe.InitBuffer(queueV_, tiling.copyBuffers,
                        rotary.tilePositions * rotary.tileHeads * rotary.stride * sizeof(T));
        rotary_.Init(cos, sin, rotary, back ? -1.0f : 1.0f, pipe);
    }

    __aicore__ inline void Process()
    {
        const RotaryTilingData& rotary = tiling_.rotary;
        const uint64_t first = rotary.tasksPerCore * AscendC::GetBlockIdx();
        const uint64_t last = first + rotary.tasksPerCore < rotary.tasks ? first + rotary.tasksPerCore : rotary.tasks;
        for (uint64_t task = first; task < last; ++task) {
            const uint32_t headTile = static_cast<uint32_t>(task % rotary.headTiles);
            const uint64_t positions = task / rotary.headTiles;
            if (headTile < tiling_.qTiles) {
                Rotate(qGm_, positions, {0, tiling_.qHeads, headTile});
            } else if (headTile < tiling_.qTiles + tiling_.kTiles) {
                Rotate(kGm_, positions, {tiling_.qHeads, tiling_.kHeads, headTile - tiling_.qTiles});
            } else {
                Copy(positions,
                     {tiling_.qHeads + tiling_.kHeads, tiling_.vHeads, headTile - tiling_.qTiles - tiling_.kTiles});
            }
        }
    }

private:
    // Describes one of the tiles of the heads of q, k or v.
    struct Part {
        uint32_t before;  // heads of the packed tensor before those of this one
        uint32_t heads;
        uint32_t tile;
    };

    struct Task {
        HeadTile tile;
        HeadPlace packed;  // in the packed tensor
        HeadPlace single;  // in q, k or v
        uint64_t row;      // of the tables
    };

    __aicore__ inline Task TaskAt(uint64_t positions, const Part& part) const
    {
        const RotaryTilingData& rotary = tiling_.rotary;
        const uint64_t sequence = positions % rotary.sequences;
        const uint64_t start = positions / rotary.sequences * rotary.tilePositions;
        const uint64_t position = sequence * rotary.seqLength + start;
        const uint32_t head = part.tile * rotary.tileHeads;
        const uint32_t headsLeft = part.heads - head;
        uint64_t left = rotary.seqLength - start;
        left = rotary.positions - position < left ? rotary.positions - position : left;
        const uint64_t dim = rotary.dim;
        const uint64_t stride = tiling_.headsFirst != 0 ? rotary.seqLength * dim : dim;
        return {{left < rotary.tilePositions ? static_cast<uint32_t>(left) : rotary.tilePositions,
                 headsLeft < rotary.tileHeads ? headsLeft : rotary.tileHeads},
                {(position * heads_ + part.before + head) * dim, heads_ * dim, dim},
                tiling_.headsFirst != 0 ? HeadPlace{(sequence * part.heads + head) * stride + start * dim, dim, stride}
                                        : HeadPlace{(position * part.heads + head) * dim, part.heads * dim, stride},
                sequence / rotary.tableInner % rotary.tables * rotary.seqLength + start};
    }

    __aicore__ inline void Rotate(const AscendC::GlobalTensor<T>& gm, uint64_t positions, const Part& part)
    {
        const Task task = TaskAt(positions, part);
        const uint64_t perHead = tiling_.rotary.positions * tiling_.rotary.dim;
        if (back_) {
            rotary_.Rotate(gm, perHead * part.heads, task.single, qkvGm_, task.packed, task.tile, task.row);
        } else {
            rotary_.Rotate(qkvGm_, perHead * heads_, task.packed, gm, task.single, task.tile, task.row);
        }
    }

    __aicore__ inline void Copy(uint64_t positions, const Part& part)
    {
        const Task task = TaskAt(positions, part);
        const uint32_t dim = tiling_.rotary.dim;
        constexpr uint32_t PER_BLOCK = AscendC::ONE_BLK_SIZE / sizeof(T);
        // Heads that are no whole blocks come one to a row, or in a single row.
        const uint32_t stride = (task.tile.heads * dim + PER_BLOCK - 1) / PER_BLOCK * PER_BLOCK;
        const HeadCopies packed = WholeHeads(task.packed, task.tile, dim, stride);
        const HeadCopies single = WholeHeads(task.single, task.tile, dim, stride);
        AscendC::LocalTensor<T> local = queueV_.template AllocTensor<T>();
        if (back_) {
            LoadCopies(local, vGm_[task.single.offset], single);
        } else {
            LoadCopies(local, qkvGm_[task.packed.offset], packed);
        }
        queueV_.EnQue(local);
        local = queueV_.template DeQue<T>();
        if (back_) {
            StoreCopies(qkvGm_[task.packed.offset], local, packed);
        } else {
            StoreCopies(vGm_[task.single.offset], local, single);
        }
        queueV_.FreeTensor(local);
    }

    QkvRotaryEmbeddingTilingData tiling_;
    bool back_ = false;
    uint64_t heads_ = 0;
    RotaryTile<T, C> rotary_;
    AscendC::TQueBind<AscendC::TPosition::VECIN, AscendC::TPosition::VECOUT, 1> queueV_;
    AscendC::GlobalTensor<T> qkvGm_;
    AscendC::GlobalTensor<T> qGm_;
    AscendC::GlobalTensor<T> kGm_;
    AscendC::GlobalTensor<T> vGm_;
};

template <typename T, typename C>
__aicore__ inline void QkvRotaryEmbeddingKernel(GM_ADDR qkv, GM_ADDR cos, GM_ADDR sin, GM_ADDR q, GM_ADDR k, GM_ADDR v,
                                                [[maybe_unused]] GM_ADDR workspace,
                                                const QkvRotaryEmbeddingTilingData& tiling)
{
    AscendC::TPipe pipe;
    QkvRotaryEmbedding<T, C> kernel;
    kernel.Init(qkv, q, k, v, cos, sin, tiling, false, pipe);
    kernel.Process();
}

template <typename T, typename C>
__aicore__ inline void QkvRotaryEmbeddingGradKernel(GM_ADDR dq, GM_ADDR dk, GM_ADDR dv, GM_ADDR cos, GM_ADDR sin,
                                                    GM_ADDR dqkv, [[maybe_unused]] GM_ADDR workspace,
                                                    const QkvRotaryEmbeddingGradTilingData& tiling)
{
    AscendC::TPipe pipe;
    QkvRotaryEmbedding<T, C> kernel;
    kernel.Init(dqkv, dq, dk, dv, cos, sin, tiling, true, pipe);
    kernel.Process();
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_QKV_ROTARY_EMBEDDING_KERNEL_H
