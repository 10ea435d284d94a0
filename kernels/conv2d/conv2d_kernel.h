/*!
 * Computes a convolution, y = activation(x * weight + bias), with sums in float.
 *
 * For the plan see primitives/convolution_tiles.h. Without bias and activation the cube writes y itself; otherwise the
 * vector unit adds the bias to float sums, applies the activation and rounds. Where it is depthwise with channels last,
 * the vector unit does all of it (primitives/convolution_depthwise.h).
 * Bound: the cube, 2 * positions * output channels * K operations.
 */
#ifndef MS_ASCEND_OPS_CONV2D_KERNEL_H
#define MS_ASCEND_OPS_CONV2D_KERNEL_H

#include "conv2d_tiling.h"
#include "kernel_operator.h"
#include "primitives/convolution_channels.h"
#include "primitives/convolution_epilogue.h"
#include "primitives/convolution_tiles.h"
#include "primitives/products.h"

namespace ms_ascend_ops {

// Adds the bias to the sums of each channel.
template <typename B>
class ChannelBias {
public:
    using Values = GM_ADDR;

    __aicore__ inline void Init(GM_ADDR bias, const ConvolutionTilingData& tiling, AscendC::TPipe& pipe)
    {
        if (tiling.hasBias != 0) {
            pipe.InitBuffer(queue_, 1, ChannelsOf(tiling) * sizeof(B));
        }
        bias_.Init(tiling.hasBias != 0 ? bias : nullptr, tiling, pipe);
    }

    // Loads the values of a tile. `channel` is the first of its channels, `channels` their number.
    __aicore__ inline void BeginTile(uint64_t channel, uint32_t channels)
    {
        bias_.BeginTile(queue_, channel, channels);
    }

    // Adds them to a chunk of the tile, which with channels first begins with `channel`.
    __aicore__ inline void Apply(const AscendC::LocalTensor<float>& z, uint64_t channel, const RowBlock& block)
    {
        bias_.Add(queue_, z, channel, block);
    }

private:
    ChannelQueue queue_;
    ChannelAddend<B> bias_;
};

template <typename T, typename B>
__aicore__ inline void Conv2dKernel(GM_ADDR x, GM_ADDR weight, GM_ADDR bias, GM_ADDR y, GM_ADDR workspace,
                                    const Conv2dTilingData& tiling)
{
    AscendC::TPipe pipe;
    if (tiling.depthwise == 0 && tiling.finished == 0) {
        Convolution<T, T> convolution;
        REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), convolution.product, &tiling.product);
        convolution.Init(x, weight, workspace, tiling, pipe);
        convolution.Multiply(y);
        return;
    }
    ConvolveAndFinish<T, ChannelBias<B>>(x, weight, bias, y, workspace, tiling, pipe);
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_CONV2D_KERNEL_H
