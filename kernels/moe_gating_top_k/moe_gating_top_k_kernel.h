/*!
 * Computes scores of experts, the best k of each token and their weights, and the gradient of the logits, in float.
 *
 * Plan: tokens are rows of a tile. k times the maximum of each row is found, then its first column, by the largest of
 * the negative column numbers among the columns that equal it; that column is taken out. A group of experts is a row of
 * the same tile, seen as more and shorter rows: the scores of all groups are found so, spread over a block each, which
 * is the form in which the best groups are picked and in which the others are masked. Values of a row go to their
 * column of the output tile by products with one-hot vectors: nothing leaves the vector unit. The gradient scatters
 * dweights to columns by column numbers, and makes the scores again. Bound: the vector unit, some 15 instructions an
 * element for each of k.
 */
#ifndef MS_ASCEND_OPS_MOE_GATING_TOP_K_KERNEL_H
#define MS_ASCEND_OPS_MOE_GATING_TOP_K_KERNEL_H

#include "expert_scores.h"
#include "kernel_operator.h"
#include "moe_gating_top_k_tiling.h"
#include "primitives/ones.h"
#include "primitives/ramp.h"
#include "primitives/rows.h"
#include "primitives/tile.h"

namespace ms_ascend_ops {

template <typename T, typename B>
class MoeGatingTopK {
public:
    __aicore__ inline void Init(GM_ADDR x, GM_ADDR bias, GM_ADDR weights, GM_ADDR experts,
                                const MoeGatingTopKTilingData& tiling, AscendC::TPipe& pipe)
    {
        tiling_ = tiling;
        weightGm_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(weights), tiling.tokens * tiling.chosen);
        expertGm_.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t*>(experts), tiling.tokens * tiling.chosen);
        experts_.Init(x, tiling, pipe);
        const uint32_t elements = tiling.tileTokens * experts_.Stride();
        const uint32_t chosen = tiling.tileTokens * tiling.chosenStride;
        const uint32_t groups = tiling.tileTokens * tiling.groups * FLOATS_PER_BLOCK;
        pipe.InitBuffer(workBuf_, 3 * elements * sizeof(float));
        pipe.InitBuffer(chosenBuf_, (2 * chosen + 2 * tiling.chosenStride) * sizeof(float));
        pipe.InitBuffer(groupBuf_, (3 * groups + 2 * NumberColumns()) * sizeof(float));
        pipe.InitBuffer(outQueueWeights_, 2, chosen * sizeof(float));
        pipe.InitBuffer(outQueueExperts_, 2, chosen * sizeof(int32_t));
        open_ = workBuf_.template Get<float>();
        place_ = open_[elements];
        product_ = open_[2 * elements];
        indices_ = chosenBuf_.template Get<float>();
        part_ = indices_[chosen];
        numbers_ = indices_[2 * chosen];
        oneHot_ = numbers_[tiling.chosenStride];
        groupScores_ = groupBuf_.template Get<float>();
        groupPlace_ = groupScores_[groups];
        groupMost_ = groupScores_[2 * groups];
        groupNumbers_ = groupScores_[3 * groups];
        ones_ = BlockOfOnes(onesBuf_, pipe);
        FillRamp(numbers_, 1.0f, tiling.chosenStride, pipe);
        InitGroups(pipe);
        InitBias(bias, pipe);
    }

    __aicore__ inline void Process()
    {
        const TokenShare share = TokensOf(tiling_);
        for (uint64_t token = share.first; token < share.last; token += tiling_.tileTokens) {
            const uint64_t left = share.last - token;
            Tile(token, left < tiling_.tileTokens ? static_cast<uint32_t>(left) : tiling_.tileTokens);
        }
    }

