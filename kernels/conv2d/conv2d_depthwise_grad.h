/*!
 * Computes the gradient of a depthwise weight, channels last, in float on the vector unit: for each kernel offset, the
 * elements of x that it sees are multiplied with dy and summed over positions.
 *
 * Cores share tiles of channels and parts of the positions; the sums of the parts are added in order at the end.
 * Bound: the vector unit, two instructions for each kernel offset of each element.
 */
#ifndef MS_ASCEND_OPS_CONV2D_DEPTHWISE_GRAD_H
#define MS_ASCEND_OPS_CONV2D_DEPTHWISE_GRAD_H

#include "kernel_operator.h"
#include "primitives/columns.h"
#include "primitives/convolution_depthwise_tiles.h"

namespace ms_ascend_ops {

template <typename T>
class DepthwiseWeightGradient {
public:
    __aicore__ inline void Init(GM_ADDR dy, GM_ADDR x, GM_ADDR sums, const ConvolutionTilingData& tiling,
                                AscendC::TPipe& pipe)
    {
        tiling_ = tiling;
        dyGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(dy));
        sumGm_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(sums));
        kernelSize_ = tiling.kernelHeight * tiling.kernelWidth;
        height_ = ConvolutionStride(kernelSize_);
        stride_ = ConvolutionStride(tiling.tileOut);
        input_.Init(x, tiling, pipe);
        const uint32_t elements = tiling.tileRows * tiling.tileCols * stride_;
        pipe.InitBuffer(dyQueue_, 2, elements * sizeof(T));
        dyCopies_.Init(elements, pipe);
        pipe.InitBuffer(productBuf_, tiling.tileCols * stride_ * sizeof(float));
        pipe.InitBuffer(sumBuf_, height_ * stride_ * sizeof(float));
        pipe.InitBuffer(outQueue_, 1, height_ * stride_ * sizeof(float));
        sums_ = sumBuf_.template Get<float>();
    }

    __aicore__ inline void Process()
    {
        const uint64_t tiles = tiling_.samples * tiling_.rowTiles * tiling_.colTiles;  // of positions
        const uint64_t core = AscendC::GetBlockIdx();  // groups of cores may be one more than there is work for
        for (uint64_t task = core < tiling_.cores ? core : tiling_.tasks; task < tiling_.tasks; task += tiling_.cores) {
            const uint64_t split = task % tiling_.splits;
            const uint64_t first = task / tiling_.splits * tiles;
            AscendC::Duplicate(sums_, 0.0f, static_cast<int32_t>(height_ * stride_));
            const uint64_t end = first + tiles * (split + 1) / tiling_.splits;
            for (uint64_t index = first + tiles * split / tiling_.splits; index < end; ++index) {
                Add(DepthwiseTileAt(tiling_, index));
            }
            const uint32_t channel = static_cast<uint32_t>(task / tiling_.splits) * tiling_.tileOut;
            const uint32_t left = tiling_.channels - channel;
            Store(split, channel, left < tiling_.tileOut ? left : tiling_.tileOut);
        }
    }

private:
    // Adds the products of a tile to its sums.
    __aicore__ inline void Add(const DepthwiseTile& tile)
    {
        input_.Load(tile);
        AscendC::LocalTensor<T> dy = dyQueue_.template AllocTensor<T>();
        const uint32_t line = tile.cols * stride_;
        for (uint32_t row = 0; row < tile.rows; ++row) {
            const uint64_t position = (tile.sample * tiling_.outHeight + tile.row + row) * tiling_.outWidth + tile.col;
            LoadRows(dy[row * line], dyGm_[position * tiling_.channels + tile.channel],
                     {tile.cols, tile.channels, stride_, tiling_.channels}, true);
        }
        dyQueue_.EnQue(dy);
        input_.Begin();
        dy = dyQueue_.template DeQue<T>();
        const AscendC::LocalTensor<float> dyFloats = dyCopies_.Take(dy, 0, tile.rows * line);
        const AscendC::LocalTensor<float> products = productBuf_.template Get<float>();
        for (uint32_t offset = 0; offset < kernelSize_; ++offset) {
            const AscendC::LocalTensor<float> sum =
                sums_[(tiling_.flip != 0 ? kernelSize_ - 1 - offset : offset) * stride_];
            for (uint32_t row = 0; row < tile.rows; ++row) {
                Multiply(products, input_.SeenBy(offset / tiling_.kernelWidth, offset % tiling_.kernelWidth, row),
                         dyFloats[row * line], tile);
                SumColumns(sum, products, {tile.cols, tile.channels, stride_});
            }
        }
        dyQueue_.FreeTensor(dy);
        input_.End();
    }

    // Computes dst[col] = seen[col] * dy[col], for the columns of a row.
    __aicore__ inline void Multiply(const AscendC::LocalTensor<float>& dst, const AscendC::LocalTensor<float>& seen,
                                    const AscendC::LocalTensor<float>& dy, const DepthwiseTile& tile) const
    {
        const uint8_t step = static_cast<uint8_t>(stride_ / FLOATS_PER_BLOCK);
        const uint8_t seenStep = static_cast<uint8_t>(input_.Step() / FLOATS_PER_BLOCK);
        for (uint32_t channel = 0; channel < tile.channels; channel += FLOAT_LANES) {
            MulOf::Repeat(dst[channel], seen[channel], dy[channel], LanesAt(channel, tile.channels), tile.cols,
                          {1, 1, 1, step, seenStep, step});
        }
    }

    // Stores the sums, kernel offsets x channels, as channels x kernel offsets.
    __aicore__ inline void Store(uint64_t split, uint32_t channel, uint32_t channels)
    {
        AscendC::LocalTensor<float> result = outQueue_.template AllocTensor<float>();
        TransposeRows(result, sums_, height_, channels, stride_, height_);
        StoreQueued(outQueue_, sumGm_[split * tiling_.partialStride + uint64_t{channel} * kernelSize_], result,
                    {channels, kernelSize_, height_, kernelSize_});
    }

    ConvolutionTilingData tiling_;
    uint32_t kernelSize_ = 0;
    uint32_t height_ = 0;  // kernel offsets in whole blocks
    uint32_t stride_ = 0;  // elements from a position to the next
    DepthwiseInput<T> input_;
    AscendC::GlobalTensor<T> dyGm_;
    AscendC::GlobalTensor<float> sumGm_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> dyQueue_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> outQueue_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> productBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> sumBuf_;
    AscendC::LocalTensor<float> sums_;
    FloatCopies<T> dyCopies_;
};

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_CONV2D_DEPTHWISE_GRAD_H
