/*!
 * Converts integers of 8 and 4 bits to half, for vector_unit.cpp only. All conversions are exact.
 */
#ifndef ASCENDC_HOST_SIMD_BYTES_UNIT_H
#define ASCENDC_HOST_SIMD_BYTES_UNIT_H

#include "ir/instruction.h"
#include "simd/folding.h"
#include "simd/simd.h"

namespace AscendC {
namespace host {
namespace HOST_ISA {

HOST_INLINE VF LoadBytes(const int8_t* p)
{
#if defined(HOST_SIMD_AVX512)
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(LoadRaw<__m128i>(p)));
#elif defined(HOST_SIMD_AVX2)
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
#elif defined(HOST_SIMD_NEON)
    const int8x8_t bytes = vreinterpret_s8_s32(vdup_n_s32(LoadRaw<int32_t>(p)));
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(bytes))));
#else
    VF v;
    for (int i = 0; i < W; ++i) {
        v[i] = p[i];
    }
    return v;
#endif
}

inline void CastBytes(half* dst, const int8_t* src, uint32_t n)
{
    uint32_t i = 0;
#pragma GCC unroll 4
    for (; i + W <= n; i += W) {
        Store(dst + i, LoadBytes(src + i));
    }
    if (i < n) {
        int8_t last[W] = {};
        memcpy(last, src + i, n - i);
        StorePartial(dst + i, LoadBytes(last), n - i);
    }
}

inline void RunCastInt8(const Instruction& self, uint32_t begin, uint32_t end)
{
    CastBytes(reinterpret_cast<half*>(self.operands[0].base) + begin,
              reinterpret_cast<const int8_t*>(self.operands[1].base) + begin, end - begin);
}

// This is the upper byte of a half that is one of -8 to 7, by the number's lower four bits. Its lower byte is 0.
constexpr uint8_t UPPER_BYTE_OF_HALF[16] = {0x00, 0x3c, 0x40, 0x42, 0x44, 0x45, 0x46, 0x47,
                                            0xc8, 0xc7, 0xc6, 0xc5, 0xc4, 0xc2, 0xc0, 0xbc};

// An iteration takes a byte, whose lower half is the first of two numbers.
inline void RunCastInt4(const Instruction& self, uint32_t begin, uint32_t end)
{
    auto* const dst = reinterpret_cast<uint8_t*>(self.operands[0].base);
    const auto* const src = reinterpret_cast<const uint8_t*>(self.operands[1].base);
    uint32_t i = begin;
    // The 32 bits of each byte have the numbers where the upper bytes of the halves will be; where the lower ones will
    // be is a value of which a shuffle makes 0.
#if defined(HOST_SIMD_AVX512)
    const __m512i table = _mm512_broadcast_i32x4(LoadRaw<__m128i>(UPPER_BYTE_OF_HALF));
#pragma GCC unroll 2
    for (; i + W <= end; i += W) {
        const __m512i bytes = _mm512_cvtepu8_epi32(LoadRaw<__m128i>(src + i));
        const __m512i first = _mm512_and_si512(_mm512_slli_epi32(bytes, 8), _mm512_set1_epi32(0x00000f00));
        const __m512i second = _mm512_and_si512(_mm512_slli_epi32(bytes, 20), _mm512_set1_epi32(0x0f000000));
        const __m512i numbers = _mm512_or_si512(_mm512_or_si512(first, second), _mm512_set1_epi32(0x00800080));
        const __m512i halves = _mm512_shuffle_epi8(table, numbers);
        memcpy(dst + 4 * i, &halves, sizeof(halves));
    }
#elif defined(HOST_SIMD_AVX2)
    const __m256i table = _mm256_broadcastsi128_si256(LoadRaw<__m128i>(UPPER_BYTE_OF_HALF));
#pragma GCC unroll 2
    for (; i + W <= end; i += W) {
        const __m256i bytes = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(src + i)));
        const __m256i first = _mm256_and_si256(_mm256_slli_epi32(bytes, 8), _mm256_set1_epi32(0x00000f00));
        const __m256i second = _mm256_and_si256(_mm256_slli_epi32(bytes, 20), _mm256_set1_epi32(0x0f000000));
        const __m256i numbers = _mm256_or_si256(_mm256_or_si256(first, second), _mm256_set1_epi32(0x00800080));
        const __m256i halves = _mm256_shuffle_epi8(table, numbers);
        memcpy(dst + 4 * i, &halves, sizeof(halves));
    }
#elif defined(HOST_SIMD_NEON)
    const uint8x16_t table = vld1q_u8(UPPER_BYTE_OF_HALF);
#pragma GCC unroll 2
    for (; i + 8 <= end; i += 8) {
        const uint8x8_t bytes = vld1_u8(src + i);
        const uint8x8_t first = vqtbl1_u8(table, vand_u8(bytes, vdup_n_u8(15)));
        const uint8x8_t second = vqtbl1_u8(table, vshr_n_u8(bytes, 4));
        const uint8x16_t upper = vcombine_u8(vzip1_u8(first, second), vzip2_u8(first, second));
        vst2q_u8(dst + 4 * i, uint8x16x2_t{{vdupq_n_u8(0), upper}});
    }
#endif
    for (; i < end; ++i) {
        const uint8_t pair[4] = {0, UPPER_BYTE_OF_HALF[src[i] & 15], 0, UPPER_BYTE_OF_HALF[src[i] >> 4]};
        memcpy(dst + 4 * i, pair, sizeof(pair));
    }
}

}  // namespace HOST_ISA
}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_SIMD_BYTES_UNIT_H
