/*!
 * Calculates the tiling of convolutions and of the gradient of their weight, in plain C++.
 *
 * A tile holds some positions of the output, whole rows of them or a piece of one row. The elements that the kernel
 * sees at these positions are columns: a matrix that is multiplied with the weight. It is made in the workspace, a
 * chunk of input channels (channels first) or of kernel offsets (channels last) at a time. A kernel of 1 x 1 needs
 * none: x is that matrix. Tiles and chunks follow from the shapes, not from the number of cores: neither do results.
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_CONVOLUTION_TILING_H
#define MS_ASCEND_OPS_PRIMITIVES_CONVOLUTION_TILING_H

#include "primitives/cube_tiling.h"
#include "primitives/shape_checks.h"
#include "primitives/split.h"

namespace ms_ascend_ops {

struct ConvolutionTilingData {
    CubeTiling product;
    uint64_t tasks;
    uint64_t samples;
    uint64_t workspacePerCore;
    uint64_t columnBytes;    // of a buffer of columns; a core has two
    uint64_t partialSize;    // of the gradient: elements of a partial sum of dweight
    uint64_t partialStride;  // and from one to the next
    uint32_t height;         // of x
    uint32_t width;
    uint32_t channels;
    uint32_t outHeight;
    uint32_t outWidth;
    uint32_t outChannels;
    uint32_t groups;
    uint32_t groupIn;  // channels of x in a group
    uint32_t groupOut;
    uint32_t kernelHeight;
    uint32_t kernelWidth;
    uint32_t strideHeight;
    uint32_t strideWidth;
    int32_t padTop;
    int32_t padLeft;
    uint32_t dilationHeight;
    uint32_t dilationWidth;
    uint32_t gapHeight;  // rows of zeros between two of x
    uint32_t gapWidth;
    uint32_t flip;
    uint32_t weightTransposed;  // is read as the transpose of rows of K elements
    uint32_t weightMoved;       // into rows of K elements, in the workspace
    uint32_t weightStride;      // elements from a row to the next
    uint32_t channelsLast;
    uint32_t direct;     // x is the matrix of columns
    uint32_t depthwise;  // channels are by themselves: no product of matrices
    uint32_t k;          // groupIn * kernelHeight * kernelWidth
    uint32_t chunk;      // channels, or kernel offsets, whose columns are made at a time
    uint32_t chunks;
    uint32_t tileRows;  // of positions
    uint32_t tileCols;
    uint32_t rowTiles;
    uint32_t colTiles;
    uint32_t tileOut;  // output channels of a tile
    uint32_t outTiles;
    uint32_t splits;  // of the gradient: parts of the positions that are summed up by themselves
    uint32_t copyElements;
    uint32_t finished;  // the vector unit finishes tiles of float products; 0: the cube writes the output
    uint32_t activation;
    uint32_t hasBias;
    uint32_t scratch;     // float tensors of a chunk's size that the activation needs
    uint32_t chunkRows;   // of a tile that the vector unit takes at a time
    uint32_t partials;    // of the gradient: how many there are to add up
    uint32_t reduceCols;  // and elements and parts that are added up at once
    uint32_t reduceRows;
    uint32_t cores;
};

namespace convolution {

constexpr uint64_t HOST_POSITIONS = 512;
constexpr uint64_t POSITIONS = 256;  // a base block of the cube
constexpr uint64_t LEAST_POSITIONS = 64;
constexpr uint64_t LEAST_OUT = 64;
constexpr uint64_t HOST_COLUMN_BYTES = 1024 * 1024;
constexpr uint64_t COLUMN_BYTES = 512 * 1024;
constexpr uint64_t HOST_TASKS = 8;  // to share out; smaller tiles beyond that only cost
constexpr uint64_t TASKS = 48;
constexpr uint64_t MOST_OUT = 2048;
constexpr uint64_t MOST_OUT_LAST = 512;     // where a row of a tile has them
constexpr uint32_t COPY_BYTES = 12 * 1024;  // of a buffer that columns go through
constexpr uint32_t COPY_BUFFERS = 7;        // zeros; two of copies, of rows with a stride and of what is taken of them
constexpr uint32_t FIXED_BYTES = 4096;
constexpr uint32_t MOST_CHUNK = 32;
constexpr uint64_t MOST_PARTIAL_BYTES = 64 * 1024 * 1024;

// `y`: an input of the shape of the output, if there is one. `samplesApart`: no tile holds positions of several
// samples. Gaps are the caller's to set before.
template <class PARAMS>
void Describe(const PARAMS& params, const TensorDesc& y, const char* yName, bool samplesApart, const Platform& platform,
              ConvolutionTilingData& tiling)
{
    const TensorDesc& x = params.x;
    const TensorDesc& weight = params.weight;
    const bool last = params.data_format == decltype(params.data_format)::NHWC;
    const int32_t first = last ? 1 : 2;  // the dim of rows
    const auto size = [](const TensorDesc& tensor, int32_t dim, const char* what) {
        return Size32(static_cast<uint64_t>(tensor.dims[dim]), what);
    };
    tiling.samples = static_cast<uint64_t>(x.dims[0]);
    tiling.height = size(x, first, "the rows of x");
    tiling.width = size(x, first + 1, "the columns of x");
    tiling.channels = size(x, last ? 3 : 1, "the channels of x");
    tiling.outChannels = size(weight, 0, "the output channels");
    tiling.groups = static_cast<uint32_t>(params.groups);
    tiling.groupIn = tiling.channels / tiling.groups;
    tiling.groupOut = tiling.outChannels / tiling.groups;
    if (weight.dims[last ? 3 : 1] != tiling.groupIn) {
        const std::string axis = last ? "-1" : "1";
        Refuse("weight.shape[" + axis + "] must be x.shape[" + axis + "] / groups (" + std::to_string(tiling.groupIn) +
                   ")",
               ShapeText(weight));
    }
    tiling.kernelHeight = size(weight, first, "the rows of the kernel");
    tiling.kernelWidth = size(weight, first + 1, "the columns of the kernel");
    tiling.strideHeight = Size32(static_cast<uint64_t>(params.stride_h), "strides");
    tiling.strideWidth = Size32(static_cast<uint64_t>(params.stride_w), "strides");
    tiling.dilationHeight = Size32(static_cast<uint64_t>(params.dilation_h), "dilations");
    tiling.dilationWidth = Size32(static_cast<uint64_t>(params.dilation_w), "dilations");
    tiling.padTop = static_cast<int32_t>(params.pad_top);
    tiling.padLeft = static_cast<int32_t>(params.pad_left);
    tiling.channelsLast = last ? 1 : 0;
    const auto length = [](int64_t size, int64_t dilation) { return (size - 1) * dilation + 1; };
    const int64_t rows = WindowCount(tiling.height + params.pad_top + params.pad_bottom,
                                     length(tiling.kernelHeight, tiling.dilationHeight), tiling.strideHeight);
    const int64_t cols = WindowCount(tiling.width + params.pad_left + params.pad_right,
                                     length(tiling.kernelWidth, tiling.dilationWidth), tiling.strideWidth);
    tiling.outHeight = Size32(static_cast<uint64_t>(rows), "the rows of y");
    tiling.outWidth = Size32(static_cast<uint64_t>(cols), "the columns of y");
    if (!last) {  // from a channel to the next
        Size32(static_cast<uint64_t>(tiling.outHeight) * tiling.outWidth, "the output pixels of a channel");
    }
    if (y.IsGiven() && (y.dims[first] != rows || y.dims[first + 1] != cols)) {
        const bool isRows = y.dims[first] != rows;
        Refuse(std::string(yName) + ".shape[" + std::to_string(isRows ? first : first + 1) +
                   "] must be that of the output (" + std::to_string(isRows ? rows : cols) + ")",
               ShapeText(y));
    }
    const uint64_t kernelSize = static_cast<uint64_t>(tiling.kernelHeight) * tiling.kernelWidth;
    tiling.k = Size32(tiling.groupIn * kernelSize, "the elements of a kernel (K)");
    const bool inPlace = params.pad_top == 0 && params.pad_bottom == 0 && params.pad_left == 0 &&
                         params.pad_right == 0 && tiling.strideHeight == 1 && tiling.strideWidth == 1 &&
                         tiling.gapHeight == 0 && tiling.gapWidth == 0;
    tiling.direct = kernelSize == 1 && inPlace ? 1 : 0;
    if (tiling.direct != 0) {  // all positions are one row
        uint64_t positions = static_cast<uint64_t>(tiling.height) * tiling.width;
        if (last && !samplesApart) {
            positions *= tiling.samples;
            tiling.samples = tiling.samples == 0 ? 0 : 1;
        }
        tiling.height = 1;
        tiling.outHeight = 1;
        tiling.width = Size32(positions, "the output pixels");
        tiling.outWidth = tiling.width;
    }

    // The tiles of positions come first: chunks follow from them.
    const bool host = platform.tileBytes != 0;
    const uint32_t bytes = SizeOf(x.dtype);
    const uint64_t most = host ? HOST_POSITIONS : POSITIONS;
    tiling.copyElements = COPY_BYTES / bytes;
    tiling.tileCols = static_cast<uint32_t>(std::min<uint64_t>(std::max(tiling.outWidth, 1u), most));
    tiling.tileRows = 1;
    if (tiling.tileCols == tiling.outWidth) {
        tiling.tileRows =
            static_cast<uint32_t>(std::min<uint64_t>(tiling.outHeight, std::max<uint64_t>(1, most / tiling.tileCols)));
    }
}

// Plans how products read a weight. `transposed`: its memory has, group by group, the channels of x before those of y.
inline void PlanWeight(bool transposed, uint32_t bytes, ConvolutionTilingData& tiling)
{
    const uint32_t kernelSize = tiling.kernelHeight * tiling.kernelWidth;
    tiling.weightTransposed = transposed && (kernelSize == 1 || tiling.channelsLast != 0) ? 1 : 0;
    tiling.weightMoved = transposed && tiling.weightTransposed == 0 ? 1 : 0;
    tiling.weightStride = tiling.k;
    if (tiling.weightTransposed != 0) {
        tiling.weightStride =
            Size32(static_cast<uint64_t>(tiling.groupOut) * kernelSize, "the elements of a row of weight");
    } else if (tiling.weightMoved != 0) {  // by several cores
        tiling.weightStride = static_cast<uint32_t>(RoundUp(tiling.k, LINE_BYTES / bytes));
    }
}

// After the tiles of positions are known.
inline void PlanChunks(const Platform& platform, uint32_t bytes, ConvolutionTilingData& tiling)
{
    const bool host = platform.tileBytes != 0;
    const uint64_t positions = static_cast<uint64_t>(tiling.tileRows) * tiling.tileCols;
    const uint32_t kernelSize = tiling.kernelHeight * tiling.kernelWidth;
    const uint32_t all = tiling.channelsLast != 0 ? kernelSize : tiling.groupIn;
    const uint64_t one = positions * bytes * (tiling.k / all);
    // Channels last, a transposed weight is one matrix only for each kernel offset.
    const bool apart = tiling.channelsLast != 0 && tiling.weightTransposed != 0;
    const uint64_t fit = apart ? 1 : std::max<uint64_t>(1, (host ? HOST_COLUMN_BYTES : COLUMN_BYTES) / one);
    tiling.chunks = tiling.direct != 0 ? 1 : static_cast<uint32_t>(CeilDiv(all, fit));
    tiling.chunk = static_cast<uint32_t>(CeilDiv(all, tiling.chunks));
    tiling.chunks = static_cast<uint32_t>(CeilDiv(all, tiling.chunk));
    tiling.rowTiles = static_cast<uint32_t>(CeilDiv(tiling.outHeight, tiling.tileRows));
    tiling.colTiles = static_cast<uint32_t>(CeilDiv(tiling.outWidth, tiling.tileCols));
}

inline uint64_t PositionTiles(const ConvolutionTilingData& tiling)
{
    return tiling.samples * CeilDiv(tiling.outHeight, tiling.tileRows) * CeilDiv(tiling.outWidth, tiling.tileCols);
}

// Halves a tile of positions.
inline void Halve(ConvolutionTilingData& tiling)
{
    if (tiling.tileRows > 1) {
        tiling.tileRows = (tiling.tileRows + 1) / 2;
    } else {
        tiling.tileCols = static_cast<uint32_t>(RoundUp(tiling.tileCols / 2, CUBE_SIDE));
    }
}

// Returns the elements from a row of the columns to the next; 0: they are made in the workspace, without gaps.
inline uint64_t ColumnStride(const ConvolutionTilingData& tiling)
{
    return tiling.direct == 0 ? 0 : tiling.channelsLast != 0 ? tiling.channels : tiling.width;
}

inline uint64_t ColumnBytes(const ConvolutionTilingData& tiling, uint32_t bytes)
{
    if (tiling.direct != 0) {
        return 0;
    }
    const uint32_t kernelSize = tiling.kernelHeight * tiling.kernelWidth;
    const uint32_t all = tiling.channelsLast != 0 ? kernelSize : tiling.groupIn;
    return RoundUp(static_cast<uint64_t>(tiling.tileRows) * tiling.tileCols * (tiling.k / all) * tiling.chunk * bytes,
                   LINE_BYTES);
}

// Gives tasks to cores, and each core memory for two chunks of columns.
inline LaunchConfig Share(const TensorDesc& x, const Platform& platform, ConvolutionTilingData& tiling)
{
    LaunchConfig config;
    const uint64_t operations =
        static_cast<uint64_t>(x.dims[0]) * tiling.outHeight * tiling.outWidth * tiling.outChannels * tiling.k;
    config.blockDim = static_cast<uint32_t>(std::max<uint64_t>(
        1, std::min<uint64_t>({tiling.tasks, platform.coreNum, 1 + operations / platform.minBytesPerCore})));
    tiling.cores = config.blockDim;
    tiling.columnBytes = ColumnBytes(tiling, SizeOf(x.dtype));
    tiling.workspacePerCore = 2 * tiling.columnBytes;
    return config;
}

// Plans tiles of positions and of output channels, smaller ones where there are few.
inline void PlanTiles(const Platform& platform, uint32_t bytes, ConvolutionTilingData& tiling)
{
    tiling.tileOut =
        static_cast<uint32_t>(std::min<uint64_t>(tiling.groupOut, tiling.channelsLast != 0 ? MOST_OUT_LAST : MOST_OUT));
    const uint64_t enough = platform.tileBytes != 0 ? HOST_TASKS : TASKS;
    const auto tasks = [&] { return PositionTiles(tiling) * tiling.groups * CeilDiv(tiling.groupOut, tiling.tileOut); };
    for (;;) {
        const uint64_t positions = static_cast<uint64_t>(tiling.tileRows) * tiling.tileCols;
        const bool less = positions > LEAST_POSITIONS && (tiling.tileRows > 1 || tiling.tileCols > LEAST_POSITIONS);
        const bool fewer = tiling.tileOut > LEAST_OUT;
        if (tasks() >= enough || (!less && !fewer)) {
            break;
        }
        if (less && (!fewer || positions >= tiling.tileOut)) {
            Halve(tiling);
        } else {
            tiling.tileOut = static_cast<uint32_t>(RoundUp(tiling.tileOut / 2, CUBE_SIDE));
        }
    }
    PlanChunks(platform, bytes, tiling);
    tiling.outTiles = static_cast<uint32_t>(CeilDiv(tiling.groupOut, tiling.tileOut));
    tiling.tasks = tasks();
}

// An epilogue keeps so many bytes in the Unified Buffer.
struct EpilogueBytes {
    uint64_t perElement;  // of a chunk of a tile, without the float sums, of which there are two chunks
    uint64_t perRow;      // of a chunk
    uint64_t perColumn;
};

// Plans the product of a tile, its cores, and how much the vector unit takes at a time if it finishes tiles.
inline LaunchConfig PlanProduct(const TensorDesc& x, const Platform& platform, const EpilogueBytes& epilogue,
                                ConvolutionTilingData& tiling)
{
    const uint64_t positions = static_cast<uint64_t>(tiling.tileRows) * tiling.tileCols;
    const bool last = tiling.channelsLast != 0;
    const uint64_t rows = last ? positions : tiling.tileOut;
    const uint64_t cols = last ? tiling.tileOut : positions;
    const DataType result = tiling.finished != 0 ? DataType::FLOAT32 : x.dtype;
    const bool transposed = tiling.weightTransposed != 0;
    tiling.product = PlanCube(rows, cols, tiling.k, x.dtype, result, !last && transposed, last && !transposed);
    const RowsApart weight{tiling.weightStride, "a row of the weight"};
    const RowsApart columns{ColumnStride(tiling), "a row of x"};
    CheckRowsApart(tiling.product, last ? columns : weight, last ? weight : columns, platform);

    LaunchConfig config = Share(x, platform, tiling);
    if (tiling.finished != 0) {
        const uint64_t stride = RoundUp(cols, CUBE_SIDE);
        const uint64_t perRow = stride * (2 * sizeof(float) + epilogue.perElement) + epilogue.perRow;
        const uint64_t fixed =
            FIXED_BYTES + (tiling.direct != 0 ? 0 : COPY_BUFFERS * COPY_BYTES) + stride * epilogue.perColumn;
        const uint64_t chunk = platform.ubBytes > fixed ? (platform.ubBytes - fixed) / perRow : 0;
        tiling.chunkRows = static_cast<uint32_t>(std::max<uint64_t>(1, std::min<uint64_t>({chunk, MOST_CHUNK, rows})));
        tiling.workspacePerCore += RoundUp(2 * rows * cols * sizeof(float), LINE_BYTES);
    }
    config.workspaceBytes = tiling.workspacePerCore * config.blockDim;
    if (tiling.weightMoved != 0) {
        config.workspaceBytes += static_cast<uint64_t>(tiling.outChannels) * tiling.weightStride * SizeOf(x.dtype);
    }
    return config;
}

}  // namespace convolution

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_CONVOLUTION_TILING_H
