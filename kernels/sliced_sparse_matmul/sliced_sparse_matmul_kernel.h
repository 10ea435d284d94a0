/*!
 * Multiplies a few rows with the transpose of a sparse matrix in slices, with sums in float.
 *
 * Plan: rows of the matrix are cut into pieces, 64 of which lie side by side in a slice, one a lane, so that each step
 * is as wide as the vector unit. A row of x stays in the Unified Buffer, as floats with a zero behind the last; indices
 * become offsets, elements are gathered, multiplied with the values and folded to a sum of each lane, a chunk of
 * positions at once, whatever slices they are of. The sums of pieces go to the workspace. After a barrier rows of the
 * result are added up of them in the same way, with no values. Places without a value name the zero. No offset leaves
 * the row: an index out of range is clamped first, and the kernel stops at the end. The work of a core does not change
 * a sum. Rows of x come one by one: indices are read again for each.
 * Bound: Gather, some 5 elements a cycle, or memory, indices and values once for each row of x.
 */
#ifndef MS_ASCEND_OPS_SLICED_SPARSE_MATMUL_KERNEL_H
#define MS_ASCEND_OPS_SLICED_SPARSE_MATMUL_KERNEL_H

#include "kernel_operator.h"
#include "primitives/core_share.h"
#include "primitives/rows.h"
#include "primitives/tile.h"
#include "sliced_sparse_matmul_tiling.h"

namespace ms_ascend_ops {

// Walks over positions of slices; it knows where each slice ends.
class SliceEnds {
public:
    __aicore__ inline void Init(GM_ADDR ends, uint32_t slices, uint32_t positions)
    {
        endsGm_.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t*>(ends), slices);
        slices_ = slices;
        positions_ = positions;
        if (slices == 0 ? positions != 0 : EndAt(slices - 1) != positions) {
            AscendC::Trap();
        }
    }

    __aicore__ inline uint32_t BeginOf(uint32_t slice) const { return slice == 0 ? 0 : EndAt(slice - 1); }

    __aicore__ inline uint32_t EndOf(uint32_t slice, uint32_t begin) const
    {
        const uint32_t end = EndAt(slice);
        if (end < begin) {
            AscendC::Trap();
        }
        return end;
    }

    // Returns the first slice of a core, of `cores` that have as many positions each, up to a slice.
    __aicore__ inline uint32_t FirstOf(uint64_t core, uint64_t cores) const
    {
        if (core >= cores) {
            return slices_;
        }
        const uint64_t position = positions_ * core / cores;
        uint32_t least = 0;
        uint32_t most = slices_;
        while (least < most) {
            const uint32_t slice = (least + most) / 2;
            if (BeginOf(slice) < position) {
                least = slice + 1;
            } else {
                most = slice;
            }
        }
        return least;
    }

private:
    __aicore__ inline uint32_t EndAt(uint32_t slice) const
    {
        const int32_t end = endsGm_.GetValue(slice);
        if (end < 0 || static_cast<uint32_t>(end) > positions_) {
            AscendC::Trap();
        }
        return static_cast<uint32_t>(end);
    }

    AscendC::GlobalTensor<int32_t> endsGm_;
    uint32_t slices_ = 0;
    uint64_t positions_ = 0;
};

