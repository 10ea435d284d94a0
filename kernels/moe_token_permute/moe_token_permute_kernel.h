/*!
 * Copies tokens into the order of their experts: a counting sort, stable, so that the tokens of an expert keep their
 * order. With an expert that there is not, the kernel stops before anything is written.
 *
 * Plan: a core counts the experts of its tokens, and leaves the counts in the workspace. Once all have, it adds up
 * those of all cores, expert by expert, and of the cores before it: where each of its tokens goes follows. Then it
 * takes its tokens, several to a tile through one queue bound from MTE2 to MTE3, and stores each once for every expert.
 * Numbers of experts are read one by one: counting has no vector instruction.
 * Bound: memory (tokens once in, out once for each expert of theirs).
 */
#ifndef MS_ASCEND_OPS_MOE_TOKEN_PERMUTE_KERNEL_H
#define MS_ASCEND_OPS_MOE_TOKEN_PERMUTE_KERNEL_H

#include "kernel_operator.h"
#include "moe_token_permute_tiling.h"
#include "primitives/core_share.h"
#include "primitives/expert_entries.h"
#include "primitives/tile.h"

namespace ms_ascend_ops {

template <typename T>
class MoeTokenPermute {
public:
    __aicore__ inline void Init(GM_ADDR tokens, GM_ADDR indices, GM_ADDR permuted, GM_ADDR sortedIndices,
                                GM_ADDR groupList, GM_ADDR workspace, const MoeTokenPermuteTilingData& tiling,
                                AscendC::TPipe& pipe)
    {
        tiling_ = tiling;
        pipe_ = &pipe;
        const uint64_t entries = static_cast<uint64_t>(tiling.tokens) * tiling.chosen;
        tokenGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(tokens), tiling.tokens * uint64_t{tiling.hidden});
        indexGm_.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t*>(indices), entries);
        permutedGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(permuted), entries * tiling.hidden);
        sortedGm_.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t*>(sortedIndices), entries);
        groupGm_.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t*>(groupList), tiling.experts);
        countGm_.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t*>(workspace), tiling.cores * tiling.countStride);
        pipe.InitBuffer(queue_, 2, tiling.tileTokens * tiling.tileStride * sizeof(T));
        pipe.InitBuffer(outQueueSorted_, 2, MOST_ENTRIES * sizeof(int32_t));
        pipe.InitBuffer(inQueueCounts_, 1, tiling.countStride * sizeof(int32_t));
        pipe.InitBuffer(outQueueCounts_, 1, tiling.countStride * sizeof(int32_t));
        pipe.InitBuffer(sumBuf_, 2 * tiling.countStride * sizeof(int32_t));
        const uint64_t first = static_cast<uint64_t>(tiling.tokensPerCore) * AscendC::GetBlockIdx();
        const uint64_t last = first + tiling.tokensPerCore;
        first_ = first < tiling.tokens ? static_cast<uint32_t>(first) : tiling.tokens;
        last_ = last < tiling.tokens ? static_cast<uint32_t>(last) : tiling.tokens;
    }

    // next_[expert]: how many of this core's tokens it has.
    __aicore__ inline void Count()
    {
        for (uint32_t expert = 0; expert < tiling_.experts; ++expert) {
            next_[expert] = 0;
        }
        const uint64_t end = static_cast<uint64_t>(last_) * tiling_.chosen;
        for (uint64_t entry = static_cast<uint64_t>(first_) * tiling_.chosen; entry < end; ++entry) {
            const int32_t expert = indexGm_.GetValue(entry);
            if (expert < 0 || static_cast<uint32_t>(expert) >= tiling_.experts) {
                AscendC::Trap();
            }
            ++next_[expert];
        }
    }

    // next_[expert]: where the first of this core's tokens goes.
    __aicore__ inline void Place()
    {
        if (tiling_.cores == 1) {
            int32_t end = 0;
            AscendC::LocalTensor<int32_t> ends = outQueueCounts_.template AllocTensor<int32_t>();
            for (uint32_t expert = 0; expert < tiling_.experts; ++expert) {
                const int32_t begin = end;
                end += next_[expert];
                next_[expert] = begin;
                ends.SetValue(expert, end);
            }
            StoreCounts(groupGm_, ends);
            return;
        }
        AscendC::LocalTensor<int32_t> counts = outQueueCounts_.template AllocTensor<int32_t>();
        for (uint32_t expert = 0; expert < tiling_.experts; ++expert) {
            counts.SetValue(expert, next_[expert]);
        }
        const uint32_t core = static_cast<uint32_t>(AscendC::GetBlockIdx());
        StoreCounts(countGm_[core * tiling_.countStride], counts);
        AscendC::SyncAll();
        AddUp(core);
        const AscendC::LocalTensor<int32_t> all = sumBuf_.template Get<int32_t>();
        const AscendC::LocalTensor<int32_t> before = all[tiling_.countStride];
        int32_t end = 0;
        for (uint32_t expert = 0; expert < tiling_.experts; ++expert) {
            next_[expert] = end + before.GetValue(expert);
            end += all.GetValue(expert);
            ends_[expert] = end;
        }
        if (core == 0) {
            counts = outQueueCounts_.template AllocTensor<int32_t>();
            for (uint32_t expert = 0; expert < tiling_.experts; ++expert) {
                counts.SetValue(expert, ends_[expert]);
            }
            StoreCounts(groupGm_, counts);
        }
    }

    __aicore__ inline void Copy()
    {
        const AscendC::TEventID stored = pipe_->template AllocEventID<AscendC::HardEvent::MTE3_S>();
        for (uint32_t token = first_; token < last_; token += tiling_.tileTokens) {
            const uint32_t count = last_ - token < tiling_.tileTokens ? last_ - token : tiling_.tileTokens;
            const uint32_t entries = count * tiling_.chosen;
            const uint64_t entry = static_cast<uint64_t>(token) * tiling_.chosen;
            AscendC::LocalTensor<int32_t> places = outQueueSorted_.template AllocTensor<int32_t>();
            if (token > first_) {  // the queue makes the vector unit wait for its stores, not the scalar unit
                AscendC::WaitFlag<AscendC::HardEvent::MTE3_S>(stored);
            }
            for (uint32_t i = 0; i < entries; ++i) {
                places_[i] = next_[indexGm_.GetValue(entry + i)]++;
                places.SetValue(i, places_[i]);
            }
            WaitForPipe<AscendC::HardEvent::S_MTE3>(*pipe_);
            StoreQueued(outQueueSorted_, sortedGm_[entry], places, {1, entries, entries, entries});
            AscendC::SetFlag<AscendC::HardEvent::MTE3_S>(stored);
            for (uint32_t col = 0; col < tiling_.hidden; col += tiling_.tileCols) {
                CopyTile(token, count, col);
            }
        }
        if (first_ < last_) {
            AscendC::WaitFlag<AscendC::HardEvent::MTE3_S>(stored);
        }
        pipe_->template ReleaseEventID<AscendC::HardEvent::MTE3_S>(stored);
    }

