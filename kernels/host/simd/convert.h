/*!
 * Converts matrices to another type, by the vector unit, around products (cube/product.h) and in steps of super
 * kernels.
 */
#ifndef ASCENDC_HOST_SIMD_CONVERT_H
#define ASCENDC_HOST_SIMD_CONVERT_H

#include <cstdint>

#include "ir/instruction.h"

namespace AscendC {
namespace host {

constexpr uint32_t BytesOf(ElementType type)
{
    if (type == ElementType::INT8) {
        return 1;
    }
    return type == ElementType::HALF || type == ElementType::BFLOAT16 ? 2 : 4;
}

// Converts `rows` rows of `cols` elements from one type to another, one of which is float, rounded to the nearest, ties
// to even. Strides are in elements.
void Convert(char* dst, ElementType dstType, int64_t dstStride, const char* src, ElementType srcType, int64_t srcStride,
             uint32_t rows, uint32_t cols);

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_SIMD_CONVERT_H
