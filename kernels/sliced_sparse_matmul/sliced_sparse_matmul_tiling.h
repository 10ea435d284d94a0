/*!
 * Calculates the tiling of sliced_sparse_matmul, in plain C++.
 *
 * Cores share slices by their positions, and then groups of 64 rows of the result. A row of x, later its sums of
 * pieces, stays in the Unified Buffer.
 */
#ifndef MS_ASCEND_OPS_SLICED_SPARSE_MATMUL_TILING_H
#define MS_ASCEND_OPS_SLICED_SPARSE_MATMUL_TILING_H

#include <stdexcept>
#include <string>

#include "primitives/shape_checks.h"
#include "primitives/split.h"
#include "sliced_sparse_matmul_params.h"

namespace ms_ascend_ops {

struct SlicedSparseMatmulTilingData {
    uint64_t rows;  // of x
    uint32_t inner;
    uint32_t slices;
    uint32_t positions;  // of all slices
    uint32_t groups;
    uint32_t places;      // of all groups
    uint32_t chunk;       // positions at once
    uint32_t stage;       // elements of a row that are loaded at once
    uint32_t bufferSize;  // floats of a row of x, or of its sums of pieces, with zeros behind
    uint32_t cores;
};

namespace sliced_sparse_matmul {

constexpr uint32_t CHUNK = 64;    // positions of slices at once, at most; half of that where rows are long
constexpr uint32_t STAGE = 2048;  // elements of a row that are loaded at once

// Indices and values in two buffers each; columns, offsets, products and values of 16 bits in float; a stretch of a
// row; sums of each row, results in two buffers, and by how much indices are wrong.
inline uint64_t FixedBytes(uint32_t bytes, uint32_t chunk)
{
    const uint64_t lanes = uint64_t{chunk} * FLOATS_PER_REPEAT;
    return lanes * (2 * sizeof(int32_t) + 2 * bytes + 4 * sizeof(float)) + STAGE * sizeof(float) +
           5 * FLOATS_PER_REPEAT * sizeof(float);
}

inline uint32_t Padded(uint64_t elements)
{
    return static_cast<uint32_t>(RoundUp(elements + 1, FLOATS_PER_REPEAT));  // zeros behind the last
}

}  // namespace sliced_sparse_matmul

inline LaunchConfig SlicedSparseMatmulTiling(const SlicedSparseMatmulParams& params, const Platform& platform,
                                             SlicedSparseMatmulTilingData& tiling)
{
    using namespace sliced_sparse_matmul;
    const uint32_t bytes = SizeOf(params.x.dtype);
    const uint64_t inner = static_cast<uint64_t>(params.x.LastDim());
    const uint64_t sums = FLOATS_PER_REPEAT * static_cast<uint64_t>(params.slice_ends.dims[0]);
    CheckLastDim(params.x, "x", SlicedSparseMatmulLimits::ELEMENTS);
    if (sums > SlicedSparseMatmulLimits::ELEMENTS) {
        Refuse("slice_ends.shape[0] must be at most " +
                   std::to_string(SlicedSparseMatmulLimits::ELEMENTS / FLOATS_PER_REPEAT),
               std::to_string(params.slice_ends.dims[0]));
    }
    tiling.rows = static_cast<uint64_t>(params.x.Product(0, params.x.rank - 1));
    tiling.inner = static_cast<uint32_t>(inner);
    tiling.slices = static_cast<uint32_t>(params.slice_ends.dims[0]);
    tiling.positions = Size32(static_cast<uint64_t>(params.indices.dims[0]), "the positions of slices");
    tiling.groups = static_cast<uint32_t>(params.group_ends.dims[0]);
    tiling.places = Size32(static_cast<uint64_t>(params.pieces.dims[0]), "the positions of groups");
    tiling.bufferSize = Padded(std::max(inner, sums));
    const uint64_t row = uint64_t{tiling.bufferSize} * sizeof(float);
    tiling.chunk = FixedBytes(bytes, CHUNK) + row <= platform.ubBytes ? CHUNK : CHUNK / 2;
    tiling.stage = STAGE;
    LaunchConfig config;
    const uint64_t work =
        uint64_t{tiling.positions} * FLOATS_PER_REPEAT * (sizeof(int32_t) + bytes * (1 + tiling.rows));
    config.blockDim = CoresFor(std::max(tiling.slices, tiling.groups), work, platform);
    tiling.cores = config.blockDim;
    config.workspaceBytes = std::max<uint64_t>(1, tiling.rows * sums) * sizeof(float);
    return config;
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_SLICED_SPARSE_MATMUL_TILING_H
