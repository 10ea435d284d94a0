/*!
 * Walks over data for the stages of group_norm that touch it: tiles of channels, values that each channel has, and sums
 * over each channel.
 *
 * Channels first (LAST is false): a tile holds some rows, each a channel or a piece of one; a channel's value acts on
 * its row. A stage may take groups for channels: they lie in one piece, too. Channels last: a task is a chunk of rows,
 * tile by tile; a channel's value acts on its column.
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_GROUP_NORM_TILES_H
#define MS_ASCEND_OPS_PRIMITIVES_GROUP_NORM_TILES_H

#include "kernel_operator.h"
#include "primitives/core_share.h"
#include "primitives/group_norm_tiling.h"
#include "primitives/row_norm.h"

namespace ms_ascend_ops {

// Returns the positions of a piece, which sums of a channel are of.
__aicore__ inline uint64_t PieceRows(const NormGroupsTilingData& tiling, uint32_t piece)
{
    const uint64_t left = tiling.lineSize - static_cast<uint64_t>(piece % tiling.linePieces) * tiling.sumChunkRows;
    return left < tiling.sumChunkRows ? left : tiling.sumChunkRows;
}

// A stage goes over these rows, which are its channels, and their tiles (see NormGroupsTilingData).
struct DataRows {
    uint64_t size;  // of a row
    uint32_t pieces;
    uint32_t step;
    uint32_t tileRows;
    uint32_t stepRows;
    uint32_t tileCols;
    uint32_t stride;

    __aicore__ inline uint32_t TileElements() const { return tileRows * stride; }
    __aicore__ inline uint32_t StepElements() const { return stepRows * stride; }
};

__aicore__ inline DataRows ChannelRows(const NormGroupsTilingData& tiling)
{
    return {tiling.size, tiling.pieces, tiling.step, tiling.tileRows, tiling.stepRows, tiling.tileCols, tiling.stride};
}

// Returns the rows of group_norm's sums: groups if channels come first.
__aicore__ inline DataRows SumRows(const NormGroupsTilingData& tiling)
{
    const uint64_t channels = tiling.channelsLast != 0 ? 1 : tiling.groupChannels;
    return {channels * tiling.size, tiling.sumPieces,   tiling.sumStep,  tiling.sumTileRows,
            tiling.sumStepRows,     tiling.sumTileCols, tiling.sumStride};
}

// Walks over tasks, and over the tiles of each.
template <bool LAST>
class ChannelWalk {
public:
    uint64_t state = 0;      // index of the task's first channel among the channel values
    uint32_t channels = 0;   // of the task
    uint32_t piece = 0;      // of those channels
    uint64_t probe = 0;      // where the task's probe lies
    uint64_t offset = 0;     // where the tile lies
    Rows shape{0, 0, 0, 0};  // of the tile

    __aicore__ inline void Init(const NormGroupsTilingData& tiling, const DataRows& rows)
    {
        rows_ = rows;
        channels_ = tiling.channels;
        channelStride_ = tiling.channelStride;
        columnTiles_ = tiling.columnTiles;
        chunkRows_ = tiling.chunkRows;
    }

    __aicore__ inline void Begin(uint64_t begin, uint64_t end)
    {
        next_ = begin;
        end_ = end;
    }

    __aicore__ inline bool NextTask()
    {
        if (next_ >= end_) {
            return false;
        }
        if constexpr (LAST) {
            const uint64_t chunk = next_ / columnTiles_;
            const uint32_t column = static_cast<uint32_t>(next_ - chunk * columnTiles_) * rows_.tileCols;
            const uint64_t sample = chunk / rows_.pieces;
            const uint32_t left = channels_ - column;
            piece = static_cast<uint32_t>(chunk - sample * rows_.pieces);
            channels = left < rows_.tileCols ? left : rows_.tileCols;
            state = sample * channelStride_ + column;
            probe = sample * rows_.size * channels_ + column;
            rowBegin_ = static_cast<uint64_t>(piece) * chunkRows_;
            const uint64_t rowEnd = rowBegin_ + chunkRows_;
            rowEnd_ = rowEnd < rows_.size ? rowEnd : rows_.size;
            ++next_;
        } else {
            state = next_ / rows_.pieces;
            piece = static_cast<uint32_t>(next_ - state * rows_.pieces);
            channels = end_ - next_ < rows_.step ? static_cast<uint32_t>(end_ - next_) : rows_.step;
            probe = state * rows_.size;
            rowBegin_ = 0;
            rowEnd_ = channels;
            next_ += channels;
        }
        return true;
    }

    __aicore__ inline bool NextTile()
    {
        if (rowBegin_ >= rowEnd_) {
            return false;
        }
        const uint64_t left = rowEnd_ - rowBegin_;
        const uint32_t rows = left < rows_.tileRows ? static_cast<uint32_t>(left) : rows_.tileRows;
        if constexpr (LAST) {
            offset = probe + rowBegin_ * channels_;
            shape = {rows, channels, rows_.stride, channels_};
        } else {
            const uint64_t column = static_cast<uint64_t>(piece) * rows_.tileCols;
            const uint64_t cols = rows_.size - column;
            offset = probe + column;
            shape = {rows, cols < rows_.tileCols ? static_cast<uint32_t>(cols) : rows_.tileCols, rows_.stride,
                     rows_.size};
        }
        rowBegin_ += rows;
        return true;
    }

    // Returns the block of the tile that begins with row r.
    __aicore__ inline RowBlock BlockOf(uint32_t r) const
    {
        const uint32_t left = shape.rows - r;
        return {left < rows_.stepRows ? left : rows_.stepRows, shape.cols, rows_.stride};
    }

private:
    DataRows rows_;
    uint32_t channels_ = 0;
    uint32_t channelStride_ = 0;
    uint32_t columnTiles_ = 0;
    uint32_t chunkRows_ = 0;
    uint64_t next_ = 0;
    uint64_t end_ = 0;
    uint64_t rowBegin_ = 0;
    uint64_t rowEnd_ = 0;
};

// Holds values of a task's channels, and applies them to a block.
template <bool LAST>
class ChannelValues {
public:
    __aicore__ inline void Init(GM_ADDR workspace, uint64_t arrayStride, const DataRows& rows, uint32_t values,
                                AscendC::TPipe& pipe)
    {
        InitSet(rows, values, pipe);
        arrayStride_ = arrayStride;
        gm_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(workspace));
        pipe.InitBuffer(queue_, 1, values * length_ * sizeof(float));
    }

    // Prepares values that are calculated here only.
    __aicore__ inline void InitSet(const DataRows& rows, [[maybe_unused]] uint32_t values,
                                   [[maybe_unused]] AscendC::TPipe& pipe)
    {
        length_ = LAST ? rows.stride : RoundUpToBlock(rows.step);
        if constexpr (!LAST) {
            pipe.InitBuffer(blockBuf_, values * length_ * AscendC::ONE_BLK_SIZE);
            blocks_ = blockBuf_.template Get<float>();
        }
    }

    // Loads `values` arrays of the workspace, from array `first` on, at the task's channels.
    __aicore__ inline void Load(uint32_t first, uint32_t values, uint64_t state, uint32_t channels)
    {
        local_ = queue_.template AllocTensor<float>();
        LoadRows(local_, gm_[first * arrayStride_ + state], {values, channels, length_, arrayStride_}, true);
        queue_.EnQue(local_);
        local_ = queue_.template DeQue<float>();
        if constexpr (!LAST) {
            for (uint32_t value = 0; value < values; ++value) {
                BroadcastRows(blocks_[value * length_ * FLOATS_PER_BLOCK], local_[value * length_], channels);
            }
            queue_.FreeTensor(local_);
        }
    }

    __aicore__ inline void Free()
    {
        if constexpr (LAST) {
            queue_.FreeTensor(local_);
        }
    }

    // Sets value 0, which is calculated here instead of loaded. `vector` lives as long as it is used.
    __aicore__ inline void Set(const AscendC::LocalTensor<float>& vector, [[maybe_unused]] uint32_t channels)
    {
        if constexpr (LAST) {
            local_ = vector;
        } else {
            BroadcastRows(blocks_, vector, channels);
        }
    }

    // Computes dst = src op value, on the block that begins with row r of the tile.
    template <class INSTRUCTION>
    __aicore__ inline void Apply(const AscendC::LocalTensor<float>& dst, const AscendC::LocalTensor<float>& src,
                                 uint32_t value, [[maybe_unused]] uint32_t r, const RowBlock& block)
    {
        if constexpr (LAST) {
            WithColumns<INSTRUCTION>(dst, src, local_[value * length_], block);
        } else {
            WithRows<INSTRUCTION>(dst, src, blocks_[(value * length_ + r) * FLOATS_PER_BLOCK], block);
        }
    }

private:
    uint64_t arrayStride_ = 0;
    uint32_t length_ = 0;
    AscendC::GlobalTensor<float> gm_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> queue_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> blockBuf_;
    AscendC::LocalTensor<float> local_;
    AscendC::LocalTensor<float> blocks_;
};

// Sums over a task's channels, and leaves the sums in the workspace.
template <bool LAST>
class ChannelSums {
public:
    __aicore__ inline void Init(GM_ADDR workspace, uint64_t arrayStride, const DataRows& rows, uint32_t sums,
                                AscendC::TPipe& pipe)
    {
        arrayStride_ = arrayStride;
        sums_ = sums;
        tileRows_ = rows.tileRows;
        length_ = LAST ? rows.stride : RoundUpToBlock(rows.step);
        withLanes_ = !LAST && rows.tileCols > FLOAT_LANES;
        gm_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(workspace));
        pipe.InitBuffer(queue_, 1, sums * length_ * sizeof(float));
        if (withLanes_) {
            pipe.InitBuffer(laneBuf_, sums * tileRows_ * FLOAT_LANES * sizeof(float));
            lanes_ = laneBuf_.template Get<float>();
        }
    }

    __aicore__ inline void Begin()
    {
        local_ = queue_.template AllocTensor<float>();
        AscendC::Duplicate(local_, 0.0f, static_cast<int32_t>(sums_ * length_));
        if (withLanes_) {
            AscendC::Duplicate(lanes_, 0.0f, static_cast<int32_t>(sums_ * tileRows_ * FLOAT_LANES));
        }
    }

    __aicore__ inline AscendC::LocalTensor<float> Of(uint32_t sum) const { return local_[sum * length_]; }

    // Adds a block that begins with row r of the tile.
    __aicore__ inline void Add(uint32_t sum, const AscendC::LocalTensor<float>& src, [[maybe_unused]] uint32_t r,
                               const RowBlock& block)
    {
        if constexpr (LAST) {
            SumColumns(Of(sum), src, block);
        } else if (withLanes_) {
            SumLanes(lanes_[(sum * tileRows_ + r) * FLOAT_LANES], src, block);
        } else {
            AscendC::WholeReduceSum(Of(sum)[r], src, static_cast<int32_t>(block.cols), static_cast<int32_t>(block.rows),
                                    1, 1, static_cast<int32_t>(block.stride / FLOATS_PER_BLOCK));
        }
    }

    // Makes Of(sum) of what was added.
    __aicore__ inline void Finish(uint32_t sum, uint32_t channels)
    {
        if (withLanes_) {
            AscendC::WholeReduceSum(Of(sum), lanes_[sum * tileRows_ * FLOAT_LANES], static_cast<int32_t>(FLOAT_LANES),
                                    static_cast<int32_t>(channels), 1, 1, 8);
        }
    }

    // Finishes the sums from `first` on. All go to the arrays from `array` on, at the task's channels.
    __aicore__ inline void End(uint32_t first, uint32_t array, uint64_t state, uint32_t channels)
    {
        for (uint32_t sum = first; sum < sums_; ++sum) {
            Finish(sum, channels);
        }
        Ready();
        Store(0, sums_, array, state, channels);
        Free();
    }

    // If they are finished already, call these instead: Ready, Store as often as need be, Free.
    __aicore__ inline void Ready()
    {
        queue_.EnQue(local_);
        local_ = queue_.template DeQue<float>();
    }

    __aicore__ inline void Store(uint32_t first, uint32_t sums, uint64_t array, uint64_t state, uint32_t channels)
    {
        StoreRows(gm_[array * arrayStride_ + state], Of(first), {sums, channels, length_, arrayStride_});
    }

    __aicore__ inline void Free() { queue_.FreeTensor(local_); }

private:
    uint64_t arrayStride_ = 0;
    uint32_t sums_ = 0;
    uint32_t tileRows_ = 0;
    uint32_t length_ = 0;
    bool withLanes_ = false;
    AscendC::GlobalTensor<float> gm_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> queue_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> laneBuf_;
    AscendC::LocalTensor<float> local_;
    AscendC::LocalTensor<float> lanes_;
};

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_GROUP_NORM_TILES_H
