/*!
 * Computes the weighted sum of the rows that belong to a token, and its gradient, in float, expert by expert in their
 * order. With a row that there is not, the kernel stops before it reads anything by it.
 *
 * Plan: places and weights of some tokens are read together; the weights are spread over a block each. Then every token
 * is taken by itself, in stretches of columns: a row of each expert is loaded, multiplied and added up. The gradient
 * loads a stretch of dtokens once for all experts, and folds the products for the weights to 64 lanes an expert.
 * Bound: memory (every row once; in the gradient in and out).
 */
#ifndef MS_ASCEND_OPS_MOE_TOKEN_UNPERMUTE_KERNEL_H
#define MS_ASCEND_OPS_MOE_TOKEN_UNPERMUTE_KERNEL_H

#include "kernel_operator.h"
#include "moe_token_unpermute_tiling.h"
#include "primitives/expert_entries.h"
#include "primitives/rows.h"
#include "primitives/tile.h"

namespace ms_ascend_ops {

// Loads places and weights of the tokens of a chunk.
template <typename P>
class TokenRows {
public:
    __aicore__ inline void Init(GM_ADDR sortedIndices, GM_ADDR probs, const MoeTokenUnpermuteTilingData& tiling,
                                AscendC::TPipe& pipe)
    {
        entries_ = static_cast<uint64_t>(tiling.tokens) * tiling.chosen;
        hasProbs_ = tiling.hasProbs != 0;
        sortedGm_.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t*>(sortedIndices), entries_);
        if (!hasProbs_) {
            return;
        }
        probGm_.SetGlobalBuffer(reinterpret_cast<__gm__ P*>(probs), entries_);
        pipe.InitBuffer(inQueueProbs_, 1, MOST_ENTRIES * sizeof(P));
        pipe.InitBuffer(floatBuf_, MOST_ENTRIES * sizeof(float));
        pipe.InitBuffer(blockBuf_, MOST_ENTRIES * AscendC::ONE_BLK_SIZE);
        blocks_ = blockBuf_.template Get<float>();
        // Brcb reads whole blocks.
        AscendC::Duplicate(floatBuf_.template Get<float>(), 0.0f, static_cast<int32_t>(MOST_ENTRIES));
    }

    __aicore__ inline void Load(uint64_t entry, uint32_t count)
    {
        for (uint32_t i = 0; i < count; ++i) {
            const int32_t place = sortedGm_.GetValue(entry + i);
            if (place < 0 || static_cast<uint64_t>(place) >= entries_) {
                AscendC::Trap();
            }
            places_[i] = place;
        }
        if (!hasProbs_) {
            return;
        }
        AscendC::LocalTensor<P> probs = inQueueProbs_.template AllocTensor<P>();
        LoadRows(probs, probGm_[entry], {1, count, count, count});
        inQueueProbs_.EnQue(probs);
        probs = inQueueProbs_.template DeQue<P>();
        const AscendC::LocalTensor<float> floats = floatBuf_.template Get<float>();
        if constexpr (IS_FLOAT<P>) {
            AscendC::Muls(floats, probs, 1.0f, static_cast<int32_t>(count));  // a copy
        } else {
            AscendC::Cast(floats, probs, AscendC::RoundMode::CAST_NONE, count);
        }
        inQueueProbs_.FreeTensor(probs);
        BroadcastRows(blocks_, floats, count);
    }

    __aicore__ inline uint64_t PlaceOf(uint32_t i) const { return static_cast<uint64_t>(places_[i]); }

