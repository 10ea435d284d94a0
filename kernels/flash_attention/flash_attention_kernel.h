/*!
 * Attention with an online softmax: out = softmax(scale * query key^T) value, and the log-sum-exp of the scores.
 *
 * Plan: a task is a tile of query rows. For one tile of keys after the other the cube calculates scores, the vector
 * unit makes probabilities of them, exp(score - maximum so far), the cube multiplies those with the values, and the
 * vector unit adds the product to the output, which stays in the Unified Buffer in float and is scaled when the maximum
 * grows. While the vector unit works on a tile of scores, the cube calculates the next. Between the two units tiles go
 * through the workspace, as they share global memory only. Keys that no row of a tile may see are left out; at the
 * edges of what each row sees scores become the lowest that counts as none. Bound: the cube, 4 * rows * keys * head
 * size operations; with few rows memory, keys and values once.
 */
#ifndef MS_ASCEND_OPS_FLASH_ATTENTION_KERNEL_H
#define MS_ASCEND_OPS_FLASH_ATTENTION_KERNEL_H

#include "flash_attention_tiling.h"
#include "kernel_operator.h"
#include "lib/matmul_intf.h"
#include "primitives/attention_edges.h"
#include "primitives/attention_mask.h"
#include "primitives/row_values.h"
#include "primitives/tile.h"

namespace ms_ascend_ops {

// Maxima below this are of rows that see nothing.
constexpr float SEEN_ABOVE = -1.0e38f;

// M: the type of the mask.
template <typename T, typename M>
class FlashAttention {
public:
    using Operand = matmul::MatmulType<AscendC::TPosition::GM, CubeFormat::ND, T>;
    using Transposed = matmul::MatmulType<AscendC::TPosition::GM, CubeFormat::ND, T, true>;
    using Result = matmul::MatmulType<AscendC::TPosition::GM, CubeFormat::ND, float>;
    matmul::Matmul<Operand, Transposed, Result> scores;
    matmul::Matmul<Operand, Operand, Result> values;

    __aicore__ inline void Init(GM_ADDR query, GM_ADDR key, GM_ADDR value, GM_ADDR mask, GM_ADDR out, GM_ADDR lse,
                                GM_ADDR workspace, const FlashAttentionTilingData& tiling, AscendC::TPipe& pipe)
    {
        tiling_ = tiling;
        queryGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(query));
        keyGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(key));
        valueGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(value));
        outGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(out));
        lseGm_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(lse));
        GM_ADDR own = workspace + tiling.workspacePerCore * AscendC::GetBlockIdx();
        const uint32_t elements = tiling.tileRows * tiling.tileCols;
        scoresGm_[0].SetGlobalBuffer(reinterpret_cast<__gm__ float*>(own), elements);
        scoresGm_[1].SetGlobalBuffer(reinterpret_cast<__gm__ float*>(own) + elements, elements);
        own += 2 * elements * sizeof(float);
        probabilitiesGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(own), elements);
        own += elements * sizeof(T);
        productGm_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(own), tiling.tileRows * tiling.valueSize);

        valueStride_ = AttentionStride(tiling.valueSize);
        const uint32_t stride = tiling.tileCols < valueStride_ ? valueStride_ : tiling.tileCols;
        pipe.InitBuffer(inQueue_, 2, tiling.chunkRows * stride * sizeof(float));
        pipe.InitBuffer(outQueue_, 2, tiling.chunkRows * stride * sizeof(T));
        pipe.InitBuffer(outputBuf_, tiling.tileRows * valueStride_ * sizeof(float));
        pipe.InitBuffer(stateBuf_, 3 * tiling.tileRows * sizeof(float));
        pipe.InitBuffer(lseQueue_, 1, tiling.tileRows * sizeof(float));
        rows_.Init(tiling.chunkRows, pipe);
        output_ = outputBuf_.template Get<float>();
        max_ = stateBuf_.template Get<float>();
        sum_ = max_[tiling.tileRows];
        factor_ = max_[2 * tiling.tileRows];
        edges_.Init(pipe);
        mask_.Init(mask, tiling, tiling.chunkRows * tiling.tileCols, pipe);
    }

    __aicore__ inline void Process()
    {
        const uint64_t core = AscendC::GetBlockIdx();  // groups of cores may be one more than there is work for
        for (uint64_t task = core < tiling_.cores ? core : tiling_.tasks; task < tiling_.tasks; task += tiling_.cores) {
            const uint64_t unit = task / tiling_.tilesPerUnit;
            batch_ = unit / tiling_.unitsPerBatch;
            unit_ = unit - batch_ * tiling_.unitsPerBatch;
            firstRow_ = (task - unit * tiling_.tilesPerUnit) * tiling_.tileRows;
            const uint64_t left = tiling_.rowsPerUnit - firstRow_;
            rowCount_ = left < tiling_.tileRows ? static_cast<uint32_t>(left) : tiling_.tileRows;
            Attend();
        }
        scores.End();
        values.End();
    }