private:
    // A large factor and a larger one: products of the smallest difference that there is with both are far beyond all
    // column numbers, and those of the largest are finite.
    static constexpr float LARGE = 1e38f;
    static constexpr float LARGER = 1e30f;

    __aicore__ inline void InitBias(GM_ADDR bias, AscendC::TPipe& pipe)
    {
        if (tiling_.hasBias == 0) {
            return;
        }
        AscendC::GlobalTensor<B> biasGm;
        biasGm.SetGlobalBuffer(reinterpret_cast<__gm__ B*>(bias), tiling_.experts);
        // Groups lie whole blocks apart in the Unified Buffer, also those of type B.
        pipe.InitBuffer(inQueueBias_, 1, experts_.Stride() * sizeof(B));
        pipe.InitBuffer(biasBuf_, experts_.Stride() * sizeof(float));
        bias_ = biasBuf_.template Get<float>();
        AscendC::LocalTensor<B> local = inQueueBias_.template AllocTensor<B>();
        LoadRows(local, biasGm, {tiling_.groups, tiling_.groupSize, tiling_.groupStride, tiling_.groupSize}, true);
        inQueueBias_.EnQue(local);
        local = inQueueBias_.template DeQue<B>();
        AscendC::Duplicate(bias_, 0.0f, static_cast<int32_t>(experts_.Stride()));
        for (uint32_t group = 0; group < tiling_.groups; ++group) {
            const uint32_t at = group * tiling_.groupStride;
            if constexpr (IS_FLOAT<B>) {
                AscendC::Muls(bias_[at], local[at], 1.0f, static_cast<int32_t>(tiling_.groupSize));  // a copy
            } else {
                AscendC::Cast(bias_[at], local[at], AscendC::RoundMode::CAST_NONE, tiling_.groupSize);
            }
        }
        inQueueBias_.FreeTensor(local);
    }

    // Counts columns of the blocks of all groups: Brcb writes eight at a time.
    __aicore__ inline uint32_t NumberColumns() const
    {
        return (tiling_.groups + FLOATS_PER_BLOCK - 1) / FLOATS_PER_BLOCK * FLOATS_PER_BLOCK * FLOATS_PER_BLOCK;
    }

    // Fills a block with the number of each group.
    __aicore__ inline void InitGroups(AscendC::TPipe& pipe)
    {
        if (tiling_.groups == 1) {
            return;
        }
        const AscendC::LocalTensor<float> numbers = groupNumbers_[NumberColumns()];
        FillRamp(numbers, 1.0f, NumberColumns(), pipe);
        BroadcastRows(groupNumbers_, numbers, tiling_.groups);
    }

    __aicore__ inline void Tile(uint64_t token, uint32_t count)
    {
        const RowBlock block = experts_.Tokens(count);
        const RowBlock chosen{count, tiling_.chosenStride, tiling_.chosenStride};
        const int32_t elements = static_cast<int32_t>(count * experts_.Stride());
        const int32_t chosenElements = static_cast<int32_t>(count * tiling_.chosenStride);
        experts_.Load(token, count);
        Open(block);
        if (tiling_.groups > 1) {
            MaskGroups(count);
        }
        AscendC::LocalTensor<float> weights = outQueueWeights_.template AllocTensor<float>();
        AscendC::Duplicate(weights, 0.0f, chosenElements);
        AscendC::Duplicate(indices_, 0.0f, chosenElements);
        for (uint32_t j = 0; j < tiling_.chosen; ++j) {
            OneHotColumn(oneHot_, numbers_, ones_, j, tiling_.chosenStride);
            FirstMaximum(place_, open_, experts_.numbers, block);
            Put(indices_, chosen);  // negative ones
            // place_ is 0 there and -1 elsewhere.
            AscendC::Mul(product_, place_, experts_.scores, elements);
            AscendC::Add(product_, product_, experts_.scores, elements);
            experts_.RowSums(product_, block);
            Put(weights, chosen);
            TakeOut(open_, place_, elements);
        }
        Finish(weights, block, chosen);
        StoreQueued(outQueueWeights_, weightGm_[token * tiling_.chosen], weights,
                    {count, tiling_.chosen, tiling_.chosenStride, tiling_.chosen});
        StoreExperts(token, count);
    }

    // Makes open_, the scores by which experts are picked.
    __aicore__ inline void Open(const RowBlock& block)
    {
        if (tiling_.hasBias != 0) {
            AddColumns(open_, experts_.scores, bias_, block);
            experts_.WithoutPadding(open_, open_, block);
        } else {
            experts_.WithoutPadding(open_, experts_.scores, block);
        }
    }

    // Finds in each row the first column that has its maximum: place = 0 there and -1 elsewhere, and the negative
    // number of the column is in experts_.rows. Columns may have a number together.
    __aicore__ inline void FirstMaximum(const AscendC::LocalTensor<float>& place,
                                        const AscendC::LocalTensor<float>& values,
                                        const AscendC::LocalTensor<float>& numbers, const RowBlock& block)
    {
        const int32_t elements = static_cast<int32_t>(block.rows * block.stride);
        experts_.RowMaxima(values, block);
        WithRows<SubOf>(place, values, experts_.rows.blocks, block);
        AscendC::Muls(place, place, LARGE, elements);
        AscendC::Maxs(place, place, -1.0f, elements);
        AscendC::Muls(place, place, LARGER, elements);
        WithColumns<SubOf>(place, place, numbers, block);
        experts_.RowMaxima(place, block);
        WithRows<SubOf>(place, place, experts_.rows.blocks, block);
        AscendC::Maxs(place, place, -1.0f, elements);
    }

    // Sets values to NO_SCORE where place is 0. `place` is lost.
    __aicore__ inline void TakeOut(const AscendC::LocalTensor<float>& values, const AscendC::LocalTensor<float>& place,
                                   int32_t elements)
    {
        AscendC::Muls(place, place, 2.0f * NO_SCORE, elements);
        AscendC::Adds(place, place, NO_SCORE, elements);
        AscendC::Min(values, values, place, elements);
    }

    // tile += the rows' values, in the column of oneHot_.
    __aicore__ inline void Put(const AscendC::LocalTensor<float>& tile, const RowBlock& chosen)
    {
        const int32_t elements = static_cast<int32_t>(chosen.rows * chosen.stride);
        AscendC::Duplicate(part_, 0.0f, elements);
        AddColumns(part_, part_, oneHot_, chosen);
        MultiplyRows(part_, part_, experts_.rows.blocks, chosen);
        AscendC::Add(tile, tile, part_, elements);
    }

    // Sets open_ to NO_SCORE for all experts but those of the best groups.
    __aicore__ inline void MaskGroups(uint32_t count)
    {
        const RowBlock rows = experts_.Groups(count);
        const int32_t elements = static_cast<int32_t>(count * experts_.Stride());
        const uint32_t columns = tiling_.groups * FLOATS_PER_BLOCK;
        const RowBlock groups{count, columns, columns};
        const int32_t groupElements = static_cast<int32_t>(count * columns);
        experts_.RowMaxima(open_, rows);
        AscendC::Muls(groupScores_, experts_.rows.blocks, 1.0f, groupElements);  // a copy
        if (tiling_.bestTwo != 0) {
            AscendC::Muls(product_, open_, 1.0f, elements);
            FirstMaximum(place_, product_, experts_.numbers, rows);
            TakeOut(product_, place_, elements);
            experts_.RowMaxima(product_, rows);
            AscendC::Add(groupScores_, groupScores_, experts_.rows.blocks, groupElements);
        }
        AscendC::Duplicate(groupMost_, NO_SCORE, groupElements);
        for (uint32_t j = 0; j < tiling_.chosenGroups; ++j) {
            FirstMaximum(groupPlace_, groupScores_, groupNumbers_, groups);
            // The best group's experts may have any score.
            AscendC::Muls(product_, groupPlace_, -2.0f * NO_SCORE, groupElements);
            AscendC::Adds(product_, product_, -NO_SCORE, groupElements);
            AscendC::Max(groupMost_, groupMost_, product_, groupElements);
            TakeOut(groupScores_, groupPlace_, groupElements);
        }
        WithRows<MinOf>(open_, open_, groupMost_, rows);
    }

    // Renormalizes and scales. A token with a score that is NaN gets NaN: comparisons do not tell.
    __aicore__ inline void Finish(const AscendC::LocalTensor<float>& weights, const RowBlock& block,
                                  const RowBlock& chosen)
    {
        const int32_t chosenElements = static_cast<int32_t>(chosen.rows * chosen.stride);
        AscendC::Muls(product_, experts_.scores, 0.0f, static_cast<int32_t>(block.rows * block.stride));
        experts_.RowSums(product_, block);
        AddRows(weights, weights, experts_.rows.blocks, chosen);
        if (tiling_.renormalizes != 0) {
            experts_.RowSums(weights, chosen);
            AscendC::Adds(experts_.rows.values, experts_.rows.values, tiling_.epsilon,
                          static_cast<int32_t>(chosen.rows));
            experts_.rows.Spread(chosen.rows);
            WithRows<DivOf>(weights, weights, experts_.rows.blocks, chosen);
        }
        AscendC::Muls(weights, weights, tiling_.scale, chosenElements);
    }

    __aicore__ inline void StoreExperts(uint64_t token, uint32_t count)
    {
        const int32_t elements = static_cast<int32_t>(count * tiling_.chosenStride);
        AscendC::LocalTensor<int32_t> experts = outQueueExperts_.template AllocTensor<int32_t>();
        AscendC::Muls(indices_, indices_, -1.0f, elements);
        AscendC::Cast(experts, indices_, AscendC::RoundMode::CAST_RINT, static_cast<uint32_t>(elements));
        // A token with NaN gets experts that exist, too.
        AscendC::Maxs(experts, experts, 0, elements);
        AscendC::Mins(experts, experts, static_cast<int32_t>(tiling_.experts) - 1, elements);
        StoreQueued(outQueueExperts_, expertGm_[token * tiling_.chosen], experts,
                    {count, tiling_.chosen, tiling_.chosenStride, tiling_.chosen});
    }

    MoeGatingTopKTilingData tiling_;
    ExpertScores<T> experts_;
    AscendC::GlobalTensor<float> weightGm_;
    AscendC::GlobalTensor<int32_t> expertGm_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueueBias_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> outQueueWeights_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> outQueueExperts_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> workBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> chosenBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> groupBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> biasBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> onesBuf_;
    AscendC::LocalTensor<float> open_;
    AscendC::LocalTensor<float> place_;
    AscendC::LocalTensor<float> product_;
    AscendC::LocalTensor<float> indices_;
    AscendC::LocalTensor<float> part_;
    AscendC::LocalTensor<float> numbers_;
    AscendC::LocalTensor<float> oneHot_;
    AscendC::LocalTensor<float> groupScores_;
    AscendC::LocalTensor<float> groupPlace_;
    AscendC::LocalTensor<float> groupMost_;
    AscendC::LocalTensor<float> groupNumbers_;
    AscendC::LocalTensor<float> bias_;
    AscendC::LocalTensor<float> ones_;
};

