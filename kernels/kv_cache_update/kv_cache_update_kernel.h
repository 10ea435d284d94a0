/*!
 * Writes the keys and values of new tokens to their slots in a cache, in place. Negative slots are skipped; with a slot
 * beyond the cache the kernel stops before anything is written.
 *
 * Plan: every core first looks at all slots with vector instructions, so that no core writes if one slot is wrong. Then
 * it takes its tokens, several to a tile through one queue bound from MTE2 to MTE3, and stores each to its slot.
 * Bound: memory (new keys and values once in, once out); the rest of the cache is not touched.
 */
#ifndef MS_ASCEND_OPS_KV_CACHE_UPDATE_KERNEL_H
#define MS_ASCEND_OPS_KV_CACHE_UPDATE_KERNEL_H

#include "kernel_operator.h"
#include "kv_cache_update_tiling.h"
#include "primitives/core_share.h"
#include "primitives/rows.h"
#include "primitives/tile.h"

namespace ms_ascend_ops {

template <typename T>
class KvCacheUpdate {
public:
    __aicore__ inline void Init(GM_ADDR slotMapping, GM_ADDR status, const KvCacheUpdateTilingData& tiling,
                                AscendC::TPipe& pipe)
    {
        tiling_ = tiling;
        slotGm_.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t*>(slotMapping), tiling.tokens);
        statusGm_.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t*>(status), 1);
        pipe.InitBuffer(queue_, 2, tiling.tileSize * sizeof(T));
        pipe.InitBuffer(inQueueSlots_, 2, tiling.checkCount * sizeof(int32_t));
        pipe.InitBuffer(outQueueStatus_, 1, AscendC::ONE_BLK_SIZE);
        pipe.InitBuffer(intBuf_, tiling.checkCount * sizeof(int32_t));
        pipe.InitBuffer(floatBuf_, tiling.checkCount * sizeof(float));
        pipe.InitBuffer(laneBuf_, FLOAT_LANES * sizeof(float) + AscendC::ONE_BLK_SIZE);
        pipe_ = &pipe;
    }

    // Is every slot below the number of slots?
    __aicore__ inline bool SlotsFit()
    {
        const AscendC::LocalTensor<float> lanes = laneBuf_.template Get<float>();
        const AscendC::LocalTensor<int32_t> ints = intBuf_.template Get<int32_t>();
        const AscendC::LocalTensor<float> floats = floatBuf_.template Get<float>();
        AscendC::Duplicate(lanes, 0.0f, static_cast<int32_t>(FLOAT_LANES));
        for (uint32_t token = 0; token < tiling_.tokens; token += tiling_.checkCount) {
            const uint32_t left = tiling_.tokens - token;
            const uint32_t count = left < tiling_.checkCount ? left : tiling_.checkCount;
            AscendC::LocalTensor<int32_t> slots = inQueueSlots_.template AllocTensor<int32_t>();
            LoadRows(slots, slotGm_[token], {1, count, tiling_.checkCount, count});
            inQueueSlots_.EnQue(slots);
            slots = inQueueSlots_.template DeQue<int32_t>();
            AscendC::Maxs(ints, slots, -1, static_cast<int32_t>(count));  // so that the Adds cannot wrap
            AscendC::Adds(ints, ints, 1 - tiling_.slots, static_cast<int32_t>(count));
            AscendC::Cast(floats, ints, AscendC::RoundMode::CAST_RINT, count);
            FoldLanes<MaxOf>(lanes, floats, {1, count, tiling_.checkCount});
            inQueueSlots_.FreeTensor(slots);
        }
        const AscendC::LocalTensor<float> most = lanes[FLOAT_LANES];
        AscendC::WholeReduceMax(most, lanes, static_cast<int32_t>(FLOAT_LANES), 1, 1, 1, 8,
                                AscendC::ReduceOrder::ORDER_ONLY_VALUE);
        WaitForPipe<AscendC::HardEvent::V_S>(*pipe_);
        return most.GetValue(0) <= 0.0f;
    }

    // Copies this core's tokens of one tensor, `size` elements each.
    __aicore__ inline void Write(GM_ADDR cache, GM_ADDR source, uint32_t size)
    {
        AscendC::GlobalTensor<T> cacheGm;
        AscendC::GlobalTensor<T> sourceGm;
        cacheGm.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(cache));
        sourceGm.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(source));
        constexpr uint32_t PER_BLOCK = AscendC::ONE_BLK_SIZE / sizeof(T);
        const uint32_t stride = (size + PER_BLOCK - 1) / PER_BLOCK * PER_BLOCK;
        const uint32_t first = tiling_.tokensPerCore * static_cast<uint32_t>(AscendC::GetBlockIdx());
        const uint32_t last =
            first + tiling_.tokensPerCore < tiling_.tokens ? first + tiling_.tokensPerCore : tiling_.tokens;
        if (stride > tiling_.tileSize) {
            for (uint32_t token = first; token < last; ++token) {
                WritePieces(cacheGm, sourceGm, token, size);
            }
            return;
        }
        const uint32_t tileTokens = size == 0 ? 0 : tiling_.tileSize / stride;
        for (uint32_t token = first; token < last && tileTokens > 0; token += tileTokens) {
            const uint32_t count = last - token < tileTokens ? last - token : tileTokens;
            AscendC::LocalTensor<T> local = queue_.template AllocTensor<T>();
            LoadRows(local, sourceGm[static_cast<uint64_t>(token) * size], {count, size, stride, size});
            queue_.EnQue(local);
            local = queue_.template DeQue<T>();
            for (uint32_t i = 0; i < count; ++i) {
                const int32_t slot = slotGm_.GetValue(token + i);
                if (slot >= 0) {
                    StoreRows(cacheGm[static_cast<uint64_t>(slot) * size], local[i * stride], {1, size, stride, size});
                }
            }
            queue_.FreeTensor(local);
        }
    }

    __aicore__ inline void Finish()
    {
        if (AscendC::GetBlockIdx() != 0) {
            return;
        }
        AscendC::LocalTensor<int32_t> status = outQueueStatus_.template AllocTensor<int32_t>();
        AscendC::Duplicate(status, 0, static_cast<int32_t>(FLOATS_PER_BLOCK));
        StoreQueued(outQueueStatus_, statusGm_, status, {1, 1, FLOATS_PER_BLOCK, 1});
    }