private:
    // What a tile of columns is multiplied and masked as.
    struct Tile {
        uint64_t first;  // key
        uint32_t cols;
        uint32_t stride;  // in the Unified Buffer
    };

    // A row's position among the queries of its head.
    __aicore__ inline uint64_t PositionOf(uint64_t row) const
    {
        return row < tiling_.queryLength ? row : row % tiling_.queryLength;
    }

    __aicore__ inline void Attend()
    {
        // Tiles of several heads see what any of their queries does.
        const bool oneHead = firstRow_ / tiling_.queryLength == (firstRow_ + rowCount_ - 1) / tiling_.queryLength;
        const uint64_t firstPosition = oneHead ? PositionOf(firstRow_) : 0;
        const uint64_t lastPosition = oneHead ? PositionOf(firstRow_ + rowCount_ - 1) : tiling_.queryLength - 1;
        const AttentionRange seen = AttentionKeys(tiling_, firstPosition, lastPosition);
        const uint64_t begin = seen.begin / tiling_.tileCols * tiling_.tileCols;
        const uint64_t end = seen.end;
        // What all rows of the tile see needs no look at each.
        const AttentionRange all{AttentionKeys(tiling_, lastPosition, lastPosition).begin,
                                 AttentionKeys(tiling_, firstPosition, firstPosition).end};
        AscendC::Duplicate(max_, LOWEST_FLOAT, static_cast<int32_t>(tiling_.tileRows));
        AscendC::Duplicate(sum_, 0.0f, static_cast<int32_t>(tiling_.tileRows));
        AscendC::Duplicate(output_, 0.0f, static_cast<int32_t>(rowCount_ * valueStride_));
        uint32_t buffer = 0;
        if (begin < end) {
            StartScores(TileAt(begin, end), buffer);
        }
        for (uint64_t first = begin; first < end; first += tiling_.tileCols) {
            const Tile tile = TileAt(first, end);
            scores.WaitIterateAll();
            if (first + tiling_.tileCols < end) {
                StartScores(TileAt(first + tiling_.tileCols, end), 1 - buffer);
            }
            const bool edges = all.end < first + tile.cols || all.begin > first;
            for (uint32_t row = 0; row < rowCount_; row += tiling_.chunkRows) {
                Probabilities(tile, scoresGm_[buffer], row, edges);
            }
            MultiplyValues(tile);
            for (uint32_t row = 0; row < rowCount_; row += tiling_.chunkRows) {
                AddProduct(row);
            }
            buffer = 1 - buffer;
        }
        Finish();
    }

    __aicore__ inline Tile TileAt(uint64_t first, uint64_t end) const
    {
        const uint64_t left = end - first;
        const uint32_t cols = left < tiling_.tileCols ? static_cast<uint32_t>(left) : tiling_.tileCols;
        return {first, cols, AttentionStride(cols)};
    }

    __aicore__ inline void StartScores(const Tile& tile, uint32_t buffer)
    {
        const uint64_t query = batch_ * tiling_.queryBatch + unit_ * tiling_.queryUnit + firstRow_ * tiling_.queryRow;
        const uint64_t head = unit_ / tiling_.unitsPerKeyHead;
        const uint64_t key = batch_ * tiling_.keyBatch + head * tiling_.keyHead + tile.first * tiling_.keyRow;
        scores.SetOrgShape(static_cast<int>(rowCount_), static_cast<int>(tile.cols), static_cast<int>(tiling_.queryRow),
                           static_cast<int>(tiling_.keyRow), static_cast<int>(tiling_.tileCols));
        scores.SetSingleShape(static_cast<int>(rowCount_), static_cast<int>(tile.cols),
                              static_cast<int>(tiling_.headSize));
        scores.SetTensorA(queryGm_[query]);
        scores.SetTensorB(keyGm_[key], true);
        scores.template IterateAll<false>(scoresGm_[buffer], 0, false, true);
    }

    __aicore__ inline void MultiplyValues(const Tile& tile)
    {
        const uint64_t head = unit_ / tiling_.unitsPerKeyHead;
        const uint64_t value = batch_ * tiling_.valueBatch + head * tiling_.valueHead + tile.first * tiling_.valueRow;
        values.SetOrgShape(static_cast<int>(rowCount_), static_cast<int>(tiling_.valueRow),
                           static_cast<int>(tiling_.tileCols), static_cast<int>(tile.cols),
                           static_cast<int>(tiling_.valueSize));
        values.SetSingleShape(static_cast<int>(rowCount_), static_cast<int>(tiling_.valueSize),
                              static_cast<int>(tile.cols));
        values.SetTensorA(probabilitiesGm_);
        values.SetTensorB(valueGm_[value]);
        values.template IterateAll<false>(productGm_, 0, false, true);
        values.WaitIterateAll();
    }

    __aicore__ inline uint32_t ChunkAt(uint32_t row) const
    {
        const uint32_t left = rowCount_ - row;
        return left < tiling_.chunkRows ? left : tiling_.chunkRows;
    }

    // Probabilities of some rows, relative to their maxima so far, which this tile may raise by `factor_`.
    __aicore__ inline void Probabilities(const Tile& tile, const AscendC::GlobalTensor<float>& from, uint32_t row,
                                         bool edges)
    {
        const uint32_t count = ChunkAt(row);
        const Rows shape{count, tile.cols, tile.stride, tiling_.tileCols};
        const RowBlock block{count, tile.cols, tile.stride};
        const RowBlock padded{count, tile.stride, tile.stride};
        AscendC::LocalTensor<float> z = inQueue_.template AllocTensor<float>();
        LoadRows(z, from[row * tiling_.tileCols], shape, true);
        inQueue_.EnQue(z);
        z = inQueue_.template DeQue<float>();
        AscendC::Muls(z, z, tiling_.scale, static_cast<int32_t>(count * tile.stride));
        mask_.Add(z, block, batch_, unit_ * tiling_.headsOfAUnit, firstRow_ + row, tiling_.queryLength, tile.first);
        if (edges) {
            Hide(z, tile, row, count);
        }
        rows_.template Start<MaxOf>(count, tile.cols);
        rows_.template Fold<MaxOf>(z, 0, block, tile.cols);
        rows_.Maxima(count, tile.cols);
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
        AscendC::Exp(z, z, static_cast<int32_t>(count * tile.stride));
        rows_.template Start<AddOf>(count, tile.cols);
        rows_.template Fold<AddOf>(z, 0, block, tile.cols);
        rows_.Sums(count, tile.cols);
        AscendC::Mul(sum, sum, factor, rows);
        AscendC::Add(sum, sum, rows_.values, rows);
        AscendC::LocalTensor<T> p = outQueue_.template AllocTensor<T>();
        if constexpr (IS_FLOAT<T>) {
            AscendC::Maxs(p, z, 0.0f, static_cast<int32_t>(count * tile.stride));  // a copy
        } else {
            FromFloat(p, z, count * tile.stride);
        }
        inQueue_.FreeTensor(z);
        outQueue_.EnQue(p);
        p = outQueue_.template DeQue<T>();
        StoreRows(probabilitiesGm_[row * tiling_.tileCols], p, shape);
        outQueue_.FreeTensor(p);
    }

    // output = output * factor + product
    __aicore__ inline void AddProduct(uint32_t row)
    {
        const uint32_t count = ChunkAt(row);
        const Rows shape{count, tiling_.valueSize, valueStride_, tiling_.valueSize};
        const RowBlock padded{count, valueStride_, valueStride_};
        AscendC::LocalTensor<float> product = inQueue_.template AllocTensor<float>();
        LoadRows(product, productGm_[row * tiling_.valueSize], shape, true);
        inQueue_.EnQue(product);
        product = inQueue_.template DeQue<float>();
        const AscendC::LocalTensor<float> output = output_[row * valueStride_];
        BroadcastRows(rows_.blocks, factor_[row], count);
        WithRows<MulOf>(output, output, rows_.blocks, padded);
        AscendC::Add(output, output, product, static_cast<int32_t>(count * valueStride_));
        inQueue_.FreeTensor(product);
    }

    // out = output / sum and lse = max + ln(sum). A row that sees nothing is 0, and its lse -inf.
    __aicore__ inline void Finish()
    {
        const int32_t rows = static_cast<int32_t>(tiling_.tileRows);
        AscendC::LocalTensor<float> lse = lseQueue_.template AllocTensor<float>();
        // factor: 1 for rows that see something, else 0.
        AscendC::Adds(factor_, max_, -SEEN_ABOVE, rows);
        AscendC::Muls(factor_, factor_, 1e-37f, rows);
        AscendC::Maxs(factor_, factor_, 0.0f, rows);
        AscendC::Mins(factor_, factor_, 1.0f, rows);
        AscendC::Maxs(sum_, sum_, SMALLEST_SUM, rows);
        AscendC::Ln(lse, sum_, rows);
        AscendC::Add(lse, lse, max_, rows);
        AscendC::Div(sum_, factor_, sum_, rows);
        // lse + (1 - factor) * -2^128, which is -inf where the factor is 0.
        AscendC::Adds(factor_, factor_, -1.0f, rows);
        AscendC::Muls(factor_, factor_, -LOWEST_FLOAT, rows);
        AscendC::Add(lse, lse, factor_, rows);
        AscendC::Add(lse, lse, factor_, rows);
        const uint64_t firstOfUnit = (batch_ * tiling_.unitsPerBatch + unit_) * tiling_.rowsPerUnit;
        lseQueue_.EnQue(lse);
        lse = lseQueue_.template DeQue<float>();
        StoreRows(lseGm_[firstOfUnit + firstRow_], lse, {1, rowCount_, rowCount_, rowCount_});
        lseQueue_.FreeTensor(lse);
        const uint64_t out = batch_ * tiling_.outBatch + unit_ * tiling_.outUnit + firstRow_ * tiling_.outRow;
        for (uint32_t row = 0; row < rowCount_; row += tiling_.chunkRows) {
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
            y = outQueue_.template DeQue<T>();
            StoreRows(outGm_[out + row * tiling_.outRow], y, {count, tiling_.valueSize, valueStride_, tiling_.outRow});
            outQueue_.FreeTensor(y);
        }
    }

    // At the edges of what each row sees.
    __aicore__ inline void Hide(const AscendC::LocalTensor<float>& z, const Tile& tile, uint32_t row, uint32_t count)
    {
        for (uint32_t r = 0; r < count; ++r) {
            const uint64_t position = PositionOf(firstRow_ + row + r);
            edges_.Hide(z[r * tile.stride], AttentionKeys(tiling_, position, position), tile.first, tile.cols);
        }
    }

    static constexpr float SMALLEST_SUM = 1.17549435e-38f;

    FlashAttentionTilingData tiling_;
    AscendC::GlobalTensor<T> queryGm_;
    AscendC::GlobalTensor<T> keyGm_;
    AscendC::GlobalTensor<T> valueGm_;
    AscendC::GlobalTensor<T> outGm_;
    AscendC::GlobalTensor<float> lseGm_;
    AscendC::GlobalTensor<float> scoresGm_[2];
    AscendC::GlobalTensor<T> probabilitiesGm_;
    AscendC::GlobalTensor<float> productGm_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueue_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> outQueue_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> lseQueue_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> outputBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> stateBuf_;
    AscendC::LocalTensor<float> output_;
    AscendC::LocalTensor<float> max_;
    AscendC::LocalTensor<float> sum_;
    AscendC::LocalTensor<float> factor_;
    AttentionEdges edges_;
    AttentionMask<M> mask_;
    RowValues rows_;  // of a chunk
    uint32_t valueStride_ = 0;
    uint64_t batch_ = 0;
    uint64_t unit_ = 0;
    uint64_t firstRow_ = 0;  // of the tile, in its unit
    uint32_t rowCount_ = 0;
};

template <typename T, typename M>
__aicore__ inline void FlashAttentionKernel(GM_ADDR query, GM_ADDR key, GM_ADDR value, GM_ADDR mask, GM_ADDR out,
                                            GM_ADDR lse, GM_ADDR workspace, const FlashAttentionTilingData& tiling)
{
    AscendC::TPipe pipe;
    FlashAttention<T, M> attention;
    REGIST_MATMUL_OBJ(&pipe, AscendC::GetSysWorkSpacePtr(), attention.scores, &tiling.scores, attention.values,
                      &tiling.values);
    attention.Init(query, key, value, mask, out, lse, workspace, tiling, pipe);
    attention.Process();
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_FLASH_ATTENTION_KERNEL_H
