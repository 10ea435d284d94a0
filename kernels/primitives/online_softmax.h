/*!
 * Does the vector unit's part of an attention: scores become probabilities, exp(score - maximum so far), and products
 * of those with values are added up, scaled when the maximum grows.
 *
 * A tile of scores comes from global memory, where the cube wrote it, and its probabilities go there; the sums stay in
 * the Unified Buffer in float. All of it in chunks of rows:
 *
 *     softmax.Start(rows);
 *     for each tile of keys:
 *         for each chunk: z = Scores(...); whatever hides scores; Probabilities(z, ...);
 *         for each chunk: AddProduct(...);
 *     InvertSums(); for each chunk: Result(...)
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_ONLINE_SOFTMAX_H
#define MS_ASCEND_OPS_PRIMITIVES_ONLINE_SOFTMAX_H

#include "kernel_operator.h"
#include "primitives/attention_edges.h"
#include "primitives/row_values.h"
#include "primitives/tile.h"

namespace ms_ascend_ops {

// Maxima below this are of rows that see nothing.
constexpr float SEEN_ABOVE = -1.0e38f;

// T is the type of probabilities and results.
template <typename T>
class OnlineSoftmax {
public:
    // TILING has tileRows, tileCols, chunkRows and valueSize (attention_tiling.h).
    template <class TILING>
    __aicore__ inline void Init(const TILING& tiling, AscendC::TPipe& pipe)
    {
        tileRows_ = tiling.tileRows;
        tileCols_ = tiling.tileCols;
        chunkRows_ = tiling.chunkRows;
        valueSize_ = tiling.valueSize;
        valueStride_ = AttentionStride(tiling.valueSize);
        const uint32_t stride = tileCols_ < valueStride_ ? valueStride_ : tileCols_;
        pipe.InitBuffer(inQueue_, 2, chunkRows_ * stride * sizeof(float));
        pipe.InitBuffer(outQueue_, 2, chunkRows_ * stride * sizeof(T));
        pipe.InitBuffer(outputBuf_, tileRows_ * valueStride_ * sizeof(float));
        pipe.InitBuffer(stateBuf_, 4 * tileRows_ * sizeof(float));
        rows_.Init(chunkRows_, pipe);
        output_ = outputBuf_.template Get<float>();
        max_ = stateBuf_.template Get<float>();
        sum_ = max_[tileRows_];
        factor_ = max_[2 * tileRows_];
        share_ = max_[3 * tileRows_];
    }

    // A tile of so many rows begins.
    __aicore__ inline void Start(uint32_t rowCount)
    {
        rowCount_ = rowCount;
        AscendC::Duplicate(max_, LOWEST_FLOAT, static_cast<int32_t>(tileRows_));
        AscendC::Duplicate(sum_, 0.0f, static_cast<int32_t>(tileRows_));
        AscendC::Duplicate(output_, 0.0f, static_cast<int32_t>(rowCount * valueStride_));
    }

    // Returns the rows of the chunk that begins at `row`.
    __aicore__ inline uint32_t ChunkAt(uint32_t row) const
    {
        const uint32_t left = rowCount_ - row;
        return left < chunkRows_ ? left : chunkRows_;
    }

    // Loads `cols` scores of each row of a chunk, times `scale`, for Probabilities(). In global memory rows are
    // tileCols apart.
    __aicore__ inline AscendC::LocalTensor<float> Scores(const AscendC::GlobalTensor<float>& from, uint32_t row,
                                                         uint32_t cols, float scale)
    {
        const uint32_t count = ChunkAt(row);
        const uint32_t stride = AttentionStride(cols);
        AscendC::LocalTensor<float> z = inQueue_.template AllocTensor<float>();
        LoadRows(z, from[row * tileCols_], {count, cols, stride, tileCols_}, true);
        inQueue_.EnQue(z);
        z = inQueue_.template DeQue<float>();
        AscendC::Muls(z, z, scale, static_cast<int32_t>(count * stride));
        return z;
    }

    // Computes the probabilities of a chunk, relative to the rows' maxima so far, which these scores may raise by
    // `factor_`.
    __aicore__ inline void Probabilities(const AscendC::LocalTensor<float>& scores, const AscendC::GlobalTensor<T>& to,
                                         uint32_t row, uint32_t cols)
    {
        const uint32_t count = ChunkAt(row);
        const uint32_t stride = AttentionStride(cols);
        const RowBlock block{count, cols, stride};
        const RowBlock padded{count, stride, stride};
        AscendC::LocalTensor<float> z = scores;
        rows_.template Start<MaxOf>(count, cols);
        rows_.template Fold<MaxOf>(z, 0, block, cols);
        rows_.Maxima(count, cols);
        // In whole blocks: BroadcastRows reads such.
        const int32_t rows = static_cast<int32_t>((count + FLOATS_PER_BLOCK - 1) / FLOATS_PER_BLOCK * FLOATS_PER_BLOCK);
        const AscendC::LocalTensor<float> max = max_[row];
        const AscendC::LocalTensor<float> factor = factor_[row];
        const AscendC::LocalTensor<float> sum = sum_[row];
        AscendC::Max(rows_.values, rows_.values, max, rows);
        AscendC::Sub(factor, max, rows_.values, rows);
        AscendC::Exp(factor, factor, rows);
        AscendC::Maxs(max, rows_.values, LOWEST_FLOAT, rows);  // a copy
        rows_.Spread(count);
        WithRows<SubOf>(z, z, rows_.blocks, padded);
        AscendC::Exp(z, z, static_cast<int32_t>(count * stride));
        rows_.template Start<AddOf>(count, cols);
        rows_.template Fold<AddOf>(z, 0, block, cols);
        rows_.Sums(count, cols);
        AscendC::Mul(sum, sum, factor, rows);
        AscendC::Add(sum, sum, rows_.values, rows);
        AscendC::LocalTensor<T> p = outQueue_.template AllocTensor<T>();
        if constexpr (IS_FLOAT<T>) {
            AscendC::Maxs(p, z, 0.0f, static_cast<int32_t>(count * stride));  // a copy
        } else {
            FromFloat(p, z, count * stride);
        }
        inQueue_.FreeTensor(z);
        StoreQueued(outQueue_, to[row * tileCols_], p, {count, cols, stride, tileCols_});
    }

    // Computes output = output * factor + product, or its share, for a chunk of rows without gaps.
    __aicore__ inline void AddProduct(const AscendC::GlobalTensor<float>& from, uint32_t row, bool shared = false)
    {
        const uint32_t count = ChunkAt(row);
        const RowBlock padded{count, valueStride_, valueStride_};
        AscendC::LocalTensor<float> product = inQueue_.template AllocTensor<float>();
        LoadRows(product, from[row * valueSize_], {count, valueSize_, valueStride_, valueSize_}, true);
        inQueue_.EnQue(product);
        product = inQueue_.template DeQue<float>();
        const AscendC::LocalTensor<float> output = output_[row * valueStride_];
        BroadcastRows(rows_.blocks, factor_[row], count);
        WithRows<MulOf>(output, output, rows_.blocks, padded);
        if (shared) {
            BroadcastRows(rows_.blocks, share_[row], count);
            WithRows<MulOf>(product, product, rows_.blocks, padded);
        }
        AscendC::Add(output, output, product, static_cast<int32_t>(count * valueStride_));
        inQueue_.FreeTensor(product);
    }

    // StorePart() and AddPart() need it.
    __aicore__ inline void InitParts(AscendC::TPipe& pipe)
    {
        pipe.InitBuffer(partQueue_, 1, chunkRows_ * valueStride_ * sizeof(float));
        pipe.InitBuffer(partStateQueue_, 1, 2 * tileRows_ * sizeof(float));
    }

    // Returns how many floats a part takes in global memory: maxima, sums and output.
    static __aicore__ inline uint64_t PartSize(uint32_t tileRows, uint32_t valueSize)
    {
        return static_cast<uint64_t>(tileRows) * (valueSize + 2);
    }

    // Leaves what has been added up so far, of some of the keys.
    __aicore__ inline void StorePart(const AscendC::GlobalTensor<float>& to)
    {
        const uint32_t states = 2 * tileRows_;
        AscendC::LocalTensor<float> state = partStateQueue_.template AllocTensor<float>();
        AscendC::Muls(state, max_, 1.0f, static_cast<int32_t>(states));  // a copy, sums behind maxima
        StoreQueued(partStateQueue_, to, state, {1, states, states, states});
        for (uint32_t row = 0; row < rowCount_; row += chunkRows_) {
            const uint32_t count = ChunkAt(row);
            AscendC::LocalTensor<float> part = partQueue_.template AllocTensor<float>();
            AscendC::Muls(part, output_[row * valueStride_], 1.0f, static_cast<int32_t>(count * valueStride_));
            StoreQueued(partQueue_, to[states + row * valueSize_], part, {count, valueSize_, valueStride_, valueSize_});
        }
    }

    // Adds what StorePart() left.
    __aicore__ inline void AddPart(const AscendC::GlobalTensor<float>& from)
    {
        const uint32_t states = 2 * tileRows_;
        const int32_t rows = static_cast<int32_t>(tileRows_);
        AscendC::LocalTensor<float> state = inQueue_.template AllocTensor<float>();
        LoadRows(state, from, {1, states, states, states});
        inQueue_.EnQue(state);
        state = inQueue_.template DeQue<float>();
        const AscendC::LocalTensor<float> partSum = state[tileRows_];
        AscendC::Max(share_, max_, state, rows);
        AscendC::Sub(factor_, max_, share_, rows);
        AscendC::Maxs(max_, share_, LOWEST_FLOAT, rows);  // a copy
        AscendC::Sub(share_, state, share_, rows);
        AscendC::Exp(factor_, factor_, rows);
        AscendC::Exp(share_, share_, rows);
        AscendC::Mul(sum_, sum_, factor_, rows);
        AscendC::Mul(partSum, partSum, share_, rows);
        AscendC::Add(sum_, sum_, partSum, rows);
        inQueue_.FreeTensor(state);
        for (uint32_t row = 0; row < rowCount_; row += chunkRows_) {
            AddProduct(from[states], row, true);
        }
    }

    // Sets lse to maximum + ln(sum), or -inf for a row that sees nothing. It comes before InvertSums().
    __aicore__ inline void LogSums(const AscendC::LocalTensor<float>& lse)
    {
        const int32_t rows = static_cast<int32_t>(tileRows_);
        FindSeen();
        AscendC::Ln(lse, sum_, rows);
        AscendC::Add(lse, lse, max_, rows);
        // This adds (1 - factor) * -2^128 to lse, which makes it -inf where the factor is 0.
        AscendC::Adds(factor_, factor_, -1.0f, rows);
        AscendC::Muls(factor_, factor_, -LOWEST_FLOAT, rows);
        AscendC::Add(lse, lse, factor_, rows);
        AscendC::Add(lse, lse, factor_, rows);
    }

    // Makes the factors that Result() multiplies with: 1 / sum, 0 for a row that sees nothing.
    __aicore__ inline void InvertSums()
    {
        FindSeen();
        AscendC::Div(sum_, factor_, sum_, static_cast<int32_t>(tileRows_));
    }

    // Returns the results of a chunk, valueStride elements a row; they go back by Free().
    __aicore__ inline AscendC::LocalTensor<T> Result(uint32_t row)
    {
        const uint32_t count = ChunkAt(row);
        const RowBlock padded{count, valueStride_, valueStride_};
        const AscendC::LocalTensor<float> output = output_[row * valueStride_];
        BroadcastRows(rows_.blocks, sum_[row], count);
        AscendC::LocalTensor<T> y = outQueue_.template AllocTensor<T>();
        if constexpr (IS_FLOAT<T>) {
            WithRows<MulOf>(y, output, rows_.blocks, padded);
        } else {
            WithRows<MulOf>(output, output, rows_.blocks, padded);
            FromFloat(y, output, count * valueStride_);
        }
        outQueue_.EnQue(y);
        return outQueue_.template DeQue<T>();
    }

    __aicore__ inline void Free(AscendC::LocalTensor<T>& result) { outQueue_.FreeTensor(result); }

    __aicore__ inline uint32_t ValueStride() const { return valueStride_; }

private:
    // factor: 1 for rows that see something, else 0; and sums that may be divided by.
    __aicore__ inline void FindSeen()
    {
        const int32_t rows = static_cast<int32_t>(tileRows_);
        AscendC::Adds(factor_, max_, -SEEN_ABOVE, rows);
        AscendC::Muls(factor_, factor_, 1e-37f, rows);
        AscendC::Maxs(factor_, factor_, 0.0f, rows);
        AscendC::Mins(factor_, factor_, 1.0f, rows);
        AscendC::Maxs(sum_, sum_, SMALLEST_SUM, rows);
    }

    static constexpr float SMALLEST_SUM = 1.17549435e-38f;

    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueue_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> outQueue_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> partQueue_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> partStateQueue_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> outputBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> stateBuf_;
    AscendC::LocalTensor<float> output_;
    AscendC::LocalTensor<float> max_;
    AscendC::LocalTensor<float> sum_;
    AscendC::LocalTensor<float> factor_;
    AscendC::LocalTensor<float> share_;  // of a part
    RowValues rows_;                     // of a chunk
    uint32_t tileRows_ = 0;
    uint32_t tileCols_ = 0;
    uint32_t chunkRows_ = 0;
    uint32_t valueSize_ = 0;
    uint32_t valueStride_ = 0;
    uint32_t rowCount_ = 0;  // of the tile
};

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_ONLINE_SOFTMAX_H