template <typename T>
class MoeGatingTopKGrad {
public:
    __aicore__ inline void Init(GM_ADDR dweights, GM_ADDR x, GM_ADDR experts, GM_ADDR dx,
                                const MoeGatingTopKTilingData& tiling, AscendC::TPipe& pipe)
    {
        tiling_ = tiling;
        dweightGm_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(dweights), tiling.tokens * tiling.chosen);
        expertGm_.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t*>(experts), tiling.tokens * tiling.chosen);
        dxGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(dx), tiling.tokens * tiling.experts);
        experts_.Init(x, tiling, pipe);
        const uint32_t elements = tiling.tileTokens * experts_.Stride();
        const uint32_t chosen = tiling.tileTokens * tiling.chosenStride;
        pipe.InitBuffer(inQueueWeights_, 2, chosen * sizeof(float));
        pipe.InitBuffer(inQueueExperts_, 2, chosen * sizeof(int32_t));
        pipe.InitBuffer(outQueueX_, 2, elements * sizeof(T));
        pipe.InitBuffer(workBuf_, 4 * elements * sizeof(float));
        pipe.InitBuffer(chosenBuf_, (2 * chosen + 2 * tiling.chosenStride) * sizeof(float));
        dscores_ = workBuf_.template Get<float>();
        isChosen_ = dscores_[elements];
        product_ = dscores_[2 * elements];
        numbers_ = dscores_[3 * elements];
        indices_ = chosenBuf_.template Get<float>();
        part_ = indices_[chosen];
        columns_ = indices_[2 * chosen];
        oneHot_ = columns_[tiling.chosenStride];
        ones_ = BlockOfOnes(onesBuf_, pipe);
        FillRamp(columns_, 1.0f, tiling.chosenStride, pipe);
        AscendC::Duplicate(numbers_, 0.0f, static_cast<int32_t>(elements));
        AddColumns(numbers_, numbers_, experts_.numbers, experts_.Tokens(tiling.tileTokens));
    }

    __aicore__ inline void Process()
    {
        const TokenShare share = TokensOf(tiling_);
        for (uint64_t token = share.first; token < share.last; token += tiling_.tileTokens) {
            const uint64_t left = share.last - token;
            Tile(token, left < tiling_.tileTokens ? static_cast<uint32_t>(left) : tiling_.tileTokens);
        }
    }

