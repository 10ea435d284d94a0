/*!
 * Computes convolutions as an implicit product of matrices, tile by tile of the output.
 *
 * Tiles of positions go to cores round-robin; a core's vector unit makes the columns of a chunk of K in the workspace
 * (convolution_columns.h) while its cube multiplies those before with the weight. Sums of several chunks are added up
 * in global memory, in order. The cube writes the output itself, or float sums go through the workspace to the vector
 * unit, which finishes them.
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_CONVOLUTION_TILES_H
#define MS_ASCEND_OPS_PRIMITIVES_CONVOLUTION_TILES_H

#include "kernel_operator.h"
#include "primitives/convolution_columns.h"
#include "primitives/convolution_tiling.h"
#include "primitives/convolution_weight.h"
#include "primitives/products.h"

namespace ms_ascend_ops {

// RESULT is float for the vector unit, or T.
template <typename T, typename RESULT>
class Convolution {
public:
    using Operand = GmMatrix<T, true>;
    using Result = GmMatrix<RESULT>;
    using Product = MatmulObject<Operand, Operand, Result>;
    Product product;

    __aicore__ inline void Init(GM_ADDR x, GM_ADDR weight, GM_ADDR workspace, const ConvolutionTilingData& tiling,
                                AscendC::TPipe& pipe)
    {
        tiling_ = tiling;
        columns_.Init(x, tiling, pipe);
        weight_.Init(weight, workspace + tiling.workspacePerCore * tiling.cores, tiling, columns_);
        CoreWorkspace own(workspace, tiling.workspacePerCore);
        const uint32_t positions = tiling.tileRows * tiling.tileCols;
        const uint32_t k = ColumnChunkAt(tiling, 0).k;
        for (uint32_t buffer = 0; buffer < 2 && tiling.direct == 0; ++buffer) {
            own.TakeBytes(columnGm_[buffer], positions * k, tiling.columnBytes);
        }
        for (uint32_t buffer = 0; buffer < 2 && tiling.finished != 0; ++buffer) {
            own.Take(sumGm_[buffer], static_cast<uint64_t>(positions) * tiling.tileOut);
        }
        const uint64_t core = AscendC::GetBlockIdx();  // groups of cores may be one more than there is work for
        first_ = core < tiling.cores ? core : tiling.tasks;
    }

    // The cube writes y.
    __aicore__ inline void Multiply(GM_ADDR y)
    {
        AscendC::GlobalTensor<RESULT> yGm;
        yGm.SetGlobalBuffer(reinterpret_cast<__gm__ RESULT*>(y));
        Walk([&](const Step& step) { return yGm[OutputOffset(step.tile)]; }, OutputStride(), [](const Step&) {});
    }

    // The vector unit does.
    template <class EPILOGUE>
    __aicore__ inline void MultiplyAndFinish(EPILOGUE& epilogue)
    {
        Walk([this](const Step& step) { return sumGm_[step.buffer]; }, 0,
             [this, &epilogue](const Step& step) {
                 epilogue.Finish(sumGm_[step.buffer], step.tile, OutputOffset(step.tile), OutputStride());
             });
    }

private:
    // A step multiplies one chunk of K of a task.
    struct Step {
        uint64_t task;
        uint32_t chunk;
        uint32_t buffer;  // of the sums of this task
        ConvolutionTile tile;
    };

    __aicore__ inline ConvolutionTile TileAt(uint64_t task) const
    {
        if (task >= tiling_.tasks) {
            return {};
        }
        const uint64_t outTile = task % tiling_.outTiles;
        const uint64_t groupTile = task / tiling_.outTiles;  // a tile of positions for a group
        const uint64_t group = groupTile % tiling_.groups;
        ConvolutionTile tile = PositionsAt(tiling_, groupTile / tiling_.groups);
        tile.group = static_cast<uint32_t>(group);
        tile.out = static_cast<uint32_t>(outTile) * tiling_.tileOut;
        const uint32_t left = tiling_.groupOut - tile.out;
        tile.outs = left < tiling_.tileOut ? left : tiling_.tileOut;
        return tile;
    }

    __aicore__ inline uint64_t OutputStride() const
    {
        return tiling_.channelsLast != 0 ? tiling_.outChannels
                                         : static_cast<uint64_t>(tiling_.outHeight) * tiling_.outWidth;
    }

    __aicore__ inline uint64_t OutputOffset(const ConvolutionTile& tile) const
    {
        const uint64_t channel = static_cast<uint64_t>(tile.group) * tiling_.groupOut + tile.out;
        const uint64_t position = static_cast<uint64_t>(tile.row) * tiling_.outWidth + tile.col;
        const uint64_t plane = static_cast<uint64_t>(tiling_.outHeight) * tiling_.outWidth;
        return tiling_.channelsLast != 0 ? (tile.sample * plane + position) * tiling_.outChannels + channel
                                         : (tile.sample * tiling_.outChannels + channel) * plane + position;
    }

    __aicore__ inline Step Next(const Step& step) const
    {
        if (step.chunk + 1 < tiling_.chunks) {
            return {step.task, step.chunk + 1, step.buffer, step.tile};
        }
        const uint64_t task = step.task + tiling_.cores;
        return {task, 0, 1 - step.buffer, TileAt(task)};
    }

    // resultOf(step): where the sums of its task go, whose rows are `stride` apart, or without gaps with 0.
    template <class RESULTS, class FINISH>
    __aicore__ inline void Walk(const RESULTS& resultOf, uint64_t stride, const FINISH& finish)
    {
        Step step{first_, 0, 0, TileAt(first_)};
        uint32_t buffer = 0;
        if (first_ < tiling_.tasks) {
            MakeColumns(step, buffer);
            Start(step, buffer, resultOf(step), stride);
        }
        while (step.task < tiling_.tasks) {
            const Step next = Next(step);
            const bool more = next.task < tiling_.tasks;
            if (more) {
                MakeColumns(next, 1 - buffer);
            }
            product.WaitIterateAll();
            if (more) {
                Start(next, 1 - buffer, resultOf(next), stride);
            }
            if (step.chunk + 1 == tiling_.chunks) {
                finish(step);
            }
            step = next;
            buffer = 1 - buffer;
        }
        product.End();
    }

    __aicore__ inline void MakeColumns(const Step& step, uint32_t buffer)
    {
        if (tiling_.direct == 0) {
            columns_.Make(columnGm_[buffer], step.tile, ColumnChunkAt(tiling_, step.chunk));
        }
    }

    __aicore__ inline void Start(const Step& step, uint32_t buffer, const AscendC::GlobalTensor<RESULT>& result,
                                 uint64_t stride)
    {
        const bool last = tiling_.channelsLast != 0;
        const bool direct = tiling_.direct != 0;
        const ColumnChunk chunk = ColumnChunkAt(tiling_, step.chunk);
        const ConvolutionTile& tile = step.tile;
        const int positions = static_cast<int>(tile.Positions());
        const int outs = static_cast<int>(tile.outs);
        const int rows = last ? positions : outs;
        const int cols = last ? outs : positions;
        // These are the elements from a row of each matrix to the next.
        const int weightStride = static_cast<int>(weight_.Stride());
        const int columnStride = static_cast<int>(last ? (direct ? tiling_.channels : chunk.k)
                                                       : (direct ? tiling_.width : tile.Positions()));
        const int resultStride = stride == 0 ? cols : static_cast<int>(stride);
        const bool transposed = weight_.IsTransposed();
        const AscendC::GlobalTensor<T> weight = weight_.At(tile, chunk);
        const AscendC::GlobalTensor<T> columns = direct ? columns_.Direct(tile) : columnGm_[buffer];
        if (last) {
            product.SetOrgShape(rows, weightStride, columnStride, weightStride, resultStride);
        } else {
            product.SetOrgShape(weightStride, columnStride, weightStride, static_cast<int>(chunk.k), resultStride);
        }
        product.SetSingleShape(rows, cols, static_cast<int>(chunk.k));
        product.SetTensorA(last ? columns : weight, !last && transposed);
        product.SetTensorB(last ? weight : columns, last && !transposed);
        product.template IterateAll<false>(result, step.chunk == 0 ? 0 : 1, false, true);
    }

    ConvolutionTilingData tiling_;
    uint64_t first_ = 0;
    ConvolutionWeight<T> weight_;
    AscendC::GlobalTensor<T> columnGm_[2];
    AscendC::GlobalTensor<RESULT> sumGm_[2];
    Columns<T> columns_;
};

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_CONVOLUTION_TILES_H
