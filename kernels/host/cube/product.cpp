#include "cube/product.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "api/types.h"
#include "cube/onednn.h"

namespace AscendC {
namespace host {
namespace {

constexpr uint32_t BytesOf(ElementType type)
{
    return type == ElementType::HALF || type == ElementType::BFLOAT16 ? 2 : 4;
}

// Memory of this thread, kept from product to product.
template <uint32_t SLOT>
float* Scratch(size_t count)
{
    static thread_local std::vector<float> memory;
    if (memory.size() < count) {
        memory.resize(count);
    }
    return memory.data();
}

// `rows` rows of `cols` elements from one type to another, one of which is float.
void Convert(char* dst, ElementType dstType, int64_t dstStride, const char* src, ElementType srcType, int64_t srcStride,
             uint32_t rows, uint32_t cols)
{
    if (rows == 0 || cols == 0) {
        return;
    }
    const RunFn cast = g_vectorUnit->cast[static_cast<uint32_t>(srcType)][static_cast<uint32_t>(dstType)][0];
    const bool gapless = dstStride == cols && srcStride == cols && rows * uint64_t{cols} <= UINT32_MAX;
    const uint32_t lines = gapless ? 1 : rows;
    const uint32_t length = gapless ? rows * cols : cols;
    Instruction instruction;
    instruction.run = cast;
    instruction.units = length;
    instruction.operandCount = 2;
    instruction.option =
        static_cast<uint32_t>(dstType == ElementType::FLOAT ? RoundMode::CAST_NONE : RoundMode::CAST_RINT);
    for (uint32_t line = 0; line < lines; ++line) {
        instruction.operands[0] = {dst + line * dstStride * BytesOf(dstType), BytesOf(dstType), BytesOf(dstType)};
        instruction.operands[1] = {const_cast<char*>(src) + line * srcStride * BytesOf(srcType), BytesOf(srcType),
                                   BytesOf(srcType)};
        cast(instruction, 0, length);
    }
}

// The matrix in floats, without gaps.
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

// Floats, without a library. A panel of b, k values of some columns, is brought into rows; rows of c are added up from
// it.
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

void MultiplyFewRows(const Product& product)
{
    const bool rounded = product.resultType != ElementType::FLOAT;
    Matrix a =
        product.type == ElementType::FLOAT ? product.a : Floats<0>(product.a, product.type, product.m, product.k);
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
    g_vectorUnit->multiplyFewRows[static_cast<uint32_t>(product.type)](
        {product.m, product.n, product.k, product.b.transposed, product.accumulate,
         reinterpret_cast<const float*>(a.data), product.b.data, sums, a.stride, product.b.stride, c.stride});
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

}  // namespace

void Multiply(const Product& product)
{
    if (product.m == 0 || product.n == 0) {
        return;
    }
    if (product.m <= FEW_ROWS && (product.resultType == ElementType::FLOAT || !product.accumulate)) {
        MultiplyFewRows(product);
        return;
    }
    const OneDnn* const library = OneDnn::Get();
    const bool bfloat16 = product.type == ElementType::BFLOAT16;
    if (product.k > 0 && library != nullptr && (product.type == ElementType::FLOAT || bfloat16) &&
        (!bfloat16 || library->MultipliesBFloat16()) &&
        (product.resultType == ElementType::FLOAT || product.resultType == product.type) &&
        library->Multiply(product)) {
        return;
    }
    if (product.type == ElementType::FLOAT && product.resultType == ElementType::FLOAT) {
        MultiplyPlainly(product);
        return;
    }
    // In floats, which the result is rounded from.
    Product floats = product;
    floats.type = ElementType::FLOAT;
    floats.resultType = ElementType::FLOAT;
    if (product.type != ElementType::FLOAT) {
        floats.a = Floats<0>(product.a, product.type, product.m, product.k);
        floats.b = Floats<1>(product.b, product.type, product.k, product.n);
    }
    if (product.resultType != ElementType::FLOAT) {
        floats.c = {reinterpret_cast<char*>(Scratch<2>(uint64_t{product.m} * product.n)), product.n, false};
    }
    if (product.k == 0 || library == nullptr || !library->Multiply(floats)) {
        MultiplyPlainly(floats);
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