template <typename T>
class SlicedSparseMatmul {
public:
    __aicore__ inline void Init(GM_ADDR x, GM_ADDR sliceEnds, GM_ADDR indices, GM_ADDR values, GM_ADDR groupEnds,
                                GM_ADDR pieces, GM_ADDR y, GM_ADDR workspace,
                                const SlicedSparseMatmulTilingData& tiling, AscendC::TPipe& pipe)
    {
        tiling_ = tiling;
        sums_ = FLOAT_LANES * tiling.slices;
        outputs_ = FLOAT_LANES * tiling.groups;
        slices_.Init(sliceEnds, tiling.slices, tiling.positions);
        groups_.Init(groupEnds, tiling.groups, tiling.places);
        xGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(x), tiling.rows * tiling.inner);
        indexGm_.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t*>(indices), uint64_t{tiling.positions} * FLOAT_LANES);
        valueGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(values), uint64_t{tiling.positions} * FLOAT_LANES);
        pieceGm_.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t*>(pieces), uint64_t{tiling.places} * FLOAT_LANES);
        yGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(y), tiling.rows * outputs_);
        sumGm_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(workspace), tiling.rows * sums_);
        const uint32_t lanes = tiling.chunk * FLOAT_LANES;
        pipe.InitBuffer(inQueueIndex_, 2, lanes * sizeof(int32_t));
        pipe.InitBuffer(inQueueValue_, 2, lanes * sizeof(T));
        pipe.InitBuffer(inQueueRow_, 1, tiling.stage * sizeof(float));
        pipe.InitBuffer(outQueue_, 2, FLOAT_LANES * sizeof(float));
        pipe.InitBuffer(workBuf_, 4 * lanes * sizeof(float));
        pipe.InitBuffer(laneBuf_, 3 * FLOAT_LANES * sizeof(float));
        pipe.InitBuffer(rowBuf_, tiling.bufferSize * sizeof(float));
        columns_ = workBuf_.template Get<float>();
        bounded_ = columns_[lanes];
        product_ = columns_[2 * lanes];
        values_ = columns_[3 * lanes];
        lanes_ = laneBuf_.template Get<float>();
        wrong_ = lanes_[FLOAT_LANES];
        row_ = rowBuf_.template Get<float>();
    }

    __aicore__ inline void Process(AscendC::TPipe& pipe)
    {
        AscendC::Duplicate(wrong_, 0.0f, static_cast<int32_t>(FLOAT_LANES));
        AddUpSlices();
        TrapIfWrong(pipe);
        if (AscendC::GetBlockNum() > 1) {
            AscendC::SyncAll();
        } else {
            WaitForStores(pipe);
        }
        AddUpGroups();
        TrapIfWrong(pipe);
    }

