#include "simd/convert.h"

#include "base/types.h"
#include "simd/vector_unit.h"

namespace AscendC {
namespace host {

void Convert(char* dst, ElementType dstType, int64_t dstStride, const char* src, ElementType srcType, int64_t srcStride,
             uint32_t rows, uint32_t cols)
{
    if (rows == 0 || cols == 0) {
        return;
    }
    const RunFn cast = g_vectorUnit->RunOf(CastOf(srcType, dstType));
    const bool gapless = dstStride == cols && srcStride == cols && rows * uint64_t{cols} <= UINT32_MAX;
    const uint32_t lines = gapless ? 1 : rows;
    const uint32_t length = gapless ? rows * cols : cols;
    Instruction instruction;
    instruction.operation = CastOf(srcType, dstType);
    instruction.iterations = length;
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

}  // namespace host
}  // namespace AscendC
