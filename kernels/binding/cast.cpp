#include "binding/cast.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "host/simd/convert.h"

namespace ms_ascend_ops::binding {
namespace {

using AscendC::host::ElementType;

constexpr int64_t PIECE = 1024;                     // floats between two types: they stay in the L1 data cache
constexpr int64_t MOST_AT_ONCE = int64_t{1} << 30;  // a conversion counts in 32 bits

ElementType ElementOf(DataType dtype)
{
    if (dtype == DataType::FLOAT32) {
        return ElementType::FLOAT;
    }
    return dtype == DataType::FLOAT16 ? ElementType::HALF : ElementType::BFLOAT16;
}

}  // namespace

bool IsFloat(const std::string& dtype)
{
    return dtype == "float32" || dtype == "float16" || dtype == "bfloat16";
}

void CastFloats(const void* source, DataType from, void* target, DataType to, int64_t count)
{
    const auto* const src = static_cast<const char*>(source);
    auto* const dst = static_cast<char*>(target);
    if (from == to) {
        std::memcpy(dst, src, count * SizeOf(from));
        return;
    }
    const ElementType srcType = ElementOf(from);
    const ElementType dstType = ElementOf(to);
    const bool direct = srcType == ElementType::FLOAT || dstType == ElementType::FLOAT;
    std::array<float, PIECE> floats;
    auto* const between = reinterpret_cast<char*>(floats.data());
    for (int64_t begin = 0; begin < count;) {
        const int64_t size = std::min(direct ? MOST_AT_ONCE : PIECE, count - begin);
        const auto cols = static_cast<uint32_t>(size);
        const char* const here = src + begin * SizeOf(from);
        char* const there = dst + begin * SizeOf(to);
        if (direct) {
            AscendC::host::Convert(there, dstType, size, here, srcType, size, 1, cols);
        } else {
            AscendC::host::Convert(between, ElementType::FLOAT, size, here, srcType, size, 1, cols);
            AscendC::host::Convert(there, dstType, size, between, ElementType::FLOAT, size, 1, cols);
        }
        begin += size;
    }
}

}  // namespace ms_ascend_ops::binding
