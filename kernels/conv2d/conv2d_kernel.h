/*!
 * y = activation(x * weight + bias), a convolution, and the gradient of its weight, accumulated in float.
 *
 * Plan: an implicit product of matrices. A core takes tiles of positions in turn; its vector unit makes the columns of
 * a chunk of terms in the workspace (conv2d_columns.h) while its cube multiplies those before with the weight. Sums of
 * several chunks are added up in global memory, in order. Without bias and activation the cube writes y itself;
 * otherwise float sums go through the workspace, and the vector unit adds the bias, applies the activation and rounds.
 * The gradient multiplies dy with the same columns: chunks of terms are shared out, and where they are few, parts of
 * the positions, whose sums are added up in order at the end.
 * Bound: the cube, 2 * positions * output channels * terms operations.
 */
#ifndef MS_ASCEND_OPS_CONV2D_KERNEL_H
#define MS_ASCEND_OPS_CONV2D_KERNEL_H

#include "conv2d_columns.h"
#include "conv2d_tiling.h"
#include "kernel_operator.h"
#include "primitives/activations.h"
#include "primitives/products.h"
#include "primitives/rows.h"
#include "primitives/sum_chunks.h"
#include "primitives/tile.h"

namespace ms_ascend_ops {

// Bias and activation of tiles of float sums.
template <typename T, typename B>
class ConvolutionEpilogue {
public:
    __aicore__ inline void Init(GM_ADDR bias, GM_ADDR y, const Conv2dTilingData& tiling, AscendC::TPipe& pipe)
    {
        tiling_ = tiling;
        yGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(y));
        biasGm_.SetGlobalBuffer(reinterpret_cast<__gm__ B*>(bias));
        const uint32_t positions = tiling.tileRows * tiling.tileCols;
        const uint32_t cols = tiling.channelsLast != 0 ? tiling.tileOut : positions;
        chunkElements_ = tiling.chunkRows * Stride(cols);
        pipe.InitBuffer(sumQueue_, 2, chunkElements_ * sizeof(float));
        pipe.InitBuffer(outQueue_, 2, chunkElements_ * sizeof(T));
        pipe.InitBuffer(workBuf_, (1 + tiling.scratch) * chunkElements_ * sizeof(float));
        work_ = workBuf_.template Get<float>();
        ones_ = BlockOfOnes(onesBuf_, pipe);
        if (tiling.hasBias != 0) {
            const uint32_t channels = tiling.channelsLast != 0 ? Stride(tiling.tileOut) : Stride(tiling.chunkRows);
            pipe.InitBuffer(biasQueue_, 1, channels * sizeof(B));
            pipe.InitBuffer(biasBuf_, channels * sizeof(float));
            bias_ = biasBuf_.template Get<float>();
            if (tiling.channelsLast == 0) {
                pipe.InitBuffer(spreadBuf_, channels * AscendC::ONE_BLK_SIZE);
                spread_ = spreadBuf_.template Get<float>();
                AscendC::Duplicate(bias_, 0.0f, static_cast<int32_t>(channels));  // Brcb reads whole blocks
            }
        }
    }

