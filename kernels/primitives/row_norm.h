/*!
 * The norms over rows share the rows that a norm is taken of, factors of columns, and the places of a tile's blocks.
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_ROW_NORM_H
#define MS_ASCEND_OPS_PRIMITIVES_ROW_NORM_H

#include "kernel_operator.h"
#include "primitives/rows.h"
#include "primitives/tile.h"

namespace ms_ascend_ops {

__aicore__ inline uint32_t RoundUpToBlock(uint32_t floats)
{
    return (floats + FLOATS_PER_BLOCK - 1) / FLOATS_PER_BLOCK * FLOATS_PER_BLOCK;
}

// Returns the block of a tile that one instruction handles: some whole rows.
template <class TILING>
__aicore__ inline RowBlock BlockAt(const TILING& tiling, uint32_t row, uint32_t rows)
{
    const uint32_t left = rows - row;
    return {left < tiling.stepRows ? left : tiling.stepRows, tiling.cols, tiling.stride};
}

// When a row does not fit, the block is some columns of one row, up to `end`.
template <class TILING>
__aicore__ inline RowBlock ColumnsAt(const TILING& tiling, uint32_t column, uint32_t end)
{
    const uint32_t left = end - column;
    return {1, left < tiling.tileCols ? left : tiling.tileCols, tiling.stride};
}

// Holds a vector with one value for each column, in float.
template <typename G>
class ColumnVector {
public:
    __aicore__ inline void Init(GM_ADDR address, uint32_t cols, uint32_t stride, AscendC::TPipe& pipe)
    {
        stride_ = stride;
        gm_.SetGlobalBuffer(reinterpret_cast<__gm__ G*>(address), cols);
        pipe.InitBuffer(queue_, 1, stride * sizeof(G));
        float_.Init(stride, pipe);
    }

    __aicore__ inline AscendC::LocalTensor<float> Load(uint32_t column, uint32_t count)
    {
        local_ = queue_.template AllocTensor<G>();
        LoadRows(local_, gm_[column], {1, count, stride_, count});
        queue_.EnQue(local_);
        local_ = queue_.template DeQue<G>();
        return float_.Take(local_, 0, count);
    }

    // Loads values, and adds 1 to them where `plusOne`.
    __aicore__ inline AscendC::LocalTensor<float> Load(uint32_t column, uint32_t count, bool plusOne)
    {
        const AscendC::LocalTensor<float> vector = Load(column, count);
        if (plusOne) {
            AscendC::Adds(vector, vector, 1.0f, static_cast<int32_t>(count));
        }
        return vector;
    }

    __aicore__ inline void Free() { queue_.FreeTensor(local_); }

private:
    uint32_t stride_ = 0;
    AscendC::GlobalTensor<G> gm_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> queue_;
    AscendC::LocalTensor<G> local_;
    FloatCopies<G> float_;
};

// Holds a few values for each of some rows, all in one queue: a TPosition has event ids for 8 buffers.
class RowStates {
public:
    static constexpr uint32_t MAX_VALUES = 4;

    __aicore__ inline void Init(uint32_t values, uint32_t rows8, uint8_t buffers, AscendC::TPipe& pipe)
    {
        rows8_ = rows8;
        pipe.InitBuffer(queue_, buffers, values * rows8 * sizeof(float));
    }
    __aicore__ inline void SetSource(uint32_t value, GM_ADDR address, uint64_t rows)
    {
        gm_[value].SetGlobalBuffer(reinterpret_cast<__gm__ float*>(address), rows);
    }
    __aicore__ inline void Load(uint32_t values, uint64_t row, uint32_t rows)
    {
        local_ = queue_.AllocTensor<float>();
        for (uint32_t value = 0; value < values; ++value) {
            LoadRows(local_[value * rows8_], gm_[value][row], {1, rows, rows8_, rows}, true);
        }
        queue_.EnQue(local_);
        local_ = queue_.DeQue<float>();
    }
    __aicore__ inline AscendC::LocalTensor<float> Local(uint32_t value) const { return local_[value * rows8_]; }
    __aicore__ inline void Free() { queue_.FreeTensor(local_); }

private:
    uint32_t rows8_ = 0;
    AscendC::GlobalTensor<float> gm_[MAX_VALUES];
    AscendC::TQue<AscendC::TPosition::VECIN, 1> queue_;
    AscendC::LocalTensor<float> local_;
};

// A norm is taken of these rows: x, or with ADD x1 + x2, which is rounded to T and handed out as the sum.
template <typename T, bool ADD>
class NormInput {
public:
    template <class TILING>
    __aicore__ inline void Init(GM_ADDR x1, GM_ADDR x2, GM_ADDR sum, const TILING& tiling, AscendC::TPipe& pipe)
    {
        const uint32_t tileElements = tiling.tileRows * tiling.stride;
        x1Gm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(x1), tiling.rows * tiling.cols);
        pipe.InitBuffer(inQueueX1_, tiling.inBuffers, tileElements * sizeof(T));
        if constexpr (ADD) {
            x2Gm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(x2), tiling.rows * tiling.cols);
            sumGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(sum), tiling.rows * tiling.cols);
            pipe.InitBuffer(inQueueX2_, tiling.inBuffers, tileElements * sizeof(T));
            pipe.InitBuffer(outQueueSum_, tiling.outBuffers, tileElements * sizeof(T));
        }
        float_.Init(tileElements, pipe);
    }

    // Loads a tile. `store`: the sum will be handed out.
    __aicore__ inline void Begin(uint64_t offset, const Rows& shape, bool store)
    {
        store_ = store;
        x1Local_ = LoadTile(inQueueX1_, x1Gm_[offset], shape);
        if constexpr (ADD) {
            x2Local_ = LoadTile(inQueueX2_, x2Gm_[offset], shape);
            x1Local_ = inQueueX1_.template DeQue<T>();
            x2Local_ = inQueueX2_.template DeQue<T>();
            sumLocal_ = store ? outQueueSum_.template AllocTensor<T>() : x1Local_;
        } else {
            x1Local_ = inQueueX1_.template DeQue<T>();
        }
    }

    // `count` elements from element `at` of the tile on, in float. `scratch` is used with ADD and 16-bit T.
    __aicore__ inline AscendC::LocalTensor<float> Take(uint32_t at, uint32_t count,
                                                       [[maybe_unused]] const AscendC::LocalTensor<float>& scratch)
    {
        if constexpr (!ADD) {
            return float_.Take(x1Local_, at, count);
        } else if constexpr (IS_FLOAT<T>) {
            AscendC::Add(sumLocal_[at], x1Local_[at], x2Local_[at], static_cast<int32_t>(count));
            return sumLocal_[at];
        } else {
            const AscendC::LocalTensor<float> sum = float_.Take(x1Local_, at, count);
            ToFloat(x2Local_[at], scratch, count);
            AscendC::Add(sum, sum, scratch, static_cast<int32_t>(count));
            FromFloat(sumLocal_[at], sum, count);
            return float_.Take(sumLocal_, at, count);
        }
    }

    // Returns what Take() gave for this place.
    __aicore__ inline AscendC::LocalTensor<float> Taken(uint32_t at) const
    {
        return float_.Taken(ADD ? sumLocal_ : x1Local_, at);
    }

    __aicore__ inline void End([[maybe_unused]] uint64_t offset, [[maybe_unused]] const Rows& shape)
    {
        inQueueX1_.FreeTensor(x1Local_);
        if constexpr (ADD) {
            inQueueX2_.FreeTensor(x2Local_);
            if (store_) {
                StoreQueued(outQueueSum_, sumGm_[offset], sumLocal_, shape);
            }
        }
    }

private:
    using InQueue = AscendC::TQue<AscendC::TPosition::VECIN, 1>;

    __aicore__ inline AscendC::LocalTensor<T> LoadTile(InQueue& queue, const AscendC::GlobalTensor<T>& gm,
                                                       const Rows& shape)
    {
        AscendC::LocalTensor<T> local = queue.template AllocTensor<T>();
        LoadRows(local, gm, shape, shape.rows > 1);
        queue.EnQue(local);
        return local;
    }

    bool store_ = false;
    AscendC::GlobalTensor<T> x1Gm_;
    AscendC::GlobalTensor<T> x2Gm_;
    AscendC::GlobalTensor<T> sumGm_;
    InQueue inQueueX1_;
    InQueue inQueueX2_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> outQueueSum_;
    AscendC::LocalTensor<T> x1Local_;
    AscendC::LocalTensor<T> x2Local_;
    AscendC::LocalTensor<T> sumLocal_;
    FloatCopies<T> float_;  // of x
};

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_ROW_NORM_H
