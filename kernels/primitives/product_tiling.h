/*!
 * Calculates the tiling that products of matrices, y = x weight, share, and what the vector unit makes of them, in
 * plain C++.
 *
 * A task is a tile of the output of one batch. Tiles follow from the shapes, not from the number of cores: neither do
 * results.
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_PRODUCT_TILING_H
#define MS_ASCEND_OPS_PRIMITIVES_PRODUCT_TILING_H

#include "primitives/cube_tiling.h"
#include "primitives/shape_checks.h"
#include "primitives/split.h"

namespace ms_ascend_ops {

struct ProductTilingData {
    CubeTiling product;
    uint64_t tasks;
    uint64_t tilesPerBatch;
    uint64_t tilesPerRow;  // tiles along N
    uint64_t m;
    uint64_t n;
    uint64_t k;
    uint64_t xBatch;  // elements from one matrix to the next; of the weight 0 if all share one
    uint64_t weightBatch;
    uint64_t yBatch;
    uint64_t groups;  // of rows, each with a matrix of weights, a batch; 0: rows are in no groups
    uint64_t workspacePerCore;
    uint32_t transposeX;
    uint32_t transposeWeight;
    uint32_t finished;    // products of a tile that the vector unit finishes together; 0: the cube writes the output
    uint32_t activation;  // the activation, or its form
    uint32_t hasBias;
    uint32_t hasRowScale;
    uint32_t scratch;  // float tensors of a chunk's size that the activation needs
    uint32_t tileRows;
    uint32_t tileCols;
    uint32_t chunkRows;  // of a tile that the vector unit takes at a time
    uint32_t cores;
};

namespace product {

// A tile of the output that goes to memory at once may be large on a host, where a library cuts it up for its caches;
// those that the vector unit works on should stay in them.
constexpr uint64_t HOST_ROWS = 512;
constexpr uint64_t HOST_COLS = 1024;
constexpr uint64_t HOST_FINISHED_COLS = 512;  // of all products of a tile together
constexpr uint64_t ENOUGH_TASKS = 16;         // to share out; smaller tiles beyond that only cost
constexpr uint64_t HOST_ENOUGH_TASKS = 8;     // with 16, 512 x 1024 x 1024 takes 5 % longer
constexpr uint64_t LEAST_ROWS = 64;
constexpr uint64_t LEAST_COLS = 128;
// A host packs an operand anew for each tile. With fewer rows than these, 128 x 1536 x 576 of a Zen 5 takes 8 % longer
// with a transposed weight, and 26 % with x transposed, too.
constexpr uint64_t HOST_LEAST_ROWS = 128;
// If x is transposed, x is packed; a weight that is not transposed lies in stretches of a tile's columns.
constexpr uint64_t HOST_LEAST_COLS = 256;
// With few rows and a weight that is not transposed, a tile reads as many stretches of memory as the weight has rows:
// they should be long. 1x4096x4096 on one thread of a Zen 3, stretches of 1, 2, 4, 16 KiB: 6.4, 4.4, 3.9 and 3.1 ms.
constexpr uint64_t FEW_ROWS = 8;
constexpr uint64_t LEAST_COLS_OF_FEW_ROWS = 512;
constexpr uint64_t LEAST_COLS_OF_WIDE = 1024;
constexpr uint64_t WIDE = 4096;
// Few rows are bound by reading the weight, which takes all cores of a chip: two tasks for each cube core.
constexpr uint64_t TASKS_OF_CHIP = 48;
constexpr uint64_t LEAST_COLS_OF_CHIP = 64;
constexpr uint32_t FIXED_BYTES = 4096;
constexpr uint32_t MOST_CHUNK = 32;

// Describes the work to be tiled.
struct Work {
    uint64_t batches;
    uint64_t m;
    uint64_t n;
    uint64_t k;
    DataType type;
    DataType outputType;  // if the vector unit finishes them
    bool transposeX;
    bool transposeWeight;
    bool sharesWeight;     // one matrix of weights serves all batches
    uint32_t finished;     // as in ProductTilingData
    uint32_t scratch;      // as in ProductTilingData
    uint32_t columnBytes;  // Unified Buffer for each column of a tile that does not depend on its rows
    uint32_t lineBytes;    // and for each row
};

// Down to how many columns tiles are cut for the sake of more tasks.
inline uint64_t LeastCols(const Work& work, bool host)
{
    if (!host || work.m > FEW_ROWS || work.transposeWeight) {
        return host && (work.transposeX || !work.transposeWeight) ? HOST_LEAST_COLS : LEAST_COLS;
    }
    return work.n < WIDE ? LEAST_COLS_OF_FEW_ROWS : LEAST_COLS_OF_WIDE;
}

inline LaunchConfig Plan(const Work& work, const Platform& platform, ProductTilingData& tiling)
{
    for (const uint64_t size : {work.m, work.n, work.k}) {
        Size32(size, "the rows and columns of a product");
    }
    tiling.m = work.m;
    tiling.n = work.n;
    tiling.k = work.k;
    tiling.xBatch = work.m * work.k;
    tiling.weightBatch = work.sharesWeight ? 0 : work.n * work.k;
    tiling.yBatch = work.m * work.n;
    tiling.groups = 0;
    tiling.transposeX = work.transposeX ? 1 : 0;
    tiling.transposeWeight = work.transposeWeight ? 1 : 0;
    tiling.finished = work.finished;
    tiling.scratch = work.scratch;

    const uint64_t k = std::max<uint64_t>(1, work.k);
    const bool host = platform.tileBytes != 0;
    const bool large = host && work.finished == 0;
    const uint64_t mostCols = large ? HOST_COLS : host ? HOST_FINISHED_COLS / work.finished : BASE_N;
    uint64_t rows = std::min(work.m, large ? HOST_ROWS : uint64_t{BASE_M});
    uint64_t cols = std::min(work.n, mostCols);
    const uint64_t leastRows = host ? HOST_LEAST_ROWS : LEAST_ROWS;
    const uint64_t leastCols = LeastCols(work, host);
    const uint64_t enoughTasks = host ? HOST_ENOUGH_TASKS : ENOUGH_TASKS;
    while (work.batches * CeilDiv(work.m, rows) * CeilDiv(work.n, cols) < enoughTasks &&
           (rows > leastRows || cols > leastCols)) {
        if (cols > leastCols && (cols >= 2 * rows || rows <= leastRows || large)) {
            cols = RoundUp(cols / 2, CUBE_SIDE);
        } else {
            rows = RoundUp(rows / 2, CUBE_SIDE);
        }
    }
    const uint64_t lines = std::max<uint64_t>(1, work.batches * CeilDiv(work.m, rows));
    if (!host && lines * CeilDiv(work.n, cols) < TASKS_OF_CHIP) {
        const uint64_t even = RoundUp(CeilDiv(std::max<uint64_t>(1, work.n), CeilDiv(TASKS_OF_CHIP, lines)), CUBE_SIDE);
        cols = std::min(cols, std::max(even, LEAST_COLS_OF_CHIP));
    }
    tiling.tileRows = static_cast<uint32_t>(rows);
    tiling.tileCols = static_cast<uint32_t>(cols);
    tiling.tilesPerRow = CeilDiv(work.n, cols);
    tiling.tilesPerBatch = CeilDiv(work.m, rows) * tiling.tilesPerRow;
    tiling.tasks = work.batches * tiling.tilesPerBatch;
    const DataType finishedType = work.type == DataType::INT8 ? DataType::INT32 : DataType::FLOAT32;
    tiling.product = PlanCube(rows, cols, k, work.type, work.finished != 0 ? finishedType : work.type, work.transposeX,
                              work.transposeWeight);
    tiling.product.M = static_cast<int32_t>(work.m);
    tiling.product.N = static_cast<int32_t>(work.n);
    CheckRowsApart(tiling.product, {work.transposeX ? work.m : work.k, "a row of x"},
                   {work.transposeWeight ? work.k : work.n, "a row of the weight"}, platform);
    LaunchConfig config;
    const uint64_t operations = work.batches * work.m * work.n * k;
    config.blockDim = static_cast<uint32_t>(std::max<uint64_t>(
        1, std::min<uint64_t>({tiling.tasks, platform.coreNum, 1 + operations / platform.minBytesPerCore})));
    tiling.cores = config.blockDim;
    if (work.finished != 0) {
        // A row of a chunk takes the products in two buffers, the result in two, and the operands of the vector unit.
        const uint64_t stride = RoundUp(cols, CUBE_SIDE);
        const uint64_t floats = 2 * work.finished + 1 + work.scratch;
        const uint64_t perRow = stride * (floats * sizeof(float) + 2 * SizeOf(work.outputType));
        const uint64_t fixed = FIXED_BYTES + stride * work.columnBytes + rows * work.lineBytes;
        const uint64_t chunk = std::min<uint64_t>({(platform.ubBytes - fixed) / perRow, MOST_CHUNK, rows});
        tiling.chunkRows = static_cast<uint32_t>(std::max<uint64_t>(1, chunk));
        tiling.workspacePerCore = RoundUp(2 * work.finished * rows * cols * sizeof(float), 512);
        config.workspaceBytes = tiling.workspacePerCore * config.blockDim;
    }
    return config;
}

}  // namespace product

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_PRODUCT_TILING_H
