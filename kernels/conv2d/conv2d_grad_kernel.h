/*!
 * Computes the gradients of a convolution's weight and bias, with sums in float.
 *
 * Plan: dy times the columns of x (primitives/convolution_columns.h). Cores share chunks of K, and where those are few,
 * parts of the positions, whose sums are added in order at the end. Where it is depthwise with channels last, the
 * vector unit does all of it (conv2d_depthwise_grad.h).
 * Bound: the cube, 2 * positions * output channels * K operations.
 */
#ifndef MS_ASCEND_OPS_CONV2D_GRAD_KERNEL_H
#define MS_ASCEND_OPS_CONV2D_GRAD_KERNEL_H

#include "conv2d_bias_grad.h"
#include "conv2d_depthwise_grad.h"
#include "conv2d_tiling.h"
#include "kernel_operator.h"
#include "primitives/convolution_columns.h"
#include "primitives/products.h"
#include "primitives/sum_chunks.h"

namespace ms_ascend_ops {

// Computes the gradient of the weight.
template <typename T>
class ConvolutionWeightGradient {
public:
    using Operand = GmMatrix<T, true>;
    using Result = GmMatrix<float>;
    MatmulObject<Operand, Operand, Result> product;

    __aicore__ inline void Init(GM_ADDR dy, GM_ADDR x, GM_ADDR sums, GM_ADDR workspace,
                                const ConvolutionTilingData& tiling, AscendC::TPipe& pipe)
    {
        tiling_ = tiling;
        dyGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(dy));
        sumGm_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(sums));
        columns_.Init(x, tiling, pipe);
        CoreWorkspace own(workspace, tiling.workspacePerCore);
        const uint32_t elements = tiling.tileRows * tiling.tileCols * ColumnChunkAt(tiling, 0).k;
        for (uint32_t buffer = 0; buffer < 2 && tiling.direct == 0; ++buffer) {
            own.TakeBytes(columnGm_[buffer], elements, tiling.columnBytes);
        }
    }

    __aicore__ inline void Process()
    {
        const uint64_t core = AscendC::GetBlockIdx();  // groups of cores may be one more than there is work for
        const uint64_t tiles = tiling_.samples * tiling_.rowTiles * tiling_.colTiles;
        for (uint64_t task = core < tiling_.cores ? core : tiling_.tasks; task < tiling_.tasks; task += tiling_.cores) {
            const uint64_t split = task % tiling_.splits;
            const uint64_t chunk = task / tiling_.splits;  // of all groups
            Sum(static_cast<uint32_t>(chunk % tiling_.groups), static_cast<uint32_t>(chunk / tiling_.groups), split,
                tiles * split / tiling_.splits, tiles * (split + 1) / tiling_.splits);
        }
        product.End();
    }

