/*!
 * Float vectors of the machine's width, for vector_unit.cpp only. GCC and Clang vector extensions do the arithmetic;
 * what they cannot express (fused multiply-add, binary16, partial loads) is written here once per instruction set.
 *
 * Everything lies in namespace HOST_ISA: vector_unit.cpp is compiled once per instruction set, and functions of the
 * same name compiled for different ones must not be merged by the linker.
 */
#ifndef ASCENDC_HOST_SIMD_SIMD_H
#define ASCENDC_HOST_SIMD_SIMD_H

#include <cmath>
#include <cstdint>
#include <cstring>

#include "api/types.h"
#include "simd/function_constants.h"

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
#include <arm_neon.h>
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

// Lane by lane; the mask is a comparison's result.
HOST_INLINE VF Choose(VI mask, VF yes, VF no)
{
    return mask ? yes : no;
}

// a > b ? a : b and a < b ? a : b, so that b comes out where one is NaN.
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

// True if any lane of a comparison result is set.
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

// ---- binary16 and bfloat16, round to nearest even

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

// 16 bits to 32 and back. GCC 12 takes five instructions for what the machine has one for.
HOST_INLINE VU Widen(VH h)
{
#if defined(HOST_SIMD_AVX512)
    return reinterpret_cast<VU>(_mm512_cvtepu16_epi32(reinterpret_cast<__m256i>(h)));
#elif defined(HOST_SIMD_AVX2)
    return reinterpret_cast<VU>(_mm256_cvtepu16_epi32(reinterpret_cast<__m128i>(h)));
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
#else
    return __builtin_convertvector(v >> 16, VH);
#endif
}

typedef uint16_t VHH __attribute__((vector_size(4 * W)));  // 2 W of them

// Of a, then of b: an instruction less for each than one by one.
HOST_INLINE VHH UpperHalves(VU a, VU b)
{
#if defined(HOST_SIMD_AVX512)
    const __m512i odd = _mm512_set_epi16(63, 61, 59, 57, 55, 53, 51, 49, 47, 45, 43, 41, 39, 37, 35, 33, 31, 29, 27, 25,
                                         23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1);
    return reinterpret_cast<VHH>(
        _mm512_permutex2var_epi16(reinterpret_cast<__m512i>(a), odd, reinterpret_cast<__m512i>(b)));
#elif defined(HOST_SIMD_AVX2)
    const __m256i packed = _mm256_packus_epi32(_mm256_srli_epi32(reinterpret_cast<__m256i>(a), 16),
                                               _mm256_srli_epi32(reinterpret_cast<__m256i>(b), 16));
    return reinterpret_cast<VHH>(_mm256_permute4x64_epi64(packed, 0xd8));
#else
    const VH halves[2] = {UpperHalves(a), UpperHalves(b)};
    VHH result;
    memcpy(&result, halves, sizeof(result));
    return result;
#endif
}

HOST_INLINE VF BFloat16ToFloat(VH h)
{
    return reinterpret_cast<VF>(Widen(h) << 16);
}

// The bits of f, not NaN, rounded to bfloat16, in the upper halves; below them anything.
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

// The same of any f.
HOST_INLINE VU RoundToBFloat16(VF f)
{
    return f != f ? reinterpret_cast<VU>(f) | 0x400000u : RoundNumberToBFloat16(f);
}

// Is there a NaN in any of them?
template <uint32_t N>
HOST_INLINE bool HaveNan(const VF (&v)[N])
{
#if defined(HOST_SIMD_AVX512)
    uint32_t lanes = 0;
#pragma GCC unroll 8
    for (uint32_t k = 0; k < N; k += 2) {
        lanes |= _mm512_cmp_ps_mask(v[k], v[k + 1 < N ? k + 1 : k], _CMP_UNORD_Q);
    }
    return lanes != 0;
#elif defined(HOST_SIMD_AVX2)
    __m256 lanes = _mm256_setzero_ps();
#pragma GCC unroll 8
    for (uint32_t k = 0; k < N; k += 2) {
        lanes = _mm256_or_ps(lanes, _mm256_cmp_ps(v[k], v[k + 1 < N ? k + 1 : k], _CMP_UNORD_Q));
    }
    return _mm256_movemask_ps(lanes) != 0;
#else
    VI lanes = {};
#pragma GCC unroll 8
    for (uint32_t k = 0; k < N; ++k) {
        lanes |= v[k] != v[k];
    }
    return Any(lanes);
#endif
}

