/*!
 * Implements float vectors of the machine's width, for vector_unit.cpp only. GCC and Clang vector extensions do the
 * arithmetic; operations that they cannot express are written once per instruction set, here and in the headers that
 * simd.h includes.
 *
 * Everything lies in namespace HOST_ISA: vector_unit.cpp is compiled once per instruction set, and functions of the
 * same name compiled for different ones must not be merged by the linker.
 */
#ifndef ASCENDC_HOST_SIMD_VECTORS_H
#define ASCENDC_HOST_SIMD_VECTORS_H

#include <cmath>
#include <cstdint>
#include <cstring>

#include "base/types.h"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#define HOST_SIMD_AVX512
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#define HOST_SIMD_AVX2
#elif defined(__aarch64__)
#define HOST_SIMD_NEON
#endif

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
// The compiler's header and Ascend C both have a global type of this name.
#define bfloat16_t arm_neon_bfloat16_t
#include <arm_neon.h>
#undef bfloat16_t
#endif

#define HOST_INLINE inline __attribute__((always_inline))

namespace AscendC {
namespace host {
namespace HOST_ISA {

#if defined(HOST_SIMD_AVX512)
constexpr int W = 16;  // floats in a vector
#elif defined(HOST_SIMD_AVX2)
constexpr int W = 8;
#else
constexpr int W = 4;
#endif

typedef float VF __attribute__((vector_size(4 * W)));
typedef int32_t VI __attribute__((vector_size(4 * W)));
typedef uint16_t VH __attribute__((vector_size(2 * W)));  // W half-precision bit patterns

HOST_INLINE VF Set(float value)
{
    return value - VF{};  // not +, which turns -0 into 0
}

HOST_INLINE VI SetInt(int32_t value)
{
    return VI{} + value;
}

HOST_INLINE VF AsFloat(VI v)
{
    return reinterpret_cast<VF>(v);
}

HOST_INLINE VI AsInt(VF v)
{
    return reinterpret_cast<VI>(v);
}

// Lane k gets lane I[k] of a, or of b behind it. Clang does not know GCC's name for this, nor GCC before 12 Clang's.
template <int32_t... I, typename V>
HOST_INLINE V Shuffled(V a, V b)
{
#if defined(__clang__)
    return __builtin_shufflevector(a, b, I...);
#else
    typedef int32_t Lanes __attribute__((vector_size(sizeof(V))));
    return __builtin_shuffle(a, b, Lanes{I...});
#endif
}

// Lane by lane; the mask is a comparison's result.
HOST_INLINE VF Choose(VI mask, VF yes, VF no)
{
    return mask ? yes : no;
}

// Computes a > b ? a : b and a < b ? a : b, so that b comes out where one is NaN.
HOST_INLINE VF LargerOf(VF a, VF b)
{
#if defined(HOST_SIMD_AVX512)
    return _mm512_max_ps(a, b);
#elif defined(HOST_SIMD_AVX2)
    return _mm256_max_ps(a, b);
#else
    return Choose(a > b, a, b);
#endif
}
HOST_INLINE VF SmallerOf(VF a, VF b)
{
#if defined(HOST_SIMD_AVX512)
    return _mm512_min_ps(a, b);
#elif defined(HOST_SIMD_AVX2)
    return _mm256_min_ps(a, b);
#else
    return Choose(a < b, a, b);
#endif
}

// Returns true if any lane of a comparison result is set.
HOST_INLINE bool Any(VI mask)
{
#if defined(HOST_SIMD_AVX512)
    return _mm512_movepi32_mask(reinterpret_cast<__m512i>(mask)) != 0;
#elif defined(HOST_SIMD_AVX2)
    return _mm256_movemask_ps(reinterpret_cast<__m256>(mask)) != 0;
#elif defined(HOST_SIMD_NEON)
    return vmaxvq_u32(reinterpret_cast<uint32x4_t>(mask)) != 0;
#else
    int32_t any = 0;
    for (int i = 0; i < W; ++i) {
        any |= mask[i];
    }
    return any != 0;
#endif
}

// Has the CPU instructions for Fma and for conversions of half?
#if defined(HOST_SIMD_AVX512) || defined(HOST_SIMD_AVX2) || defined(HOST_SIMD_NEON)
constexpr bool FUSES = true;
constexpr bool CONVERTS_HALF = true;
#else
constexpr bool FUSES = false;
constexpr bool CONVERTS_HALF = false;
#endif

HOST_INLINE VF Fma(VF a, VF b, VF c)
{
#if defined(HOST_SIMD_AVX512)
    return _mm512_fmadd_ps(a, b, c);
#elif defined(HOST_SIMD_AVX2)
    return _mm256_fmadd_ps(a, b, c);
#elif defined(HOST_SIMD_NEON)
    return vfmaq_f32(c, a, b);
#else
    return a * b + c;
#endif
}

HOST_INLINE VF SqrtOf(VF a)
{
#if defined(HOST_SIMD_AVX512)
    return _mm512_sqrt_ps(a);
#elif defined(HOST_SIMD_AVX2)
    return _mm256_sqrt_ps(a);
#elif defined(HOST_SIMD_NEON)
    return vsqrtq_f32(a);
#else
    VF r;
    for (int i = 0; i < W; ++i) {
        r[i] = std::sqrt(a[i]);
    }
    return r;
#endif
}

}  // namespace HOST_ISA
}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_SIMD_VECTORS_H
