/*!
 * Computes a convolution, z = x * weight + bias + shift + residual, and the norm of z, y = act((z - mean) * rstd *
 * gamma + beta), with mean and rstd of groups of channels. The bias has a value for each channel, the shift one for
 * each channel of each sample.
 *
 * Plan, in three stages with barriers between. (1) primitives/convolution_tiles.h makes tiles of float sums; the vector
 * unit adds what is added, rounds, writes z, and leaves mean and squares from the mean of each channel of the tile: of
 * the rounded values, as a norm of z would see them. (2) primitives/group_norm_combine.h puts the tiles of a channel
 * together, then the channels of a group, in a fixed order, and makes factors of channels. (3)
 * primitives/group_norm_apply.h makes y of z. So z is not read to sum it up.
 * Bound: the cube, 2 * positions * output channels * K operations; then memory, z written and read, y written.
 */
#ifndef MS_ASCEND_OPS_CONV2D_GROUP_NORM_KERNEL_H
#define MS_ASCEND_OPS_CONV2D_GROUP_NORM_KERNEL_H

#include "conv2d_group_norm_moments.h"
#include "conv2d_group_norm_tiling.h"
#include "kernel_operator.h"
#include "primitives/convolution_channels.h"
#include "primitives/convolution_tiles.h"
#include "primitives/core_share.h"
#include "primitives/group_norm_apply.h"
#include "primitives/group_norm_combine.h"
#include "primitives/products.h"

namespace ms_ascend_ops {

// Adds bias, shift and residual to tiles of float sums, which makes z, and takes the statistics of z.
template <typename T, typename G>
class NormEpilogue {
public:
    __aicore__ inline void Init(GM_ADDR bias, GM_ADDR shift, GM_ADDR residual, GM_ADDR z, GM_ADDR statistics,
                                const Conv2dGroupNormTilingData& tiling, AscendC::TPipe& pipe)
    {
        tiling_ = tiling.convolution;
        hasResidual_ = tiling.hasResidual != 0;
        zGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(z));
        residualGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(residual));
        const uint32_t cols = tiling_.channelsLast != 0 ? tiling_.tileOut : tiling_.tileRows * tiling_.tileCols;
        const uint32_t elements = tiling_.chunkRows * ConvolutionStride(cols);
        pipe.InitBuffer(sumQueue_, 2, elements * sizeof(float));
        pipe.InitBuffer(outQueueZ_, 2, elements * sizeof(T));
        if (hasResidual_) {
            pipe.InitBuffer(inQueueResidual_, 1, elements * sizeof(T));
        }
        pipe.InitBuffer(workBuf_, elements * sizeof(float));
        work_ = workBuf_.template Get<float>();
        AscendC::Duplicate(work_, 0.0f, static_cast<int32_t>(elements));         // the gaps between rows are read
        pipe.InitBuffer(channelQueue_, 1, ChannelsOf(tiling_) * sizeof(float));  // of T or G
        bias_.Init(tiling_.hasBias != 0 ? bias : nullptr, tiling_, pipe);
        shift_.Init(tiling.hasShift != 0 ? shift : nullptr, tiling_, pipe);
        moments_.Init(statistics, tiling_, tiling.norm, pipe);
    }

    __aicore__ inline void Finish(const AscendC::GlobalTensor<float>& sums, const ConvolutionTile& tile, uint64_t z,
                                  uint64_t zStride)
    {
        const bool last = tiling_.channelsLast != 0;
        const uint32_t lines = last ? tile.Positions() : tile.outs;
        const uint32_t cols = last ? tile.outs : tile.Positions();
        const uint64_t channel = static_cast<uint64_t>(tile.group) * tiling_.groupOut + tile.out;
        const uint64_t channelOfSample = tile.sample * tiling_.outChannels + channel;
        bias_.BeginTile(channelQueue_, channel, tile.outs);
        shift_.BeginTile(channelQueue_, channelOfSample, tile.outs);
        moments_.BeginTile(tile, channel);
        for (uint32_t line = 0; line < lines; line += tiling_.chunkRows) {
            const uint32_t rows = lines - line < tiling_.chunkRows ? lines - line : tiling_.chunkRows;
            const RowBlock block{rows, cols, ConvolutionStride(cols)};
            const Rows shape{rows, cols, block.stride, zStride};
            const uint32_t count = rows * block.stride;
            AscendC::LocalTensor<float> zFloat = sumQueue_.template AllocTensor<float>();
            LoadRows(zFloat, sums[line * cols], {rows, cols, block.stride, cols}, true);
            sumQueue_.EnQue(zFloat);
            zFloat = sumQueue_.template DeQue<float>();
            bias_.Add(channelQueue_, zFloat, channel + line, block);
            shift_.Add(channelQueue_, zFloat, channelOfSample + line, block);
            if (hasResidual_) {
                AddResidual(zFloat, z + line * zStride, shape, count);
            }
            AscendC::LocalTensor<T> zLocal = outQueueZ_.template AllocTensor<T>();
            if constexpr (IS_FLOAT<T>) {
                AscendC::Muls(zLocal, zFloat, 1.0f, static_cast<int32_t>(count));  // a copy
            } else {
                FromFloat(zLocal, zFloat, count);
                ToFloat(zLocal, zFloat, count);
            }
            moments_.Add(zFloat, work_, line, block);
            sumQueue_.FreeTensor(zFloat);
            StoreQueued(outQueueZ_, zGm_[z + line * zStride], zLocal, shape);
        }
        moments_.EndTile(tile.outs);
    }