private:
    __aicore__ inline void StoreCounts(const AscendC::GlobalTensor<int32_t>& dst, AscendC::LocalTensor<int32_t>& counts)
    {
        WaitForPipe<AscendC::HardEvent::S_MTE3>(*pipe_);
        StoreQueued(outQueueCounts_, dst, counts, {1, tiling_.experts, tiling_.countStride, tiling_.experts});
    }

    // Adds up the counts of all cores, and those of the cores before this one.
    __aicore__ inline void AddUp(uint32_t core)
    {
        const int32_t experts = static_cast<int32_t>(tiling_.experts);
        const AscendC::LocalTensor<int32_t> all = sumBuf_.template Get<int32_t>();
        const AscendC::LocalTensor<int32_t> before = all[tiling_.countStride];
        AscendC::Duplicate(all, 0, static_cast<int32_t>(2 * tiling_.countStride));
        for (uint32_t other = 0; other < tiling_.cores; ++other) {
            AscendC::LocalTensor<int32_t> counts = inQueueCounts_.template AllocTensor<int32_t>();
            LoadRows(counts, countGm_[other * tiling_.countStride],
                     {1, tiling_.experts, tiling_.countStride, tiling_.experts});
            inQueueCounts_.EnQue(counts);
            counts = inQueueCounts_.template DeQue<int32_t>();
            AscendC::Add(all, all, counts, experts);
            if (other < core) {
                AscendC::Add(before, before, counts, experts);
            }
            inQueueCounts_.FreeTensor(counts);
        }
        WaitForPipe<AscendC::HardEvent::V_S>(*pipe_);
    }

    __aicore__ inline void CopyTile(uint32_t token, uint32_t count, uint32_t col)
    {
        const uint32_t left = tiling_.hidden - col;
        const uint32_t cols = left < tiling_.tileCols ? left : tiling_.tileCols;
        AscendC::LocalTensor<T> local = queue_.template AllocTensor<T>();
        LoadRows(local, tokenGm_[static_cast<uint64_t>(token) * tiling_.hidden + col],
                 {count, cols, tiling_.tileStride, tiling_.hidden});
        queue_.EnQue(local);
        local = queue_.template DeQue<T>();
        for (uint32_t i = 0; i < count; ++i) {
            for (uint32_t j = 0; j < tiling_.chosen; ++j) {
                const uint64_t row = static_cast<uint64_t>(places_[i * tiling_.chosen + j]);
                StoreRows(permutedGm_[row * tiling_.hidden + col], local[i * tiling_.tileStride],
                          {1, cols, tiling_.tileStride, cols});
            }
        }
        queue_.FreeTensor(local);
    }

    MoeTokenPermuteTilingData tiling_;
    AscendC::TPipe* pipe_ = nullptr;
    uint32_t first_ = 0;
    uint32_t last_ = 0;
    int32_t next_[MOST_EXPERTS];
    int32_t ends_[MOST_EXPERTS];
    int32_t places_[MOST_ENTRIES];
    AscendC::GlobalTensor<T> tokenGm_;
    AscendC::GlobalTensor<int32_t> indexGm_;
    AscendC::GlobalTensor<T> permutedGm_;
    AscendC::GlobalTensor<int32_t> sortedGm_;
    AscendC::GlobalTensor<int32_t> groupGm_;
    AscendC::GlobalTensor<int32_t> countGm_;
    AscendC::TQueBind<AscendC::TPosition::VECIN, AscendC::TPosition::VECOUT, 1> queue_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> outQueueSorted_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueueCounts_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> outQueueCounts_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> sumBuf_;
};

template <typename T>
__aicore__ inline void MoeTokenPermuteKernel(GM_ADDR tokens, GM_ADDR indices, GM_ADDR permuted, GM_ADDR sortedIndices,
                                             GM_ADDR groupList, GM_ADDR workspace,
                                             const MoeTokenPermuteTilingData& tiling)
{
    AscendC::TPipe pipe;
    MoeTokenPermute<T> kernel;
    kernel.Init(tokens, indices, permuted, sortedIndices, groupList, workspace, tiling, pipe);
    kernel.Count();
    kernel.Place();
    kernel.Copy();
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_MOE_TOKEN_PERMUTE_KERNEL_H