    // Sets dst to src times the weight; without weights it is a copy.
    __aicore__ inline void Weigh(const AscendC::LocalTensor<float>& dst, const AscendC::LocalTensor<float>& src,
                                 uint32_t i, uint32_t cols) const
    {
        if (hasProbs_) {
            MulOf::Counter(dst, src, blocks_[i * FLOATS_PER_BLOCK], cols, {1, 1, 0, 8, 8, 0});
        } else {
            AscendC::Muls(dst, src, 1.0f, static_cast<int32_t>(cols));
        }
    }

private:
    bool hasProbs_ = false;
    uint64_t entries_ = 0;
    int32_t places_[MOST_ENTRIES];
    AscendC::GlobalTensor<int32_t> sortedGm_;
    AscendC::GlobalTensor<P> probGm_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueueProbs_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> floatBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> blockBuf_;
    AscendC::LocalTensor<float> blocks_;
};

// A core takes the tokens from `first` to `last` in chunks of `step`.
struct TokenChunks {
    uint32_t first;
    uint32_t last;
    uint32_t step;

    __aicore__ inline uint32_t CountAt(uint32_t token) const { return last - token < step ? last - token : step; }
};

__aicore__ inline TokenChunks ChunksOf(const MoeTokenUnpermuteTilingData& tiling)
{
    const uint64_t first = static_cast<uint64_t>(tiling.tokensPerCore) * AscendC::GetBlockIdx();
    const uint64_t last = first + tiling.tokensPerCore;
    return {first < tiling.tokens ? static_cast<uint32_t>(first) : tiling.tokens,
            last < tiling.tokens ? static_cast<uint32_t>(last) : tiling.tokens, MOST_ENTRIES / tiling.chosen};
}

template <class QUEUE, typename T>
__aicore__ inline AscendC::LocalTensor<T> LoadStretch(QUEUE& queue, const AscendC::GlobalTensor<T>& src, uint32_t cols)
{
    AscendC::LocalTensor<T> local = queue.template AllocTensor<T>();
    LoadRows(local, src, {1, cols, cols, cols});
    queue.EnQue(local);
    return queue.template DeQue<T>();
}

template <typename T, typename P>
class MoeTokenUnpermute {
public:
    __aicore__ inline void Init(GM_ADDR permuted, GM_ADDR sortedIndices, GM_ADDR probs, GM_ADDR tokens,
                                const MoeTokenUnpermuteTilingData& tiling, AscendC::TPipe& pipe)
    {
        tiling_ = tiling;
        const uint64_t elements = static_cast<uint64_t>(tiling.tokens) * tiling.hidden;
        permutedGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(permuted), elements * tiling.chosen);
        tokenGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(tokens), elements);
        rows_.Init(sortedIndices, probs, tiling, pipe);
        pipe.InitBuffer(inQueueRow_, 2, tiling.tileCols * sizeof(T));
        pipe.InitBuffer(outQueueToken_, 2, tiling.tileCols * sizeof(T));
        pipe.InitBuffer(workBuf_, 3 * tiling.tileCols * sizeof(float));
        work_ = workBuf_.template Get<float>();
    }

    __aicore__ inline void Process()
    {
        const TokenChunks chunks = ChunksOf(tiling_);
        for (uint32_t token = chunks.first; token < chunks.last; token += chunks.step) {
            const uint32_t count = chunks.CountAt(token);
            rows_.Load(static_cast<uint64_t>(token) * tiling_.chosen, count * tiling_.chosen);
            for (uint32_t i = 0; i < count; ++i) {
                for (uint32_t col = 0; col < tiling_.hidden; col += tiling_.tileCols) {
                    AddUp(token + i, i * tiling_.chosen, col);
                }
            }
        }
    }

