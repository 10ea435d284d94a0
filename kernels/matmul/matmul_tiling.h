/*!
 * Tiling of matmul. Plain C++.
 *
 * A task is a tile of the output of one batch. Without batches of weights, all rows of x are one matrix. Tiles follow
 * from the shapes, not from the number of cores: neither do results.
 */
#ifndef MS_ASCEND_OPS_MATMUL_TILING_H
#define MS_ASCEND_OPS_MATMUL_TILING_H

#include <stdexcept>
#include <string>

#include "matmul_params.h"
#include "primitives/activation_scratch.h"
#include "primitives/cube_tiling.h"
#include "primitives/split.h"

namespace ms_ascend_ops {

struct MatmulTilingData {
    CubeTiling product;
    uint64_t tasks;
    uint64_t tilesPerBatch;
    uint64_t tilesPerRow;  // of tiles: along n
    uint64_t m;
    uint64_t n;
    uint64_t k;
    uint64_t xBatch;  // elements from one matrix to the next; of the weight 0 if all share one
    uint64_t weightBatch;
    uint64_t workspacePerCore;
    uint32_t transposeX;
    uint32_t transposeWeight;
    uint32_t activation;
    uint32_t hasBias;
    uint32_t tileRows;
    uint32_t tileCols;
    uint32_t chunkRows;  // of a tile that the vector unit takes at a time
    uint32_t cores;
};

namespace matmul_tiling_plan {

// A tile of the result that goes to memory at once may be large on a host, where a library cuts it up for its caches;
// one that an epilogue works on should stay in them.
constexpr uint64_t HOST_ROWS = 512;
constexpr uint64_t HOST_COLS = 1024;
constexpr uint64_t ENOUGH_TASKS = 16;  // to share out; smaller tiles beyond that only cost
constexpr uint64_t LEAST_ROWS = 64;
constexpr uint64_t LEAST_COLS = 128;
constexpr uint32_t FIXED_BYTES = 4096;
constexpr uint32_t MOST_CHUNK = 32;

// Whether one matrix of weights serves all of x.
inline bool SharesWeight(const TensorDesc& weight)
{
    return weight.Product(0, weight.rank - 2) == 1;
}

inline ActivationScratch ScratchOf(MatmulActivation activation, uint32_t bytes)
{
    switch (activation) {
        case MatmulActivation::GELU:
            return GeluScratch(false, bytes);
        case MatmulActivation::GELU_TANH:
            return GeluScratch(true, bytes);
        default:
            return SILU_SCRATCH;
    }
}

}  // namespace matmul_tiling_plan

inline LaunchConfig MatmulTiling(const MatmulParams& params, const Platform& platform, MatmulTilingData& tiling)
{
    using namespace matmul_tiling_plan;
    const TensorDesc& x = params.x;
    const TensorDesc& weight = params.weight;
    const uint32_t bytes = SizeOf(x.dtype);
    uint64_t batches = static_cast<uint64_t>(x.Product(0, x.rank - 2));
    uint64_t m = static_cast<uint64_t>(x.dims[x.rank - (params.transpose_x ? 1 : 2)]);
    const uint64_t k = static_cast<uint64_t>(x.dims[x.rank - (params.transpose_x ? 2 : 1)]);
    const uint64_t n = static_cast<uint64_t>(weight.dims[weight.rank - (params.transpose_weight ? 2 : 1)]);
    const uint64_t weights = static_cast<uint64_t>(weight.Product(0, weight.rank - 2));
    if (weights != 1 && weights != batches) {
        throw std::invalid_argument("weight must have one matrix or as many as x (" + std::to_string(batches) +
                                    "), got " + std::to_string(weights));
    }
    if (SharesWeight(weight) && !params.transpose_x) {
        m *= batches;
        batches = 1;
    }
    for (const uint64_t size : {m, n, k}) {
        Size32(size, "the rows and columns of a product");
    }
    tiling.m = m;
    tiling.n = n;
    tiling.k = k;
    tiling.xBatch = m * k;
    tiling.weightBatch = SharesWeight(weight) ? 0 : n * k;
    tiling.transposeX = params.transpose_x ? 1 : 0;
    tiling.transposeWeight = params.transpose_weight ? 1 : 0;
    tiling.activation = static_cast<uint32_t>(params.activation);
    tiling.hasBias = params.bias.IsGiven() ? 1 : 0;

    // Sums of nothing are no products: the vector unit writes them.
    const bool epilogue = k == 0 || tiling.hasBias != 0 || params.activation != MatmulActivation::NONE;
    const bool large = platform.tileBytes != 0 && !epilogue;
    uint64_t rows = std::min(m, large ? HOST_ROWS : uint64_t{BASE_M});
    uint64_t cols = std::min(n, large ? HOST_COLS : uint64_t{platform.tileBytes != 0 ? 2 * BASE_N : BASE_N});
    while (batches * CeilDiv(m, rows) * CeilDiv(n, cols) < ENOUGH_TASKS && (rows > LEAST_ROWS || cols > LEAST_COLS)) {
        if (cols > LEAST_COLS && (cols >= 2 * rows || rows <= LEAST_ROWS)) {
            cols = RoundUp(cols / 2, CUBE_SIDE);
        } else {
            rows = RoundUp(rows / 2, CUBE_SIDE);
        }
    }
    tiling.tileRows = static_cast<uint32_t>(rows);
    tiling.tileCols = static_cast<uint32_t>(cols);
    tiling.tilesPerRow = CeilDiv(n, cols);
    tiling.tilesPerBatch = CeilDiv(m, rows) * tiling.tilesPerRow;
    tiling.tasks = batches * tiling.tilesPerBatch;
    tiling.product = PlanCube(rows, cols, std::max<uint64_t>(1, k), x.dtype, epilogue ? DataType::FLOAT32 : x.dtype,
                              params.transpose_x, params.transpose_weight);
    tiling.product.M = static_cast<int32_t>(m);
    tiling.product.N = static_cast<int32_t>(n);
    LaunchConfig config;
    const uint64_t work = batches * m * n * std::max<uint64_t>(1, k);
    config.blockDim = static_cast<uint32_t>(std::max<uint64_t>(
        1, std::min<uint64_t>({tiling.tasks, platform.coreNum, 1 + work / platform.minBytesPerCore})));
    tiling.cores = config.blockDim;
    if (epilogue) {
        // A row of a chunk: the product in two buffers, the result in two, and what the activation works with.
        const uint64_t stride = RoundUp(cols, CUBE_SIDE);
        const uint64_t scratch = 1 + ScratchOf(params.activation, bytes).forward;
        const uint64_t perRow = stride * (2 * sizeof(float) + 2 * bytes + scratch * sizeof(float));
        const uint64_t fixed = FIXED_BYTES + stride * 4 * sizeof(float);  // the bias, as it comes and in float
        const uint64_t chunk = std::min<uint64_t>({(platform.ubBytes - fixed) / perRow, MOST_CHUNK, rows});
        tiling.chunkRows = static_cast<uint32_t>(std::max<uint64_t>(1, chunk));
        tiling.workspacePerCore = RoundUp(2 * rows * cols * sizeof(float), 512);
        config.workspaceBytes = tiling.workspacePerCore * config.blockDim;
    }
    return config;
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_MATMUL_TILING_H
