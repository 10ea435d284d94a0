/*!
 * Multiplies matrices for Matmul (matmul.h): C = A B + bias, with sums in float; or of 8-bit integers, with sums in 32
 * bits and without bias.
 *
 * The arithmetic is a library's (onednn.h), called in the thread of the core; without that library it is a plain loop
 * (product.cpp). Products of a few rows are the vector unit's (simd/few_rows_unit.h) with and without it. Which of them
 * and which kernel of the library follows from the sizes and types alone, so the bits do not depend on how tiles are
 * dealt to cores.
 */
#ifndef ASCENDC_HOST_CUBE_PRODUCT_H
#define ASCENDC_HOST_CUBE_PRODUCT_H

#include <cstdint>

#include "ir/instruction.h"

namespace AscendC {
namespace host {

// This is a matrix in row-major order, or the transpose of one.
struct Matrix {
    char* data = nullptr;
    int64_t stride = 0;  // elements from a row to the next, as it lies in memory
    bool transposed = false;
};

struct Product {
    uint32_t m = 0;
    uint32_t n = 0;
    uint32_t k = 0;
    ElementType type = ElementType::FLOAT;        // of a and b
    ElementType resultType = ElementType::FLOAT;  // of c
    Matrix a;                                     // (m, k)
    Matrix b;                                     // (k, n)
    Matrix c;                                     // (m, n); never transposed
    const float* bias = nullptr;                  // n values, or null
    bool accumulate = false;                      // adds to c, which is float
    // There are so many products alike. Their matrices b lie side by side in the same rows of memory, as those of heads
    // do; of a and c each has m rows, one behind the other.
    uint32_t groups = 1;
};

// Returns true if `next` can be one more group of `product`. Products of few rows are bound by reading b: in groups,
// rows of memory are read as a whole, which the CPU foresees, and not in pieces of one head, each in a page of its own.
bool IsNextGroup(const Product& product, const Product& next);

void Multiply(const Product& product);

// Names the library that multiplies, "oneDNN 3.10.1" or "plain loops", and says where it is, or why there is none.
const char* ProductLibrary();
const char* ProductLibraryPath();

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_CUBE_PRODUCT_H
