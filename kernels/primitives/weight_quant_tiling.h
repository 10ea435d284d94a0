/*!
 * Calculates the tiling of products with a weight in 8 or 4 bits, and of a gated pair of them, in plain C++.
 *
 * A task is a tile of the weight: some of its rows, which are columns of the output. Its size follows from the shapes,
 * not from the number of cores: neither do results.
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_WEIGHT_QUANT_TILING_H
#define MS_ASCEND_OPS_PRIMITIVES_WEIGHT_QUANT_TILING_H

#include <stdexcept>
#include <string>

#include "primitives/activation_scratch.h"
#include "primitives/cube_tiling.h"
#include "primitives/shape_checks.h"
#include "primitives/split.h"

namespace ms_ascend_ops {

struct WeightQuantTilingData {
    CubeTiling product;
    uint64_t tasks;
    uint64_t workspacePerCore;
    uint64_t tileBytes;  // of it, for tiles of the weight; results of products come behind
    uint32_t m;
    uint32_t n;  // columns of the output
    uint32_t k;
    uint32_t parts;    // of the weight, n rows each: 2 if a gate comes before
    uint32_t groups;   // of a row
    uint32_t perByte;  // numbers: 1 or 2
    uint32_t hasOffset;
    uint32_t hasBias;
    uint32_t tileRows;     // of a part of the weight
    uint32_t blockRows;    // rows that the vector unit unpacks at a time: groups, or rows if a row is one group
    uint32_t blockCols;    // of such a row; a row that is one group is unpacked in pieces
    uint32_t blockStride;  // in the Unified Buffer
    uint32_t cores;
    // The activation behind the product needs `scratch` float tensors. If x has many rows, a product has `stretchRows`
    // of them, and the vector unit takes `chunkRows` at a time.
    uint32_t finished;
    uint32_t activation;
    uint32_t scratch;
    uint32_t chunkRows;
    uint32_t stretchRows;
    // Few rows of x: the vector unit multiplies, and there is no tile.
    uint32_t fewRows;
    uint32_t rowsAtOnce;  // of x, with a block of the weight
    uint32_t quantizeX;
    uint32_t pieces;  // of a group: one reduction takes 64 products at most
    uint32_t pieceCols;
    uint32_t groupStride;  // floats from a row of groups to the next, in the Unified Buffer
    // If x has many rows that are rounded first, so many groups are taken at a time, and come to this place in the
    // workspace.
    uint32_t roundedGroups;
    uint64_t roundedX;
};

namespace weight_quant {

constexpr uint64_t GROUP_STEP = 16;   // groups begin at whole blocks of the Unified Buffer, as half and as float
constexpr uint64_t STRIDE_STEP = 64;  // a row of the Unified Buffer: whole blocks, also of 4 bits
constexpr uint64_t LEAST_ROWS = 16;   // a block of the cube
constexpr uint64_t MOST_ROWS = 256;
constexpr uint64_t UNPACKED_BYTES = 192 * 1024;  // unpacked; a host keeps it in its L2 cache
constexpr uint64_t ENOUGH_TASKS = 16;
constexpr uint64_t UNPACKED_BYTES_OF_CHIP = 1024 * 1024;  // twice, for each core, in an L2 cache of 192 MiB
constexpr uint64_t TASKS_OF_CHIP = 48;
constexpr uint64_t HOST_ELEMENTS = 4096;   // unpacked at a time, for the L1 data cache
constexpr uint64_t MOST_BLOCK_ROWS = 248;  // repeats, in whole blocks of floats
constexpr uint64_t FIXED_BYTES = 4096;
constexpr uint64_t MOST_CHUNK_ROWS = 32;     // of a product, for the vector unit
constexpr uint64_t MOST_STRETCH_ROWS = 256;  // of x, in a product that the vector unit finishes

constexpr uint64_t FEW_ROWS = 4;          // of x: with more, products with an unpacked tile are faster
constexpr uint64_t FEW_ROUNDED_ROWS = 8;  // if they become integers
constexpr uint64_t ROWS_AT_ONCE = 4;      // of x, with a block of the weight
constexpr uint64_t FEW_ROWS_OF_CHIP = 2;
constexpr uint64_t LEAST_COLS_OF_CHIP = 1024;
constexpr uint64_t MOST_PIECES = 4;
constexpr uint64_t MOST_FEW_ELEMENTS = 32 * 1024;
constexpr uint64_t MOST_SUMS = 64;       // of rows of both
constexpr uint64_t CORE_ALIGNMENT = 64;  // bytes of the output: a line of a host's cache

constexpr uint64_t PieceOf(uint64_t group)
{
    return group % FLOATS_PER_REPEAT == 0 ? FLOATS_PER_REPEAT : group % 32 == 0 ? 32 : GROUP_STEP;
}

// x is rounded by groups of these sizes.
constexpr bool IsRoundable(uint64_t group)
{
    return group % PieceOf(group) == 0 && group / PieceOf(group) <= MOST_PIECES;
}

// The vector unit calculates, for few rows of x, all sums from the packed weight. On a chip that is two instructions
// for each row of x and of the weight: worth it where rows are long, as beginning an instruction takes its time, and
// few, as unpacking takes as long as some sums.
inline bool PlanFewRows(uint64_t bytes, uint64_t scaleBytes, bool quantizeX, const Platform& platform,
                        WeightQuantTilingData& tiling, LaunchConfig& config)
{
    const uint64_t k = tiling.k;
    const uint64_t group = k / tiling.groups;
    const uint64_t piece = PieceOf(group);
    // With quantize_x results depend on it, so that it is the same everywhere.
    const bool restricted = platform.tileBytes == 0 && !quantizeX;
    const uint64_t most = quantizeX ? FEW_ROUNDED_ROWS : restricted ? FEW_ROWS_OF_CHIP : FEW_ROWS;
    if (tiling.m == 0 || tiling.m > most || (restricted && k < LEAST_COLS_OF_CHIP) || !IsRoundable(group) ||
        k % BLOCK_BYTES != 0 ||  // rows of integers begin at whole blocks
        tiling.groups > MAX_REPEAT_TIMES) {
        return false;
    }
    const uint64_t stride = RoundUp(tiling.groups, 16);
    tiling.pieces = static_cast<uint32_t>(group / piece);
    tiling.pieceCols = static_cast<uint32_t>(piece);
    tiling.groupStride = static_cast<uint32_t>(stride);
    tiling.quantizeX = quantizeX ? 1 : 0;
    // There are x as it comes and as float, the products of a row, and sums of x.
    uint64_t fixed =
        FIXED_BYTES + tiling.m * (k * (bytes + sizeof(float)) + stride * sizeof(float)) + k * sizeof(float);
    if (quantizeX) {  // the integers, their scales, and a row of them as half
        fixed += tiling.m * (k + stride * sizeof(float)) + k * 2;
    }
    // A row of the weight takes two buffers as it comes, and one as half and one as float; its groups take scales and
    // offsets, in two buffers as they come and as float, sums and their lanes; and there are the results.
    const uint64_t groupBytes = 2 * 2 * scaleBytes + 5 * sizeof(float);
    const uint64_t perRow = k * (2 + 2 + sizeof(float)) + stride * groupBytes + FLOATS_PER_REPEAT * sizeof(float) +
                            BLOCK_BYTES + 16 + 2 * (sizeof(float) + bytes) +
                            (2 + tiling.scratch + tiling.m) * sizeof(float);
    const uint64_t atOnce = CeilDiv(tiling.m, CeilDiv(tiling.m, ROWS_AT_ONCE));
    tiling.rowsAtOnce = static_cast<uint32_t>(atOnce);
    if (fixed + perRow * 8 > platform.ubBytes) {
        return false;
    }
    const uint64_t rows = std::min({(platform.ubBytes - fixed) / perRow / 8 * 8, MOST_BLOCK_ROWS,
                                    std::max<uint64_t>(8, MOST_FEW_ELEMENTS / k / 8 * 8),
                                    std::max<uint64_t>(8, MOST_SUMS / atOnce / 8 * 8)});
    tiling.blockCols = tiling.k;
    tiling.blockStride = tiling.k;
    const uint64_t aligned = CORE_ALIGNMENT / bytes;
    const uint64_t cores = CoresFor(CeilDiv(tiling.n, aligned), tiling.parts * tiling.n * k / 2, platform);
    tiling.tileRows = static_cast<uint32_t>(RoundUp(CeilDiv(tiling.n, std::max<uint64_t>(1, cores)), aligned));
    // Blocks are even where a little smaller ones are: a host unpacks the one before a shorter one into its memory.
    uint64_t even = rows;
    while (even > rows / 2 && tiling.tileRows % even != 0) {
        even -= 8;
    }
    tiling.blockRows = static_cast<uint32_t>(even > rows / 2 ? even : rows);
    tiling.tasks = CeilDiv(tiling.n, tiling.tileRows);
    config.blockDim = static_cast<uint32_t>(std::max<uint64_t>(1, tiling.tasks));
    tiling.cores = config.blockDim;
    return true;
}

// Describes the work to be tiled. A gated pair has both weights in one, the gate's rows first.
struct Work {
    TensorDesc x;
    TensorDesc weight;
    TensorDesc scale;
    bool hasOffset;
    bool hasBias;
    uint32_t parts;
    uint32_t activation;  // 0: none
    uint32_t scratch;     // float tensors that it needs
    uint64_t mostGroup;
    bool quantizeX;
};

inline LaunchConfig Plan(const Work& params, const Platform& platform, WeightQuantTilingData& tiling)
{
    const TensorDesc& x = params.x;
    const uint64_t bytes = SizeOf(x.dtype);
    const uint64_t scaleBytes = SizeOf(params.scale.dtype);
    const uint64_t m = static_cast<uint64_t>(x.Product(0, x.rank - 1));
    const uint64_t k = static_cast<uint64_t>(x.LastDim());
    const uint64_t parts = params.parts;
    const uint64_t n = static_cast<uint64_t>(params.weight.dims[0]) / parts;
    const uint64_t rowBytes = static_cast<uint64_t>(params.weight.dims[1]);
    const uint64_t groups = static_cast<uint64_t>(params.scale.dims[1]);
    const uint64_t perByte = k / rowBytes;
    const uint64_t group = k / groups;
    if (perByte > 2) {
        Refuse("weight.shape[-1] must be x.shape[-1] (8 bits) or half of that (4 bits)",
               "x " + ShapeText(x) + " and weight " + ShapeText(params.weight));
    }
    const bool isLarge = group > params.mostGroup;
    if (groups > 1 && (isLarge || group % GROUP_STEP != 0)) {
        Refuse(std::string("a group must have ") +
                   (isLarge ? "at most " + std::to_string(params.mostGroup) : "a multiple of 16") +
                   " elements, or be a whole row",
               std::to_string(groups) + " groups of " + std::to_string(group) + ": x " + ShapeText(x) + ", scale " +
                   ShapeText(params.scale));
    }
    tiling.m = Size32(m, "the rows of x");
    Size32(parts * n, "the rows of the weight");
    tiling.n = static_cast<uint32_t>(n);
    tiling.parts = params.parts;
    tiling.activation = params.activation;
    tiling.scratch = params.scratch;
    tiling.finished = params.parts > 1 || params.activation != 0 ? 1 : 0;
    tiling.k = Size32(k, "the columns of x");
    tiling.groups = static_cast<uint32_t>(groups);
    tiling.perByte = static_cast<uint32_t>(perByte);
    tiling.hasOffset = params.hasOffset ? 1 : 0;
    tiling.hasBias = params.hasBias ? 1 : 0;

    LaunchConfig config;
    tiling.product = PlanCube(std::max<uint64_t>(m, 1), LEAST_ROWS, k, x.dtype, x.dtype, false, true);
    tiling.fewRows = PlanFewRows(bytes, scaleBytes, params.quantizeX, platform, tiling, config) ? 1 : 0;
    if (tiling.fewRows != 0) {
        return config;
    }
    // A cube core takes long to load blocks of few columns: on a chip a tile is as large as leaves work for all cores.
    const bool chip = platform.tileBytes == 0;
    const uint64_t unpacked = chip ? UNPACKED_BYTES_OF_CHIP : UNPACKED_BYTES;
    uint64_t rows = std::min(std::max(unpacked / (parts * k * bytes) / LEAST_ROWS * LEAST_ROWS, LEAST_ROWS), MOST_ROWS);
    if (chip) {
        rows = std::min(rows, RoundUp(CeilDiv(std::max<uint64_t>(1, n), TASKS_OF_CHIP), LEAST_ROWS));
    }
    while (!chip && CeilDiv(n, rows) < ENOUGH_TASKS && rows > LEAST_ROWS) {
        rows = RoundUp(rows / 2, LEAST_ROWS);
    }
    rows = std::min(rows, std::max<uint64_t>(1, n));
    tiling.tileRows = static_cast<uint32_t>(rows);
    tiling.tasks = m == 0 ? 0 : CeilDiv(n, rows);

    // A number is there twice as it comes, as half, as float, and twice as the product takes it; the scale and the
    // offset of a row twice each as they come, as float and spread over a block.
    const uint64_t perElement = 2 + 2 + sizeof(float) + 2 * bytes;
    const uint64_t perRow = 2 * (2 * scaleBytes + sizeof(float) + BLOCK_BYTES);
    uint64_t room = platform.ubBytes - FIXED_BYTES;
    if (tiling.finished != 0) {
        // There are chunks of products in two buffers each, the operands of the vector unit, and the output in two
        // buffers; and the biases.
        const uint64_t cols = RoundUp(rows, CUBE_SIDE);
        const uint64_t perChunkRow = cols * ((2 * parts + 1 + params.scratch) * sizeof(float) + 2 * bytes);
        const uint64_t biases = 2 * parts * cols * sizeof(float);
        const uint64_t fits = std::max<uint64_t>(1, (room / 2 - biases) / perChunkRow);
        tiling.chunkRows = static_cast<uint32_t>(std::min({fits, std::max<uint64_t>(1, m), MOST_CHUNK_ROWS}));
        tiling.stretchRows = static_cast<uint32_t>(std::min(std::max<uint64_t>(1, m), MOST_STRETCH_ROWS));
        room -= biases + tiling.chunkRows * perChunkRow;
    }
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
    const bool finished = tiling.finished != 0;
    tiling.product = PlanCube(finished ? tiling.stretchRows : std::max<uint64_t>(m, 1), parts * rows, k, x.dtype,
                              finished ? DataType::FLOAT32 : x.dtype, false, true);
    const RowsApart columns{k, "a row of x"};
    CheckRowsApart(tiling.product, columns, columns, platform);
    tiling.product.isBias = static_cast<int32_t>(finished ? 0 : tiling.hasBias);
    const uint64_t work = parts * n * k * (1 + m / 8);
    config.blockDim = static_cast<uint32_t>(std::max<uint64_t>(
        1, std::min<uint64_t>({tiling.tasks, platform.coreNum, 1 + work / platform.minBytesPerCore})));
    tiling.cores = config.blockDim;
    tiling.tileBytes = RoundUp(2 * parts * rows * k * bytes, LINE_BYTES);
    tiling.workspacePerCore = tiling.tileBytes;
    if (finished) {
        tiling.workspacePerCore += RoundUp(2 * parts * rows * tiling.stretchRows * sizeof(float), LINE_BYTES);
    }
    config.workspaceBytes = tiling.workspacePerCore * config.blockDim;
    if (params.quantizeX && m > 0 && IsRoundable(group)) {
        tiling.pieces = static_cast<uint32_t>(group / PieceOf(group));
        tiling.pieceCols = static_cast<uint32_t>(PieceOf(group));
        // A number is there twice as it comes, twice as it goes, and twice as float; a group has three floats and a
        // block.
        const uint64_t perGroup = group * (4 * bytes + 2 * sizeof(float)) + 3 * sizeof(float) + BLOCK_BYTES;
        const uint64_t fits = std::min((platform.ubBytes - FIXED_BYTES) / perGroup, HOST_ELEMENTS / group);
        tiling.roundedGroups = static_cast<uint32_t>(std::min(std::max<uint64_t>(1, fits), MOST_BLOCK_ROWS));
        tiling.roundedX = RoundUp(config.workspaceBytes, LINE_BYTES);
        config.workspaceBytes = tiling.roundedX + m * k * bytes;
    }
    return config;
}

}  // namespace weight_quant

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_WEIGHT_QUANT_TILING_H