private:
    __aicore__ inline void Tile(uint64_t token, uint32_t count)
    {
        const RowBlock block = experts_.Tokens(count);
        const int32_t elements = static_cast<int32_t>(count * experts_.Stride());
        experts_.Load(token, count);
        Scatter(token, count, block);
        AscendC::Muls(dscores_, dscores_, tiling_.scale, elements);
        if (tiling_.renormalizes != 0) {
            Renormalize(count, block);
        }
        AscendC::LocalTensor<T> dx = outQueueX_.template AllocTensor<T>();
        const AscendC::LocalTensor<float> target = FloatTarget(dx, product_);
        if (tiling_.isSigmoid != 0) {
            AscendC::Mul(dscores_, dscores_, experts_.scores, elements);
            OneMinus(target, ones_, experts_.scores, elements);
            AscendC::Mul(target, target, dscores_, elements);
        } else {
            AscendC::Mul(target, dscores_, experts_.scores, elements);
            experts_.RowSums(target, block);
            SubtractRows(target, dscores_, experts_.rows.blocks, block);
            AscendC::Mul(target, target, experts_.scores, elements);
        }
        FromFloat(dx, target, static_cast<uint32_t>(elements));
        StoreQueued(outQueueX_, dxGm_[token * tiling_.experts], dx,
                    {count, tiling_.experts, experts_.Stride(), tiling_.experts});
    }

    // Sets dscores_ to dweights and isChosen_ to 1 at their experts, and both to 0 elsewhere.
    __aicore__ inline void Scatter(uint64_t token, uint32_t count, const RowBlock& block)
    {
        const RowBlock chosen{count, tiling_.chosenStride, tiling_.chosenStride};
        const Rows shape{count, tiling_.chosen, tiling_.chosenStride, tiling_.chosen};
        const int32_t elements = static_cast<int32_t>(count * experts_.Stride());
        const uint64_t at = token * tiling_.chosen;
        AscendC::LocalTensor<float> dweights = inQueueWeights_.template AllocTensor<float>();
        LoadRows(dweights, dweightGm_[at], shape, true);
        inQueueWeights_.EnQue(dweights);
        AscendC::LocalTensor<int32_t> experts = inQueueExperts_.template AllocTensor<int32_t>();
        LoadRows(experts, expertGm_[at], shape, true);
        inQueueExperts_.EnQue(experts);
        dweights = inQueueWeights_.template DeQue<float>();
        experts = inQueueExperts_.template DeQue<int32_t>();
        AscendC::Cast(indices_, experts, AscendC::RoundMode::CAST_RINT, count * tiling_.chosenStride);
        AscendC::Duplicate(dscores_, 0.0f, elements);
        AscendC::Duplicate(isChosen_, 0.0f, elements);
        for (uint32_t j = 0; j < tiling_.chosen; ++j) {
            OneHotColumn(oneHot_, columns_, ones_, j, tiling_.chosenStride);
            MultiplyColumns(part_, indices_, oneHot_, chosen);
            experts_.RowSums(part_, chosen);
            SubtractRows(product_, numbers_, experts_.rows.blocks, block);
            AscendC::Abs(product_, product_, elements);
            AscendC::Mins(product_, product_, 1.0f, elements);
            OneMinus(product_, ones_, product_, elements);
            AscendC::Add(isChosen_, isChosen_, product_, elements);
            MultiplyColumns(part_, dweights, oneHot_, chosen);
            experts_.RowSums(part_, chosen);
            MultiplyRows(product_, product_, experts_.rows.blocks, block);
            AscendC::Add(dscores_, dscores_, product_, elements);
        }
        inQueueWeights_.FreeTensor(dweights);
        inQueueExperts_.FreeTensor(experts);
    }

    // w = s / (sum + epsilon) over those that are chosen: ds = (dw - sum(dw * w)) / (sum + epsilon).
    __aicore__ inline void Renormalize(uint32_t count, const RowBlock& block)
    {
        const int32_t elements = static_cast<int32_t>(count * experts_.Stride());
        AscendC::Mul(product_, experts_.scores, isChosen_, elements);
        experts_.RowSums(product_, block);
        AscendC::Adds(experts_.rows.values, experts_.rows.values, tiling_.epsilon, static_cast<int32_t>(count));
        experts_.rows.Spread(count);
        WithRows<DivOf>(product_, product_, experts_.rows.blocks, block);
        WithRows<DivOf>(isChosen_, isChosen_, experts_.rows.blocks, block);
        AscendC::Mul(product_, product_, dscores_, elements);
        experts_.RowSums(product_, block);
        SubtractRows(dscores_, dscores_, experts_.rows.blocks, block);
        AscendC::Mul(dscores_, dscores_, isChosen_, elements);
    }

    MoeGatingTopKTilingData tiling_;
    ExpertScores<T> experts_;
    AscendC::GlobalTensor<float> dweightGm_;
    AscendC::GlobalTensor<int32_t> expertGm_;
    AscendC::GlobalTensor<T> dxGm_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueueWeights_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueueExperts_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> outQueueX_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> workBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> chosenBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> onesBuf_;
    AscendC::LocalTensor<float> dscores_;
    AscendC::LocalTensor<float> isChosen_;
    AscendC::LocalTensor<float> product_;
    AscendC::LocalTensor<float> numbers_;
    AscendC::LocalTensor<float> indices_;
    AscendC::LocalTensor<float> part_;
    AscendC::LocalTensor<float> columns_;
    AscendC::LocalTensor<float> oneHot_;
    AscendC::LocalTensor<float> ones_;
};

template <typename T, typename B>
__aicore__ inline void MoeGatingTopKKernel(GM_ADDR x, GM_ADDR bias, GM_ADDR weights, GM_ADDR experts,
                                           [[maybe_unused]] GM_ADDR workspace, const MoeGatingTopKTilingData& tiling)
{
    AscendC::TPipe pipe;
    MoeGatingTopK<T, B> kernel;
    kernel.Init(x, bias, weights, experts, tiling, pipe);
    kernel.Process();
}

template <typename T>
__aicore__ inline void MoeGatingTopKGradKernel(GM_ADDR dweights, GM_ADDR x, GM_ADDR experts, GM_ADDR dx,
                                               [[maybe_unused]] GM_ADDR workspace,
                                               const MoeGatingTopKGradTilingData& tiling)
{
    AscendC::TPipe pipe;
    MoeGatingTopKGrad<T> kernel;
    kernel.Init(dweights, x, experts, dx, tiling, pipe);
    kernel.Process();
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_MOE_GATING_TOP_K_KERNEL_H