private:
    __aicore__ inline void WritePieces(const AscendC::GlobalTensor<T>& cacheGm,
                                       const AscendC::GlobalTensor<T>& sourceGm, uint32_t token, uint32_t size)
    {
        const int32_t slot = slotGm_.GetValue(token);
        if (slot < 0) {
            return;
        }
        for (uint32_t at = 0; at < size; at += tiling_.tileSize) {
            const uint32_t count = size - at < tiling_.tileSize ? size - at : tiling_.tileSize;
            const Rows shape{1, count, tiling_.tileSize, count};
            AscendC::LocalTensor<T> local = queue_.template AllocTensor<T>();
            LoadRows(local, sourceGm[static_cast<uint64_t>(token) * size + at], shape);
            StoreQueued(queue_, cacheGm[static_cast<uint64_t>(slot) * size + at], local, shape);
        }
    }

    KvCacheUpdateTilingData tiling_;
    AscendC::TPipe* pipe_ = nullptr;
    AscendC::GlobalTensor<int32_t> slotGm_;
    AscendC::GlobalTensor<int32_t> statusGm_;
    AscendC::TQueBind<AscendC::TPosition::VECIN, AscendC::TPosition::VECOUT, 1> queue_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueueSlots_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> outQueueStatus_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> intBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> floatBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> laneBuf_;
};

template <typename T>
__aicore__ inline void KvCacheUpdateKernel(GM_ADDR key, GM_ADDR value, GM_ADDR keyCache, GM_ADDR valueCache,
                                           GM_ADDR slotMapping, GM_ADDR status, [[maybe_unused]] GM_ADDR workspace,
                                           const KvCacheUpdateTilingData& tiling)
{
    AscendC::TPipe pipe;
    KvCacheUpdate<T> kernel;
    kernel.Init(slotMapping, status, tiling, pipe);
    if (!kernel.SlotsFit()) {
        AscendC::Trap();
    }
    kernel.Write(keyCache, key, tiling.keySize);
    kernel.Write(valueCache, value, tiling.valueSize);
    kernel.Finish();
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_KV_CACHE_UPDATE_KERNEL_H