private:
    __aicore__ inline void AddResidual(const AscendC::LocalTensor<float>& z, uint64_t at, const Rows& shape,
                                       uint32_t count)
    {
        AscendC::LocalTensor<T> residual = inQueueResidual_.template AllocTensor<T>();
        LoadRows(residual, residualGm_[at], shape, true);
        inQueueResidual_.EnQue(residual);
        residual = inQueueResidual_.template DeQue<T>();
        AscendC::Add(z, z, ToFloat(residual, work_, count), static_cast<int32_t>(count));
        inQueueResidual_.FreeTensor(residual);
    }

    ConvolutionTilingData tiling_;
    bool hasResidual_ = false;
    AscendC::GlobalTensor<T> zGm_;
    AscendC::GlobalTensor<T> residualGm_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> sumQueue_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueueResidual_;
    ChannelQueue channelQueue_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> outQueueZ_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> workBuf_;
    AscendC::LocalTensor<float> work_;
    ChannelAddend<G> bias_;
    ChannelAddend<T> shift_;
    ChannelMoments moments_;
};

template <typename T, typename G, bool LAST>
__aicore__ inline void NormalizeTiles(GM_ADDR z, GM_ADDR gamma, GM_ADDR beta, GM_ADDR y, GM_ADDR mean, GM_ADDR rstd,
                                      GM_ADDR statistics, const NormGroupsTilingData& tiling, AscendC::TPipe& pipe)
{
    GroupNormApply<T, LAST> data;
    GroupNormCombine<T, G, GroupNormFrom::MEANS> combine;
    data.Init(z, y, statistics, tiling, 0, 0, pipe);
    combine.Init(nullptr, gamma, beta, nullptr, mean, rstd, statistics, tiling, pipe);
    const CoreShare groups = ShareOf(tiling.groups, tiling.groupsPerCore);
    combine.Process(groups.begin, groups.end);
    AscendC::SyncAll();
    const CoreShare items = ShareOf(tiling.items, tiling.itemsPerCore);
    data.Apply(items.begin, items.end);
}

template <typename T, typename G>
__aicore__ inline void Conv2dGroupNormKernel(GM_ADDR x, GM_ADDR weight, GM_ADDR gamma, GM_ADDR beta, GM_ADDR bias,
                                             GM_ADDR shift, GM_ADDR residual, GM_ADDR y, GM_ADDR z, GM_ADDR mean,
                                             GM_ADDR rstd, GM_ADDR workspace, const Conv2dGroupNormTilingData& tiling)
{
    AscendC::TPipe pipe;
    GM_ADDR statistics = workspace + tiling.convolution.workspacePerCore * tiling.convolution.cores;
    {
        Convolution<T, float> convolution;
        REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), convolution.product, &tiling.convolution.product);
        convolution.Init(x, weight, workspace, tiling.convolution, pipe);
        NormEpilogue<T, G> epilogue;
        epilogue.Init(bias, shift, residual, z, statistics, tiling, pipe);
        convolution.MultiplyAndFinish(epilogue);
    }
    AscendC::SyncAll();
    pipe.Reset();
    if (tiling.norm.channelsLast != 0) {
        NormalizeTiles<T, G, true>(z, gamma, beta, y, mean, rstd, statistics, tiling.norm, pipe);
    } else {
        NormalizeTiles<T, G, false>(z, gamma, beta, y, mean, rstd, statistics, tiling.norm, pipe);
    }
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_CONV2D_GROUP_NORM_KERNEL_H
