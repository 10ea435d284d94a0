/*!
 * Applies a function of the channels, and the activation, to tiles of float sums.
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_CONVOLUTION_EPILOGUE_H
#define MS_ASCEND_OPS_PRIMITIVES_CONVOLUTION_EPILOGUE_H

#include "kernel_operator.h"
#include "primitives/activations.h"
#include "primitives/convolution_channels.h"
#include "primitives/convolution_columns.h"
#include "primitives/convolution_depthwise.h"
#include "primitives/convolution_tiles.h"
#include "primitives/ones.h"
#include "primitives/tile.h"

namespace ms_ascend_ops {

// CHANNELS says what is done to the sums of each channel. It has
//     Values, what it reads, and Init(values, tiling, pipe);
//     BeginTile(channel, channels): the first of a tile's channels, and how many it has;
//     Apply(z, channel, block): to a chunk of the tile, which with channels first begins with that channel.
template <typename T, typename CHANNELS>
class ConvolutionEpilogue {
public:
    __aicore__ inline void Init(const typename CHANNELS::Values& values, GM_ADDR y, const ConvolutionTilingData& tiling,
                                AscendC::TPipe& pipe)
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
        channels_.Init(values, tiling, pipe);
    }

    __aicore__ inline void Finish(const AscendC::GlobalTensor<float>& sums, const ConvolutionTile& tile, uint64_t y,
                                  uint64_t yStride)
    {
        const bool last = tiling_.channelsLast != 0;
        const uint32_t lines = last ? tile.Positions() : tile.outs;
        const uint32_t cols = last ? tile.outs : tile.Positions();
        const uint64_t channel = static_cast<uint64_t>(tile.group) * tiling_.groupOut + tile.out;
        channels_.BeginTile(channel, tile.outs);
        for (uint32_t line = 0; line < lines; line += tiling_.chunkRows) {
            const uint32_t rows = lines - line < tiling_.chunkRows ? lines - line : tiling_.chunkRows;
            const RowBlock block{rows, cols, ConvolutionStride(cols)};
            AscendC::LocalTensor<float> z = sumQueue_.template AllocTensor<float>();
            LoadRows(z, sums[line * cols], {rows, cols, block.stride, cols}, true);
            sumQueue_.EnQue(z);
            z = sumQueue_.template DeQue<float>();
            channels_.Apply(z, channel + line, block);
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
    ConvolutionTilingData tiling_;
    uint32_t chunkElements_ = 0;
    AscendC::GlobalTensor<T> yGm_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> sumQueue_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> outQueue_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> workBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> onesBuf_;
    AscendC::LocalTensor<float> work_;
    AscendC::LocalTensor<float> scratch_;  // of the activation, if it has any
    AscendC::LocalTensor<float> ones_;
    CHANNELS channels_;
};

// Runs a convolution whose tiles the vector unit finishes, or makes. CHANNELS is as above.
template <typename T, typename CHANNELS>
__aicore__ inline void ConvolveAndFinish(GM_ADDR x, GM_ADDR weight, const typename CHANNELS::Values& values, GM_ADDR y,
                                         GM_ADDR workspace, const ConvolutionTilingData& tiling, AscendC::TPipe& pipe)
{
    if (tiling.depthwise != 0) {
        typename Convolution<T, float>::Product product;
        REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), product, &tiling.product);  // the cube core leaves here
        DepthwiseConvolution<T, CHANNELS> convolution;
        convolution.Init(x, weight, values, y, tiling, pipe);
        convolution.Process();
        product.End();
        return;
    }
    Convolution<T, float> convolution;
    REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), convolution.product, &tiling.product);
    convolution.Init(x, weight, workspace, tiling, pipe);
    ConvolutionEpilogue<T, CHANNELS> epilogue;
    epilogue.Init(values, y, tiling, pipe);
    convolution.MultiplyAndFinish(epilogue);
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_CONVOLUTION_EPILOGUE_H
