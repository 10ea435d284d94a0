/*!
 * Tiling of weight_quant_matmul. Plain C++.
 *
 * A task is a tile of the weight: some of its rows, which are columns of the output. Its size follows from the shapes,
 * not from the number of cores: neither do results.
 */
#ifndef MS_ASCEND_OPS_WEIGHT_QUANT_MATMUL_TILING_H
#define MS_ASCEND_OPS_WEIGHT_QUANT_MATMUL_TILING_H

#include <stdexcept>
#include <string>

#include "primitives/cube_tiling.h"
#include "primitives/split.h"
#include "weight_quant_matmul_params.h"

namespace ms_ascend_ops {

struct WeightQuantMatmulTilingData {
    CubeTiling product;
    uint64_t tasks;
    uint64_t workspacePerCore;
    uint32_t m;
    uint32_t n;
    uint32_t k;
    uint32_t groups;   // of a row
    uint32_t perByte;  // numbers: 1 or 2
    uint32_t hasOffset;
    uint32_t hasBias;
    uint32_t tileRows;     // of the weight
    uint32_t blockRows;    // that the vector unit unpacks at a time: groups, or rows if a row is one group
    uint32_t blockCols;    // of such a row; a row that is one group is unpacked in pieces
    uint32_t blockStride;  // in the Unified Buffer
    uint32_t cores;
    // Few rows of x: the vector unit multiplies, and there is no tile.
    uint32_t fewRows;
    uint32_t pieces;  // of a group: a sum takes 64 products at most
    uint32_t pieceCols;
    uint32_t groupStride;  // floats from a row of groups to the next, in the Unified Buffer
};

namespace weight_quant_matmul_tiling_plan {

constexpr uint64_t GROUP_STEP = 32;   // groups begin at whole blocks of the Unified Buffer
constexpr uint64_t STRIDE_STEP = 64;  // a row of the Unified Buffer: whole blocks, also of 4 bits
constexpr uint64_t LEAST_ROWS = 16;   // a block of the cube
constexpr uint64_t MOST_ROWS = 256;
constexpr uint64_t TILE_BYTES = 192 * 1024;  // unpacked; a host keeps it in its L2 cache
constexpr uint64_t ENOUGH_TASKS = 16;
constexpr uint64_t HOST_ELEMENTS = 4096;   // unpacked at a time, for the L1 data cache
constexpr uint64_t MOST_BLOCK_ROWS = 248;  // repeats, in whole blocks of floats
constexpr uint64_t FIXED_BYTES = 4096;

constexpr uint64_t FEW_ROWS = 4;  // of x: more are multiplied faster with an unpacked tile
constexpr uint64_t MOST_PIECES = 4;
constexpr uint64_t MOST_FEW_ELEMENTS = 32 * 1024;
constexpr uint64_t CORE_ALIGNMENT = 64;  // bytes of the output: a line of a host's cache

// Of few rows a host's vector unit calculates all sums from the packed weight. On a chip that would be an instruction
// for each row of the weight, which takes longer than unpacking it for the cube.
inline bool PlanFewRows(const WeightQuantMatmulParams& params, const Platform& platform,
                        WeightQuantMatmulTilingData& tiling, LaunchConfig& config)
{
    const uint64_t k = tiling.k;
    const uint64_t group = k / tiling.groups;
    const uint64_t piece = group % FLOATS_PER_REPEAT == 0 ? FLOATS_PER_REPEAT : GROUP_STEP;
    if (platform.tileBytes == 0 || tiling.m == 0 || tiling.m > FEW_ROWS || group % piece != 0 ||
        group / piece > MOST_PIECES || tiling.groups > MAX_REPEAT_TIMES) {
        return false;
    }
    const uint64_t bytes = SizeOf(params.x.dtype);
    const uint64_t stride = RoundUp(tiling.groups, 16);
    tiling.pieces = static_cast<uint32_t>(group / piece);
    tiling.pieceCols = static_cast<uint32_t>(piece);
    tiling.groupStride = static_cast<uint32_t>(stride);
    // x as it comes and as float, the products of a row, and sums of x.
    const uint64_t fixed =
        FIXED_BYTES + tiling.m * (k * (bytes + sizeof(float)) + stride * sizeof(float)) + k * sizeof(float);
    // A row of the weight: twice as it comes, as half and as float; scales and offsets of its groups, twice as they
    // come and as float, sums, and their lanes; and the results.
    const uint64_t groupBytes = 2 * 2 * SizeOf(params.scale.dtype) + 5 * sizeof(float);
    const uint64_t perRow = k * (2 + 2 + sizeof(float)) + stride * groupBytes + FLOATS_PER_REPEAT * sizeof(float) +
                            BLOCK_BYTES + 16 + 2 * (sizeof(float) + bytes) + sizeof(float);
    if (fixed + perRow * 8 > platform.ubBytes) {
        return false;
    }
    const uint64_t rows = std::min({(platform.ubBytes - fixed) / perRow / 8 * 8, MOST_BLOCK_ROWS,
                                    std::max<uint64_t>(8, MOST_FEW_ELEMENTS / k / 8 * 8)});
    tiling.blockRows = static_cast<uint32_t>(rows);
    tiling.blockCols = tiling.k;
    tiling.blockStride = tiling.k;
    const uint64_t aligned = CORE_ALIGNMENT / bytes;
    const uint64_t cores = CoresFor(CeilDiv(tiling.n, aligned), tiling.n * k / 2, platform);
    tiling.tileRows = static_cast<uint32_t>(RoundUp(CeilDiv(tiling.n, std::max<uint64_t>(1, cores)), aligned));
    tiling.tasks = CeilDiv(tiling.n, tiling.tileRows);
    config.blockDim = static_cast<uint32_t>(std::max<uint64_t>(1, tiling.tasks));
    tiling.cores = config.blockDim;
    return true;
}

}  // namespace weight_quant_matmul_tiling_plan

inline LaunchConfig WeightQuantMatmulTiling(const WeightQuantMatmulParams& params, const Platform& platform,
                                            WeightQuantMatmulTilingData& tiling)
{
    using namespace weight_quant_matmul_tiling_plan;
    const TensorDesc& x = params.x;
    const uint64_t bytes = SizeOf(x.dtype);
    const uint64_t scaleBytes = SizeOf(params.scale.dtype);
    const uint64_t m = static_cast<uint64_t>(x.Product(0, x.rank - 1));
    const uint64_t k = static_cast<uint64_t>(x.LastDim());
    const uint64_t n = static_cast<uint64_t>(params.weight.dims[0]);
    const uint64_t rowBytes = static_cast<uint64_t>(params.weight.dims[1]);
    const uint64_t groups = static_cast<uint64_t>(params.scale.dims[1]);
    const uint64_t perByte = k / rowBytes;
    const uint64_t group = k / groups;
    if (perByte > 2) {
        throw std::invalid_argument("a byte of the weight must hold 1 or 2 numbers, got " + std::to_string(perByte));
    }
    if (groups > 1 && group > WeightQuantMatmulLimits::GROUP_SIZE) {
        throw std::invalid_argument("a group must have at most " + std::to_string(WeightQuantMatmulLimits::GROUP_SIZE) +
                                    " numbers, or be a whole row, got " + std::to_string(group));
    }
    if (groups > 1 && group % GROUP_STEP != 0) {
        throw std::invalid_argument("a group must have a multiple of 32 numbers, or be a whole row, got " +
                                    std::to_string(group));
    }
    tiling.m = Size32(m, "rows");
    tiling.n = Size32(n, "columns");
    tiling.k = Size32(k, "the rows and columns of a product");
    tiling.groups = static_cast<uint32_t>(groups);
    tiling.perByte = static_cast<uint32_t>(perByte);
    tiling.hasOffset = params.offset.IsGiven() ? 1 : 0;
    tiling.hasBias = params.bias.IsGiven() ? 1 : 0;

    LaunchConfig config;
    tiling.product = PlanCube(std::max<uint64_t>(m, 1), LEAST_ROWS, k, x.dtype, x.dtype, false, true);
    tiling.fewRows = PlanFewRows(params, platform, tiling, config) ? 1 : 0;
    if (tiling.fewRows != 0) {
        return config;
    }
    uint64_t rows = std::min(std::max(TILE_BYTES / (k * bytes) / LEAST_ROWS * LEAST_ROWS, LEAST_ROWS), MOST_ROWS);
    while (CeilDiv(n, rows) < ENOUGH_TASKS && rows > LEAST_ROWS) {
        rows = RoundUp(rows / 2, LEAST_ROWS);
    }
    rows = std::min(rows, std::max<uint64_t>(1, n));
    tiling.tileRows = static_cast<uint32_t>(rows);
    tiling.tasks = m == 0 ? 0 : CeilDiv(n, rows);

    // A number on its way: as it comes, twice, as half and as float, and twice as the product wants it; of a row its
    // scale and its offset, twice each as they come, as float and spread over a block.
    const uint64_t perElement = 2 + 2 + sizeof(float) + 2 * bytes;
    const uint64_t perRow = 2 * (2 * scaleBytes + sizeof(float) + BLOCK_BYTES);
    const uint64_t room = platform.ubBytes - FIXED_BYTES;
    const uint64_t most = platform.tileBytes != 0 ? HOST_ELEMENTS : room;
    if (groups > 1) {
        tiling.blockCols = static_cast<uint32_t>(group);
        tiling.blockStride = tiling.blockCols;
        const uint64_t fits = std::min(room / (group * perElement + perRow), most / group);
        tiling.blockRows = static_cast<uint32_t>(std::min(std::max<uint64_t>(fits / 8 * 8, 8), MOST_BLOCK_ROWS));
    } else {
        const uint64_t piece = std::min(RoundUp(k, STRIDE_STEP), most / 8 / STRIDE_STEP * STRIDE_STEP);
        const uint64_t cols = std::min<uint64_t>(piece, 1024);
        tiling.blockCols = static_cast<uint32_t>(std::min(cols, k));
        tiling.blockStride = static_cast<uint32_t>(cols);
        const uint64_t fits = std::min(room / (cols * perElement + perRow), most / cols);
        tiling.blockRows = static_cast<uint32_t>(std::min(std::max<uint64_t>(fits / 8 * 8, 8), MOST_BLOCK_ROWS));
    }
    tiling.product = PlanCube(std::max<uint64_t>(m, 1), rows, k, x.dtype, x.dtype, false, true);
    tiling.product.isBias = static_cast<int32_t>(tiling.hasBias);
    const uint64_t work = n * k * (1 + m / 8);
    config.blockDim = static_cast<uint32_t>(std::max<uint64_t>(
        1, std::min<uint64_t>({tiling.tasks, platform.coreNum, 1 + work / platform.minBytesPerCore})));
    tiling.cores = config.blockDim;
    tiling.workspacePerCore = RoundUp(2 * rows * k * bytes, LINE_BYTES);
    config.workspaceBytes = tiling.workspacePerCore * config.blockDim;
    return config;
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_WEIGHT_QUANT_MATMUL_TILING_H
