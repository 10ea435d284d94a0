/*!
 * Computes a convolution and the batch normalization of inference behind it, whose statistics are given: y =
 * activation((x * weight + bias - mean) / sqrt(variance + epsilon) * gamma + beta).
 *
 * For the plan see primitives/convolution_tiles.h. The vector unit makes a factor and an offset of each channel,
 *     factor = gamma / sqrt(variance + epsilon), offset = (bias - mean) * factor + beta,
 * and applies them to float sums, before the activation and the one rounding.
 * Bound: the cube, 2 * positions * output channels * K operations.
 */
#ifndef MS_ASCEND_OPS_CONV2D_BATCH_NORM_KERNEL_H
#define MS_ASCEND_OPS_CONV2D_BATCH_NORM_KERNEL_H

#include "conv2d_batch_norm_tiling.h"
#include "kernel_operator.h"
#include "primitives/convolution_channels.h"
#include "primitives/convolution_epilogue.h"
#include "primitives/rows.h"
#include "primitives/tile.h"

namespace ms_ascend_ops {

struct ChannelStatistics {
    GM_ADDR vectors[CHANNEL_NORM_VECTORS];
    float epsilon;
};

// Normalizes the sums of each channel.
template <typename G>
class ChannelNorm {
public:
    using Values = ChannelStatistics;

    __aicore__ inline void Init(const ChannelStatistics& statistics, const ConvolutionTilingData& tiling,
                                AscendC::TPipe& pipe)
    {
        last_ = tiling.channelsLast != 0;
        given_ = tiling.hasBias != 0 ? CHANNEL_NORM_VECTORS : BIAS;
        epsilon_ = statistics.epsilon;
        for (uint32_t i = 0; i < given_; ++i) {
            gm_[i].SetGlobalBuffer(reinterpret_cast<__gm__ G*>(statistics.vectors[i]));
        }
        channels_ = ChannelsOf(tiling);
        pipe.InitBuffer(queue_, 1, CHANNEL_NORM_VECTORS * channels_ * sizeof(G));
        pipe.InitBuffer(floatBuf_, CHANNEL_NORM_VECTORS * channels_ * sizeof(float));
        floats_ = floatBuf_.template Get<float>();
        // Brcb reads whole blocks.
        AscendC::Duplicate(floats_, 0.0f, static_cast<int32_t>(CHANNEL_NORM_VECTORS * channels_));
        if (!last_) {
            pipe.InitBuffer(spreadBuf_, 2 * channels_ * AscendC::ONE_BLK_SIZE);
            spread_ = spreadBuf_.template Get<float>();
        }
    }

    __aicore__ inline void BeginTile(uint64_t channel, uint32_t channels)
    {
        if (last_) {
            Load(channel, channels);
        }
    }

    __aicore__ inline void Apply(const AscendC::LocalTensor<float>& z, uint64_t channel, const RowBlock& block)
    {
        if (last_) {
            MultiplyColumns(z, z, floats_[GAMMA * channels_], block);
            AddColumns(z, z, floats_[BETA * channels_], block);
            return;
        }
        Load(channel, block.rows);
        const AscendC::LocalTensor<float> offsets = spread_[channels_ * FLOATS_PER_BLOCK];
        BroadcastRows(spread_, floats_[GAMMA * channels_], block.rows);
        BroadcastRows(offsets, floats_[BETA * channels_], block.rows);
        MultiplyRows(z, z, spread_, block);
        AddRows(z, z, offsets, block);
    }

private:
    enum Vector : uint32_t { GAMMA, BETA, MEAN, VARIANCE, BIAS };

    // Loads all vectors of some channels at once; gamma becomes the factor, and beta the offset.
    __aicore__ inline void Load(uint64_t channel, uint32_t count)
    {
        AscendC::LocalTensor<G> values = queue_.template AllocTensor<G>();
        for (uint32_t i = 0; i < given_; ++i) {
            LoadRows(values[i * channels_], gm_[i][channel], {1, count, count, count}, true);
        }
        queue_.EnQue(values);
        values = queue_.template DeQue<G>();
        for (uint32_t i = 0; i < given_; ++i) {
            TakeChannels(floats_[i * channels_], values[i * channels_], count);
        }
        queue_.FreeTensor(values);
        const auto length = static_cast<int32_t>(count);
        const AscendC::LocalTensor<float> factor = floats_[GAMMA * channels_];
        const AscendC::LocalTensor<float> offset = floats_[BETA * channels_];
        const AscendC::LocalTensor<float> mean = floats_[MEAN * channels_];
        const AscendC::LocalTensor<float> deviation = floats_[VARIANCE * channels_];
        AscendC::Adds(deviation, deviation, epsilon_, length);
        AscendC::Sqrt(deviation, deviation, length);
        AscendC::Div(factor, factor, deviation, length);
        if (given_ > BIAS) {
            AscendC::Sub(mean, mean, floats_[BIAS * channels_], length);
        }
        AscendC::Mul(mean, mean, factor, length);
        AscendC::Sub(offset, offset, mean, length);
    }

    bool last_ = false;
    uint32_t given_ = 0;
    uint32_t channels_ = 0;  // of a vector
    float epsilon_ = 0;
    AscendC::GlobalTensor<G> gm_[CHANNEL_NORM_VECTORS];
    ChannelQueue queue_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> floatBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> spreadBuf_;
    AscendC::LocalTensor<float> floats_;
    AscendC::LocalTensor<float> spread_;
};

template <typename T, typename G>
__aicore__ inline void Conv2dBatchNormKernel(GM_ADDR x, GM_ADDR weight, GM_ADDR gamma, GM_ADDR beta, GM_ADDR mean,
                                             GM_ADDR variance, GM_ADDR bias, GM_ADDR y, GM_ADDR workspace,
                                             const Conv2dBatchNormTilingData& tiling)
{
    AscendC::TPipe pipe;
    const ChannelStatistics statistics{{gamma, beta, mean, variance, bias}, tiling.epsilon};
    ConvolveAndFinish<T, ChannelNorm<G>>(x, weight, statistics, y, workspace, tiling.convolution, pipe);
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_CONV2D_BATCH_NORM_KERNEL_H
