/*!
 * Loads and stores W elements, or the first n < W of them (the other lanes are zero).
 */
#ifndef ASCENDC_HOST_SIMD_LOADS_H
#define ASCENDC_HOST_SIMD_LOADS_H

#include "simd/halves.h"

namespace AscendC {
namespace host {
namespace HOST_ISA {

// This is the third argument of __builtin_prefetch. The L1 data cache waits for fewer lines at once.
constexpr int L2_CACHE = 2;

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

// Loads W elements of a DataBlock that repeats itself, from element `at` on, a multiple of W or of the block's length.
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

// Returns v as it would read back after a store to T.
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

}  // namespace HOST_ISA
}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_SIMD_LOADS_H
