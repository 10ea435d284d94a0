/*!
 * Computes the statistics of the channels of a tile: their means, and the squared distances from these.
 *
 * Both go to the workspace, as GroupNormCombine takes them. The distances are from the mean K of some positions of a
 * chunk, an eighth at least: K is less than 3 deviations beside the mean then, and of sum (z - K)^2 - n * (K - mean)^2
 * no more than three bits cancel. Channels first a chunk has all positions of its channels. Channels last it has some
 * positions of all channels; chunks are put together as Chan, Golub and LeVeque do.
 */
#ifndef MS_ASCEND_OPS_CONV2D_GROUP_NORM_MOMENTS_H
#define MS_ASCEND_OPS_CONV2D_GROUP_NORM_MOMENTS_H

#include "kernel_operator.h"
#include "primitives/convolution_channels.h"
#include "primitives/convolution_columns.h"
#include "primitives/group_norm_apply.h"
#include "primitives/row_norm.h"

namespace ms_ascend_ops {

class ChannelMoments {
public:
    __aicore__ inline void Init(GM_ADDR workspace, const ConvolutionTilingData& convolution,
                                const NormGroupsTilingData& norm, AscendC::TPipe& pipe)
    {
        last_ = convolution.channelsLast != 0;
        tileRows_ = convolution.tileRows;
        tileCols_ = convolution.tileCols;
        colTiles_ = convolution.colTiles;
        arrayStride_ = norm.arrayStride;
        channelStride_ = norm.channelStride;
        gm_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(workspace));
        length_ = last_ ? ConvolutionStride(convolution.tileOut) : RoundUpToBlock(convolution.chunkRows);
        pipe.InitBuffer(queue_, 1, 2 * length_ * sizeof(float));
        pipe.InitBuffer(chunkBuf_, 3 * length_ * sizeof(float));
        deviations_ = chunkBuf_.Get<float>();
        chunkMean_ = deviations_[length_];
        chunkSquares_ = deviations_[2 * length_];
        if (!last_) {
            pipe.InitBuffer(blockBuf_, length_ * AscendC::ONE_BLK_SIZE);
            pipe.InitBuffer(laneBuf_, length_ * FLOAT_LANES * sizeof(float));
            meanBlocks_ = blockBuf_.Get<float>();
            lanes_ = laneBuf_.Get<float>();
        }
    }

    // `channel` is the first one of the tile.
    __aicore__ inline void BeginTile(const ConvolutionTile& tile, uint64_t channel)
    {
        const uint64_t piece = static_cast<uint64_t>(tile.row / tileRows_) * colTiles_ + tile.col / tileCols_;
        at_ = (GroupNormArrays::CHANNEL_SUMS + piece * GroupNormArrays::PIECE_SUMS) * arrayStride_ +
              tile.sample * channelStride_ + channel;
        positions_ = 0;
        if (last_) {
            Begin();
        }
    }

    // Adds a chunk, whose first line is `line` of the tile. `work` is as large as z.
    __aicore__ inline void Add(const AscendC::LocalTensor<float>& z, const AscendC::LocalTensor<float>& work,
                               uint32_t line, const RowBlock& block)
    {
        if (last_) {
            AddPositions(z, work, block);
            return;
        }
        Begin();
        const uint32_t probe = LanesAt(0, block.cols);
        ReduceRepeats<AddOf>(mean_, z, probe, block.rows, block.stride);
        AscendC::Muls(mean_, mean_, 1.0f / static_cast<float>(probe), static_cast<int32_t>(block.rows));
        BroadcastRows(meanBlocks_, mean_, block.rows);
        SubtractRows(work, z, meanBlocks_, block);
        SumOfRows(deviations_, work, block);
        AscendC::Mul(work, work, work, static_cast<int32_t>(block.Elements()));
        SumOfRows(squares_, work, block);
        Correct(mean_, squares_, block.cols, block.rows);
        Store(line, block.rows);
    }

    __aicore__ inline void EndTile(uint32_t channels)
    {
        if (last_) {
            Store(0, channels);
        }
    }

private:
    static constexpr uint32_t PROBE = 4;  // positions, channels last