HOST_INLINE VH FloatToBFloat16(VF f)
{
    return UpperHalves(RoundToBFloat16(f));
}

// ---- loads and stores: W elements, or the first n < W of them (the other lanes are zero)

template <typename V>
HOST_INLINE V LoadRaw(const void* p)
{
    V v;
    memcpy(&v, p, sizeof(V));
    return v;
}

template <typename V>
HOST_INLINE V LoadRawPartial(const void* p, uint32_t bytes)
{
    V v = {};
    memcpy(&v, p, bytes);
    return v;
}

HOST_INLINE VF Load(const float* p)
{
    return LoadRaw<VF>(p);
}
HOST_INLINE VF Load(const half* p)
{
    return HalfToFloat(LoadRaw<VH>(p));
}
HOST_INLINE VF Load(const bfloat16_t* p)
{
    return BFloat16ToFloat(LoadRaw<VH>(p));
}
HOST_INLINE VI Load(const int32_t* p)
{
    return LoadRaw<VI>(p);
}

// W elements of a DataBlock that repeats itself, from element `at` on, a multiple of W or of the block's length.
template <typename T>
HOST_INLINE auto LoadBlock(const T* block, [[maybe_unused]] size_t at)
{
    constexpr size_t LENGTH = ONE_BLK_SIZE / sizeof(T);
    if constexpr (LENGTH >= W) {
        return Load(block + at % LENGTH);
    } else {
#if defined(HOST_SIMD_AVX512)
        const __m512i twice = _mm512_broadcast_i32x8(LoadRaw<__m256i>(block));
        return reinterpret_cast<decltype(Load(block))>(twice);
#endif
    }
}

HOST_INLINE VH ToBits(VF v, const half*)
{
    return FloatToHalf(v);
}
HOST_INLINE VH ToBits(VF v, const bfloat16_t*)
{
    return FloatToBFloat16(v);
}
HOST_INLINE VF ToBits(VF v, const float*)
{
    return v;
}
HOST_INLINE VI ToBits(VI v, const int32_t*)
{
    return v;
}

template <typename T, typename V>
HOST_INLINE void Store(T* p, V v)
{
    const auto bits = ToBits(v, p);
    memcpy(p, &bits, sizeof(bits));
}

#if defined(HOST_SIMD_AVX512)
HOST_INLINE VF LoadPartial(const float* p, uint32_t n)
{
    return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << n) - 1u), p);
}
HOST_INLINE VI LoadPartial(const int32_t* p, uint32_t n)
{
    return reinterpret_cast<VI>(_mm512_maskz_loadu_epi32(static_cast<__mmask16>((1u << n) - 1u), p));
}
HOST_INLINE VF LoadPartial(const half* p, uint32_t n)
{
    return HalfToFloat(reinterpret_cast<VH>(_mm256_maskz_loadu_epi16(static_cast<__mmask16>((1u << n) - 1u), p)));
}
HOST_INLINE VF LoadPartial(const bfloat16_t* p, uint32_t n)
{
    return BFloat16ToFloat(reinterpret_cast<VH>(_mm256_maskz_loadu_epi16(static_cast<__mmask16>((1u << n) - 1u), p)));
}
HOST_INLINE void StoreBits(void* p, VF v, uint32_t n)
{
    _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << n) - 1u), v);
}
HOST_INLINE void StoreBits(void* p, VI v, uint32_t n)
{
    _mm512_mask_storeu_epi32(p, static_cast<__mmask16>((1u << n) - 1u), reinterpret_cast<__m512i>(v));
}
HOST_INLINE void StoreBits(void* p, VH v, uint32_t n)
{
    _mm256_mask_storeu_epi16(p, static_cast<__mmask16>((1u << n) - 1u), reinterpret_cast<__m256i>(v));
}
#else
HOST_INLINE VF LoadPartial(const float* p, uint32_t n)
{
#if defined(HOST_SIMD_AVX2)
    static constexpr int32_t LANES[2 * W] = {-1, -1, -1, -1, -1, -1, -1, -1};
    return _mm256_maskload_ps(p, LoadRaw<__m256i>(LANES + W - n));
#else
    return LoadRawPartial<VF>(p, n * 4);
#endif
}
HOST_INLINE VI LoadPartial(const int32_t* p, uint32_t n)
{
    return LoadRawPartial<VI>(p, n * 4);
}
HOST_INLINE VF LoadPartial(const half* p, uint32_t n)
{
    return HalfToFloat(LoadRawPartial<VH>(p, n * 2));
}
HOST_INLINE VF LoadPartial(const bfloat16_t* p, uint32_t n)
{
    return BFloat16ToFloat(LoadRawPartial<VH>(p, n * 2));
}
template <typename V>
HOST_INLINE void StoreBits(void* p, V v, uint32_t n)
{
    memcpy(p, &v, n * (sizeof(V) / W));
}
#endif