    __aicore__ inline void Finish(const AscendC::GlobalTensor<float>& sums, const ConvolutionTile& tile, uint64_t y,
                                  uint64_t yStride)
    {
        const bool last = tiling_.channelsLast != 0;
        const uint32_t lines = last ? tile.Positions() : tile.outs;
        const uint32_t cols = last ? tile.outs : tile.Positions();
        const uint64_t channel = static_cast<uint64_t>(tile.group) * tiling_.groupOut + tile.out;
        if (last && tiling_.hasBias != 0) {
            LoadBias(channel, tile.outs);
        }
        for (uint32_t line = 0; line < lines; line += tiling_.chunkRows) {
            const uint32_t rows = lines - line < tiling_.chunkRows ? lines - line : tiling_.chunkRows;
            const RowBlock block{rows, cols, Stride(cols)};
            AscendC::LocalTensor<float> z = sumQueue_.template AllocTensor<float>();
            LoadRows(z, sums[line * cols], {rows, cols, block.stride, cols}, true);
            sumQueue_.EnQue(z);
            z = sumQueue_.template DeQue<float>();
            if (tiling_.hasBias != 0 && last) {
                AddColumns(z, z, bias_, block);
            } else if (tiling_.hasBias != 0) {
                LoadBias(channel + line, rows);
                BroadcastRows(spread_, bias_, rows);
                AddRows(z, z, spread_, block);
            }
            AscendC::LocalTensor<T> result = outQueue_.template AllocTensor<T>();
            const AscendC::LocalTensor<float> floats = FloatTarget(result, work_);
            const uint32_t count = rows * block.stride;
            Activate<T>(tiling_.activation, floats, work_[chunkElements_], chunkElements_, z, ones_,
                        static_cast<int32_t>(count));
            FromFloat(result, floats, count);
            sumQueue_.FreeTensor(z);
            StoreQueued(outQueue_, yGm_[y + line * yStride], result, {rows, cols, block.stride, yStride});
        }
    }

private:
    // Elements from a row of a chunk to the next: whole blocks, also of 16 bits.
    static __aicore__ inline uint32_t Stride(uint32_t cols) { return (cols + 15) / 16 * 16; }

    __aicore__ inline void LoadBias(uint64_t channel, uint32_t count)
    {
        AscendC::LocalTensor<B> bias = biasQueue_.template AllocTensor<B>();
        LoadRows(bias, biasGm_[channel], {1, count, count, count}, true);
        biasQueue_.EnQue(bias);
        bias = biasQueue_.template DeQue<B>();
        if constexpr (IS_FLOAT<B>) {
            AscendC::Muls(bias_, bias, 1.0f, static_cast<int32_t>(count));  // a copy
        } else {
            AscendC::Cast(bias_, bias, AscendC::RoundMode::CAST_NONE, count);
        }
        biasQueue_.FreeTensor(bias);
    }

    Conv2dTilingData tiling_;
    uint32_t chunkElements_ = 0;
    AscendC::GlobalTensor<T> yGm_;
    AscendC::GlobalTensor<B> biasGm_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> sumQueue_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> biasQueue_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> outQueue_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> workBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> onesBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> biasBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> spreadBuf_;
    AscendC::LocalTensor<float> work_;
    AscendC::LocalTensor<float> ones_;
    AscendC::LocalTensor<float> bias_;
    AscendC::LocalTensor<float> spread_;
};

// RESULT: float for the vector unit, or T.
template <typename T, typename RESULT>
class Convolution {
public:
    using Operand = matmul::MatmulType<AscendC::TPosition::GM, CubeFormat::ND, T, true>;
    using Result = matmul::MatmulType<AscendC::TPosition::GM, CubeFormat::ND, RESULT>;
    MatmulObject<Operand, Operand, Result> product;

