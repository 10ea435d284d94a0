/*!
 * Computes the gradient of attention, with probabilities calculated again: p = exp(scale * query key^T - lse), ds = p *
 * (dout value^T - delta) * scale, dquery = ds key, dkey = ds^T query, dvalue = p^T dout. The kernels say which
 * sequences.
 *
 * Plan: there are two kinds of tasks, which share no output. One is a tile of query rows, which goes over the keys and
 * adds up dquery; the other is a tile of keys, which goes over the queries of all heads that share it and adds up dkey
 * and dvalue, by products of transposes. Products are the cube's, the vector unit makes p and ds of them while the cube
 * calculates the next tile; sums stay in the Unified Buffer in float. Each sum has a fixed order, whatever the number
 * of cores. Bound: the cube, 14 * rows * keys * head size operations.
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_ATTENTION_BACKWARD_H
#define MS_ASCEND_OPS_PRIMITIVES_ATTENTION_BACKWARD_H

#include "kernel_operator.h"
#include "primitives/attention_edges.h"
#include "primitives/attention_mask.h"
#include "primitives/attention_sequence.h"
#include "primitives/dense_attention_tiling.h"
#include "primitives/products.h"
#include "primitives/rows.h"
#include "primitives/tile.h"

namespace ms_ascend_ops {

// M is the type of the mask.
template <typename T, typename M>
class AttentionBackward {
public:
    using Operand = GmMatrix<T>;
    using Transposed = GmMatrix<T, true>;
    using Result = GmMatrix<float>;
    MatmulObject<Operand, Transposed, Result> tiles;  // scores, and dout value^T
    MatmulObject<Operand, Operand, Result> sums;
    MatmulObject<Transposed, Operand, Result> sumsOfTransposes;

    __aicore__ inline void Init(GM_ADDR dout, GM_ADDR query, GM_ADDR key, GM_ADDR value, GM_ADDR lse, GM_ADDR delta,
                                GM_ADDR mask, GM_ADDR dquery, GM_ADDR dkey, GM_ADDR dvalue, GM_ADDR workspace,
                                const AttentionGradTilingData& tiling, AscendC::TPipe& pipe)
    {
        tiling_ = tiling;
        doutGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(dout));
        queryGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(query));
        keyGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(key));
        valueGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(value));
        lseGm_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(lse));
        deltaGm_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(delta));
        dqueryGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(dquery));
        dkeyGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(dkey));
        dvalueGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(dvalue));
        const uint32_t elements = tiling.tileRows * tiling.tileCols;
        CoreWorkspace own(workspace, tiling.workspacePerCore);
        for (uint32_t i = 0; i < 2; ++i) {
            own.Take(scoresGm_[i], elements);
            own.Take(dpGm_[i], elements);
        }
        own.Take(pGm_, elements);
        own.Take(dsGm_, elements);
        own.Take(productGm_[0], tiling.tileRows * tiling.headSize);
        own.Take(productGm_[1], tiling.tileRows * tiling.valueSize);

        keyStride_ = AttentionStride(tiling.headSize);
        valueStride_ = AttentionStride(tiling.valueSize);
        uint32_t stride = keyStride_ < valueStride_ ? valueStride_ : keyStride_;
        stride = stride < tiling.tileCols ? tiling.tileCols : stride;
        pipe.InitBuffer(scoresQueue_, 2, tiling.chunkRows * stride * sizeof(float));
        pipe.InitBuffer(dpQueue_, 2, tiling.chunkRows * tiling.tileCols * sizeof(float));
        pipe.InitBuffer(pQueue_, 2, tiling.chunkRows * tiling.tileCols * sizeof(T));
        pipe.InitBuffer(dsQueue_, 2, tiling.chunkRows * stride * sizeof(T));
        pipe.InitBuffer(sumBuf_, tiling.tileRows * (keyStride_ + valueStride_) * sizeof(float));
        pipe.InitBuffer(rowValuesQueue_, 2, 2 * tiling.tileRows * sizeof(float));
        pipe.InitBuffer(blockBuf_, tiling.chunkRows * AscendC::ONE_BLK_SIZE);
        edges_.Init(pipe);
        mask_.Init(mask, tiling, tiling.chunkRows * tiling.tileCols, pipe);
        firstSum_ = sumBuf_.template Get<float>();
        secondSum_ = firstSum_[tiling.tileRows * keyStride_];
        blocks_ = blockBuf_.template Get<float>();
    }

    // A sequence has these tasks: tiles of queries, and tiles of keys.
    __aicore__ inline uint64_t QueryTasks(const AttentionSequence& sequence) const
    {
        return tiling_.heads * TilesOf(sequence.queryLength);
    }
    __aicore__ inline uint64_t Tasks(const AttentionSequence& sequence) const
    {
        return QueryTasks(sequence) + tiling_.keyHeads * TilesOf(sequence.keyLength);
    }

    __aicore__ inline void Task(const AttentionSequence& sequence, uint64_t task)
    {
        sequence_ = sequence;
        view_ = ViewOf(sequence, tiling_);
        const uint64_t queryTasks = QueryTasks(sequence);
        if (task < queryTasks) {
            QueryTask(task);
        } else {
            KeyTask(task - queryTasks);
        }
    }

    __aicore__ inline void End()
    {
        tiles.End();
        sums.End();
        sumsOfTransposes.End();
    }

private:
    // Describes one head of the sequence: where its tensors begin, and those of the keys that it shares.
    struct Head {
        uint64_t head;
        uint64_t query;
        uint64_t dout;
        uint64_t key;
        uint64_t value;
        uint64_t rows;  // of lse and delta
    };
    // A tile is some queries and some keys.
    struct Tile {
        uint64_t query;
        uint32_t rows;
        uint64_t key;
        uint32_t cols;
        uint32_t stride;  // in the Unified Buffer
    };

    __aicore__ inline Head HeadAt(uint64_t head, uint64_t keyHead) const
    {
        return {head,
                sequence_.query + head * tiling_.queryHead,
                sequence_.out + head * tiling_.outHead,
                sequence_.key + keyHead * tiling_.keyHead,
                sequence_.value + keyHead * tiling_.valueHead,
                sequence_.rows + head * tiling_.rowsPerHead};
    }

    __aicore__ inline uint64_t TilesOf(uint64_t length) const
    {
        return (length + tiling_.tileRows - 1) / tiling_.tileRows;
    }

    __aicore__ inline static uint32_t AtMost(uint64_t left, uint32_t most)
    {
        return left < most ? static_cast<uint32_t>(left) : most;
    }
    __aicore__ inline static Tile TileOf(uint64_t query, uint32_t rows, uint64_t key, uint32_t cols)
    {
        return {query, rows, key, cols, AttentionStride(cols)};
    }

    // A tile of queries goes over the keys that they see.
    __aicore__ inline void QueryTask(uint64_t task)
    {
        const uint64_t queryTiles = TilesOf(view_.queryLength);
        const uint64_t head = task / queryTiles;
        head_ = HeadAt(head, head / tiling_.sharedHeads);
        const uint64_t query = (task - head * queryTiles) * tiling_.tileRows;
        const uint32_t rows = AtMost(view_.queryLength - query, tiling_.tileRows);
        const AttentionRange range = AttentionKeys(view_, query, query + rows - 1);
        AscendC::Duplicate(firstSum_, 0.0f, static_cast<int32_t>(rows * keyStride_));
        LoadRowValues(query, rows);
        uint32_t buffer = 0;
        for (uint64_t key = range.begin; key < range.end; key += tiling_.tileCols) {
            const Tile tile = TileOf(query, rows, key, AtMost(range.end - key, tiling_.tileCols));
            if (key == range.begin) {
                StartTile(tile, buffer);
            }
            WaitForTile();
            if (key + tiling_.tileCols < range.end) {
                const uint64_t next = key + tiling_.tileCols;
                StartTile(TileOf(query, rows, next, AtMost(range.end - next, tiling_.tileCols)), 1 - buffer);
            }
            Differentiate<false>(tile, buffer);
            sums.SetOrgShape(static_cast<int>(rows), static_cast<int>(tiling_.keyRow),
                             static_cast<int>(tiling_.tileCols), static_cast<int>(tile.cols),
                             static_cast<int>(tiling_.headSize));
            sums.SetSingleShape(static_cast<int>(rows), static_cast<int>(tiling_.headSize),
                                static_cast<int>(tile.cols));
            sums.SetTensorA(dsGm_);
            sums.SetTensorB(keyGm_[head_.key + key * tiling_.keyRow]);
            sums.template IterateAll<false>(productGm_[0], 0, false, true);
            sums.WaitIterateAll();
            AddProduct(productGm_[0], rows, tiling_.headSize, firstSum_, keyStride_);
            buffer = 1 - buffer;
        }
        FreeRowValues();
        Store(dqueryGm_[head_.query + query * tiling_.queryRow], firstSum_, rows, tiling_.headSize, keyStride_,
              tiling_.queryRow);
    }

    // A tile of keys goes over the queries that see them, of all heads that share them.
    __aicore__ inline void KeyTask(uint64_t task)
    {
        const uint64_t keyTiles = TilesOf(view_.keyLength);
        const uint64_t keyHead = task / keyTiles;
        const uint64_t key = (task - keyHead * keyTiles) * tiling_.tileRows;
        const uint32_t cols = AtMost(view_.keyLength - key, tiling_.tileRows);
        const AttentionRange range = AttentionQueries(view_, key, key + cols - 1);
        AscendC::Duplicate(firstSum_, 0.0f, static_cast<int32_t>(cols * keyStride_));
        AscendC::Duplicate(secondSum_, 0.0f, static_cast<int32_t>(cols * valueStride_));
        uint32_t buffer = 0;
        for (uint64_t shared = 0; shared < tiling_.sharedHeads; ++shared) {
            head_ = HeadAt(keyHead * tiling_.sharedHeads + shared, keyHead);
            for (uint64_t query = range.begin; query < range.end; query += tiling_.tileRows) {
                const Tile tile = TileOf(query, AtMost(range.end - query, tiling_.tileRows), key, cols);
                if (query == range.begin) {
                    StartTile(tile, buffer);
                }
                WaitForTile();
                if (query + tiling_.tileRows < range.end) {
                    const uint64_t next = query + tiling_.tileRows;
                    StartTile(TileOf(next, AtMost(range.end - next, tiling_.tileRows), key, cols), 1 - buffer);
                }
                LoadRowValues(query, tile.rows);
                Differentiate<true>(tile, buffer);
                FreeRowValues();
                MultiplyTransposed(dsGm_, queryGm_[head_.query + query * tiling_.queryRow], tiling_.queryRow, tile,
                                   tiling_.headSize, productGm_[0]);
                AddProduct(productGm_[0], cols, tiling_.headSize, firstSum_, keyStride_);
                MultiplyTransposed(pGm_, doutGm_[head_.dout + query * tiling_.outRow], tiling_.outRow, tile,
                                   tiling_.valueSize, productGm_[1]);
                AddProduct(productGm_[1], cols, tiling_.valueSize, secondSum_, valueStride_);
                buffer = 1 - buffer;
            }
        }
        head_ = HeadAt(keyHead * tiling_.sharedHeads, keyHead);
        Store(dkeyGm_[head_.key + key * tiling_.keyRow], firstSum_, cols, tiling_.headSize, keyStride_, tiling_.keyRow);
        Store(dvalueGm_[head_.value + key * tiling_.valueRow], secondSum_, cols, tiling_.valueSize, valueStride_,
              tiling_.valueRow);
    }

    // Starts scores and dout value^T of the tile.
    __aicore__ inline void StartTile(const Tile& tile, uint32_t buffer)
    {
        Multiply(queryGm_[head_.query + tile.query * tiling_.queryRow], tiling_.queryRow,
                 keyGm_[head_.key + tile.key * tiling_.keyRow], tiling_.keyRow, tiling_.headSize, tile,
                 scoresGm_[buffer]);
        Multiply(doutGm_[head_.dout + tile.query * tiling_.outRow], tiling_.outRow,
                 valueGm_[head_.value + tile.key * tiling_.valueRow], tiling_.valueRow, tiling_.valueSize, tile,
                 dpGm_[buffer]);
    }
    __aicore__ inline void WaitForTile()
    {
        tiles.WaitIterateAll();
        tiles.WaitIterateAll();
    }

    // Starts result (queries, keys) = a b^T.
    __aicore__ inline void Multiply(const AscendC::GlobalTensor<T>& a, uint64_t aRow, const AscendC::GlobalTensor<T>& b,
                                    uint64_t bRow, uint32_t size, const Tile& tile,
                                    const AscendC::GlobalTensor<float>& result)
    {
        tiles.SetOrgShape(static_cast<int>(tile.rows), static_cast<int>(tile.cols), static_cast<int>(aRow),
                          static_cast<int>(bRow), static_cast<int>(tiling_.tileCols));
        tiles.SetSingleShape(static_cast<int>(tile.rows), static_cast<int>(tile.cols), static_cast<int>(size));
        tiles.SetTensorA(a);
        tiles.SetTensorB(b, true);
        tiles.template IterateAll<false>(result, 0, false, true);
    }

    // Starts result (keys, size) = left^T b, left (queries, keys).
    __aicore__ inline void MultiplyTransposed(const AscendC::GlobalTensor<T>& left, const AscendC::GlobalTensor<T>& b,
                                              uint64_t bRow, const Tile& tile, uint32_t size,
                                              const AscendC::GlobalTensor<float>& result)
    {
        sumsOfTransposes.SetOrgShape(static_cast<int>(tiling_.tileCols), static_cast<int>(bRow),
                                     static_cast<int>(tile.rows), static_cast<int>(tile.rows), static_cast<int>(size));
        sumsOfTransposes.SetSingleShape(static_cast<int>(tile.cols), static_cast<int>(size),
                                        static_cast<int>(tile.rows));
        sumsOfTransposes.SetTensorA(left, true);
        sumsOfTransposes.SetTensorB(b);
        sumsOfTransposes.template IterateAll<false>(result, 0, false, true);
        sumsOfTransposes.WaitIterateAll();
    }

    // lse and delta of queries, in one queue: with a mask's there would be more queues than a position may have.
    __aicore__ inline void LoadRowValues(uint64_t query, uint32_t count)
    {
        lse_ = rowValuesQueue_.template AllocTensor<float>();
        const Rows shape{1, count, count, count};
        LoadRows(lse_, lseGm_[head_.rows + query], shape, true);
        LoadRows(lse_[tiling_.tileRows], deltaGm_[head_.rows + query], shape, true);
        rowValuesQueue_.EnQue(lse_);
        lse_ = rowValuesQueue_.template DeQue<float>();
        delta_ = lse_[tiling_.tileRows];
    }
    __aicore__ inline void FreeRowValues() { rowValuesQueue_.FreeTensor(lse_); }

    __aicore__ inline uint32_t ChunkAt(uint32_t row, uint32_t rows) const
    {
        return AtMost(rows - row, tiling_.chunkRows);
    }

    // Computes ds of the tile, and with STORES_P p.
    template <bool STORES_P>
    __aicore__ inline void Differentiate(const Tile& tile, uint32_t buffer)
    {
        for (uint32_t row = 0; row < tile.rows; row += tiling_.chunkRows) {
            DifferentiateRows<STORES_P>(tile, buffer, row, ChunkAt(row, tile.rows));
        }
    }

    template <bool STORES_P>
    __aicore__ inline void DifferentiateRows(const Tile& tile, uint32_t buffer, uint32_t row, uint32_t count)
    {
        const int32_t elements = static_cast<int32_t>(count * tile.stride);
        const Rows shape{count, tile.cols, tile.stride, tiling_.tileCols};
        const RowBlock block{count, tile.cols, tile.stride};
        const RowBlock padded{count, tile.stride, tile.stride};
        AscendC::LocalTensor<float> z = scoresQueue_.template AllocTensor<float>();
        AscendC::LocalTensor<float> dp = dpQueue_.template AllocTensor<float>();
        LoadRows(z, scoresGm_[buffer][row * tiling_.tileCols], shape, true);
        LoadRows(dp, dpGm_[buffer][row * tiling_.tileCols], shape, true);
        scoresQueue_.EnQue(z);
        dpQueue_.EnQue(dp);
        z = scoresQueue_.template DeQue<float>();
        dp = dpQueue_.template DeQue<float>();
        AscendC::Muls(z, z, tiling_.scale, elements);
        mask_.Add(z, block, sequence_.batch, head_.head, tile.query + row, view_.queryLength, tile.key);
        for (uint32_t r = 0; r < count; ++r) {
            const uint64_t position = tile.query + row + r;
            edges_.Hide(z[r * tile.stride], AttentionKeys(view_, position, position), tile.key, tile.cols);
        }
        BroadcastRows(blocks_, lse_[row], count);
        WithRows<SubOf>(z, z, blocks_, padded);
        BroadcastRows(blocks_, delta_[row], count);
        WithRows<SubOf>(dp, dp, blocks_, padded);
        AscendC::Exp(z, z, elements);
        if constexpr (STORES_P) {
            StoreTile(pQueue_, pGm_, z, shape, row);
        }
        AscendC::Mul(dp, dp, z, elements);
        scoresQueue_.FreeTensor(z);
        AscendC::Muls(dp, dp, tiling_.scale, elements);
        StoreTile(dsQueue_, dsGm_, dp, shape, row);
        dpQueue_.FreeTensor(dp);
    }

    template <class QUEUE>
    __aicore__ inline void StoreTile(QUEUE& queue, const AscendC::GlobalTensor<T>& gm,
                                     const AscendC::LocalTensor<float>& from, const Rows& shape, uint32_t row)
    {
        AscendC::LocalTensor<T> local = queue.template AllocTensor<T>();
        Round(local, from, shape.rows * shape.ubStride);
        StoreQueued(queue, gm[row * tiling_.tileCols], local, shape);
    }

    __aicore__ inline static void Round(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<float>& src,
                                        uint32_t count)
    {
        if constexpr (IS_FLOAT<T>) {
            AscendC::Muls(dst, src, 1.0f, static_cast<int32_t>(count));  // a copy
        } else {
            FromFloat(dst, src, count);
        }
    }

    // Adds product to sum (rows, size).
    __aicore__ inline void AddProduct(const AscendC::GlobalTensor<float>& from, uint32_t rows, uint32_t size,
                                      const AscendC::LocalTensor<float>& sum, uint32_t stride)
    {
        for (uint32_t row = 0; row < rows; row += tiling_.chunkRows) {
            const uint32_t count = ChunkAt(row, rows);
            AscendC::LocalTensor<float> product = scoresQueue_.template AllocTensor<float>();
            LoadRows(product, from[row * size], {count, size, stride, size}, true);
            scoresQueue_.EnQue(product);
            product = scoresQueue_.template DeQue<float>();
            AscendC::Add(sum[row * stride], sum[row * stride], product, static_cast<int32_t>(count * stride));
            scoresQueue_.FreeTensor(product);
        }
    }

    __aicore__ inline void Store(const AscendC::GlobalTensor<T>& gm, const AscendC::LocalTensor<float>& sum,
                                 uint32_t rows, uint32_t size, uint32_t stride, uint64_t gmRow)
    {
        for (uint32_t row = 0; row < rows; row += tiling_.chunkRows) {
            const uint32_t count = ChunkAt(row, rows);
            AscendC::LocalTensor<T> local = dsQueue_.template AllocTensor<T>();
            Round(local, sum[row * stride], count * stride);
            StoreQueued(dsQueue_, gm[row * gmRow], local, {count, size, stride, gmRow});
        }
    }

    AttentionGradTilingData tiling_;
    AscendC::GlobalTensor<T> doutGm_;
    AscendC::GlobalTensor<T> queryGm_;
    AscendC::GlobalTensor<T> keyGm_;
    AscendC::GlobalTensor<T> valueGm_;
    AscendC::GlobalTensor<float> lseGm_;
    AscendC::GlobalTensor<float> deltaGm_;
    AscendC::GlobalTensor<T> dqueryGm_;
    AscendC::GlobalTensor<T> dkeyGm_;
    AscendC::GlobalTensor<T> dvalueGm_;
    AscendC::GlobalTensor<float> scoresGm_[2];
    AscendC::GlobalTensor<float> dpGm_[2];
    AscendC::GlobalTensor<T> pGm_;
    AscendC::GlobalTensor<T> dsGm_;
    AscendC::GlobalTensor<float> productGm_[2];  // that of dvalue may follow that of dkey at once
    AscendC::TQue<AscendC::TPosition::VECIN, 1> scoresQueue_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> dpQueue_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> rowValuesQueue_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> pQueue_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> dsQueue_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> sumBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> blockBuf_;
    AscendC::LocalTensor<float> firstSum_;   // dquery or dkey
    AscendC::LocalTensor<float> secondSum_;  // dvalue
    AscendC::LocalTensor<float> blocks_;
    AscendC::LocalTensor<float> lse_;
    AscendC::LocalTensor<float> delta_;
    AttentionEdges edges_;
    AttentionMask<M> mask_;
    uint32_t keyStride_ = 0;
    uint32_t valueStride_ = 0;
    AttentionSequence sequence_{};
    AttentionView view_{};
    Head head_;
};

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_ATTENTION_BACKWARD_H