private:
    // A core has the slices from `first` to `last`.
    struct Share {
        uint32_t first;
        uint32_t last;
    };

    // Computes the sums of pieces.
    __aicore__ inline void AddUpSlices()
    {
        const Share share = ShareOf(slices_);
        for (uint64_t row = 0; row < tiling_.rows && share.first < share.last; ++row) {
            LoadRow(xGm_[row * tiling_.inner], tiling_.inner);
            AddUp<true>(slices_, indexGm_, share, tiling_.inner, row);
        }
    }

    // Computes rows of the result from the sums of their pieces.
    __aicore__ inline void AddUpGroups()
    {
        const Share share = ShareOf(groups_);
        for (uint64_t row = 0; row < tiling_.rows && share.first < share.last; ++row) {
            LoadRow(sumGm_[row * sums_], sums_);
            AddUp<false>(groups_, pieceGm_, share, sums_, row);
        }
    }

    __aicore__ inline Share ShareOf(const SliceEnds& ends) const
    {
        return {ends.FirstOf(AscendC::GetBlockIdx(), tiling_.cores),
                ends.FirstOf(AscendC::GetBlockIdx() + 1, tiling_.cores)};
    }

    // 64 lanes of sums over the positions of each slice, of the row that is there, which has so many elements.
    template <bool WITH_VALUES>
    __aicore__ inline void AddUp(const SliceEnds& ends, const AscendC::GlobalTensor<int32_t>& indices,
                                 const Share& share, uint32_t elements, uint64_t row)
    {
        AscendC::Duplicate(lanes_, 0.0f, static_cast<int32_t>(FLOAT_LANES));
        uint32_t slice = share.first;
        uint32_t position = ends.BeginOf(slice);
        const uint32_t last = ends.BeginOf(share.last);
        do {  // also where all slices are empty
            const uint32_t chunk = last - position < tiling_.chunk ? last - position : tiling_.chunk;
            if (chunk != 0) {
                LoadProducts<WITH_VALUES>(indices[uint64_t{position} * FLOAT_LANES], position, chunk, elements);
            }
            slice = FoldSlices<WITH_VALUES>(ends, {slice, share.last}, position, chunk, row);
            position += chunk;
        } while (slice < share.last);
    }

    // Gathers the elements that the indices of a chunk of positions name, and multiplies them with the values.
    template <bool WITH_VALUES>
    __aicore__ inline void LoadProducts(const AscendC::GlobalTensor<int32_t>& indices, uint32_t position,
                                        uint32_t chunk, uint32_t elements)
    {
        const uint32_t count = chunk * FLOAT_LANES;
        AscendC::Gather(product_, row_, LoadOffsets(indices, count, elements), 0, count);
        if constexpr (WITH_VALUES) {
            AscendC::LocalTensor<T> loaded = Load(inQueueValue_, valueGm_[uint64_t{position} * FLOAT_LANES], count);
            AscendC::Mul(product_, product_, ToFloat(loaded, values_, count), static_cast<int32_t>(count));
            inQueueValue_.FreeTensor(loaded);
        }
    }

    // Adds the products of a chunk up by slices, and stores the sums of those that end in it. Returns the next slice.
    template <bool WITH_VALUES>
    __aicore__ inline uint32_t FoldSlices(const SliceEnds& ends, const Share& share, uint32_t begin, uint32_t chunk,
                                          uint64_t row)
    {
        const uint32_t last = begin + chunk;
        uint32_t position = begin;
        uint32_t slice = share.first;
        for (; slice < share.last; ++slice) {
            const uint32_t end = ends.EndOf(slice, position);
            const uint32_t stop = end < last ? end : last;
            if (stop > position) {
                const uint32_t count = (stop - position) * FLOAT_LANES;
                FoldLanes<AddOf>(lanes_, product_[(position - begin) * FLOAT_LANES], {1, count, count});
                position = stop;
            }
            if (end > last) {
                break;
            }
            StoreLanes<WITH_VALUES>(slice, row);
            AscendC::Duplicate(lanes_, 0.0f, static_cast<int32_t>(FLOAT_LANES));
        }
        return slice;
    }

    template <bool WITH_VALUES>
    __aicore__ inline void StoreLanes(uint32_t slice, uint64_t row)
    {
        const uint32_t output = slice * FLOAT_LANES;
        if constexpr (WITH_VALUES) {
            AscendC::LocalTensor<float> out = outQueue_.template AllocTensor<float>();
            AscendC::Adds(out, lanes_, 0.0f, static_cast<int32_t>(FLOAT_LANES));
            StoreQueued(outQueue_, sumGm_[row * sums_ + output], out, {1, FLOAT_LANES, FLOAT_LANES, FLOAT_LANES});
        } else {
            AscendC::LocalTensor<T> out = outQueue_.template AllocTensor<T>();
            if constexpr (IS_FLOAT<T>) {
                AscendC::Adds(out, lanes_, 0.0f, static_cast<int32_t>(FLOAT_LANES));
            } else {
                FromFloat(out, lanes_, FLOAT_LANES);
            }
            StoreQueued(outQueue_, yGm_[row * outputs_ + output], out, {1, FLOAT_LANES, FLOAT_LANES, FLOAT_LANES});
        }
    }

    // Loads where in a row the elements are that indices name. Indices are compared as floats: they are exact as far as
    // a row can be long, and larger ones stay larger.
    __aicore__ inline AscendC::LocalTensor<uint32_t> LoadOffsets(const AscendC::GlobalTensor<int32_t>& src,
                                                                 uint32_t count, uint32_t elements)
    {
        const int32_t size = static_cast<int32_t>(count);
        AscendC::LocalTensor<int32_t> indices = Load(inQueueIndex_, src, count);
        AscendC::Cast(columns_, indices, AscendC::RoundMode::CAST_NONE, count);
        inQueueIndex_.FreeTensor(indices);
        AscendC::Maxs(bounded_, columns_, 0.0f, size);
        AscendC::Mins(bounded_, bounded_, static_cast<float>(elements), size);
        AscendC::Sub(columns_, columns_, bounded_, size);
        AscendC::Abs(columns_, columns_, size);
        FoldLanes<MaxOf>(wrong_, columns_, {1, count, count});
        AscendC::Muls(bounded_, bounded_, static_cast<float>(sizeof(float)), size);
        const AscendC::LocalTensor<int32_t> offsets = columns_.template ReinterpretCast<int32_t>();
        AscendC::Cast(offsets, bounded_, AscendC::RoundMode::CAST_RINT, count);
        return offsets.template ReinterpretCast<uint32_t>();
    }

    // Loads a row as floats, with zeros behind the last element.
    template <typename U>
    __aicore__ inline void LoadRow(const AscendC::GlobalTensor<U>& src, uint32_t elements)
    {
        const uint32_t whole = elements / FLOAT_LANES * FLOAT_LANES;
        AscendC::Duplicate(row_[whole], 0.0f, static_cast<int32_t>(FLOAT_LANES));
        for (uint32_t at = 0; at < elements; at += tiling_.stage) {
            const uint32_t count = elements - at < tiling_.stage ? elements - at : tiling_.stage;
            AscendC::LocalTensor<U> stage = Load(inQueueRow_, src[at], count);
            if constexpr (IS_FLOAT<U>) {
                AscendC::Muls(row_[at], stage, 1.0f, static_cast<int32_t>(count));
            } else {
                AscendC::Cast(row_[at], stage, AscendC::RoundMode::CAST_NONE, count);
            }
            inQueueRow_.FreeTensor(stage);
        }
    }

    template <class QUEUE, typename U>
    __aicore__ inline AscendC::LocalTensor<U> Load(QUEUE& queue, const AscendC::GlobalTensor<U>& src, uint32_t count)
    {
        AscendC::LocalTensor<U> local = queue.template AllocTensor<U>();
        LoadRows(local, src, {1, count, count, count});
        queue.EnQue(local);
        return queue.template DeQue<U>();
    }

    __aicore__ inline void TrapIfWrong(AscendC::TPipe& pipe)
    {
        const AscendC::LocalTensor<float> most = wrong_[FLOAT_LANES];
        ReduceRepeats<MaxOf>(most, wrong_, FLOAT_LANES, 1, FLOAT_LANES);
        WaitForPipe<AscendC::HardEvent::V_S>(pipe);
        if (most.GetValue(0) > 0.0f) {
            AscendC::Trap();
        }
        WaitForPipe<AscendC::HardEvent::S_V>(pipe);  // the tensor may be overwritten now
    }

    SlicedSparseMatmulTilingData tiling_;
    uint32_t sums_ = 0;     // of pieces, of a row of x
    uint32_t outputs_ = 0;  // elements of a row of the result
    SliceEnds slices_;
    SliceEnds groups_;
    AscendC::GlobalTensor<T> xGm_;
    AscendC::GlobalTensor<int32_t> indexGm_;
    AscendC::GlobalTensor<T> valueGm_;
    AscendC::GlobalTensor<int32_t> pieceGm_;
    AscendC::GlobalTensor<T> yGm_;
    AscendC::GlobalTensor<float> sumGm_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueueIndex_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueueValue_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueueRow_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> outQueue_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> workBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> laneBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> rowBuf_;
    AscendC::LocalTensor<float> columns_;
    AscendC::LocalTensor<float> bounded_;
    AscendC::LocalTensor<float> product_;
    AscendC::LocalTensor<float> values_;
    AscendC::LocalTensor<float> lanes_;
    AscendC::LocalTensor<float> wrong_;  // how far indices have been out of range
    AscendC::LocalTensor<float> row_;
};

template <typename T>
__aicore__ inline void SlicedSparseMatmulKernel(GM_ADDR x, GM_ADDR sliceEnds, GM_ADDR indices, GM_ADDR values,
                                                GM_ADDR groupEnds, GM_ADDR pieces, GM_ADDR y, GM_ADDR workspace,
                                                const SlicedSparseMatmulTilingData& tiling)
{
    AscendC::TPipe pipe;
    SlicedSparseMatmul<T> kernel;
    kernel.Init(x, sliceEnds, indices, values, groupEnds, pieces, y, workspace, tiling, pipe);
    kernel.Process(pipe);
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_SLICED_SPARSE_MATMUL_KERNEL_H
