/*!
 * A value of each output channel that is added to tiles of a convolution.
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_CONVOLUTION_CHANNELS_H
#define MS_ASCEND_OPS_PRIMITIVES_CONVOLUTION_CHANNELS_H

#include "kernel_operator.h"
#include "primitives/convolution_tiling.h"
#include "primitives/rows.h"
#include "primitives/tile.h"

namespace ms_ascend_ops {

// Elements from a row of a chunk to the next: whole blocks, also of 16 bits.
__aicore__ inline uint32_t ConvolutionStride(uint32_t cols)
{
    return (cols + 15) / 16 * 16;
}

template <typename B>
class ChannelAddend {
public:
    // Nothing is done without an address.
    __aicore__ inline void Init(GM_ADDR values, const ConvolutionTilingData& tiling, AscendC::TPipe& pipe)
    {
        last_ = tiling.channelsLast != 0;
        given_ = values != nullptr;
        if (!given_) {
            return;
        }
        gm_.SetGlobalBuffer(reinterpret_cast<__gm__ B*>(values));
        const uint32_t channels = ConvolutionStride(last_ ? tiling.tileOut : tiling.chunkRows);
        pipe.InitBuffer(queue_, 1, channels * sizeof(B));
        pipe.InitBuffer(floatBuf_, channels * sizeof(float));
        floats_ = floatBuf_.template Get<float>();
        if (!last_) {
            pipe.InitBuffer(spreadBuf_, channels * AscendC::ONE_BLK_SIZE);
            spread_ = spreadBuf_.template Get<float>();
            AscendC::Duplicate(floats_, 0.0f, static_cast<int32_t>(channels));  // Brcb reads whole blocks
        }
    }

    // A tile: with channels last, all its values are loaded at once.
    __aicore__ inline void BeginTile(uint64_t at, uint32_t channels)
    {
        if (given_ && last_) {
            Load(at, channels);
        }
    }

    // z += the values of its channels, of which the first with channels first is `at`.
    __aicore__ inline void Add(const AscendC::LocalTensor<float>& z, uint64_t at, const RowBlock& block)
    {
        if (given_ && last_) {
            AddColumns(z, z, floats_, block);
        } else if (given_) {
            Load(at, block.rows);
            BroadcastRows(spread_, floats_, block.rows);
            AddRows(z, z, spread_, block);
        }
    }

private:
    __aicore__ inline void Load(uint64_t at, uint32_t count)
    {
        AscendC::LocalTensor<B> values = queue_.template AllocTensor<B>();
        LoadRows(values, gm_[at], {1, count, count, count}, true);
        queue_.EnQue(values);
        values = queue_.template DeQue<B>();
        if constexpr (IS_FLOAT<B>) {
            AscendC::Muls(floats_, values, 1.0f, static_cast<int32_t>(count));  // a copy
        } else {
            AscendC::Cast(floats_, values, AscendC::RoundMode::CAST_NONE, count);
        }
        queue_.FreeTensor(values);
    }

    bool last_ = false;
    bool given_ = false;
    AscendC::GlobalTensor<B> gm_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> queue_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> floatBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> spreadBuf_;
    AscendC::LocalTensor<float> floats_;
    AscendC::LocalTensor<float> spread_;
};

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_CONVOLUTION_CHANNELS_H
