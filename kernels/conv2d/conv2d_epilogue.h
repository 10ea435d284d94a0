/*!
 * Bias and activation of tiles of float sums.
 */
#ifndef MS_ASCEND_OPS_CONV2D_EPILOGUE_H
#define MS_ASCEND_OPS_CONV2D_EPILOGUE_H

#include "conv2d_tiling.h"
#include "kernel_operator.h"
#include "primitives/activations.h"
#include "primitives/convolution_channels.h"
#include "primitives/convolution_columns.h"
#include "primitives/ones.h"
#include "primitives/tile.h"

namespace ms_ascend_ops {

template <typename T, typename B>
class ConvolutionEpilogue {
public:
    __aicore__ inline void Init(GM_ADDR bias, GM_ADDR y, const Conv2dTilingData& tiling, AscendC::TPipe& pipe)
    {
        tiling_ = tiling;
        yGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(y));
        const uint32_t positions = tiling.tileRows * tiling.tileCols;
        const uint32_t cols = tiling.channelsLast != 0 ? tiling.tileOut : positions;
        chunkElements_ = tiling.chunkRows * ConvolutionStride(cols);
        pipe.InitBuffer(sumQueue_, 2, chunkElements_ * sizeof(float));
        pipe.InitBuffer(outQueue_, 2, chunkElements_ * sizeof(T));
        pipe.InitBuffer(workBuf_, (1 + tiling.scratch) * chunkElements_ * sizeof(float));
        work_ = workBuf_.template Get<float>();
        scratch_ = ScratchBehind(work_, chunkElements_, tiling.scratch);
        ones_ = BlockOfOnes(onesBuf_, pipe);
        if (tiling.hasBias != 0) {
            pipe.InitBuffer(biasQueue_, 1, ChannelsOf(tiling) * sizeof(B));
        }
        bias_.Init(tiling.hasBias != 0 ? bias : nullptr, tiling, pipe);
    }

    __aicore__ inline void Finish(const AscendC::GlobalTensor<float>& sums, const ConvolutionTile& tile, uint64_t y,
                                  uint64_t yStride)
    {
        const bool last = tiling_.channelsLast != 0;
        const uint32_t lines = last ? tile.Positions() : tile.outs;
        const uint32_t cols = last ? tile.outs : tile.Positions();
        const uint64_t channel = static_cast<uint64_t>(tile.group) * tiling_.groupOut + tile.out;
        bias_.BeginTile(biasQueue_, channel, tile.outs);
        for (uint32_t line = 0; line < lines; line += tiling_.chunkRows) {
            const uint32_t rows = lines - line < tiling_.chunkRows ? lines - line : tiling_.chunkRows;
            const RowBlock block{rows, cols, ConvolutionStride(cols)};
            AscendC::LocalTensor<float> z = sumQueue_.template AllocTensor<float>();
            LoadRows(z, sums[line * cols], {rows, cols, block.stride, cols}, true);
            sumQueue_.EnQue(z);
            z = sumQueue_.template DeQue<float>();
            bias_.Add(biasQueue_, z, channel + line, block);
            AscendC::LocalTensor<T> result = outQueue_.template AllocTensor<T>();
            const AscendC::LocalTensor<float> floats = FloatTarget(result, work_);
            const uint32_t count = rows * block.stride;
            Activate<T>(tiling_.activation, floats, scratch_, chunkElements_, z, ones_, static_cast<int32_t>(count));
            FromFloat(result, floats, count);
            sumQueue_.FreeTensor(z);
            StoreQueued(outQueue_, yGm_[y + line * yStride], result, {rows, cols, block.stride, yStride});
        }
    }

private:
    Conv2dTilingData tiling_;
    uint32_t chunkElements_ = 0;
    AscendC::GlobalTensor<T> yGm_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> sumQueue_;
    ChannelQueue biasQueue_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> outQueue_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> workBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> onesBuf_;
    AscendC::LocalTensor<float> work_;
    AscendC::LocalTensor<float> scratch_;  // of the activation, if it has any
    AscendC::LocalTensor<float> ones_;
    ChannelAddend<B> bias_;
};

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_CONV2D_EPILOGUE_H
