/*!
 * Computes attention with an online softmax: out = softmax(scale * query key^T) value, and the log-sum-exp of the
 * scores, where the kernels say which sequences and which rows of them.
 *
 * Plan: a task is a tile of query rows. For one tile of keys after the other the cube calculates scores, the vector
 * unit makes probabilities of them, exp(score - maximum so far), the cube multiplies those with the values, and the
 * vector unit adds the product to the output, which stays in the Unified Buffer in float and is scaled when the maximum
 * grows. While the vector unit works on a tile of scores, the cube calculates the next. Between the two units tiles go
 * through the workspace, as they share global memory only. Keys that no row of a tile may see are left out; at the
 * edges of what each row sees scores become the lowest that counts as none. Bound: the cube, 4 * rows * keys * head
 * size operations; with few rows memory, keys and values once.
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_ATTENTION_FORWARD_H
#define MS_ASCEND_OPS_PRIMITIVES_ATTENTION_FORWARD_H

#include "kernel_operator.h"
#include "primitives/attention_edges.h"
#include "primitives/attention_mask.h"
#include "primitives/attention_memory.h"
#include "primitives/attention_sequence.h"
#include "primitives/dense_attention_tiling.h"
#include "primitives/online_softmax.h"
#include "primitives/products.h"
#include "primitives/tile.h"

namespace ms_ascend_ops {

// M is the type of the mask.
template <typename T, typename M>
class AttentionForward {
public:
    using Operand = GmMatrix<T>;
    using Transposed = GmMatrix<T, true>;
    using Result = GmMatrix<float>;
    MatmulObject<Operand, Transposed, Result> scores;
    MatmulObject<Operand, Operand, Result> values;

    __aicore__ inline void Init(GM_ADDR query, GM_ADDR key, GM_ADDR value, GM_ADDR mask, GM_ADDR out, GM_ADDR lse,
                                GM_ADDR workspace, const AttentionTilingData& tiling, AscendC::TPipe& pipe)
    {
        tiling_ = tiling;
        gm_.SetTensors(query, key, value, out);
        lseGm_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(lse));
        CoreWorkspace own(workspace, tiling.workspacePerCore);
        gm_.TakeTiles(own, tiling);

        softmax_.Init(tiling, pipe);
        pipe.InitBuffer(lseQueue_, 1, tiling.tileRows * sizeof(float));
        edges_.Init(pipe);
        mask_.Init(mask, tiling, tiling.chunkRows * tiling.tileCols, pipe);
    }

    // Computes the tile of rows from `firstRow` on of a head group, which has `rowsPerHeadGroup` of them.
    __aicore__ inline void Tile(const AttentionSequence& sequence, uint64_t headGroup, uint64_t firstRow,
                                uint64_t rowsPerHeadGroup)
    {
        sequence_ = sequence;
        headGroup_ = headGroup;
        firstRow_ = firstRow;
        const uint64_t left = rowsPerHeadGroup - firstRow;
        rowCount_ = left < tiling_.tileRows ? static_cast<uint32_t>(left) : tiling_.tileRows;
        view_ = ViewOf(sequence, tiling_);
        Attend();
    }

    __aicore__ inline void End()
    {
        scores.End();
        values.End();
    }

private:
    // A tile of columns is multiplied and masked by these.
    struct Columns {
        uint64_t first;  // key
        uint32_t cols;
        uint32_t stride;  // in the Unified Buffer
    };

    // Returns a row's position among the queries of its head.
    __aicore__ inline uint64_t PositionOf(uint64_t row) const
    {
        return row < view_.queryLength ? row : row % view_.queryLength;
    }

    __aicore__ inline void Attend()
    {
        // A tile with rows of several heads takes all keys that any of its queries sees.
        const bool oneHead = firstRow_ / view_.queryLength == (firstRow_ + rowCount_ - 1) / view_.queryLength;
        const uint64_t firstPosition = oneHead ? PositionOf(firstRow_) : 0;
        const uint64_t lastPosition = oneHead ? PositionOf(firstRow_ + rowCount_ - 1) : view_.queryLength - 1;
        const AttentionRange seen = AttentionKeys(view_, firstPosition, lastPosition);
        const uint64_t begin = seen.begin / tiling_.tileCols * tiling_.tileCols;
        const uint64_t end = seen.end;
        // Keys that all rows of the tile see need no mask.
        const AttentionRange all{AttentionKeys(view_, lastPosition, lastPosition).begin,
                                 AttentionKeys(view_, firstPosition, firstPosition).end};
        softmax_.Start(rowCount_);
        uint32_t buffer = 0;
        if (begin < end) {
            StartScores(ColumnsAt(begin, end), buffer);
        }
        for (uint64_t first = begin; first < end; first += tiling_.tileCols) {
            const Columns tile = ColumnsAt(first, end);
            scores.WaitIterateAll();
            if (first + tiling_.tileCols < end) {
                StartScores(ColumnsAt(first + tiling_.tileCols, end), 1 - buffer);
            }
            const bool edges = all.end < first + tile.cols || all.begin > first;
            for (uint32_t row = 0; row < rowCount_; row += tiling_.chunkRows) {
                Probabilities(tile, gm_.scores[buffer], row, edges);
            }
            MultiplyValues(tile);
            for (uint32_t row = 0; row < rowCount_; row += tiling_.chunkRows) {
                softmax_.AddProduct(gm_.product, row);
            }
            buffer = 1 - buffer;
        }
        Finish();
    }

    __aicore__ inline Columns ColumnsAt(uint64_t first, uint64_t end) const
    {
        const uint64_t left = end - first;
        const uint32_t cols = left < tiling_.tileCols ? static_cast<uint32_t>(left) : tiling_.tileCols;
        return {first, cols, AttentionStride(cols)};
    }

    __aicore__ inline void StartScores(const Columns& tile, uint32_t buffer)
    {
        const uint64_t query = sequence_.query + headGroup_ * tiling_.queryHeadGroup + firstRow_ * tiling_.queryRow;
        const uint64_t head = headGroup_ / tiling_.headGroupsPerKeyHead;
        const uint64_t key = sequence_.key + head * tiling_.keyHead + tile.first * tiling_.keyRow;
        scores.SetOrgShape(static_cast<int>(rowCount_), static_cast<int>(tile.cols), static_cast<int>(tiling_.queryRow),
                           static_cast<int>(tiling_.keyRow), static_cast<int>(tiling_.tileCols));
        scores.SetSingleShape(static_cast<int>(rowCount_), static_cast<int>(tile.cols),
                              static_cast<int>(tiling_.headSize));
        scores.SetTensorA(gm_.query[query]);
        scores.SetTensorB(gm_.key[key], true);
        scores.template IterateAll<false>(gm_.scores[buffer], 0, false, true);
    }

    __aicore__ inline void MultiplyValues(const Columns& tile)
    {
        const uint64_t head = headGroup_ / tiling_.headGroupsPerKeyHead;
        const uint64_t value = sequence_.value + head * tiling_.valueHead + tile.first * tiling_.valueRow;
        values.SetOrgShape(static_cast<int>(rowCount_), static_cast<int>(tiling_.valueRow),
                           static_cast<int>(tiling_.tileCols), static_cast<int>(tile.cols),
                           static_cast<int>(tiling_.valueSize));
        values.SetSingleShape(static_cast<int>(rowCount_), static_cast<int>(tiling_.valueSize),
                              static_cast<int>(tile.cols));
        values.SetTensorA(gm_.probabilities);
        values.SetTensorB(gm_.value[value]);
        values.template IterateAll<false>(gm_.product, 0, false, true);
        values.WaitIterateAll();
    }

    __aicore__ inline void Probabilities(const Columns& tile, const AscendC::GlobalTensor<float>& from, uint32_t row,
                                         bool edges)
    {
        const uint32_t count = softmax_.ChunkAt(row);
        const AscendC::LocalTensor<float> z = softmax_.Scores(from, row, tile.cols, tiling_.scale);
        mask_.Add(z, {count, tile.cols, tile.stride}, sequence_.batch, headGroup_ * tiling_.headsPerHeadGroup,
                  firstRow_ + row, view_.queryLength, tile.first);
        if (edges) {
            Hide(z, tile, row, count);
        }
        softmax_.Probabilities(z, gm_.probabilities, row, tile.cols);
    }

    __aicore__ inline void Finish()
    {
        AscendC::LocalTensor<float> lse = lseQueue_.template AllocTensor<float>();
        softmax_.LogSums(lse);
        StoreQueued(lseQueue_, lseGm_[sequence_.rows + headGroup_ * tiling_.rowsPerHeadGroup + firstRow_], lse,
                    {1, rowCount_, rowCount_, rowCount_});
        softmax_.InvertSums();
        const uint64_t out = sequence_.out + headGroup_ * tiling_.outHeadGroup + firstRow_ * tiling_.outRow;
        for (uint32_t row = 0; row < rowCount_; row += tiling_.chunkRows) {
            AscendC::LocalTensor<T> y = softmax_.Result(row);
            StoreRows(gm_.out[out + row * tiling_.outRow], y,
                      {softmax_.ChunkAt(row), tiling_.valueSize, softmax_.ValueStride(), tiling_.outRow});
            softmax_.Free(y);
        }
    }

    // Hides keys at the edges of the range that each row sees.
    __aicore__ inline void Hide(const AscendC::LocalTensor<float>& z, const Columns& tile, uint32_t row, uint32_t count)
    {
        for (uint32_t r = 0; r < count; ++r) {
            const uint64_t position = PositionOf(firstRow_ + row + r);
            edges_.Hide(z[r * tile.stride], AttentionKeys(view_, position, position), tile.first, tile.cols);
        }
    }

    AttentionTilingData tiling_;
    AttentionMemory<T> gm_;
    AscendC::GlobalTensor<float> lseGm_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> lseQueue_;
    OnlineSoftmax<T> softmax_;
    AttentionEdges edges_;
    AttentionMask<M> mask_;
    AttentionSequence sequence_{};
    AttentionView view_{};
    uint64_t headGroup_ = 0;
    uint64_t firstRow_ = 0;  // of the tile, in its head group
    uint32_t rowCount_ = 0;
};

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_ATTENTION_FORWARD_H