private:
    __aicore__ inline void AddUp(uint32_t token, uint32_t entry, uint32_t col)
    {
        const uint32_t left = tiling_.hidden - col;
        const uint32_t cols = left < tiling_.tileCols ? left : tiling_.tileCols;
        AscendC::LocalTensor<T> out = outQueueToken_.template AllocTensor<T>();
        const AscendC::LocalTensor<float> sum = FloatTarget(out, work_);
        const AscendC::LocalTensor<float> product = work_[tiling_.tileCols];
        for (uint32_t j = 0; j < tiling_.chosen; ++j) {
            AscendC::LocalTensor<T> row =
                LoadStretch(inQueueRow_, permutedGm_[rows_.PlaceOf(entry + j) * tiling_.hidden + col], cols);
            const AscendC::LocalTensor<float> floats = ToFloat(row, work_[2 * tiling_.tileCols], cols);
            rows_.Weigh(j == 0 ? sum : product, floats, entry + j, cols);
            if (j != 0) {
                AscendC::Add(sum, sum, product, static_cast<int32_t>(cols));
            }
            inQueueRow_.FreeTensor(row);
        }
        FromFloat(out, sum, cols);
        StoreQueued(outQueueToken_, tokenGm_[static_cast<uint64_t>(token) * tiling_.hidden + col], out,
                    {1, cols, cols, cols});
    }

    MoeTokenUnpermuteTilingData tiling_;
    AscendC::GlobalTensor<T> permutedGm_;
    AscendC::GlobalTensor<T> tokenGm_;
    TokenRows<P> rows_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueueRow_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> outQueueToken_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> workBuf_;
    AscendC::LocalTensor<float> work_;
};

template <typename T, typename P>
class MoeTokenUnpermuteGrad {
public:
    __aicore__ inline void Init(GM_ADDR dtokens, GM_ADDR permuted, GM_ADDR sortedIndices, GM_ADDR probs,
                                GM_ADDR dpermuted, GM_ADDR dprobs, const MoeTokenUnpermuteTilingData& tiling,
                                AscendC::TPipe& pipe)
    {
        tiling_ = tiling;
        const uint64_t elements = static_cast<uint64_t>(tiling.tokens) * tiling.hidden;
        dtokenGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(dtokens), elements);
        permutedGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(permuted), elements * tiling.chosen);
        dpermutedGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(dpermuted), elements * tiling.chosen);
        dprobGm_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(dprobs),
                                 static_cast<uint64_t>(tiling.tokens) * tiling.chosen);
        rows_.Init(sortedIndices, probs, tiling, pipe);
        pipe.InitBuffer(inQueueToken_, 2, tiling.tileCols * sizeof(T));
        pipe.InitBuffer(inQueueRow_, 2, tiling.tileCols * sizeof(T));
        pipe.InitBuffer(outQueueRow_, 2, tiling.tileCols * sizeof(T));
        pipe.InitBuffer(outQueueProbs_, 1, MOST_ENTRIES * sizeof(float));
        pipe.InitBuffer(workBuf_, 3 * tiling.tileCols * sizeof(float));
        pipe.InitBuffer(laneBuf_, tiling.chosen * FLOAT_LANES * sizeof(float));
        work_ = workBuf_.template Get<float>();
        lanes_ = laneBuf_.template Get<float>();
    }

    __aicore__ inline void Process()
    {
        const TokenChunks chunks = ChunksOf(tiling_);
        for (uint32_t token = chunks.first; token < chunks.last; token += chunks.step) {
            const uint32_t count = chunks.CountAt(token);
            const uint32_t entries = count * tiling_.chosen;
            const uint64_t entry = static_cast<uint64_t>(token) * tiling_.chosen;
            rows_.Load(entry, entries);
            AscendC::LocalTensor<float> dprobs = outQueueProbs_.template AllocTensor<float>();
            for (uint32_t i = 0; i < count; ++i) {
                AscendC::Duplicate(lanes_, 0.0f, static_cast<int32_t>(tiling_.chosen * FLOAT_LANES));
                for (uint32_t col = 0; col < tiling_.hidden; col += tiling_.tileCols) {
                    Multiply(token + i, i * tiling_.chosen, col);
                }
                for (uint32_t j = 0; j < tiling_.chosen; j += MOST_REPEATS) {
                    const uint32_t left = tiling_.chosen - j;
                    ReduceRepeats<AddOf>(dprobs[i * tiling_.chosen + j], lanes_[j * FLOAT_LANES], FLOAT_LANES,
                                         left < MOST_REPEATS ? left : MOST_REPEATS, FLOAT_LANES);
                }
            }
            StoreQueued(outQueueProbs_, dprobGm_[entry], dprobs, {1, entries, entries, entries});
        }
    }

