/*!
 * Converts between floats and numbers of 16 bits, binary16 and bfloat16.
 */
#ifndef ASCENDC_HOST_SIMD_HALVES_H
#define ASCENDC_HOST_SIMD_HALVES_H

#include "simd/vectors.h"

namespace AscendC {
namespace host {
namespace HOST_ISA {

// All conversions round to nearest even.

HOST_INLINE float HalfToFloatScalar(uint16_t h)
{
    const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16;
    const uint32_t magnitude = h & 0x7fffu;
    uint32_t bits;
    if (magnitude >= 0x7c00u) {
        bits = 0x7f800000u | ((magnitude & 0x3ffu) << 13);
    } else if (magnitude >= 0x400u) {
        bits = (magnitude << 13) + 0x38000000u;
    } else {  // subnormal: magnitude * 2^-24 is exact
        const float value = static_cast<float>(magnitude) * 5.9604644775390625e-08f;
        memcpy(&bits, &value, 4);
    }
    bits |= sign;
    float result;
    memcpy(&result, &bits, 4);
    return result;
}

HOST_INLINE uint16_t FloatToHalfScalar(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, 4);
    const uint32_t sign = (bits >> 16) & 0x8000u;
    bits &= 0x7fffffffu;
    if (bits > 0x7f800000u) {
        return static_cast<uint16_t>(sign | 0x7e00u | ((bits >> 13) & 0x3ffu));
    }
    if (bits >= 0x477ff000u) {  // rounds to 65536 or more
        return static_cast<uint16_t>(sign | 0x7c00u);
    }
    if (bits < 0x38800000u) {  // subnormal result: let the FPU round at the right bit
        float value;
        memcpy(&value, &bits, 4);
        value += 0.5f;
        memcpy(&bits, &value, 4);
        return static_cast<uint16_t>(sign | (bits - 0x3f000000u));
    }
    return static_cast<uint16_t>(sign | ((bits - 0x38000000u + 0xfffu + ((bits >> 13) & 1u)) >> 13));
}

HOST_INLINE VF HalfToFloat(VH h)
{
#if defined(HOST_SIMD_AVX512)
    return _mm512_cvtph_ps(reinterpret_cast<__m256i>(h));
#elif defined(HOST_SIMD_AVX2)
    return _mm256_cvtph_ps(reinterpret_cast<__m128i>(h));
#elif defined(HOST_SIMD_NEON)
    return vcvt_f32_f16(reinterpret_cast<float16x4_t>(h));
#else
    VF r;
    for (int i = 0; i < W; ++i) {
        r[i] = HalfToFloatScalar(h[i]);
    }
    return r;
#endif
}

HOST_INLINE VH FloatToHalf(VF f)
{
#if defined(HOST_SIMD_AVX512)
    return reinterpret_cast<VH>(_mm512_cvtps_ph(f, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#elif defined(HOST_SIMD_AVX2)
    return reinterpret_cast<VH>(_mm256_cvtps_ph(f, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#elif defined(HOST_SIMD_NEON)
    return reinterpret_cast<VH>(vcvt_f16_f32(f));
#else
    VH r;
    for (int i = 0; i < W; ++i) {
        r[i] = FloatToHalfScalar(f[i]);
    }
    return r;
#endif
}

typedef uint32_t VU __attribute__((vector_size(4 * W)));

// Widens 16 bits to 32; Narrow goes back. GCC 12 takes five instructions and more for what the machine has one for.
HOST_INLINE VU Widen(VH h)
{
#if defined(HOST_SIMD_AVX512)
    return reinterpret_cast<VU>(_mm512_cvtepu16_epi32(reinterpret_cast<__m256i>(h)));
#elif defined(HOST_SIMD_AVX2)
    return reinterpret_cast<VU>(_mm256_cvtepu16_epi32(reinterpret_cast<__m128i>(h)));
#elif defined(HOST_SIMD_NEON)
    return reinterpret_cast<VU>(vmovl_u16(reinterpret_cast<uint16x4_t>(h)));
#else
    return __builtin_convertvector(h, VU);
#endif
}

HOST_INLINE VH UpperHalves(VU v)
{
#if defined(HOST_SIMD_AVX512)
    return reinterpret_cast<VH>(_mm512_cvtepi32_epi16(_mm512_srli_epi32(reinterpret_cast<__m512i>(v), 16)));
#elif defined(HOST_SIMD_AVX2)
    const __m256i upper = _mm256_srli_epi32(reinterpret_cast<__m256i>(v), 16);
    return reinterpret_cast<VH>(_mm_packus_epi32(_mm256_castsi256_si128(upper), _mm256_extracti128_si256(upper, 1)));
#elif defined(HOST_SIMD_NEON)
    return reinterpret_cast<VH>(vshrn_n_u32(reinterpret_cast<uint32x4_t>(v), 16));
#else
    return __builtin_convertvector(v >> 16, VH);
#endif
}

HOST_INLINE VF BFloat16ToFloat(VH h)
{
    return reinterpret_cast<VF>(Widen(h) << 16);
}

// Rounds f, which is not NaN, to bfloat16, with the bits in the upper halves; below them is anything.
HOST_INLINE VU RoundNumberToBFloat16(VF f)
{
    const VU bits = reinterpret_cast<VU>(f);
#if defined(HOST_SIMD_AVX512)
    const __m512i integer = reinterpret_cast<__m512i>(bits);
    const __mmask16 odd = _mm512_test_epi32_mask(integer, _mm512_set1_epi32(0x10000));
    const __m512i rounded = _mm512_add_epi32(integer, _mm512_set1_epi32(0x7fff));
    return reinterpret_cast<VU>(_mm512_mask_add_epi32(rounded, odd, integer, _mm512_set1_epi32(0x8000)));
#else
    return bits + 0x7fffu + ((bits >> 16) & 1u);
#endif
}

// Rounds any f.
HOST_INLINE VU RoundToBFloat16(VF f)
{
    return f != f ? reinterpret_cast<VU>(f) | 0x400000u : RoundNumberToBFloat16(f);
}

HOST_INLINE VH FloatToBFloat16(VF f)
{
#if defined(HOST_SIMD_NEON) && defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
    return reinterpret_cast<VH>(vcvt_bf16_f32(f));  // NaN as below: quiet, with the upper bits
#else
    return UpperHalves(RoundToBFloat16(f));
#endif
}

}  // namespace HOST_ISA
}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_SIMD_HALVES_H
