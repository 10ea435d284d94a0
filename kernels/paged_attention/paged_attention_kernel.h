/*!
 * Computes attention over a paged cache: out = softmax(scale * query keys^T) values, with the keys and values that the
 * block table of a sequence names, as many as its length says. The last query stands at the last of them and sees all,
 * or as many as a window has, those before it up to one less each. With a soft cap c the softmax is of c * tanh(score /
 * c).
 *
 * Plan: it is that of flash_attention. A task is a tile of query rows: tokens of a sequence, and of each the heads that
 * share one key head; of a single token those of several key heads, whose keys lie side by side in the cache, so that a
 * block is read as a whole and the vector unit has rows enough. A tile of keys is multiplied in runs of slots that
 * follow each other in the cache, each by one product a key head: blocks with consecutive numbers are one matrix, whose
 * rows are all key heads apart. Rows of several tokens are first brought into a matrix of their own. Lengths and block
 * numbers are looked at before anything is read by them; a wrong one stops the kernel. Where sequences and key heads
 * are fewer than a chip's cores, a context is split (flash decoding, Dao et al., 2023): each part leaves its sums in
 * the workspace, and once all have, the parts of a tile are added up in their order. A context that is one part is
 * finished at once. Bound: memory, keys and values once for each tile of queries.
 */
#ifndef MS_ASCEND_OPS_PAGED_ATTENTION_KERNEL_H
#define MS_ASCEND_OPS_PAGED_ATTENTION_KERNEL_H

#include "kernel_operator.h"
#include "paged_attention_tiling.h"
#include "primitives/attention_edges.h"
#include "primitives/attention_memory.h"
#include "primitives/ones.h"
#include "primitives/online_softmax.h"
#include "primitives/products.h"
#include "primitives/tile.h"

namespace ms_ascend_ops {

template <typename T>
class PagedAttention {
public:
    using Operand = GmMatrix<T>;
    using Transposed = GmMatrix<T, true>;
    using Result = GmMatrix<float>;
    MatmulObject<Operand, Transposed, Result> scores;
    MatmulObject<Operand, Operand, Result> values;

    __aicore__ inline void Init(GM_ADDR query, GM_ADDR keyCache, GM_ADDR valueCache, GM_ADDR blockTables,
                                GM_ADDR contextLengths, GM_ADDR out, GM_ADDR workspace,
                                const PagedAttentionTilingData& tiling, AscendC::TPipe& pipe)
    {
        tiling_ = tiling;
        gm_.SetTensors(query, keyCache, valueCache, out);
        tableGm_.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t*>(blockTables));
        lengthGm_.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t*>(contextLengths));
        CoreWorkspace own(workspace, tiling.workspacePerCore);
        gm_.TakeTiles(own, tiling);
        own.Take(tileQueryGm_, tiling.tileRows * tiling.headSize);
        partsGm_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(workspace + tiling.sharedWorkspace));
        softmax_.Init(tiling, pipe);
        if (tiling.parts > 1) {
            softmax_.InitParts(pipe);
        }
        edges_.Init(pipe);
        ones_ = BlockOfOnes(onesBuf_, pipe);
        if (tiling.tokens > 1) {
            pipe.InitBuffer(queryQueue_, 1, tiling.chunkRows * AttentionStride(tiling.headSize) * sizeof(T));
        }
    }

    __aicore__ inline void Process()
    {
        const uint64_t core = AscendC::GetBlockIdx();  // groups of cores may be one more than there is work for
        for (uint64_t task = core < tiling_.cores ? core : tiling_.tasks; task < tiling_.tasks; task += tiling_.cores) {
            const uint64_t part = task / tiling_.tiles;  // first parts first: others may have no keys
            const uint64_t tile = task - part * tiling_.tiles;
            Begin(tile);
            if (part >= usedParts_) {
                continue;
            }
            softmax_.Start(rowCount_);
            Attend(part);
            if (usedParts_ == 1) {
                Finish();
            } else {
                softmax_.StorePart(PartOf(tile, part));
            }
        }
        scores.End();
        values.End();
        if (!IsSplit()) {
            return;
        }
        AscendC::SyncAll();
        for (uint64_t tile = core < tiling_.cores ? core : tiling_.tiles; tile < tiling_.tiles; tile += tiling_.cores) {
            Begin(tile);
            if (usedParts_ == 1) {
                continue;
            }
            softmax_.Start(rowCount_);
            for (uint64_t part = 0; part < usedParts_; ++part) {
                softmax_.AddPart(PartOf(tile, part));
            }
            Finish();
        }
    }