private:
    __aicore__ inline void Sum(uint32_t group, uint32_t chunkIndex, uint64_t split, uint64_t begin, uint64_t end)
    {
        const ColumnChunk chunk = ColumnChunkAt(tiling_, chunkIndex);
        const uint64_t sum = split * tiling_.partialStride +
                             static_cast<uint64_t>(group) * tiling_.groupOut * tiling_.k +
                             static_cast<uint64_t>(chunk.first) * (chunk.k / chunk.count);
        uint32_t buffer = 0;
        MakeColumns(group, begin, end, chunk, buffer);
        for (uint64_t index = begin; index < end; ++index) {
            Start(group, index, chunk, buffer, sum, index != begin);
            buffer = 1 - buffer;
            MakeColumns(group, index + 1, end, chunk, buffer);
            product.WaitIterateAll();
        }
    }

    __aicore__ inline void MakeColumns(uint32_t group, uint64_t index, uint64_t end, const ColumnChunk& chunk,
                                       uint32_t buffer)
    {
        if (index < end && tiling_.direct == 0) {
            ConvolutionTile tile = PositionsAt(tiling_, index);
            tile.group = group;
            columns_.Make(columnGm_[buffer], tile, chunk);
        }
    }

    __aicore__ inline void Start(uint32_t group, uint64_t index, const ColumnChunk& chunk, uint32_t buffer,
                                 uint64_t sum, bool add)
    {
        const bool last = tiling_.channelsLast != 0;
        const bool direct = tiling_.direct != 0;
        ConvolutionTile tile = PositionsAt(tiling_, index);
        tile.group = group;
        const int positions = static_cast<int>(tile.Positions());
        const int outs = static_cast<int>(tiling_.groupOut);
        const int k = static_cast<int>(chunk.k);
        const uint64_t plane = static_cast<uint64_t>(tiling_.outHeight) * tiling_.outWidth;
        const uint64_t position = static_cast<uint64_t>(tile.row) * tiling_.outWidth + tile.col;
        const uint64_t channel = static_cast<uint64_t>(group) * tiling_.groupOut;
        const uint64_t dy = last ? (tile.sample * plane + position) * tiling_.outChannels + channel
                                 : (tile.sample * tiling_.outChannels + channel) * plane + position;
        const AscendC::GlobalTensor<T> columns = direct ? columns_.Direct(tile) : columnGm_[buffer];
        if (last) {  // dy is positions x channels, and transposed
            product.SetOrgShape(static_cast<int>(tiling_.outChannels), direct ? static_cast<int>(tiling_.channels) : k,
                                positions, positions, static_cast<int>(tiling_.k));
        } else {  // the columns are K x positions, and transposed
            product.SetOrgShape(outs, k, static_cast<int>(plane), direct ? static_cast<int>(tiling_.width) : positions,
                                static_cast<int>(tiling_.k));
        }
        product.SetSingleShape(outs, k, positions);
        product.SetTensorA(dyGm_[dy], last);
        product.SetTensorB(columns, !last);
        product.template IterateAll<false>(sumGm_[sum], add ? 1 : 0, false, true);
    }

    ConvolutionTilingData tiling_;
    AscendC::GlobalTensor<T> dyGm_;
    AscendC::GlobalTensor<float> sumGm_;
    AscendC::GlobalTensor<T> columnGm_[2];
    Columns<T> columns_;
};

// SumChunks reads sums through this.
struct PartialSums {
    uint32_t chunks;
    uint32_t chunkStride;
    uint32_t cols;
    uint32_t reduceCols;
    uint32_t reduceRows;
};

template <typename T>
__aicore__ inline void Conv2dGradKernel(GM_ADDR dy, GM_ADDR x, [[maybe_unused]] GM_ADDR weight, GM_ADDR dweight,
                                        GM_ADDR dbias, GM_ADDR workspace, const Conv2dGradTilingData& tiling)
{
    AscendC::TPipe pipe;
    ConvolutionWeightGradient<T> gradient;
    REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), gradient.product, &tiling.product);
    GM_ADDR partials = workspace + tiling.workspacePerCore * tiling.cores;
    GM_ADDR sums = tiling.finished != 0 ? partials : dweight;
    ConvolutionBiasGradient<T> bias;
    bias.Init(dy, dbias, tiling, pipe);
    bias.Process();
    DepthwiseWeightGradient<T> depthwise;
    if (tiling.depthwise != 0) {
        depthwise.Init(dy, x, sums, tiling, pipe);
        depthwise.Process();
        gradient.product.End();
    } else {
        gradient.Init(dy, x, sums, workspace, tiling, pipe);
        gradient.Process();
    }
    if (tiling.finished != 0) {
        AscendC::SyncAll();
        SumChunks<T, PartialSums> total;
        total.Init({tiling.partials, static_cast<uint32_t>(tiling.partialStride),
                    static_cast<uint32_t>(tiling.partialSize), tiling.reduceCols, tiling.reduceRows},
                   pipe);
        total.Process(dweight, partials);
    }
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_CONV2D_GRAD_KERNEL_H
