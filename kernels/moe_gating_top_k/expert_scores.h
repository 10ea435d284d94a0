/*!
 * Computes the scores of experts, softmax or sigmoid of a tile of logits, as forward and gradient need them.
 */
#ifndef MS_ASCEND_OPS_MOE_GATING_TOP_K_EXPERT_SCORES_H
#define MS_ASCEND_OPS_MOE_GATING_TOP_K_EXPERT_SCORES_H

#include "kernel_operator.h"
#include "moe_gating_top_k_tiling.h"
#include "primitives/ones.h"
#include "primitives/ramp.h"
#include "primitives/row_values.h"
#include "primitives/rows.h"
#include "primitives/tile.h"

namespace ms_ascend_ops {

// An expert that is taken counts as this: less than every score with a bias that makes sense. Padding is less than
// that.
constexpr float NO_SCORE = -1.5e38f;
constexpr float INFINITE = __builtin_inff();

template <typename T>
class ExpertScores {
public:
    __aicore__ inline void Init(GM_ADDR x, const MoeGatingTopKTilingData& tiling, AscendC::TPipe& pipe)
    {
        tiling_ = tiling;
        stride_ = tiling.groups * tiling.groupStride;
        xGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(x), tiling.tokens * tiling.experts);
        pipe.InitBuffer(inQueueX_, 2, tiling.tileTokens * stride_ * sizeof(T));
        pipe.InitBuffer(scoreBuf_, tiling.tileTokens * stride_ * sizeof(float));
        pipe.InitBuffer(columnBuf_, 2 * stride_ * sizeof(float));
        rows.Init(tiling.tileTokens * tiling.groups, pipe);
        ones_ = BlockOfOnes(onesBuf_, pipe);
        scores = scoreBuf_.template Get<float>();
        numbers = columnBuf_.template Get<float>();
        most_ = numbers[stride_];
        Columns(pipe);
    }

    __aicore__ inline uint32_t Stride() const { return stride_; }
    // `count` tokens are rows of experts, and rows of a group's experts.
    __aicore__ inline RowBlock Tokens(uint32_t count) const { return {count, stride_, stride_}; }
    __aicore__ inline RowBlock Groups(uint32_t count) const
    {
        return {count * tiling_.groups, tiling_.groupStride, tiling_.groupStride};
    }

    // scores = those of the tokens from `token` on; padding has 0.
    __aicore__ inline void Load(uint64_t token, uint32_t count)
    {
        const RowBlock block = Tokens(count);
        const uint32_t elements = count * stride_;
        AscendC::LocalTensor<T> x = inQueueX_.template AllocTensor<T>();
        LoadRows(x, xGm_[token * tiling_.experts],
                 {count * tiling_.groups, tiling_.groupSize, tiling_.groupStride, tiling_.groupSize}, true);
        inQueueX_.EnQue(x);
        x = inQueueX_.template DeQue<T>();
        const AscendC::LocalTensor<float> logits = ToFloat(x, scores, elements);
        WithoutPadding(scores, logits, block);
        inQueueX_.FreeTensor(x);
        if (tiling_.isSigmoid != 0) {
            AscendC::Muls(scores, scores, -1.0f, static_cast<int32_t>(elements));
            AscendC::Exp(scores, scores, static_cast<int32_t>(elements));
            AscendC::Adds(scores, scores, 1.0f, static_cast<int32_t>(elements));
            OneOver(scores, ones_, scores, static_cast<int32_t>(elements));
            return;
        }
        RowMaxima(scores, block);
        WithRows<SubOf>(scores, scores, rows.blocks, block);
        AscendC::Exp(scores, scores, static_cast<int32_t>(elements));
        RowSums(scores, block);
        rows.Invert(count);
        rows.Spread(count);
        MultiplyRows(scores, scores, rows.blocks, block);
    }

    // Copies src to dst, and sets padding to -inf.
    __aicore__ inline void WithoutPadding(const AscendC::LocalTensor<float>& dst,
                                          const AscendC::LocalTensor<float>& src, const RowBlock& block)
    {
        WithColumns<MinOf>(dst, src, most_, block);
    }

    // rows.blocks and rows.values = the maxima of rows, their sums.
    __aicore__ inline void RowMaxima(const AscendC::LocalTensor<float>& src, const RowBlock& block)
    {
        rows.template Start<MaxOf>(block.rows, block.cols);
        rows.template Fold<MaxOf>(src, 0, block, block.cols);
        rows.Maxima(block.rows, block.cols);
        rows.Spread(block.rows);
    }
    __aicore__ inline void RowSums(const AscendC::LocalTensor<float>& src, const RowBlock& block)
    {
        rows.template Start<AddOf>(block.rows, block.cols);
        rows.template Fold<AddOf>(src, 0, block, block.cols);
        rows.Sums(block.rows, block.cols);
        rows.Spread(block.rows);
    }

    AscendC::LocalTensor<float> scores;
    AscendC::LocalTensor<float> numbers;  // of the expert in each column; of padding any
    RowValues rows;

private:
    // numbers, and the largest value that a column may have.
    __aicore__ inline void Columns(AscendC::TPipe& pipe)
    {
        AscendC::Duplicate(most_, -INFINITE, static_cast<int32_t>(stride_));
        FillRamp(numbers, 1.0f, tiling_.groupStride, pipe);
        for (uint32_t group = tiling_.groups; group-- > 0;) {  // the first one is what the others are made of
            const uint32_t at = group * tiling_.groupStride;
            AscendC::Adds(numbers[at], numbers, static_cast<float>(group * tiling_.groupSize),
                          static_cast<int32_t>(tiling_.groupStride));
            AscendC::Duplicate(most_[at], INFINITE, static_cast<int32_t>(tiling_.groupSize));
        }
    }

    MoeGatingTopKTilingData tiling_;
    uint32_t stride_ = 0;
    AscendC::GlobalTensor<T> xGm_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueueX_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> scoreBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> columnBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> onesBuf_;
    AscendC::LocalTensor<float> ones_;
    AscendC::LocalTensor<float> most_;
};

// A core has the tokens from `first` to `last`.
struct TokenShare {
    uint64_t first;
    uint64_t last;
};

__aicore__ inline TokenShare TokensOf(const MoeGatingTopKTilingData& tiling)
{
    const uint64_t first = tiling.tokensPerCore * AscendC::GetBlockIdx();
    const uint64_t last = first + tiling.tokensPerCore;
    return {first, last < tiling.tokens ? last : tiling.tokens};
}

// Sets row by row dst to the one-hot vector of a column, for `count` rows.
__aicore__ inline void OneHotColumn(const AscendC::LocalTensor<float>& dst, const AscendC::LocalTensor<float>& numbers,
                                    const AscendC::LocalTensor<float>& ones, uint32_t column, uint32_t count)
{
    AscendC::Adds(dst, numbers, -static_cast<float>(column), static_cast<int32_t>(count));
    AscendC::Abs(dst, dst, static_cast<int32_t>(count));
    AscendC::Mins(dst, dst, 1.0f, static_cast<int32_t>(count));
    OneMinus(dst, ones, dst, static_cast<int32_t>(count));
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_MOE_GATING_TOP_K_EXPERT_SCORES_H
