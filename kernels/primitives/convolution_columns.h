/*!
 * Makes the columns of a convolution in global memory: the elements of x that a kernel sees at the positions of a tile.
 *
 * Channels first the matrix has a row for each kernel offset of each channel and a column for each position; channels
 * last it has a row for each position and a column for each channel of each kernel offset. That is the order of the
 * weight. Rows of x go through one queue bound from MTE2 to MTE3, so that both sides may begin at any byte; where a
 * kernel offset sees the padding, zeros are stored.
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_CONVOLUTION_COLUMNS_H
#define MS_ASCEND_OPS_PRIMITIVES_CONVOLUTION_COLUMNS_H

#include "kernel_operator.h"
#include "primitives/convolution_tiling.h"
#include "primitives/core_share.h"
#include "primitives/tile.h"

namespace ms_ascend_ops {

// Positions of the output are some rows, or a piece of one.
struct ConvolutionTile {
    uint64_t sample;
    uint32_t group;
    uint32_t row;
    uint32_t col;
    uint32_t rows;
    uint32_t cols;
    uint32_t out;  // of the group, the first channel
    uint32_t outs;

    __aicore__ inline uint32_t Positions() const { return rows * cols; }
};

// Returns the tile of positions of this number, without channels.
__aicore__ inline ConvolutionTile PositionsAt(const ConvolutionTilingData& tiling, uint64_t index)
{
    const uint64_t tiles = static_cast<uint64_t>(tiling.rowTiles) * tiling.colTiles;
    const uint64_t sample = index / tiles;
    const uint32_t position = static_cast<uint32_t>(index - sample * tiles);
    const uint32_t row = position / tiling.colTiles * tiling.tileRows;
    const uint32_t col = position % tiling.colTiles * tiling.tileCols;
    const uint32_t rows = tiling.outHeight - row;
    const uint32_t cols = tiling.outWidth - col;
    return {sample,
            0,
            row,
            col,
            rows < tiling.tileRows ? rows : tiling.tileRows,
            cols < tiling.tileCols ? cols : tiling.tileCols,
            0,
            0};
}

// The columns of these channels (channels first) or kernel offsets (channels last) are made together.
struct ColumnChunk {
    uint32_t first;
    uint32_t count;
    uint32_t k;
};

__aicore__ inline ColumnChunk ColumnChunkAt(const ConvolutionTilingData& tiling, uint32_t index)
{
    const uint32_t kernelSize = tiling.kernelHeight * tiling.kernelWidth;
    const uint32_t all = tiling.channelsLast != 0 ? kernelSize : tiling.groupIn;
    const uint32_t first = index * tiling.chunk;
    const uint32_t count = all - first < tiling.chunk ? all - first : tiling.chunk;
    return {first, count, count * (tiling.k / all)};
}

template <typename T>
class Columns {
public:
    // Describes rows and columns of elements, where they are and where they go.
    struct Block {
        uint64_t from;
        uint64_t to;
        uint64_t fromStride;
        uint64_t toStride;
        uint32_t rows;
        uint32_t cols;
    };

    __aicore__ inline void Init(GM_ADDR x, const ConvolutionTilingData& tiling, AscendC::TPipe& pipe)
    {
        tiling_ = tiling;
        xGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(x));
        if (tiling.direct != 0) {
            return;
        }
        const uint32_t bytes = tiling.copyElements * sizeof(T);
        pipe.InitBuffer(copyQueue_, 2, bytes);
        pipe.InitBuffer(zeroBuf_, bytes);
        if (TakesEverySecond()) {
            pipe.InitBuffer(pairQueue_, 2, bytes);
            pipe.InitBuffer(takenQueue_, 2, bytes);
        }
        zeros_ = zeroBuf_.template Get<T>();
        const AscendC::LocalTensor<int32_t> bits = zeros_.template ReinterpretCast<int32_t>();
        AscendC::Duplicate(bits, 0, static_cast<int32_t>(bytes / sizeof(int32_t)));
        WaitForPipe<AscendC::HardEvent::V_MTE3>(pipe);
    }

    // Returns the matrix that x is itself.
    __aicore__ inline AscendC::GlobalTensor<T> Direct(const ConvolutionTile& tile) const
    {
        const uint64_t channel = static_cast<uint64_t>(tile.group) * tiling_.groupIn;
        if (tiling_.channelsLast != 0) {
            return xGm_[(tile.sample * tiling_.width + tile.col) * tiling_.channels + channel];
        }
        return xGm_[(tile.sample * tiling_.channels + channel) * tiling_.width + tile.col];
    }

    __aicore__ inline void Make(const AscendC::GlobalTensor<T>& columns, const ConvolutionTile& tile,
                                const ColumnChunk& chunk)
    {
        if (tiling_.gapHeight != 0 || tiling_.gapWidth != 0) {
            MakeApart(columns, tile, chunk);
        } else if (tiling_.channelsLast != 0) {
            MakeLast(columns, tile, chunk);
        } else {
            MakeFirst(columns, tile, chunk);
        }
    }

    // Copies a block from tensor to tensor in global memory. Only a tiling with columns has the queue for it.
    __aicore__ inline void Copy(const AscendC::GlobalTensor<T>& to, const AscendC::GlobalTensor<T>& from,
                                const Block& block)
    {
        for (uint32_t col = 0; col < block.cols; col += tiling_.copyElements) {
            const uint32_t left = block.cols - col;
            const uint32_t cols = left < tiling_.copyElements ? left : tiling_.copyElements;
            const uint32_t stride = InBlocks(cols);
            const uint32_t most = MostRows(stride);
            for (uint32_t row = 0; row < block.rows; row += most) {
                const uint32_t rows = block.rows - row < most ? block.rows - row : most;
                AscendC::LocalTensor<T> local = copyQueue_.template AllocTensor<T>();
                LoadRows(local, from[block.from + row * block.fromStride + col],
                         {rows, cols, stride, block.fromStride});
                copyQueue_.EnQue(local);
                local = copyQueue_.template DeQue<T>();
                StoreRows(to[block.to + row * block.toStride + col], local, {rows, cols, stride, block.toStride});
                copyQueue_.FreeTensor(local);
            }
        }
    }

private:
    // At the positions [begin, end) along one dim the kernel offset lies in x.
    struct Inside {
        int64_t start;  // where the kernel offset of the first position lies
        uint32_t begin;
        uint32_t end;
    };

    static __aicore__ inline Inside InsideOf(int64_t start, uint32_t stride, uint32_t size, uint32_t count)
    {
        const int64_t left = start < 0 ? (-start + stride - 1) / stride : 0;
        const int64_t room = static_cast<int64_t>(size) - start;  // up to the end of x
        const int64_t right = room <= 0 ? 0 : (room + stride - 1) / stride;
        const uint32_t end = right < count ? static_cast<uint32_t>(right) : count;
        return {start, left < end ? static_cast<uint32_t>(left) : end, end};
    }

    __aicore__ inline Inside RowsOf(const ConvolutionTile& tile, uint32_t kernelRow) const
    {
        const uint32_t offset = tiling_.flip != 0 ? tiling_.kernelHeight - 1 - kernelRow : kernelRow;
        const int64_t start = static_cast<int64_t>(tile.row) * tiling_.strideHeight +
                              static_cast<int64_t>(offset) * tiling_.dilationHeight - tiling_.padTop;
        return InsideOf(start, tiling_.strideHeight, tiling_.height, tile.rows);
    }

    __aicore__ inline Inside ColsOf(const ConvolutionTile& tile, uint32_t kernelCol) const
    {
        const uint32_t offset = tiling_.flip != 0 ? tiling_.kernelWidth - 1 - kernelCol : kernelCol;
        const int64_t start = static_cast<int64_t>(tile.col) * tiling_.strideWidth +
                              static_cast<int64_t>(offset) * tiling_.dilationWidth - tiling_.padLeft;
        return InsideOf(start, tiling_.strideWidth, tiling_.width, tile.cols);
    }

    // At these positions the kernel offset lies on an element of x, where elements are `step` apart.
    struct Met {
        uint64_t from;  // the element of the first position
        uint32_t begin;
        uint32_t count;
        uint32_t step;

        __aicore__ inline bool Has(uint32_t position) const
        {
            return position >= begin && (position - begin) % step == 0 && (position - begin) / step < count;
        }
    };

    // `start`: where the kernel offset of the first position lies, with the gaps.
    static __aicore__ inline Met MetBy(int64_t start, uint32_t step, uint32_t size, uint32_t count)
    {
        const int64_t begin = start < 0 ? -start : (step - start % step) % step;
        const int64_t from = (start + begin) / step;
        if (begin >= count || from >= size) {
            return {0, count, 0, step};
        }
        const int64_t fit = (count - 1 - begin) / step + 1;
        const int64_t left = size - from;
        return {static_cast<uint64_t>(from), static_cast<uint32_t>(begin),
                static_cast<uint32_t>(fit < left ? fit : left), step};
    }

    // Makes the columns of an x with gaps, channels first or last: each line is copied by itself.
    __aicore__ inline void MakeApart(const AscendC::GlobalTensor<T>& columns, const ConvolutionTile& tile,
                                     const ColumnChunk& chunk)
    {
        const bool last = tiling_.channelsLast != 0;
        const uint32_t kernelSize = tiling_.kernelHeight * tiling_.kernelWidth;
        const uint64_t plane = static_cast<uint64_t>(tiling_.height) * tiling_.width;
        // With channels first there is one channel after the other, of single elements; with channels last all of them
        // are one element.
        const uint32_t channels = last ? 1 : chunk.count;
        const uint32_t width = last ? tiling_.groupIn : 1;
        const uint64_t channel = uint64_t{tile.group} * tiling_.groupIn;
        const uint64_t x = last ? tile.sample * plane * tiling_.channels + channel
                                : (tile.sample * tiling_.channels + channel + chunk.first) * plane;
        const uint64_t fromStride = last ? tiling_.channels : 1;
        const uint64_t stride = last ? chunk.k : 1;  // from a position to the next
        const uint32_t offsets = last ? chunk.count : kernelSize;
        for (uint32_t i = 0; i < channels * offsets; ++i) {
            const uint32_t offset = last ? chunk.first + i : i % kernelSize;
            const Met rows = MetBy(RowsOf(tile, offset / tiling_.kernelWidth).start, tiling_.gapHeight + 1,
                                   tiling_.height, tile.rows);
            const Met cols =
                MetBy(ColsOf(tile, offset % tiling_.kernelWidth).start, tiling_.gapWidth + 1, tiling_.width, tile.cols);
            const uint64_t first = last ? uint64_t{i} * tiling_.groupIn : uint64_t{i} * tile.Positions();
            const uint64_t from = last ? x : x + i / kernelSize * plane;
            for (uint32_t row = 0; row < tile.rows; ++row) {
                const uint64_t to = first + uint64_t{row} * tile.cols * stride;
                if (!rows.Has(row) || cols.count == 0) {
                    ZeroPositions(columns, to, stride, tile.cols, width);
                    continue;
                }
                const uint64_t source = rows.from + (row - rows.begin) / rows.step;
                const uint32_t end = cols.begin + (cols.count - 1) * cols.step + 1;
                ZeroPositions(columns, to, stride, cols.begin, width);
                Copy(columns, xGm_,
                     {from + (source * tiling_.width + cols.from) * fromStride, to + cols.begin * stride, fromStride,
                      cols.step * stride, cols.count, width});
                for (uint32_t gap = 1; gap < cols.step; ++gap) {
                    Zero(columns, {0, to + (cols.begin + gap) * stride, 0, cols.step * stride, cols.count - 1, width});
                }
                ZeroPositions(columns, to + end * stride, stride, tile.cols - end, width);
            }
        }
    }

    // Zeroes positions next to each other, as one row where nothing lies between.
    __aicore__ inline void ZeroPositions(const AscendC::GlobalTensor<T>& columns, uint64_t to, uint64_t stride,
                                         uint32_t count, uint32_t width)
    {
        const bool together = stride == width;
        Zero(columns, {0, to, 0, stride, together ? 1 : count, together ? count * width : width});
    }

    // Makes a row for each kernel offset of each channel. Blocks go along rows of the tile or along channels, whichever
    // are more.
    __aicore__ inline void MakeFirst(const AscendC::GlobalTensor<T>& columns, const ConvolutionTile& tile,
                                     const ColumnChunk& chunk)
    {
        const uint32_t kernelSize = tiling_.kernelHeight * tiling_.kernelWidth;
        const uint64_t plane = static_cast<uint64_t>(tiling_.height) * tiling_.width;
        const uint64_t x =
            (tile.sample * tiling_.channels + tile.group * uint64_t{tiling_.groupIn} + chunk.first) * plane;
        const uint64_t channelStride = uint64_t{kernelSize} * tile.Positions();
        for (uint32_t offset = 0; offset < kernelSize; ++offset) {
            const Inside rows = RowsOf(tile, offset / tiling_.kernelWidth);
            const Inside cols = ColsOf(tile, offset % tiling_.kernelWidth);
            const uint64_t to = static_cast<uint64_t>(offset) * tile.Positions();
            if (cols.begin == cols.end || rows.begin == rows.end) {
                Zero(columns, {0, to, 0, channelStride, chunk.count, tile.Positions()});
                continue;
            }
            Zero(columns, {0, to, 0, channelStride, chunk.count, rows.begin * tile.cols});
            Zero(columns,
                 {0, to + rows.end * tile.cols, 0, channelStride, chunk.count, (tile.rows - rows.end) * tile.cols});
            const uint32_t lines = rows.end - rows.begin;
            const bool byLines = lines > chunk.count;
            const uint64_t lineStride = static_cast<uint64_t>(tiling_.strideHeight) * tiling_.width;
            const uint64_t inner =
                x + static_cast<uint64_t>(rows.start + rows.begin * int64_t{tiling_.strideHeight}) * tiling_.width +
                static_cast<uint64_t>(cols.start + cols.begin * int64_t{tiling_.strideWidth});
            const uint64_t line = to + rows.begin * tile.cols;
            Block block{inner,
                        line,
                        byLines ? lineStride : plane,
                        byLines ? tile.cols : channelStride,
                        byLines ? lines : chunk.count,
                        cols.end - cols.begin};
            const uint32_t times = byLines ? chunk.count : lines;
            for (uint32_t i = 0; i < times; ++i) {
                const uint64_t begin = block.to;
                Zero(columns, {0, begin, 0, block.toStride, block.rows, cols.begin});
                Zero(columns, {0, begin + cols.end, 0, block.toStride, block.rows, tile.cols - cols.end});
                block.to = begin + cols.begin;
                Take(columns, block);
                block.from += byLines ? plane : lineStride;
                block.to = begin + (byLines ? channelStride : tile.cols);
            }
        }
    }

    // Makes a row for each position.
    __aicore__ inline void MakeLast(const AscendC::GlobalTensor<T>& columns, const ConvolutionTile& tile,
                                    const ColumnChunk& chunk)
    {
        const uint64_t x = tile.sample * tiling_.height;
        for (uint32_t offset = 0; offset < chunk.count; ++offset) {
            const Inside rows = RowsOf(tile, (chunk.first + offset) / tiling_.kernelWidth);
            const Inside cols = ColsOf(tile, (chunk.first + offset) % tiling_.kernelWidth);
            for (uint32_t row = 0; row < tile.rows; ++row) {
                const uint64_t to =
                    row * uint64_t{tile.cols} * chunk.k + static_cast<uint64_t>(offset) * tiling_.groupIn;
                if (row < rows.begin || row >= rows.end) {
                    Zero(columns, {0, to, 0, chunk.k, tile.cols, tiling_.groupIn});
                    continue;
                }
                Zero(columns, {0, to, 0, chunk.k, cols.begin, tiling_.groupIn});
                Zero(columns,
                     {0, to + cols.end * uint64_t{chunk.k}, 0, chunk.k, tile.cols - cols.end, tiling_.groupIn});
                if (cols.begin == cols.end) {
                    continue;
                }
                const uint64_t line =
                    (x + static_cast<uint64_t>(rows.start + row * int64_t{tiling_.strideHeight})) * tiling_.width;
                const uint64_t position =
                    line + static_cast<uint64_t>(cols.start + cols.begin * int64_t{tiling_.strideWidth});
                Copy(
                    columns, xGm_,
                    {position * tiling_.channels + uint64_t{tile.group} * tiling_.groupIn,
                     to + cols.begin * uint64_t{chunk.k}, static_cast<uint64_t>(tiling_.strideWidth) * tiling_.channels,
                     chunk.k, cols.end - cols.begin, tiling_.groupIn});
            }
        }
    }

    __aicore__ inline bool TakesEverySecond() const { return tiling_.channelsLast == 0 && tiling_.strideWidth == 2; }

    // Takes elements of rows of x that lie strideWidth apart.
    __aicore__ inline void Take(const AscendC::GlobalTensor<T>& columns, const Block& block)
    {
        if (tiling_.strideWidth == 1) {
            Copy(columns, xGm_, block);
        } else if (TakesEverySecond()) {
            TakePairs(columns, block);
        } else {
            for (uint32_t row = 0; row < block.rows; ++row) {
                Copy(columns, xGm_,
                     {block.from + row * block.fromStride, block.to + row * block.toStride, tiling_.strideWidth, 1,
                      block.cols, 1});
            }
        }
    }

    // Takes every second element of each row.
    __aicore__ inline void TakePairs(const AscendC::GlobalTensor<T>& columns, const Block& block)
    {
        const uint32_t half = tiling_.copyElements / 2;
        for (uint32_t col = 0; col < block.cols; col += half) {
            const uint32_t cols = block.cols - col < half ? block.cols - col : half;
            const uint32_t span = 2 * cols - 1;
            const uint32_t stride = InBlocks(span);
            const uint32_t taken = InBlocks(cols);
            const bool together = stride == 2 * taken;  // every second element of all rows: one instruction
            const uint32_t most = MostRows(stride);
            for (uint32_t row = 0; row < block.rows; row += most) {
                const uint32_t rows = block.rows - row < most ? block.rows - row : most;
                AscendC::LocalTensor<T> pairs = pairQueue_.template AllocTensor<T>();
                LoadRows(pairs, xGm_[block.from + row * block.fromStride + 2 * col],
                         {rows, span, stride, block.fromStride}, together);
                pairQueue_.EnQue(pairs);
                pairs = pairQueue_.template DeQue<T>();
                AscendC::LocalTensor<T> values = takenQueue_.template AllocTensor<T>();
                uint64_t kept = 0;
                if (together) {
                    AscendC::GatherMask(values, pairs, 1, true, rows * stride, {1, 1, 8, 0}, kept);
                }
                for (uint32_t i = 0; i < rows && !together; ++i) {
                    AscendC::GatherMask(values[i * taken], pairs[i * stride], 1, true, span, {1, 1, 8, 0}, kept);
                }
                pairQueue_.FreeTensor(pairs);
                StoreQueued(takenQueue_, columns[block.to + row * block.toStride + col], values,
                            {rows, cols, taken, block.toStride});
            }
        }
    }

    __aicore__ inline void Zero(const AscendC::GlobalTensor<T>& columns, const Block& block)
    {
        if (block.rows == 0) {
            return;
        }
        for (uint32_t col = 0; col < block.cols; col += tiling_.copyElements) {
            const uint32_t left = block.cols - col;
            const uint32_t cols = left < tiling_.copyElements ? left : tiling_.copyElements;
            const uint32_t stride = InBlocks(cols);
            const uint32_t most = MostRows(stride);
            for (uint32_t row = 0; row < block.rows; row += most) {
                const uint32_t rows = block.rows - row < most ? block.rows - row : most;
                StoreRows(columns[block.to + row * block.toStride + col], zeros_, {rows, cols, stride, block.toStride});
            }
        }
    }

    // Rounds up to whole blocks.
    static __aicore__ inline uint32_t InBlocks(uint32_t elements)
    {
        constexpr uint32_t perBlock = AscendC::ONE_BLK_SIZE / sizeof(T);
        return (elements + perBlock - 1) / perBlock * perBlock;
    }

    // Returns how many rows one copy may have.
    __aicore__ inline uint32_t MostRows(uint32_t stride) const
    {
        const uint32_t rows = tiling_.copyElements / stride;
        constexpr uint32_t most = 4095;  // of one DataCopyPad
        return rows < 1 ? 1 : rows < most ? rows : most;
    }

    ConvolutionTilingData tiling_;
    AscendC::GlobalTensor<T> xGm_;
    AscendC::TQueBind<AscendC::TPosition::VECIN, AscendC::TPosition::VECOUT, 1> copyQueue_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> pairQueue_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> takenQueue_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> zeroBuf_;
    AscendC::LocalTensor<T> zeros_;
};

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_CONVOLUTION_COLUMNS_H