    __aicore__ inline void Init(GM_ADDR x, GM_ADDR weight, GM_ADDR workspace, const Conv2dTilingData& tiling,
                                AscendC::TPipe& pipe)
    {
        tiling_ = tiling;
        weightGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(weight));
        columns_.Init(x, tiling, pipe);
        GM_ADDR own = workspace + tiling.workspacePerCore * AscendC::GetBlockIdx();
        const uint32_t positions = tiling.tileRows * tiling.tileCols;
        const uint32_t terms = ColumnChunkAt(tiling, 0).terms;
        for (uint32_t buffer = 0; buffer < 2 && tiling.direct == 0; ++buffer) {
            columnGm_[buffer].SetGlobalBuffer(reinterpret_cast<__gm__ T*>(own), positions * terms);
            own += tiling.columnBytes;
        }
        for (uint32_t buffer = 0; buffer < 2 && tiling.finished != 0; ++buffer) {
            sumGm_[buffer].SetGlobalBuffer(reinterpret_cast<__gm__ RESULT*>(own), positions * tiling.tileOut);
            own += static_cast<uint64_t>(positions) * tiling.tileOut * sizeof(RESULT);
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
    // A chunk of a task.
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
        const uint64_t rest = task / tiling_.outTiles;
        const uint64_t group = rest % tiling_.groups;
        ConvolutionTile tile = PositionsAt(tiling_, rest / tiling_.groups);
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
        // Elements from a row of each matrix to the next.
        const int weightStride = static_cast<int>(tiling_.terms);
        const int columnStride = static_cast<int>(last ? (direct ? tiling_.channels : chunk.terms)
                                                       : (direct ? tiling_.width : tile.Positions()));
        const int resultStride = stride == 0 ? cols : static_cast<int>(stride);
        const uint64_t channel = static_cast<uint64_t>(tile.group) * tiling_.groupOut + tile.out;
        const AscendC::GlobalTensor<T> weight =
            weightGm_[channel * tiling_.terms + static_cast<uint64_t>(chunk.first) * (chunk.terms / chunk.count)];
        const AscendC::GlobalTensor<T> columns = direct ? columns_.Direct(tile) : columnGm_[buffer];
        if (last) {
            product.SetOrgShape(rows, cols, columnStride, weightStride, resultStride);
        } else {
            product.SetOrgShape(rows, columnStride, weightStride, static_cast<int>(chunk.terms), resultStride);
        }
        product.SetSingleShape(rows, cols, static_cast<int>(chunk.terms));
        product.SetTensorA(last ? columns : weight);
        product.SetTensorB(last ? weight : columns, last);
        product.template IterateAll<false>(result, step.chunk == 0 ? 0 : 1, false, true);
    }

    Conv2dTilingData tiling_;
    uint64_t first_ = 0;
    AscendC::GlobalTensor<T> weightGm_;
    AscendC::GlobalTensor<T> columnGm_[2];
    AscendC::GlobalTensor<RESULT> sumGm_[2];
    Columns<T> columns_;
};

template <typename T, typename B>
__aicore__ inline void Conv2dKernel(GM_ADDR x, GM_ADDR weight, GM_ADDR bias, GM_ADDR y, GM_ADDR workspace,
                                    const Conv2dTilingData& tiling)
{
    AscendC::TPipe pipe;
    if (tiling.finished == 0) {
        Convolution<T, T> convolution;
        REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), convolution.product, &tiling.product);
        convolution.Init(x, weight, workspace, tiling, pipe);
        convolution.Multiply(y);
        return;
    }
    Convolution<T, float> convolution;
    REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), convolution.product, &tiling.product);
    convolution.Init(x, weight, workspace, tiling, pipe);
    ConvolutionEpilogue<T, B> epilogue;
    epilogue.Init(bias, y, tiling, pipe);
    convolution.MultiplyAndFinish(epilogue);
}

// The gradient of the weight.
template <typename T>
class ConvolutionWeightGradient {
public:
    using Operand = matmul::MatmulType<AscendC::TPosition::GM, CubeFormat::ND, T, true>;
    using Result = matmul::MatmulType<AscendC::TPosition::GM, CubeFormat::ND, float>;
    MatmulObject<Operand, Operand, Result> product;

    __aicore__ inline void Init(GM_ADDR dy, GM_ADDR x, GM_ADDR sums, GM_ADDR workspace,
                                const Conv2dGradTilingData& tiling, AscendC::TPipe& pipe)
    {
        tiling_ = tiling;
        dyGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(dy));
        sumGm_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(sums));
        columns_.Init(x, tiling, pipe);
        GM_ADDR own = workspace + tiling.workspacePerCore * AscendC::GetBlockIdx();
        const uint32_t elements = tiling.tileRows * tiling.tileCols * ColumnChunkAt(tiling, 0).terms;
        for (uint32_t buffer = 0; buffer < 2 && tiling.direct == 0; ++buffer) {
            columnGm_[buffer].SetGlobalBuffer(reinterpret_cast<__gm__ T*>(own), elements);
            own += tiling.columnBytes;
        }
    }

    __aicore__ inline void Process()
    {
        const uint64_t core = AscendC::GetBlockIdx();  // groups of cores may be one more than there is work for
        const uint64_t tiles = tiling_.samples * tiling_.rowTiles * tiling_.colTiles;
        for (uint64_t task = core < tiling_.cores ? core : tiling_.tasks; task < tiling_.tasks; task += tiling_.cores) {
            const uint64_t split = task % tiling_.splits;
            const uint64_t rest = task / tiling_.splits;
            Sum(static_cast<uint32_t>(rest % tiling_.groups), static_cast<uint32_t>(rest / tiling_.groups), split,
                tiles * split / tiling_.splits, tiles * (split + 1) / tiling_.splits);
        }
        product.End();
    }