private:
    static constexpr uint64_t PART_STEP = 128;

    // These slots follow each other in the cache.
    struct Run {
        uint64_t slot;
        uint32_t count;
    };
    // AttentionKeys() reads these.
    struct View {
        uint64_t queryLength;
        uint64_t keyLength;
        uint64_t window;
        uint32_t causal;
    };

    static __aicore__ inline uint32_t AtMost(uint64_t left, uint32_t most)
    {
        return left < most ? static_cast<uint32_t>(left) : most;
    }

    __aicore__ inline AscendC::GlobalTensor<float> PartOf(uint64_t tile, uint64_t part) const
    {
        return partsGm_[(tile * tiling_.parts + part) *
                        OnlineSoftmax<T>::PartSize(tiling_.tileRows, tiling_.valueSize)];
    }

    // Begins a tile of queries, and finds the keys that it sees.
    __aicore__ inline void Begin(uint64_t tile)
    {
        const uint64_t tokenTile = tile % tiling_.tokenTiles;
        const uint64_t group = tile / tiling_.tokenTiles;
        const uint64_t headTile = group % tiling_.headTiles;
        const uint64_t keyTile = group / tiling_.headTiles;
        batch_ = keyTile / tiling_.keyTiles;
        keyHead_ = (keyTile - batch_ * tiling_.keyTiles) * tiling_.tileKeyHeads;
        keyHeadCount_ = AtMost(tiling_.keyHeads - keyHead_, tiling_.tileKeyHeads);
        firstToken_ = tokenTile * tiling_.tileTokens;
        tokenCount_ = AtMost(tiling_.tokens - firstToken_, tiling_.tileTokens);
        firstHead_ = headTile * tiling_.tileHeads;
        productRows_ = tokenCount_ * AtMost(tiling_.sharedHeads - firstHead_, tiling_.tileHeads);
        firstHead_ += keyHead_ * tiling_.sharedHeads;
        rowCount_ = productRows_ * keyHeadCount_;
        headCount_ = rowCount_ / tokenCount_;
        view_ = {tiling_.tokens, LengthOf(batch_), tiling_.window, 1};
        seen_ = AttentionKeys(view_, firstToken_, firstToken_ + tokenCount_ - 1);
        const uint64_t keys = AttentionBehind(seen_.end, seen_.begin);
        partKeys_ = PartKeys(keys);
        usedParts_ = keys <= partKeys_ ? 1 : (keys + partKeys_ - 1) / partKeys_;
    }

    __aicore__ inline uint64_t LengthOf(uint64_t batch) const
    {
        const int32_t length = lengthGm_.GetValue(batch);
        if (length < 0 || static_cast<uint64_t>(length) > tiling_.tableBlocks * tiling_.blockSize) {
            AscendC::Trap();
        }
        return static_cast<uint64_t>(length);
    }

    // Each part has so many keys; the last has what is left. Whole blocks of the usual sizes.
    __aicore__ inline uint64_t PartKeys(uint64_t seen) const
    {
        const uint64_t even = (seen / tiling_.parts + PART_STEP) / PART_STEP * PART_STEP;
        return tiling_.parts == 1 ? seen : (even < tiling_.leastPart ? tiling_.leastPart : even);
    }

    // Is the context of any sequence split? All cores ask the same.
    __aicore__ inline bool IsSplit() const
    {
        const uint64_t batches = tiling_.tiles / (tiling_.keyTiles * tiling_.headTiles * tiling_.tokenTiles);
        for (uint64_t batch = 0; tiling_.parts > 1 && batch < batches; ++batch) {
            const uint64_t length = LengthOf(batch);
            if (length > PartKeys(length) || (tiling_.window != 0 && length > tiling_.leastPart)) {
                return true;
            }
        }
        return false;
    }

    // Adds up one part of the context.
    __aicore__ inline void Attend(uint64_t part)
    {
        const uint64_t begin = seen_.begin + part * partKeys_;
        const uint64_t end = begin + partKeys_ < seen_.end ? begin + partKeys_ : seen_.end;
        const uint64_t lastToken = firstToken_ + tokenCount_ - 1;
        const AttentionRange seenByAll{AttentionKeys(view_, lastToken, lastToken).begin,
                                       AttentionKeys(view_, firstToken_, firstToken_).end};
        uint32_t buffer = 0;
        if (begin < end) {
            GatherQuery();
            StartScores(begin, AtMost(end - begin, tiling_.tileCols), buffer);
        }
        for (uint64_t first = begin; first < end; first += tiling_.tileCols) {
            const uint32_t cols = AtMost(end - first, tiling_.tileCols);
            scores.WaitIterateAll();
            if (first + cols < end) {
                StartScores(first + cols, AtMost(end - first - cols, tiling_.tileCols), 1 - buffer);
            }
            for (uint32_t row = 0; row < rowCount_; row += tiling_.chunkRows) {
                const AscendC::LocalTensor<float> z = softmax_.Scores(gm_.scores[buffer], row, cols, tiling_.scale);
                if (tiling_.softcap > 0.0f) {
                    Cap(z, static_cast<int32_t>(softmax_.ChunkAt(row) * AttentionStride(cols)));
                }
                if (first < seenByAll.begin || first + cols > seenByAll.end) {
                    Hide(z, row, first, cols);
                }
                softmax_.Probabilities(z, gm_.probabilities, row, cols);
            }
            MultiplyValues(first, cols);
            for (uint32_t row = 0; row < rowCount_; row += tiling_.chunkRows) {
                softmax_.AddProduct(gm_.product, row);
            }
            buffer = 1 - buffer;
        }
    }

    // Returns where row `row` of the tile is in a tensor of `size` elements a head.
    __aicore__ inline uint64_t PlaceOf(uint32_t row, uint32_t size) const
    {
        const uint64_t token = row / headCount_;
        return ((batch_ * tiling_.tokens + firstToken_ + token) * tiling_.heads + firstHead_ + row % headCount_) * size;
    }

    // Finds rows from `row` on, `most` at most, that are evenly apart in such a tensor: of one token, or one of each.
    __aicore__ inline Rows EvenRows(uint32_t row, uint32_t most, uint32_t size) const
    {
        const uint32_t stride = AttentionStride(size);
        if (headCount_ == 1) {
            return {most, size, stride, tiling_.heads * size};
        }
        const uint32_t left = headCount_ - row % headCount_;
        return {left < most ? left : most, size, stride, size};
    }

    // Copies the rows of several tokens into one matrix.
    __aicore__ inline void GatherQuery()
    {
        if (tiling_.tokens == 1) {
            return;
        }
        const uint32_t stride = AttentionStride(tiling_.headSize);
        for (uint32_t row = 0; row < rowCount_; row += tiling_.chunkRows) {
            const uint32_t count = softmax_.ChunkAt(row);
            AscendC::LocalTensor<T> local = queryQueue_.template AllocTensor<T>();
            for (uint32_t r = 0; r < count;) {
                const Rows rows = EvenRows(row + r, count - r, tiling_.headSize);
                LoadRows(local[r * stride], gm_.query[PlaceOf(row + r, tiling_.headSize)], rows);
                r += rows.rows;
            }
            StoreQueued(queryQueue_, tileQueryGm_[row * tiling_.headSize], local,
                        {count, tiling_.headSize, stride, tiling_.headSize});
        }
    }

    __aicore__ inline uint64_t BlockAt(uint64_t index) const
    {
        const int32_t block = tableGm_.GetValue(batch_ * tiling_.tableBlocks + index);
        if (block < 0 || static_cast<uint64_t>(block) >= tiling_.blocks) {
            AscendC::Trap();
        }
        return static_cast<uint64_t>(block);
    }

    // Finds the longest run from position `position` of the sequence on, of `most` slots at most.
    __aicore__ inline Run RunAt(uint64_t position, uint32_t most) const
    {
        uint64_t index = position / tiling_.blockSize;
        const uint64_t offset = position - index * tiling_.blockSize;
        uint64_t block = BlockAt(index);
        const uint64_t slot = block * tiling_.blockSize + offset;
        uint64_t count = tiling_.blockSize - offset;
        while (count < most) {
            const uint64_t next = BlockAt(++index);
            if (next != ++block) {
                break;
            }
            count += tiling_.blockSize;
        }
        return {slot, AtMost(count, most)};
    }

    // Starts the scores of `cols` keys from position `first` on.
    __aicore__ inline void StartScores(uint64_t first, uint32_t cols, uint32_t buffer)
    {
        const uint64_t stride = tiling_.keyHeads * tiling_.headSize;
        for (uint32_t col = 0; col < cols;) {
            const Run run = RunAt(first + col, AtMost(cols - col, tiling_.runSlots));
            scores.SetOrgShape(static_cast<int>(productRows_), static_cast<int>(run.count),
                               static_cast<int>(tiling_.headSize), static_cast<int>(stride),
                               static_cast<int>(tiling_.tileCols));
            scores.SetSingleShape(static_cast<int>(productRows_), static_cast<int>(run.count),
                                  static_cast<int>(tiling_.headSize));
            const uint64_t keys = run.slot * stride + keyHead_ * tiling_.headSize;
            const uint32_t end = col + run.count;
            for (uint32_t head = 0; head < keyHeadCount_; ++head) {
                const uint32_t row = head * productRows_;
                scores.SetTensorA(tiling_.tokens == 1 ? gm_.query[PlaceOf(row, tiling_.headSize)] : tileQueryGm_);
                scores.SetTensorB(gm_.key[keys + head * tiling_.headSize], true);
                const bool last = end == cols && head + 1 == keyHeadCount_;  // in order: the last is waited for
                scores.template IterateAll<false>(gm_.scores[buffer][row * tiling_.tileCols + col], 0, false, last);
            }
            col = end;
        }
    }

    __aicore__ inline void MultiplyValues(uint64_t first, uint32_t cols)
    {
        const uint64_t stride = tiling_.keyHeads * tiling_.valueSize;
        for (uint32_t col = 0; col < cols;) {
            const Run run = RunAt(first + col, AtMost(cols - col, tiling_.runSlots));
            values.SetOrgShape(static_cast<int>(productRows_), static_cast<int>(stride),
                               static_cast<int>(tiling_.tileCols), static_cast<int>(run.count),
                               static_cast<int>(tiling_.valueSize));
            values.SetSingleShape(static_cast<int>(productRows_), static_cast<int>(tiling_.valueSize),
                                  static_cast<int>(run.count));
            for (uint32_t head = 0; head < keyHeadCount_; ++head) {
                const uint32_t row = head * productRows_;
                values.SetTensorA(gm_.probabilities[row * tiling_.tileCols + col]);
                values.SetTensorB(gm_.value[run.slot * stride + (keyHead_ + head) * tiling_.valueSize]);
                values.template IterateAll<false>(gm_.product[row * tiling_.valueSize], col == 0 ? 0 : 1, false,
                                                  head + 1 == keyHeadCount_);
            }
            values.WaitIterateAll();  // each run adds to what the one before has written
            col += run.count;
        }
    }

    // c * tanh(z / c) = c - 2 c / (exp(2 z / c) + 1), whose error is that of rounding a score of c. An infinite exp
    // gives c, and NaN stays what it is.
    __aicore__ inline void Cap(const AscendC::LocalTensor<float>& z, int32_t count) const
    {
        AscendC::Muls(z, z, 2.0f / tiling_.softcap, count);
        AscendC::Exp(z, z, count);
        AscendC::Adds(z, z, 1.0f, count);
        OneOver(z, ones_, z, count);
        AscendC::Muls(z, z, -2.0f * tiling_.softcap, count);
        AscendC::Adds(z, z, tiling_.softcap, count);
    }

    // Hides keys behind each row's token, and in front of its window.
    __aicore__ inline void Hide(const AscendC::LocalTensor<float>& z, uint32_t row, uint64_t first, uint32_t cols)
    {
        const uint32_t count = softmax_.ChunkAt(row);
        for (uint32_t r = 0; r < count; ++r) {
            const uint64_t token = firstToken_ + (row + r) / headCount_;
            edges_.Hide(z[r * AttentionStride(cols)], AttentionKeys(view_, token, token), first, cols);
        }
    }

    __aicore__ inline void Finish()
    {
        softmax_.InvertSums();
        const uint32_t stride = softmax_.ValueStride();
        for (uint32_t row = 0; row < rowCount_; row += tiling_.chunkRows) {
            const uint32_t count = softmax_.ChunkAt(row);
            AscendC::LocalTensor<T> y = softmax_.Result(row);
            for (uint32_t r = 0; r < count;) {
                const Rows rows = EvenRows(row + r, count - r, tiling_.valueSize);
                StoreRows(gm_.out[PlaceOf(row + r, tiling_.valueSize)], y[r * stride], rows);
                r += rows.rows;
            }
            softmax_.Free(y);
        }
    }

    PagedAttentionTilingData tiling_;
    AttentionMemory<T> gm_;
    AscendC::GlobalTensor<int32_t> tableGm_;
    AscendC::GlobalTensor<int32_t> lengthGm_;
    AscendC::GlobalTensor<T> tileQueryGm_;
    AscendC::GlobalTensor<float> partsGm_;
    AscendC::TQueBind<AscendC::TPosition::VECIN, AscendC::TPosition::VECOUT, 1> queryQueue_;
    OnlineSoftmax<T> softmax_;
    AttentionEdges edges_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> onesBuf_;
    AscendC::LocalTensor<float> ones_;
    View view_{};
    AttentionRange seen_{};   // keys of the tile's tokens
    uint64_t partKeys_ = 0;   // of a part
    uint64_t usedParts_ = 0;  // the first ones, at least one; others have no keys
    uint64_t batch_ = 0;
    uint64_t keyHead_ = 0;
    uint64_t firstToken_ = 0;  // of the tile
    uint64_t firstHead_ = 0;
    uint32_t tokenCount_ = 0;
    uint32_t keyHeadCount_ = 0;
    uint32_t productRows_ = 0;  // of a key head
    uint32_t headCount_ = 0;    // of all of them
    uint32_t rowCount_ = 0;
};

template <typename T>
__aicore__ inline void PagedAttentionKernel(GM_ADDR query, GM_ADDR keyCache, GM_ADDR valueCache, GM_ADDR blockTables,
                                            GM_ADDR contextLengths, GM_ADDR out, GM_ADDR workspace,
                                            const PagedAttentionTilingData& tiling)
{
    AscendC::TPipe pipe;
    PagedAttention<T> attention;
    REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), attention.scores, &tiling.scores, attention.values, &tiling.values);
    attention.Init(query, keyCache, valueCache, blockTables, contextLengths, out, workspace, tiling, pipe);
    attention.Process();
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PAGED_ATTENTION_KERNEL_H
