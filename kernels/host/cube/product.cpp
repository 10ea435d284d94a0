#include "cube/product.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "base/types.h"
#include "cube/onednn.h"
#include "simd/convert.h"
#include "simd/vector_unit.h"

namespace AscendC {
namespace host {
namespace {

// Returns memory of this thread, which is kept from product to product, in whole cache lines.
template <uint32_t SLOT>
float* Scratch(size_t count)
{
    constexpr uintptr_t LINE_BYTES = 64;
    constexpr size_t MARGIN = LINE_BYTES / sizeof(float);
    static thread_local std::vector<float> memory;
    if (memory.size() < count + MARGIN) {
        memory.resize(count + MARGIN);
    }
    const auto begin = reinterpret_cast<uintptr_t>(memory.data());
    return memory.data() + (LINE_BYTES - begin % LINE_BYTES) % LINE_BYTES / sizeof(float);
}

// Returns the matrix in floats, without gaps.
template <uint32_t SLOT>
Matrix Floats(const Matrix& matrix, ElementType type, uint32_t rows, uint32_t cols)
{
    const uint32_t lines = matrix.transposed ? cols : rows;
    const uint32_t length = matrix.transposed ? rows : cols;
    float* const floats = Scratch<SLOT>(uint64_t{lines} * length);
    Convert(reinterpret_cast<char*>(floats), ElementType::FLOAT, length, matrix.data, type, matrix.stride, lines,
            length);
    return {reinterpret_cast<char*>(floats), length, matrix.transposed};
}

const float* At(const Matrix& matrix, uint32_t row, uint32_t col)
{
    const auto* floats = reinterpret_cast<const float*>(matrix.data);
    return matrix.transposed ? floats + col * matrix.stride + row : floats + row * matrix.stride + col;
}

// Multiplies floats without a library. A panel of b, k values of some columns, is brought into rows; rows of c are
// added up from it.
void MultiplyPlainly(const Product& product)
{
    constexpr uint32_t PANEL = 64;
    float* const panel = Scratch<3>(uint64_t{product.k} * PANEL);
    for (uint32_t col = 0; col < product.n; col += PANEL) {
        const uint32_t cols = std::min(PANEL, product.n - col);
        for (uint32_t p = 0; p < product.k; ++p) {
            for (uint32_t j = 0; j < cols; ++j) {
                panel[p * PANEL + j] = *At(product.b, p, col + j);
            }
            std::fill(panel + p * PANEL + cols, panel + (p + 1) * PANEL, 0.0f);
        }
        for (uint32_t row = 0; row < product.m; ++row) {
            float sums[PANEL] = {};
            for (uint32_t p = 0; p < product.k; ++p) {
                const float value = *At(product.a, row, p);
                for (uint32_t j = 0; j < PANEL; ++j) {
                    sums[j] += value * panel[p * PANEL + j];
                }
            }
            auto* const c = reinterpret_cast<float*>(product.c.data) + row * product.c.stride + col;
            for (uint32_t j = 0; j < cols; ++j) {
                const float sum = sums[j] + (product.bias == nullptr ? 0.0f : product.bias[col + j]);
                c[j] = product.accumulate ? c[j] + sum : sum;
            }
        }
    }
}

// Up to so many rows a product takes as long as reading b. A library packs it first.
constexpr uint32_t FEW_ROWS = 8;
// A library that packs rows fast is ahead with fewer if they are long. A Zen 5 in GFLOP/s, the vector unit and
// oneDNN: m x 1024 x 1024 (columns, depth) m = 4 129 and 111, 5 132 and 142, 8 141 and 215; 8 x 128 x 128 120 and 109.
constexpr uint32_t FEWER_ROWS = 4;
constexpr uint32_t LONG_ROW = 256;

bool HasFewRows(const Product& product)
{
    if (product.m > FEW_ROWS || (product.resultType != ElementType::FLOAT && product.accumulate)) {
        return false;
    }
    const bool packed = product.m > FEWER_ROWS && product.n >= LONG_ROW && product.k > 0 && !product.b.transposed &&
                        product.type == ElementType::FLOAT;
    return !packed || OneDnn::Get() == nullptr || !OneDnn::Get()->PacksRows();
}

void MultiplyFewRows(const Product& product)
{
    const bool rounded = product.resultType != ElementType::FLOAT;
    const VectorUnit& unit = *g_vectorUnit;
    const bool pairs =
        product.type == ElementType::BFLOAT16 && !product.a.transposed && unit.multiplyBFloat16Rows != nullptr;
    Matrix a = product.type == ElementType::FLOAT || pairs
                   ? product.a
                   : Floats<0>(product.a, product.type, product.m * product.groups, product.k);
    if (a.transposed) {
        float* const rows = Scratch<1>(uint64_t{product.m} * product.k);
        for (uint32_t row = 0; row < product.m; ++row) {
            for (uint32_t p = 0; p < product.k; ++p) {
                rows[row * uint64_t{product.k} + p] = *At(a, row, p);
            }
        }
        a = {reinterpret_cast<char*>(rows), product.k, false};
    }
    const Matrix c =
        rounded ? Matrix{reinterpret_cast<char*>(Scratch<2>(uint64_t{product.m} * product.n)), product.n} : product.c;
    auto* const sums = reinterpret_cast<float*>(c.data);
    const auto multiply = pairs ? unit.multiplyBFloat16Rows : unit.multiplyFewRows[static_cast<uint32_t>(product.type)];
    multiply({product.m, product.n, product.k, product.b.transposed, product.accumulate, a.data, product.b.data, sums,
              a.stride, product.b.stride, c.stride, product.groups});
    for (uint32_t row = 0; row < product.m && product.bias != nullptr; ++row) {
        for (uint32_t col = 0; col < product.n; ++col) {
            sums[row * c.stride + col] += product.bias[col];
        }
    }
    if (rounded) {
        Convert(product.c.data, product.resultType, product.c.stride, c.data, ElementType::FLOAT, c.stride, product.m,
                product.n);
    }
}

// Without AVX-512 dnnl_sgemm reads b in place unless m and n are large (about 1 / m + 1 / n < 1 / 263): rows whose
// distance is a multiple of 2 KiB fall into the same few sets of the L1 cache, and of a transposed b each strip of 16
// columns is rearranged anew for 48 rows of a. Then it pays to bring b, panel by panel, into rows that are 64 bytes
// more than their length apart, and 16 bits become floats on the way. One thread of a Zen 3, GFLOP/s in place and so:
//     m x 512 x 1024, rows of 4 KiB: m = 16 44 and 63, 64 44 and 79, 128 44 and 85, 256 45 and 88; of 4000 bytes 93 and
//     88 m x 512 x 4096, transposed: m = 64 77 and 77, 128 85 and 83, 192 84 and 88, 256 81 and 89
constexpr uint32_t PANEL_SIDE = 256;  // with as much of a, the L2 cache of most CPUs
constexpr uint32_t PANEL_GAP = 16;
constexpr int64_t SAME_SETS = 2048 / sizeof(float);
constexpr uint32_t ROWS_WORTH_TRANSPOSING = 192;

bool IsWorthPanels(const Product& product)
{
    if (product.type != ElementType::FLOAT || product.a.transposed) {
        return true;
    }
    return product.b.transposed ? product.m >= ROWS_WORTH_TRANSPOSING
                                : product.b.stride % SAME_SETS == 0 && product.k > 1;
}

// Returns the part of a matrix that begins at (row, col).
Matrix PartOf(const Matrix& matrix, ElementType type, uint32_t row, uint32_t col)
{
    const int64_t elements = matrix.transposed ? col * matrix.stride + row : row * matrix.stride + col;
    return {matrix.data + elements * BytesOf(type), matrix.stride, matrix.transposed};
}

// Multiplies panels that are converted to floats.
void MultiplyPanels(const Product& product, const OneDnn& library)
{
    constexpr int64_t STRIDE = PANEL_SIDE + PANEL_GAP;
    float* const panel = Scratch<1>(PANEL_SIDE * STRIDE);
    const bool transposes = product.b.transposed && product.m >= ROWS_WORTH_TRANSPOSING;
    for (uint32_t p = 0; p < product.k; p += PANEL_SIDE) {
        Product part = product;
        part.type = ElementType::FLOAT;
        part.k = std::min(PANEL_SIDE, product.k - p);
        part.accumulate = product.accumulate || p > 0;
        part.a = PartOf(product.a, product.type, 0, p);
        if (product.a.transposed) {
            // The rows are packed once, not anew for every panel.
            float* const rows = Scratch<0>(product.m * static_cast<uint64_t>(STRIDE));
            g_vectorUnit->packPanel[static_cast<uint32_t>(product.type)](
                {part.a.data, rows, part.a.stride, STRIDE, part.k, product.m, true});
            part.a = {reinterpret_cast<char*>(rows), STRIDE, false};
        } else if (product.type != ElementType::FLOAT) {
            part.a = Floats<0>(part.a, product.type, product.m, part.k);
        }
        for (uint32_t col = 0; col < product.n; col += PANEL_SIDE) {
            part.n = std::min(PANEL_SIDE, product.n - col);
            const Matrix b = PartOf(product.b, product.type, p, col);
            g_vectorUnit->packPanel[static_cast<uint32_t>(product.type)]({b.data, panel, b.stride, STRIDE,
                                                                          b.transposed ? part.n : part.k,
                                                                          b.transposed ? part.k : part.n, transposes});
            part.b = {reinterpret_cast<char*>(panel), STRIDE, b.transposed && !transposes};
            part.c = PartOf(product.c, ElementType::FLOAT, 0, col);
            if (!library.Gemm(part)) {
                MultiplyPlainly(part);
            }
        }
    }
}

// Returns the bytes of a matrix in rows, and copies them if they do not lie so already.
const int8_t* BytesInRows(const Matrix& matrix, uint32_t rows, uint32_t cols, std::vector<int8_t>& memory,
                          int64_t& stride)
{
    const auto* const from = reinterpret_cast<const int8_t*>(matrix.data);
    stride = matrix.stride;
    if (!matrix.transposed) {
        return from;
    }
    memory.resize(uint64_t{rows} * cols);
    for (uint32_t col = 0; col < cols; ++col) {
        for (uint32_t row = 0; row < rows; ++row) {
            memory[row * uint64_t{cols} + col] = from[col * matrix.stride + row];
        }
    }
    stride = cols;
    return memory.data();
}

// Multiplies 8-bit integers exactly: by oneDNN if the CPU adds up products of bytes in 32 bits, else by our own loops.
void MultiplyIntegers(const Product& product)
{
    const OneDnn* const library = product.m > FEW_ROWS && product.k > 0 ? OneDnn::Get() : nullptr;
    if (library != nullptr && library->MultipliesIntegers() && library->MultiplyIntegers(product)) {
        return;
    }
    static thread_local std::vector<int8_t> rows;
    static thread_local std::vector<int8_t> columns;
    static thread_local std::vector<int16_t> widened;
    IntegerProduct integers{};
    integers.m = product.m;
    integers.n = product.n;
    int64_t stride = 0;
    const int8_t* const a = BytesInRows(product.a, product.m, product.k, rows, stride);
    const Matrix transposed{product.b.data, product.b.stride, !product.b.transposed};
    const int8_t* const b = BytesInRows(transposed, product.n, product.k, columns, integers.bStride);
    integers.c = reinterpret_cast<int32_t*>(product.c.data);
    integers.cStride = product.c.stride;
    constexpr uint32_t DEPTH = 1024;  // so that a tile of a stays in the L2 cache
    const uint32_t depth = std::min(DEPTH, product.k);
    widened.resize((uint64_t{product.m} + 4) * depth);
    integers.a = widened.data();
    integers.aStride = depth;
    integers.scratch = widened.data() + product.m * uint64_t{depth};
    uint32_t at = 0;
    do {
        integers.k = std::min(depth, product.k - at);
        for (uint32_t row = 0; row < product.m; ++row) {
            const int8_t* const from = a + row * stride + at;
            std::copy(from, from + integers.k, widened.data() + row * uint64_t{depth});
        }
        integers.b = b + at;
        integers.accumulate = product.accumulate || at > 0;
        g_vectorUnit->multiplyIntegers(integers);
        at += integers.k;
    } while (at < product.k);
}

}  // namespace

bool IsNextGroup(const Product& product, const Product& next)
{
    const auto follows = [&](const Matrix& matrix, const Matrix& other, ElementType type, int64_t elements) {
        return matrix.data + product.groups * elements * BytesOf(type) == other.data && matrix.stride == other.stride &&
               matrix.transposed == other.transposed;
    };
    const uint32_t width = product.b.transposed ? product.k : product.n;
    return product.m == next.m && product.n == next.n && product.k == next.k && product.type == next.type &&
           product.resultType == next.resultType && product.accumulate == next.accumulate &&
           follows(product.b, next.b, product.type, width) &&
           follows(product.a, next.a, product.type, product.m * product.a.stride) &&
           follows(product.c, next.c, product.resultType, product.m * product.c.stride) &&
           (product.groups + 1) * int64_t{width} <= product.b.stride && !product.a.transposed &&
           product.resultType == ElementType::FLOAT && product.bias == nullptr && next.bias == nullptr &&
           product.type != ElementType::INT8 && HasFewRows(product);
}

void Multiply(const Product& product)
{
    if (product.m == 0 || product.n == 0) {
        return;
    }
    if (product.type == ElementType::INT8) {
        MultiplyIntegers(product);
        return;
    }
    if (HasFewRows(product)) {
        MultiplyFewRows(product);
        return;
    }
    const OneDnn* const library = product.k > 0 ? OneDnn::Get() : nullptr;
    const bool multipliesType =
        product.type == ElementType::FLOAT ||
        (product.type == ElementType::BFLOAT16 && library != nullptr && library->MultipliesBFloat16());
    const bool panels =
        library != nullptr && library->ReadsInPlace() && product.bias == nullptr && IsWorthPanels(product);
    if (library != nullptr && multipliesType && !panels &&
        (product.resultType == ElementType::FLOAT || product.resultType == product.type) &&
        library->Multiply(product)) {
        return;
    }
    // The product is in floats, which the result is rounded from.
    Product floats = product;
    floats.resultType = ElementType::FLOAT;
    if (product.resultType != ElementType::FLOAT) {
        floats.c = {reinterpret_cast<char*>(Scratch<2>(uint64_t{product.m} * product.n)), product.n, false};
    }
    if (panels) {
        MultiplyPanels(floats, *library);
    } else {
        floats.type = ElementType::FLOAT;
        if (product.type != ElementType::FLOAT) {
            floats.a = Floats<0>(product.a, product.type, product.m, product.k);
            floats.b = Floats<1>(product.b, product.type, product.k, product.n);
        }
        if (library == nullptr || !library->Multiply(floats)) {
            MultiplyPlainly(floats);
        }
    }
    if (product.resultType != ElementType::FLOAT) {
        Convert(product.c.data, product.resultType, product.c.stride, floats.c.data, ElementType::FLOAT, product.n,
                product.m, product.n);
    }
}

const char* ProductLibrary()
{
    static const std::string name =
        OneDnn::Get() == nullptr ? "plain loops" : std::string("oneDNN ") + OneDnn::Version();
    return name.c_str();
}

const char* ProductLibraryPath()
{
    return OneDnn::Path();
}

}  // namespace host
}  // namespace AscendC