    __aicore__ inline void Begin()
    {
        mean_ = queue_.AllocTensor<float>();
        squares_ = mean_[length_];
        AscendC::Duplicate(mean_, 0.0f, static_cast<int32_t>(2 * length_));
    }

    __aicore__ inline void SumOfRows(const AscendC::LocalTensor<float>& dst, const AscendC::LocalTensor<float>& src,
                                     const RowBlock& block)
    {
        StartRows<AddOf>(lanes_, block.rows, block.cols);
        FoldRows<AddOf>(dst, lanes_, src, 0, block, block.cols);
        FinishRows<AddOf>(dst, lanes_, block.rows, block.cols);
    }

    // `mean` and `squares` are K and the squares from K: mean += d, squares -= n * d^2, with n * d = deviations_, the
    // sum of the distances from K.
    __aicore__ inline void Correct(const AscendC::LocalTensor<float>& mean, const AscendC::LocalTensor<float>& squares,
                                   uint32_t positions, uint32_t channels)
    {
        const float n = static_cast<float>(positions);
        const int32_t count = static_cast<int32_t>(channels);
        AscendC::Axpy(mean, deviations_, 1.0f / n, count);
        AscendC::Mul(deviations_, deviations_, deviations_, count);
        AscendC::Axpy(squares, deviations_, -1.0f / n, count);
    }

    // With n the positions so far, those of the chunk r, and d = the chunk's mean - the mean so far: the mean grows by
    // d * r / (n + r), the squares by the chunk's and d^2 * n * r / (n + r).
    __aicore__ inline void AddPositions(const AscendC::LocalTensor<float>& z, const AscendC::LocalTensor<float>& work,
                                        const RowBlock& block)
    {
        const int32_t channels = static_cast<int32_t>(block.cols);
        const float before = static_cast<float>(positions_);
        const float rows = static_cast<float>(block.rows);
        const float share = rows / (before + rows);
        positions_ += block.rows;
        AscendC::Duplicate(deviations_, 0.0f, static_cast<int32_t>(3 * length_));
        const RowBlock probe{block.rows < PROBE ? block.rows : PROBE, block.cols, block.stride};
        SumColumns(chunkMean_, z, probe);
        AscendC::Muls(chunkMean_, chunkMean_, 1.0f / static_cast<float>(probe.rows), channels);
        WithColumns<SubOf>(work, z, chunkMean_, block);
        SumColumns(deviations_, work, block);
        AscendC::Mul(work, work, work, static_cast<int32_t>(block.Elements()));
        SumColumns(chunkSquares_, work, block);
        Correct(chunkMean_, chunkSquares_, block.rows, block.cols);
        AscendC::Add(squares_, squares_, chunkSquares_, channels);
        AscendC::Sub(chunkMean_, chunkMean_, mean_, channels);
        AscendC::Axpy(mean_, chunkMean_, share, channels);
        AscendC::Mul(chunkMean_, chunkMean_, chunkMean_, channels);
        AscendC::Axpy(squares_, chunkMean_, before * share, channels);
    }

    __aicore__ inline void Store(uint32_t line, uint32_t channels)
    {
        StoreQueued(queue_, gm_[at_ + line], mean_, {GroupNormArrays::PIECE_SUMS, channels, length_, arrayStride_});
    }

    bool last_ = false;
    uint32_t tileRows_ = 0;
    uint32_t tileCols_ = 0;
    uint32_t colTiles_ = 0;
    uint32_t length_ = 0;
    uint32_t positions_ = 0;  // channels last: of the tile, so far
    uint64_t arrayStride_ = 0;
    uint64_t channelStride_ = 0;
    uint64_t at_ = 0;  // where the tile's means begin
    AscendC::GlobalTensor<float> gm_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> queue_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> chunkBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> blockBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> laneBuf_;
    AscendC::LocalTensor<float> mean_;
    AscendC::LocalTensor<float> squares_;
    AscendC::LocalTensor<float> deviations_;
    AscendC::LocalTensor<float> meanBlocks_;  // channels first
    AscendC::LocalTensor<float> lanes_;
    AscendC::LocalTensor<float> chunkMean_;  // channels last
    AscendC::LocalTensor<float> chunkSquares_;
};

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_CONV2D_GROUP_NORM_MOMENTS_H