template <typename T, typename V>
HOST_INLINE void StorePartial(T* p, V v, uint32_t n)
{
    StoreBits(p, ToBits(v, p), n);
}

// v as it would read back after a store to T.
HOST_INLINE VF Rounded(VF v, const half*)
{
    return HalfToFloat(FloatToHalf(v));
}
HOST_INLINE VF Rounded(VF v, const bfloat16_t*)
{
    return reinterpret_cast<VF>(RoundToBFloat16(v) & 0xffff0000u);
}
HOST_INLINE VF Rounded(VF v, const float*)
{
    return v;
}
HOST_INLINE VI Rounded(VI v, const int32_t*)
{
    return v;
}

// ---- float32 functions, error at most about 1 ULP; Exp with AVX-512 1.75

#if defined(HOST_SIMD_AVX512)

// exp(x) = 2^n * exp(r), n = round(32 x / ln 2) / 32. For any x: results down to the smallest subnormal and up to the
// largest float come out.
HOST_INLINE VF ExpOf(VF x)
{
    constexpr int SMALLER_WITH_SIGN = 2;  // of two magnitudes, with the sign of the first; a number, if one is NaN
    const VF shifted = Fma(x, Set(EXP_LOG2E), Set(EXP_TABLE_MAGIC));
    const VF n = shifted - Set(EXP_TABLE_MAGIC);
    VF r = Fma(n, Set(-LN2_HIGH), x);
    r = Fma(n, Set(-LN2_LOW), r);
    r = _mm512_range_ps(r, Set(EXP_TABLE_LIMIT), SMALLER_WITH_SIGN);
    const VF power = _mm512_permutex2var_ps(_mm512_loadu_ps(EXP_TABLE.data()), reinterpret_cast<__m512i>(shifted),
                                            _mm512_loadu_ps(EXP_TABLE.data() + W));
    const VF q = Fma(Set(EXP_TABLE_C2), r, Set(EXP_TABLE_C1)) * r;
    return _mm512_scalef_ps(Fma(power, q, power), n);  // rounds n down
}

template <uint32_t N>
HOST_INLINE void Exp(VF (&x)[N])
{
#pragma GCC unroll 8
    for (uint32_t k = 0; k < N; ++k) {
        x[k] = ExpOf(x[k]);
    }
}

#else

// exp(x) = 2^n * p, p = exp(r), n = round(x / ln 2), |r| <= ln(2) / 2: a minimax polynomial. n is in the low bits of
// `shifted`.
struct ExpParts {
    VF p;
    VF shifted;
};

