/*!
 * Computes y = activation(x * weight + bias), depthwise and channels last, in float on the vector unit: rows of
 * channels times those of a kernel offset, offset by offset. A product of matrices would have a single column.
 *
 * Bound: the vector unit, two instructions for each kernel offset of each element.
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_CONVOLUTION_DEPTHWISE_H
#define MS_ASCEND_OPS_PRIMITIVES_CONVOLUTION_DEPTHWISE_H

#include "kernel_operator.h"
#include "primitives/activations.h"
#include "primitives/columns.h"
#include "primitives/convolution_depthwise_tiles.h"
#include "primitives/core_share.h"
#include "primitives/ones.h"

namespace ms_ascend_ops {

// For CHANNELS see primitives/convolution_epilogue.h.
template <typename T, typename CHANNELS>
class DepthwiseConvolution {
public:
    __aicore__ inline void Init(GM_ADDR x, GM_ADDR weight, const typename CHANNELS::Values& values, GM_ADDR y,
                                const ConvolutionTilingData& tiling, AscendC::TPipe& pipe)
    {
        tiling_ = tiling;
        weightGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(weight));
        yGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(y));
        kernelSize_ = tiling.kernelHeight * tiling.kernelWidth;
        stride_ = ConvolutionStride(tiling.tileOut);
        elements_ = tiling.tileCols * stride_;
        input_.Init(x, tiling, pipe);
        const uint32_t weights = ConvolutionStride(kernelSize_) * stride_;
        pipe.InitBuffer(weightQueue_, 1, weights * sizeof(T));
        pipe.InitBuffer(weightBuf_, weights * sizeof(T));
        weightCopies_.Init(weights, pipe);
        pipe.InitBuffer(workBuf_, (3 + tiling.scratch) * elements_ * sizeof(float));
        pipe.InitBuffer(outQueue_, 2, elements_ * sizeof(T));
        sums_ = workBuf_.template Get<float>();
        AscendC::Duplicate(sums_, 0.0f, static_cast<int32_t>(elements_));  // also behind the channels of a tile
        ones_ = BlockOfOnes(onesBuf_, pipe);
        channels_.Init(values, tiling, pipe);
    }

    __aicore__ inline void Process()
    {
        const CoreShare share = ShareOf(tiling_.tasks, (tiling_.tasks + tiling_.cores - 1) / tiling_.cores);
        if (share.begin < share.end) {
            input_.Load(DepthwiseTileAt(tiling_, share.begin));
        }
        for (uint64_t task = share.begin; task < share.end; ++task) {
            const DepthwiseTile tile = DepthwiseTileAt(tiling_, task);
            if (task == share.begin || tile.channel != DepthwiseTileAt(tiling_, task - 1).channel) {
                LoadWeight(tile);
                channels_.BeginTile(tile.channel, tile.channels);
            }
            input_.Begin();
            for (uint32_t row = 0; row < tile.rows; ++row) {
                Row(tile, row);
            }
            input_.End();
            if (task + 1 < share.end) {
                input_.Load(DepthwiseTileAt(tiling_, task + 1));
            }
        }
    }

private:
    // Transposes the weight, channels x kernel offsets, to kernel offsets x channels, in float.
    __aicore__ inline void LoadWeight(const DepthwiseTile& tile)
    {
        const uint32_t cols = ConvolutionStride(kernelSize_);
        const uint32_t rows = ConvolutionStride(tile.channels);
        AscendC::LocalTensor<T> weight = weightQueue_.template AllocTensor<T>();
        LoadRows(weight, weightGm_[static_cast<uint64_t>(tile.channel) * kernelSize_],
                 {tile.channels, kernelSize_, cols, kernelSize_}, true);
        weightQueue_.EnQue(weight);
        weight = weightQueue_.template DeQue<T>();
        if (rows > tile.channels) {
            const AscendC::LocalTensor<int32_t> behind =
                weight[tile.channels * cols].template ReinterpretCast<int32_t>();
            AscendC::Duplicate(behind, 0,
                               static_cast<int32_t>((rows - tile.channels) * cols * sizeof(T) / sizeof(int32_t)));
        }
        const AscendC::LocalTensor<T> transposed = weightBuf_.template Get<T>();
        TransposeRows(transposed, weight, rows, kernelSize_, cols, stride_);
        weightQueue_.FreeTensor(weight);
        factors_ = weightCopies_.Take(transposed, 0, kernelSize_ * stride_);
    }

    __aicore__ inline void Row(const DepthwiseTile& tile, uint32_t row)
    {
        const AscendC::LocalTensor<float> product = sums_[elements_];
        for (uint32_t offset = 0; offset < kernelSize_; ++offset) {
            const AscendC::LocalTensor<float> seen =
                input_.SeenBy(offset / tiling_.kernelWidth, offset % tiling_.kernelWidth, row);
            const AscendC::LocalTensor<float> factors =
                factors_[(tiling_.flip != 0 ? kernelSize_ - 1 - offset : offset) * stride_];
            Multiply(offset == 0 ? sums_ : product, seen, factors, tile);
            if (offset > 0) {
                InRows<AddOf>(sums_, sums_, product, {tile.cols, tile.channels, stride_});
            }
        }
        channels_.Apply(sums_, tile.channel, {tile.cols, tile.channels, stride_});
        AscendC::LocalTensor<T> result = outQueue_.template AllocTensor<T>();
        const AscendC::LocalTensor<float> floats = FloatTarget(result, sums_[2 * elements_]);
        const uint32_t count = tile.cols * stride_;
        Activate<T>(tiling_.activation, floats, ScratchBehind(sums_, 3 * elements_, tiling_.scratch), elements_, sums_,
                    ones_, static_cast<int32_t>(count));
        FromFloat(result, floats, count);
        const uint64_t line = tile.sample * tiling_.outHeight + tile.row + row;
        StoreQueued(outQueue_, yGm_[(line * tiling_.outWidth + tile.col) * tiling_.channels + tile.channel], result,
                    {tile.cols, tile.channels, stride_, tiling_.channels});
    }

    // Computes dst[col] = seen[col] * factors, for the columns of a row.
    __aicore__ inline void Multiply(const AscendC::LocalTensor<float>& dst, const AscendC::LocalTensor<float>& seen,
                                    const AscendC::LocalTensor<float>& factors, const DepthwiseTile& tile) const
    {
        const uint8_t dstStep = static_cast<uint8_t>(stride_ / FLOATS_PER_BLOCK);
        const uint8_t seenStep = static_cast<uint8_t>(input_.Step() / FLOATS_PER_BLOCK);
        for (uint32_t channel = 0; channel < tile.channels; channel += FLOAT_LANES) {
            MulOf::Repeat(dst[channel], seen[channel], factors[channel], LanesAt(channel, tile.channels), tile.cols,
                          {1, 1, 1, dstStep, seenStep, 0});
        }
    }

    ConvolutionTilingData tiling_;
    uint32_t kernelSize_ = 0;
    uint32_t stride_ = 0;    // elements from a position to the next
    uint32_t elements_ = 0;  // of a row of a tile
    DepthwiseInput<T> input_;
    AscendC::GlobalTensor<T> weightGm_;
    AscendC::GlobalTensor<T> yGm_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> weightQueue_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> outQueue_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> weightBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> workBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> onesBuf_;
    AscendC::LocalTensor<float> factors_;
    AscendC::LocalTensor<float> sums_;
    AscendC::LocalTensor<float> ones_;
    FloatCopies<T> weightCopies_;
    CHANNELS channels_;
};

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_CONVOLUTION_DEPTHWISE_H
