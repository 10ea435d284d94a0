/*!
 * Calculates the tiling of softmax and softmax_grad, in plain C++.
 *
 * x is (outer, n, inner) around the axis. inner = 1: rows, split over cores, as primitives/softmax_rows_tiling.h says.
 * Otherwise columns: a tile is a stretch of columns of one `outer`, walked through in chunks of rows if n is large.
 */
#ifndef MS_ASCEND_OPS_SOFTMAX_TILING_H
#define MS_ASCEND_OPS_SOFTMAX_TILING_H

#include "primitives/softmax_rows_tiling.h"
#include "softmax_params.h"

namespace ms_ascend_ops {

struct SoftmaxTilingData {
    // These are for rows.
    uint64_t rows;
    uint64_t rowsPerCore;
    uint32_t cols;
    uint32_t tileRows;
    uint32_t stepRows;
    uint32_t tileCols;
    uint32_t stride;
    uint64_t piecesPerCore;  // 0: a core takes whole rows
    uint32_t pieces;         // of a row that cores may share (row_pieces_tiling.h), or 0
    uint32_t pieceCols;
    // These are for columns.
    uint32_t n;
    uint64_t inner;
    uint64_t tiles;
    uint64_t tilesPerCore;
    uint64_t tilesPerOuter;
    uint32_t tileWidth;  // columns of a tile, in whole 512-byte lines where they are many
    uint32_t chunkRows;
};

using SoftmaxGradTilingData = SoftmaxTilingData;

namespace softmax {

constexpr uint32_t MAX_WIDTH = 512;  // columns: 1 KiB of half in a row, and few enough for dozens of rows

inline LaunchConfig Plan(const TensorDesc& x, int64_t axisArgument, uint32_t bytesPerElement, uint32_t bytesMoved,
                         uint32_t values, const Platform& platform, SoftmaxTilingData& tiling)
{
    const auto axis = static_cast<int32_t>(axisArgument < 0 ? axisArgument + x.rank : axisArgument);
    const uint64_t outer = x.Product(0, axis);
    const uint64_t n = x.dims[axis];
    const uint64_t inner = x.Product(axis + 1, x.rank);
    const uint32_t bytes = SizeOf(x.dtype);
    tiling.inner = inner;
    if (inner == 1) {
        return PlanRowTiles(outer, n, bytes, bytesPerElement, bytesMoved, values, platform, tiling);
    }
    LaunchConfig config;
    config.blockDim = CoresFor(outer * inner, outer * n * inner * bytesMoved, platform);
    const uint64_t align = BLOCK_BYTES / bytes;
    uint64_t width = std::min<uint64_t>(MAX_WIDTH, RoundUp(inner, align));
    // Four rows of floats on top of the chunk: maxima old and new, sums, and slack. Chunks do not depend on the number
    // of cores: neither do sums.
    const uint64_t perRow = width * (bytesPerElement + (bytes == 4 ? sizeof(float) : 0));
    const uint64_t capacity = (platform.ubBytes - FIXED_BYTES - 4 * width * sizeof(float)) / perRow;
    while (width > 2 * FLOATS_PER_REPEAT && outer * CeilDiv(inner, width) < config.blockDim) {
        width = RoundUp(width / 2, align);
    }
    tiling.n = Size32(n, "the elements along the axis");
    tiling.tileWidth = static_cast<uint32_t>(width);
    tiling.chunkRows = static_cast<uint32_t>(std::min<uint64_t>({n, capacity, MAX_REPEAT_TIMES}));
    tiling.tilesPerOuter = CeilDiv(inner, width);
    tiling.tiles = outer * tiling.tilesPerOuter;
    tiling.tilesPerCore = CeilDiv(tiling.tiles, config.blockDim);
    config.blockDim = static_cast<uint32_t>(std::max<uint64_t>(1, CeilDiv(tiling.tiles, tiling.tilesPerCore)));
    return config;
}

}  // namespace softmax

inline LaunchConfig SoftmaxTiling(const SoftmaxParams& params, const Platform& platform, SoftmaxTilingData& tiling)
{
    const uint32_t bytes = SizeOf(params.x.dtype);
    return softmax::Plan(params.x, params.axis, softmax::ForwardBytes(bytes), 2 * bytes, softmax::FORWARD_VALUES,
                         platform, tiling);
}

inline LaunchConfig SoftmaxGradTiling(const SoftmaxGradParams& params, const Platform& platform,
                                      SoftmaxGradTilingData& tiling)
{
    const uint32_t bytes = SizeOf(params.y.dtype);
    return softmax::Plan(params.y, params.axis, softmax::GradientBytes(bytes), 3 * bytes, softmax::GRADIENT_VALUES,
                         platform, tiling);
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_SOFTMAX_TILING_H