HOST_INLINE ExpParts SplitExp(VF x)
{
    const VF shifted = Fma(x, Set(EXP_LOG2E), Set(EXP_MAGIC));
    const VF n = shifted - Set(EXP_MAGIC);
    VF r = Fma(n, Set(-LN2_HIGH), x);
    r = Fma(n, Set(-LN2_LOW), r);
    VF p = Fma(Set(EXP_POLYNOMIAL[0]), r, Set(EXP_POLYNOMIAL[1]));
    p = Fma(p, r, Set(EXP_POLYNOMIAL[2]));
    p = Fma(p, r, Set(EXP_POLYNOMIAL[3]));
    p = Fma(p, r, Set(EXP_POLYNOMIAL[4]));
    if constexpr (FUSES) {
        p = Fma(p, r, Set(1.0f));
        return {Fma(p, r, Set(1.0f)), shifted};
    }
    return {(p * r * r + r) + Set(1.0f), shifted};  // 1 + r is not rounded twice
}

// For any x: results down to the smallest subnormal and up to the largest float come out.
HOST_INLINE VF ExpOf(VF x)
{
    const ExpParts parts = SplitExp(LargerOf(Set(EXP_LEAST), SmallerOf(Set(EXP_MOST), x)));  // NaN stays
    const VI n = AsInt(parts.shifted) - AsInt(Set(EXP_MAGIC));
    const VI half1 = n >> 1;
    const VI half2 = n - half1;
    return (parts.p * AsFloat((half1 + 127) << 23)) * AsFloat((half2 + 127) << 23);
}

// The same of several vectors: where all |x| < 87, n is added to the exponents.
template <uint32_t N>
HOST_INLINE void Exp(VF (&x)[N])
{
    VI largest = SetInt(0);
#pragma GCC unroll 8
    for (uint32_t k = 0; k < N; ++k) {
        const VI magnitude = AsInt(x[k]) & 0x7fffffff;  // as an integer, NaN is larger than any number
        largest = magnitude > largest ? magnitude : largest;
    }
    if (__builtin_expect(Any(largest > AsInt(Set(EXP_SMALL))), 0)) {
#pragma GCC unroll 8
        for (uint32_t k = 0; k < N; ++k) {
            x[k] = ExpOf(x[k]);
        }
        return;
    }
#pragma GCC unroll 8
    for (uint32_t k = 0; k < N; ++k) {
        const ExpParts parts = SplitExp(x[k]);
        x[k] = AsFloat(AsInt(parts.p) + (AsInt(parts.shifted) << 23));
    }
}

#endif

// ln(x), Cephes' logf: x = m * 2^e with sqrt(1/2) <= m < sqrt(2).
HOST_INLINE VF LnOf(VF x)
{
    const VI tiny = x < Set(LN_TINY);
    const VF scaled = Choose(tiny, x * Set(LN_SCALE), x);  // subnormals: times 2^24
    const VI bits = AsInt(scaled);
    VI e = ((bits >> 23) & 0xff) - 126;
    e -= tiny & SetInt(24);
    VF m = AsFloat((bits & 0x007fffff) | 0x3f000000);
    const VI low = m < Set(LN_SQRT_HALF);
    e += low;
    m = Choose(low, m + m, m) - Set(1.0f);
    const VF ef = __builtin_convertvector(e, VF);
    const VF z = m * m;
    VF p = Set(LN_POLYNOMIAL[0]);
#pragma GCC unroll 8
    for (size_t i = 1; i < LN_POLYNOMIAL.size(); ++i) {
        p = Fma(p, m, Set(LN_POLYNOMIAL[i]));
    }
    VF y = m * z * p;
    y = Fma(ef, Set(LN2_LOW), y);
    y = Fma(z, Set(-0.5f), y);
    VF result = Fma(ef, Set(LN2_HIGH), m + y);
    const VF infinity = Set(__builtin_inff());
    result = Choose(x == infinity, infinity, result);
    result = Choose(x == Set(0.0f), -infinity, result);
    return Choose(~(x >= Set(0.0f)), Set(__builtin_nanf("")), result);
}

}  // namespace HOST_ISA
}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_SIMD_SIMD_H
