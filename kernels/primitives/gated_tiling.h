/*!
 * Calculates the tiling that the gated linear units, y = act(gate) * up, share, in plain C++.
 *
 * The operands are `rows` rows of `length` elements. A tile is part of a row when rows are long, several rows when they
 * are short. Tiles are shared out over cores.
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_GATED_TILING_H
#define MS_ASCEND_OPS_PRIMITIVES_GATED_TILING_H

#include "primitives/activation_scratch.h"
#include "primitives/split.h"

namespace ms_ascend_ops {

struct GatedTilingData {
    uint64_t rows;
    uint64_t length;
    uint64_t inputStride;  // elements from a row of gate (and of up) to the next in global memory
    uint64_t gateOffset;   // elements from the start of a tensor that holds both
    uint64_t upOffset;
    uint64_t tiles;
    uint64_t tilesPerCore;
    uint64_t tilesPerRow;
    uint32_t tileRows;
    uint32_t tileLength;
    uint32_t stride;   // elements from a row to the next in the Unified Buffer
    uint32_t pairs;    // gate and up alternate element by element: 1: gate first, 2: up first
    uint32_t scratch;  // float tensors of a tile's size that the activation needs
    uint32_t form;     // form of the activation; of GELU, 1: tanh
};

namespace gated {

constexpr uint32_t FIXED_BYTES = 1024;  // a block of ones, rounding of buffers

// Describes the work to be tiled, and its kernel.
struct Work {
    uint64_t rows;
    uint64_t length;
    uint64_t inputStride;
    uint32_t elementBytes;
    bool forward;
    bool pairs;
    ActivationScratch scratch;
};

// Unified Buffer for each element of a tile.
// Forward: gate, up and y in two buffers each; float copies of gate and up unless they are float; one temporary.
// With pairs, the loaded pairs (two buffers) come on top of gate and up, which then need one buffer.
// Backward: dy, gate, up, dgate and dup in two buffers each; float copies of the first three unless they are float;
// two temporaries. Pairs: loaded and stored pairs in two buffers each, dy in two, gate and up in one, and two scratches
// of pairs in float.
inline uint32_t BytesPerElement(const Work& work)
{
    const uint32_t bytes = work.elementBytes;
    if (work.forward) {
        return (work.pairs ? 8 : 6) * bytes + (bytes == 4 ? 4 : 12) + 4 * work.scratch.forward;
    }
    return (work.pairs ? 12 * bytes + 16 : 10 * bytes) + (bytes == 4 ? 8 : 20) + 4 * work.scratch.backward;
}

inline LaunchConfig Plan(const Work& work, const Platform& platform, GatedTilingData& tiling)
{
    const uint64_t rows = work.rows;
    const uint64_t length = work.length;
    const uint64_t total = rows * length;
    const uint64_t line = LINE_BYTES / work.elementBytes;
    const uint64_t capacity = (platform.ubBytes - FIXED_BYTES) / BytesPerElement(work) / line * line;
    const uint32_t bytesMoved = (work.forward ? 3 : 5) * work.elementBytes;
    LaunchConfig config;
    config.blockDim = CoresFor(CeilDiv(total, line), total * bytesMoved, platform);
    // The tile is small enough that every core gets one.
    const uint64_t target = std::min<uint64_t>(capacity, RoundUp(CeilDiv(total, config.blockDim), line));
    tiling.rows = rows;
    tiling.length = length;
    tiling.inputStride = work.inputStride;
    tiling.pairs = work.pairs ? 1 : 0;
    tiling.scratch = work.forward ? work.scratch.forward : work.scratch.backward;
    tiling.form = 0;
    tiling.gateOffset = 0;
    tiling.upOffset = work.pairs ? 0 : length;
    const uint64_t stride = RoundUp(length, work.pairs ? line : BLOCK_BYTES / work.elementBytes);
    if (stride > target) {
        tiling.tilesPerRow = CeilDiv(length, target);
        tiling.tileLength = static_cast<uint32_t>(RoundUp(CeilDiv(length, tiling.tilesPerRow), line));
        tiling.tilesPerRow = CeilDiv(length, tiling.tileLength);
        tiling.tileRows = 1;
        tiling.stride = tiling.tileLength;
    } else {
        tiling.tilesPerRow = 1;
        tiling.tileLength = static_cast<uint32_t>(length);
        const bool alone = stride > length && stride > platform.maxPaddedRow;
        const uint64_t most = alone ? 1 : MAX_COPY_ROWS;
        tiling.tileRows = static_cast<uint32_t>(std::min<uint64_t>({target / stride, rows, most}));
        tiling.stride = static_cast<uint32_t>(stride);
    }
    tiling.tiles = CeilDiv(rows, tiling.tileRows) * tiling.tilesPerRow;
    tiling.tilesPerCore = CeilDiv(tiling.tiles, config.blockDim);
    config.blockDim = static_cast<uint32_t>(CeilDiv(tiling.tiles, tiling.tilesPerCore));
    return config;
}

// Plans two tensors of any shape.
inline LaunchConfig PlanTwo(const TensorDesc& gate, bool forward, const ActivationScratch& scratch,
                            const Platform& platform, GatedTilingData& tiling)
{
    const uint64_t size = gate.Size();
    return Plan({1, size, size, SizeOf(gate.dtype), forward, false, scratch}, platform, tiling);
}

// Plans the two halves of an axis of x, which is outer x 2 x inner when they lie apart; interleaved, every pair along
// the axis is such a piece.
inline LaunchConfig PlanHalves(const TensorDesc& x, int64_t axisAttribute, bool interleaved, bool forward,
                               const ActivationScratch& scratch, const Platform& platform, GatedTilingData& tiling)
{
    const int32_t axis = static_cast<int32_t>(axisAttribute < 0 ? axisAttribute + x.rank : axisAttribute);
    uint64_t rows = x.Product(0, axis);
    uint64_t length = x.Product(axis + 1, x.rank);
    const uint64_t half = x.dims[axis] / 2;
    if (interleaved) {
        rows *= half;
    } else {
        length *= half;
    }
    const bool pairs = length == 1 && rows > 1;
    if (pairs) {  // one long row of alternating elements
        std::swap(rows, length);
    }
    return Plan({rows, length, 2 * length, SizeOf(x.dtype), forward, pairs, scratch}, platform, tiling);
}

}  // namespace gated

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_GATED_TILING_H