private:
    static constexpr uint32_t MOST_REPEATS = 128;

    __aicore__ inline void Multiply(uint32_t token, uint32_t entry, uint32_t col)
    {
        const uint32_t left = tiling_.hidden - col;
        const uint32_t cols = left < tiling_.tileCols ? left : tiling_.tileCols;
        AscendC::LocalTensor<T> dtoken =
            LoadStretch(inQueueToken_, dtokenGm_[static_cast<uint64_t>(token) * tiling_.hidden + col], cols);
        const AscendC::LocalTensor<float> dfloats = ToFloat(dtoken, work_, cols);
        const AscendC::LocalTensor<float> product = work_[tiling_.tileCols];
        for (uint32_t j = 0; j < tiling_.chosen; ++j) {
            const uint64_t place = rows_.PlaceOf(entry + j) * tiling_.hidden + col;
            AscendC::LocalTensor<T> row = LoadStretch(inQueueRow_, permutedGm_[place], cols);
            const AscendC::LocalTensor<float> floats = ToFloat(row, work_[2 * tiling_.tileCols], cols);
            AscendC::Mul(product, dfloats, floats, static_cast<int32_t>(cols));
            FoldLanes<AddOf>(lanes_[j * FLOAT_LANES], product, {1, cols, tiling_.tileCols});
            inQueueRow_.FreeTensor(row);
            AscendC::LocalTensor<T> out = outQueueRow_.template AllocTensor<T>();
            const AscendC::LocalTensor<float> target = FloatTarget(out, product);
            rows_.Weigh(target, dfloats, entry + j, cols);
            FromFloat(out, target, cols);
            StoreQueued(outQueueRow_, dpermutedGm_[place], out, {1, cols, cols, cols});
        }
        inQueueToken_.FreeTensor(dtoken);
    }

    MoeTokenUnpermuteTilingData tiling_;
    AscendC::GlobalTensor<T> dtokenGm_;
    AscendC::GlobalTensor<T> permutedGm_;
    AscendC::GlobalTensor<T> dpermutedGm_;
    AscendC::GlobalTensor<float> dprobGm_;
    TokenRows<P> rows_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueueToken_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueueRow_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> outQueueRow_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> outQueueProbs_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> workBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> laneBuf_;
    AscendC::LocalTensor<float> work_;
    AscendC::LocalTensor<float> lanes_;  // of the experts of a token, 64 each
};

template <typename T, typename P>
__aicore__ inline void MoeTokenUnpermuteKernel(GM_ADDR permuted, GM_ADDR sortedIndices, GM_ADDR probs, GM_ADDR tokens,
                                               [[maybe_unused]] GM_ADDR workspace,
                                               const MoeTokenUnpermuteTilingData& tiling)
{
    AscendC::TPipe pipe;
    MoeTokenUnpermute<T, P> kernel;
    kernel.Init(permuted, sortedIndices, probs, tokens, tiling, pipe);
    kernel.Process();
}

template <typename T, typename P>
__aicore__ inline void MoeTokenUnpermuteGradKernel(GM_ADDR dtokens, GM_ADDR permuted, GM_ADDR sortedIndices,
                                                   GM_ADDR probs, GM_ADDR dpermuted, GM_ADDR dprobs,
                                                   [[maybe_unused]] GM_ADDR workspace,
                                                   const MoeTokenUnpermuteGradTilingData& tiling)
{
    AscendC::TPipe pipe;
    MoeTokenUnpermuteGrad<T, P> kernel;
    kernel.Init(dtokens, permuted, sortedIndices, probs, dpermuted, dprobs, tiling, pipe);
    kernel.Process();
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_MOE_TOKEN_UNPERMUTE_KERNEL_H
