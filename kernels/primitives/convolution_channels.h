/*!
 * Adds a value of each output channel to tiles of a convolution.
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_CONVOLUTION_CHANNELS_H
#define MS_ASCEND_OPS_PRIMITIVES_CONVOLUTION_CHANNELS_H

#include "kernel_operator.h"
#include "primitives/convolution_tiling.h"
#include "primitives/rows.h"
#include "primitives/tile.h"

namespace ms_ascend_ops {

// Returns the elements from a row of a chunk to the next: whole blocks, also of 16 bits.
__aicore__ inline uint32_t ConvolutionStride(uint32_t cols)
{
    return (cols + 15) / 16 * 16;
}

// Values are loaded through it, one addend after the other: a TPosition has event ids for 8 buffers.
using ChannelQueue = AscendC::TQue<AscendC::TPosition::VECIN, 1>;

// Returns how many values a chunk has, or with channels last a tile.
__aicore__ inline uint32_t ChannelsOf(const ConvolutionTilingData& tiling)
{
    return ConvolutionStride(tiling.channelsLast != 0 ? tiling.tileOut : tiling.chunkRows);
}

// Makes floats of loaded values.
template <typename B>
__aicore__ inline void TakeChannels(const AscendC::LocalTensor<float>& floats, const AscendC::LocalTensor<B>& values,
                                    uint32_t count)
{
    if constexpr (IS_FLOAT<B>) {
        AscendC::Muls(floats, values, 1.0f, static_cast<int32_t>(count));  // a copy
    } else {
        AscendC::Cast(floats, values, AscendC::RoundMode::CAST_NONE, count);
    }
}

template <typename B>
class ChannelAddend {
public:
    // Nothing is done without an address. `queue` has a buffer for ChannelsOf(tiling).
    __aicore__ inline void Init(GM_ADDR values, const ConvolutionTilingData& tiling, AscendC::TPipe& pipe)
    {
        last_ = tiling.channelsLast != 0;
        given_ = values != nullptr;
        if (!given_) {
            return;
        }
        gm_.SetGlobalBuffer(reinterpret_cast<__gm__ B*>(values));
        const uint32_t channels = ChannelsOf(tiling);
        pipe.InitBuffer(floatBuf_, channels * sizeof(float));
        floats_ = floatBuf_.template Get<float>();
        if (!last_) {
            pipe.InitBuffer(spreadBuf_, channels * AscendC::ONE_BLK_SIZE);
            spread_ = spreadBuf_.template Get<float>();
            AscendC::Duplicate(floats_, 0.0f, static_cast<int32_t>(channels));  // Brcb reads whole blocks
        }
    }

    // Begins a tile: with channels last, all its values are loaded at once.
    __aicore__ inline void BeginTile(ChannelQueue& queue, uint64_t at, uint32_t channels)
    {
        if (given_ && last_) {
            Load(queue, at, channels);
        }
    }

    // Adds the values of its channels to z; with channels first, the first of them is `at`.
    __aicore__ inline void Add(ChannelQueue& queue, const AscendC::LocalTensor<float>& z, uint64_t at,
                               const RowBlock& block)
    {
        if (given_ && last_) {
            AddColumns(z, z, floats_, block);
        } else if (given_) {
            Load(queue, at, block.rows);
            BroadcastRows(spread_, floats_, block.rows);
            AddRows(z, z, spread_, block);
        }
    }

private:
    __aicore__ inline void Load(ChannelQueue& queue, uint64_t at, uint32_t count)
    {
        AscendC::LocalTensor<B> values = queue.template AllocTensor<B>();
        LoadRows(values, gm_[at], {1, count, count, count}, true);
        queue.EnQue(values);
        values = queue.template DeQue<B>();
        TakeChannels(floats_, values, count);
        queue.FreeTensor(values);
    }

    bool last_ = false;
    bool given_ = false;
    AscendC::GlobalTensor<B> gm_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> floatBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> spreadBuf_;
    AscendC::LocalTensor<float> floats_;
    AscendC::LocalTensor<float> spread_;
};

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_CONVOLUTION_CHANNELS_H