private:
    __aicore__ inline void Sum(uint32_t group, uint32_t chunkIndex, uint64_t split, uint64_t begin, uint64_t end)
    {
        const ColumnChunk chunk = ColumnChunkAt(tiling_, chunkIndex);
        const uint64_t sum = split * tiling_.partialStride +
                             static_cast<uint64_t>(group) * tiling_.groupOut * tiling_.terms +
                             static_cast<uint64_t>(chunk.first) * (chunk.terms / chunk.count);
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
        const int terms = static_cast<int>(chunk.terms);
        const uint64_t plane = static_cast<uint64_t>(tiling_.outHeight) * tiling_.outWidth;
        const uint64_t position = static_cast<uint64_t>(tile.row) * tiling_.outWidth + tile.col;
        const uint64_t channel = static_cast<uint64_t>(group) * tiling_.groupOut;
        const uint64_t dy = last ? (tile.sample * plane + position) * tiling_.outChannels + channel
                                 : (tile.sample * tiling_.outChannels + channel) * plane + position;
        const AscendC::GlobalTensor<T> columns = direct ? columns_.Direct(tile) : columnGm_[buffer];
        if (last) {  // dy is positions x channels, and transposed
            product.SetOrgShape(static_cast<int>(tiling_.outChannels),
                                direct ? static_cast<int>(tiling_.channels) : terms, positions, positions,
                                static_cast<int>(tiling_.terms));
        } else {  // the columns are terms x positions, and transposed
            product.SetOrgShape(outs, terms, static_cast<int>(plane),
                                direct ? static_cast<int>(tiling_.width) : positions, static_cast<int>(tiling_.terms));
        }
        product.SetSingleShape(outs, terms, positions);
        product.SetTensorA(dyGm_[dy], last);
        product.SetTensorB(columns, !last);
        product.template IterateAll<false>(sumGm_[sum], add ? 1 : 0, false, true);
    }

    Conv2dGradTilingData tiling_;
    AscendC::GlobalTensor<T> dyGm_;
    AscendC::GlobalTensor<float> sumGm_;
    AscendC::GlobalTensor<T> columnGm_[2];
    Columns<T> columns_;
};

// What SumChunks takes.
struct PartialSums {
    uint32_t chunks;
    uint32_t chunkStride;
    uint32_t cols;
    uint32_t reduceCols;
    uint32_t reduceRows;
};

template <typename T>
__aicore__ inline void Conv2dGradKernel(GM_ADDR dy, GM_ADDR x, [[maybe_unused]] GM_ADDR weight, GM_ADDR dweight,
                                        GM_ADDR workspace, const Conv2dGradTilingData& tiling)
{
    constexpr uint32_t REDUCE_COLS = 1024;
    AscendC::TPipe pipe;
    ConvolutionWeightGradient<T> gradient;
    REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), gradient.product, &tiling.product);
    GM_ADDR partials = workspace + tiling.workspacePerCore * tiling.cores;
    GM_ADDR sums = tiling.finished != 0 ? partials : dweight;
    gradient.Init(dy, x, sums, workspace, tiling, pipe);
    gradient.Process();
    if (tiling.finished != 0) {
        AscendC::SyncAll();
        SumChunks<T, PartialSums> total;
        total.Init({tiling.partials, static_cast<uint32_t>(tiling.partialStride),
                    static_cast<uint32_t>(tiling.partialSize), REDUCE_COLS, 4},
                   pipe);
        total.Process(dweight, partials);
    }
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_CONV2D_KERNEL_H
