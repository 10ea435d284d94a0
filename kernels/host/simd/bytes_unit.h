/*!
 * Conversions of integers of 8 and 4 bits to half, for vector_unit.cpp only. All of them are exact.
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

// The upper byte of a half that is one of -8 to 7, by the number's lower four bits. Its lower byte is 0.
constexpr uint8_t UPPER_BYTE_OF_HALF[16] = {0x00, 0x3c, 0x40, 0x42, 0x44, 0x45, 0x46, 0x47,
                                            0xc8, 0xc7, 0xc6, 0xc5, 0xc4, 0xc2, 0xc0, 0xbc};

// A unit is a byte, of which the lower half is the first of two numbers.
inline void RunCastInt4(const Instruction& self, uint32_t begin, uint32_t end)
{
    auto* const dst = reinterpret_cast<uint8_t*>(self.operands[0].base);
    const auto* const src = reinterpret_cast<const uint8_t*>(self.operands[1].base);
    uint32_t i = begin;
    // In 32 bits of each byte: the numbers where the upper bytes of the halves will be, and what a shuffle makes 0 of
    // where the lower ones will.
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

// ---- sums of products with packed numbers

// The next W numbers, as float. Of 4 bits AVX2 takes 32 at once: LoadNibbles.
template <uint32_t PER_BYTE>
HOST_INLINE VF LoadPacked(const uint8_t* p)
{
    if constexpr (PER_BYTE == 1) {
        return LoadBytes(reinterpret_cast<const int8_t*>(p));
    } else {
#if defined(HOST_SIMD_AVX512)
        // A byte in each 64 bits: its lower half is the first number, and, shifted, its upper half the second.
        const __m512i bytes = _mm512_cvtepu8_epi64(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
        const __m512i numbers = _mm512_or_si512(bytes, _mm512_slli_epi64(bytes, 28));
        const __m512 values = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1);
        return _mm512_permutexvar_ps(numbers, values);  // by four bits
#elif defined(HOST_SIMD_NEON)
        const VI numbers = SetInt(LoadRaw<uint16_t>(p));
        return __builtin_convertvector((numbers << VI{28, 24, 20, 16}) >> 28, VF);
#else
        VF v;
        for (int i = 0; i < W; ++i) {
            const int32_t number = p[i / 2] >> (i % 2 * 4) & 15;
            v[i] = static_cast<float>(number - (number > 7 ? 16 : 0));
        }
        return v;
#endif
    }
}

#if defined(HOST_SIMD_AVX2)
// The next 32 numbers of 4 bits, as float. A float that is one of -8 to 7 has two bytes that are not 0: they are looked
// up, and bytes and words interleaved. As that happens within each half of a vector, the first half takes numbers 0 to
// 3, 8 to 11 ..., the other one those between.
HOST_INLINE void LoadNibbles(const uint8_t* p, VF (&values)[4])
{
    const __m128i order = _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
    const __m256i upper = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 0x3f, 0x40, 0x40, 0x40, 0x40, 0x40, 0x40, -0x3f,
                                                                    -0x40, -0x40, -0x40, -0x40, -0x40, -0x40, -0x41));
    const __m256i lower = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, -0x80, 0, 0x40, -0x80, -0x60, -0x40, -0x20, 0, -0x20, -0x40, -0x60, -0x80, 0x40, 0, -0x80));
    const __m256i bytes = _mm256_cvtepu8_epi16(_mm_shuffle_epi8(LoadRaw<__m128i>(p), order));
    const __m256i numbers =
        _mm256_and_si256(_mm256_or_si256(bytes, _mm256_slli_epi16(bytes, 4)), _mm256_set1_epi16(0x0f0f));
    const __m256i high = _mm256_shuffle_epi8(upper, numbers);
    const __m256i low = _mm256_shuffle_epi8(lower, numbers);
    const __m256i words[2] = {_mm256_unpacklo_epi8(low, high), _mm256_unpackhi_epi8(low, high)};
    for (int k = 0; k < 2; ++k) {
        values[2 * k] = reinterpret_cast<VF>(_mm256_unpacklo_epi16(_mm256_setzero_si256(), words[k]));
        values[2 * k + 1] = reinterpret_cast<VF>(_mm256_unpackhi_epi16(_mm256_setzero_si256(), words[k]));
    }
}
#endif

// Adds GROUP numbers as Mul and WholeReduceSum would: lane i meets lane i + 32, then i + 16 ... One vector is left.
template <uint32_t PER_BYTE, uint32_t GROUP>
HOST_INLINE VF PackedProducts(const uint8_t* numbers, const float* factors)
{
    constexpr uint32_t PARTS = GROUP / W;
#if defined(HOST_SIMD_AVX2)
    constexpr bool LOADED = PER_BYTE == 2;
#else
    constexpr bool LOADED = false;
#endif
    VF part[PARTS];
#if defined(HOST_SIMD_AVX2)
    if constexpr (PER_BYTE == 2) {
#pragma GCC unroll 2
        for (uint32_t k = 0; k < PARTS; k += 4) {
            VF values[4];
            LoadNibbles(numbers + k * W / PER_BYTE, values);
#pragma GCC unroll 4
            for (uint32_t i = 0; i < 4; ++i) {
                part[k + i] = values[i] * Load(factors + (k + i) * W);
            }
        }
    }
#endif
#pragma GCC unroll 16
    for (uint32_t k = 0; k < PARTS && !LOADED; ++k) {
        part[k] = LoadPacked<PER_BYTE>(numbers + k * W / PER_BYTE) * Load(factors + k * W);
    }
#pragma GCC unroll 8
    for (uint32_t half = PARTS / 2; half > 0; half /= 2) {
#pragma GCC unroll 16
        for (uint32_t k = 0; k < half; ++k) {
            part[k] += part[k + half];
        }
    }
    return part[0] + VF{};  // lanes that are not there count as 0: sums of -0 are 0
}

// Groups of all rows are folded W at a time.
template <uint32_t PER_BYTE, uint32_t GROUP>
HOST_INLINE void PackedRows(const Instruction& self, uint32_t begin, uint32_t end)
{
    const auto add = [](VF a, VF b) { return a + b; };
    const uint32_t stride = self.option >> 8;
    VF products[W];
    float* sums[W];
    uint32_t held = 0;
    for (uint32_t unit = begin; unit < end; ++unit) {
        const auto at = [&](uint32_t operand) {
            return self.operands[operand].base + self.operands[operand].stride * unit;
        };
        auto* const results = reinterpret_cast<float*>(at(0));
        const auto* const numbers = reinterpret_cast<const uint8_t*>(at(1));
        const auto* const factors = reinterpret_cast<const float*>(at(2));
        for (uint32_t group = 0; group < self.lanes; ++group) {
            products[held] =
                PackedProducts<PER_BYTE, GROUP>(numbers + group * stride / PER_BYTE, factors + group * stride);
            sums[held++] = results + group;
            if (held == W) {
                const VF folded = FoldedRows(products, add);
#pragma GCC unroll 16
                for (uint32_t k = 0; k < W; ++k) {
                    *sums[k] = folded[k];
                }
                held = 0;
            }
        }
    }
    for (uint32_t k = 0; k < held; ++k) {
        *sums[k] = Folded(products[k], add);
    }
}

// option: numbers of a group, and, 8 bits further up, from a group to the next.
template <uint32_t PER_BYTE>
void RunPackedDots(const Instruction& self, uint32_t begin, uint32_t end)
{
    if ((self.option & 0xff) == 32) {
        PackedRows<PER_BYTE, 32>(self, begin, end);
    } else {
        PackedRows<PER_BYTE, 64>(self, begin, end);
    }
}

}  // namespace HOST_ISA
}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_SIMD_BYTES_UNIT_H
