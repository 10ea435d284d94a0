#include "binding/cast.h"

#include <algorithm>
#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace ms_ascend_ops::binding {
namespace {

constexpr int64_t PIECE = 1024;  // floats between two types: they stay in the L1 data cache

float FromBits(uint32_t bits)
{
    float value;
    std::memcpy(&value, &bits, sizeof(value));
    return value;
}

uint32_t ToBits(float value)
{
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    return bits;
}

float HalfToFloat(uint16_t half)
{
    const uint32_t sign = (half & 0x8000U) << 16U;
    const uint32_t rest = half & 0x7fffU;
    if (rest >= 0x7c00U) {  // Inf, NaN: quiet ones
        return FromBits(sign | (rest << 13U) | 0x7f800000U | (rest > 0x7c00U ? 0x400000U : 0U));
    }
    // The exponent of a half, 15 more than it says, is 112 less than that of a float; the product is exact for
    // subnormals, too.
    return FromBits(sign | ToBits(FromBits(rest << 13U) * 0x1p112F));
}

uint16_t FloatToHalf(float value)
{
    const uint32_t bits = ToBits(value);
    const uint32_t sign = (bits >> 16U) & 0x8000U;
    const uint32_t rest = bits & 0x7fffffffU;
    if (rest > 0x7f800000U) {
        return static_cast<uint16_t>(sign | 0x7e00U | ((rest >> 13U) & 0x3ffU));
    }
    if (rest >= 0x477ff000U) {  // 65520, which rounds to 65536, or more
        return static_cast<uint16_t>(sign | 0x7c00U);
    }
    if (rest < 0x38800000U) {  // subnormal: next to 0.5 a float has the same last place
        return static_cast<uint16_t>(sign | (ToBits(FromBits(rest) + 0.5F) - 0x3f000000U));
    }
    return static_cast<uint16_t>(sign | ((rest - 0x38000000U + 0xfffU + ((rest >> 13U) & 1U)) >> 13U));
}

uint16_t FloatToBFloat16(float value)
{
    const uint32_t bits = ToBits(value);
    const bool isNan = (bits & 0x7fffffffU) > 0x7f800000U;
    return static_cast<uint16_t>((isNan ? bits | 0x400000U : bits + 0x7fffU + ((bits >> 16U) & 1U)) >> 16U);
}

#if defined(__x86_64__)
// What is left over is for the caller.
__attribute__((target("avx,f16c"))) int64_t WidenHalves(const uint16_t* source, float* target, int64_t count)
{
    int64_t i = 0;
    for (; i + 8 <= count; i += 8) {
        _mm256_storeu_ps(target + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(source + i))));
    }
    return i;
}

__attribute__((target("avx,f16c"))) int64_t RoundToHalves(const float* source, uint16_t* target, int64_t count)
{
    int64_t i = 0;
    for (; i + 8 <= count; i += 8) {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(target + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(source + i), _MM_FROUND_TO_NEAREST_INT));
    }
    return i;
}

bool Converts()
{
    static const bool converts = __builtin_cpu_supports("avx") && __builtin_cpu_supports("f16c");
    return converts;
}
#else
int64_t WidenHalves(const uint16_t*, float*, int64_t)
{
    return 0;
}

int64_t RoundToHalves(const float*, uint16_t*, int64_t)
{
    return 0;
}

bool Converts()
{
    return false;
}
#endif

void ToFloats(const void* source, DataType from, float* target, int64_t count)
{
    const auto* const words = static_cast<const uint16_t*>(source);
    if (from == DataType::FLOAT32) {
        std::memcpy(target, source, count * sizeof(float));
    } else if (from == DataType::FLOAT16) {
        const int64_t done = Converts() ? WidenHalves(words, target, count) : 0;
        std::transform(words + done, words + count, target + done, HalfToFloat);
    } else {
        std::transform(words, words + count, target,
                       [](uint16_t word) { return FromBits(static_cast<uint32_t>(word) << 16U); });
    }
}

void FromFloats(const float* source, void* target, DataType to, int64_t count)
{
    auto* const words = static_cast<uint16_t*>(target);
    if (to == DataType::FLOAT32) {
        std::memcpy(target, source, count * sizeof(float));
    } else if (to == DataType::FLOAT16) {
        const int64_t done = Converts() ? RoundToHalves(source, words, count) : 0;
        std::transform(source + done, source + count, words + done, FloatToHalf);
    } else {
        std::transform(source, source + count, words, FloatToBFloat16);
    }
}

}  // namespace

bool IsFloat(const std::string& dtype)
{
    return dtype == "float32" || dtype == "float16" || dtype == "bfloat16";
}

void CastFloats(const void* source, DataType from, void* target, DataType to, int64_t count)
{
    if (from == DataType::FLOAT32) {
        FromFloats(static_cast<const float*>(source), target, to, count);
        return;
    }
    if (to == DataType::FLOAT32) {
        ToFloats(source, from, static_cast<float*>(target), count);
        return;
    }
    std::array<float, PIECE> floats;
    for (int64_t begin = 0; begin < count; begin += PIECE) {
        const int64_t size = std::min(PIECE, count - begin);
        ToFloats(static_cast<const uint16_t*>(source) + begin, from, floats.data(), size);
        FromFloats(floats.data(), static_cast<uint16_t*>(target) + begin, to, size);
    }
}

}  // namespace ms_ascend_ops::binding
