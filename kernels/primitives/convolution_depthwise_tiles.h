/*!
 * Walks over the tiles of depthwise convolutions with channels last, and loads the part of x that their kernel offsets
 * see.
 *
 * A tile is some rows and columns of the output, and some channels. The part of x that its kernel offsets see is loaded
 * as a whole, with zeros where the padding is, and becomes float: so rows of channels are an offset's neighbours at any
 * distance in the Unified Buffer.
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_CONVOLUTION_DEPTHWISE_TILES_H
#define MS_ASCEND_OPS_PRIMITIVES_CONVOLUTION_DEPTHWISE_TILES_H

#include "kernel_operator.h"
#include "primitives/convolution_channels.h"
#include "primitives/convolution_tiling.h"
#include "primitives/rows.h"
#include "primitives/tile.h"

namespace ms_ascend_ops {

struct DepthwiseTile {
    uint64_t sample;
    uint32_t channel;  // the first
    uint32_t channels;
    uint32_t row;
    uint32_t rows;
    uint32_t col;
    uint32_t cols;
};

// Channels go slowest: a core rarely changes its kernel offsets.
__aicore__ inline DepthwiseTile DepthwiseTileAt(const ConvolutionTilingData& tiling, uint64_t task)
{
    const auto part = [](uint32_t size, uint32_t at, uint32_t most) { return size - at < most ? size - at : most; };
    const uint32_t col = static_cast<uint32_t>(task % tiling.colTiles) * tiling.tileCols;
    task /= tiling.colTiles;
    const uint32_t row = static_cast<uint32_t>(task % tiling.rowTiles) * tiling.tileRows;
    task /= tiling.rowTiles;
    const uint32_t channel = static_cast<uint32_t>(task / tiling.samples) * tiling.tileOut;
    return {task % tiling.samples,
            channel,
            part(tiling.channels, channel, tiling.tileOut),
            row,
            part(tiling.outHeight, row, tiling.tileRows),
            col,
            part(tiling.outWidth, col, tiling.tileCols)};
}

template <typename T>
class DepthwiseInput {
public:
    __aicore__ inline void Init(GM_ADDR x, const ConvolutionTilingData& tiling, AscendC::TPipe& pipe)
    {
        tiling_ = tiling;
        xGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(x));
        stride_ = ConvolutionStride(tiling.tileOut);
        const uint32_t elements = SeenRows(tiling.tileRows) * SeenCols(tiling.tileCols) * stride_;
        pipe.InitBuffer(queue_, 2, elements * sizeof(T));
        copies_.Init(elements, pipe);
    }

    __aicore__ inline void Load(const DepthwiseTile& tile)
    {
        local_ = queue_.template AllocTensor<T>();
        rows_ =
            InsideOf(int64_t{tile.row} * tiling_.strideHeight - tiling_.padTop, SeenRows(tile.rows), tiling_.height);
        cols_ = InsideOf(int64_t{tile.col} * tiling_.strideWidth - tiling_.padLeft, SeenCols(tile.cols), tiling_.width);
        for (uint32_t row = rows_.begin; row < rows_.end && cols_.begin < cols_.end; ++row) {
            const uint64_t line = tile.sample * tiling_.height + static_cast<uint64_t>(rows_.start + row);
            const uint64_t position = line * tiling_.width + static_cast<uint64_t>(cols_.start + cols_.begin);
            LoadRows(local_[(row * cols_.count + cols_.begin) * stride_],
                     xGm_[position * tiling_.channels + tile.channel],
                     {cols_.end - cols_.begin, tile.channels, stride_, tiling_.channels}, true);
        }
        queue_.EnQue(local_);
    }

    // Begins with the loaded elements, and zeros around them.
    __aicore__ inline void Begin()
    {
        local_ = queue_.template DeQue<T>();
        const uint32_t line = cols_.count * stride_;
        Zero(0, rows_.begin * line);
        Zero(rows_.end * line, (rows_.count - rows_.end) * line);
        for (uint32_t row = rows_.begin; row < rows_.end; ++row) {
            Zero(row * line, cols_.begin * stride_);
            Zero(row * line + cols_.end * stride_, (cols_.count - cols_.end) * stride_);
        }
        floats_ = copies_.Take(local_, 0, rows_.count * line);
    }

    // Returns what a kernel offset sees at the positions of a row of the tile, Step() elements apart.
    __aicore__ inline AscendC::LocalTensor<float> SeenBy(uint32_t kernelRow, uint32_t kernelCol, uint32_t row) const
    {
        const uint32_t line = row * tiling_.strideHeight + kernelRow * tiling_.dilationHeight;
        return floats_[(line * cols_.count + kernelCol * tiling_.dilationWidth) * stride_];
    }
    __aicore__ inline uint32_t Step() const { return tiling_.strideWidth * stride_; }

    __aicore__ inline void End() { queue_.FreeTensor(local_); }

private:
    // Describes rows or columns that a tile sees: `count` from position `start` of x on, of which [begin, end) lie in
    // x.
    struct Inside {
        int64_t start;
        uint32_t begin;
        uint32_t end;
        uint32_t count;
    };

    static __aicore__ inline Inside InsideOf(int64_t start, uint32_t count, uint32_t size)
    {
        const int64_t begin = start < 0 ? -start : 0;
        const int64_t left = int64_t{size} - start;
        const uint32_t end = left <= 0 ? 0 : left < count ? static_cast<uint32_t>(left) : count;
        return {start, begin < end ? static_cast<uint32_t>(begin) : end, end, count};
    }

    __aicore__ inline uint32_t SeenRows(uint32_t rows) const
    {
        return (rows - 1) * tiling_.strideHeight + (tiling_.kernelHeight - 1) * tiling_.dilationHeight + 1;
    }
    __aicore__ inline uint32_t SeenCols(uint32_t cols) const
    {
        return (cols - 1) * tiling_.strideWidth + (tiling_.kernelWidth - 1) * tiling_.dilationWidth + 1;
    }

    __aicore__ inline void Zero(uint32_t at, uint32_t count)
    {
        if (count != 0) {
            const AscendC::LocalTensor<int32_t> bits = local_[at].template ReinterpretCast<int32_t>();
            AscendC::Duplicate(bits, 0, static_cast<int32_t>(count * sizeof(T) / sizeof(int32_t)));
        }
    }

    ConvolutionTilingData tiling_;
    uint32_t stride_ = 0;
    Inside rows_{};
    Inside cols_{};
    AscendC::GlobalTensor<T> xGm_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> queue_;
    AscendC::LocalTensor<T> local_;
    AscendC::LocalTensor<float> floats_;
    FloatCopies<T> copies_;
};

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_CONVOLUTION_DEPTHWISE_TILES_H
