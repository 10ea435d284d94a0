/*!
 * Implements Cast, for vector_unit.cpp only.
 */
#ifndef ASCENDC_HOST_SIMD_CASTS_UNIT_H
#define ASCENDC_HOST_SIMD_CASTS_UNIT_H

#include "ir/instruction.h"
#include "simd/bytes_unit.h"
#include "simd/operands_unit.h"
#include "simd/simd.h"

namespace AscendC {
namespace host {
namespace HOST_ISA {

// Returns the integral value of x in the given mode; NaN and infinities pass.
inline float RoundToIntegral(float x, RoundMode mode)
{
    switch (mode) {
        case RoundMode::CAST_FLOOR:
            return std::floor(x);
        case RoundMode::CAST_CEIL:
            return std::ceil(x);
        case RoundMode::CAST_ROUND:
            return std::round(x);
        case RoundMode::CAST_TRUNC:
            return std::trunc(x);
        default:
            return std::nearbyint(x);
    }
}

inline int32_t ToInt32(float x, RoundMode mode)
{
    const float rounded = RoundToIntegral(x, mode);
    if (rounded != rounded) {
        return 0;
    }
    if (rounded >= 2147483648.0f) {
        return INT32_MAX;
    }
    return rounded < -2147483648.0f ? INT32_MIN : static_cast<int32_t>(rounded);
}

// Rounds as CAST_RINT, without a branch: compilers make vectors of it.
inline int32_t ToNearestInt32(float x)
{
    const float rounded = std::nearbyint(x);
    const float number = rounded == rounded ? rounded : 0.0f;
    const float bounded = number < -2147483648.0f ? -2147483648.0f : number;
    const int32_t below = static_cast<int32_t>(bounded < 2147483648.0f ? bounded : 0.0f);
    return number >= 2147483648.0f ? INT32_MAX : below;
}

inline float ToFloat(int32_t x, RoundMode mode)
{
    const float nearest = static_cast<float>(x);
    const double exact = x;
    const bool above = nearest > exact;
    const bool below = nearest < exact;
    const bool down = mode == RoundMode::CAST_FLOOR || (mode == RoundMode::CAST_TRUNC && x > 0);
    const bool up = mode == RoundMode::CAST_CEIL || (mode == RoundMode::CAST_TRUNC && x < 0);
    if (above && down) {
        return std::nextafter(nearest, -INFINITY);
    }
    if (below && up) {
        return std::nextafter(nearest, INFINITY);
    }
    if (mode == RoundMode::CAST_ROUND && (above || below)) {  // a tie goes away from zero
        const float other = std::nextafter(nearest, above ? -INFINITY : INFINITY);
        const bool tie = (static_cast<double>(nearest) + static_cast<double>(other)) / 2 == exact;
        return tie && std::fabs(other) > std::fabs(nearest) ? other : nearest;
    }
    return nearest;
}

inline float Widen(half h)
{
    return HalfToFloatScalar(h.bits);
}
inline float Widen(bfloat16_t h)
{
    const uint32_t bits = static_cast<uint32_t>(h.bits) << 16;
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

// To a 16-bit format in a directed mode: start from the nearest value and step to its neighbour where the mode wants
// the other side. Neighbours of a sign-magnitude format are one bit pattern apart.
template <typename To>
To Narrow(float x, uint16_t nearest, RoundMode mode)
{
    To result{nearest};
    const float value = Widen(result);
    if (value == x || x != x) {
        return result;
    }
    const bool away = std::fabs(value) > std::fabs(x);  // nearest lies further from zero than x
    bool wantAway;
    switch (mode) {
        case RoundMode::CAST_TRUNC:
            wantAway = false;
            break;
        case RoundMode::CAST_FLOOR:
            wantAway = x < 0.0f;
            break;
        case RoundMode::CAST_CEIL:
            wantAway = x > 0.0f;
            break;
        case RoundMode::CAST_ODD: {  // the inexact result gets an odd mantissa
            if ((nearest & 1u) == 0) {
                result.bits = static_cast<uint16_t>(away ? nearest - 1 : nearest + 1);
            }
            return result;
        }
        case RoundMode::CAST_ROUND: {  // ties away from zero: only an exact tie differs from nearest-even
            if (!away) {
                const To next{static_cast<uint16_t>(nearest + 1)};
                const double tie = (static_cast<double>(value) + static_cast<double>(Widen(next))) / 2;
                if (tie == static_cast<double>(x)) {
                    return next;
                }
            }
            return result;
        }
        default:
            return result;
    }
    if (away && !wantAway) {
        result.bits = static_cast<uint16_t>(nearest - 1);
    } else if (!away && wantAway) {
        result.bits = static_cast<uint16_t>(nearest + 1);
    }
    return result;
}

template <typename To, typename From>
HOST_INLINE void CastLoop(To* dst, const From* src, uint32_t n, RoundMode mode)
{
    if constexpr (std::is_same<To, int32_t>::value || std::is_same<From, int32_t>::value ||
                  (std::is_same<To, From>::value)) {
        if constexpr (std::is_same<To, float>::value && std::is_same<From, int32_t>::value) {
            if (mode == RoundMode::CAST_NONE || mode == RoundMode::CAST_RINT) {  // as the CPU does
                for (uint32_t i = 0; i < n; ++i) {
                    dst[i] = static_cast<float>(src[i]);
                }
                return;
            }
        }
        if constexpr (std::is_same<To, int32_t>::value && std::is_same<From, float>::value) {
            if (mode == RoundMode::CAST_RINT) {
                for (uint32_t i = 0; i < n; ++i) {
                    dst[i] = ToNearestInt32(src[i]);
                }
                return;
            }
        }
        for (uint32_t i = 0; i < n; ++i) {
            if constexpr (std::is_same<To, int32_t>::value) {
                if constexpr (std::is_same<From, float>::value) {
                    dst[i] = ToInt32(src[i], mode);
                } else {
                    dst[i] = ToInt32(Widen(src[i]), mode);
                }
            } else if constexpr (std::is_same<To, float>::value && std::is_same<From, int32_t>::value) {
                dst[i] = ToFloat(src[i], mode);
            } else if constexpr (std::is_same<To, float>::value) {
                dst[i] = RoundToIntegral(src[i], mode);
            }
        }
        return;
    }
    if constexpr (!std::is_same<To, int32_t>::value && !std::is_same<From, int32_t>::value) {
        const bool directed = mode != RoundMode::CAST_NONE && mode != RoundMode::CAST_RINT;
        if constexpr (sizeof(To) == 2) {
            if (directed) {
                for (uint32_t i = 0; i < n; ++i) {
                    To nearest;
                    StorePartial(&nearest, LoadPartial(src + i, 1), 1);
                    dst[i] = Narrow<To>(src[i], nearest.bits, mode);
                }
                return;
            }
        }
        uint32_t i = 0;
#pragma GCC unroll 4
        for (; i + W <= n; i += W) {
            Store(dst + i, Load(src + i));
        }
        if (i < n) {
            StorePartial(dst + i, LoadPartial(src + i, n - i), n - i);
        }
    }
}

template <typename To, typename From, bool REPEAT>
void RunCast(const Instruction& self, uint32_t begin, uint32_t end)
{
    const RoundMode mode = static_cast<RoundMode>(self.option);
    if constexpr (REPEAT) {
        for (uint32_t u = begin; u < end; ++u) {
            CastLoop(At<To>(self, 0, u), At<From>(self, 1, u), self.lanes, mode);
        }
    } else {
        CastLoop(At<To>(self, 0, begin), At<From>(self, 1, begin), end - begin, mode);
    }
}

// Stores W floats, integral ones between -128 and 127, as bytes.
HOST_INLINE void StoreBytes(int8_t* p, VF x)
{
#if defined(HOST_SIMD_AVX512)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(x)));
#elif defined(HOST_SIMD_AVX2)
    const __m256i numbers = _mm256_cvtps_epi32(x);
    const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(numbers), _mm256_extracti128_si256(numbers, 1));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packs_epi16(words, words));
#else
    for (uint32_t k = 0; k < W; ++k) {
        p[k] = static_cast<int8_t>(x[k]);
    }
#endif
}

// Saturates, and makes 0 of NaN.
inline void RunCastToInt8(const Instruction& self, uint32_t begin, uint32_t end)
{
    auto* const dst = reinterpret_cast<int8_t*>(self.operands[0].base);
    const auto* const src = reinterpret_cast<const half*>(self.operands[1].base);
    const RoundMode mode = static_cast<RoundMode>(self.option);
    const bool nearest = mode == RoundMode::CAST_NONE || mode == RoundMode::CAST_RINT;
    const VF magic = Set(12582912.0f);  // 1.5 * 2^23: a number that it is added to is rounded to nearest even
    const auto convert = [&](VF x, uint32_t count) {
        if (!nearest) {
            for (uint32_t k = 0; k < count; ++k) {
                x[k] = RoundToIntegral(x[k], mode);
            }
        }
        const VF finite = SmallerOf(LargerOf(Choose(x == x, x, Set(0.0f)), Set(-128.0f)), Set(127.0f));
        return finite + magic - magic;
    };
    uint32_t i = begin;
    for (; i + W <= end; i += W) {
        StoreBytes(dst + i, convert(Load(src + i), W));
    }
    if (i < end) {
        int8_t last[W];
        StoreBytes(last, convert(LoadPartial(src + i, end - i), end - i));
        memcpy(dst + i, last, end - i);
    }
}

}  // namespace HOST_ISA
}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_SIMD_CASTS_UNIT_H
